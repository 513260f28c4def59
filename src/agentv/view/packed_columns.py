"""Columns as bytes that a browser uses as they are, without parsing numbers or strings.

    4 bytes    the length of the head, little-endian
    head       `ColumnsData` of `static/types.js` as JSON; a column in it is [kind, place, length]
    columns    each at a multiple of 8 bytes after the head, little-endian; those in `LATER` are last

`parts` in the head says where the columns before those end, and where all do: a table is shown before its questions and
reasons arrive.

Kinds are `b`, `h`, `i` (integers of 1, 2 and 4 bytes), `d` (floats of 8 bytes; NaN is unknown), `u` (UTF-8) and `z`
(UTF-8, deflated). Floats of which many are equal are ["t", numbers, table]: each value once, and for each row the
number of its value. A column of strings has the number of a string for each row, and every string once, with its end
counted as JavaScript counts.
"""

from __future__ import annotations

import json
import struct
import sys
import zlib
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from math import isnan
from typing import Any

NUMBERS = (
    "suite",
    "target",
    "attempt",
    "score",
    "outcome",
    "threshold",
    "trial",
    "stage",
    "duration_ms",
    "started_at",
    "cost_usd",
    "judge_cost_usd",
    "judge_calls",
    "tokens",
    "answer_length",
    "answer",
    "tag_set",
)
LATER = ("question", "reason")
STRINGS = ("eval_id", *LATER)
LISTS, MAPPINGS = ("evaluator_scores", "tool_calls"), ("metadata_index",)
"""Several columns under one name."""
_WHOLE = frozenset(("attempt", "started_at", "judge_calls", "tokens"))
"""Numbers that are whole, also those that are too large for an integer of 4 bytes."""
_COLUMNS = frozenset((*NUMBERS, *STRINGS, *LISTS, *MAPPINGS))
_SIZES = {"b": 1, "h": 2, "i": 4, "d": 8}
_ALIGNED = 8
_LEVEL = 1
_REPEATED = 4
"""Floats are in a table if each occurs so often, on average."""

Columns = Mapping[str, Any]
"""`ColumnsData`: columns of numbers are arrays, columns of strings are `TextColumn`; all else is JSON."""


@dataclass(frozen=True, slots=True)
class TextColumn:
    """Strings of rows, each text once."""

    index: array[int]
    """The number of the text of each row."""
    strings: list[str]
    """In the order in which they first occur."""
    first: int = 0
    """The number of the first of `strings`. Rows may have strings with smaller numbers, which were sent before."""

    def after(self, start: int) -> TextColumn:
        """The rows from `start` on, with the strings that no row before them has."""
        known = max(self.index[:start], default=self.first - 1) + 1
        return TextColumn(self.index[start:], self.strings[known - self.first :], known)


def after(data: Columns, start: int) -> Columns:
    """The rows from `start` on. Dictionaries are complete."""
    start = min(max(0, start), data["count"])
    if not start:
        return data
    part = {
        name: value.after(start) if isinstance(value, TextColumn) else _each(lambda column: column[start:], name, value)
        for name, value in data.items()
    }
    return {**part, "start": data["start"] + start, "count": data["count"] - start}


def _each(change: Callable[[Any], Any], name: str, value: Any) -> Any:
    """A field with each of its columns changed. Other fields stay as they are."""
    if name in MAPPINGS:
        return {key: change(column) for key, column in value.items()}
    if name in LISTS:
        return [change(column) for column in value]
    return change(value) if name in _COLUMNS else value


def masked(data: Columns, mask: Callable[[str], str]) -> Columns:
    """The same columns with all strings masked. `mask` gets and returns JSON."""

    def of(value: Any) -> Any:
        return json.loads(mask(json.dumps(value, ensure_ascii=False)))

    columns: dict[str, Any] = {}
    for name, value in data.items():
        if isinstance(value, TextColumn):
            columns[name] = TextColumn(value.index, of(value.strings), value.first)
        elif name in MAPPINGS:
            columns[name] = {of(key): column for key, column in value.items()}
        else:
            columns[name] = value if name in _COLUMNS else of(value)
    return columns


def plain(data: Columns) -> dict[str, Any]:
    """The same with a list for each column: one text per row, and None for unknown numbers."""
    return {name: _each(partial(_listed, name in _WHOLE), name, value) for name, value in data.items()}


def _listed(is_whole: bool, column: Any) -> list[Any]:
    if isinstance(column, TextColumn):
        if column.first:
            raise ValueError("rows that continue others do not have all strings")
        return [column.strings[number] for number in column.index]
    if column.typecode != "d":
        return list(column)
    if is_whole:
        return [None if isnan(value) else int(value) for value in column]
    return [None if isnan(value) else value for value in column]


