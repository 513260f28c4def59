"""Confidence intervals and exact tests for comparisons, using only the standard library.

The unit is always the case: attempts of a case are averaged before they get here, and its results with several prompts
or targets by `one_per_case`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cache
from random import Random
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from statistics import NormalDist

RESAMPLES = 10_000
SEED = 20_260_114
DIGITS = 12
"""Digits to round to. Scores are sums of short decimals; further digits are floating-point noise."""

DIRECT = 250
"""Differences up to which every value of every resample is drawn."""
_GROUPS = 64
_FEWEST_DIFFERENT = 50


class Interval(NamedTuple):
    """An interval from low to high, both included."""

    low: float
    high: float

    def excludes(self, value: float) -> bool:
        return value < self.low or value > self.high


def exact(value: float) -> float:
    """The number without floating-point noise: `exact(0.3 - 0.2) == 0.1`."""
    return round(value, DIGITS) + 0.0  # no negative zero


def mean(values: Sequence[float]) -> float:
    return exact(math.fsum(values) / len(values))


@cache
def _normal() -> NormalDist:
    from statistics import NormalDist  # noqa: PLC0415 - most runs do not need it

    return NormalDist()


def one_per_case(values: Iterable[tuple[Hashable, float]]) -> list[float]:
    """The mean of the values of each case, in the order of the cases.

    The results of one case with several prompts or targets are alike. As if they were independent, intervals would be
    too narrow, and one case with six targets would look like six cases.
    """
    cases: dict[Hashable, list[float]] = {}
    for case, value in values:
        cases.setdefault(case, []).append(value)
    return [mean(each) if len(each) > 1 else each[0] for each in cases.values()]


# -- the mean of paired differences


def paired_bootstrap(
    deltas: Sequence[float], *, confidence: float = 0.95, resamples: int = RESAMPLES, seed: int = SEED
) -> Interval:
    """A confidence interval for the mean of paired differences: percentile bootstrap, widened for small samples.

    With few cases, plain percentiles are too narrow and raise false alarms. The tails are therefore those of
    Student's t distribution, and the factor n/(n-1), by which resampling underestimates the variance, is restored
    (Hesterberg, 2015). The result does not depend on the order of the differences.
    """
    if len(deltas) < 2:
        raise ValueError(f"`deltas` must have at least 2 items, got {len(deltas)}")
    # A fixed seed makes the result repeatable; the random numbers are not used for security.
    means = sorted(_resampled_means(sorted(deltas), resamples, Random(seed)))  # noqa: S311
    tail = bootstrap_tail(confidence, len(deltas))
    return Interval(exact(quantile(means, tail)), exact(quantile(means, 1 - tail)))


def bootstrap_tail(confidence: float, count: int) -> float:
    """The share of resamples to exclude on each side."""
    reach = student_t_quantile((1 + confidence) / 2, count - 1) * math.sqrt(count / (count - 1))
    return _normal().cdf(-reach)


def bootstrap_limit(deltas: Sequence[float], *, confidence: float = 0.95) -> Interval | None:
    """The interval that `paired_bootstrap` approaches with many resamples, without drawing any.

    Means of large samples are nearly normal: their quantiles follow from variance and skewness (Cornish and Fisher,
    1938), closer to the limit than with thousands of resamples. None if the sample is not large enough for that: a few
    changes among thousands of ties are not.
    """
    if len(deltas) <= DIRECT or len(deltas) - max(Counter(deltas).values()) < _FEWEST_DIFFERENT:
        return None
    count, average = len(deltas), math.fsum(deltas) / len(deltas)
    variance = math.fsum((delta - average) ** 2 for delta in deltas) / count
    skewness = math.fsum((delta - average) ** 3 for delta in deltas) / count / variance**1.5
    z, unit = _normal().inv_cdf(bootstrap_tail(confidence, count)), math.sqrt(variance / count)
    shift = (z * z - 1) * skewness / (6 * math.sqrt(count))
    return Interval(exact(average + (shift + z) * unit), exact(average + (shift - z) * unit))


def _resampled_means(values: Sequence[float], resamples: int, random: Random) -> Iterator[float]:
    count = len(values)
    if count <= DIRECT:
        for _ in range(resamples):
            yield sum(random.choices(values, k=count)) / count
        return
    # Drawing every value of every resample would take minutes. Instead, group equal or nearly equal values and draw
    # one number per group: how often it occurs. The spread within a group is added back as its variance.
    groups = _groups(values)
    left, shares = count, []
    for size, centre, variance in groups:
        shares.append((min(1.0, size / left), centre, variance))
        left -= size
    for _ in range(resamples):
        left, total, spread = count, 0.0, 0.0
        for share, centre, variance in shares:
            drawn = _binomial(left, share, random) if share < 1 else left
            total += drawn * centre
            spread += drawn * variance
            left -= drawn
            if not left:
                break
        yield (total + (random.gauss(0, math.sqrt(spread)) if spread else 0.0)) / count


def _groups(values: Sequence[float]) -> list[tuple[int, float, float]]:
    """Group the values: size, mean and variance of each group, largest group first."""
    counted = Counter(values)
    width = (values[-1] - values[0]) / _GROUPS
    if len(counted) <= _GROUPS:
        return [(size, value, 0.0) for value, size in counted.most_common()]
    members: dict[int, list[float]] = {}
    for value in values:
        members.setdefault(min(_GROUPS - 1, int((value - values[0]) / width)), []).append(value)
    groups = []
    for group in members.values():
        centre = math.fsum(group) / len(group)
        groups.append((len(group), centre, math.fsum((value - centre) ** 2 for value in group) / len(group)))
    return sorted(groups, reverse=True)


def _binomial(trials: int, chance: float, random: Random) -> int:
    """Draw the number of successes in `trials` trials; `chance` must be below 1."""
    if chance > 0.5:
        return trials - _binomial(trials, 1 - chance, random)
    if trials * chance >= 10:
        return _likely_binomial(trials, chance, random)
    gap = math.log1p(-chance)
    successes, position = 0, 0
    while True:
        position += int(math.log(1 - random.random()) / gap) + 1
        if position > trials:
            return successes
        successes += 1


def _likely_binomial(trials: int, chance: float, random: Random) -> int:
    """Transformed rejection (BTRS): Hörmann, The generation of binomial random variates, 1993."""
    deviation = math.sqrt(trials * chance * (1 - chance))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * chance
    quick = 0.92 - 4.2 / b
    while True:
        u = random.random() - 0.5
        room = 0.5 - abs(u)
        if not room:
            continue
        k = math.floor((2 * a / room + b) * u + trials * chance + 0.5)
        if not 0 <= k <= trials:
            continue
        v = 1 - random.random()
        if room >= 0.07 and v <= quick:
            return k
        mode = math.floor((trials + 1) * chance)
        v *= (2.83 + 5.1 / b) * deviation / (a / (room * room) + b)
        most = math.lgamma(mode + 1) + math.lgamma(trials - mode + 1)
        here = math.lgamma(k + 1) + math.lgamma(trials - k + 1)
        if math.log(v) <= most - here + (k - mode) * math.log(chance / (1 - chance)):
            return k


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which this share of the values is, interpolated. They must be in ascending order."""
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def student_t_quantile(share: float, freedom: int) -> float:
    """The quantile of Student's t distribution with `freedom` degrees of freedom."""
    if share < 0.5:
        return -student_t_quantile(1 - share, freedom)
    if freedom >= 200:
        z, n = _normal().inv_cdf(share), float(freedom)
        return (
            z
            + (z**3 + z) / (4 * n)
            + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
            + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
        )
    low, high = 0.0, math.pi / 2
    for _ in range(80):  # bisect until both ends are the same float
        middle = (low + high) / 2
        low, high = (middle, high) if _student_t_within(middle, freedom) < 2 * share - 1 else (low, middle)
    return math.sqrt(freedom) * math.tan((low + high) / 2)


