"""One side of a comparison: the cases of a run, with all attempts of each case."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from agentv.errors import UsageError
from agentv.report.accumulate import why
from agentv.report.row_source import RowSource
from agentv.report.statistics import mean
from agentv.report.trials import RepeatedCases
from agentv.results import CaseKey, CaseResult
from agentv.trials import Attempts

_REASON_KEPT = 300


@dataclass(slots=True)
class ComparedCase:
    """A case in one run, with all its attempts. Errored attempts have no score."""

    attempts: Attempts
    error: str | None = None
    reason: str = ""
    lowest: float = 2.0

    def add(self, row: CaseResult) -> None:
        """Note the reasons of a row that has been added to the attempts."""
        if row.error is not None:
            self.error = self.error or row.error.message[:_REASON_KEPT]
        elif row.score < self.lowest:
            self.lowest = row.score
            self.reason = why(row)[1][:_REASON_KEPT] if row.score < 1 else ""

    @property
    def errors(self) -> int:
        return self.attempts.errors

    @property
    def judged(self) -> bool:
        return bool(self.attempts.scores)

    @property
    def score(self) -> float:
        return mean(self.attempts.scores)

    @property
    def passed(self) -> bool:
        """Whether the case passes; if errors or missing attempts leave that open, whether the scored attempts do."""
        passed, attempts = self.attempts.passed, self.attempts
        if passed is None:
            scored = replace(attempts.trials, count=max(1, len(attempts.scores)))
            passed = replace(attempts, trials=scored, errors=0).passed
        return passed is True


@dataclass(slots=True)
class ComparedRun:
    """One of the two runs, with its cases by key."""

    source: RowSource
    cases: dict[CaseKey, ComparedCase] = field(default_factory=dict)
    targets: list[str] = field(default_factory=list)
    rows: int = 0
    error_rows: int = 0

    @property
    def suites(self) -> list[str]:
        return list(dict.fromkeys(key.suite for key in self.cases))

    @property
    def attempts(self) -> int:
        """The highest number of attempts of a case."""
        return max((case.attempts.finished for case in self.cases.values()), default=0)

    @property
    def rules(self) -> list[str]:
        """When cases with several attempts pass: the values of `pass_if`."""
        return sorted({case.attempts.trials.pass_if.value for case in self.cases.values()})

    @property
    def label(self) -> str:
        """The name of the run as given by the user; followed by the target if there is only one."""
        return f"{self.source.name} ({self.targets[0]})" if len(self.targets) == 1 else self.source.name

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.source.name,
            "path": str(self.source.path),
            "run_id": self.source.manifest.get("run_id"),
            "scripted": self.source.scripted,
            "replayed": self.source.replayed,
            "targets": self.targets,
            "cases": len(self.cases),
            "rows": self.rows,
            "error_rows": self.error_rows,
            "flaky": sum(case.attempts.is_flaky for case in self.cases.values()),
        }


def read_compared_run(source: RowSource, target: str | None = None) -> ComparedRun:
    """Read the cases of one run, or only those of `target`. Raises UsageError if there are none."""
    side, targets = ComparedRun(source), dict[str, None]()
    repeated = RepeatedCases.of(source.manifest)
    for row in source.rows():
        targets[row.target] = None
        if target is not None and row.target != target:
            continue
        side.rows += 1
        side.error_rows += row.error is not None
        key = row.key.case
        if key not in side.cases:
            side.cases[key] = ComparedCase(Attempts(row.trials or repeated.default))
        side.cases[key].attempts.add(row)
        side.cases[key].add(row)
    if not side.rows:
        hint = f"Available targets: {', '.join(targets)}." if targets else f"{source.path} contains no rows."
        what = f"rows for target '{target}'" if target is not None and targets else "rows"
        raise UsageError(f"{source.name} cannot be compared: it has no {what}", next_step=hint)
    side.targets = [target] if target is not None else list(targets)
    return side
