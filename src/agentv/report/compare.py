"""Compare two runs case by case: score differences, their statistical significance, and the exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from agentv.errors import UsageError
from agentv.report.compared_run import ComparedCase, ComparedRun
from agentv.report.statistics import (
    Interval,
    exact,
    fewest_to_tell,
    mcnemar_exact,
    mean,
    normalised_gain,
    one_per_case,
    paired_bootstrap,
    sign_test,
    wilson,
)
from agentv.results import CaseKey
from agentv.text import plural

_CHANGES = 5
"""Changes in a note."""


class Outcome(StrEnum):
    """Whether a case scored higher, lower or the same in the candidate."""

    WIN = "win"
    LOSS = "loss"
    TIE = "tie"


class Conclusion(StrEnum):
    """The result of the comparison, from the confidence interval of the mean difference."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    UNCLEAR = "unclear"
    TOO_FEW = "too_few"


@dataclass(frozen=True, slots=True)
class Pair:
    """A case that was scored in both runs."""

    key: CaseKey
    score1: float
    score2: float
    delta: float
    outcome: Outcome
    passed1: bool
    passed2: bool
    reason: str
    """Why the case lost points in the candidate or, for a win, in the baseline."""
    attempts1: tuple[int, int] = (0, 1)
    """How many attempts passed, and how many were run."""
    attempts2: tuple[int, int] = (0, 1)

    @property
    def attempts(self) -> tuple[str, str] | None:
        """The passed attempts in both runs, such as `2/5`; None if each run has a single attempt."""
        if self.attempts1[1] == self.attempts2[1] == 1:
            return None
        return "/".join(map(str, self.attempts1)), "/".join(map(str, self.attempts2))

    def to_dict(self) -> dict[str, Any]:
        several = {"passed_attempts1": self.attempts1[0], "attempts1": self.attempts1[1]}
        several |= {"passed_attempts2": self.attempts2[0], "attempts2": self.attempts2[1]}
        return {
            "eval_id": self.key.eval_id,
            "score1": self.score1,
            "score2": self.score2,
            "delta": self.delta,
            "outcome": self.outcome.value,
            "suite": self.key.suite,
            "target": self.key.target,
            "passed1": self.passed1,
            "passed2": self.passed2,
            "reason": self.reason,
            **(several if self.attempts else {}),
        }


@dataclass(frozen=True, slots=True)
class Unjudged:
    """A case with at least one errored attempt in either run."""

    key: CaseKey
    baseline_error: str | None
    candidate_error: str | None
    compared: bool
    """Whether both runs scored other attempts, so that the case is compared on those."""

    def to_dict(self) -> dict[str, Any]:
        return {
            **self.key.to_dict(),
            "error1": self.baseline_error,
            "error2": self.candidate_error,
            "compared": self.compared,
        }