def _student_t_within(angle: float, freedom: int) -> float:
    """The probability of Student's t between -t and t, for t = sqrt(freedom) * tan(angle), as a finite sum."""
    sine, cosine = math.sin(angle), math.cos(angle)
    if freedom % 2:
        total, term = 0.0, cosine
        for i in range(1, freedom - 1, 2):
            total += term
            term *= cosine * cosine * (i + 1) / (i + 2)
        return 2 / math.pi * (angle + sine * total)
    total, term = 0.0, 1.0
    for i in range(0, freedom, 2):
        total += term
        term *= cosine * cosine * (i + 1) / (i + 2)
    return sine * total


def student_t_p(t: float, freedom: int) -> float:
    """The two-sided p-value of Student's t: how often chance alone is at least this far from 0."""
    return max(0.0, 1 - _student_t_within(math.atan(abs(t) / math.sqrt(freedom)), freedom))


def interval_of_mean(average: float, mean_square: float, count: float, *, confidence: float = 0.95) -> Interval | None:
    """A confidence interval for the mean of scores from 0 to 1: Student's t. None for fewer than 2 scores.

    If all scores are equal, their spread says nothing, and the interval is that of a rate (Wilson). `count` may be
    smaller than the number of scores if several of them are of the same case.
    """
    if count < 2:
        return None
    spread = exact(mean_square - average * average) * count / (count - 1)
    if spread <= 0:
        return wilson(average * count, count, confidence=confidence)
    reach = student_t_quantile((1 + confidence) / 2, int(count) - 1) * math.sqrt(spread / count)
    return Interval(exact(max(0.0, average - reach)), exact(min(1.0, average + reach)))


