"""How far two judges of the same answers agree, and how far one judge agrees with itself."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from agentv.report.statistics import exact, student_t_p

FEWEST_TO_CORRELATE = 10
"""With fewer pairs, the p-value of a correlation is not a good approximation."""


class Verdicts(NamedTuple):
    """How often two judges passed the same answers."""

    both: int = 0
    only_one: int = 0
    only_other: int = 0
    neither: int = 0

    @property
    def total(self) -> int:
        return sum(self)

    @property
    def agree(self) -> int:
        return self.both + self.neither

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa: agreement beyond chance. None if both gave one and the same verdict to all answers."""
        total = self.total
        if not total:
            return None
        one, other = self.both + self.only_one, self.both + self.only_other
        by_chance = one * other + (total - one) * (total - other)  # times total squared
        if by_chance == total * total:
            return None
        return exact((self.agree * total - by_chance) / (total * total - by_chance))

    @classmethod
    def of(cls, pairs: Iterable[tuple[bool, bool]]) -> Verdicts:
        counts = [0, 0, 0, 0]
        for one, other in pairs:
            counts[2 * (not one) + (not other)] += 1
        return cls(*counts)


def spearman(pairs: Mapping[tuple[float, float], int]) -> float | None:
    """Spearman's rank correlation of two values, from the number of times that each pair of values occurs.

    Equal values have the mean of their ranks. None if one of the values is always the same.
    """
    ones: dict[float, int] = {}
    others: dict[float, int] = {}
    for (one, other), count in pairs.items():
        ones[one] = ones.get(one, 0) + count
        others[other] = others.get(other, 0) + count
    if len(ones) < 2 or len(others) < 2:
        return None
    ranks1, ranks2 = _centred_ranks(ones), _centred_ranks(others)
    shared = math.fsum(count * ranks1[one] * ranks2[other] for (one, other), count in pairs.items())
    spread1 = math.fsum(count * ranks1[value] ** 2 for value, count in ones.items())
    spread2 = math.fsum(count * ranks2[value] ** 2 for value, count in others.items())
    return min(1.0, max(-1.0, exact(shared / math.sqrt(spread1) / math.sqrt(spread2))))


def _centred_ranks(counts: Mapping[float, int]) -> dict[float, float]:
    """The mean rank of each value, minus the mean of all ranks."""
    middle = (sum(counts.values()) + 1) / 2
    ranks, below = {}, 0
    for value in sorted(counts):
        ranks[value] = below + (counts[value] + 1) / 2 - middle
        below += counts[value]
    return ranks


def spearman_p(rho: float | None, count: int) -> float | None:
    """The two-sided p-value of a rank correlation of `count` pairs: Student's t approximation. None for few pairs."""
    if rho is None or count < FEWEST_TO_CORRELATE:
        return None
    if abs(rho) >= 1:
        return 0.0
    return student_t_p(rho * math.sqrt((count - 2) / (1 - rho * rho)), count - 2)


def pooled_sd(groups: Iterable[Sequence[float]]) -> float | None:
    """The standard deviation within groups, each around its own mean. None if no group has two values."""
    squares, freedom = 0.0, 0
    for values in groups:
        if len(values) > 1:
            middle = math.fsum(values) / len(values)
            squares += math.fsum((value - middle) ** 2 for value in values)
            freedom += len(values) - 1
    return exact(math.sqrt(squares / freedom)) if freedom else None