@dataclass(frozen=True, slots=True)
class Tested:
    """The differences of pairs, tested over cases: the pairs of one case count once, with their mean."""

    cases: int
    mean_delta: float | None
    interval: Interval | None
    conclusion: Conclusion
    sign_test_p: float
    mcnemar_p: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """The complete comparison of two runs."""

    baseline: ComparedRun
    candidate: ComparedRun
    pairs: tuple[Pair, ...]
    unjudged: tuple[Unjudged, ...]
    only_baseline: tuple[CaseKey, ...]
    only_candidate: tuple[CaseKey, ...]
    threshold: float
    confidence: float
    mean1: float | None
    mean2: float | None
    tested: Tested
    changes: tuple[str, ...] = ()
    """What else changed between the runs and may explain a difference, such as a file with checks."""

    @property
    def mean_delta(self) -> float | None:
        return self.tested.mean_delta

    @property
    def interval(self) -> Interval | None:
        return self.tested.interval

    @property
    def conclusion(self) -> Conclusion:
        return self.tested.conclusion

    @property
    def cases(self) -> int:
        """The number of compared cases. A case has several pairs if it has several prompts or targets."""
        return self.tested.cases

    @property
    def each_with(self) -> str:
        """How many prompts or targets each case has, such as `8 prompts`; empty if each has one."""
        if len(self.pairs) == self.cases:
            return ""
        most = max(Counter(case_of(pair) for pair in self.pairs).values())
        return f"{'up to ' if most * self.cases != len(self.pairs) else ''}{plural(most, self.candidate.paired_by)}"

    def count(self, outcome: Outcome) -> int:
        return sum(pair.outcome is outcome for pair in self.pairs)

    @property
    def passed(self) -> tuple[int, int]:
        return sum(pair.passed1 for pair in self.pairs), sum(pair.passed2 for pair in self.pairs)

    @property
    def flips(self) -> tuple[int, int]:
        """The number of cases that pass only in the candidate, and the number that pass only in the baseline."""
        newly_passed = sum(pair.passed2 and not pair.passed1 for pair in self.pairs)
        return newly_passed, sum(pair.passed1 and not pair.passed2 for pair in self.pairs)

    @property
    def lost_to_errors(self) -> tuple[Unjudged, ...]:
        """Cases that errored in the candidate but not in the baseline."""
        return tuple(case for case in self.unjudged if case.baseline_error is None)

    def worst(self, most: int) -> list[Pair]:
        """The largest losses, largest first. If there are none, the largest drops smaller than the threshold."""
        drops = [pair for pair in self.pairs if pair.delta < 0]
        losses = [pair for pair in drops if pair.outcome is Outcome.LOSS]
        return sorted(losses or drops, key=lambda pair: (pair.delta, pair.key))[:most]

    def best(self, most: int) -> list[Pair]:
        """The largest wins, largest first. If there are none, the largest gains smaller than the threshold."""
        gains = [pair for pair in self.pairs if pair.delta > 0]
        wins = [pair for pair in gains if pair.outcome is Outcome.WIN]
        return sorted(wins or gains, key=lambda pair: (-pair.delta, pair.key))[:most]

    def notes(self) -> list[str]:
        """Caveats that readers of the numbers should know."""
        notes = []
        for word, side in (("baseline", self.baseline), ("candidate", self.candidate)):
            if side.source.scripted:
                notes.append(f"scripted model: the {word} comes from the mock provider, not from a real model")
            if side.source.replayed is not None:
                notes.append(f"replayed: the {word} was made from the record of run {side.source.replayed}")
            if side.source.unfinished:
                notes.append(f"the {word} run is incomplete ({side.source.unfinished}): cases may be missing")
        if self.changes:
            more = f"; and {len(self.changes) - _CHANGES:,} more" if len(self.changes) > _CHANGES else ""
            notes.append(f"between the runs, {'; '.join(self.changes[:_CHANGES])}{more}")
        suites1, suites2 = self.baseline.suites, self.candidate.suites
        if len(suites1) == len(suites2) == 1 and suites1 != suites2:
            names = f"'{suites1[0]}' in the baseline, '{suites2[0]}' in the candidate"
            notes.append(f"the suites have different names ({names}): cases are paired by id")
        if self.baseline.attempts != self.candidate.attempts:
            attempts = f"{plural(self.baseline.attempts, 'attempt')} in the baseline and {self.candidate.attempts:,}"
            notes.append(f"cases have up to {attempts} in the candidate; each counts once, with its mean score")
        elif self.baseline.attempts > 1:
            notes.append("each case counts once, with its mean score")
        if self.each_with:
            means = f"each case counts once, with its mean over {self.each_with}"
            notes.append(f"{means}: intervals and p-values are over cases; other counts are of results")
        rules = [f"pass if {' or '.join(side.rules)}" for side in (self.baseline, self.candidate)]
        if max(self.baseline.attempts, self.candidate.attempts) > 1:
            both = f"{rules[0]} in the baseline, {rules[1]} in the candidate"
            notes.append(f"verdicts over the attempts of a case: {rules[0] if rules[0] == rules[1] else both}")
            flaky = [
                sum(case.attempts.is_flaky for case in side.cases.values()) for side in (self.baseline, self.candidate)
            ]
            notes.append(f"flaky cases: {flaky[0]:,} in the baseline, {flaky[1]:,} in the candidate")
        return notes

    def to_dict(self) -> dict[str, Any]:
        passed1, passed2 = self.passed
        newly_passed, newly_failed = self.flips
        wins, losses, ties = (self.count(outcome) for outcome in Outcome)
        only1, only2 = len(self.only_baseline), len(self.only_candidate)
        return {
            "matched": [pair.to_dict() for pair in self.pairs],
            "unmatched": {"file1": only1, "file2": only2},
            "summary": {
                "total": len(self.pairs) + sum(not case.compared for case in self.unjudged) + only1 + only2,
                "matched": len(self.pairs),
                "cases": self.cases,
                "wins": wins,
                "losses": losses,
                "ties": ties,
                "mean_delta": self.mean_delta,
                "mean1": self.mean1,
                "mean2": self.mean2,
                "interval": list(self.interval) if self.interval else None,
                "confidence": self.confidence,
                "threshold": self.threshold,
                "conclusion": self.conclusion.value,
                "normalised_gain": self.gain,
                "sign_test_p": self.tested.sign_test_p,
                "passed1": passed1,
                "passed2": passed2,
                "pass_rate1": self._rate(passed1),
                "pass_rate2": self._rate(passed2),
                "newly_passed": newly_passed,
                "newly_failed": newly_failed,
                "mcnemar_p": self.tested.mcnemar_p,
                "unjudged": len(self.unjudged),
            },
            "unmatched_cases": {
                "file1": [key.to_dict() for key in self.only_baseline],
                "file2": [key.to_dict() for key in self.only_candidate],
            },
            "unjudged": [case.to_dict() for case in self.unjudged],
            "baseline": self.baseline.to_dict(),
            "candidate": self.candidate.to_dict(),
            "notes": self.notes(),
        }

    @property
    def gain(self) -> float | None:
        """The normalised gain; None if no case was scored in both runs or the baseline has nothing to gain."""
        if self.mean1 is None or self.mean2 is None:
            return None
        return normalised_gain(self.mean1, self.mean2)

    @property
    def meaningful_gain(self) -> float | None:
        """The normalised gain if it is between -1 and 1, else None.

        If the baseline is close to 1, a small loss is many times what could have been gained.
        """
        return self.gain if self.gain is not None and abs(self.gain) <= 1 else None

    def rate_interval(self, passed: int) -> Interval:
        """The interval of a pass rate, as if each case had one result: results of one case are alike."""
        return wilson(passed * self.cases / len(self.pairs), self.cases, confidence=self.confidence)

    def _rate(self, passed: int) -> dict[str, Any]:
        total = len(self.pairs)
        return {
            "rate": passed / total if total else None,
            "interval": list(self.rate_interval(passed)) if total else None,
        }


