"""One side of a comparison: the cases of a run, with all attempts of each case."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from agentv.errors import UsageError
from agentv.report.accumulate import why
from agentv.report.row_source import RowSource
from agentv.report.statistics import mean
from agentv.results import CaseKey, CaseResult, Verdict

_REASON_KEPT = 300


@dataclass(slots=True)
class Attempts:
    """All attempts of a case in one run. Errored attempts are counted separately and have no score."""

    scores: list[float] = field(default_factory=list)
    passes: int = 0
    errors: int = 0
    error: str | None = None
    reason: str = ""
    lowest: float = 2.0

    def add(self, row: CaseResult) -> None:
        if row.error is not None:
            self.errors += 1
            self.error = self.error or row.error.message[:_REASON_KEPT]
            return
        self.scores.append(row.score)
        self.passes += row.verdict is Verdict.PASS
        if row.score < self.lowest:
            self.lowest = row.score
            self.reason = why(row)[1][:_REASON_KEPT] if row.score < 1 else ""

    @property
    def judged(self) -> bool:
        return bool(self.scores)

    @property
    def score(self) -> float:
        return mean(self.scores)

    @property
    def passed(self) -> bool:
        """Whether more than half of the scored attempts passed."""
        return 2 * self.passes > len(self.scores)


@dataclass(slots=True)
class ComparedRun:
    """One of the two runs, with its cases by key."""

    source: RowSource
    cases: dict[CaseKey, Attempts] = field(default_factory=dict)
    targets: list[str] = field(default_factory=list)
    rows: int = 0
    error_rows: int = 0

    @property
    def suites(self) -> list[str]:
        return list(dict.fromkeys(key.suite for key in self.cases))

    @property
    def attempts(self) -> int:
        return max((len(case.scores) + case.errors for case in self.cases.values()), default=0)

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
            "targets": self.targets,
            "cases": len(self.cases),
            "rows": self.rows,
            "error_rows": self.error_rows,
        }


def read_compared_run(source: RowSource, target: str | None = None) -> ComparedRun:
    """Read the cases of one run, or only those of `target`. Raises UsageError if there are none."""
    side, targets = ComparedRun(source), dict[str, None]()
    for row in source.rows():
        targets[row.target] = None
        if target is not None and row.target != target:
            continue
        side.rows += 1
        side.error_rows += row.error is not None
        side.cases.setdefault(row.key.case, Attempts()).add(row)
    if not side.rows:
        hint = f"Available targets: {', '.join(targets)}." if targets else f"{source.path} contains no rows."
        what = f"rows for target '{target}'" if target is not None and targets else "rows"
        raise UsageError(f"{source.name} cannot be compared: it has no {what}", next_step=hint)
    side.targets = [target] if target is not None else list(targets)
    return side
