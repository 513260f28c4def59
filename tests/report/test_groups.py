"""Comparisons by group, corrected for the number of groups."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.report.compare import Conclusion
from agentv.report.groups import MOST_GROUPS, GroupName, chosen_groups, compare_groups
from agentv.report.statistics import holm, sign_test
from tests.report.rows import row
from tests.report.sources import compared


@given(st.lists(st.floats(0, 1), min_size=1, max_size=7))
def test_holm_is_the_closed_test_of_bonferroni(p_values: list[float]):
    """The adjusted p-value is the largest of all sets of hypotheses that contain it."""
    places = range(len(p_values))
    sets = [chosen for size in places for chosen in combinations(places, size + 1)]
    for place, adjusted in enumerate(holm(p_values)):
        by_sets = max(min(1.0, len(chosen) * min(p_values[i] for i in chosen)) for chosen in sets if place in chosen)
        assert adjusted == pytest.approx(by_sets)


def test_group_is_a_comparison_of_its_cases(tmp_path: Path):
    names = [f"case-{i:02}" for i in range(20)]
    comparison = compared(
        tmp_path,
        [row(name, 1.0) for name in names],
        [row(name, 0.0 if i < 10 else 1.0) for i, name in enumerate(names)],
    )
    members = {
        GroupName("tag", "worse"): range(10),
        GroupName("tag", "same"): range(10, 20),
        GroupName("tag", "few"): range(3),
    }

    worse, same, few = compare_groups(comparison.pairs, members, 0.95)

    assert (worse.cases, worse.mean_delta, worse.conclusion) == (10, -1.0, Conclusion.WORSE)
    assert (worse.newly_passed, worse.newly_failed) == (0, 10)
    assert worse.p == sign_test(0, 10)
    assert worse.p_holm == pytest.approx(3 * worse.p)
    assert (same.mean_delta, same.p, same.p_holm, same.conclusion) == (0.0, 1.0, 1.0, Conclusion.SAME)
    assert (few.interval, few.conclusion) == (None, Conclusion.TOO_FEW)


def test_keys_group_the_cases_if_they_have_2_to_50_values():
    def values(count: int) -> dict[str, list[int]]:
        return {f"{i:02}": [i] for i in range(count)}

    keys = {
        "suite": {"only": list(range(60))},
        "tag": {"all": list(range(60)), "some": [1, 2]},
        "metadata.half": {"b": [1], "a": [0]},
        "metadata.many": values(51),
        "metadata.most": values(50),
    }
    chosen, left_out = chosen_groups(keys, 60)

    assert list(chosen)[:3] == [("tag", "some"), ("metadata.half", "a"), ("metadata.half", "b")]
    assert len(chosen) == 53
    assert left_out == ["metadata.many"]

    chosen, left_out = chosen_groups({f"metadata.{i}": values(50) for i in range(6)}, 60)
    assert len(chosen) == MOST_GROUPS
    assert left_out == ["metadata.4", "metadata.5"]
