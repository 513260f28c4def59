"""Read the results of an earlier run: valid rows, and damaged lines, which `recover` moves to another file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from agentv.record.files import cut_torn_line, failure, open_private, replaced, sync_directory, write_all
from agentv.record.rows import decode_row
from agentv.record.run_dir import RunDirectory
from agentv.results import CaseResult, RowKey

LONGEST_LINE = 512 << 20
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
    torn_bytes: int = 0


@dataclass(frozen=True, slots=True)
class _Span:
    start: int
    end: int


def read_rows(path: Path) -> Iterator[tuple[int, CaseResult | CorruptLine]]:
    """Iterate over a results file: line number, and the row or a `CorruptLine`.

    A last line without a newline is still being written, and is skipped.
    """
    try:
        with path.open("rb") as file:
            for number, _, row in _read(file):
                yield number, row
    except OSError as error:
        raise failure("read", path, error) from error


def recover(run: RunDirectory, on_row: Callable[[CaseResult], None] | None = None) -> Recovery:
    """Prepare a run to be resumed: remove an incomplete last line and move invalid lines to another file.

    Corrupt lines and duplicate rows are moved, unchanged, to `results.corrupt.jsonl`; all other lines keep their
    bytes. `on_row` is called with each remaining row, in order.
    """
    recovery, aside = Recovery(), list[_Span]()
    with run.lock():
        try:
            descriptor = open_private(run.results, os.O_RDWR)
            with os.fdopen(descriptor, "rb") as file:
                recovery.torn_bytes = cut_torn_line(descriptor)
                for number, span, row in _read(file):
                    if not _note(recovery, number, row):
                        aside.append(span)
                    elif on_row is not None and isinstance(row, CaseResult):
                        on_row(row)
                if aside:
                    _set_aside(run, descriptor, aside)
        except OSError as error:
            raise failure("recover", run.results, error, f"Then retry: {run.resume_command}") from error
    return recovery


def _note(recovery: Recovery, number: int, row: CaseResult | CorruptLine) -> bool:
    """Record a line; returns whether it stays in the file."""
    if isinstance(row, CorruptLine):
        recovery.corrupt.append(row)
        return False
    if row.key in recovery.done:
        recovery.duplicates.append(DuplicateLine(number, row.key))
        return False
    recovery.done.add(row.key)
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


def _set_aside(run: RunDirectory, results: int, aside: list[_Span]) -> None:
    """Copy the lines to the other file first, then remove them: a kill in between repeats work but loses nothing."""
    saved = open_private(run.corrupt, os.O_RDWR | os.O_APPEND)
    try:
        cut_torn_line(saved)
        for span in aside:
            _copy(results, saved, span)
        os.fsync(saved)
    finally:
        os.close(saved)
    sync_directory(run.path)
    with replaced(run.results) as kept:
        start = 0
        for span in aside:
            _copy(results, kept, _Span(start, span.start))
            start = span.end
        _copy(results, kept, _Span(start, os.fstat(results).st_size))


def _copy(source: int, destination: int, span: _Span) -> None:
    start = span.start
    while start < span.end:
        data = os.pread(source, min(_COPY_BYTES, span.end - start), start)
        write_all(destination, data)
        start += len(data)
