"""Read the results of an earlier run: valid rows, and lines that `recover` moves to other files.

Damaged lines go to `results.corrupt.jsonl`, rows that will be run again to `superseded.jsonl`.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from agentv.record.files import (
    LONGEST_LINE,
    cut_torn_line,
    failure,
    open_private,
    open_recorded,
    replaced,
    sync_directory,
    write_all,
)
from agentv.record.rows import decode_row
from agentv.record.run_dir import RunDirectory
from agentv.results import CaseResult, RowKey

_COPY_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class CorruptLine:
    """A line of `results.jsonl` that is not a valid row, and the reason."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class DuplicateLine:
    """A line that repeats an earlier row."""

    number: int
    key: RowKey


@dataclass(slots=True)
class Recovery:
    """What `recover` read and removed."""

    done: set[RowKey] = field(default_factory=set)
    corrupt: list[CorruptLine] = field(default_factory=list)
    duplicates: list[DuplicateLine] = field(default_factory=list)
    superseded: int = 0
    """Rows that were moved to `superseded.jsonl`, because their cases will be run again."""
    errors: int = 0
    """Errored rows among those that are done."""
    torn_bytes: int = 0
    times_superseded: Counter[RowKey] = field(default_factory=Counter)
    """How many rows with a key were superseded, now or earlier."""

    def execution(self, key: RowKey) -> int:
        """Which execution of its case the row with this key comes from, or will come from."""
        return 1 + self.times_superseded[key]


@dataclass(frozen=True, slots=True)
class _Span:
    start: int
    end: int


def read_rows(path: Path) -> Iterator[tuple[int, CaseResult | CorruptLine]]:
    """Iterate over a results file: line number, and the row or a `CorruptLine`.

    A last line without a newline is still being written, and is skipped.
    """
    try:
        with open_recorded(path) as file:
            for number, _, row in _read(file):
                yield number, row
    except OSError as error:
        raise failure("read", path, error) from error


@dataclass(slots=True)
class _Moves:
    """Lines that leave `results.jsonl`, in the order of the file."""

    gone: list[_Span] = field(default_factory=list)
    corrupt: list[_Span] = field(default_factory=list)
    superseded: list[_Span] = field(default_factory=list)

    def add(self, span: _Span, *destinations: list[_Span]) -> None:
        for spans in (self.gone, *destinations):
            spans.append(span)


def recover(
    run: RunDirectory,
    on_row: Callable[[CaseResult], None] | None = None,
    *,
    supersede: Callable[[CaseResult], bool] = lambda _: False,
    on_superseded: Callable[[CaseResult], None] | None = None,
) -> Recovery:
    """Prepare a run to be resumed: remove an incomplete last line, and move lines that do not count to other files.

    Corrupt lines and duplicate rows are moved, unchanged, to `results.corrupt.jsonl`, and rows for which `supersede`
    is true to `superseded.jsonl`; all other lines keep their bytes. `on_row` is called with each remaining row, in
    order, and `on_superseded` with each row that was superseded, now or earlier.
    """
    recovery, moves = Recovery(), _Moves()

    def count(row: CaseResult) -> None:
        recovery.times_superseded[row.key] += 1
        if on_superseded is not None:
            on_superseded(row)

    with run.lock():
        try:
            earlier = _superseded_earlier(run, count)
            descriptor = open_private(run.results, os.O_RDWR)
            with os.fdopen(descriptor, "rb") as file:
                recovery.torn_bytes = cut_torn_line(descriptor)
                for number, span, row in _read(file):
                    if isinstance(row, CaseResult) and earlier and _digest(descriptor, span) in earlier:
                        moves.add(span)  # a kill came after the line was copied and before it was removed
                        recovery.superseded += 1
                    elif isinstance(row, CaseResult) and supersede(row):
                        moves.add(span, moves.superseded)
                        recovery.superseded += 1
                        count(row)
                    elif not _note(recovery, number, row):
                        moves.add(span, moves.corrupt)
                    elif on_row is not None and isinstance(row, CaseResult):
                        on_row(row)
                if moves.gone:
                    _move(run, descriptor, moves)
        except OSError as error:
            raise failure("recover", run.results, error, f"Then retry: {run.resume_command}") from error
    return recovery


def _superseded_earlier(run: RunDirectory, on_superseded: Callable[[CaseResult], None]) -> set[bytes]:
    """The digests of the lines of `superseded.jsonl`."""
    digests: set[bytes] = set()
    if not os.path.lexists(run.superseded):
        return digests
    descriptor = open_private(run.superseded, os.O_RDWR)
    with os.fdopen(descriptor, "rb") as file:
        cut_torn_line(descriptor)
        for _, span, row in _read(file):
            digests.add(_digest(descriptor, span))
            if isinstance(row, CaseResult):
                on_superseded(row)
    return digests


def _digest(descriptor: int, span: _Span) -> bytes:
    digest = hashlib.sha256()
    for data in _pieces(descriptor, span):
        digest.update(data)
    return digest.digest()


def _note(recovery: Recovery, number: int, row: CaseResult | CorruptLine) -> bool:
    """Record a line; returns whether it stays in the file."""
    if isinstance(row, CorruptLine):
        recovery.corrupt.append(row)
        return False
    if row.key in recovery.done:
        recovery.duplicates.append(DuplicateLine(number, row.key))
        return False
    recovery.done.add(row.key)
    recovery.errors += row.error is not None
    return True


def _read(file: BinaryIO) -> Iterator[tuple[int, _Span, CaseResult | CorruptLine]]:
    number = start = 0
    while line := file.readline(LONGEST_LINE):
        number += 1
        length, whole = len(line), line.endswith(b"\n")
        row: CaseResult | CorruptLine
        if not whole and length == LONGEST_LINE:
            row = CorruptLine(number, f"longer than {LONGEST_LINE >> 20} MiB")
            while not whole and (rest := file.readline(_COPY_BYTES)):
                length, whole = length + len(rest), rest.endswith(b"\n")
        elif whole:
            row = _decoded(number, line)
        if not whole:
            return
        yield number, _Span(start, start + length), row
        start += length


def _decoded(number: int, line: bytes) -> CaseResult | CorruptLine:
    try:
        return decode_row(line)
    except ValueError as error:
        return CorruptLine(number, str(error) if line.strip() else "empty line")


def _move(run: RunDirectory, results: int, moves: _Moves) -> None:
    """Copy the lines to the other files first, then remove them: a kill in between repeats work but loses nothing."""
    for path, spans in ((run.corrupt, moves.corrupt), (run.superseded, moves.superseded)):
        if spans:
            _append(path, results, spans)
    sync_directory(run.path)
    with replaced(run.results) as kept:
        start = 0
        for span in moves.gone:
            _copy(results, kept, _Span(start, span.start))
            start = span.end
        _copy(results, kept, _Span(start, os.fstat(results).st_size))


def _append(path: Path, results: int, spans: list[_Span]) -> None:
    saved = open_private(path, os.O_RDWR | os.O_APPEND)
    try:
        cut_torn_line(saved)
        for span in spans:
            _copy(results, saved, span)
        os.fsync(saved)
    finally:
        os.close(saved)


def _copy(source: int, destination: int, span: _Span) -> None:
    for data in _pieces(source, span):
        write_all(destination, data)


def _pieces(source: int, span: _Span) -> Iterator[bytes]:
    start = span.start
    while start < span.end and (data := os.pread(source, min(_COPY_BYTES, span.end - start), start)):
        yield data
        start += len(data)
