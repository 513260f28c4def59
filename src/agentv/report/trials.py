"""Cases with several attempts: one verdict per case, which cases are flaky, pass@k, pass^k and the spread.

pass@k is the probability that at least one of k attempts passes, pass^k that all of them pass. Both are estimated
without bias from the n scored attempts of a case, of which c passed: 1 - C(n-c, k) / C(n, k) and C(c, k) / C(n, k).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from agentv.codec import OMIT_DEFAULT
from agentv.results import CaseKey, CaseResult, PassIf, Trials, Verdict
from agentv.trials import Attempts

_EVERY_K = 10
FLAKY_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Estimate:
    """A probability with its 95 % interval, and the number of cases it was estimated from."""

    value: float
    interval: tuple[float, ...]
    cases: int


@dataclass(frozen=True, slots=True)
class FlakyCase:
    """A case that passed although some of its attempts did not."""

    suite: str
    eval_id: str
    target: str
    passes: int
    attempts: int
    score: float


@dataclass(frozen=True, slots=True)
class Repeats:
    """Statistics over the cases with several attempts."""

    cases: int
    count: int
    """Attempts per case; the smallest number if cases differ."""
    pass_if: tuple[str, ...]
    stop_early: bool = False
    """Whether attempts were not run because the verdict was certain. pass@k, pass^k and the spread would be biased and
    are not computed then."""
    pass_at_k: Mapping[str, Estimate] = field(default_factory=dict)
    pass_hat_k: Mapping[str, Estimate] = field(default_factory=dict)
    spread: float | None = None
    """The standard deviation of the scores within cases; None if no case has two scored attempts."""
    flaky: Annotated[tuple[FlakyCase, ...], OMIT_DEFAULT] = ()
    """Flaky cases that passed, lowest score first."""

    @property
    def at_count(self) -> tuple[Estimate, Estimate] | None:
        """pass@k and pass^k for the number of attempts; None if they were not computed."""
        key = str(self.count)
        return (self.pass_at_k[key], self.pass_hat_k[key]) if key in self.pass_at_k else None


class RepeatedCases:
    """The attempts of each case, for rows in any order.

    Rows of cases with a single attempt are not kept, unless `every` is set: rows of older versions and of other tools
    do not say how many attempts there are, and a case passes if more than half of them do.
    """

    def __init__(self, *, every: bool = False, count: int = 1) -> None:
        self.cases: dict[CaseKey, Attempts] = {}
        self.default = Trials(count)
        """The trials of rows that do not say how many attempts there are."""
        self._every = every

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> RepeatedCases:
        """For the rows of the run with this `run.json`; empty for a file outside a run directory."""
        suites, options = manifest.get("suites"), manifest.get("options")
        if isinstance(suites, list) and all(isinstance(suite, dict) and "trials" in suite for suite in suites):
            return cls()
        repeat = options.get("repeat") if isinstance(options, dict) and not options.get("outputs") else None
        return cls(every=True, count=repeat if isinstance(repeat, int) and 1 <= repeat < 2**63 else 1)

    def add(self, row: CaseResult) -> bool:
        """Add a row; returns whether its case has several attempts, or may have."""
        if row.trials is None and not self._every:
            return False
        key = row.key.case
        if key not in self.cases:
            self.cases[key] = Attempts(row.trials or self.default)
        self.cases[key].add(row)
        return True

    @property
    def repeated(self) -> dict[CaseKey, Attempts]:
        """The cases with more than one attempt."""
        return {key: case for key, case in self.cases.items() if case.count > 1}

    def statistics(self) -> Repeats | None:
        """None if no case has more than one attempt."""
        repeated = self.repeated
        if not repeated:
            return None
        cases = [repeated[key] for key in sorted(repeated)]
        count = min(case.count for case in cases)
        rules = {case.trials.pass_if for case in cases}
        stop_early = any(case.trials.stop_early for case in cases)
        ks = [] if stop_early else _numbers(count)
        flaky = [
            FlakyCase(*key, passes=case.passes, attempts=case.finished, score=case.score or 0.0)
            for key, case in repeated.items()
            if case.is_flaky and case.verdict is Verdict.PASS
        ]
        flaky.sort(key=lambda case: (case.score, case.suite, case.eval_id, case.target))
        return Repeats(
            len(cases),
            count,
            tuple(rule.value for rule in PassIf if rule in rules),
            stop_early,
            {str(k): rate for k in ks if (rate := _estimate([pass_at(k, case) for case in cases]))},
            {str(k): rate for k in ks if (rate := _estimate([pass_hat(k, case) for case in cases]))},
            None if stop_early else spread(cases),
            tuple(flaky[:FLAKY_SHOWN]),
        )


def not_passed(rows: Iterable[CaseResult], manifest: Mapping[str, Any]) -> list[CaseKey]:
    """The cases that did not pass, errored or have no verdict yet, in the order of their first rows."""
    cases, single = RepeatedCases.of(manifest), dict[CaseKey, bool]()
    for row in rows:
        several = cases.add(row)
        single.setdefault(row.key.case, not several and row.error is None and row.verdict is Verdict.PASS)
    return [key for key, passed in single.items() if not (cases.cases[key].passed if key in cases.cases else passed)]


def pass_at(k: int, case: Attempts) -> float | None:
    """The probability that at least one of k attempts passes; None if fewer than k attempts were scored."""
    scored = len(case.scores)
    return None if scored < k else 1.0 - math.comb(scored - case.passes, k) / math.comb(scored, k)


def pass_hat(k: int, case: Attempts) -> float | None:
    """The probability that all of k attempts pass; None if fewer than k attempts were scored."""
    scored = len(case.scores)
    return None if scored < k else math.comb(case.passes, k) / math.comb(scored, k)


def spread(cases: Iterable[Attempts]) -> float | None:
    """The standard deviation of the scores within cases, pooled over all of them."""
    from agentv.report.statistics import exact  # noqa: PLC0415 - slow to import, and most runs have no repeats

    squares, freedom = [], 0
    for case in cases:
        if len(case.scores) > 1:
            centre = math.fsum(case.scores) / len(case.scores)
            squares += [(score - centre) ** 2 for score in case.scores]
            freedom += len(case.scores) - 1
    return exact(math.sqrt(math.fsum(squares) / freedom)) if freedom else None


def _estimate(values: Iterable[float | None]) -> Estimate | None:
    """The mean over cases, with a Wilson interval.

    The sample size is the number of cases. For k below the number of attempts this is conservative: the variance of
    values from 0 to 1 is never larger than that of a yes or no with the same mean.
    """
    from agentv.report.statistics import exact, mean, wilson  # noqa: PLC0415 - slow to import

    known = [value for value in values if value is not None]
    if not known:
        return None
    value = mean(known)
    low, high = wilson(value * len(known), len(known))
    return Estimate(value, (exact(low), exact(high)), len(known))


def _numbers(count: int) -> list[int]:
    """The k for which estimates are made: all up to 10, otherwise powers of two and the number of attempts."""
    if count <= _EVERY_K:
        return list(range(1, count + 1))
    return [*(2**power for power in range(count.bit_length()) if 2**power < count), count]


def passes_of(case: Attempts) -> str:
    """The passed attempts of a case, such as `2/5 flaky`."""
    shown = f"{case.passes}/{case.finished}{' flaky' if case.is_flaky else ''}"
    errors = f", {case.errors} errored" if case.errors else ""
    return shown + errors
