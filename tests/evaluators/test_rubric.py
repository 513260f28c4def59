"""`rubric`: each criterion is checked separately; the score is the satisfied share of the weight."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from tests.conftest import Project
from tests.evaluators.judge_support import Judge, a_case, checks
from tests.evaluators.support import an_evaluator, problem_of
from tests.spec.support import mock, run, scripted, write_suite
from tests.suite.support import only_problem

TWO: list[Any] = [{"id": "city", "description": "Names Paris.", "weight": 3}, "Is polite."]


async def judged(reply: str, rubrics: list[Any] = TWO, **options: Any) -> Any:
    return await Judge(reply).judged(an_evaluator("rubric", rubrics=rubrics, **options), a_case())


async def test_score_is_the_satisfied_share_of_the_weight():
    result = await judged(checks(("city", True, "it does"), ("rubric-2", False, "no thanks"), overall="curt"))
    assert (result.score, result.hits, result.misses) == (0.75, ("Names Paris.",), ("Is polite.: no thanks",))
    assert (result.reasoning, result.warnings) == ("curt", ())
    assert result.details == {
        "checks": [
            {"id": "city", "satisfied": True, "reasoning": "it does", "weight": 3.0, "required": False},
            {"id": "rubric-2", "satisfied": False, "reasoning": "no thanks", "weight": 1.0, "required": False},
        ]
    }
    assert result.judge["call_count"] == 1


async def test_criterion_missing_from_the_reply_is_not_satisfied():
    result = await judged(checks(("rubric-2", True)))
    assert (result.score, result.misses) == (0.25, ("Names Paris.: the judge did not check it",))
    assert result.warnings == ("the judge omitted criteria, which count as not satisfied: city",)
    assert (await judged(checks())).score == 0


async def test_repeated_criterion_counts_once():
    twice = checks(("city", True), ("city", True), ("rubric-2", False))
    result = await judged(twice)
    assert result.score == 0.75
    assert result.warnings == ("the judge returned criteria more than once, which count once: city",)


async def test_criterion_with_contradictory_checks_is_not_satisfied():
    result = await judged(checks(("city", True), ("city", False), ("rubric-2", True)))
    assert result.score == 0.25
    assert "contradictory" in result.misses[0]


async def test_unknown_criteria_are_ignored_with_a_warning():
    result = await judged(checks(("city", True), ("rubric-2", True), ("bonus", True)))
    assert result.score == 1
    assert result.warnings == ("the judge returned unknown criteria, which were ignored: bonus",)
    many = [(f"x{number}", True) for number in range(12)]
    result = await judged(checks(("city", True), ("rubric-2", True), *many))
    named = ", ".join(f"x{number}" for number in range(10))
    assert result.warnings == (f"the judge returned unknown criteria, which were ignored: {named}, and 2 more",)


async def test_score_is_zero_when_a_required_criterion_is_not_satisfied():
    rubrics = [{"id": "safe", "description": "Is safe.", "required": True, "weight": 0.1}, "Names Paris."]
    result = await judged(checks(("safe", False, "it is not"), ("rubric-2", True), overall="hm"), rubrics)
    assert (result.score, result.hits) == (0, ("Names Paris.",))
    assert result.misses == ("Is safe. (required): it is not",)
    assert result.reasoning == "hm (required but not satisfied: safe)"
    assert (await judged(checks(("safe", True), ("rubric-2", True)), rubrics)).score == 1


async def test_score_is_zero_when_all_weights_are_zero():
    result = await judged(checks(("a", True)), [{"id": "a", "description": "x", "weight": 0}])
    assert (result.score, result.error) == (0, None)


async def test_score_is_exactly_one_when_all_fractional_weights_are_satisfied():
    rubrics = [{"id": str(n), "description": "x", "weight": 0.1} for n in range(3)]
    assert (await judged(checks(*((str(n), True) for n in range(3))), rubrics)).score == 1


async def test_reply_in_another_format_is_retried():
    judge = Judge('{"score": 1}', checks(("city", True), ("rubric-2", True)))
    result = await judge.judged(an_evaluator("rubric", rubrics=TWO), a_case())
    assert (result.score, len(judge.requests)) == (1, 2)
    assert "`checks` must be an object with one entry per criterion, got nothing" in judge.requests[1].question


async def test_prompt_includes_every_criterion_with_its_id():
    judge = Judge(checks(("city", True), ("rubric-2", True)))
    await judge.judged(an_evaluator("rubric", rubrics=TWO), a_case())
    (request,) = judge.requests
    assert request.system_prompt is not None
    assert '{"id": "city", "description": "Names Paris."}' in request.system_prompt
    assert '{"id": "rubric-2", "description": "Is polite."}' in request.system_prompt
    assert request.options.response_schema is not None
    schema = request.options.response_schema["properties"]["checks"]
    assert schema["required"] == list(schema["properties"]) == ["city", "rubric-2"]
    assert schema["additionalProperties"] is False


async def test_checks_keyed_by_criterion_are_read():
    reply = {"checks": {"city": {"reasoning": "r", "satisfied": True}, "rubric-2": {"satisfied": False}}}
    result = await Judge(json.dumps(reply)).judged(an_evaluator("rubric", rubrics=TWO), a_case())
    assert [check["satisfied"] for check in (result.details or {})["checks"]] == [True, False]


async def test_id_with_spaces_needs_a_list():
    judge = Judge(checks(("names the city", True)))
    rubrics = [{"id": "names the city", "description": "Names Paris."}]
    result = await judge.judged(an_evaluator("rubric", rubrics=rubrics), a_case())
    schema = (judge.requests[0].options.response_schema or {})["properties"]["checks"]
    assert schema["items"]["properties"]["id"]["enum"] == ["names the city"]
    assert result.score == 1.0


async def test_llm_judge_with_rubrics_scores_by_criteria():
    judge = Judge(checks(("city", True), ("rubric-2", False)))
    prompt = "{{ candidate_answer }} against\n{{ rubrics }}"
    result = await judge.judged(an_evaluator("llm_judge", rubrics=TWO, prompt=prompt), a_case())
    assert (result.score, result.type) == (0.75, "llm_judge")
    assert judge.requests[0].question.startswith('Paris against\n{"id": "city"')


@pytest.mark.parametrize(
    ("rubrics", "message"),
    [
        ([], "must contain at least one criterion"),
        ([{"id": "a", "description": "x"}, {"id": "a", "description": "y"}], "two criteria have the id 'a'"),
        (["x", {"id": "rubric-1", "description": "y"}], "two criteria have the id 'rubric-1'; give each a unique id"),
        (["  "], "the description of the criterion 'rubric-1' must not be empty"),
    ],
)
def test_invalid_criteria_are_rejected(rubrics, message):
    where, reported = problem_of("rubric", rubrics=rubrics)
    assert (where, reported.startswith(message)) == (("rubrics",), True)


def test_invalid_rubrics_in_a_suite_are_reported_at_their_position(tmp_path):
    suite = "evalcases:\n  - id: a\n    input: x\n    evaluators:\n      - {type: rubric, rubrics: %s}\n"
    assert only_problem(tmp_path, suite % "[]") == ("5:33: `rubrics` must contain at least one criterion")
    assert "unknown key `wieght` (did you mean `weight`?)" in only_problem(
        tmp_path, suite % "[{description: x, wieght: 2}]"
    )
    assert only_problem(tmp_path, "evalcases:\n  - {id: a, input: x, evaluators: [{type: rubric}]}\n").endswith(
        "`rubrics` is missing"
    )
    twice = "evalcases:\n  - id: a\n    input: x\n    rubrics:\n      - {id: b, description: x}\n"
    problem = only_problem(tmp_path, twice + "      - {id: b, description: y}\n")
    assert problem == "5:7: `rubrics`: two criteria have the id 'b'; give each a unique id"


def test_case_rubrics_are_judged_by_a_model(project: Project) -> None:
    case = {"id": "france", "input": "The capital of France?", "rubrics": ["Names Paris.", "Is polite."]}
    write_suite(project, [case])
    judge = mock(checks(("rubric-1", True), ("rubric-2", True)))
    project.write("agentv.config.yaml", json.dumps(scripted(judge=judge)))
    ran = run(project)
    assert (ran.process.returncode, ran.result["name"], ran.result["type"]) == (0, "rubric", "rubric")
    assert [check["satisfied"] for check in ran.result["details"]["checks"]] == [True, True]
    assert project.manifest(ran.directory)["summary"]["judge_calls"] == 1


@pytest.mark.parametrize("weight", [1e308, 5e-324])
async def test_score_is_correct_for_extremely_large_and_small_weights(weight):
    rubrics = [{"id": name, "description": name, "weight": weight} for name in ("a", "b", "c", "d")]
    result = await judged(checks(("a", True), ("b", False), ("c", True), ("d", True)), rubrics)
    assert (result.score, result.error) == (0.75, None)


async def test_warning_lists_only_a_few_of_many_unknown_criteria():
    result = await judged(checks(("city", True), ("rubric-2", True), *((f"made-up-{n}", True) for n in range(2_000))))
    (warning,) = result.warnings
    assert "made-up-9, and 1990 more" in warning


POINTS: list[Any] = [
    {"id": "tone", "score_ranges": {"0": "cold", "5": "polite", "8": "warm"}, "weight": 3},
    {"id": "fact", "description": "Names Paris.", "operator": "contradiction", "min_score": 0.4},
]


def points(tone: int, fact: int) -> str:
    given = {"tone": {"reasoning": "so", "score": tone}, "fact": {"reasoning": "so", "score": fact}}
    return json.dumps({"checks": given, "overall_reasoning": "all in all"})


@pytest.mark.parametrize(("tone", "fact", "score"), [(10, 10, 1.0), (8, 4, 0.7), (8, 3, 0.0), (0, 10, 0.25)])
async def test_points_are_weighted_and_a_minimum_fails_the_evaluator(tone, fact, score):
    result = await judged(points(tone, fact), POINTS)
    assert result.score == pytest.approx(score)
    assert len(result.hits) == (tone >= 7) + (fact >= 7)


async def test_judge_sees_the_ranges_and_the_operator():
    judge = Judge(points(11, 3), points(8, 7))
    result = await judge.judged(an_evaluator("rubric", rubrics=POINTS), a_case())
    assert result.score == pytest.approx(0.775)
    system = judge.requests[0].system_prompt or ""
    assert '"score_ranges": {"0-4": "cold", "5-7": "polite", "8-10": "warm"}' in system
    assert '"operator": "contradiction"' in system
    assert "a whole number from 0 to 10" in system
    assert 'satisfied"' not in system
    assert "`checks.tone.score` must be a whole number from 0 to 10" in str(judge.requests[1].messages)


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        ({"score_ranges": {"1": "x"}}, "must cover every score from 0 to 10 once"),
        (
            {"score_ranges": [{"score_range": [0, 10], "outcome": "x"}, {"score_range": [5, 7], "outcome": "y"}]},
            "cover",
        ),
        ({"score_ranges": {"low": "x"}}, "whole numbers from 0 to 10 as keys"),
        ({"weight": 1}, "`description` is missing"),
        ({"outcome": "x", "description": "y"}, "mean the same"),
    ],
)
def test_invalid_score_ranges_are_rejected(item, problem):
    with pytest.raises(ValidationError, match=problem):
        an_evaluator("rubric", rubrics=[item])
