"""Agreement of judges, checked against scipy and against hand-made tables."""

from __future__ import annotations

import math
from collections import Counter
from importlib import import_module
from random import Random
from statistics import variance
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.report.agreement import FEWEST_TO_CORRELATE, Verdicts, pooled_sd, spearman, spearman_p


def test_kappa_of_the_table_in_cohens_paper():
    # Two raters, 50 grant proposals: both yes 20, only the first 5, only the second 10, both no 15.
    verdicts = Verdicts(20, 5, 10, 15)
    assert (verdicts.total, verdicts.agree) == (50, 35)
    assert verdicts.kappa == pytest.approx(0.4)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_kappa_is_the_agreement_beyond_chance(pairs: list[tuple[bool, bool]]):
    verdicts, count = Verdicts.of(pairs), len(pairs)
    agree = sum(one == other for one, other in pairs) / count
    one, other = (sum(column) / count for column in zip(*pairs, strict=True))
    by_chance = one * other + (1 - one) * (1 - other)
    assert (verdicts.total, verdicts.agree) == (count, round(agree * count))
    if by_chance < 1 - 1e-9:
        assert verdicts.kappa == pytest.approx((agree - by_chance) / (1 - by_chance), abs=1e-9)
    else:
        assert verdicts.kappa is None


def test_kappa_is_unknown_if_all_verdicts_are_the_same():
    assert Verdicts(12, 0, 0, 0).kappa is None
    assert Verdicts(0, 0, 0, 12).kappa is None
    assert Verdicts().kappa is None
    assert Verdicts(0, 6, 6, 0).kappa == -1
    assert Verdicts(6, 6, 0, 0).kappa == 0


@pytest.fixture(scope="module")
def stats() -> Any:
    """scipy is imported only by the worker that runs these tests."""
    return import_module("scipy.stats")


@pytest.mark.parametrize("levels", [2, 5, 1000])
@pytest.mark.parametrize("count", [3, 10, 40, 300])
def test_rank_correlation_with_ties_matches_scipy(stats: Any, levels: int, count: int):
    random = Random(f"{levels} {count}")
    for tilt in (-1.0, 0.0, 0.7):
        pairs = []
        for _ in range(count):
            one = random.randrange(levels) / levels
            pairs.append((one, round((tilt * one + random.random()) * levels) / levels))
        rho, columns = spearman(Counter(pairs)), list(zip(*pairs, strict=True))
        if any(len(set(column)) == 1 for column in columns):
            assert rho is None
            continue
        known = stats.spearmanr(*columns)
        assert rho == pytest.approx(known.statistic, abs=1e-9)
        p = spearman_p(rho, count)
        assert p is None if count < FEWEST_TO_CORRELATE else p == pytest.approx(known.pvalue, rel=1e-6, abs=1e-12)


def test_rank_correlation_is_unknown_if_a_value_never_changes():
    assert spearman(Counter([(1.0, 5.0)] * 20)) is None
    assert spearman(Counter((1.0, float(n)) for n in range(20))) is None
    assert spearman(Counter()) is None
    assert spearman_p(None, 50) is None


def test_perfect_rank_correlation_is_1():
    assert spearman(Counter((n / 100, n**3) for n in range(100))) == 1
    assert spearman(Counter((n / 100, -n) for n in range(100))) == -1
    assert spearman_p(1.0, 100) == 0


@given(st.lists(st.lists(st.floats(0, 1), max_size=6), max_size=8))
def test_pooled_sd_is_the_root_of_the_mean_variance_within_groups(groups: list[list[float]]):
    several = [group for group in groups if len(group) > 1]
    if not several:
        assert pooled_sd(groups) is None
        return
    freedom = sum(len(group) - 1 for group in several)
    squares = sum(variance(group) * (len(group) - 1) for group in several)
    assert pooled_sd(groups) == pytest.approx(math.sqrt(squares / freedom), abs=1e-9)


def test_pooled_sd_ignores_differences_between_groups():
    assert pooled_sd([[0.1, 0.1], [0.9, 0.9, 0.9]]) == 0
    assert pooled_sd([[0.4, 0.6], [0.9]]) == pytest.approx(math.sqrt(0.02))
