"""What a run left behind: the rows that are done, and the lines that are not rows."""

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
    """A line of `results.jsonl` that is not a row, and why."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class DuplicateLine:
    """A line whose row is in the file already."""

    number: int
    key: RowKey


@dataclass(slots=True)
class Recovery:
    """What `recover` found, and what it did about it."""

    done: set[RowKey] = field(default_factory=set)
    corrupt: list[CorruptLine] = field(default_factory=list)
    duplicates: list[DuplicateLine] = field(default_factory=list)
    torn_bytes: int = 0


@dataclass(frozen=True, slots=True)
class _Span:
    start: int
    end: int


def read_rows(path: Path) -> Iterator[tuple[int, CaseResult | CorruptLine]]:
    """The rows of a results file with their line numbers, one at a time; corrupt lines in their place.

    A last line without its newline is a row being written, and is not reported.
    """
    try:
        with path.open("rb") as file:
            for number, _, row in _read(file):
                yield number, row
    except OSError as error:
        raise failure("read", path, error) from error


def recover(run: RunDirectory, on_row: Callable[[CaseResult], None] | None = None) -> Recovery:
    """Make a run fit to be continued: cut the torn line, set aside what is not a row, say what is done.

    Corrupt lines and second rows of a case go, unchanged, to `results.corrupt.jsonl`; every other line keeps
    its bytes. `on_row` sees each row that stays, in order.
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
            raise failure("recover", run.results, error, f"Then try again: {run.resume_command}") from error
    return recovery


def _note(recovery: Recovery, number: int, row: CaseResult | CorruptLine) -> bool:
    """Whether the line stays."""
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
        return CorruptLine(number, str(error) if line.strip() else "an empty line")


def _set_aside(run: RunDirectory, results: int, aside: list[_Span]) -> None:
    """Save the lines elsewhere, then leave them out: a kill in between repeats the work and loses nothing."""
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
