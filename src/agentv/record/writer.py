"""Append rows durably: a row is acknowledged only once it is on disk."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from agentv.errors import RecordError
from agentv.record.appender import AppendedFile, Appender
from agentv.record.files import EXECUTION_ERROR, failure
from agentv.record.mirror import Mirror
from agentv.record.rows import RowEncoder
from agentv.record.run_dir import RunDirectory
from agentv.redact import NO_SECRETS, Redactor
from agentv.results import CaseResult


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
    ) -> None:
        """With `out_is_ours`, `out` is refused if it contains anything but rows of this run."""
        self._run = run
        self._out = out
        self._out_is_ours = out_is_ours
        self._opened = ExitStack()
        self._mirror: Mirror | None = None
        self.appender = Appender()
        """Other files of the run are added here, so that one thread writes all of them."""
        self._results = self.appender.add(
            AppendedFile(run.results, RowEncoder(redactor), self._refusal, on_safe=self._copy_until)
        )

    @property
    def mirror_error(self) -> RecordError | None:
        """Why `out` is incomplete, although `results.jsonl` is complete. Final once the writer is closed."""
        return self._mirror.error if self._mirror else None

    async def __aenter__(self) -> Self:
        with ExitStack() as opening:
            opening.enter_context(self._run.lock())
            opening.callback(self.appender.close)
            try:
                self._results.open()
            except OSError as error:
                raise failure("open", self._run.results, error) from error
            if self._out is not None:
                self._mirror = Mirror(self._run, self._out, self._results.safe, is_ours=self._out_is_ours)
                opening.callback(self._mirror.close)
            self._opened = opening.pop_all()
        self.appender.start()
        return self

    async def append(self, row: CaseResult) -> CaseResult:
        """Record a row. Returns the row as recorded, with secrets masked, once it is on disk."""
        return await self.submit(row)

    def submit(self, row: CaseResult) -> asyncio.Future[CaseResult]:
        """Queue a row. The future has the recorded row once it is on disk; cancelling it does not remove the row."""
        return self._results.submit(row)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        thread = self.appender.stop()
        if thread is None:
            return
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

    def _copy_until(self, safe: int) -> None:
        if self._mirror is not None:
            self._mirror.follow(safe)

    def _refusal(self, problem: OSError) -> RecordError:
        next_step = (
            f"Rows reported as completed are safe. Once the problem is solved, resume with: {self._run.resume_command}"
        )
        refusal = failure("write a row to", self._run.results, problem, next_step)
        refusal.exit_code = EXECUTION_ERROR
        return refusal