# -- bytes


def pack(data: Columns) -> bytes:
    """The columns as bytes."""
    body = _Body()
    head: dict[str, Any] = {"parts": []}
    for name in sorted(data, key=lambda name: name in LATER):
        if name == LATER[0]:
            head["parts"].append(body.end)
        value = data[name]
        head[name] = (
            body.add_strings(value, name in LATER) if isinstance(value, TextColumn) else _each(body.add, name, value)
        )
    head["parts"].append(body.end)
    text = json.dumps(head, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    text += b" " * (-(4 + len(text)) % _ALIGNED)
    return b"".join((struct.pack("<I", len(text)), text, *body.pieces))


class _Body:
    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.end = 0

    def add(self, column: array[Any]) -> list[Any]:
        """Add a column. Returns what refers to it."""
        if column.typecode == "d":
            # As bits, because NaN is not equal to itself.
            bits = array("q", column.tobytes())
            numbers = {value: number for number, value in enumerate(dict.fromkeys(bits))}
            if len(numbers) * _REPEATED <= len(bits):
                table = array("d", array("q", numbers).tobytes())
                return ["t", self._add(array("i", map(numbers.__getitem__, bits))), self._add(table)]
        return self._add(column)

    def _add(self, column: array[Any]) -> list[Any]:
        column = _narrow(column)
        kind, length = column.typecode, len(column)
        if sys.byteorder == "big":
            column = column[:]
            column.byteswap()
        return [kind, self._append(column.tobytes()), length]

    def add_strings(self, column: TextColumn, is_deflated: bool) -> dict[str, Any]:
        text = "".join(column.strings).encode("utf-8")
        if is_deflated:
            text = zlib.compress(text, _LEVEL, -zlib.MAX_WBITS)
        return {
            "index": self.add(column.index),
            "first": column.first,
            "ends": self.add(array("i", accumulate(map(_units, column.strings)))),
            "text": ["z" if is_deflated else "u", self._append(text), len(text)],
        }

    def _append(self, piece: bytes) -> int:
        place = self.end
        padded = -len(piece) % _ALIGNED
        self.pieces += (piece, b"\0" * padded)
        self.end += len(piece) + padded
        return place


def _units(text: str) -> int:
    """The length of a text in JavaScript, where characters outside of the basic plane count twice."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def _narrow(column: array[Any]) -> array[Any]:
    """The same integers in as few bytes as all of them need; as floats if they need more than 4."""
    if column.typecode == "d":
        return column
    least, most = min(column, default=0), max(column, default=0)
    kind = next(
        (kind for kind in "bhi" if -1 << 8 * _SIZES[kind] - 1 <= least and most < 1 << 8 * _SIZES[kind] - 1), "d"
    )
    return column if kind == column.typecode else array(kind, column)


def unpack(packed: bytes) -> Columns:
    """The columns in bytes that `pack` has returned. Raises ValueError for others."""
    try:
        (length,) = struct.unpack_from("<I", packed)
        head = json.loads(packed[4 : 4 + length])
        body = memoryview(packed)[4 + length :]
        del head["parts"]
        return {
            name: _strings(body, value) if name in STRINGS else _each(lambda place: _column(body, place), name, value)
            for name, value in head.items()
        }
    except (struct.error, zlib.error, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not packed columns: {error}") from error


def _column(body: memoryview, place: Any) -> array[Any]:
    kind, start, length = place
    if kind == "t":
        return array("d", map(_column(body, length).__getitem__, _column(body, start)))
    column = array(kind)
    contents = body[start : start + length * _SIZES[kind]]
    if len(contents) != length * _SIZES[kind]:
        raise ValueError("a column is incomplete")
    column.frombytes(contents)
    if sys.byteorder == "big":
        column.byteswap()
    return column


def _strings(body: memoryview, value: Mapping[str, Any]) -> TextColumn:
    kind, start, length = value["text"]
    contents, ends = bytes(body[start : start + length]), _column(body, value["ends"])
    text = (zlib.decompress(contents, -zlib.MAX_WBITS) if kind == "z" else contents).decode("utf-8")
    index = _column(body, value["index"])
    if text.isascii():
        return TextColumn(index, _between(text, ends), value["first"])
    units = text.encode("utf-16-le")
    return TextColumn(
        index,
        [part.decode("utf-16-le") for part in _between(units, array("q", (2 * end for end in ends)))],
        value["first"],
    )


def _between(whole: Any, ends: Iterable[int]) -> list[Any]:
    parts, start = [], 0
    for end in ends:
        parts.append(whole[start:end])
        start = end
    return parts
