"""Build result rows for tests."""

from __future__ import annotations

from typing import Any

from agentv.messages import TokenUsage
from agentv.results import CaseError, CaseResult, EvaluatorResult, verdict_for


def result(name: str = "accuracy", score: float = 1.0, **fields: Any) -> EvaluatorResult:
    fields = {"type": "llm_judge", "weight": 1.0, "verdict": verdict_for(score), **fields}
    return EvaluatorResult(name=name, score=score, **fields)


def row(eval_id: str = "capital-of-france", score: float = 1.0, **fields: Any) -> CaseResult:
    """A scored row; `misses` belong to its only evaluator unless `evaluator_results` are given."""
    fields.setdefault("evaluator_results", (result(score=score, misses=fields.get("misses", ())),))
    fields = {"run_id": "r1", "suite": "geography", "target": "assistant", "attempt": 1, **fields}
    return CaseResult(eval_id=eval_id, score=score, verdict=verdict_for(score), **fields)


def error_row(eval_id: str, message: str, stage: str = "target", **fields: Any) -> CaseResult:
    fields.setdefault("evaluator_results", ())
    return row(eval_id, 0.0, error=CaseError(stage, message), **fields)


def ledger(calls: int, cost_usd: float | None = None, tokens: tuple[int, int] | None = None) -> dict[str, Any]:
    usage = TokenUsage(*tokens).to_dict() if tokens else None
    return {
        "target": "strict",
        "call_count": calls,
        "max_calls": 50,
        "token_usage": usage,
        "cost_usd": cost_usd,
    }
