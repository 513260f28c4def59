"""Join the records of several runs, the shards of one run, in one run directory.

Files are streamed, and what must be known about all rows is in a temporary database, so memory does not grow with the
number of rows. If several parts have a row of the same attempt, the first one without an error counts, else the last;
the others are set aside in `superseded.jsonl`.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from agentv import jsonio
from agentv.errors import RecordError
from agentv.record.cases import identity_of
from agentv.record.files import failure, open_private, sync_directory, write_all
from agentv.record.reading import whole_lines
from agentv.record.rows import decode_row, encode_row
from agentv.record.run_dir import MANIFEST, RunDirectory, is_record_file
from agentv.results import CaseResult, RowKey

_GROUP = 1 << 20
"""Bytes that are written together."""
_CACHE_KIB = 16 << 10
_SCHEMA = """
CREATE TABLE rows (key BLOB PRIMARY KEY, part INTEGER, offset INTEGER, errored INTEGER) WITHOUT ROWID;
CREATE TABLE executions (key BLOB, part INTEGER, count INTEGER, PRIMARY KEY (key, part)) WITHOUT ROWID;
CREATE TABLE cases (identity BLOB PRIMARY KEY) WITHOUT ROWID;
"""
_ROW = """
INSERT INTO rows VALUES (?, ?, ?, ?) ON CONFLICT (key) DO UPDATE
SET part = excluded.part, offset = excluded.offset, errored = excluded.errored WHERE rows.errored
"""
_EXECUTION = "INSERT INTO executions VALUES (?, ?, 1) ON CONFLICT (key, part) DO UPDATE SET count = count + 1"


@dataclass(slots=True)
class MergedPart:
    """A run to merge. Parts of the same shard may have rows of the same cases."""

    directory: RunDirectory
    run_id: str
    shard: int
    lines: int = 0
    """Rows in its file that can be read."""
    damaged: int = 0
    """Lines that are not rows."""
    first_damaged: int = 0
    """The number of the first of them."""
    files: tuple[Any, ...] = ()
    """Its files as they were when it was first read."""


class RecordMerge:
    """Joins the records of parts, oldest first. Use it as a context manager; `survey` before `write`."""

    def __init__(self, parts: Sequence[MergedPart]) -> None:
        self.parts = parts
        self.duplicates = 0
        """Rows that were set aside, because another part has a row of the same attempt."""
        self.rows_of_shard: Counter[int] = Counter()
        several = {shard for shard, count in Counter(part.shard for part in parts).items() if count > 1}
        self._shared = [part.shard in several for part in parts]
        """Whether another part may have rows of the same cases."""
        self._database = sqlite3.connect("", isolation_level=None)  # a temporary file, removed when it is closed

    def __enter__(self) -> Self:
        self._database.executescript(f"PRAGMA cache_size = -{_CACHE_KIB}; PRAGMA journal_mode = OFF; {_SCHEMA}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._database.close()

    def survey(self) -> None:
        """Read the rows of all parts once, and decide which of them count."""
        for number, part in enumerate(self.parts):
            part.files = _state_of(part.directory)
            for line_number, (offset, line) in enumerate(whole_lines(part.directory.results), 1):
                row = _row(line)
                if row is None:
                    part.damaged += 1
                    part.first_damaged = part.first_damaged or line_number
                    continue
                part.lines += 1
                self._database.execute(_ROW, (_digest(row.key), number, offset, row.error is not None))
                self._count_execution(number, row.key)
            for _, line in whole_lines(part.directory.superseded) if self._shared[number] else ():
                if (row := _row(line)) is not None:
                    self._count_execution(number, row.key)
        for number, count in self._database.execute("SELECT part, COUNT(*) FROM rows GROUP BY part"):
            self.rows_of_shard[self.parts[number].shard] += count
        self.duplicates = sum(part.lines for part in self.parts) - self.rows_of_shard.total()

    def _count_execution(self, part: int, key: RowKey) -> None:
        if self._shared[part]:
            self._database.execute(_EXECUTION, (_digest(key), part))

    def write(self, run: RunDirectory, run_id: str, on_row: Callable[[CaseResult], None]) -> None:
        """Write all files of the merged run but `run.json`. `on_row` gets every row that counts.

        Raises RecordError if a part has changed since the survey.
        """
        try:
            with ExitStack() as files:

                def new(path: Path) -> _NewLines:
                    return files.enter_context(closing(_NewLines(path)))

                self._write_rows(new(run.results), new(run.superseded), new(run.corrupt), run_id, on_row)
                self._write_cases(new(run.cases))
                self._write_judge_calls(new(run.judge_calls))
                self._write_answers(new(run.answers), run_id)
                labels = new(run.labels)
                for part in self.parts:
                    for _, line in whole_lines(part.directory.labels):
                        labels.add(line)
            sync_directory(run.path)
        except OSError as error:
            raise failure("merge runs in", run.path, error) from error
        for part in self.parts:
            if _state_of(part.directory) != part.files:
                raise RecordError(
                    f"the run in {part.directory.path} was changed while it was merged",
                    next_step="Merge again when no process writes it.",
                )

    def _write_rows(
        self,
        results: _NewLines,
        superseded: _NewLines,
        corrupt: _NewLines,
        run_id: str,
        on_row: Callable[[CaseResult], None],
    ) -> None:
        for number, part in enumerate(self.parts):
            for _, line in whole_lines(part.directory.superseded):
                row = _row(line)
                superseded.add(line if row is None else _renamed(line, row, run_id))
            for offset, line in whole_lines(part.directory.results):
                row = _row(line)
                if row is None:
                    corrupt.add(line)
                elif self._place(row.key) == (number, offset):
                    results.add(_renamed(line, row, run_id))
                    on_row(replace(row, run_id=run_id))
                else:
                    superseded.add(_renamed(line, row, run_id))

    def _place(self, key: RowKey) -> tuple[int, int] | None:
        """The part and the offset of the row that counts."""
        place: tuple[int, int] | None = self._database.execute(
            "SELECT part, offset FROM rows WHERE key = ?", (_digest(key),)
        ).fetchone()
        return place

    def _write_cases(self, cases: _NewLines) -> None:
        for number, part in enumerate(self.parts):
            for _, line in whole_lines(part.directory.cases):
                if not self._shared[number] or self._is_new_case(line):
                    cases.add(line)

    def _is_new_case(self, line: bytes) -> bool:
        try:
            identity = hashlib.sha256(repr(identity_of(line)).encode("utf-8", "surrogatepass")).digest()
        except (ValueError, TypeError):
            return True
        return self._database.execute("INSERT OR IGNORE INTO cases VALUES (?)", (identity,)).rowcount > 0

    def _write_judge_calls(self, calls: _NewLines) -> None:
        for number, part in enumerate(self.parts):
            for _, line in whole_lines(part.directory.judge_calls):
                calls.add(self._with_execution(line, number) if self._shared[number] else line)

    def _with_execution(self, line: bytes, part: int) -> bytes:
        """The judge call with the number of its execution among those of all parts.

        The row that counts has the last number. Executions without a row, because they were killed, have later ones.
        """
        try:
            data = jsonio.load(line)
            key = RowKey(data["suite"], data["eval_id"], data["case_target"], data["case_attempt"])
            own = int(data.get("execution") or 1)
            digest = _digest(key)
        except (ValueError, TypeError, KeyError):
            return line
        found = self._database.execute("SELECT part, count FROM executions WHERE key = ?", (digest,))
        counts: dict[int, int] = dict(found.fetchall())
        if own > counts.get(part, 0):
            execution = sum(counts.values()) + part + 1
        else:
            counted, _ = self._place(key) or (-1, 0)
            before = [each for each in counts if each not in (part, counted) and (part == counted or each < part)]
            execution = sum(counts[each] for each in before) + own
        if execution == own:
            return line
        data["execution"] = execution
        return jsonio.dump_line(data).encode("utf-8") + b"\n"

    def _write_answers(self, answers: _NewLines, run_id: str) -> None:
        """Answers that have no row, because their run was not finished."""
        for part in self.parts:
            for _, line in whole_lines(part.directory.answers):
                row = _row(line)
                if row is not None and self._place(row.key) is None:
                    answers.add(_renamed(line, row, run_id))


class _NewLines:
    """A file of the merged run. It is created with its first line."""

    def __init__(self, path: Path) -> None:
        self._path, self._descriptor = path, -1
        self._waiting = bytearray()

    def add(self, line: bytes) -> None:
        self._waiting += line
        if len(self._waiting) > _GROUP:
            self._flush()

    def _flush(self) -> None:
        if not self._waiting:
            return
        if self._descriptor < 0:
            self._descriptor = open_private(self._path, os.O_WRONLY | os.O_APPEND)
        write_all(self._descriptor, bytes(self._waiting))
        self._waiting.clear()

    def close(self) -> None:
        """Write the rest. The file is on disk when this returns."""
        try:
            self._flush()
            if self._descriptor >= 0:
                os.fsync(self._descriptor)
        finally:
            if self._descriptor >= 0:
                os.close(self._descriptor)


def discard(run: RunDirectory) -> None:
    """Remove a merged run that could not be completed, `run.json` first. Other files in its directory are kept."""
    with suppress(OSError):
        run.manifest.unlink(missing_ok=True)
        for path in list(run.path.iterdir()):
            if is_record_file(path.name):
                path.unlink()
        run.path.rmdir()


def _row(line: bytes) -> CaseResult | None:
    try:
        return decode_row(line)
    except ValueError:
        return None


def _renamed(line: bytes, row: CaseResult, run_id: str) -> bytes:
    """The row as one of the merged run. All other bytes stay the same if they are as agentv writes them."""
    start, new = (b"{" + _member("run_id", each) for each in (row.run_id, run_id))
    return new + line[len(start) :] if line.startswith(start) else encode_row(replace(row, run_id=run_id))


def _member(name: str, value: str) -> bytes:
    return jsonio.dump_line({name: value}).strip()[1:-1].encode("utf-8")


def _digest(key: RowKey) -> bytes:
    return hashlib.sha256(jsonio.dump_line({"key": list(key)}).encode("utf-8", "surrogatepass")).digest()[:16]


def _state_of(run: RunDirectory) -> tuple[Any, ...]:
    """Size and time of the files that are merged."""

    def states() -> Iterator[tuple[int, int, int] | None]:
        for path in (run.path / MANIFEST, run.results, run.superseded, run.judge_calls, run.cases, run.answers):
            try:
                status = path.stat()
            except OSError:
                yield None
            else:
                yield status.st_ino, status.st_size, status.st_mtime_ns

    return tuple(states())
