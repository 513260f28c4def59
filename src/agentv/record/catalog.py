"""The runs of a working directory: listed newest first, and found by id, prefix, name or `latest`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from agentv.errors import RecordError
from agentv.record.labels import LATEST, STARTS_WITH_TIME, RunLabels
from agentv.record.manifest import MANIFEST, RUNS, is_alive, is_being_written, read_manifest, writer_of
from agentv.text import did_you_mean, plural

_SHOWN_RUNS = 5
_START = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class RunEntry:
    """One directory in `.agentv/runs`, with the small parts of its `run.json`."""

    directory: Path
    manifest: Mapping[str, Any] = field(default_factory=dict)
    problem: str | None = None
    """Why the directory is not a run that can be read."""

    @property
    def id(self) -> str:
        """The name of the directory, which finds the run."""
        return self.directory.name

    @property
    def labels(self) -> RunLabels:
        return RunLabels.of(self.manifest)

    @property
    def started(self) -> datetime | None:
        return _time(self.manifest.get("started_at"))

    def status(self) -> str:
        """`finished`, `running`, `interrupted`, `failed`, `out of budget` or `broken`.

        A run that is resumed is running, too. A run that was killed is interrupted: its manifest still says `running`,
        but no process holds its lock.
        """
        if self.problem is not None:
            return "broken"
        status = self.manifest.get("status")
        if is_being_written(self.directory) or (status == "running" and self._is_starting()):
            return "running"
        if status == "running":
            return "interrupted"
        return status if isinstance(status, str) else "broken"

    def _is_starting(self) -> bool:
        """Whether the process that created the run a moment ago exists. It locks the run again when it starts."""
        started, writer = self.started, writer_of(self.directory)
        return (
            started is not None
            and writer is not None
            and abs(datetime.now(UTC) - started) < _START
            and is_alive(writer)
        )


class Catalog:
    """The runs in `.agentv/runs` of a working directory. Each `run.json` is read at most once, when it is needed."""

    def __init__(self, root: Path) -> None:
        self.runs = root / RUNS
        self._entries: dict[str, RunEntry] = {}
        self._ids: list[str] | None = None

    def ids(self) -> list[str]:
        """The names of all directories, newest run first. Ids begin with the time; others are read to find it."""
        if self._ids is None:
            try:
                with os.scandir(self.runs) as found:
                    names = [entry.name for entry in found if entry.is_dir()]
            except OSError:
                names = []
            self._ids = sorted(names, key=self._start, reverse=True)
        return self._ids

    def entries(self) -> Iterator[RunEntry]:
        """All directories, newest run first, including those that cannot be read."""
        return (self.entry(name) for name in self.ids())

    def entry(self, name: str) -> RunEntry:
        if name not in self._entries:
            self._entries[name] = read_entry(self.runs / name)
        return self._entries[name]

    def find(self, run: str) -> Path:
        """The directory of a run. Raises RecordError, with the runs that exist, if no run or several are meant."""
        known = [name for name in self.ids() if os.path.lexists(self.runs / name / MANIFEST)]
        if latest := LATEST.fullmatch(run):
            back = int(latest[1] or 0)
            if back >= len(known):
                raise self._not_found(run, known, f": there {_are(len(known))} in {self.runs}")
            return self.runs / known[back]
        if run in known:
            return self.runs / run
        prefixed = [name for name in known if run and name.startswith(run)]
        # A name never looks like an id, so the prefix of an id does not have to be looked up in every run.json.
        names = {} if prefixed and run[:8].isdigit() else self._names(known)
        if run in names:
            return self.runs / names[run]
        matches = {**{name: name for name in prefixed}, **{n: names[n] for n in names if run and n.startswith(run)}}
        if len(set(matches.values())) == 1:
            return self.runs / next(iter(matches.values()))
        if matches:
            raise RecordError(
                f"'{run}' is ambiguous: {len(matches)} runs begin with it",
                next_step=f"Use a longer prefix: {', '.join(list(matches)[:_SHOWN_RUNS])}.",
            )
        raise self._not_found(run, known, did_you_mean(run, [*names, "latest"]).replace("`", "'"))

    def other_named(self, name: str, directory: Path) -> RunEntry | None:
        """The newest run with this name, except the one in `directory`."""
        others = (entry for entry in self.entries() if entry.directory != directory)
        return next((entry for entry in others if entry.labels.name == name), None)

    def _names(self, known: list[str]) -> dict[str, str]:
        """The newest run of every name."""
        names: dict[str, str] = {}
        for run in known:
            if (name := self.entry(run).labels.name) is not None:
                names.setdefault(name, run)
        return names

    def _start(self, name: str) -> tuple[str, str]:
        if STARTS_WITH_TIME.match(name):
            return name, name
        started = self.entry(name).started
        return f"{started.astimezone(UTC):%Y%m%d-%H%M%S}" if started else "", name

    def _not_found(self, run: str, known: list[str], why: str) -> RecordError:
        if not known:
            hint = f"There are no runs in {self.runs}; specify the path of a run directory instead."
        else:
            hint = f"Latest runs in {self.runs}: {', '.join(map(self._shown, known[:_SHOWN_RUNS]))}."
        return RecordError(f"run '{run}' not found{why}", next_step=hint)

    def _shown(self, run: str) -> str:
        name = self.entry(run).labels.name
        return run if name is None else f"{run} ({name})"


def read_entry(directory: Path) -> RunEntry:
    """The entry of one directory. A directory that is not a run, or cannot be read, has a `problem`."""
    manifest = directory / MANIFEST
    if not os.path.lexists(manifest):
        return RunEntry(directory, problem=f"it has no {MANIFEST}")
    try:
        return RunEntry(directory, read_manifest(manifest, whole=False))
    except RecordError as error:
        return RunEntry(directory, problem=error.message)


def _are(count: int) -> str:
    return f"{'is' if count == 1 else 'are'} {plural(count, 'run')}"


def _time(value: Any) -> datetime | None:
    with suppress(ValueError, TypeError, OverflowError):
        time = datetime.fromisoformat(value)
        return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return None
