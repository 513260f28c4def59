"""A run in a thread, so that the result of each case can be reported as soon as it is recorded."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress

from agentv.pytest_suites.rows_of_cases import RowsOfCases
from agentv.record.rows import recorded_key
from agentv.record.run_dir import RunDirectory
from agentv.recorded import RecordedRun, RunHooks, RunOutcome
from agentv.results import CaseKey, CaseResult, RowKey


class RunThread:
    """Executes a run. Ctrl-C is raised in the main thread, which then calls `stop` and `wait`."""

    def __init__(self, run: RecordedRun, when_over: Callable[[], None]) -> None:
        self.run = run
        self._when_over = when_over
        """Called in the thread when the last row has been recorded, or the run has failed."""
        self.outcome: RunOutcome | None = None
        self.error: BaseException | None = None
        self._rows = RowsOfCases()
        self._changed = threading.Condition()
        self._is_over = False
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[RunOutcome] | None = None
        self._thread = threading.Thread(target=self._execute, name="agentv-run", daemon=True)
        self._thread.start()

    @property
    def directory(self) -> RunDirectory:
        return self.run.directory

    def _execute(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                self.outcome = runner.run(self._run())
        except BaseException as error:  # reported by the tests that wait for rows
            self.error = error
        finally:
            with self._changed:
                self._is_over = True
                self._changed.notify_all()
            self._when_over()

    async def _run(self) -> RunOutcome:
        self._task = asyncio.current_task()
        return await self.run.run(RunHooks(on_row=self._add))

    def _add(self, row: CaseResult) -> None:
        with self._changed:
            self._rows.add(row)
            self._changed.notify_all()

    def rows_of(self, key: CaseKey) -> list[CaseResult]:
        """Wait until a case is finished, or the run has ended, and return the rows of its attempts."""
        recorded = recorded_key(RowKey(*key, 1), self.run.redactor).case
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or self._rows.are_complete(recorded))
            rows = self._rows.of(recorded)
        if not rows and self.error is not None:
            raise self.error
        return rows

    def stop(self) -> None:
        """Stop the run as Ctrl-C stops `agentv eval`: cases that have not finished have no rows."""

        def cancel() -> None:
            if self._task is not None:
                self._task.cancel()

        with suppress(RuntimeError):  # the run has ended
            self._loop.call_soon_threadsafe(cancel)

    def wait(self) -> None:
        self._thread.join()
