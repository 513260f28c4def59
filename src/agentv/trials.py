"""Several attempts of a case as one verdict.

A case passes if one attempt passes (`any`), every attempt (`all`), more than half of them (`majority`), or if the mean
score reaches the threshold (`mean`). An attempt that errored or has not run is open: the verdict counts only if it is
the same whatever the open attempts would have scored. So neither an error nor an interrupted run makes a case pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from agentv.results import BORDERLINE, DEFAULT_THRESHOLD, CaseResult, PassIf, Trials, Verdict

_DIGITS = 12
"""Means are rounded to these digits, so that scores of 0.8 have a mean of 0.8."""


@dataclass(slots=True)
class Attempts:
    """The finished attempts of one case with one target."""

    trials: Trials
    threshold: float = DEFAULT_THRESHOLD
    passes: int = 0
    borderline: int = 0
    errors: int = 0
    scores: list[float] = field(default_factory=list)
    """The scores of the attempts without an error."""

    def add(self, row: CaseResult) -> None:
        if row.threshold is not None:
            self.threshold = row.threshold
        if row.error is not None:
            self.errors += 1
            return
        self.scores.append(row.score)
        self.passes += row.verdict is Verdict.PASS
        self.borderline += row.verdict is Verdict.BORDERLINE

    @property
    def finished(self) -> int:
        return len(self.scores) + self.errors

    @property
    def count(self) -> int:
        """The number of attempts of the case, whether they have finished or not."""
        return max(self.trials.count, self.finished)

    @property
    def missing(self) -> int:
        return self.count - self.finished

    @property
    def score(self) -> float | None:
        """The mean score; None if no attempt was scored."""
        return round(math.fsum(self.scores) / len(self.scores), _DIGITS) + 0.0 if self.scores else None

    @property
    def is_flaky(self) -> bool:
        """Whether some attempts passed and others did not. Errors are neither."""
        return 0 < self.passes < len(self.scores)

    @property
    def passed(self) -> bool | None:
        """Whether the case passes; None as long as open attempts could change that."""
        return self._passed(self.passes, math.fsum(self.scores), self.errors + self.missing)

    @property
    def verdict(self) -> Verdict | None:
        """The verdict of the case; None as long as open attempts could change whether it passes.

        A case that does not pass is borderline if it passed by the same rule with 0.6 as the threshold.
        """
        if self.passed is None:
            return None
        if self.passed:
            return Verdict.PASS
        near, scored = self.passes + self.borderline, len(self.scores)
        is_near = {
            PassIf.ANY: near > 0,
            PassIf.ALL: near == scored,
            PassIf.MAJORITY: 2 * near > scored,
            PassIf.MEAN: (self.score or 0.0) >= BORDERLINE,
        }[self.trials.pass_if]
        return Verdict.BORDERLINE if is_near else Verdict.FAIL

    @property
    def is_settled(self) -> bool:
        """Whether the missing attempts can no longer change the outcome, which may be that the case errored."""
        return self._is_settled_after()

    @property
    def needed(self) -> int:
        """How many missing attempts must finish before the outcome can be settled; 0 if it is."""
        if self.is_settled:
            return 0
        kinds: tuple[Callable[[int], bool], ...] = (
            lambda number: self._is_settled_after(passes=number),
            lambda number: self._is_settled_after(failures=number),
            lambda number: self._is_settled_after(errors=number),
        )
        return min(_fewest(self.missing, kind) for kind in kinds)

    @property
    def is_incomplete(self) -> bool:
        """Whether attempts are missing without which the case has no verdict."""
        return self.passed is None and not self.is_settled

    def _is_settled_after(self, *, passes: int = 0, failures: int = 0, errors: int = 0) -> bool:
        """Whether the outcome is settled if the next attempts end like this."""
        left = self.missing - passes - failures - errors
        total, errors = math.fsum(self.scores) + passes, self.errors + errors
        best = self._passed(self.passes + passes + left, total + left, errors)
        worst = self._passed(self.passes + passes, total, errors)
        return best is worst

    def _passed(self, passes: int, total: float, open_attempts: int) -> bool | None:
        """Whether the case passes with this number of passes and this sum of scores."""
        worst = self._reached(passes, total)
        best = self._reached(passes + open_attempts, total + open_attempts)
        return worst if worst == best else None

    def _reached(self, passes: int, total: float) -> bool:
        if self.trials.pass_if is PassIf.ANY:
            return passes > 0
        if self.trials.pass_if is PassIf.ALL:
            return passes == self.count
        if self.trials.pass_if is PassIf.MAJORITY:
            return 2 * passes > self.count
        return round(total / self.count, _DIGITS) >= self.threshold


def _fewest(most: int, is_enough: Callable[[int], bool]) -> int:
    """The smallest number up to `most` that is enough, by bisection; `most` itself always is."""
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle + 1, high)
    return low
