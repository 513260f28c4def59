"""The statistics, checked against scipy."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats  # type: ignore[import-untyped]

from agentv.report.statistics import (
    Interval,
    _binomial,
    bootstrap_limit,
    bootstrap_tail,
    exact,
    fewest_to_tell,
    mcnemar_exact,
    mean,
    normalised_gain,
    paired_bootstrap,
    quantile,
    score_interval,
    sign_test,
    student_t_p,
    student_t_quantile,
    wilson,
)

deltas_of_scores = st.lists(st.floats(-1, 1, allow_nan=False), min_size=2, max_size=40)


def test_sign_test_matches_the_exact_binomial_test():
    for wins in range(40):
        for losses in range(40 - wins):
            p = stats.binomtest(wins, wins + losses, 0.5).pvalue if wins + losses else 1.0
            assert sign_test(wins, losses) == pytest.approx(p, rel=1e-9), (wins, losses)


@given(st.integers(0, 3000), st.integers(0, 3000))
@settings(max_examples=30, deadline=None)
def test_sign_test_works_for_large_counts_and_is_symmetric(wins: int, losses: int):
    p = stats.binomtest(wins, wins + losses, 0.5).pvalue if wins + losses else 1.0
    assert sign_test(wins, losses) == pytest.approx(p, rel=1e-7, abs=1e-300)
    assert sign_test(wins, losses) == sign_test(losses, wins) == mcnemar_exact(wins, losses)


@given(st.integers(1, 20_000), st.floats(0, 1), st.sampled_from([0.8, 0.9, 0.95, 0.99]))
@settings(max_examples=50, deadline=None)
def test_wilson_interval_matches_scipy(total: int, share: float, confidence: float):
    successes = round(share * total)
    low, high = wilson(successes, total, confidence=confidence)
    known = stats.binomtest(successes, total).proportion_ci(confidence, method="wilson")
    assert (low, high) == pytest.approx((known.low, known.high), abs=1e-9)
    assert 0 <= low <= successes / total <= high <= 1


def test_wilson_interval_without_trials_is_0_to_1():
    assert wilson(0, 0) == (0, 1)


@pytest.mark.parametrize("share", [0.005, 0.1, 0.5, 0.9, 0.975, 0.995, 0.9995])
def test_student_t_quantile_matches_scipy(share: float):
    for freedom in (1, 2, 3, 4, 5, 9, 20, 49, 99, 199, 200, 1000, 9999):
        known = stats.t.ppf(share, freedom)
        assert student_t_quantile(share, freedom) == pytest.approx(known, rel=1e-6, abs=1e-9), freedom


@pytest.mark.parametrize(
    ("trials", "chance"), [(20, 0.1), (11, 0.95), (50, 0.5), (1000, 0.003), (1000, 0.3), (9999, 0.97)]
)
def test_binomial_draws_follow_the_binomial_distribution(trials: int, chance: float):
    random = Random(7)
    drawn = [_binomial(trials, chance, random) for _ in range(20_000)]
    known = stats.binom(trials, chance)
    error = known.std() / math.sqrt(len(drawn))
    assert sum(drawn) / len(drawn) == pytest.approx(known.mean(), abs=5 * error)
    for share in (0.01, 0.25, 0.5, 0.75, 0.99):
        edge = known.ppf(share)
        seen = sum(value <= edge for value in drawn) / len(drawn)
        assert seen == pytest.approx(known.cdf(edge), abs=0.02)


@pytest.mark.parametrize("count", [6, 10, 30, 200])
@pytest.mark.parametrize("kind", ["normal", "flips", "skewed"])
def test_interval_matches_scipys_percentile_bootstrap_at_the_widened_level(count: int, kind: str):
    random = Random(count)
    deltas = {
        "normal": [random.gauss(-0.05, 0.2) for _ in range(count)],
        "flips": [random.choice([-1.0, 0.0, 0.0, 1.0]) for _ in range(count)],
        "skewed": [random.expovariate(5) - 0.1 for _ in range(count)],
    }[kind]
    known = stats.bootstrap(
        (deltas,),
        statistic=lambda sample, axis: sample.mean(axis=axis),
        method="percentile",
        confidence_level=1 - 2 * bootstrap_tail(0.95, count),
        n_resamples=20_000,
        rng=5,
    ).confidence_interval
    spread = stats.tstd(deltas) / math.sqrt(count)
    # Both are random and differ by sampling noise, which is largest in the tails of the smallest samples; the means
    # of flips differ by a whole step.
    noise = max(0.35 * spread, 1 / count if kind == "flips" else 0.0) + 1e-9
    assert paired_bootstrap(deltas) == pytest.approx((known.low, known.high), abs=noise)


def test_widened_level_matches_hesterberg():
    for count in (2, 6, 25, 400):
        reach = stats.t.ppf(0.975, count - 1) * math.sqrt(count / (count - 1))
        assert bootstrap_tail(0.95, count) == pytest.approx(stats.norm.cdf(-reach), rel=1e-5)


@pytest.mark.parametrize("kind", ["continuous", "coarse", "rare", "outlier"])
def test_grouping_a_large_sample_does_not_change_the_interval(kind: str):
    random = Random(3)
    deltas = {
        "continuous": [random.gauss(0.01, 0.2) for _ in range(4_000)],
        "coarse": [random.choice([-0.5, -0.25, 0.0, 0.25]) for _ in range(4_000)],
        "rare": [-1.0] * 8 + [0.0] * 3_992,
        "outlier": [-1.0] * 3 + [random.gauss(0, 0.001) for _ in range(3_997)],
    }[kind]
    known = stats.bootstrap(
        (deltas,),
        statistic=lambda sample, axis: sample.mean(axis=axis),
        method="percentile",
        confidence_level=0.95,
        n_resamples=4_000,
        batch=100,
        rng=5,
    ).confidence_interval
    spread = stats.tstd(deltas) / math.sqrt(len(deltas))
    assert paired_bootstrap(deltas) == pytest.approx((known.low, known.high), abs=0.15 * spread + 1e-9)


@pytest.mark.parametrize(("losses", "wins"), [(1, 0), (3, 0), (12, 4), (18, 8)])
def test_a_few_changes_among_thousands_of_ties_are_not_significant(losses: int, wins: int):
    """A resample can miss them. Student's t, or an expansion of it for skewed differences, would exclude 0 for some of
    these and is off by up to a whole standard error. This is why large samples are resampled too."""
    deltas = [-1.0] * losses + [1.0] * wins + [0.0] * 4_000
    interval = paired_bootstrap(deltas)
    assert not interval.excludes(0)
    assert min(deltas) < interval.low < 0


def test_spread_within_a_group_is_part_of_the_interval():
    random, spread = Random(1), 0.001
    deltas = [-128 * spread, 128 * spread, *(random.gauss(0, spread) for _ in range(99_998))]
    reach = stats.norm.ppf(0.975) * stats.tstd(deltas) / math.sqrt(len(deltas))
    low, high = paired_bootstrap(deltas)
    assert high - low == pytest.approx(2 * reach, rel=0.05)


@pytest.mark.parametrize("count", [300, 5_000])
@pytest.mark.parametrize("kind", ["symmetric", "skewed", "verdicts"])
def test_limit_of_the_bootstrap_is_what_resampling_approaches(kind: str, count: int):
    random = Random(count)
    deltas = {
        "symmetric": [random.gauss(0.05, 0.3) for _ in range(count)],
        "skewed": [random.expovariate(4) for _ in range(count)],
        "verdicts": random.choices([0.0, 1.0, -1.0], [0.7, 0.25, 0.05], k=count),
    }[kind]
    limit, resampled = bootstrap_limit(deltas), paired_bootstrap(deltas)
    assert limit is not None
    width = resampled.high - resampled.low
    assert limit.low == pytest.approx(resampled.low, abs=0.03 * width)
    assert limit.high == pytest.approx(resampled.high, abs=0.03 * width)


def test_small_samples_and_a_few_changes_among_ties_have_no_limit():
    assert bootstrap_limit([0.1, -0.2] * 125) is None
    assert bootstrap_limit([0.0] * 10_000) is None
    assert bootstrap_limit([0.0] * 10_000 + [1.0] * 49) is None
    assert bootstrap_limit([0.0] * 10_000 + [1.0] * 50) is not None


def test_quantile_is_interpolated_between_two_values():
    assert [quantile([0.0, 1.0, 3.0], share) for share in (0, 0.25, 0.5, 0.75, 1)] == [0, 0.5, 1, 2, 3]


def test_false_alarm_rate_of_small_samples_is_close_to_nominal():
    """Without any difference, about one run in forty may look like a regression; with plain percentiles, twice as
    many."""
    random, alarms, rounds = Random(11), 0, 200
    for _ in range(rounds):
        interval = paired_bootstrap([random.gauss(0, 0.3) for _ in range(8)], resamples=1_000)
        alarms += interval.high < 0
    assert alarms / rounds < 0.05


@given(deltas_of_scores, st.randoms(use_true_random=False))
@settings(max_examples=30, deadline=None)
def test_interval_does_not_depend_on_the_order_and_stays_within_the_data(deltas: list[float], random: Random):
    interval = paired_bootstrap(deltas, resamples=500)
    shuffled = list(deltas)
    random.shuffle(shuffled)
    assert paired_bootstrap(shuffled, resamples=500) == interval
    assert min(deltas) - 1e-9 <= interval.low <= interval.high <= max(deltas) + 1e-9


def test_interval_of_equal_differences_has_no_width():
    assert paired_bootstrap([0.1] * 7) == (0.1, 0.1)
    assert paired_bootstrap([0.0] * 7) == (0.0, 0.0)
    assert not Interval(0.0, 0.0).excludes(0.0)


def test_interval_needs_two_differences():
    with pytest.raises(ValueError, match="at least 2 items"):
        paired_bootstrap([0.5])


@given(st.floats(0, 0.99), st.floats(0, 1))
def test_normalised_gain_is_the_share_of_missed_points(before: float, after: float):
    gain = normalised_gain(before, after)
    assert gain is not None
    assert before + gain * (1 - before) == pytest.approx(after, abs=1e-9)


def test_normalised_gain_of_a_perfect_baseline_is_none():
    assert normalised_gain(1.0, 0.9) is None


def test_exact_removes_floating_point_noise():
    assert exact(0.3 - 0.2) == 0.1
    assert mean([0.1] * 10) == 0.1
    assert math.copysign(1, exact(-1e-15)) == 1


@pytest.mark.parametrize(("confidence", "fewest"), [(0.9, 5), (0.95, 6), (0.99, 8), (0.5, 2)])
def test_fewest_cases_is_where_a_result_can_first_be_significant(confidence: float, fewest: int):
    assert fewest_to_tell(confidence) == fewest
    assert sign_test(fewest, 0) <= 1 - confidence + 1e-12
    assert fewest == 2 or sign_test(fewest - 1, 0) > 1 - confidence


@pytest.mark.parametrize("freedom", [1, 2, 3, 8, 99, 100, 5_000, 99_999])
def test_student_t_p_matches_scipy(freedom: int):
    for t in (0.0, 0.3, -1.2, 2.0, -3.5, 6.0):
        assert student_t_p(t, freedom) == pytest.approx(2 * stats.t.sf(abs(t), freedom), rel=1e-6, abs=1e-12), t


@pytest.mark.parametrize("count", [2, 7, 40, 250])
def test_interval_of_a_mean_is_that_of_student_t(count: int):
    random = Random(count)
    scores = [round(random.uniform(0.4, 0.6), 3) for _ in range(count)]
    interval = score_interval(scores)
    expected = stats.ttest_1samp(scores, 0).confidence_interval(0.95)
    assert interval is not None
    assert interval == pytest.approx((max(0, expected.low), min(1, expected.high)), abs=1e-7)


def test_interval_of_equal_scores_is_that_of_a_rate_and_needs_two():
    assert score_interval([1.0] * 8) == wilson(8, 8)
    assert score_interval([0.0, 0.0]) == wilson(0, 2)
    assert score_interval([1.0]) is None
    assert score_interval([]) is None