@dataclass(frozen=True, slots=True)
class Decision:
    """The exit code and the reasons for it; the first reason determined the exit code."""

    exit_code: int
    reasons: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"exit_code": self.exit_code, "reasons": list(self.reasons)}


def compare(
    baseline: ComparedRun, candidate: ComparedRun, *, threshold: float = 0.1, confidence: float = 0.95
) -> Comparison:
    """Pair the cases of two runs and evaluate the differences.

    Raises UsageError if the runs have no cases in common.
    """
    cases1, cases2 = keyed_cases(baseline, candidate)
    common = [key for key in cases1 if key in cases2]
    if not common:
        raise _nothing_in_common(baseline, candidate)
    pairs, unjudged = [], []
    for key in sorted(common):
        one, two = cases1[key], cases2[key]
        judged = one.judged and two.judged
        if judged:
            pairs.append(_pair(key, one, two, threshold))
        if one.errors or two.errors:
            unjudged.append(Unjudged(key, one.error, two.error, judged))
    return Comparison(
        baseline=baseline,
        candidate=candidate,
        pairs=tuple(pairs),
        unjudged=tuple(unjudged),
        only_baseline=tuple(sorted(key for key in cases1 if key not in cases2)),
        only_candidate=tuple(sorted(key for key in cases2 if key not in cases1)),
        threshold=threshold,
        confidence=confidence,
        mean1=mean(one_per_case((case_of(pair), pair.score1) for pair in pairs)) if pairs else None,
        mean2=mean(one_per_case((case_of(pair), pair.score2) for pair in pairs)) if pairs else None,
        tested=over_cases(pairs, confidence),
    )


def decide(comparison: Comparison, *, max_drop: float | None = None, allow_errors: bool = False) -> Decision:
    """The exit code for CI: 3 if cases errored or are missing, 1 for a regression, else 0."""
    reasons: list[tuple[int, str]] = []
    lost, drop = comparison.lost_to_errors, -(comparison.mean_delta or 0.0)
    if lost and not allow_errors:
        errored = f"{plural(len(lost), 'case')} scored in the baseline errored in the candidate"
        reasons.append((3, f"{errored} (use --allow-errors to ignore errors)"))
    elif comparison.candidate.source.unfinished and comparison.only_baseline and not allow_errors:
        missing = plural(len(comparison.only_baseline), "case")
        status = comparison.candidate.source.unfinished
        reasons.append((3, f"the candidate run is incomplete ({status}): it lacks {missing} of the baseline"))
    elif not comparison.pairs:
        reasons.append((3, "no case was scored in both runs"))
    if max_drop is not None and exact(drop) > exact(max_drop):
        fell = format_delta(drop, sign=False)
        fell = fell if float(fell) > max_drop else f"{exact(drop):.12g}"
        reasons.append((1, f"the mean score fell by {fell}, more than the allowed {max_drop:g}"))
    if comparison.conclusion is Conclusion.WORSE:
        reasons.append((1, "statistically significant regression: the interval of the difference excludes 0"))
    if reasons:
        return Decision(reasons[0][0], tuple(text for _, text in reasons))
    return Decision(0, (_FINE[comparison.conclusion],))


def format_delta(delta: float, *, sign: bool = True) -> str:
    """Three decimals, or one significant digit for smaller differences, so that they are not shown as 0."""
    plus = "+" if sign and delta else ""
    return f"{delta:{plus}.3f}" if not delta or abs(delta) >= 0.0005 else f"{delta:{plus}.1g}"


