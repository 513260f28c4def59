"""Rows of AgentV (npm) are read as ours, and ours are written as rows of AgentV."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentv.messages import Message, TokenUsage, ToolCall
from agentv.report.agentv_rows import AgentvRows, row_of
from agentv.report.row_source import find_rows
from agentv.results import CaseError, CaseResult, EvaluatorResult, Verdict

MEMBER = {"name": "a", "type": "contains", "score": 0, "weight": 1, "verdict": "fail"}
V4 = {
    "timestamp": "2026-06-19T05:03:18.834Z",
    "test_id": "one",
    "suite": "shop",
    "score": 0.75,
    "target": "default",
    "token_usage": {"input": 10, "output": 5},
    "cost_usd": 0.01,
    "duration_ms": 12,
    "scores": [
        {
            "name": "group",
            "type": "composite",
            "score": 0.5,
            "weight": 3,
            "verdict": "fail",
            "assertions": [{"text": "says Rome", "passed": False}, {"text": "says Paris", "passed": True}],
            "scores": [{**MEMBER, "assertions": [{"text": "says Rome", "passed": False}]}],
        },
        {"name": "s", "type": "code-grader", "score": 1, "weight": 1, "verdict": "pass", "details": {"k": 1}},
    ],
    "execution_status": "ok",
    "answer_path": "shop/one/answer.md",
    "transcript_path": "shop/one/transcript.jsonl",
    "metadata": {"level": "easy"},
}


def write_index(folder: Path, *rows: dict[str, Any]) -> Path:
    (folder / "shop" / "one").mkdir(parents=True)
    (folder / "shop" / "one" / "answer.md").write_text("Paris", encoding="utf-8")
    (folder / "shop" / "one" / "transcript.jsonl").write_text('{"test_id":"one","target":"default"}\n')
    (folder / "index.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


def test_a_directory_of_version_4_is_read_with_scores_answers_and_errors(tmp_path: Path):
    broken = {**V4, "target": "broken", "score": 0, "scores": None, "error": "exit code 3"}
    broken |= {"execution_status": "execution_error", "failure_stage": "agent"}
    write_index(tmp_path / "out", V4, broken, {**V4, "test_id": "away", "answer_path": "../../secret.txt"})
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    row, failed, away = find_rows(str(tmp_path / "out"), tmp_path).rows()
    assert (row.eval_id, row.suite, row.score, row.verdict) == ("one", "shop", 0.75, Verdict.PASS)
    assert (row.candidate_answer, row.token_usage, row.metadata) == ("Paris", TokenUsage(10, 5), {"level": "easy"})
    group, script = row.evaluator_results
    assert (group.weight, group.hits, group.misses) == (3, ("says Paris",), ("says Rome",))
    assert (group.evaluator_results[0].name, script.type, script.details) == ("a", "code_grader", {"k": 1})
    assert failed.error == CaseError("target", "exit code 3")
    assert failed.candidate_answer == ""  # the file has the answer of the other target
    assert away.candidate_answer == ""


@pytest.mark.parametrize(
    "line",
    [
        {"eval_id": "one", "dataset": "shop", "score": 0.5, "hits": ["h"], "candidate_answer": "x"},
        {"testId": "one", "suite": "shop", "score": 0.5, "scores": [{**MEMBER, "hits": ["h"]}], "output": "x"},
        {"test_id": "one", "suite": "shop", "score": 0.5, "sample_index": 0, "execution_status": "quality_failure",
         "scores": [{**MEMBER, "checks": [{"text": "h", "pass": True, "reason": "r"}]}],
         "output": [{"role": "assistant", "content": "x"}]},
    ],
    ids=["january", "camelCase", "version 5"],
)  # fmt: skip
def test_rows_of_all_versions_are_read(line: dict[str, Any], tmp_path: Path):
    row = row_of({"timestamp": "t", "target": "default", **line}, tmp_path)
    assert row is not None
    assert (row.eval_id, row.suite, row.score, row.verdict) == ("one", "shop", 0.5, Verdict.FAIL)
    assert (row.hits, row.candidate_answer, row.attempt) == (("h",), "x", 1)


def test_rows_written_for_agentv_are_read_back(tmp_path: Path):
    results = (
        EvaluatorResult("a", "tool_trajectory", 0.5, 2.0, Verdict.FAIL, hits=("h",), misses=("m",), reasoning="r"),
        EvaluatorResult("b", "composite", 1.0, 1.0, Verdict.PASS, details={"k": [1]}, duration_ms=4.0,
                        evaluator_results=(EvaluatorResult("c", "contains", 1.0, 1.0, Verdict.PASS),)),
    )  # fmt: skip
    messages = (
        Message("assistant", tool_calls=(ToolCall("search", {"q": 1}, "ok", id="1"),)),
        Message("assistant", "Paris"),
    )
    common: dict[str, Any] = {"run_id": "", "suite": "shop", "started_at": "2026-11-19T05:00:00Z", "threshold": 0.6}
    rows = [
        CaseResult(eval_id="one", target="t", attempt=1, score=2 / 3, verdict=Verdict.PASS, candidate_answer="Paris",
                   output_messages=messages, hits=("h",), misses=("m",), reasoning="all", evaluator_results=results,
                   token_usage=TokenUsage(3, 4, 5), cost_usd=0.5, duration_ms=7.0, metadata={"x": {"y": 1}},
                   conversation_id="k", **common),
        CaseResult(eval_id="two", target="t", attempt=1, score=0.0, verdict=Verdict.FAIL,
                   error=CaseError("target", "down"), **common),
        CaseResult(eval_id="three", target="t", attempt=1, score=0.3, verdict=Verdict.FAIL, candidate_answer="no",
                   model="m-1", **common),
    ]  # fmt: skip
    writer = AgentvRows()
    (tmp_path / "index.jsonl").write_text("".join(writer.lines(iter(rows))), encoding="utf-8")
    back = list(find_rows(str(tmp_path / "index.jsonl"), tmp_path).rows())
    assert back[:2] == rows[:2]
    assert list(writer.left_out) == ["names of models"]
