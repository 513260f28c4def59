"""Metrics of other libraries: `type: metric` and `agentv judge new --from`, with a fake DeepEval in real scripts.

The real libraries are in tests/live.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from agentv.metrics.libraries import LIBRARIES, adapter_of, file_name
from agentv_eval import CodeJudgeInput
from agentv_eval.library_metrics import gathered, measured, named
from agentv_eval.material import MetricError, answer_of, reference_of
from tests.conftest import Project

FAKES = Path(__file__).parent / "fakes"
CONFIG = """\
targets:
  assistant: {provider: mock, response: You have 30 days.}
  judge:
    provider: mock
    rules:
      - {match: "OldBias", response: "0.25"}
      - {match: "AnswerRelevancy", response: "NaN"}
      - {match: "ContextualRecall.*within 30 days", response: "0.75"}
  broken: {provider: mock, status: 500, max_retries: 0}
defaults: {target: assistant, judge_target: judge}
"""
CASE = """\
evalcases:
  - id: return-a-book
    input: How long can I return a book?
    reference_answer: 30 days.
    metadata: {retrieval_context: [A book can be returned within 30 days.], chatbot_role: a bookseller}
    evaluators:
"""


@pytest.fixture
def books(project: Project) -> Project:
    project.write("agentv.config.yaml", CONFIG)
    return project


def suite(project: Project, *evaluators: str) -> None:
    env = f"env: {{PYTHONPATH: {FAKES}}}"
    lines = (f"      - {{type: metric, {each if 'env:' in each else f'{each}, {env}'}}}\n" for each in evaluators)
    project.write("suite.yaml", CASE + "".join(lines))


def results(project: Project, *evaluators: str) -> dict[str, dict[str, Any]]:
    suite(project, *evaluators)
    done = project.run("eval", "suite.yaml")
    assert project.run_dirs(), done.stderr
    return {result["name"]: result for result in project.rows()[0]["evaluator_results"]}


def test_metrics_of_a_library_are_measured_through_the_judge_proxy(books: Project) -> None:
    found = results(
        books,
        "metric: deepeval:ContextualRecallMetric, threshold: 0.8, parameters: {model: gpt-9}",
        "metric: deepeval:old_bias, name: bias",
        "metric: deepeval:GEval, parameters: {criteria: Is it short?, evaluation_params: [actual_output]}",
        "metric: DeepEval:TurnsMetric, name: turns, judge: false",
        "metric: llamaindex:correctness, name: without embeddings",
        "metric: deepeval:EnvironmentMetric, name: telemetry",
        f"metric: deepeval:EnvironmentMetric, name: own, env: {{PYTHONPATH: {FAKES}, DEEPEVAL_TELEMETRY_OPT_OUT: '0'}}",
    )
    recall = found["deepeval:ContextualRecallMetric"]
    assert (recall["score"], recall["verdict"]) == (0.75, "borderline")
    assert recall["judge_proxy"]["models"] == {"gpt-9": {"judge": 1}}
    assert recall["details"] == {"library": "deepeval", "metric": "ContextualRecallMetric", "library_score": 0.75}
    assert found["bias"]["score"] == 0.75
    assert found["bias"]["details"]["score"] == "1 - library_score"
    assert found["deepeval:GEval"]["reasoning"] == (
        "GEval: Is it short? [<SingleTurnParams.ACTUAL_OUTPUT: 'actual_output'>]"
    )
    assert found["turns"]["reasoning"] == "user: How long can I return a book? / assistant: You have 30 days."
    assert "judge_proxy" not in found["turns"]
    correctness = found["without embeddings"]
    assert (correctness["error"], correctness["score"]) == (None, 0.75)
    assert correctness["reasoning"] == "How long can I return a book? You have 30 days. 30 days."
    assert (found["telemetry"]["reasoning"], found["own"]["reasoning"]) == ("1", "0")


def test_what_cannot_be_measured_is_an_error_that_says_what_to_do(books: Project) -> None:
    found = results(
        books,
        "metric: deepeval:ContextualRecallMetric, name: passages, context: metadata.documents",
        "metric: deepeval:AnswerRelevancyMetric, name: nan",
        "metric: deepeval:AnswerRelevancyMetric, name: broken, judge: {target: broken}",
        "metric: deepeval:answer_relevance, name: typo",
        "metric: deepeval:GEval, name: missing",
        "metric: deepeval:GEval, name: unknown, parameters: {criterium: x}",
        "metric: deepeval:GEval, name: params, parameters: {criteria: x, evaluation_params: [answer]}",
        "metric: ragas:Faithfulness, name: library, env: {}",
    )
    errors = {name: result.get("error", "") for name, result in found.items()}
    assert errors["passages"].startswith("no retrieved passages at `metadata.documents`; set it in the case")
    assert errors["nan"].startswith("AnswerRelevancyMetric of deepeval returned no score, but nan")
    assert errors["broken"].startswith("the judge failed with status 502: ")
    assert errors["typo"].startswith(
        "DeepEval has no metric 'answer_relevance' (did you mean `AnswerRelevancyMetric`?); available: "
    )
    assert errors["missing"] == "GEval needs the parameter `criteria`; set it in `parameters` of the evaluator"
    assert errors["unknown"].startswith("GEval has no parameter `criterium` (did you mean `criteria`?); parameters: ")
    assert errors["params"].startswith(
        "`evaluation_params` of GEval has no 'answer'; available: input, actual_output, "
    )
    assert "No module named 'ragas'.\n" in errors["library"]
    assert 'Add `python: [ragas, "langchain-community<0.4"]` to the evaluator' in errors["library"]
    calls = {name: result["judge_proxy"]["call_count"] for name, result in found.items()}
    assert calls == {
        "passages": 0,
        "nan": 1,
        "broken": 1,
        "typo": 0,
        "missing": 0,
        "unknown": 0,
        "params": 0,
        "library": 0,
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("metric: deepval:GEval", "unknown library 'deepval' (did you mean `deepeval`?); write `LIBRARY:METRIC` "),
        ("metric: 'deepeval:'", "'deepeval:' has no metric"),
        ("metric: deepeval:GEval, max_claims: 3", "`max_claims` is not an option of `deepeval:GEval`"),
        ("metric: deepeval:GEval, script: [x]", "`script` cannot be set: to change the script of a metric"),
        ("name: faithfulness, parameters: {a: 1}", "`parameters` cannot be set"),
        ("name: faithfulness, env: {A: b}", "`env` cannot be set"),
    ],
)
def test_wrong_options_are_errors_of_the_suite(books: Project, options: str, message: str) -> None:
    books.write("suite.yaml", f"{CASE}      - {{type: metric, {options}}}\n")
    done = books.run("validate", "suite.yaml")
    assert done.returncode == 2
    assert message in done.stdout + done.stderr


def test_judge_new_writes_a_script_with_the_metric(books: Project) -> None:
    done = books.run("judge", "new", "ContextualRecallMetric", "--from", "deepeval")
    assert done.stdout.startswith("wrote contextual_recall_metric.py\n")
    for option in ("python: [deepeval]", "judge: {max_calls: ", "warm: true", 'DEEPEVAL_TELEMETRY_OPT_OUT: "1"'):
        assert option in done.stdout
    script = books.root / "contextual_recall_metric.py"
    assert script.read_text().startswith(
        '"""Scores the case with `ContextualRecallMetric` of DeepEval.\n\n`METRIC` and'
    )
    assert 'METRIC = "ContextualRecallMetric"' in script.read_text()
    assert "def contextual_recall_metric(case" in script.read_text()
    books.write(
        "suite.yaml",
        f"{CASE}      - {{name: mine, type: code_judge, script: [python, {script.name}], judge: {{}}, "
        f"env: {{PYTHONPATH: {FAKES}}}}}\n",
    )
    books.run("eval", "suite.yaml")
    (result,) = books.rows()[0]["evaluator_results"]
    assert (result["score"], result.get("error")) == (0.75, None)
    wrong = books.run("judge", "new", "x", "--from", "ragas", "--metric", "bias")
    assert (wrong.returncode, "--metric and --from cannot be combined" in wrong.stderr) == (2, True)


