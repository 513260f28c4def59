"""Selecting cases by tag, metadata and sample."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from agentv.errors import SuiteError, UsageError
from agentv.plan.selection import sampled
from tests.conftest import Project
from tests.plan.support import CONFIG, plan_of


@pytest.fixture
def tagged(project: Project) -> Project:
    project.write("agentv.config.yaml", CONFIG)
    project.write(
        "suite.yaml",
        """\
        tags: [geo, smoke]
        evalcases:
          - {id: a, input: Q, tags: slow, metadata: {lang: fr, level: 3, seen: true, none: null}}
          - {id: b, input: Q, tags: [slow, ' flaky ', 7], metadata: {lang: de, level: 3.0, where: {city: Bonn}}}
          - {id: c, input: Q, metadata: {lang: [fr, it], where.city: Rome, level: '3'}}
          - file: more.jsonl
        """,
    )
    project.write("more.jsonl", '{"id": "d", "input": "Q", "tags": ["other", "geo"], "metadata": {"seen": false}}\n')
    project.write("lone.jsonl", '{"id": "e", "input": "Q", "tags": "slow"}\n')
    return project


def ids(project: Project, *paths: str, **options: Any) -> str:
    plan = plan_of(project, *paths, **options)
    return "".join(sorted(i for planned in plan.suites for i in planned.selected))


@pytest.mark.parametrize(
    ("options", "selected"),
    [
        ({"tags": ("slow",)}, "abe"),
        ({"tags": ("slow", "other")}, "abde"),
        ({"tags": ("7",)}, "b"),
        ({"tags": ("geo",), "exclude_tags": ("slow",)}, "cd"),
        ({"exclude_tags": ("smoke", "absent")}, "e"),
        ({"where": ("metadata.lang=fr",)}, "ac"),
        ({"where": ("metadata.lang!=fr",)}, "bde"),
        ({"where": ("metadata.level=3",)}, "abc"),
        ({"where": ("metadata.level == 3", "metadata.seen=true")}, "a"),
        ({"where": ("metadata.none=null",)}, "a"),
        ({"where": ("metadata.seen=false",)}, "d"),
        ({"where": ("metadata.where.city=Bonn",)}, "b"),
        ({"where": ("metadata.where.city=Rome",)}, "c"),
        ({"where": ("tag=slow", "tag!=flaky")}, "ae"),
        ({"where": ("id=d",)}, "d"),
        ({"where": ("suite=lone",)}, "e"),
        ({"where": ("suite!=lone",), "tags": ("slow",), "cases": ("[bc]",)}, "b"),
    ],
    ids=lambda value: None if isinstance(value, dict) else value,
)
def test_tags_and_conditions_select_cases(tagged: Project, options: dict[str, Any], selected: str) -> None:
    assert ids(tagged, "suite.yaml", "lone.jsonl", **options) == selected


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("metadata.lang", "--where must be KEY=VALUE or KEY!=VALUE, got 'metadata.lang'."),
        ("=fr", "--where must be KEY=VALUE or KEY!=VALUE, got '=fr'."),
        ("lang=fr", "--where has an unknown key `lang` (did you mean `metadata.lang`?)."),
        ("metdata.lang=fr", "--where has an unknown key `metdata.lang` (did you mean `metadata.lang`?)."),
        ("tags=slow", "--where has an unknown key `tags` (did you mean `tag`?)."),
        ("metadata.=fr", "--where has an unknown key `metadata.`"),
    ],
)
def test_a_bad_condition_is_explained(tagged: Project, expression: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        ids(tagged, where=(expression,))
    assert message in caught.value.message
    assert "metadata." in str(caught.value.next_step)


def test_nothing_selected_names_what_exists(tagged: Project) -> None:
    with pytest.raises(UsageError) as caught:
        ids(tagged, tags=("slwo",))
    assert caught.value.message == (
        "None of the 4 cases is selected by --tag slwo.\n  --tag slwo: no case has this tag (did you mean `slow`?)"
    )
    assert "`geo`" in str(caught.value.next_step)
    with pytest.raises(UsageError) as caught:
        ids(tagged, where=("metadata.lnag=fr",))
    assert "no case has `metadata.lnag` (did you mean `metadata.lang`?)" in caught.value.message
    assert "`metadata.lang`" in str(caught.value.next_step)


def test_a_tag_without_cases_is_a_note_if_others_select_some(tagged: Project) -> None:
    plan = plan_of(tagged, tags=("slow", "othr"), exclude_tags=("smke",))
    assert plan.notes == (
        "--tag othr: no case has this tag (did you mean `other`?)",
        "--exclude-tag smke: no case has this tag (did you mean `smoke`?)",
    )


def test_tags_are_validated_with_their_place(tagged: Project) -> None:
    tagged.write(
        "suite.yaml",
        "tags: ['']\nevalcases:\n  - {id: a, input: Q, tags: {x: y}}\n  - {id: b, input: Q, tags: [' ']}\n",
    )
    with pytest.raises(SuiteError) as caught:
        ids(tagged)
    assert [(problem.line, problem.column) for problem in caught.value.problems] == [(1, 8), (3, 29), (4, 30)]


def test_a_sample_depends_on_the_seed_alone(project: Project) -> None:
    project.write("agentv.config.yaml", CONFIG)
    for name in ("x", "y", "z"):
        project.write(f"{name}.jsonl", "".join(f'{{"id": "{name}{n}", "input": "Q"}}\n' for n in range(40)))
    drawn = ids(project, "x.jsonl", "y.jsonl", "z.jsonl", sample=12, seed=7)
    assert drawn == ids(project, "z.jsonl", "x.jsonl", "y.jsonl", sample=12, seed=7)
    plan = plan_of(project, "x.jsonl", "y.jsonl", "z.jsonl", sample=12)
    assert (plan.total, plan.sample) == (12, "sampled 12 of 120 cases, seed 0")
    assert len({ids(project, "x.jsonl", "y.jsonl", "z.jsonl", sample=12, seed=seed) for seed in range(4)}) == 4
    everything = plan_of(project, "x.jsonl", "y.jsonl", sample=500)
    assert (everything.total, everything.sample) == (80, None)
    with pytest.raises(UsageError, match="--seed can only be used with --sample"):
        ids(project, "x.jsonl", seed=1)


def test_a_sample_is_uniform(project: Project) -> None:
    project.write("agentv.config.yaml", CONFIG)
    project.write("s.jsonl", "".join(f'{{"id": "{n}", "input": "Q"}}\n' for n in range(5)))
    (planned,) = plan_of(project, "s.jsonl").suites
    suite, every = planned.suite, {planned.suite.path: planned.selected}
    drawn = ["".join(sorted(sampled([suite], every, 2, seed)[suite.path])) for seed in range(3000)]
    counts = [drawn.count(f"{one}{other}") for one, other in combinations("01234", 2)]
    assert sum(counts) == 3000
    assert min(counts) >= 240, "300 expected"