def score_interval(scores: Sequence[float], *, confidence: float = 0.95) -> Interval | None:
    """The interval of the mean of one score per case."""
    if not scores:
        return None
    square = math.fsum(score * score for score in scores) / len(scores)
    return interval_of_mean(mean(scores), square, len(scores), confidence=confidence)


# -- counts


def sign_test(wins: int, losses: int) -> float:
    """The exact two-sided p-value if wins and losses were equally likely. Ties do not count."""
    trials, fewer = wins + losses, min(wins, losses)
    ways, total = 1, 0
    for i in range(fewer + 1):
        total += ways
        ways = ways * (trials - i) // (i + 1)
    return min(1.0, 2 * total / (1 << trials))


def mcnemar_exact(newly_passed: int, newly_failed: int) -> float:
    """The p-value of the exact McNemar test: a sign test on the cases whose verdict changed."""
    return sign_test(newly_passed, newly_failed)


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values corrected for their number (Holm): the chance of one or more false alarms stays below the level."""
    adjusted, largest = [0.0] * len(p_values), 0.0
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted


def fewest_to_tell(confidence: float) -> int:
    """The smallest number of cases that can be significant: with fewer, not even a change in all cases would be."""
    return max(2, math.ceil(exact(1 + math.log2(1 / (1 - confidence)))))


def wilson(successes: float, total: float, *, confidence: float = 0.95) -> Interval:
    """The Wilson score interval of a rate; 0 to 1 if there are no trials. `successes` may be a sum of shares."""
    if not total:
        return Interval(0.0, 1.0)
    z = _normal().inv_cdf((1 + confidence) / 2)
    rate, shrink = successes / total, 1 + z * z / total
    centre = (rate + z * z / (2 * total)) / shrink
    reach = z * math.sqrt(rate * (1 - rate) / total + z * z / (4 * total * total)) / shrink
    # At the ends the exact bounds are 0 and 1; floating-point arithmetic would miss them.
    return Interval(
        0.0 if not successes else max(0.0, centre - reach), 1.0 if successes == total else min(1.0, centre + reach)
    )


def normalised_gain(before: float, after: float) -> float | None:
    """The share of the points missed before that was gained; negative for a loss. None if no points were missed."""
    if before >= 1:
        return None
    return exact((after - before) / (1 - before))
