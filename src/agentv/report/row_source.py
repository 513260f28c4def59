"""The source of rows for reports: a run, by its id or directory, or a results file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentv import jsonio
from agentv.errors import RecordError
from agentv.record.files import LONGEST_LINE, failure, open_recorded
from agentv.record.labels import LATEST
from agentv.record.rows import decode_row
from agentv.record.run_dir import MANIFEST, RESULTS, RunDirectory, find_run
from agentv.report.agentv_rows import index_in, row_of
from agentv.report.labels import replayed_id
from agentv.results import CaseResult, RowKey


@dataclass(frozen=True, slots=True)
class RowSource:
    """A results file and the manifest of its run (empty for a file outside a run directory)."""

    name: str
    path: Path
    manifest: Mapping[str, Any] = field(default_factory=dict)
    named_by_user: bool = False
    """Whether the user named the file itself, not its run. It may then be a symbolic link."""

    @property
    def scripted(self) -> bool:
        return self.manifest.get("scripted") is True

    @property
    def replayed(self) -> str | None:
        """The id of the run that was replayed; None if targets and judges were called."""
        return replayed_id(self.manifest)

    @property
    def duration_seconds(self) -> float | None:
        """The duration in the recorded summary."""
        summary = self.manifest.get("summary")
        seconds = summary.get("duration_seconds") if isinstance(summary, dict) else None
        return seconds if isinstance(seconds, int | float) and 0 <= seconds < 1e12 else None

    @property
    def unfinished(self) -> str | None:
        """The status of a run whose rows may be incomplete; None if the run is finished or has no manifest."""
        status = self.manifest.get("status", "finished")
        return None if status == "finished" else str(status)

    def gap(self, rows: int) -> str | None:
        """Describe the rows that are missing, given the number of rows; None if the run is complete or unknown."""
        status, total = self.unfinished, self.manifest.get("total")
        left = total - rows if isinstance(total, int) else 0
        if status is None and left <= 0:
            return None
        upto = "up to " if status is not None and self._stops_early else ""
        missing = f"{upto}{left:,} of {total:,} results missing" if left > 0 else "rows may be missing"
        return f"the run is incomplete ({status}): {missing}" if status else f"the run is incomplete: {missing}"

    @property
    def _stops_early(self) -> bool:
        """Whether attempts that are not needed are not run, so that an unfinished run has fewer rows in the end."""
        suites = self.manifest.get("suites")
        trials = (
            [suite.get("trials") for suite in suites if isinstance(suite, dict)] if isinstance(suites, list) else []
        )
        return any(isinstance(each, dict) and each.get("stop_early") is True for each in trials)

    def rows(self) -> Iterator[CaseResult]:
        """Read the rows one by one. Raises RecordError for a line that is not a valid row, and for a duplicate row."""
        seen: dict[RowKey, int] = {}
        for number, row in self._numbered():
            first = seen.setdefault(row.key, number)
            if first != number:
                raise RecordError(
                    f"{self.path} has two rows for the same case: lines {first} and {number}, {_shown(row.key)}",
                    next_step="If the file contains two runs, split it; otherwise remove one of the lines.",
                )
            yield row

    def _numbered(self) -> Iterator[tuple[int, CaseResult]]:
        for number, line in self.lines():
            row = self._row(number, line)
            if row is not None:
                yield number, row

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """The lines that are not blank, with their numbers. Raises RecordError for a line that is too long."""
        try:
            with open_recorded(self.path, follow_links=self.named_by_user) as file:
                number = 0
                while line := file.readline(LONGEST_LINE + 1):
                    number += 1
                    if len(line) > LONGEST_LINE:
                        raise RecordError(
                            f"{self.path} line {number} is longer than {LONGEST_LINE >> 20} MiB",
                            next_step="Specify a run, or a results file written by `agentv eval`.",
                        )
                    if line.strip():
                        yield number, line
        except OSError as error:
            raise failure("read", self.path, error) from error

    def _row(self, number: int, line: bytes) -> CaseResult | None:
        try:
            return decode_row(line)
        except ValueError as error:
            if self.manifest and not line.endswith(b"\n"):
                return None  # the last line of a running or killed run may be incomplete
            row = None if self.manifest else self._agentv_row(line)
            if row is None:
                torn = "The line is cut off: its run is in progress or was killed. Specify the run, or remove the line."
                raise RecordError(
                    f"{self.path} line {number} is not a valid row: {error}",
                    next_step="Specify a run, or a results file written by `agentv eval`."
                    if line.endswith(b"\n")
                    else torn,
                ) from None
            return row

    def _agentv_row(self, line: bytes) -> CaseResult | None:
        """The row in this line, if the npm package AgentV has written it."""
        try:
            return row_of(jsonio.load(line), self.path.parent)
        except ValueError:
            return None


def find_rows(name: str, root: Path) -> RowSource:
    """Find the rows of a results file, or of a run by its id, a prefix of its id, or its directory."""
    path = root / name
    if name and path.is_dir() and (path / RESULTS).is_file() and not (path / MANIFEST).is_file():
        RunDirectory(path).refuse_special_files()
        path /= RESULTS
    if name and path.is_dir() and not (path / MANIFEST).is_file() and (index := index_in(path)) is not None:
        path = index
    if name and path.is_file():
        beside = RunDirectory(path.parent)
        manifest = _manifest(beside) if path.name == RESULTS else {}
        return RowSource(name, path, manifest, named_by_user=path == root / name)
    if Path(name).suffix in {".jsonl", ".json"} or (name and path.exists() and not path.is_dir()):
        raise RecordError(
            f"results file not found: {name}", next_step="Specify a run id, a run directory or a results file."
        )
    run = find_run(name, root)
    if LATEST.fullmatch(name):
        name = run.path.name  # what `latest` means changes with every run
    return RowSource(name, run.results, run.read_manifest())


def _manifest(run: RunDirectory) -> dict[str, Any]:
    return run.read_manifest() if run.manifest.is_file() else {}


def _shown(key: RowKey) -> str:
    return f"{key.eval_id!r} of suite {key.suite!r}, target {key.target!r}, attempt {key.attempt}"
