"""What evaluating produces: scores, verdicts, evaluator results and rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from agentv.messages import Message, TokenUsage

DEFAULT_THRESHOLD = 0.8
BORDERLINE = 0.6


class Verdict(StrEnum):
    """What a score means against its threshold."""

    PASS = "pass"  # noqa: S105 - a verdict, not a password
    BORDERLINE = "borderline"
    FAIL = "fail"


def verdict_for(score: float, threshold: float = DEFAULT_THRESHOLD) -> Verdict:
    """At or over the threshold passes; else 0.6 and over is borderline; else it fails."""
    if score >= threshold:
        return Verdict.PASS
    return Verdict.BORDERLINE if score >= BORDERLINE else Verdict.FAIL


@dataclass(frozen=True, slots=True)
class Score:
    """What an evaluator returns. Making one checks it: a score is a finite number in [0, 1]."""

    score: float
    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    reasoning: str = ""
    details: Mapping[str, Any] | None = None
    warnings: tuple[str, ...] = ()
    evaluator_results: tuple[EvaluatorResult, ...] = ()
    judge_proxy: Mapping[str, Any] | None = None
    judge: Mapping[str, Any] | None = None
    """What the evaluator itself asked of a judge: target, calls, tokens, cost."""

    def __post_init__(self) -> None:
        if isinstance(self.score, bool) or not isinstance(self.score, int | float):
            raise TypeError(f"a score is a number, not {self.score!r}")
        if not math.isfinite(self.score) or not 0.0 <= self.score <= 1.0:
            raise ValueError(f"a score is a finite number from 0 to 1, not {self.score!r}")


@dataclass(frozen=True, slots=True)
class EvaluatorResult:
    """One evaluator's word on one answer. With `error` set it could not judge: score 0, verdict fail."""

    name: str
    type: str
    score: float
    weight: float
    verdict: Verdict
    required: bool = False
    error: str | None = None
    warnings: tuple[str, ...] = ()
    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    reasoning: str = ""
    details: Mapping[str, Any] | None = None
    duration_ms: float = 0.0
    judge_proxy: Mapping[str, Any] | None = None
    judge: Mapping[str, Any] | None = None
    """What the evaluator itself asked of a judge; `judge_proxy` is what a script asked."""
    evaluator_results: tuple[EvaluatorResult, ...] = ()

    @property
    def failed_required(self) -> bool:
        return self.required and self.verdict is not Verdict.PASS

    def to_dict(self) -> dict[str, Any]:
        data: dict[str, Any] = {
            "name": self.name,
            "type": self.type,
            "score": self.score,
            "weight": self.weight,
            "required": self.required,
            "verdict": self.verdict.value,
            "error": self.error,
            "warnings": list(self.warnings),
            "hits": list(self.hits),
            "misses": list(self.misses),
            "reasoning": self.reasoning,
            "details": None if self.details is None else dict(self.details),
            "duration_ms": self.duration_ms,
        }
        if self.judge_proxy is not None:
            data["judge_proxy"] = dict(self.judge_proxy)
        if self.judge is not None:
            data["judge"] = dict(self.judge)
        if self.evaluator_results:
            data["evaluator_results"] = [member.to_dict() for member in self.evaluator_results]
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> EvaluatorResult:
        return cls(
            name=data["name"],
            type=data["type"],
            score=data["score"],
            weight=data["weight"],
            required=data.get("required", False),
            verdict=Verdict(data["verdict"]),
            error=data.get("error"),
            warnings=tuple(data.get("warnings") or ()),
            hits=tuple(data.get("hits") or ()),
            misses=tuple(data.get("misses") or ()),
            reasoning=data.get("reasoning") or "",
            details=data.get("details"),
            duration_ms=data.get("duration_ms") or 0.0,
            judge_proxy=data.get("judge_proxy"),
            judge=data.get("judge"),
            evaluator_results=tuple(cls.from_dict(m) for m in data.get("evaluator_results") or ()),
        )


@dataclass(frozen=True, slots=True)
class CaseError:
    """Why a case has no honest score: the stage that failed (`target`, `evaluator`, `run`) and what to do."""

    stage: str
    message: str

    def to_dict(self) -> dict[str, str]:
        return {"stage": self.stage, "message": self.message}


