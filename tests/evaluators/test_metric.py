"""The evaluator type `metric`: how a suite chooses a metric, its options, and its errors."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import jsonschema
import pytest

from agentv.errors import Problem, SuiteError
from agentv.evaluators.base import Need
from agentv.evaluators.metric import MetricEvaluator
from agentv.evaluators.reader import EvaluatorReader
from agentv.judge.access import JudgeAccess
from agentv.metrics import METRICS, SHARED_FILE, script_of
from agentv.plan.schema import suite_schema
from agentv.redact import MASK
from agentv.suite.loader import load_suite
from tests.conftest import Project
from tests.metrics.support import verdicts

CLAIMS = json.dumps({"claims": ["It is in France."]})
CONFIG = f"""\
targets:
  assistant: {{provider: mock, response: It is in France.}}
  judge:
    provider: mock
    rules:
      - {{match: List the factual claims, response: '{CLAIMS}'}}
      - {{match: Compare each, response: '{verdicts("not_mentioned")}'}}
  strange: {{provider: mock, response: I cannot say.}}
defaults: {{target: assistant, judge_target: judge}}
"""


def read(tmp_path: Path, options: str) -> MetricEvaluator:
    path = tmp_path / "suite.yaml"
    path.write_text(f"evalcases:\n  - id: a\n    input: hi\n    evaluators:\n      - {{type: metric, {options}}}\n")
    (case,) = load_suite(path, EvaluatorReader()).cases()
    (evaluator,) = case.evaluators
    assert isinstance(evaluator, MetricEvaluator)
    return evaluator


def only_problem(tmp_path: Path, options: str) -> Problem:
    with pytest.raises(SuiteError) as caught:
        read(tmp_path, options)
    (problem,) = caught.value.problems
    return problem


@pytest.mark.parametrize("metric", METRICS)
def test_the_name_chooses_the_metric(tmp_path: Path, metric: str) -> None:
    evaluator = read(tmp_path, f"name: {metric}")
    assert (evaluator.name, evaluator.metric, evaluator.warm) == (metric, metric, True)
    assert evaluator.script == ["python", str(script_of(metric))]
    assert script_of(metric).is_file()
    assert evaluator.judge == (JudgeAccess() if METRICS[metric].calls_judge else None)
    assert (Need.JUDGE_ACCESS in evaluator.needs) == METRICS[metric].calls_judge


def test_metric_chooses_if_the_name_is_another(tmp_path: Path) -> None:
    evaluator = read(tmp_path, "name: strict, metric: bias, judge: {max_calls: 3, target: b}, warm: false, weight: 2")
    assert (evaluator.name, evaluator.metric, evaluator.warm, evaluator.weight) == ("strict", "bias", False, 2.0)
    assert evaluator.judge == JudgeAccess(max_calls=3, target="b")
    assert evaluator.targets_named() == ["b"]


def test_the_british_spelling_is_an_alias(tmp_path: Path) -> None:
    evaluator = read(tmp_path, "name: summarisation_coverage")
    assert (evaluator.name, evaluator.metric) == ("summarisation_coverage", "summarization_coverage")


@pytest.mark.parametrize("name", ["JSON correctness", "json-correctness", "Json_Correctness"])
def test_name_of_a_metric_can_have_spaces_hyphens_and_capitals(tmp_path: Path, name: str) -> None:
    evaluator = read(tmp_path, f"name: {name}")
    assert (evaluator.name, evaluator.metric) == (name, "json_correctness")


def test_options_are_written_directly_or_in_config(tmp_path: Path) -> None:
    direct = read(tmp_path, "name: faithfulness, context: metadata.x, max_claims: 3")
    assert read(tmp_path, "name: faithfulness, context: metadata.x, config: {max_claims: 3}") == direct


def test_a_schema_can_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "order.json").write_text('{"type": "object"}')
    assert read(tmp_path, "name: json_correctness, schema: order.json").schema_ == {"type": "object"}
    assert (
        "there is no file 'other.json'" in only_problem(tmp_path, "name: json_correctness, schema: other.json").message
    )


def test_the_record_has_no_place_of_the_installation(tmp_path: Path) -> None:
    evaluator = read(tmp_path, "name: faithfulness, max_claims: 3")
    assert evaluator.recorded_options() == {"judge": {}, "metric": "faithfulness", "max_claims": 3}
    assert evaluator.depends_on(tmp_path) == [script_of("faithfulness"), SHARED_FILE]


def test_the_record_has_no_key_from_the_parameters_of_a_library(tmp_path: Path) -> None:
    parameters = "{api_key: sk-not-for-the-record, max_tokens: 5, model: gpt-4o}"
    evaluator = read(tmp_path, f"name: 'deepeval:GEval', parameters: {parameters}")
    assert evaluator.recorded_options()["parameters"] == {"api_key": MASK, "max_tokens": 5, "model": "gpt-4o"}


@pytest.mark.parametrize(
    ("options", "column", "message"),
    [
        ("name: faithfulnes", 24, "unknown metric 'faithfulnes' (did you mean `faithfulness`?); available: `faithf"),
        ("name: mine", 24, "`name` must be a metric unless `metric` is set, got 'mine'; available: `faithfulness`"),
        ("name: x, metric: tool_corectness", 33, "unknown metric 'tool_corectness' (did you mean `tool_correctness`?)"),
        ("name: bias, context: metadata.x", 36, "`context` is not an option of the metric `bias`, which has `max_cl"),
        ("name: bias, judge: false", 36, "the metric `bias` calls a judge; remove `judge: false`"),
        ("name: json_correctness, judge: {}", 48, "the metric `json_correctness` calls no judge; remove `judge`"),
        ("name: bias, script: [python, x.py]", 36, "copy it with `agentv judge new NAME --metric METRIC`"),
        ("name: bias, max_claim: 3", 36, "unknown key `max_claim` (did you mean `max_claims`?)"),
        ("name: bias, max_claims: 0", 48, "`max_claims` must be a number >= 1, got 0"),
        ("name: bias, config: {languag: de}", 36, "unknown option `languag` (did you mean `language`?) in `config`"),
        ("name: bias, language: de, config: {language: fr}", 50, "`language` is set in `config` and next to it"),
        ("name: bias, config: 3", 36, "`config` must be a mapping"),
        ("name: json_correctness, schema: {type: objec}", 56, "`schema`: not a valid JSON Schema"),
    ],
)  # fmt: skip
def test_wrong_options_are_reported_with_their_position(
    tmp_path: Path, options: str, column: int, message: str
) -> None:
    problem = only_problem(tmp_path, options)
    assert message in problem.message
    assert (problem.line, problem.column) == (5, column)


def test_the_editor_schema_accepts_metrics_and_rejects_typos() -> None:
    def errors(evaluator: dict[str, object]) -> int:
        case = {"id": "a", "input": "b", "evaluators": [{"type": "metric", **evaluator}]}
        return len(list(jsonschema.Draft202012Validator(suite_schema()).iter_errors({"evalcases": [case]})))

    assert errors({"name": "faithfulness", "judge": {"max_calls": 3}, "context": "metadata.x"}) == 0
    assert errors({"name": "mine", "metric": "json_correctness", "schema": {"type": "object"}}) == 0
    assert errors({"name": "mine", "metric": "faithfulnes"}) > 0
    assert errors({"name": "bias", "max_claim": 3}) > 0


# -- in a run


def run(project: Project, *options: str, metadata: str = "{retrieval_context: [It is in Texas.]}") -> list[dict]:  # type: ignore[type-arg]
    project.write("agentv.config.yaml", CONFIG)
    project.write(
        "suite.yaml",
        dedent(f"""\
        execution:
          evaluators:
            - {{type: metric, name: faithfulness}}
            - {{type: metric, name: lenient, metric: faithfulness, allow_unmentioned: true}}
        evalcases:
          - {{id: a, input: Where is it?, metadata: {metadata}}}
        """),
    )
    project.run("eval", "suite.yaml", *options)
    results: list[dict] = project.rows()[0]["evaluator_results"]  # type: ignore[type-arg]
    return results


def test_metrics_run_warm_with_judge_access_and_their_options(project: Project) -> None:
    strict, lenient = run(project)
    assert (strict["score"], lenient["score"]) == (0.0, 1.0)
    assert strict["misses"] == ["It is in France. (not mentioned: reason 1)"]
    assert strict["judge_proxy"]["targets"] == {"judge": 2}
    assert strict["warnings"] == []


def test_a_suite_with_every_metric_keeps_all_of_them_warm(project: Project) -> None:
    project.write("agentv.config.yaml", CONFIG)
    options: dict[str, dict[str, object]] = {
        "tool_correctness": {"expected": [{"tool": "search"}]},
        "summarization_coverage": {"source": "Texas"},
    }
    evaluators: list[dict[str, object]] = [
        {"type": "metric", "name": metric, **options.get(metric, {})} for metric in METRICS
    ]
    case = {"id": "a", "input": "Where?", "reference_answer": "Texas", "metadata": {"retrieval_context": ["Texas"]}}
    project.write("suite.yaml", json.dumps({"execution": {"evaluators": evaluators}, "evalcases": [case]}))
    done = project.run("eval", "suite.yaml")
    assert len(project.rows()[0]["evaluator_results"]) == len(METRICS) == 12
    assert "kept warm" not in done.stdout + done.stderr


def test_missing_material_is_an_error_with_a_plain_message(project: Project) -> None:
    strict, _ = run(project, metadata="{}")
    assert strict["error"].startswith("no retrieved passages; set `metadata.retrieval_context` of the case to a list")
    assert "Traceback" not in strict["error"]


def test_an_unusable_judge_is_an_error_with_its_calls(project: Project) -> None:
    strict, _ = run(project, "--judge-target", "strange")
    assert strict["error"].startswith("the judge gave no valid verdict after 2 attempts")
    assert strict["judge_proxy"]["call_count"] == 2


def test_judge_run_runs_a_metric_of_a_suite(project: Project) -> None:
    run(project)
    done = project.run("judge", "run", "--suite", "suite.yaml", "--case", "a", "--evaluator", "lenient")
    assert done.returncode == 0, done.stderr
    assert "1 of 1 claims are not contradicted by the passages" in done.stdout


# -- a copy to change


def test_judge_new_copies_a_metric_that_works_on_its_own(project: Project) -> None:
    run(project)
    done = project.run("judge", "new", "my-faith", "--metric", "faithfulness", "--path", "judges")
    assert done.returncode == 0, done.stderr
    assert "type: code_judge, script: [python, judges/my_faith.py], judge: {}" in done.stdout
    copy = project.root / "judges/my_faith.py"
    copy.write_text(copy.read_text().replace('good = {"supported"}', 'good = {"not_mentioned"}'))
    support = (project.root / "judges/metric_support.py").read_text()
    assert "agentv.metrics" not in copy.read_text() + support
    judged = project.run("judge", "run", "judges/my_faith.py", "--suite", "suite.yaml", "--case", "a")
    assert "judged: 1.00 pass" in judged.stdout, judged.stdout + judged.stderr


def test_judge_new_rejects_a_metric_in_another_language(project: Project) -> None:
    done = project.run("judge", "new", "x", "--metric", "bias", "--lang", "bash")
    assert done.returncode == 2
    assert "--metric writes a script in Python, got --lang bash" in done.stderr
    assert project.run("judge", "new", "metric_support", "--metric", "bias").returncode == 2
