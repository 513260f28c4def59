"""Options, suites and configuration become lanes of work, or one error before anything is called."""

from __future__ import annotations

import pytest

from agentv.errors import AgentVError, SuiteError, UsageError
from agentv.plan.build import build_plan
from agentv.plan.options import RunOptions
from tests.conftest import Project
from tests.plan.support import CONFIG, plan_of, work_of

SUITE = """\
execution: {evaluators: [{type: contains, value: x}]}
evalcases:
  - {id: france, input: a}
  - {id: italy, input: b, execution: {target: rival}}
  - {id: spain, input: c}
"""


@pytest.fixture
def suite(project: Project) -> Project:
    project.write("agentv.config.yaml", CONFIG)
    project.write("suite.yaml", SUITE)
    return project


# -- lanes


def test_each_target_gets_a_lane_with_its_cases(suite: Project) -> None:
    plan = plan_of(suite)

    assert {lane.target: sorted(lane.work[0][1]) for lane in plan.lanes} == {
        "bot": ["france", "spain"],
        "rival": ["italy"],
    }
    assert plan.total == 3


def test_target_option_overrides_the_targets_of_cases(suite: Project) -> None:
    plan = plan_of(suite, targets=("strict", "rival"))

    assert sorted(work_of(plan)) == sorted(
        ("suite", case, target, 1) for case in ("france", "italy", "spain") for target in ("strict", "rival")
    )


def test_suites_with_one_configuration_share_a_lane(suite: Project) -> None:
    suite.write("other.yaml", SUITE.replace("{target: rival}", "{target: bot}"))
    plan = plan_of(suite, "suite.yaml", "other.yaml")

    assert sorted(lane.target for lane in plan.lanes) == ["bot", "rival"]
    (bot,) = (lane for lane in plan.lanes if lane.target == "bot")
    # One case of each suite in turn, so that no suite waits for the end of another.
    assert [item.planned.suite.name for item in bot.items()] == ["suite", "other", "suite", "other", "other"]


def test_configuration_read_with_another_dotenv_file_gets_its_own_lane(suite: Project) -> None:
    suite.write("agentv.config.yaml", "targets: {bot: {provider: mock, response: '${{ WORD }}'}}")
    plain = SUITE.replace(", execution: {target: rival}", "")
    suite.write("one/suite.yaml", plain + "dataset: one\n")
    suite.write("one/.env", "WORD=one\n")
    suite.write("two/suite.yaml", plain + "dataset: two\n")
    suite.write("two/.env", "WORD=two\n")
    plan = plan_of(suite, "one", "two")

    words = {lane.work[0][0].suite.name: lane.environment.get("WORD") for lane in plan.lanes}
    assert words == {"one": "one", "two": "two"}


def test_repeat_gives_every_case_its_attempts(suite: Project) -> None:
    plan = plan_of(suite, repeat=3, cases=("france",))

    assert work_of(plan) == [("suite", "france", "bot", attempt) for attempt in (1, 2, 3)]
    assert plan.total == 3


@pytest.mark.parametrize(
    ("settings", "workers", "judged", "calls"),
    [
        ("", None, 16, 16),
        ("", 3, 3, 3),
        (", max_concurrency: 2", None, 16, 2),
        (", max_concurrency: 20", None, 20, 20),
        (", max_concurrency: 2", 9, 9, 2),
        (", workers: 5", 7, 7, 7),
    ],
)
def test_target_calls_of_a_lane_never_exceed_the_targets_limit(
    suite: Project, settings: str, workers: int | None, judged: int, calls: int
) -> None:
    suite.write("agentv.config.yaml", f"targets: {{bot: {{provider: cli, command: [cat]{settings}}}}}")
    suite.write("suite.yaml", SUITE.replace(", execution: {target: rival}", ""))

    (lane,) = plan_of(suite, workers=workers).lanes
    assert (lane.workers, lane.calls) == (judged, calls)


def test_function_target_needs_no_configuration(project: Project) -> None:
    project.write("suite.yaml", SUITE)
    plan = build_plan(RunOptions(paths=("suite.yaml",)), project.root, function_targets=["mine"])

    assert {target for _, _, target, _ in work_of(plan)} == {"mine"}
    assert plan.lanes[0].spec is None


# -- recorded answers


