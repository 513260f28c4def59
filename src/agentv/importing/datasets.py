"""Convert the datasets of DeepEval and Ragas to a suite that reads them, or to cases where rows must be changed."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from agentv import jsonio
from agentv.importing.prompts import free, slug
from agentv.importing.source import Node, Note, Notes, read_text, unreadable
from agentv.importing.source import UnreadableError as Unreadable
from agentv.suite.dataset_cases import AUTOMATIC
from agentv.suite.dataset_rows import SUFFIXES, BadRow, rows_of
from agentv.suite.variables import CASE_TEMPLATES
from agentv.templates import has_template
from agentv.text import one_of

ANSWERED = ("actual_output", "response")
"""Columns with the answers of an application."""
PASSAGES = ("retrieval_context", "context", "retrieved_contexts", "reference_contexts")
_LISTS = ("goldens", "test_cases", "testCases", "samples", "data", "rows")
"""Keys under which a JSON file may list its rows."""


@dataclass(frozen=True, slots=True)
class Kind:
    """The names of one tool's columns."""

    name: str
    columns: Mapping[str, str]
    """Field of the case -> column."""
    aliases: Mapping[str, str]
    """Other spelling of a column -> the column."""
    separators: str = ""
    """Characters that can separate passages in one cell."""


DEEPEVAL = Kind(
    "deepeval",
    {
        "input": "input",
        "reference_answer": "expected_output",
        "metadata.retrieval_context": "retrieval_context",
        "metadata.context": "context",
    },
    {
        "expectedOutput": "expected_output",
        "actualOutput": "actual_output",
        "retrievalContext": "retrieval_context",
        "additionalMetadata": "additional_metadata",
    },
    "|;",
)
RAGAS = Kind(
    "ragas",
    {
        "input": "user_input",
        "reference_answer": "reference",
        "metadata.retrieval_context": "retrieved_contexts",
        "metadata.context": "reference_contexts",
    },
    {"question": "user_input", "ground_truth": "reference", "answer": "response", "contexts": "retrieved_contexts"},
)
KINDS = {kind.name: kind for kind in (DEEPEVAL, RAGAS)}


@dataclass(frozen=True, slots=True)
class ImportedDataset:
    """A suite, the answers in the dataset as rows for `--outputs`, and notes."""

    suite: dict[str, Any]
    answers: list[dict[str, Any]]
    notes: tuple[Note, ...]
    cases: int


def import_dataset(path: Path, out: Path, kind: Kind) -> ImportedDataset:
    """Read a dataset for a suite in the directory `out`. Raises InvalidFilesError if it cannot be imported."""
    if path.suffix.lower() not in SUFFIXES:
        raise unreadable(path, f"a dataset must be {one_of(SUFFIXES)}, got '{path.suffix}'")
    try:
        rows = _rows(path)
    except Unreadable as error:
        raise unreadable(path, str(error), error.line) from None
    return _Dataset(path, out, kind, rows).run()


