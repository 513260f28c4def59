"""Full-text search in a run: rows whose answer, case or judge calls contain a text, in upper or lower case.

Only strings count, not the names of fields. Files are searched as bytes, and only lines that may contain the text are
parsed, so that 350 MB take about a second. `FileSource.search` in `static/file_source.js` finds the same rows.
"""

from __future__ import annotations

import json
import re
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import groupby, product
from pathlib import Path
from typing import Any

from agentv.record.files import LONGEST_LINE, failure, open_recorded
from agentv.record.line_index import CALL_KEY
from agentv.results import RowKey
from agentv.view.ledger_lines import identity_of, parsed
from agentv.view.open_run import OpenRun

_BLOCK = 4 << 20
_REPORTS = 0.1
"""Seconds between two reports of progress."""
_LAST_CASED = 0x1E943
"""No letter after this code point has an upper and a lower case."""
_LEAST_LETTERS = 3
_ESCAPED = re.compile(rb"\\u(?!00[01])")
"""A character that agentv writes as it is, and that another program has escaped."""
_LONGEST_ESCAPE = 6
_REST_OF_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+"')

Line = tuple[int, bytes]
"""The offset of a line, and the line."""


def search(run: OpenRun, text: str, stop: Callable[[], bool]) -> Iterator[tuple[float, list[int]]]:
    """The share of the record that was searched, and all rows that were found so far, ascending.

    The last share is 1, unless `stop` returned True.
    """
    run.store.refresh()
    count, directory = run.store.count, run.directory
    if not text:
        yield 1.0, list(range(count))
        return
    finder = _Finder(text.lower())
    files: dict[Path, Callable[[OpenRun, list[Line]], Iterable[int]]] = {
        directory.results: _rows_at,
        directory.cases: _rows_of_cases,
        directory.judge_calls: _rows_of_calls,
    }
    # As they are now: a run that is being written must not keep the search from ending.
    sizes = [0 if (file := identity_of(path)) is None else file[1] for path in files]
    total = sum(sizes) or 1
    rows: set[int] = set()
    done, reported = 0, time.monotonic()
    for (path, rows_of), whole in zip(files.items(), sizes, strict=True):
        for offset, size, block in _blocks(path, whole):
            if stop():
                return
            lines = [(offset + place, line) for place, line in finder.matching(block)]
            rows.update(row for row in rows_of(run, lines) if row < count)
            done += size
            if time.monotonic() > reported + _REPORTS:
                reported = time.monotonic()
                yield min(done / total, 0.99), sorted(rows)
    yield 1.0, sorted(rows)


# -- from lines to rows


def _rows_at(run: OpenRun, lines: list[Line]) -> Iterator[int]:
    offsets = run.store.offsets() if lines else ()
    for offset, _ in lines:
        row = bisect_left(offsets, offset)
        if row < len(offsets) and offsets[row] == offset:  # not a duplicate
            yield row


def _rows_of_cases(run: OpenRun, lines: list[Line]) -> Iterator[int]:
    wanted = {offset for offset, _ in lines}
    if wanted:
        yield from (row for row, offset in enumerate(run.store.case_offsets()) if offset in wanted)


def _rows_of_calls(run: OpenRun, lines: list[Line]) -> Iterator[int]:
    for start in {_key_part(line) for _, line in lines}:
        call = _value(start) or {}
        key = RowKey(*(call.get(name, "") for name in ("suite", "eval_id", "case_target", "case_attempt")))
        if all(isinstance(name, str | int) for name in key) and (row := run.row_number(key)) is not None:
            yield row


def _key_part(call: bytes) -> bytes:
    """A judge call with nothing but its key, if that is at the beginning of the line."""
    match = CALL_KEY.match(call)
    return call if match is None else match[0] + b"}"


# -- from bytes to lines