def test_recorded_answers_name_targets_and_attempts(suite: Project) -> None:
    suite.write(
        "answers.jsonl",
        '{"eval_id": "france", "candidate_answer": "x", "target": "a", "attempt": 2}\n'
        '{"eval_id": "france", "candidate_answer": "x", "target": "b"}\n'
        '{"eval_id": "atlantis", "candidate_answer": "x"}\n',
    )
    plan = plan_of(suite, outputs="answers.jsonl")

    assert work_of(plan) == [
        ("suite", "france", "a", 2),
        ("suite", "france", "b", 1),
        ("suite", "italy", "outputs", 1),
        ("suite", "spain", "outputs", 1),
    ]
    assert plan.notes == ("answers.jsonl: ignored 1 answer whose id is not in the suites",)
    assert not plan.pays_for("a")
    assert {target for _, _, target, _ in work_of(plan_of(suite, outputs="answers.jsonl", targets=("b",)))} == {"b"}


def test_recorded_answers_for_other_cases_are_refused(suite: Project) -> None:
    suite.write("answers.jsonl", '{"eval_id": "atlantis", "candidate_answer": "x"}\n')

    with pytest.raises(UsageError, match="none of its 1 eval ids is in the suites"):
        plan_of(suite, outputs="answers.jsonl")


# -- selection


@pytest.mark.parametrize(
    ("globs", "ids"),
    [
        ((), {"france", "italy", "spain"}),
        (("*a*",), {"france", "italy", "spain"}),
        (("fr*", "spain"), {"france", "spain"}),
    ],
)
def test_case_globs_select_whole_ids(suite: Project, globs: tuple[str, ...], ids: set[str]) -> None:
    (planned,) = plan_of(suite, cases=globs).suites

    assert planned.selected == ids


def test_case_glob_without_a_match_is_refused_with_a_suggestion(suite: Project) -> None:
    with pytest.raises(UsageError, match=r"--case 'frence' matches no case .did you mean `france`"):
        plan_of(suite, cases=("frence",))


def test_suite_without_selected_cases_is_left_out(suite: Project) -> None:
    suite.write("other.yaml", SUITE.replace("france", "japan"))
    plan = plan_of(suite, "suite.yaml", "other.yaml", cases=("japan",))

    assert [planned.suite.name for planned in plan.suites] == ["other"]


def test_two_suites_of_one_name_may_not_share_a_case(suite: Project) -> None:
    suite.write("deep/suite.yaml", SUITE)

    with pytest.raises(SuiteError, match=r"case 'france' is also in .*suite.yaml.*set `dataset:` in one"):
        plan_of(suite, "suite.yaml", "deep/suite.yaml")
    assert plan_of(suite, "suite.yaml").total == 3


# -- what cannot run


def test_errors_of_all_suites_are_reported_together(suite: Project) -> None:
    suite.write("one.yaml", "evalcases: [{input: a}]\n")
    suite.write("two.yaml", "evalcases: [{id: b}]\n")

    with pytest.raises(SuiteError) as caught:
        plan_of(suite, "one.yaml", "two.yaml")
    assert {problem.path.name for problem in caught.value.problems} == {"one.yaml", "two.yaml"}


def test_suite_without_a_target_lists_those_of_the_configuration(suite: Project) -> None:
    suite.write("agentv.config.yaml", CONFIG.replace("defaults: {target: bot}\n", ""))

    with pytest.raises(UsageError, match="does not set a target") as caught:
        plan_of(suite)
    assert "`rival`" in str(caught.value.next_step)


def test_run_without_any_configuration_is_refused(project: Project) -> None:
    project.write("suite.yaml", SUITE)

    with pytest.raises(AgentVError, match="needs a target"):
        plan_of(project)


def test_run_is_refused_only_if_no_selected_target_is_available(suite: Project) -> None:
    keyed = "keyed: {provider: openai, model: m, api_key: '${{ PLAN_TEST_KEY }}'}"
    suite.write("agentv.config.yaml", CONFIG.replace("targets:\n", f"targets:\n  {keyed}\n"))

    assert plan_of(suite, targets=("keyed", "bot")).total == 6
    with pytest.raises(UsageError, match=r"No selected target is available:\n  keyed: .*PLAN_TEST_KEY"):
        plan_of(suite, targets=("keyed",))


@pytest.mark.parametrize(
    ("option", "head", "threshold"), [(None, "", 0.8), (None, "threshold: 0.5, ", 0.5), (0.9, "threshold: 0.5, ", 0.9)]
)
def test_threshold_of_the_option_beats_the_suites(
    suite: Project, option: float | None, head: str, threshold: float
) -> None:
    suite.write("suite.yaml", SUITE.replace("execution: {", f"execution: {{{head}"))
    (planned,) = plan_of(suite, threshold=option).suites

    assert planned.threshold == threshold