class RowKey(NamedTuple):
    """What makes a row unique within a run."""

    suite: str
    eval_id: str
    target: str
    attempt: int


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One row: one eval case, sent to one target, once."""

    run_id: str
    eval_id: str
    suite: str
    target: str
    attempt: int
    score: float
    verdict: Verdict
    error: CaseError | None = None
    candidate_answer: str = ""
    output_messages: tuple[Message, ...] = ()
    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    reasoning: str = ""
    evaluator_results: tuple[EvaluatorResult, ...] = ()
    trace_summary: Mapping[str, Any] | None = None
    token_usage: TokenUsage | None = None
    cost_usd: float | None = None
    duration_ms: float | None = None
    started_at: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    conversation_id: str | None = None

    @property
    def key(self) -> RowKey:
        return RowKey(self.suite, self.eval_id, self.target, self.attempt)

    def to_dict(self) -> dict[str, Any]:
        data: dict[str, Any] = {
            "run_id": self.run_id,
            "eval_id": self.eval_id,
            "suite": self.suite,
            "target": self.target,
            "attempt": self.attempt,
            "score": self.score,
            "verdict": self.verdict.value,
            "error": self.error.to_dict() if self.error else None,
            "candidate_answer": self.candidate_answer,
            "output_messages": [message.to_dict() for message in self.output_messages],
            "hits": list(self.hits),
            "misses": list(self.misses),
            "reasoning": self.reasoning,
            "evaluator_results": [result.to_dict() for result in self.evaluator_results],
            "trace_summary": None if self.trace_summary is None else dict(self.trace_summary),
            "token_usage": self.token_usage.to_dict() if self.token_usage else None,
            "cost_usd": self.cost_usd,
            "duration_ms": self.duration_ms,
            "started_at": self.started_at,
            "metadata": dict(self.metadata),
        }
        if self.conversation_id is not None:
            data["conversation_id"] = self.conversation_id
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CaseResult:
        error, usage = data.get("error"), data.get("token_usage")
        return cls(
            run_id=data["run_id"],
            eval_id=data["eval_id"],
            suite=data["suite"],
            target=data["target"],
            attempt=data["attempt"],
            score=data["score"],
            verdict=Verdict(data["verdict"]),
            error=CaseError(error["stage"], error["message"]) if error else None,
            candidate_answer=data.get("candidate_answer") or "",
            output_messages=tuple(Message.from_dict(m) for m in data.get("output_messages") or ()),
            hits=tuple(data.get("hits") or ()),
            misses=tuple(data.get("misses") or ()),
            reasoning=data.get("reasoning") or "",
            evaluator_results=tuple(EvaluatorResult.from_dict(r) for r in data.get("evaluator_results") or ()),
            trace_summary=data.get("trace_summary"),
            token_usage=TokenUsage.from_dict(usage) if usage else None,
            cost_usd=data.get("cost_usd"),
            duration_ms=data.get("duration_ms"),
            started_at=data.get("started_at") or "",
            metadata=data.get("metadata") or {},
            conversation_id=data.get("conversation_id"),
        )


def judge_ledgers(results: Iterable[EvaluatorResult]) -> Iterator[Mapping[str, Any]]:
    """What each evaluator, members included, asked of a judge: calls, tokens and cost."""
    for result in results:
        yield from (ledger for ledger in (result.judge_proxy, result.judge) if ledger is not None)
        if result.evaluator_results:
            yield from judge_ledgers(result.evaluator_results)


def spend_of(row: CaseResult, *, answer_paid: bool = True) -> tuple[float, int]:
    """The dollars that are known to be spent on a row, and its judge calls. A recorded answer was paid for earlier."""
    usd, calls = (row.cost_usd or 0.0) if answer_paid else 0.0, 0
    for ledger in judge_ledgers(row.evaluator_results):
        usd += ledger.get("cost_usd") or 0.0
        calls += ledger.get("call_count") or 0
    return usd, calls


def weighted_mean(results: Iterable[EvaluatorResult]) -> float:
    """The mean of the scores by weight; 0 when nothing weighs anything."""
    pairs = [(result.score, result.weight) for result in results if result.weight > 0]
    if not pairs:
        return 0.0
    heaviest = max(weight for _, weight in pairs)
    shares = [(score, weight / heaviest) for score, weight in pairs]
    mean = math.fsum(score * share for score, share in shares) / math.fsum(share for _, share in shares)
    # Rounded, so that scores of 0.8 have the mean 0.8 whatever their weights.
    return min(1.0, max(0.0, round(mean, 12)))
