"""Plans of one case: narrowed from a suite or made from a payload, and judged by one evaluator."""

from __future__ import annotations

from typing import Any

import pytest

from agentv.errors import UsageError
from agentv.evaluators.text import Contains
from agentv.plan.options import RunOptions
from agentv.plan.plan import RunPlan
from agentv.plan.single import answer_of, answered, item_of, judged_by, single, single_of_payload
from agentv.results import CaseResult
from agentv.run.execute import Execution
from tests.conftest import Project
from tests.plan.support import CONFIG, work_of

SUITE = """\
execution: {evaluators: [{type: llm_judge, prompt: Is it right?}]}
evalcases:
  - {id: france, input: a}
  - {id: italy, input: b, execution: {target: rival}}
"""


@pytest.fixture
def suite(project: Project) -> Project:
    project.write("agentv.config.yaml", CONFIG)
    project.write("suite.yaml", SUITE)
    return project


def options(**more: Any) -> RunOptions:
    return RunOptions(paths=("suite.yaml",), **more)


def contains(word: str) -> Contains:
    return Contains(name="has", type="contains", value=word)


async def rows_of(plan: RunPlan) -> list[CaseResult]:
    rows: list[CaseResult] = []

    async def deliver(row: CaseResult) -> None:
        rows.append(row)

    await Execution(plan, "run", deliver).run()
    return rows


def test_plan_is_narrowed_to_the_selected_case(suite: Project) -> None:
    plan = single(options(cases=("italy",)), suite.root)

    assert work_of(plan) == [("suite", "italy", "rival", 1)]
    assert item_of(plan).case.id == "italy"
    assert plan.total == 1


def test_several_selected_cases_are_refused_by_name(suite: Project) -> None:
    with pytest.raises(UsageError, match="select one with --case") as caught:
        single(options(), suite.root)
    assert caught.value.next_step == "Available: france, italy"


def test_answer_needs_no_configuration(project: Project) -> None:
    project.write("suite.yaml", SUITE.replace(", execution: {target: rival}", ""))
    plan = single(options(cases=("france",)), project.root, answer="Paris")

    assert plan.answers is not None
    assert plan.digests().keys() == {str(project.root / "suite.yaml")}


async def test_given_answer_is_judged_by_the_given_evaluator_alone(suite: Project) -> None:
    plan = judged_by(single(options(cases=("france",)), suite.root, answer="Paris"), contains("Paris"))

    assert not plan.needs
    (row,) = await rows_of(plan)
    assert (row.eval_id, row.target, row.candidate_answer) == ("france", "bot", "Paris")
    assert [(result.name, result.score) for result in row.evaluator_results] == [("has", 1.0)]


async def test_later_answer_replaces_the_call_of_the_target(suite: Project) -> None:
    plan = judged_by(single(options(cases=("france",)), suite.root), contains("Rome"))

    (row,) = await rows_of(answered(plan, answer_of("france", "Rome")))
    assert row.candidate_answer == "Rome"
    assert plan.answers is None


async def test_first_of_several_recorded_answers_is_taken_and_noted(suite: Project) -> None:
    suite.write(
        "answers.jsonl",
        '{"eval_id": "france", "candidate_answer": "second", "target": "b"}\n'
        '{"eval_id": "france", "candidate_answer": "first", "target": "a", "attempt": 2}\n',
    )
    plan = single(options(cases=("france",), outputs="answers.jsonl"), suite.root)

    assert work_of(plan) == [("suite", "france", "a", 2)]
    assert plan.notes[-1].startswith("several answers are recorded for 'france'; using target 'a', attempt 2")
    (row,) = await rows_of(judged_by(plan, contains("first")))
    assert row.score == 1.0


async def test_payload_makes_a_case_with_its_answer(suite: Project) -> None:
    payload = {"eval_id": "x", "suite": "s", "target": "rival", "question": "q", "candidate_answer": "Paris"}
    plan = judged_by(single_of_payload(payload, RunOptions(), suite.root), contains("Paris"))

    assert plan.judge_choice(plan.lanes[0], plan.suites[0]).resolve() == "strict"
    (row,) = await rows_of(plan)
    assert (row.suite, row.eval_id, row.target, row.score) == ("s", "x", "rival", 1.0)


@pytest.mark.parametrize("payload", [{}, {"eval_id": 5, "suite": None, "target": ""}])
def test_payload_without_names_is_called_payload(suite: Project, payload: dict[str, Any]) -> None:
    plan = single_of_payload(payload, RunOptions(), suite.root)

    assert work_of(plan) == [("payload", "payload", "payload", 1)]
    # No configured target answered: the default one decides which target judges.
    assert plan.judge_choice(plan.lanes[0], plan.suites[0]).resolve() == "bot"


def test_payload_with_an_unknown_judge_is_refused(suite: Project) -> None:
    with pytest.raises(UsageError, match="--judge-target names the target 'strickt'"):
        single_of_payload({}, RunOptions(judge_target="strickt"), suite.root)
