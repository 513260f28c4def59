"""One side of a comparison: the cases of a run, with all attempts of each case."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from agentv.errors import UsageError
from agentv.report.accumulate import why
from agentv.report.row_source import RowSource
from agentv.report.statistics import mean
from agentv.report.trials import RepeatedCases
from agentv.report.variant_table import variant_order
from agentv.results import CaseKey, CaseResult, Trials
from agentv.trials import Attempts

_REASON_KEPT = 300
By = Literal["prompt", "target"]


@dataclass(slots=True)
class ComparedCase:
    """A case in one run, with all its attempts. Errored attempts have no score."""

    attempts: Attempts
    error: str | None = None
    reason: str = ""
    lowest: float = 2.0
    first_row: int = 0
    """The position of the first row of the case among the rows of the run."""

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
    paired_by: str = "target"
    """What else cases are paired by, if they have several: the third part of the keys."""

    def add(self, row: CaseResult, key: CaseKey, trials: Trials) -> None:
        """Add a row to the case with this key."""
        self.rows += 1
        self.error_rows += row.error is not None
        if key not in self.cases:
            self.cases[key] = ComparedCase(Attempts(row.trials or trials), first_row=self.rows - 1)
        self.cases[key].attempts.add(row)
        self.cases[key].add(row)

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


def read_variants(source: RowSource, by: By) -> dict[str, ComparedRun]:
    """One side for each prompt or each target of a run. Cases are paired by target, or by prompt, too."""
    sides: dict[str, ComparedRun] = {}
    repeated = RepeatedCases.of(source.manifest)
    for row in source.rows():
        name = row.prompt if by == "prompt" else row.target
        if name is None:
            continue
        kind = "target" if by == "prompt" else "prompt"
        side = sides.setdefault(name, ComparedRun(source, targets=[name], paired_by=kind))
        other = row.target if by == "prompt" else row.prompt
        side.add(row, CaseKey(row.suite, row.eval_id, other or ""), repeated.default)
    if len(sides) < 2:
        have = f"its only {by} is '{next(iter(sides))}'" if sides else f"it has no {by}s"
        raise UsageError(
            f"{source.name} cannot be compared by {by}: {have}.",
            next_step="Run the suite with several prompts (`prompts:` or --prompt)." if by == "prompt"
            else "Run the suite with several targets (--target A --target B).",
        )  # fmt: skip
    order = variant_order(source.manifest)[0 if by == "target" else 1]
    sides = dict(sorted(sides.items(), key=lambda side: order.index(side[0]) if side[0] in order else len(order)))
    others = {key.target for side in sides.values() for key in side.cases}
    if len(others) == 1:
        for side in sides.values():
            side.cases = {key._replace(target=""): case for key, case in side.cases.items()}
    return sides


def read_compared_run(source: RowSource, target: str | None = None) -> ComparedRun:
    """Read the cases of one run, or only those of `target`, which may be a variant. UsageError if there are none."""
    side, targets = ComparedRun(source), dict[str, None]()
    repeated = RepeatedCases.of(source.manifest)
    for row in source.rows():
        targets[row.variant] = None
        if row.prompt is not None:
            side.paired_by = "variant" if target is None else "prompt"
        if target is not None and target not in (row.target, row.variant):
            continue
        # Of a chosen target, cases are paired by prompt: the other run may have another target.
        key = CaseKey(row.suite, row.eval_id, row.prompt or "") if target == row.target else row.key.case
        side.add(row, key, repeated.default)
    if not side.rows:
        hint = f"Available targets: {', '.join(targets)}." if targets else f"{source.path} contains no rows."
        what = f"rows for target '{target}'" if target is not None and targets else "rows"
        raise UsageError(f"{source.name} cannot be compared: it has no {what}", next_step=hint)
    side.targets = [target] if target is not None else list(targets)
    return side
