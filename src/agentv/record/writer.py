"""Append rows durably: a row is acknowledged only once it is on disk.

One thread writes. Rows that arrive during a sync are written and synced together as the next group, so concurrent
cases share the cost of one sync.
"""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Self

from agentv.errors import RecordError
from agentv.record.files import (
    EXECUTION_ERROR,
    cut_torn_line,
    failure,
    open_private,
    sync_data,
    sync_directory,
    write_all,
)
from agentv.record.mirror import Mirror
from agentv.record.rows import is_large, record_row
from agentv.record.run_dir import RunDirectory
from agentv.redact import NO_SECRETS, Redactor
from agentv.results import CaseResult

_GROUP_BYTES = 8 << 20


@dataclass(slots=True)
class _Waiting:
    row: CaseResult
    line: bytes | None
    """None for a large row until the writer thread encodes it, which would block the event loop."""
    written: asyncio.Future[CaseResult]


class RowWriter:
    """Appends rows to the `results.jsonl` of a run, and copies them to `out` if it is set.

    Holds the run's lock while open. After a failed write it accepts no more rows; acknowledged rows are safe.
    """

    def __init__(
        self,
        run: RunDirectory,
        *,
        redactor: Redactor = NO_SECRETS,
        out: Path | None = None,
        out_is_ours: bool = False,
        before: Callable[[], None] = lambda: None,
    ) -> None:
        """`before` is called in the writer thread before each group of rows is written.

        With `out_is_ours`, `out` is refused if it contains anything but rows of this run.
        """
        self._run = run
        self._before = before
        self._redactor = redactor
        self._out = out
        self._out_is_ours = out_is_ours
        self._queue: SimpleQueue[list[_Waiting] | None] = SimpleQueue()
        self._handed: list[_Waiting] = []
        """Rows submitted in this iteration of the event loop. Waking the thread for each row would cost more than
        encoding it."""
        self._opened = ExitStack()
        self._descriptor = -1
        self._safe = 0
        self._failure: OSError | None = None
        self._mirror: Mirror | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def mirror_error(self) -> RecordError | None:
        """Why `out` is incomplete, although `results.jsonl` is complete. Final once the writer is closed."""
        return self._mirror.error if self._mirror else None

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        with ExitStack() as opening:
            opening.enter_context(self._run.lock())
            self._open_results(opening)
            if self._out is not None:
                self._mirror = Mirror(self._run, self._out, self._safe, is_ours=self._out_is_ours)
                opening.callback(self._mirror.close)
            self._opened = opening.pop_all()
        self._thread = threading.Thread(target=self._work, name="agentv-row-writer", daemon=True)
        self._thread.start()
        return self

    def _open_results(self, opening: ExitStack) -> None:
        path = self._run.results
        try:
            self._descriptor = open_private(path, os.O_RDWR | os.O_APPEND)
            opening.callback(os.close, self._descriptor)
            cut_torn_line(self._descriptor)
            sync_directory(path.parent)
            self._safe = os.fstat(self._descriptor).st_size
        except OSError as error:
            raise failure("open", path, error) from error

    async def append(self, row: CaseResult) -> CaseResult:
        """Record a row. Returns the row as recorded, with secrets masked, once it is on disk."""
        return await self.submit(row)

    def submit(self, row: CaseResult) -> asyncio.Future[CaseResult]:
        """Queue a row. The future has the recorded row once it is on disk; cancelling it does not remove the row."""
        if self._loop is None or self._thread is None:
            raise RuntimeError("the writer is not open: use it in `async with`")
        if self._failure is not None:
            raise self._refusal(self._failure)
        written: asyncio.Future[CaseResult] = self._loop.create_future()
        line = None
        content = row.to_dict()
        if not is_large(content):
            row, line = record_row(row, self._redactor, content=content)
        if not self._handed:
            self._loop.call_soon(self._hand_over)
        self._handed.append(_Waiting(row, line, written))
        return written

    def _hand_over(self) -> None:
        handed, self._handed = self._handed, []
        if handed:
            self._queue.put(handed)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._hand_over()
        self._queue.put(None)
        closing = asyncio.ensure_future(asyncio.to_thread(self._finish, thread))
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            self.hurry()
            await closing
            raise
        finally:
            # Also when cancelled while waiting: all rows must be written first.
            self._finish(thread)
            self._opened.close()

    def hurry(self) -> None:
        """The run is being stopped: do not wait long for a reader of `out` that has stalled."""
        if self._mirror is not None:
            self._mirror.hurry()

    def _finish(self, thread: threading.Thread) -> None:
        thread.join()
        if self._mirror is not None:
            self._mirror.finish()

    def _work(self) -> None:
        open_ = True
        while open_:
            group, open_ = self._next_group()
            if group and self._failure is None:
                try:
                    self._commit(b"".join(map(self._line_of, group)))
                except Exception as error:
                    self._failure = error if isinstance(error, OSError) else OSError(errno.EIO, str(error))
                    self._cut_back()
            if group:
                self._acknowledge(group, self._failure)

    def _next_group(self) -> tuple[list[_Waiting], bool]:
        """All queued rows (waits for at least one), and whether more may follow."""
        group: list[_Waiting] = []
        size = 0
        with suppress(Empty):
            while size < _GROUP_BYTES:
                item = self._queue.get(block=not group)
                if item is None:
                    return group, False
                group += item
                size += sum(map(len, map(self._line_of, item)))
        return group, True

    def _line_of(self, waiting: _Waiting) -> bytes:
        if waiting.line is None:
            waiting.row, waiting.line = record_row(waiting.row, self._redactor, in_pieces=True)
        return waiting.line

    def _commit(self, lines: bytes) -> None:
        self._before()
        write_all(self._descriptor, lines)
        sync_data(self._descriptor)
        self._safe += len(lines)
        if self._mirror is not None:
            self._mirror.follow(self._safe)

    def _cut_back(self) -> None:
        """Remove unacknowledged bytes. If even that fails, the next start removes the incomplete line."""
        with suppress(OSError):
            os.ftruncate(self._descriptor, self._safe)
            sync_data(self._descriptor)

    def _acknowledge(self, group: list[_Waiting], problem: OSError | None) -> None:
        def settle() -> None:
            for item in group:
                if item.written.done():
                    continue
                if problem is None:
                    item.written.set_result(item.row)
                else:
                    item.written.set_exception(self._refusal(problem))

        # If the event loop has been closed, nothing is waiting for the acknowledgement.
        with suppress(RuntimeError):
            assert self._loop is not None  # noqa: S101 - the thread starts after the loop is known
            self._loop.call_soon_threadsafe(settle)

    def _refusal(self, problem: OSError) -> RecordError:
        next_step = (
            f"Rows reported as completed are safe. Once the problem is solved, resume with: {self._run.resume_command}"
        )
        refusal = failure("write a row to", self._run.results, problem, next_step)
        refusal.exit_code = EXECUTION_ERROR
        return refusal
