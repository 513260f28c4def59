"""Rows for the tests of this directory."""

from __future__ import annotations

from typing import Any

from agentv.messages import Message, TokenUsage, ToolCall
from agentv.results import CaseResult, EvaluatorResult, Verdict


def make_row(eval_id: str = "case", answer: str = "Paris", **changes: Any) -> CaseResult:
    judged = EvaluatorResult(
        "says", "contains", 1.0, 1.0, Verdict.PASS, hits=("found it",), details={"list": [1, {"a": None}]}
    )
    fields: dict[str, Any] = {
        "run_id": "run",
        "eval_id": eval_id,
        "suite": "suite",
        "target": "target",
        "attempt": 1,
        "score": 1.0,
        "verdict": Verdict.PASS,
        "candidate_answer": answer,
        "output_messages": (Message("assistant", answer, tool_calls=(ToolCall("search", {"q": 1}),)),),
        "evaluator_results": (judged,),
        "token_usage": TokenUsage(3, 4),
        "cost_usd": 0.25,
        "duration_ms": 12.5,
        "started_at": "2026-01-01T00:00:00Z",
        "metadata": {"tag": "geo"},
    }
    return CaseResult(**(fields | changes))