@pytest.mark.parametrize("library", LIBRARIES)
def test_adapters_import_only_the_sdk_and_can_be_copied(library: str) -> None:
    """A module in their directory must not hide one that the library imports."""
    source = adapter_of(library).read_text()
    assert ast.get_docstring(ast.parse(source.partition("\n")[0])) is not None  # one line, which is replaced
    assert source.count('\nMETRIC = ""\n') == 1
    assert source.count("\ndef judge(case") == 1
    tree = ast.parse(source)
    modules = {node.module.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    modules |= {
        alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    }
    assert "agentv_eval" in modules
    assert "agentv" not in modules
    assert not modules & {path.stem for path in adapter_of(library).parent.glob("*.py")}


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        ("ContextualPrecisionMetric", "contextual_precision_metric"),
        ("ClosedQA", "closed_qa"),
        ("GEval", "g_eval"),
        ("SQLSemanticEquivalence", "sql_semantic_equivalence"),
        ("CORRECTNESS_PROMPT", "correctness_prompt"),
    ],
)
def test_files_are_named_after_their_metric(metric: str, name: str) -> None:
    assert file_name(metric) == name


def test_names_can_be_written_without_their_suffix() -> None:
    names = ["CORRECTNESS_PROMPT", "FaithfulnessMetric", "Faithfulness", "FAITHFULNESS"]
    assert named("correctness", names, "x") == "CORRECTNESS_PROMPT"
    assert named("Faithfulness", names, "x") == "Faithfulness"
    assert named("faithfulness_metric", names, "x") == "FaithfulnessMetric"
    with pytest.raises(MetricError, match="x has no metric 'faithfulness'"):
        named("faithfulness", names, "x")  # two have this name


def test_an_empty_answer_is_an_error_unless_it_is_compared_with_the_expected_one() -> None:
    fields = {"output": answer_of, "expected": reference_of}
    case = CodeJudgeInput({"candidate_answer": "", "reference_answer": "30 days"})
    assert gathered(case, fields, ["output", "expected"]) == {"output": "", "expected": "30 days"}
    with pytest.raises(MetricError, match="the answer is empty"):
        gathered(case, fields, ["output"], ["expected"])


@pytest.mark.parametrize(
    ("value", "options", "score", "formula"),
    [
        (True, {}, 1.0, None),
        (4, {"scale": (1, 5)}, 0.75, "(library_score - 1) / 4"),
        (0.2, {"lower_is_better": True}, 0.8, "1 - library_score"),
        (-0.3, {"is_cosine": True}, 0.0, "max(library_score, 0)"),
        (1.0000001, {}, 1.0, None),
    ],
)
def test_scores_are_converted_and_the_conversion_is_in_details(
    value: float, options: dict[str, Any], score: float, formula: str | None
) -> None:
    result = measured("x", "M", value, **options)
    assert result["score"] == pytest.approx(score)
    assert (result["details"]["library_score"], result["details"].get("score")) == (value, formula)


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), "0.5", 6])
def test_a_value_that_cannot_be_a_score_is_an_error(value: Any) -> None:
    with pytest.raises(MetricError, match="M of x returned "):
        measured("x", "M", value, scale=(1, 5))
