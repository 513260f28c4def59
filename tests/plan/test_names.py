"""Every target that a suite names is configured, or all that are not are reported with their position."""

from __future__ import annotations

import pytest

from agentv.errors import AgentVError, SuiteError, UsageError
from tests.conftest import Project
from tests.plan.support import CONFIG, plan_of

ASKS = "{type: llm_judge, prompt: Is it right?}"


def messages(project: Project, suite: str, **options: object) -> list[str]:
    """What is wrong with the names in this suite."""
    project.write("agentv.config.yaml", CONFIG)
    project.write("suite.yaml", suite)
    with pytest.raises(SuiteError) as caught:
        plan_of(project, **options)
    return [f"{problem.line}: {problem.message}" for problem in caught.value.problems]


def test_every_unknown_name_is_reported_with_its_line_and_a_suggestion(project: Project) -> None:
    found = messages(
        project,
        """\
        execution:
          target: bto
          judge_target: strct
          evaluators: [{type: llm_judge, prompt: Is it right?, judge_target: scriptd}]
        evalcases:
          - {id: one, input: a}
          - {id: two, input: a, execution: {target: rivl}}
          - id: three
            input: a
            evaluators: [{name: s, type: code_judge, script: [cat], judge: {allowed_targets: [bot, other]}}]
        """,
    )

    assert [line.partition(" (did")[0].partition(";")[0] for line in found] == [
        "2: `execution.target` names the unknown target 'bto'",
        "3: `execution.judge_target` names the unknown target 'strct'",
        "4: evaluator 'llm_judge' names the unknown target 'scriptd'",
        "7: case 'two' names the unknown target 'rivl'",
        "8: evaluator 's' names the unknown target 'other'",
    ]
    assert all("did you mean" in line for line in found[:4])


def test_targets_of_cases_are_not_checked_when_the_option_replaces_them(project: Project) -> None:
    project.write("agentv.config.yaml", CONFIG)
    project.write(
        "suite.yaml",
        "execution: {target: bto, evaluators: [{type: contains, value: x}]}\nevalcases: [{id: a, input: a}]\n",
    )

    assert plan_of(project, targets=("rival",)).total == 1


def test_unselected_cases_may_name_unknown_targets(project: Project) -> None:
    project.write("agentv.config.yaml", CONFIG)
    project.write(
        "suite.yaml",
        "execution: {evaluators: [{type: contains, value: x}]}\n"
        "evalcases: [{id: one, input: a}, {id: two, input: a, execution: {target: unknown}}]\n",
    )

    assert plan_of(project, cases=("one",)).total == 1
    with pytest.raises(SuiteError):
        plan_of(project)


@pytest.mark.parametrize("option", ["strict", "none"])
def test_judge_target_option_is_checked_and_none_is_allowed(project: Project, option: str) -> None:
    project.write("agentv.config.yaml", CONFIG)
    project.write("suite.yaml", f"evalcases: [{{id: one, input: a, evaluators: [{ASKS}]}}]\n")

    assert plan_of(project, judge_target=option).total == 1
    with pytest.raises(UsageError, match=r"--judge-target names the target 'strickt'.*did you mean"):
        plan_of(project, judge_target="strickt")


@pytest.mark.parametrize(
    ("evaluator", "option", "refused"),
    [
        (ASKS, None, True),
        (ASKS, "none", False),
        ("{type: llm_judge, prompt: Is it right?, judge_target: none}", None, False),
        ("{name: c, type: composite, evaluators: [{type: contains, value: x}]}", None, False),
        (f"{{name: c, type: composite, evaluators: [{ASKS}]}}", None, True),
        ("{name: s, type: code_judge, script: [python, s.py]}", None, False),
        ("{name: s, type: code_judge, script: [python, s.py], judge: true}", None, True),
    ],
)
def test_recorded_answers_need_a_configuration_only_if_a_judge_is_needed(
    project: Project, evaluator: str, option: str | None, refused: bool
) -> None:
    project.write("suite.yaml", f"evalcases: [{{id: one, input: a, evaluators: [{evaluator}]}}]\n")
    project.write("answers.jsonl", '{"eval_id": "one", "candidate_answer": "x"}\n')
    if not refused:
        assert plan_of(project, outputs="answers.jsonl", judge_target=option).total == 1
        return
    with pytest.raises(AgentVError, match="need a judge"):
        plan_of(project, outputs="answers.jsonl", judge_target=option)


def test_judge_target_option_without_a_configuration_is_refused(project: Project) -> None:
    project.write("suite.yaml", f"evalcases: [{{id: one, input: a, evaluators: [{ASKS}]}}]\n")
    project.write("answers.jsonl", '{"eval_id": "one", "candidate_answer": "x"}\n')

    with pytest.raises(AgentVError, match="--judge-target strict names a target"):
        plan_of(project, outputs="answers.jsonl", judge_target="strict")
