"""`composite`: members keep their options, the aggregator computes one score, and member errors are reported."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentv.evaluators.aggregators import LlmAggregator
from agentv.evaluators.base import Evaluator
from agentv.evaluators.composite import Composite
from agentv.evaluators.text import Contains
from tests.conftest import Project
from tests.evaluators.judge_support import Judge, a_case, verdict

CONFIG = """\
targets:
  assistant: {provider: mock, response: Paris is the capital., judge_target: strict}
  strict:
    provider: mock
    rules:
      - {match: "(?s)(members|evaluat).*0[.]25", response: '{"score": 0.25, "hits": [], "misses": [], "reasoning": ""}'}
      - {match: polite, response: '{"score": 0.5, "hits": ["kind"], "misses": [], "reasoning": "half"}'}
    response: nonsense
"""
RIGHT = "{name: right, type: contains, value: Paris}"
WRONG = "{name: wrong, type: contains, value: Lyon}"


@pytest.fixture
def composed(project: Project) -> Project:
    project.write("agentv.config.yaml", CONFIG)
    return project


def suite(project: Project, composite: str) -> None:
    project.write(
        "suite.yaml",
        "execution: {target: assistant}\nevalcases:\n- id: a\n  input: Where?\n  evaluators:\n"
        f"    - {{name: all, type: composite, {composite}}}\n",
    )


def result(project: Project, composite: str) -> dict[str, Any]:
    suite(project, composite)
    done = project.run("eval", "suite.yaml")
    assert done.returncode in (0, 1, 3), done.stderr
    (row,) = project.rows()
    (found,) = row["evaluator_results"]
    return dict(found)


def problems(project: Project, composite: str) -> str:
    suite(project, composite)
    done = project.run("validate", "suite.yaml")
    assert done.returncode == 2
    return done.stderr


@pytest.mark.parametrize(
    ("members", "aggregator", "score"),
    [
        (f"[{RIGHT}, {WRONG}]", "", 0.5),
        (f"[{RIGHT}, {WRONG}]", ", aggregator: {type: weighted_average}", 0.5),
        (f"[{RIGHT}, {WRONG}]", ", aggregator: {type: weighted_average, weights: {right: 3}}", 0.75),
        (f"[{RIGHT}, {WRONG}]", ", aggregator: {weights: {right: 0, wrong: 1}}", 0.0),
        (
            f"[{RIGHT}, {WRONG}, {{type: similarity, value: 'Paris!', threshold: 0.9}}]",
            ", aggregator: {type: threshold}",
            0.333333333333,
        ),
        (f"[{RIGHT}, {WRONG}]", ", aggregator: {weights: {right: 0, wrong: 0}}", 0.0),
        (
            "[{name: right, type: contains, value: Paris, weight: 4}, {name: wrong, type: contains, value: Lyon}]",
            "",
            0.8,
        ),
        ("[{name: right, type: contains, value: Lyon, negate: true}]", "", 1.0),
    ],
)
def test_weighted_average_prefers_aggregator_weights_over_member_weights(
    composed: Project, members: str, aggregator: str, score: float
) -> None:
    assert result(composed, f"evaluators: {members}{aggregator}")["score"] == score


def test_member_results_are_kept_and_hits_and_misses_name_the_member(composed: Project) -> None:
    found = result(composed, f"evaluators: [{RIGHT}, {WRONG}]")
    assert [member["name"] for member in found["evaluator_results"]] == ["right", "wrong"]
    assert found["hits"] == ["[right] contains 'Paris'"]
    assert found["misses"] == ["[wrong] does not contain 'Lyon'"]
    assert found["reasoning"] == "right 1, wrong 0"


def test_composites_can_be_nested(composed: Project) -> None:
    inner = f"{{name: inner, type: composite, evaluators: [{RIGHT}, {WRONG}]}}"
    found = result(composed, f"evaluators: [{RIGHT}, {inner}]")
    assert found["score"] == 0.75
    assert found["evaluator_results"][1]["evaluator_results"][0]["name"] == "right"


def test_score_is_zero_when_a_required_member_fails(composed: Project) -> None:
    required = "{name: wrong, type: contains, value: Lyon, required: true}"
    found = result(composed, f"evaluators: [{RIGHT}, {required}]")
    assert found["score"] == 0
    assert found["misses"][0] == "[wrong] is required and failed"


def test_member_error_is_an_error_and_keeps_other_results(composed: Project) -> None:
    broken = "{name: broken, type: code_judge, script: [python, -c, 'raise SystemExit(7)'], weight: 0}"
    found = result(composed, f"evaluators: [{RIGHT}, {broken}]")
    assert (found["score"], found["verdict"]) == (0, "fail")
    assert "1 of 2 members failed: broken: the script exited with code 7" in found["error"]
    assert [member["score"] for member in found["evaluator_results"]] == [1.0, 0.0]


def test_llm_judge_member_keeps_its_prompt(composed: Project) -> None:
    judged = "{name: tone, type: llm_judge, prompt: 'Is this polite? {{ candidate_answer }}'}"
    found = result(composed, f"evaluators: [{RIGHT}, {judged}]")
    assert (found["error"], found["score"]) == (None, 0.75)


AGGREGATE = """\
import json, sys
case = json.load(sys.stdin)
results = case["results"]
assert case["candidate_answer"] == "Paris is the capital."
assert results["right"]["hits"] and results["right"]["expectedAspectCount"] == 1
assert results["right"]["assertions"] == [{"text": text, "passed": True} for text in results["right"]["hits"]]
print(json.dumps({"score": min(r["score"] for r in results.values()) + 0.1, "reasoning": ",".join(results)}))
"""


@pytest.mark.parametrize("spelled", ["script: [python, all.py]", "path: python all.py"])
def test_script_aggregates_member_results(composed: Project, spelled: str) -> None:
    composed.write("all.py", AGGREGATE)
    found = result(composed, f"evaluators: [{RIGHT}, {WRONG}], aggregator: {{type: code_judge, {spelled}}}")
    assert (found["error"], found["score"], found["reasoning"]) == (None, 0.1, "right,wrong")
    assert len(found["evaluator_results"]) == 2


def test_aggregator_script_can_have_judge_access(composed: Project) -> None:
    composed.write(
        "all.py",
        "from agentv_eval import create_judge_proxy_client, define_code_judge\n"
        "def judge(case):\n"
        "    said = create_judge_proxy_client().invoke(question='polite?').raw_text\n"
        "    return {'score': 0.5, 'reasoning': said[:10]}\n"
        "define_code_judge(judge)\n",
    )
    found = result(
        composed, f"evaluators: [{RIGHT}], aggregator: {{type: code_judge, script: [python, all.py], judge: true}}"
    )
    assert (found["error"], found["score"], found["judge_proxy"]["call_count"]) == (None, 0.5, 1)


def test_failing_aggregator_script_is_an_error_and_keeps_member_results(composed: Project) -> None:
    found = result(
        composed, f"evaluators: [{RIGHT}], aggregator: {{type: code_judge, script: [python, -c, 'print(1)']}}"
    )
    assert found["error"]
    assert found["evaluator_results"][0]["score"] == 1


def test_llm_aggregator_works_with_and_without_a_prompt(composed: Project) -> None:
    quarter = f"evaluators: [{RIGHT}, {{name: x, type: composite, evaluators: [{RIGHT}, {WRONG}], "
    quarter += "aggregator: {weights: {right: 1, wrong: 3}}}], aggregator: {type: llm_judge"
    asked = "'The members said {{EVALUATOR_RESULTS_JSON}}'"
    assert result(composed, f"{quarter}, prompt: {asked}}}")["score"] == 0.25
    composed.write("ask.md", "The members said {{ EVALUATOR_RESULTS_JSON }}\n")
    found = result(composed, f"{quarter}, prompt: ask.md}}")
    assert (found["score"], found["judge"]["call_count"]) == (0.25, 1)
    assert result(composed, f"{quarter}}}")["score"] == 0.25


@pytest.mark.parametrize(
    ("composite", "expected"),
    [
        ("evaluators: []", "`evaluators`"),
        ("evaluators: nope", "`evaluators`"),
        ("x: 1", "`evaluators` is missing"),
        (f"evaluators: [{RIGHT}, {RIGHT}]", "two members named 'right'"),
        ("evaluators: [{type: contain, value: x}]", "did you mean `contains`?"),
        ("evaluators: [{type: contains}]", "has nothing to compare the answer with"),
        (f"evaluators: [{RIGHT}], aggregator: {{type: median}}", "unknown aggregator type 'median'"),
        (f"evaluators: [{RIGHT}], aggregator: {{type: [median]}}", "unknown aggregator type a list"),
        (
            f"evaluators: [{RIGHT}], aggregator: weighted_average",
            "`aggregator` must be a mapping like `{type: weighted_average}`, where `type` is `weighted_average`, "
            "`threshold`, `code_judge` or `llm_judge`; got 'weighted_average'",
        ),
        (f"evaluators: [{RIGHT}], aggregator: {{weights: {{rigth: 1}}}}", "did you mean `right`?"),
        (f"evaluators: [{RIGHT}], aggregator: {{weights: {{right: -1}}}}", "weights"),
        (f"evaluators: [{RIGHT}], aggregator: {{weight: {{right: 1}}}}", "is an option of the composite"),
        (f"evaluators: [{RIGHT}], aggregator: {{type: code_judge}}", "`script` is missing"),
        (f"evaluators: [{RIGHT}], aggregator: {{type: llm_judge, prompt: './no.md'}}", "no.md"),
        (
            f"evaluators: [{RIGHT}], aggregator: {{type: llm_judge, prompt: '{{{{ EVALUATOR_RESULT_JSON }}}} x'}}",
            "EVALUATOR_RESULTS_JSON",
        ),
    ],
)
def test_problems_are_reported_at_their_position(composed: Project, composite: str, expected: str) -> None:
    assert expected in problems(composed, composite)


def test_member_errors_are_reported_at_their_own_line(composed: Project) -> None:
    composed.write(
        "suite.yaml",
        "evalcases:\n- id: a\n  input: x\n  evaluators:\n    - name: all\n      type: composite\n      evaluators:\n"
        "        - {name: one, type: contains, value: x}\n        - {name: two, type: nope}\n",
    )
    assert "suite.yaml:9:" in composed.run("validate", "suite.yaml").stderr


def test_editor_schema_includes_composite(composed: Project) -> None:
    schema = json.loads(composed.run("schema").stdout)["suite"]
    assert schema["$defs"]["composite"]["properties"]["evaluators"]["items"] == {"$ref": "#/$defs/Evaluator"}


def test_invalid_member_is_reported_once_without_follow_up_errors(composed: Project):
    output = problems(
        composed, "evaluators: [{name: x, type: contains, value: a, weight: -1}], aggregator: {weights: {x: 2}}"
    )
    assert "`weight` must be a number >= 0, got -1" in output
    assert "1 problem in 1 file" in output


def test_weights_are_rejected_for_other_aggregators(composed: Project):
    output = problems(composed, f"evaluators: [{RIGHT}], aggregator: {{type: llm_judge, weights: {{right: 2}}}}")
    assert "`weights` is only supported by `type: weighted_average`" in output


def test_aggregator_script_receives_results_of_nested_members(composed: Project):
    composed.write(
        "aggregate.py",
        """\
        import json, sys
        inner = json.load(sys.stdin)["results"]["inner"]
        print(json.dumps({"score": 1, "details": {each["name"]: each["score"] for each in inner["evaluatorResults"]}}))
        """,
    )
    found = result(
        composed,
        f"evaluators: [{{name: inner, type: composite, evaluators: [{RIGHT}, {WRONG}]}}], "
        "aggregator: {type: code_judge, script: [python, aggregate.py]}",
    )
    assert (found["error"], found["details"]) == (None, {"right": 1.0, "wrong": 0.0})


@pytest.mark.parametrize(
    ("prompt", "is_fenced"),
    [
        (None, True),
        ("Weigh what the members say.", True),
        ("The members said {{ EVALUATOR_RESULTS_JSON }}", False),
        ("The answer is {{ candidate_answer }}", False),
    ],
)
async def test_llm_aggregator_prompt_explains_how_material_is_marked(prompt: str | None, is_fenced: bool) -> None:
    asked = Judge(verdict(0.5))
    members: list[Evaluator] = [Contains(name="right", value="Paris")]
    aggregator = LlmAggregator(name="all", prompt=prompt)
    result = await asked.judged(Composite(name="all", evaluators=members, aggregator=aggregator), a_case())
    assert result.score == 0.5
    (request,) = asked.requests
    assert ("Each part is enclosed between a line" in (request.system_prompt or "")) is is_fenced
    assert ("quotes the material" in (request.system_prompt or "")) is not is_fenced
    assert "contains 'Paris'" in request.question