def _rows(path: Path) -> list[Node]:
    """The rows of a file, with their lines. Raises UnreadableError."""
    if path.suffix == ".json":
        try:
            value = jsonio.read(read_text(path))
        except ValueError as error:
            raise Unreadable(f"not valid JSON: {error}") from None
        if isinstance(value, dict):
            listed = next((value[key] for key in _LISTS if isinstance(value.get(key), list)), None)
            if listed is None:
                raise Unreadable(f"the file must be a list of rows, or a mapping with {one_of(_LISTS)}")
            return [Node(row, path, lambda _: 1) for row in listed]
    rows: list[Node] = []
    try:
        for row in rows_of(path):
            if isinstance(row, BadRow):
                raise Unreadable(row.message, row.line)
            rows.append(Node(dict(row.values), path, lambda _, line=row.line: line))  # type: ignore[misc]
    except OSError as error:
        raise Unreadable(f"the file cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise error if isinstance(error, Unreadable) else Unreadable(f"the file {error}") from None
    return rows


class _Dataset:
    def __init__(self, path: Path, out: Path, kind: Kind, rows: list[Node]) -> None:
        self.path, self.out, self.kind, self.rows = path, out, kind, rows
        self.notes = Notes()

    def run(self) -> ImportedDataset:
        if not self.rows:
            raise unreadable(self.path, "the dataset is empty")
        if self._can_be_read():
            return ImportedDataset(self._suite(self._reference()), [], (), len(self.rows))
        cases: list[dict[str, Any]] = []
        answers: list[dict[str, Any]] = []
        taken: set[str] = set()
        for number, row in enumerate(self.rows, 1):
            case = self._case(row, number, taken)
            if case is None:
                continue
            cases.append(case)
            answer = next((row.raw(self._name(row, name)) for name in ANSWERED if row.raw(self._name(row, name))), None)
            if isinstance(answer, str):
                answers.append({"eval_id": case["id"], "candidate_answer": answer})
        if not cases:
            raise unreadable(self.path, f"no row has a question (`{self.kind.columns['input']}`)")
        return ImportedDataset(self._suite(cases), answers, tuple(self.notes.all), len(cases))

    def _suite(self, cases: Any) -> dict[str, Any]:
        return {"execution": {"evaluators": [{"type": "llm_judge"}]}, "evalcases": cases}

    # -- the file as it is

    def _reference(self) -> dict[str, Any]:
        relative = os.path.relpath(self.path.resolve(), self.out.resolve())
        names = self.rows[0].value
        return {"file": relative, "columns": {f: name for f, name in self.kind.columns.items() if name in names}}

    def _can_be_read(self) -> bool:
        """Whether a suite can read the file: every row has the same columns, and no value must be changed."""
        mapped = set(self.kind.columns.values())
        names = [mapped & row.value.keys() for row in self.rows if row.is_mapping]
        if len(names) < len(self.rows) or self.kind.columns["input"] not in names[0]:
            return False
        if any(each != names[0] for each in names):
            return False
        if self.path.suffix == ".json" and not read_text(self.path).lstrip().startswith("["):
            return False
        is_text = self.path.suffix in (".csv", ".tsv")
        return not any(self._must_change(key, value, is_text) for row in self.rows for key, value in row.value.items())

    def _must_change(self, key: str, value: Any, is_text: bool) -> bool:
        if value is None or value == "":
            return key == self.kind.columns["input"]
        if key in self.kind.aliases or key in ANSWERED:
            return True
        if key == self.kind.columns["input"]:
            return not isinstance(value, str)
        if key in PASSAGES:
            return is_text
        return key in AUTOMATIC and key not in self.kind.columns.values() and not isinstance(value, str)

    # -- rows as cases

    def _name(self, row: Node, column: str) -> str:
        """How a row spells a column."""
        other = next(
            (alias for alias, name in self.kind.aliases.items() if name == column and alias in row.value), None
        )
        return other if column not in row.value and other is not None else column

    def _case(self, row: Node, number: int, taken: set[str]) -> dict[str, Any] | None:
        if not row.is_mapping:
            self.notes.left_out(row, f"row {number} must be a mapping from columns to values")
            return None
        question = row.raw(self._name(row, self.kind.columns["input"]))
        question = row.raw("turns") if question is None else question
        asked = _input(question)
        if asked is None:
            missing = "a simulated conversation" if row.get("scenario") else f"no `{self.kind.columns['input']}`"
            self.notes.left_out(row, f"row {number} is not imported: it has {missing}")
            return None
        name = row.raw("id") or row.raw("name")
        case: dict[str, Any] = {"id": free(slug(str(name)) if name else f"row-{number}", taken), "input": asked}
        taken.add(case["id"])
        used = {self._name(row, self.kind.columns["input"]), "turns", "id"}
        for field, column in self.kind.columns.items():
            key = self._name(row, column)
            value = row.raw(key)
            if field == "input" or value in (None, "", []):
                continue
            used.add(key)
            if field.startswith("metadata."):
                case.setdefault("metadata", {})[field.removeprefix("metadata.")] = self._passages(value)
            else:
                case[field] = value if isinstance(value, str) else jsonio.dump_line(value)
        answers = {self._name(row, name) for name in ANSWERED}
        rest = {k: v for k, v in row.value.items() if k not in used | answers and v not in (None, "", [])}
        for key in ("additional_metadata", "additionalMetadata"):
            if isinstance(rest.get(key), dict):
                case["metadata"] = {**rest.pop(key), **case.get("metadata", {})}
        return _with_literals(case, rest)

    def _passages(self, value: Any) -> Any:
        """Passages as a list. In CSV files, they are one cell: JSON, a list of Python, or separated text."""
        if not isinstance(value, str):
            return value
        text = value.strip()
        parsers: tuple[Callable[[str], Any], ...] = (jsonio.read, ast.literal_eval)
        for parse in parsers if text.startswith("[") else ():
            try:
                parsed = parse(text)
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                continue
            if isinstance(parsed, list):
                return [str(item) for item in parsed]
        separator = next((char for char in self.kind.separators if char in text), None)
        return [part.strip() for part in text.split(separator) if part.strip()] if separator else [text]


def _with_literals(case: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
    """The case with these variables. Text that looks like a template becomes a variable, which is not rendered."""
    known = dict(variables)

    def literal(value: Any, name: str) -> Any:
        if isinstance(value, str) and has_template(value):
            numbered = (name if number == 1 else f"{name}_{number}" for number in count(1))
            variable = next(each for each in numbered if each not in known)
            known[variable] = value
            return f"{{{{ {variable} }}}}"
        if isinstance(value, list):
            return [literal(item, name) for item in value]
        return {key: literal(item, name) for key, item in value.items()} if isinstance(value, dict) else value

    fields = {key: literal(value, key) if key in CASE_TEMPLATES else value for key, value in case.items()}
    return fields | ({"vars": known} if known else {})


_ROLES = {"human": "user", "user": "user", "ai": "assistant", "assistant": "assistant", "tool": "tool"}


def _input(value: Any) -> str | list[dict[str, Any]] | None:
    """The input of a case: a question, or a conversation up to its last question."""
    if isinstance(value, str):
        is_list = re.match(r"\s*\[\s*\{", value)
        return _input(_parsed(value)) if is_list else (value if value.strip() else None)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        return None
    messages: list[dict[str, Any]] = []
    for item in value:
        role = _ROLES.get(str(item.get("type") or item.get("role")))
        if role is None:
            return None
        message: dict[str, Any] = {"role": role, "content": str(item.get("content") or "")}
        if calls := item.get("tool_calls"):
            message["tool_calls"] = [{"tool": call.get("name"), "input": call.get("args")} for call in calls]
        messages.append(message)
    while messages and messages[-1]["role"] != "user":
        messages.pop()
    return messages or None


def _parsed(text: str) -> Any:
    try:
        return jsonio.read(text)
    except ValueError:
        return None
