"""`--shard I/N`: which cases are in a shard, and what it gets of the limits."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.errors import UsageError
from agentv.plan.options import RunOptions
from agentv.plan.plan import RunPlan
from agentv.plan.shards import Shard
from agentv.targets.provider import TargetSettings
from tests.conftest import Project
from tests.plan.support import plan_of

COUNTS = st.integers(1, 9)


@given(st.lists(st.tuples(st.text(), st.text())), COUNTS)
def test_every_case_is_in_exactly_one_shard(cases: list[tuple[str, str]], count: int) -> None:
    shards = [Shard(index, count) for index in range(1, count + 1)]
    assert all(sum(shard.has(*case) for shard in shards) == 1 for case in cases)


def test_shard_of_a_case_never_changes() -> None:
    found = [next(i for i in range(1, 8) if Shard(i, 7).has("suite", f"case-{n}")) for n in range(10)]
    assert found == [2, 1, 4, 1, 7, 7, 4, 4, 1, 2], "all machines and versions of Python must agree"
    assert Shard(5, 5).has("é", "日本")


def test_cases_are_spread_evenly() -> None:
    sizes = [sum(Shard(index, 4).has("suite", str(n)) for n in range(4000)) for index in range(1, 5)]
    assert all(900 < size < 1100 for size in sizes)


@given(st.integers(0, 10**9), COUNTS)
def test_whole_shares_add_up_and_differ_by_one_at_most(total: int, count: int) -> None:
    shares = [Shard(index, count).whole_share(total) for index in range(1, count + 1)]
    assert sum(shares) == total
    assert max(shares) - min(shares) <= 1


@pytest.mark.parametrize("written", ["0/4", "5/4", "a/b", "1", "1/0", "-1/4", "1/4 ", "01/4", "1/4/4", "1/1000000"])
def test_shard_that_does_not_exist_is_refused(written: str) -> None:
    with pytest.raises(UsageError, match=r"^`shard` must be I/N, such as 2/4, with I from 1 to N, got '"):
        RunOptions(shard=written)


@pytest.fixture
def varied(project: Project) -> Project:
    """Two suites with prompts, two targets and three attempts."""
    project.write(
        "agentv.config.yaml",
        """\
        targets:
          bot: {provider: mock, response: Paris, requests_per_minute: 90, max_concurrency: 7, judge_target: judge}
          rival: {provider: mock, response: Rome}
          judge: {provider: mock, response: '{"score": 1, "reasoning": "so"}', max_concurrency: 2}
        defaults: {target: bot}
        """,
    )
    for suite, size in (("one", 8), ("two", 3)):
        cases = "".join(f"  - {{id: c{n}, input: Q{n}, tags: [t{n % 2}]}}\n" for n in range(size))
        project.write(
            f"{suite}.yaml",
            "prompts: ['Say {{ input }}', 'Tell {{ input }}']\n"
            "execution: {trials: {count: 3}, evaluators: [{type: llm_judge}]}\n"
            f"evalcases:\n{cases}",
        )
    return project


def shards_of(project: Project, count: int, **options: Any) -> list[RunPlan]:
    both = ("one.yaml", "two.yaml")
    return [plan_of(project, *both, shard=f"{i}/{count}", **options) for i in range(1, count + 1)]


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_shards_have_the_rows_of_the_whole_run_and_keep_a_case_together(varied: Project, count: int) -> None:
    targets: Any = {"targets": ("bot", "rival")}
    whole = plan_of(varied, "one.yaml", "two.yaml", **targets)
    plans = shards_of(varied, count, **targets)
    keys = Counter(key for plan in plans for lane in plan.lanes for key in lane.row_keys())
    assert keys == Counter(key for lane in whole.lanes for key in lane.row_keys())
    assert len(keys) == 11 * 2 * 2 * 3
    owners = [{key[:2] for lane in plan.lanes for key in lane.row_keys()} for plan in plans]
    assert sum(map(len, owners)) == 11
    assert sum(plan.total for plan in plans) == whole.total
    assert all(plan.digests() == whole.digests() for plan in plans)


def test_shards_divide_what_other_options_select(varied: Project) -> None:
    options: Any = {"tags": ("t1",), "sample": 3, "seed": 5}
    selected = {
        (p.suite.name, i) for p in plan_of(varied, "one.yaml", "two.yaml", **options).suites for i in p.selected
    }
    parts = [{(p.suite.name, i) for p in plan.suites for i in p.selected} for plan in shards_of(varied, 2, **options)]
    assert len(selected) == 3
    assert parts[0] | parts[1] == selected
    assert not parts[0] & parts[1]


def test_rate_and_concurrency_of_targets_are_divided(varied: Project) -> None:
    plans = shards_of(varied, 3)
    settings = [lane.spec.reading.settings for plan in plans for lane in plan.lanes if lane.spec]
    assert len(settings) == 3
    assert all(isinstance(each, TargetSettings) and each.requests_per_minute == 30 for each in settings)
    assert [each.max_concurrency for each in settings if isinstance(each, TargetSettings)] == [3, 2, 2]
    assert [lane.calls for plan in plans for lane in plan.lanes] == [3, 2, 2]
    judges = [plan.suites[0].config.targets["judge"] for plan in plans if plan.suites[0].config]
    assert [getattr(spec.reading.settings, "max_concurrency", None) for spec in judges] == [1, 1, 1]
    assert plan_of(varied, "one.yaml").lanes[0].calls == 7


def test_what_was_divided_is_noted_once(varied: Project) -> None:
    plans = shards_of(varied, 3, max_cost=1.5, max_judge_calls=10)
    cases = sum(len(planned.selected) for planned in plans[0].suites)
    assert plans[0].notes == (
        f"shard 1/3: {cases} of 11 cases",
        "limits of shard 1/3: $0.5 of --max-cost 1.5, 4 of --max-judge-calls 10, 30 of 90 requests per minute to "
        "'bot', 3 of 7 parallel calls of 'bot', 1 of 2 parallel calls of 'judge'",
        "`max_concurrency: 2` of target 'judge' cannot be divided among 3 shards: each makes one call at a time. To "
        "stay within it, run at most 2 shards at the same time",
    )


def test_shard_without_cases_keeps_the_suites_and_needs_nothing(varied: Project) -> None:
    plan = next(plan for plan in shards_of(varied, 40) if plan.total == 0)
    assert [planned.suite.name for planned in plan.suites] == ["one", "two"]
    assert not plan.lanes
    assert not plan.needs
    assert plan.shard is not None
    assert plan.notes == (
        f"shard {plan.shard.shard}: none of 11 cases; nothing is run, and the run can be merged with those of the "
        "other shards",
    )
