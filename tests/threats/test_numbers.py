"""No number that a target, a recorded file or a server reports can fail a run or its report."""

from __future__ import annotations

import json
from typing import Any

import pytest

import agentv
from agentv.amounts import MOST_MS, MOST_TOKENS, MOST_USD
from agentv.errors import ProviderError
from agentv.messages import Message, TokenUsage
from agentv.report.summary import SummaryBuilder
from agentv.results import CaseResult, EvaluatorResult, Verdict, spend_of
from agentv.targets.provider import Reply
from tests.conftest import Project

CASES = "evalcases: [{id: a, input: x}, {id: b, input: y}]\nexecution: {evaluators: [{type: contains, value: ok}]}\n"
HUGE = '{"text": "ok", "cost_usd": 1.7e308, "duration_ms": 1e13, "token_usage": {"input": 1%s, "output": 1}}' % (
    "0" * 30
)


def cli_target(project: Project, answer: str) -> None:
    project.write("answer.json", answer)
    project.write("agentv.config.yaml", "targets: {t: {provider: cli, command: [cat, answer.json]}}\n")
    project.write("suite.yaml", CASES)


def test_run_with_huge_reported_amounts_finishes(project: Project) -> None:
    cli_target(project, HUGE)
    done = project.run("eval", "suite.yaml", "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["passed"] == 2
    assert summary["cost_usd"] is None
    assert not summary["cost_complete"]
    assert project.manifest()["status"] == "finished"
    for row in project.rows():
        assert row["cost_usd"] is row["token_usage"] is row["trace_summary"]["cost_usd"] is None
        assert row["duration_ms"] < 1e6
        assert len(row["warnings"]) == 3
        assert "`cost_usd` must be a number from 0 to 1,000,000,000, got 1.7e+308" in row["warnings"][0]


@pytest.mark.parametrize("shape", ["markdown", "junit", "github"])
def test_recorded_run_with_huge_amounts_is_reported_and_resumed(project: Project, shape: str) -> None:
    cli_target(project, '{"text": "ok", "cost_usd": 0.5}')
    assert project.run("eval", "suite.yaml").returncode == 0
    (run,) = project.run_dirs()
    ledger = {"target": "j", "call_count": 2, "cost_usd": 1.7e308, "token_usage": {"input": 2**60, "output": 0}}
    rows = project.rows()
    for row in rows:
        row |= {"cost_usd": 1.7e308, "duration_ms": 1e300, "token_usage": {"input": 2**62, "output": 1, "cached": -5}}
        row["evaluator_results"][0]["judge"] = ledger
    (run / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "Traceback" not in (done := project.run("report", str(run), "--format", shape)).stderr
    assert done.returncode == 0
    resumed = project.run("eval", "--resume", str(run), "--json")
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(resumed.stdout)["cost_usd"] is None
    assert project.run("compare", str(run), str(run)).returncode == 0


def test_answers_with_huge_amounts_are_graded(project: Project) -> None:
    project.write("suite.yaml", CASES)
    lines = [{"eval_id": name, "candidate_answer": "ok", "cost_usd": 1.7e308, "duration_ms": 1e299} for name in "ab"]
    project.write("answers.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    done = project.run("eval", "suite.yaml", "--outputs", "answers.jsonl")
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(row["warnings"] for row in project.rows())


@pytest.mark.parametrize(
    ("cost", "duration", "tokens"),
    [(1.7e308, 1e13, 2**53), (-1.0, -1.0, -1), (float("nan"), float("inf"), 10**400), (True, "5", 1.5), ([], {}, "9")],
)
def test_reply_amounts_out_of_range_are_unknown(cost: Any, duration: Any, tokens: Any) -> None:
    reply = Reply((Message("assistant", "x"),), TokenUsage(tokens, 0), cost, duration)
    assert (reply.token_usage, reply.cost_usd, reply.duration_ms) == (None, None, None)
    assert len(reply.warnings) == 3
    assert all("recorded as unknown" in warning for warning in reply.warnings)
    failed = ProviderError("no", token_usage=TokenUsage(0, tokens), cost_usd=cost)
    assert (failed.token_usage, failed.cost_usd) == (None, None)


def test_reply_amounts_in_range_are_unchanged() -> None:
    usage = TokenUsage(0, MOST_TOKENS, 0)
    reply = Reply((), usage, MOST_USD, MOST_MS)
    assert (reply.token_usage, reply.cost_usd, reply.duration_ms, reply.warnings) == (usage, MOST_USD, MOST_MS, ())


def test_spend_of_a_ledger_out_of_range_is_not_counted() -> None:
    judged = EvaluatorResult("e", "t", 1.0, 1.0, Verdict.PASS, judge={"call_count": 3, "cost_usd": 1e300})
    row = CaseResult("r", "e", "s", "t", 1, 1.0, Verdict.PASS, evaluator_results=(judged,), cost_usd=2.0)
    assert spend_of(row) == (2.0, 3)


def test_run_finishes_if_its_summary_cannot_be_computed(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OverflowError("(34, 'Numerical result out of range')")

    monkeypatch.chdir(project.root)
    monkeypatch.setattr(SummaryBuilder, "_complete", broken)
    monkeypatch.setattr(SummaryBuilder, "_add_details", broken)
    cases = [{"id": "a", "input": "x", "expected_outcome": "y"}, {"id": "b", "input": "z"}]
    results = agentv.evaluate(cases=cases, target=lambda _: "ok", evaluators=[{"type": "contains", "value": "ok"}])
    assert results.summary.passed == 2
    assert results.summary.exit_code == 0
    assert project.manifest()["status"] == "finished"
    assert len(project.rows()) == 2
    assert project.manifest()["summary"]["not_computed"] == [
        "details of a case (OverflowError)",
        "all but the counts (OverflowError)",
    ]