_FINE = {
    Conclusion.BETTER: "no regression: the improvement is statistically significant",
    Conclusion.SAME: "no regression: all cases scored the same",
    Conclusion.UNCLEAR: "no statistically significant regression: the interval of the difference includes 0",
    Conclusion.TOO_FEW: "too few cases to detect a regression",
}


def keyed_cases(
    one: ComparedRun, two: ComparedRun
) -> tuple[Mapping[CaseKey, ComparedCase], Mapping[CaseKey, ComparedCase]]:
    """The cases of both runs by their pairing key.

    If each run has one target, target names are ignored; if each run has one suite, suite names are.
    """
    cases1, cases2 = one.cases, two.cases
    if one.source is not two.source and len(_targets(one)) == len(_targets(two)) == 1:
        cases1, cases2 = _without_target(one), _without_target(two)
    suites1, suites2 = one.suites, two.suites
    if len(suites1) == len(suites2) == 1 and suites1 != suites2:
        cases2 = {key._replace(suite=suites1[0]): attempts for key, attempts in cases2.items()}
    return cases1, cases2


def _targets(side: ComparedRun) -> set[str]:
    return {key.target for key in side.cases}


def _without_target(side: ComparedRun) -> dict[CaseKey, ComparedCase]:
    return {CaseKey(suite, eval_id, ""): attempts for (suite, eval_id, _), attempts in side.cases.items()}


def _pair(key: CaseKey, one: ComparedCase, two: ComparedCase, threshold: float) -> Pair:
    score1, score2 = one.score, two.score
    delta = exact(score2 - score1)
    outcome = Outcome.TIE
    if delta and abs(delta) >= threshold:
        outcome = Outcome.WIN if delta > 0 else Outcome.LOSS
    reason = one.reason if delta > 0 else two.reason
    passes = [(case.attempts.passes, case.attempts.finished) for case in (one, two)]
    return Pair(key, score1, score2, delta, outcome, one.passed, two.passed, reason, *passes)


def case_of(pair: Pair) -> tuple[str, str]:
    """What all pairs of a case have in common."""
    return pair.key.suite, pair.key.eval_id


def over_cases(
    pairs: Sequence[Pair], confidence: float, interval_of: Callable[..., Interval] = paired_bootstrap
) -> Tested:
    """Test the differences of pairs over their cases.

    For the sign test and McNemar's test, a case is better if more of its pairs are better than worse.
    """
    deltas = one_per_case((case_of(pair), pair.delta) for pair in pairs)
    signs = one_per_case((case_of(pair), _SIGNS[pair.outcome]) for pair in pairs)
    flips = one_per_case((case_of(pair), pair.passed2 - pair.passed1) for pair in pairs)
    return Tested(
        len(deltas),
        *conclude(deltas, confidence, interval_of),
        sign_test_p=sign_test(sum(sign > 0 for sign in signs), sum(sign < 0 for sign in signs)),
        mcnemar_p=mcnemar_exact(sum(flip > 0 for flip in flips), sum(flip < 0 for flip in flips)),
    )


_SIGNS = {Outcome.WIN: 1, Outcome.LOSS: -1, Outcome.TIE: 0}


def conclude(
    deltas: Sequence[float], confidence: float, interval_of: Callable[..., Interval] = paired_bootstrap
) -> tuple[float | None, Interval | None, Conclusion]:
    """The mean of paired differences, its interval, and what follows from it.

    `interval_of` is called with the differences and `confidence`.
    """
    mean_delta = mean(deltas) if deltas else None
    if mean_delta is None or len(deltas) < fewest_to_tell(confidence):
        return mean_delta, None, Conclusion.TOO_FEW
    interval = interval_of(deltas, confidence=confidence)
    if not any(deltas):
        return mean_delta, interval, Conclusion.SAME
    if not interval.excludes(0.0):
        return mean_delta, interval, Conclusion.UNCLEAR
    return mean_delta, interval, Conclusion.BETTER if mean_delta > 0 else Conclusion.WORSE


def _nothing_in_common(one: ComparedRun, two: ComparedRun) -> UsageError:
    if len(one.targets) > 1 or len(two.targets) > 1:
        hint = (
            "If a run has several targets, cases are paired by target. "
            f"Select one per run with --target-a ({_some(one.targets)}) and --target-b ({_some(two.targets)})."
        )
    else:
        suites = [_some(side.suites) for side in (one, two)]
        hint = (
            "Cases are paired by suite and id, or by id alone if each run has one suite. "
            f"Suites of the two runs: {suites[0]}; and {suites[1]}."
        )
    return UsageError(f"{one.source.name} and {two.source.name} have no cases in common", next_step=hint)


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - 5:,} more" if len(listed) > 5 else ""
    return ", ".join(listed[:5]) + more
