"""`agentv eval --watch`: run again what a saved file touches. Each round is a run with its own directory."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from agentv.cli.new_run import Ended, NewRun
from agentv.cli.saved_files import Stamp, stamp, until_saved
from agentv.cli.signals import EXIT_CODES, TO_STOP, until_stopped
from agentv.errors import AgentVError, InvalidFilesError
from agentv.plan.chosen import ChosenCases
from agentv.plan.plan import RunPlan
from agentv.recorded import RecordedRun
from agentv.suite.files import digest
from agentv.text import plural, short_path

FILES_SHOWN = 3
_SIGNALS = (*TO_STOP, signal.SIGHUP)
_WHY = "were touched by a saved file"

CaseName = tuple[str, str]
"""Suite and id."""


@dataclass(slots=True)
class Watched:
    """What a plan depends on: its files, and for each case a value that changes if the case would run differently."""

    digests: Mapping[Path, str]
    cases: Mapping[CaseName, Any]
    directories: tuple[Path, ...]

    @classmethod
    def of(cls, plan: RunPlan, cwd: Path) -> Watched:
        digests = {Path(path): sha256 for path, sha256 in plan.digests().items()}
        general: dict[Path, str] = {}
        cases: dict[CaseName, Any] = {}
        answers = None if plan.answers is None or plan.answers.path is None else plan.answers.path.resolve()
        for planned in plan.suites:
            around = [*planned.environment.dotenv_files, *([planned.config.path] if planned.config else [])]
            for path in around:
                if path not in general and path.is_file():
                    general[path] = digest(path)
            suite, kept = planned.suite, planned.cases
            shared = (
                suite.target,
                suite.judge_target,
                *(general.get(path) for path in around),
                None if answers is None else digests.get(answers),
            )
            for position, case_id in enumerate(suite.variant_ids()):
                if case_id in planned.selected and kept is not None:
                    own = suite.case_targets.get(case_id)
                    target, trials = own.target if own else None, planned.trials_of(case_id)
                    value = (kept.sha256(position), kept.used[position], shared, target, trials)
                    before = cases.get((suite.name, case_id), ())  # with another prompt
                    cases[suite.name, case_id] = (*before, value)
        folders = [cwd / path for path in plan.options.paths if (cwd / path).is_dir()]
        inner = [path for top in folders for path in top.rglob("*") if path.is_dir() and ".agentv" not in path.parts]
        return cls({**digests, **general}, cases, (*folders, *inner))

    def stamps(self, known: Mapping[Path, Stamp] | None = None) -> dict[Path, Stamp]:
        """The stamps of all files, those in `known` from there. A file that has changed since it was read has none."""
        stamps = {path: stamp(path) for path in (*self.digests, *self.directories)}
        for path, sha256 in self.digests.items():
            if known is not None and path in known:
                stamps[path] = known[path]
            elif stamps[path] is not None and digest(path) != sha256:
                stamps[path] = None
        return stamps


@dataclass(slots=True)
class Watch:
    """Runs rounds until the user stops."""

    intent: NewRun
    execute: Callable[[RecordedRun], Ended]
    say: Callable[[str], None]
    seen: Watched
    """What the last round was planned with."""
    pending: set[CaseName] = field(default_factory=set)
    """Cases of a round that ended before they were run."""
    code: int = 0

    def run(self, first: RecordedRun) -> int:
        """The exit code of the last round."""
        stamps = self.seen.stamps()
        if self._round(first, set(self.seen.cases)).stopped:
            return self.code
        try:
            while True:
                waiting = until_stopped(self._wait(stamps), _SIGNALS, even_if_ignored=TO_STOP)
                now, received = asyncio.run(waiting)
                if received is not None or now is None:
                    return self.code if received in (None, signal.SIGINT) else EXIT_CODES[received]
                ended = self._again()
                if ended is not None and ended.stopped:
                    return self.code
                stamps = now if ended is None else self.seen.stamps(now)
        except KeyboardInterrupt:  # between waiting and running
            return self.code

    async def _wait(self, stamps: Mapping[Path, Stamp]) -> dict[Path, Stamp]:
        # Printed here, where signals are already handled.
        self.say(f"\nwatching {plural(len(self.seen.digests), 'file')}; press Ctrl-C to stop")
        return await until_saved(stamps)

    def _again(self) -> Ended | None:
        """Plan again and run what has changed; None if nothing can or must be run."""
        try:
            plan = self.intent.plan(watched=True)
            now = Watched.of(plan, self.intent.cwd)
        except AgentVError as error:
            _show(error)
            return None
        changed = [path for path in now.digests if self.seen.digests.get(path) != now.digests[path]]
        touched = {case for case, value in now.cases.items() if self.seen.cases.get(case) != value}
        touched |= self.pending & now.cases.keys()
        total = len(now.cases)
        self.seen = now
        if not touched:
            if changed:
                self.say(f"{_named(changed, self.intent.cwd)} changed: no case is affected")
            return Ended(self.code, stopped=False) if changed else None
        what = "all" if len(touched) == total else f"{len(touched):,} of"
        self.say(f"{_named(changed, self.intent.cwd)} changed: running {what} {plural(total, 'case')}")
        try:
            run = self.intent.start(plan.narrowed(self._choice(touched)), self.say)
        except AgentVError as error:
            _show(error)
            self.pending = touched
            return None
        return self._round(run, touched)

    def _choice(self, touched: Iterable[CaseName]) -> ChosenCases:
        ids: dict[str, set[str]] = {}
        for suite, case_id in touched:
            ids.setdefault(suite, set()).add(case_id)
        by_suite = {suite: frozenset(own) for suite, own in ids.items()}
        if self.intent.chosen is not None:
            return self.intent.chosen.only(_WHY, by_suite)
        return ChosenCases(_WHY, {(suite, None): own for suite, own in by_suite.items()})

    def _round(self, run: RecordedRun, cases: set[CaseName]) -> Ended:
        try:
            ended = self.execute(run)
        except AgentVError as error:  # such as a suite that was saved while it was being run
            _show(error)
            self.code, self.pending = error.exit_code, cases
            return Ended(self.code, stopped=False)
        self.code, self.pending = ended.code, set()
        return ended


def _show(error: AgentVError) -> None:
    click.echo(str(error) if isinstance(error, InvalidFilesError) else f"agentv: {error}", err=True)


def _named(paths: list[Path], cwd: Path) -> str:
    names = [str(short_path(path, cwd)) for path in paths[:FILES_SHOWN]]
    more = [f"{len(paths) - FILES_SHOWN} more"] if len(paths) > FILES_SHOWN else []
    return ", ".join([*names, *more]) or "files"
