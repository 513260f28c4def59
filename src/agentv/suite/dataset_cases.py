"""Cases from the rows of a dataset: which column becomes which field of a case. All columns become variables."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import Field

from agentv.jsonio import JsonError, dump_line, find_problems
from agentv.jsonio import read as read_json
from agentv.regular_files import FileUnusableError, open_regular, read_regular
from agentv.suite.dataset_rows import LARGEST_JSON, SINGLE, TABULAR, cell_offset, header_of, json_rows_node
from agentv.suite.findings import Findings, Form, Place, json_line_places
from agentv.suite.json_lines import bounded_lines
from agentv.suite.models import CaseModel, FileModel
from agentv.suite.yaml import Mark, NodePath
from agentv.text import did_you_mean, some_of

METADATA = "metadata."
_RECORD_LINES = 50
"""Lines of a record in which a cell is looked for."""
AUTOMATIC = ("id", "input", "question", "reference_answer", "expected_outcome", "threshold", "tags")
"""Columns of these names become the field of the case of the same name, unless `columns` says otherwise."""
_STRINGS = (*AUTOMATIC[:5], "outcome", "conversation_id", "evaluator")
FIELDS = tuple(info.alias or name for name, info in CaseModel.model_fields.items() if name != "vars")


class DatasetModel(FileModel):
    """A file with cases, or with rows that become cases."""

    file: str | None = Field(
        None,
        min_length=1,
        description="CSV, TSV, JSON, JSON Lines, YAML or Parquet file, directory or glob, relative to the suite.",
    )
    hf: str | None = Field(
        None, min_length=1, description="Dataset of the `datasets` library: a name of the hub, or a directory."
    )
    split: str | None = Field(None, min_length=1, description="With `hf`: the split.")
    config: str | None = Field(None, min_length=1, description="With `hf`: the configuration of the dataset.")
    revision: str | None = Field(None, min_length=1, description="With `hf`: the commit, tag or branch.")
    columns: dict[str, str] | None = Field(
        None,
        description="Field of the case -> column. All columns are also variables. With `columns: {}`, JSON and JSON "
        "Lines files are read as rows, too.",
    )
    delimiter: str | None = Field(None, min_length=1, max_length=1, description="Separates the cells of a CSV file.")
    vars: dict[str, Any] | None = Field(None, description="Variables of all cases of this file.")


@dataclass(slots=True)
class RowMapping:
    """Turns rows into cases, as a case would be written in a suite."""

    columns: Mapping[str, str] = field(default_factory=dict)
    texts: bool = True
    """Whether all values are text, as in CSV."""
    ids: Counter[str] = field(default_factory=Counter)
    """How often each id was made from the content of a row. All files of an entry share it."""

    def unknown_columns(self, known: Iterable[str], name: str) -> list[tuple[str, str]]:
        """The fields whose column does not exist, with the message."""
        names = list(known)
        return [
            (target, f"{name} has no column {column!r}{did_you_mean(column, names)}; columns: "
             f"{some_of(names, near=column)}")
            for target, column in self.columns.items() if column not in names
        ]  # fmt: skip

    def case(self, values: Mapping[str, Any], row: int, findings: Findings) -> dict[str, Any]:
        """The case of a row. Cells that cannot be read are reported."""
        case: dict[str, Any] = {"vars": dict(values)}
        named = {name: name for name in AUTOMATIC if name in values and name not in self.columns}
        for target, column in {**named, **self.columns}.items():
            value = values.get(column)
            if value is None or value == "" or field_problem(target) is not None:
                continue
            if target.startswith(METADATA):
                case.setdefault("metadata", {})[target.removeprefix(METADATA)] = value
                continue
            case[target] = self._cell(target, value, (row, target), findings) if self.texts else value
        for name, value in values.items():
            if name.startswith(METADATA) and name not in self.columns.values():
                case.setdefault("metadata", {})[name.removeprefix(METADATA)] = value
        if "id" not in case:
            case["id"] = self._new_id(values)
        return case

    def _cell(self, name: str, text: Any, node: NodePath, findings: Findings) -> Any:
        """The text of a cell as the value that the field needs."""
        if not isinstance(text, str) or name in _STRINGS:
            return text
        if name == "tags":
            return [tag for tag in re.split(r"\s*[,;]\s*", text.strip()) if tag]
        if name == "threshold":
            try:
                return float(text)
            except ValueError:
                findings.add(node, f"`threshold` must be a number from 0 to 1, got {text!r}")
                return None
        try:
            return read_json(text)
        except JsonError as error:
            findings.add(node, f"`{name}` must be JSON: {error.problem}")
            return None

    def _new_id(self, values: Mapping[str, Any]) -> str:
        """An id that depends on the contents of the row alone, so that it stays the same when rows are moved."""
        digest = hashlib.sha256(dump_line(dict(sorted(values.items()))).encode("utf-8")).hexdigest()
        self.ids[digest[:10]] += 1
        count = self.ids[digest[:10]]
        return f"row-{digest[:10]}" if count == 1 else f"row-{digest[:10]}-{count}"


def field_problem(name: str) -> str | None:
    """What is wrong with a key of `columns`; None if it is a field of a case."""
    if name in FIELDS or (name.startswith(METADATA) and len(name) > len(METADATA)):
        return None
    return f"unknown field `{name}`{did_you_mean(name, FIELDS)}; a column can become {some_of(FIELDS, near=name)}"


# -- positions


def form_of(path: Path, columns: Mapping[str, str], delimiter: str | None) -> Form:
    """How positions in a dataset file are found."""
    suffix = path.suffix.lower()
    if suffix in TABULAR:
        separator = delimiter or TABULAR[suffix]
        return Form(lambda file, nodes: _csv_places(file, nodes, separator), columns=columns)
    if suffix == ".jsonl":
        return Form(json_line_places, columns=columns)
    if suffix == ".json":
        return Form(_json_places, columns=columns)
    return Form(_row_places, has_lines=False, columns=columns)


def _row_places(_: Path, __: Iterable[NodePath]) -> Place:
    """Positions in a file without lines: the number of the row."""

    def place(node: NodePath) -> tuple[Mark, bool]:
        number = node[0] if node and isinstance(node[0], int) else 1
        return Mark(number, 1, number, 1), len(node) <= 1

    return place


def _json_places(path: Path, _: Iterable[NodePath]) -> Place:
    """Positions in a JSON file, whose nodes begin with the number of the row."""
    text, rows = "", None
    offsets: dict[NodePath, tuple[int, int]] = {}
    try:
        text = read_regular(path, LARGEST_JSON).decode("utf-8-sig", "replace")
        rows = json_rows_node(read_json(text))
    except (OSError, FileUnusableError, JsonError):
        pass  # the file has changed
    for _problem in find_problems(text, offsets):
        pass

    def mark(offset: int) -> tuple[int, int]:
        return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)

    def place(node: NodePath) -> tuple[Mark, bool]:
        number, *rest = node
        whole = tuple(rest) if rows == SINGLE else (*(rows or ()), int(number) - 1, *rest)
        for length in range(len(whole), -1, -1):
            if whole[:length] in offsets:
                value_at, key_at = offsets[whole[:length]]
                return Mark(*mark(value_at), *mark(key_at)), length == len(whole)
        return Mark(1, 1, 1, 1), False

    return place


def _csv_places(path: Path, nodes: Iterable[NodePath], delimiter: str) -> Place:
    wanted = {node[0] for node in nodes if node and isinstance(node[0], int)}
    lines = _lines(path, {number + more for number in wanted for more in range(_RECORD_LINES)})
    names = header_of(path, delimiter)

    def place(node: NodePath) -> tuple[Mark, bool]:
        number = node[0] if node and isinstance(node[0], int) else 1
        if len(node) > 1 and node[1] in names:
            record = "".join(lines.get(number + more, "") for more in range(_RECORD_LINES))
            line, column = cell_offset(record, names.index(str(node[1])), delimiter)
            return Mark(number + line, column, number + line, column), True
        return Mark(number, 1, number, 1), len(node) <= 1

    return place


def _lines(path: Path, numbers: set[int]) -> dict[int, str]:
    lines: dict[int, str] = {}
    last = max(numbers, default=0)
    try:
        with open_regular(path) as stream:
            for number, line in enumerate(bounded_lines(stream), 1):
                if number > last:
                    break
                if number in numbers:
                    lines[number] = line.decode("utf-8-sig" if number == 1 else "utf-8", "replace")
    except (OSError, FileUnusableError):
        pass  # the position of the row is still known
    return lines