def _blocks(path: Path, size: int) -> Iterator[tuple[int, int, bytes]]:
    """The complete lines in the first `size` bytes of a file, in blocks: offset, bytes that were read, and lines.

    Lines that are too long to be read are left out.
    """
    rest, offset, is_too_long = b"", 0, False
    try:
        with open_recorded(path) as file:
            while data := file.read(min(_BLOCK, size - offset)):
                end = data.rfind(b"\n") + 1
                first = data.find(b"\n") + 1 if is_too_long else 0
                yield offset - len(rest) + first, len(data), rest + data[first:end] if end else b""
                rest = data[end:] if end else rest + data
                is_too_long = (is_too_long and not end) or len(rest) > LONGEST_LINE
                rest = b"" if is_too_long else rest
                offset += len(data)
    except FileNotFoundError:
        return
    except OSError as error:
        raise failure("read", path, error) from error


class _Finder:
    """Finds lines of JSON Lines with a string that contains a text, in upper or lower case. Keys do not count."""

    def __init__(self, needle: str) -> None:
        """`needle` is the text in lower case."""
        self._needle = needle
        plain = _longest_plain(needle)
        looked_for = plain if len(plain) >= min(_LEAST_LETTERS, len(needle)) else needle[:_LEAST_LETTERS]
        # Blocks are made lower-case, but only their ASCII letters: of others, all forms are looked for.
        forms = product(*(letter if letter.isascii() else letter + _uppers().get(letter, "") for letter in looked_for))
        rare = {upper for letter in looked_for if letter.isascii() for upper in _uppers().get(letter, "")}
        self._parts = [_encoded("".join(form)) for form in forms]
        self._parts += [_encoded(upper) for upper in rare if not upper.isascii()]
        self._whole = self._parts[0] if plain == needle else None

    def matching(self, block: bytes) -> Iterator[tuple[int, bytes]]:
        """The lines that contain the text, with their places in the block."""
        for start, (end, is_certain) in self._candidates(block).items():
            line = block[start:end]
            if is_certain or _mentions(_value(line), self._needle):
                yield start, line

    def _candidates(self, block: bytes) -> dict[int, tuple[int, bool]]:
        """The start and the end of each line that may contain the text, and whether it certainly does."""
        lower = block.lower()
        lines: dict[int, tuple[int, bool]] = {}
        for part in self._parts:
            place = lower.find(part)
            while place >= 0:
                start, end = _line_at(block, place)
                if not lines.get(start, (end, False))[1]:
                    lines[start] = end, part is self._whole and _is_in_value(block, start, place, place + len(part))
                place = lower.find(part, end)
        if b"\\" in block and b"\\u" in block:  # one byte is found ten times as fast as two
            for match in _ESCAPED.finditer(block):
                start, end = _line_at(block, match.start())
                lines.setdefault(start, (end, False))
        return lines


def _line_at(block: bytes, place: int) -> tuple[int, int]:
    return block.rfind(b"\n", 0, place) + 1, block.index(b"\n", place) + 1


def _is_in_value(block: bytes, start: int, place: int, end: int) -> bool:
    """Whether what is from `place` to `end` is in a string that is not a key. False if that is not obvious.

    `start` is that of the line. It saves parsing most lines.
    """
    before = block[start:place]
    if b"\\\\" in before or b"\\" in before[-_LONGEST_ESCAPE:]:
        return False
    if (before.count(b'"') - before.count(b'\\"')) % 2 == 0:
        return False
    closing = _REST_OF_STRING.match(block, end)
    return closing is not None and block[closing.end() : closing.end() + 1] != b":"


def _value(line: bytes) -> dict[str, Any] | None:
    try:
        value = parsed(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _mentions(value: Any, needle: str) -> bool:
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, str):
            if needle in node.lower():
                return True
        elif isinstance(node, dict):
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
    return False


def _longest_plain(needle: str) -> str:
    """The longest part of a text without letters that have an upper case outside of ASCII."""
    parts = groupby(needle, lambda letter: letter.isascii() or letter not in _uppers())
    return max(("".join(letters) for is_plain, letters in parts if is_plain), key=len, default="")


@cache
def _uppers() -> dict[str, str]:
    """For each lower-case letter, the letters that it is the lower case of, or a part of that."""
    uppers: dict[str, str] = {"ς": "Σ"}  # at the end of a word
    for upper in map(chr, range(_LAST_CASED + 1)):
        lower = upper.lower()
        if lower != upper:
            for letter in lower:
                uppers[letter] = uppers.get(letter, "") + upper
    return uppers


def _encoded(text: str) -> bytes:
    """A part of a string as agentv writes it in JSON."""
    return json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")
