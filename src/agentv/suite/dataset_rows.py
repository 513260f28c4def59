"""Rows of a dataset file, one at a time: CSV, TSV, JSON Lines, JSON, Parquet, and datasets of Hugging Face.

A row is a mapping from column to value, with the line where it begins (for Parquet and Hugging Face, its number). Rows
that cannot be read are reported with their position, and the others are still read.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from pathlib import Path
from typing import IO, Any, NamedTuple

from agentv.jsonio import JsonError
from agentv.jsonio import read as read_json
from agentv.regular_files import open_regular, read_regular
from agentv.suite.encodings import UTF_16, not_utf_8, utf_16_problem
from agentv.suite.json_lines import message_of, read_lines
from agentv.text import plural

LONGEST_CELL = 16 * 2**20
LARGEST_JSON = 64 * 2**20
"""Bytes of a JSON file, which is read as a whole. Larger ones should be JSON Lines."""
BATCH = 500
_NOT_UTF_8 = re.compile("[\udc80-\udcff]")
_BOM = b"\xef\xbb\xbf"
_JSON_SPACE = re.compile(r"[ \t\r\n,:]*")
"""What is between two values of valid JSON."""
TABULAR = {".csv": ",", ".tsv": "\t"}
"""Files whose cells are text, and what separates them."""
TEXT_SUFFIXES = (*TABULAR, ".jsonl", ".json")
SUFFIXES = (*TEXT_SUFFIXES, ".parquet")


class Row(NamedTuple):
    """One row, and the line where it begins."""

    line: int
    values: dict[str, Any]
    number: int | None = None
    """The number of the row, from 1, if several rows can be on one line."""

    @property
    def node(self) -> int:
        """What identifies the row among the nodes of its file."""
        return self.line if self.number is None else self.number


class BadRow(NamedTuple):
    """A row that cannot be read, or a problem of the whole file."""

    line: int
    column: int
    message: str


Rows = Iterator[Row | BadRow]


def rows_of(path: Path, delimiter: str | None = None) -> Rows:
    """The rows of a file. FileUnusableError or OSError if it cannot be read at all."""
    suffix = path.suffix.lower()
    if suffix in TABULAR:
        with open_regular(path) as stream:
            if (problem := utf_16_problem(stream)) is not None:
                yield BadRow(1, 1, problem)
                return
            text = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="")
            yield from _csv_rows(text, delimiter or TABULAR[suffix])
    elif suffix == ".jsonl":
        with open_regular(path) as stream:
            for line in read_lines(stream):
                yield from (BadRow(line.number, problem.column, message_of(problem)) for problem in line.problems)
                if not line.problems:
                    yield _row(line.number, line.value)
    elif suffix == ".json":
        yield from json_rows(path)
    else:
        yield from _parquet_rows(path)


# -- CSV


@dataclass(slots=True)
class _Lines:
    """The lines of a text file, with the bytes that are not UTF-8 as surrogates."""

    stream: IO[str]
    first_bad: tuple[int, int, int] | None = None
    """Line, column and value of the first byte that is not UTF-8."""
    bad_count: int = 0
    record: list[str] = field(default_factory=list)
    """The lines since the last row began."""

    def __iter__(self) -> Iterator[str]:
        for number, line in enumerate(self.stream, 1):
            self.record.append(line)
            found = None if line.isascii() else _NOT_UTF_8.search(line)
            if found is not None:
                self.bad_count += 1
                self.first_bad = self.first_bad or (number, found.start() + 1, ord(found[0]) - 0xDC00)
            yield line

    def problem(self) -> Iterator[BadRow]:
        if self.first_bad is not None:
            line, column, byte = self.first_bad
            more = f" ({plural(self.bad_count, 'line')} of the file)" if self.bad_count > 1 else ""
            yield BadRow(line, column, not_utf_8(byte) + more)


def _csv_rows(stream: IO[str], delimiter: str) -> Rows:
    import csv  # noqa: PLC0415 - most datasets are not tables

    csv.field_size_limit(LONGEST_CELL)
    lines = _Lines(stream)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    names: list[str] | None = None
    while True:
        line, bad_before = reader.line_num + 1, lines.bad_count
        lines.record.clear()
        try:
            cells = next(reader)
        except StopIteration:
            break
        except csv.Error as error:  # the next line begins a new row
            yield BadRow(line, 1, f"not valid CSV: {_explained(error)}")
            continue
        if not cells or cells == [""]:
            continue
        if names is None:
            names = [name.strip() for name in cells]
            if (problem := _header_problem(names, delimiter)) is not None:
                yield BadRow(line, 1, problem)
                break
        elif len(cells) != len(names):
            yield BadRow(line, 1, f"the row must have {plural(len(names), 'cell')} like the header, got {len(cells)}")
        elif (at := next((index for index, cell in enumerate(cells) if "\0" in cell), None)) is not None:
            row, column = cell_offset("".join(lines.record), at, delimiter)
            yield BadRow(line + row, column, f"`{names[at]}` contains a NUL character; is the file binary?")
        elif lines.bad_count == bad_before:
            yield Row(line, dict(zip(names, cells, strict=True)))
    yield from lines.problem()


def header_of(path: Path, delimiter: str) -> list[str]:
    """The names of the columns of a CSV file; none if it has no row that can be read."""
    row = next((row for row in rows_of(path, delimiter) if isinstance(row, Row)), None)
    return [] if row is None else list(row.values)


def _explained(error: Exception) -> str:
    text = str(error)
    if "expected after" in text:
        return "a quote inside a quoted cell must be doubled, or a delimiter is missing after it"
    if "unexpected end of data" in text:
        return "a quoted cell that begins here is never closed"
    if "field larger" in text:
        return f"a cell is longer than {LONGEST_CELL // 2**20} MiB; is a quote never closed?"
    return text


def _header_problem(names: list[str], delimiter: str) -> str | None:
    if "" in names:
        return f"column {names.index('') + 1} of the header has no name"
    twice = next((name for index, name in enumerate(names) if name in names[:index]), None)
    if twice is not None:
        return f"the header has two columns named {twice!r}"
    other = next((char for char in ";\t|," if char != delimiter and char in names[0]), None)
    if len(names) == 1 and other is not None:
        return f"the header has only one column; if cells are separated by {other!r}, set `delimiter: {other!r}`"
    return None


def cell_offset(record: str, index: int, delimiter: str) -> tuple[int, int]:
    """Line (from 0) and column (from 1) of a cell in the text of a record."""
    cell, start, in_quotes = 0, 0, False
    for place, char in enumerate(record):
        if cell == index:
            break
        if char == '"':
            in_quotes = not in_quotes
        elif char == delimiter and not in_quotes:
            cell, start = cell + 1, place + 1
    before = record[:start]
    return before.count("\n"), start - (before.rfind("\n") + 1) + 1


# -- JSON


def _row(line: int, value: Any, column: int = 1, number: int | None = None) -> Row | BadRow:
    if isinstance(value, dict):
        return Row(line, value, number)
    return BadRow(line, column, "a row must be an object with a value for each column")


def json_rows(path: Path, beside: dict[str, Any] | None = None) -> Rows:
    """The rows of a JSON file. If their list is in an object, its other values are put into `beside` first."""
    data = read_regular(path, LARGEST_JSON)
    text = data.decode("utf-8-sig", "replace")
    try:
        value = read_json(data.removeprefix(_BOM))
    except JsonError as error:
        located = error.located(text)
        message = f"not valid JSON: {error.problem}"
        if error.kind == "encoding":
            is_utf_16 = utf_16_problem(io.BytesIO(data[:4])) is not None
            message = UTF_16 if is_utf_16 else not_utf_8(data.removeprefix(_BOM)[error.offset or 0])
        yield BadRow(located.line, located.column, message)
        return
    node = json_rows_node(value)
    if node is None:
        yield BadRow(1, 1, "the file must contain a list of objects, or an object with one list")
        return
    if node == SINGLE:
        yield Row(1 + text[: text.index("{")].count("\n"), value, 1)
        return
    line, counted = 1, 0
    rows = value[node[0]] if node else value
    if node and beside is not None:
        beside |= {key: each for key, each in value.items() if key != node[0]}
    for number, (offset, row) in enumerate(zip(_json_offsets(text, node), rows, strict=True), 1):
        line, counted = line + text.count("\n", counted, offset), offset
        yield _row(line, row, offset - text.rfind("\n", 0, offset), number)


SINGLE = ("id",)
"""Instead of the node of a list: the file is one row."""


def json_rows_node(value: Any) -> tuple[str, ...] | None:
    """Where the rows of a JSON file are: `()` or the key of the list, or `SINGLE`. None if it has no rows."""
    if isinstance(value, list):
        return ()
    if not isinstance(value, dict):
        return None
    if "id" in value:
        return SINGLE
    lists = [key for key, item in value.items() if isinstance(item, list)]
    return (lists[0],) if len(lists) == 1 else None


def _json_offsets(text: str, node: tuple[str, ...]) -> Iterator[int]:
    """Where the items of the list at a node of valid JSON begin."""
    decode = json.JSONDecoder(parse_int=len, parse_float=len).raw_decode  # any number, of any length
    at = _json_next(text, 0) + 1
    while node:
        key, at = decode(text, _json_next(text, at))
        at = _json_next(text, at)
        if key == node[0]:
            at += 1
            break
        _, at = decode(text, at)
    while text[at := _json_next(text, at)] != "]":
        yield at
        _, at = decode(text, at)


def _json_next(text: str, at: int) -> int:
    """The offset of the next value, key or closing bracket."""
    space = _JSON_SPACE.match(text, at)
    return at if space is None else space.end()


# -- Parquet and Hugging Face


def _parquet_rows(path: Path) -> Rows:
    try:
        from pyarrow import ArrowException, parquet  # noqa: PLC0415 - an extra
    except ImportError:
        yield BadRow(1, 1, "Parquet needs another package: run `pip install 'agentv[parquet]'`")
        return
    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=BATCH):
                for values in batch.to_pylist():
                    number += 1
                    yield Row(number, _plain(values))
    except (ArrowException, OSError) as error:
        yield BadRow(number + 1, 1, f"not a valid Parquet file: {error}")


class HuggingFace(NamedTuple):
    """A dataset of the `datasets` library: a name of the hub, or a directory."""

    name: str
    split: str | None = None
    config: str | None = None
    revision: str | None = None

    def open(self, directory: Path, problem: Callable[[str], None]) -> Any:
        """The dataset; None after `problem` was called with the reason."""
        try:
            import datasets  # noqa: PLC0415 - an extra
        except ImportError:
            problem("`hf` needs another package: run `pip install 'agentv[hf]'`")
            return None
        local = directory / self.name
        name = str(local) if local.is_dir() else self.name
        try:
            if (local / "dataset_info.json").exists() or (local / "dataset_dict.json").exists():
                loaded = datasets.load_from_disk(name)
            else:
                loaded = datasets.load_dataset(name, self.config, revision=self.revision)
        except Exception as error:
            problem(f"the dataset {self.name!r} cannot be loaded: {error}")
            return None
        return self._one_split(loaded, problem)

    def _one_split(self, loaded: Any, problem: Callable[[str], None]) -> Any:
        if not hasattr(loaded, "keys"):
            own = getattr(loaded, "split", None)
            if self.split is not None and str(own) != self.split:
                known = "has no splits" if own is None else f"has only the split {own}"
                problem(f"the dataset {self.name!r} {known}: remove `split`")
                return None
            return loaded
        splits = list(loaded.keys())
        if self.split is None and len(splits) == 1:
            return loaded[splits[0]]
        if self.split not in splits:
            problem(f"`split` must be one of {', '.join(splits)}, got {self.split or 'nothing'}")
            return None
        return loaded[self.split]


def dataset_rows(dataset: Iterable[Mapping[str, Any]]) -> Rows:
    """The rows of a dataset of the `datasets` library."""
    for number, values in enumerate(dataset, 1):
        yield Row(number, _plain(dict(values)))


def _plain(value: Any) -> Any:
    """A value of another library as JSON."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if hasattr(value, "as_tuple"):  # a decimal number
        return float(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)
