"""Compare the variants of one run: prompts, and targets with them. Which one is best, and is that certain?"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from agentv.report.compare import Conclusion, conclude
from agentv.report.compared_run import By
from agentv.report.statistics import exact, one_per_case
from agentv.report.variant_table import CONFIDENCE, Rival, VariantCase, Variants, variant_order
from agentv.results import CaseResult, variant_of
from agentv.text import plural

MOST_CASES = 12
"""Cases in the table of a summary. All of them are in `results.jsonl`."""

_Results = Mapping[tuple[str, str], Sequence[Sequence[float | None]]]
"""The score of each case with each variant, for each prompt or target that it was run with besides."""


class VariantScores:
    """Collects the scores of cases by variant, one row at a time.

    With `by`, only prompts or only targets are compared, within each of the others. A case counts once, with its mean
    over the others.
    """

    def __init__(self, manifest: Mapping[str, Any], by: By | None = None) -> None:
        self._by = by
        self._order = variant_order(manifest)
        self._numbers: dict[tuple[str, str | None], int] = {}
        self._others: dict[str, int] = {}
        self._scores: dict[tuple[str, str], dict[tuple[int, int], array[float]]] = {}
        """The scores of each case, by variant and by what else it was run with."""

    def add(self, row: CaseResult) -> None:
        variant, other = (row.target, row.prompt), ""
        if self._by == "prompt":
            variant, other = ("", row.prompt), row.target
        elif self._by == "target":
            variant, other = (row.target, None), row.prompt or ""
        number = self._numbers.setdefault(variant, len(self._numbers))
        beside = self._others.setdefault(other, len(self._others))
        scores = self._scores.setdefault((row.suite, row.eval_id), {})
        if row.error is None:
            scores.setdefault((number, beside), array("d")).append(row.score)

    def __len__(self) -> int:
        """The number of variants."""
        return len(self._numbers)

    def _variants(self) -> list[tuple[str, str | None]]:
        """The variants in the order of the suite."""
        targets, prompts = self._order

        def place(name: str | None, order: list[str]) -> int:
            return order.index(name) if name in order else len(order)

        return sorted(self._numbers, key=lambda variant: (place(variant[0], targets), place(variant[1], prompts)))

    def names(self) -> list[str]:
        """The names of the variants: prompts, with the target if there are several."""
        several = len({target for target, _ in self._numbers}) > 1
        prompts = len({prompt for _, prompt in self._numbers}) > 1
        return [
            variant_of(target, prompt) if several and prompts else target if several else prompt or target
            for target, prompt in self._variants()
        ]

    def compared(self, confidence: float = CONFIDENCE, most: int = MOST_CASES) -> Variants:
        names, numbers = self.names(), [self._numbers[variant] for variant in self._variants()]
        # Sorted, because rows arrive in any order.
        results = {
            case: [[_mean(scores.get((number, other))) for other in range(len(self._others))] for number in numbers]
            for case, scores in sorted(self._scores.items())
        }
        cases = [
            VariantCase(*case, tuple(_mean([score for score in scores if score is not None]) for scores in variants))
            for case, variants in results.items()
        ]
        columns = [[case.scores[place] for case in cases] for place in range(len(names))]
        means = [_mean([score for score in column if score is not None]) for column in columns]
        ranked = sorted(
            (place for place in range(len(names)) if means[place] is not None),
            key=lambda place: (-(means[place] or 0.0), place),
        )
        shown = sorted(cases, key=lambda case: (-case.spread, sum(score or 0.0 for score in case.scores)))[:most]
        each_with = ""
        if self._by is not None and len(self._others) > 1:
            each_with = plural(len(self._others), "target" if self._by == "prompt" else "prompt")
        kept = {(case.suite, case.eval_id) for case in shown}
        rivals = [
            _rival(names[place], _differences(results, ranked[0], place), confidence, len(ranked) - 1)
            for place in ranked[1:]
        ]
        return Variants(
            names=tuple(names),
            means=tuple(means),
            cases=tuple(case for case in cases if (case.suite, case.eval_id) in kept),
            more_cases=len(cases) - len(shown),
            best=names[ranked[0]] if ranked else None,
            rivals=tuple(rivals),
            is_clear=bool(rivals) and all(rival.conclusion == Conclusion.BETTER for rival in rivals),
            confidence=confidence,
            each_with=each_with,
        )


def _differences(results: _Results, best: int, own: int) -> list[float]:
    """The differences of two variants, one per case."""
    return one_per_case(
        (case, exact(one - two))
        for case, scores in results.items()
        for one, two in zip(scores[best], scores[own], strict=True)
        if one is not None and two is not None
    )


def _rival(name: str, deltas: Sequence[float], confidence: float, comparisons: int) -> Rival:
    corrected = 1 - (1 - confidence) / comparisons
    difference, interval, conclusion = conclude(deltas, corrected)
    low, high = (None, None) if interval is None else (interval.low, interval.high)
    return Rival(name, difference, low, high, conclusion.value, len(deltas))


def _mean(scores: Sequence[float] | None) -> float | None:
    return exact(sum(scores) / len(scores)) if scores else None
