"""The one run of a pytest session. With pytest-xdist, one worker executes it and the others read its rows."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from agentv.errors import AgentVError, UsageError
from agentv.plan.build import build_plan
from agentv.plan.chosen import ChosenCases
from agentv.plan.options import RunOptions
from agentv.plan.plan import RunPlan
from agentv.pytest_suites.rows_of_cases import RowsOfCases
from agentv.pytest_suites.run_thread import RunThread
from agentv.record.reading import lines_from
from agentv.record.rows import decode_row
from agentv.record.run_dir import RUNS, RunDirectory, new_run_id
from agentv.recorded import replayed_run, start_run
from agentv.results import CaseKey, CaseResult
from agentv.text import short_path

_RUN, _OVER, _ERROR, _LOCK = "run", "over", "error", "lock"
_POLL_SECONDS = 0.05
_WHY = "were selected by pytest"


class SelectedCase(NamedTuple):
    """A case that has a test, with the file of its suite."""

    path: Path
    key: CaseKey


class SessionRun:
    """Runs the selected cases of all suites when the first of their tests begins."""

    def __init__(self, config: pytest.Config, shared: Path | None) -> None:
        self.cwd = config.invocation_params.dir
        self._config, self._shared = config, shared
        self._lead: RunThread | None = None
        self._other: _RunOfAnotherWorker | None = None
        self._error: AgentVError | None = None
        self.variants: set[str] = set()
        """The targets and prompts of all collected cases, selected or not."""
        self._left: set[CaseKey] = set()
        """Cases that no test has waited for."""

    def options(self, paths: Sequence[Path]) -> RunOptions:
        option = self._config.getoption
        replay = option("--agentv-replay")
        return RunOptions(
            paths=tuple(map(str, paths)),
            targets=tuple(option("--agentv-target")),
            judge_target=option("--agentv-judge-target"),
            config=option("--agentv-config"),
            replay=None if replay is None else replayed_run(replay, self.cwd),
        )

    def plan(self, paths: Sequence[Path], chosen: ChosenCases | None = None) -> RunPlan:
        return build_plan(self.options(paths), self.cwd, record_cases=True, chosen=chosen)

    def rows(self, key: CaseKey, selected: Callable[[], Sequence[SelectedCase]]) -> list[CaseResult]:
        """Wait until a case is finished, and return the rows of its attempts. The first call starts the run."""
        if self._error is not None:
            raise self._error
        if self._lead is None and self._other is None:
            try:
                self._begin(selected())
            except AgentVError as error:
                self._error = error
                raise
        self._left.discard(key)
        source = self._lead or self._other
        assert source is not None  # noqa: S101 - one of them was started
        return source.rows_of(key)

    @property
    def directory(self) -> RunDirectory | None:
        source = self._lead or self._other
        return None if source is None else source.directory

    def _begin(self, selected: Sequence[SelectedCase]) -> None:
        self._left = {case.key for case in selected}
        if self._shared is None:
            self._lead = self._started(selected)
            return
        other = _RunOfAnotherWorker(self._shared)
        if not other.lock():
            self._other = other
            other.find()
            return
        try:
            self._lead = self._started(selected)
        except AgentVError as error:
            _announce(self._shared / _ERROR, str(error))
            raise
        _announce(self._shared / _RUN, str(self._lead.directory.path))

    def _started(self, selected: Sequence[SelectedCase]) -> RunThread:
        paths = list(dict.fromkeys(case.path for case in selected))
        chosen = ChosenCases.of_rows(_WHY, self._left, self.variants)
        plan, run_id = self.plan(paths, chosen), new_run_id()
        return RunThread(start_run(plan, run_id, self.cwd / RUNS / run_id, self.cwd), self._announce_end)

    def _announce_end(self) -> None:
        """Let other workers know that no further row will be recorded, although this process has not exited."""
        if self._shared is not None:
            _announce(self._shared / _OVER, "")

    def wait(self) -> None:
        """Wait until the run has ended."""
        if self._lead is not None:
            self._lead.wait()

    def end(self, *, interrupted: bool) -> None:
        """End the run. Without other workers, cases that no test has waited for are not run."""
        if self._lead is None:
            return
        if interrupted or (self._shared is None and self._left):
            self._lead.stop()
        self._lead.wait()

    def about(self) -> list[str]:
        """Lines for the summary of pytest."""
        if self._lead is None:
            return []
        lines = [f"note: {note}" for note in (*self._lead.run.plan.notes, *self._lead.run.notes)]
        if self._lead.error is not None:
            lines.append(f"The run ended with an error: {self._lead.error}")
        return [*lines, *_about(self._lead.directory, self.cwd)]


class _RunOfAnotherWorker:
    """The rows of a run that another process executes, read from its record."""

    def __init__(self, shared: Path) -> None:
        self._shared = shared
        self._lock = os.open(shared / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._rows = RowsOfCases()
        self._offset = 0
        self.directory: RunDirectory | None = None

    def lock(self) -> bool:
        """Whether this process is the first, and executes the run. It keeps the lock until it exits."""
        is_first = self._try_lock() and not any((self._shared / name).exists() for name in (_RUN, _ERROR))
        if not is_first:
            fcntl.flock(self._lock, fcntl.LOCK_UN)
        return is_first

    def _try_lock(self) -> bool:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _has_ended(self) -> bool:
        """Whether the other process has exited. Looking at the lock must not take it from another worker."""
        try:
            fcntl.flock(self._lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        fcntl.flock(self._lock, fcntl.LOCK_UN)
        return True

    def find(self) -> None:
        """Wait until the other process has started the run. Raises its error if it could not."""
        while True:
            is_over = self._has_ended()
            with suppress(FileNotFoundError):
                self.directory = RunDirectory(Path((self._shared / _RUN).read_text("utf-8")))
                return
            with suppress(FileNotFoundError):
                raise UsageError((self._shared / _ERROR).read_text("utf-8"))
            if is_over:
                raise UsageError("The worker of pytest-xdist that was starting the run has crashed.")
            time.sleep(_POLL_SECONDS)

    def rows_of(self, key: CaseKey) -> list[CaseResult]:
        while not self._rows.are_complete(key):
            is_over = (self._shared / _OVER).exists() or self._has_ended()
            self._read()
            if is_over:
                break
            if not self._rows.are_complete(key):
                time.sleep(_POLL_SECONDS)
        return self._rows.of(key)

    def _read(self) -> None:
        assert self.directory is not None  # noqa: S101 - `find` has set it
        with suppress(FileNotFoundError), self.directory.results.open("rb") as file:
            file.seek(self._offset)
            for offset, line in lines_from(file, self._offset):
                self._rows.add(decode_row(line))
                self._offset = offset + len(line)


def _announce(path: Path, text: str) -> None:
    """Write a file that other workers wait for. It appears with its content."""
    unfinished = path.with_suffix(".part")
    unfinished.write_text(text, "utf-8")
    unfinished.replace(path)


def about_the_run(shared: Path | None) -> list[str]:
    """Lines for the summary of pytest in the process that controls the workers."""
    if shared is None or not (shared / _RUN).exists():
        return []
    return _about(RunDirectory(Path((shared / _RUN).read_text("utf-8"))), Path.cwd())


def _about(directory: RunDirectory, cwd: Path) -> list[str]:
    lines = [f"run: {short_path(directory.path, cwd)}"]
    with suppress(AgentVError):
        if directory.read_manifest().get("status") != "finished":
            lines.append(f"not finished; to resume it: {directory.resume_command}")
    return lines
