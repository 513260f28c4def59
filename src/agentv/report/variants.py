"""Compare the variants of one run: prompts, and targets with them. Which one is best, and is that certain?"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from agentv.report.compare import Conclusion, conclude
from agentv.report.compared_run import By
from agentv.report.statistics import exact
from agentv.report.variant_table import CONFIDENCE, Rival, VariantCase, Variants, variant_order
from agentv.results import CaseResult, variant_of

MOST_CASES = 12
"""Cases in the table of a summary. All of them are in `results.jsonl`."""


class VariantScores:
    """Collects the scores of cases by variant, one row at a time.

    With `by`, only prompts or only targets are compared; the other one is then part of the case.
    """

    def __init__(self, manifest: Mapping[str, Any], by: By | None = None) -> None:
        self._by = by
        self._order = variant_order(manifest)
        self._numbers: dict[tuple[str, str | None], int] = {}
        self._scores: dict[tuple[str, str], dict[int, array[float]]] = {}

    def add(self, row: CaseResult) -> None:
        variant, case = (row.target, row.prompt), row.eval_id
        if self._by == "prompt":
            variant, case = ("", row.prompt), f"{row.eval_id} ({row.target})"
        elif self._by == "target":
            variant, case = (row.target, None), variant_of(row.eval_id, row.prompt)
        number = self._numbers.setdefault(variant, len(self._numbers))
        scores = self._scores.setdefault((row.suite, case), {})
        if row.error is None:
            scores.setdefault(number, array("d")).append(row.score)

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
        # Sorted, because the interval depends on the order, and rows arrive in any order.
        cases = [
            VariantCase(suite, eval_id, tuple(_mean(scores.get(number)) for number in numbers))
            for (suite, eval_id), scores in sorted(self._scores.items())
        ]
        columns = [[case.scores[place] for case in cases] for place in range(len(names))]
        means = [_mean([score for score in column if score is not None]) for column in columns]
        ranked = sorted(
            (place for place in range(len(names)) if means[place] is not None),
            key=lambda place: (-(means[place] or 0.0), place),
        )
        shown = sorted(cases, key=lambda case: (-case.spread, sum(score or 0.0 for score in case.scores)))[:most]
        kept = {(case.suite, case.eval_id) for case in shown}
        rivals = [
            _rival(names[place], columns[ranked[0]], columns[place], confidence, len(ranked) - 1)
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
        )


def _rival(
    name: str, best: Sequence[float | None], own: Sequence[float | None], confidence: float, comparisons: int
) -> Rival:
    pairs = zip(best, own, strict=True)
    deltas = [exact(one - other) for one, other in pairs if one is not None and other is not None]
    corrected = 1 - (1 - confidence) / comparisons
    difference, interval, conclusion = conclude(deltas, corrected)
    low, high = (None, None) if interval is None else (interval.low, interval.high)
    return Rival(name, difference, low, high, conclusion.value, len(deltas))


def _mean(scores: Sequence[float] | None) -> float | None:
    return exact(sum(scores) / len(scores)) if scores else None
