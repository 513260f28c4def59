"""The Python API."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import agentv
from agentv.errors import SuiteError, UsageError
from agentv.evaluators.base import EvaluationContext
from agentv.targets.provider import Request

CASES: list[dict[str, Any]] = [
    {"id": "france", "input": "Capital of France?", "metadata": {"continent": "Europe"}},
    {"id": "spain", "input": "Capital of Spain?", "reference_answer": "Madrid"},
]


@pytest.fixture(autouse=True)
def in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def paris(question: str) -> str:
    return "Paris" if "France" in question else "I do not know"


def test_function_target_returns_typed_results() -> None:
    run = agentv.evaluate(cases=CASES, evaluators=[{"type": "contains", "value": "Paris"}], target=paris)
    assert [result.eval_id for result in run] == ["france", "spain"]
    assert [result.verdict for result in run] == [agentv.Verdict.PASS, agentv.Verdict.FAIL]
    assert run.results[0].metadata == {"continent": "Europe"}
    assert run.results[0].target == "paris"
    assert (run.passed, run.exit_code, run.summary.passed) == (False, 1, 1)
    assert (run.run_dir / "results.jsonl").read_text().count("\n") == 2


def test_labels_of_the_run_are_recorded() -> None:
    evaluators = [{"type": "contains", "value": "Paris"}]
    run = agentv.evaluate(
        cases=CASES, evaluators=evaluators, target=paris, run_name="first", experiment="prompts", note="a note"
    )
    recorded = json.loads((run.run_dir / "run.json").read_text())
    assert [recorded[key] for key in ("name", "experiment", "note")] == ["first", "prompts", "a note"]
    with pytest.raises(UsageError, match="`name` must not begin with `latest`"):
        agentv.evaluate(cases=CASES, evaluators=evaluators, target=paris, run_name="latest~1")


def test_coroutine_target_with_request_and_structured_answer() -> None:
    async def answer(request: Request) -> dict[str, object]:
        return {"text": f"{request.eval_id}: {request.question}", "cost_usd": 0.25}

    run = agentv.evaluate(cases=CASES, evaluators=[{"type": "contains", "value": "Capital"}], target=answer)
    assert run.results[0].candidate_answer == "france: Capital of France?"
    assert run.summary.cost_usd == 0.5
    assert run.passed


def test_function_targets_run_concurrently() -> None:
    both = threading.Barrier(2, timeout=20)

    def meets(_: str) -> str:
        both.wait()
        return "x"

    assert agentv.evaluate(cases=CASES, evaluators=[{"type": "equals", "value": "x"}], target=meets).passed


def test_functions_can_be_evaluators() -> None:
    def short(answer: str) -> bool:
        return len(answer) < 20

    def exact(context: EvaluationContext) -> agentv.Score:
        return agentv.Score(float(context.candidate.answer == (context.case.reference_answer or "Paris")))

    run = agentv.evaluate(cases=CASES, evaluators=[short, exact], target=paris)
    assert [[r.score for r in result.evaluator_results] for result in run] == [[1.0, 1.0], [1.0, 0.0]]


def test_invalid_evaluator_result_is_an_error() -> None:
    run = agentv.evaluate(cases=CASES[:1], evaluators=[lambda answer: "good"], target=paris)
    assert run.exit_code == 3
    assert "Return a number" in (run.results[0].evaluator_results[0].error or "")


def test_raising_evaluator_is_shown_by_its_exception_and_place() -> None:
    def short(answer: str) -> bool:
        raise KeyError(answer)

    run = agentv.evaluate(cases=CASES[:1], evaluators=[short], target=paris)
    line = short.__code__.co_firstlineno + 1
    cause = f"KeyError: 'Paris' at test_api.py:{line} (the function 'short' failed)"
    assert run.results[0].evaluator_results[0].error == cause


def test_raising_target_is_an_error_row() -> None:
    def broken(_: str) -> str:
        raise ValueError("no model today")

    run = agentv.evaluate(cases=CASES, evaluators=[{"type": "contains", "value": "x"}], target=broken)
    assert run.exit_code == 3
    cause = f"ValueError: no model today at test_api.py:{broken.__code__.co_firstlineno + 1}"
    assert all(result.error and cause in result.error.message for result in run)


def test_suite_file_runs_against_a_function(tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text(
        "evalcases: [{id: a, input: France?, evaluators: [{type: equals, value: Paris}]}]\n"
    )
    run = agentv.evaluate("suite.yaml", target=paris, repeat=3)
    assert [result.attempt for result in run] == [1, 2, 3]
    assert run.passed


def test_cases_as_first_argument_are_refused_with_the_right_keyword() -> None:
    with pytest.raises(UsageError, match=r"must be paths of suites, got a mapping") as caught:
        agentv.evaluate([{"id": "a", "input": "b"}])  # type: ignore[list-item]
    assert "evaluate(cases=[...])" in (caught.value.next_step or "")


def test_trials_of_cases_give_one_verdict_per_case() -> None:
    answers = iter(["Paris", "Lyon", "Paris"])
    arguments: dict[str, Any] = {"cases": CASES[:1], "evaluators": [{"type": "contains", "value": "Paris"}]}
    run = agentv.evaluate(**arguments, target=lambda _: next(answers), trials={"count": 3, "pass_if": "all"}, workers=1)
    assert (len(run), run.summary.total, run.summary.failed, run.summary.flaky, run.exit_code) == (3, 1, 1, 1, 1)
    with pytest.raises(SuiteError, match=r"trials\.pass_if: `pass_if` must be"):
        agentv.evaluate(**arguments, target=paris, trials={"pass_if": "most"})
    with pytest.raises(UsageError, match="`trials` can only be used with `cases`"):
        agentv.evaluate("suite.yaml", target=paris, trials={"count": 2})


def test_configured_target_is_selected_by_name(tmp_path: Path) -> None:
    (tmp_path / "agentv.config.yaml").write_text(
        "targets: {a: {provider: mock, response: A}, b: {provider: mock, response: B}}\n"
    )
    run = agentv.evaluate(cases=CASES, evaluators=[{"type": "equals", "value": "B"}], target=["a", "b"])
    assert {(r.target, r.verdict.value) for r in run} == {("a", "fail"), ("b", "pass")}


def polite(answer: str) -> bool:
    return "please" in answer


SHARED: list[Any] = [[polite], [{"name": "polite", "type": "contains", "value": "please"}]]
OWN = {"type": "contains", "value": "Paris"}


def _names(run: agentv.EvaluationRun) -> list[set[str]]:
    return [{result.name for result in row.evaluator_results} for row in run]


@pytest.mark.parametrize("shared", SHARED, ids=["function", "mapping"])
@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ({}, {"polite"}),
        ({"evaluators": [OWN]}, {"polite", "contains"}),
        ({"evaluators": []}, {"polite"}),
        ({"evaluators+": [OWN]}, {"polite", "contains"}),
        ({"evaluators": [OWN], "evaluators+": [{**OWN, "name": "second"}]}, {"polite", "contains", "second"}),
        ({"execution": {"evaluators": [OWN]}}, {"polite", "contains"}),
        ({"evaluator": "is_json"}, {"polite", "is_json"}),
    ],
    ids=lambda value: None if isinstance(value, set) else repr(value),
)
def test_evaluators_apply_to_inline_cases_with_their_own_list(shared: Any, case: Any, expected: set[str]) -> None:
    run = agentv.evaluate(cases=[{"id": "a", "input": "France?", **case}], evaluators=shared, target=paris)
    assert _names(run) == [expected]
    assert run.exit_code == 1


@pytest.mark.parametrize(
    ("head", "case", "expected"),
    [
        ("", "evaluators: [{type: contains, value: Paris}]", {"polite", "contains"}),
        (
            "execution: {evaluators: [{type: is_json}]}",
            "evaluators: [{type: contains, value: Paris}]",
            {"polite", "contains"},
        ),
        ("execution: {evaluators: [{type: is_json}]}", "metadata: {}", {"polite", "is_json"}),
        (
            "execution: {evaluators: [{type: is_json}]}",
            "evaluators+: [{type: contains, value: Paris}]",
            {"polite", "is_json", "contains"},
        ),
        ("evaluator: is_json", "metadata: {}", {"polite", "is_json"}),
        ("", "evaluator: is_json", {"polite", "is_json"}),
        ("", "metadata: {}", {"polite"}),
    ],
)
def test_evaluators_apply_to_every_case_of_a_suite(head: str, case: str, expected: set[str], tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text(f"{head}\nevalcases:\n  - {{id: a, input: 'France?', {case}}}\n")
    run = agentv.evaluate("suite.yaml", evaluators=[polite], target=paris)
    assert _names(run) == [expected]
    assert not run.passed


def test_evaluators_apply_to_suites_of_json_lines(tmp_path: Path) -> None:
    (tmp_path / "suite.jsonl").write_text(
        '{"id": "a", "input": "France?", "evaluators": [{"type": "contains", "value": "Paris"}]}\n'
    )
    run = agentv.evaluate("suite.jsonl", evaluators=[polite], target=paris)
    assert _names(run) == [{"polite", "contains"}]


def test_evaluator_with_the_name_of_another_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text(
        "evalcases:\n  - {id: a, input: 'France?', evaluators: [{name: polite, type: is_json}]}\n"
    )
    with pytest.raises(
        SuiteError, match=r"suite\.yaml:2:\d+: the case has two evaluators named 'polite': rename this one"
    ):
        agentv.evaluate("suite.yaml", evaluators=[polite], target=paris)
    with pytest.raises(UsageError, match="`evaluators` has 2 evaluators named '<lambda>'"):
        agentv.evaluate(cases=CASES, evaluators=[lambda answer: 1, lambda answer: 0], target=paris)


@pytest.mark.parametrize(
    ("case", "evaluators", "message"),
    [
        ({"inptu": "x"}, [polite], "cases[1].inptu: unknown key `inptu` (did you mean `input`?)"),
        (
            {"input": "x", "evaluators": [{"type": "containz"}]},
            [polite],
            "cases[1].evaluators[0].type: unknown evaluator",
        ),
        ({"input": "x", "evaluators": [{"type": "containz"}]}, [OWN], "cases[1].evaluators[0].type: unknown evaluator"),
        ({"input": "x"}, [{"type": "containz"}], "evaluators[0].type: unknown evaluator type 'containz'"),
        ({"input": "x"}, [OWN, {"name": "b", "type": "regex", "pattern": "("}], "evaluators[1].pattern: "),
        ({"input": "x", "id": "first"}, [OWN], "cases[1].id: duplicate id 'first' (first at cases[0])"),
        ({"input": "x", "evaluators": [OWN]}, [OWN], "cases[1].evaluators[0].name: the case has two evaluators"),
    ],
)
def test_problem_in_an_inline_case_names_the_argument(case: Any, evaluators: Any, message: str) -> None:
    with pytest.raises(SuiteError) as caught:
        agentv.evaluate(cases=[{"id": "first", "input": "x"}, {"id": "a", **case}], evaluators=evaluators, target=paris)
    assert message in str(caught.value)
    assert ".agentv" not in str(caught.value)


def test_suites_and_cases_cannot_be_combined() -> None:
    with pytest.raises(UsageError):
        agentv.evaluate("suite.yaml", cases=CASES, target=paris)
    with pytest.raises(UsageError):
        agentv.evaluate(target=paris)


async def test_evaluate_inside_an_event_loop_suggests_evaluate_async() -> None:
    with pytest.raises(UsageError, match="evaluate_async"):
        agentv.evaluate(cases=CASES, target=paris)
    run = await agentv.evaluate_async(cases=CASES, evaluators=[{"type": "contains", "value": "a"}], target=paris)
    assert len(run) == 2


async def test_cancelling_keeps_finished_rows(tmp_path: Path) -> None:
    one_done = asyncio.Event()

    async def answer(question: str) -> str:
        if "Spain" in question:
            await asyncio.Event().wait()
        return "x"

    task = asyncio.create_task(
        agentv.evaluate_async(
            cases=CASES,
            evaluators=[lambda answer: 1],
            target=answer,
            run_dir=tmp_path / "run",
            on_result=lambda _: one_done.set(),
        )
    )
    await asyncio.wait_for(one_done.wait(), 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (tmp_path / "run" / "results.jsonl").read_text().count("\n") == 1


def test_on_result_receives_rows_as_they_are_recorded() -> None:
    seen: list[str] = []
    agentv.evaluate(
        cases=CASES,
        evaluators=[lambda answer: 1.0],
        target=paris,
        on_result=lambda row: seen.append(row.eval_id),
    )
    assert sorted(seen) == ["france", "spain"]


def test_suite_edited_during_a_run_is_reported_and_rows_are_kept(tmp_path: Path) -> None:
    suite = tmp_path / "suite.yaml"
    cases = "".join(f"  - {{id: c{n}, input: q, evaluators: [{{type: equals, value: x}}]}}\n" for n in range(300))
    suite.write_text("evalcases:\n" + cases)

    def edits(_: str) -> str:
        suite.write_text("evalcases:\n" + cases.replace("value: x", "value: y"))
        return "x"

    with pytest.raises(SuiteError, match="changed") as caught:
        agentv.evaluate(suite, target=edits, workers=1, run_dir=tmp_path / "run")
    assert caught.value.exit_code == 3
    assert (tmp_path / "run" / "results.jsonl").exists()


@pytest.mark.parametrize("cases", [["text"], {"id": "a", "input": "Q"}])
def test_cases_must_be_mappings(cases: Any) -> None:
    with pytest.raises(UsageError, match="`cases` must be a list of mappings"):
        agentv.evaluate(cases=cases, target=paris)


def test_results_are_ordered_by_suite(tmp_path: Path) -> None:
    for name in ("first", "second"):
        cases = "".join(f"- {{id: {case_id}, input: Q}}\n" for case_id in ("b", "a"))
        (tmp_path / f"{name}.yaml").write_text(
            f"execution: {{evaluators: [{{type: contains, value: Paris}}]}}\nevalcases:\n{cases}"
        )
    run = agentv.evaluate([tmp_path / "first.yaml", tmp_path / "second.yaml"], target=paris)
    assert [(row.suite, row.eval_id) for row in run] == [
        *(("first", "b"), ("first", "a")),
        *(("second", "b"), ("second", "a")),
    ]


def test_cost_of_a_function_target_counts_against_max_cost() -> None:
    asked: list[str] = []

    def dear(question: str) -> dict[str, Any]:
        asked.append(question)
        return {"text": "Paris", "cost_usd": 1.0}

    cases = [{"id": str(n), "input": "Where?"} for n in range(10)]
    run = agentv.evaluate(
        cases=cases, evaluators=[{"type": "contains", "value": "Paris"}], target=dear, max_cost=3.0, workers=4
    )
    assert (len(asked), len(run), run.summary.not_run, run.exit_code) == (3, 3, 7, 3)


def upper(question: str) -> str:
    return question.upper()


def test_several_functions_answer_the_same_cases() -> None:
    run = agentv.evaluate(cases=CASES[:1], evaluators=[{"type": "contains", "value": "Paris"}], target=[paris, upper])
    assert {row.target: row.verdict.value for row in run} == {"paris": "pass", "upper": "fail"}


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ([lambda text: text, lambda text: text], "`target` has 2 functions named '<lambda>'."),
        ([paris, "scripted"], "`target` must be functions or names of targets, got a list of both."),
    ],
)
def test_list_of_targets_with_equal_or_mixed_names_is_an_error(target: Any, message: str) -> None:
    with pytest.raises(agentv.AgentVError) as caught:
        agentv.evaluate(cases=CASES[:1], target=target)
    assert caught.value.message == message


def test_run_is_shown_in_one_line() -> None:
    run = agentv.evaluate(cases=CASES[:1], evaluators=[{"type": "contains", "value": "Paris"}], target=[paris, upper])
    assert repr(run) == f"<EvaluationRun: 1 passed, 1 failed, mean score 0.50; .agentv/runs/{run.run_id}>"


def test_results_of_cases_and_evaluators_are_shown_in_one_line() -> None:
    evaluators: list[Any] = [{"type": "contains", "value": "Paris"}]
    run = agentv.evaluate(cases=CASES[:1], evaluators=evaluators, target=[paris, upper])
    shown = {repr(result) for result in run}
    assert shown == {
        "<CaseResult 'france' (paris): pass, score 1.00>",
        "<CaseResult 'france' (upper): fail, score 0.00>",
    }
    assert repr(run.results[0].evaluator_results[0]).startswith("<EvaluatorResult 'contains': ")


def test_errors_are_shown_in_one_line() -> None:
    def broken(question: str) -> str:
        raise ValueError("no\nanswer")

    (result,) = agentv.evaluate(cases=CASES[:1], evaluators=[{"type": "contains", "value": "Paris"}], target=broken)
    assert repr(result).startswith("<CaseResult 'france' (broken): error, ")
    assert "\n" not in repr(result)


def test_results_as_mappings_and_as_data_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    run = agentv.evaluate(cases=CASES[:1], evaluators=[{"type": "contains", "value": "Paris"}], target=[paris, upper])
    assert [(row["target"], row["score"]) for row in run.to_dicts()] == [("paris", 1.0), ("upper", 0.0)]
    frame = run.to_pandas()
    assert list(frame["score: contains"]) == [1.0, 0.0]
    assert list(frame["question"]) == ["Capital of France?"] * 2
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(agentv.AgentVError, match="pip install pandas"):
        run.to_pandas()
