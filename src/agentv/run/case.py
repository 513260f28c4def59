"""One case, top to bottom: ask the target, judge the answer, make the row."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from agentv.errors import AgentVError, BudgetExhaustedError, ProviderError
from agentv.evaluators.base import Candidate, EvaluationContext, Evaluator
from agentv.evaluators.scoring import combine, judge_all
from agentv.messages import TokenUsage
from agentv.plan.plan import WorkItem
from agentv.results import CaseError, CaseResult, Verdict
from agentv.run.request import build_request
from agentv.run.trace import summarize_trace
from agentv.targets.provider import Reply, Request

if TYPE_CHECKING:
    from agentv.scripts import Runtime

Ask = Callable[[Request], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Answered:
    """What came back from the target: a candidate, or why there is none."""

    started_at: str
    candidate: Candidate | None
    error: CaseError | None = None
    token_usage: TokenUsage | None = None
    """Of a reply that is no candidate, but has to be paid for."""
    cost_usd: float | None = None


async def answer(item: WorkItem, ask: Ask) -> Answered:
    """Send the case to its target. This is the edge where a failed call becomes an error row."""
    started_at, started = datetime.now(UTC).isoformat(timespec="milliseconds"), time.perf_counter()
    try:
        request = build_request(item.case, item.attempt, item.planned.suite.files)
        reply = await ask(request)
    except BudgetExhaustedError:
        raise
    except ProviderError as error:
        return Answered(started_at, None, CaseError("target", str(error)), error.token_usage, error.cost_usd)
    except AgentVError as error:
        return Answered(started_at, None, CaseError("target", str(error)))
    except Exception as error:
        return Answered(started_at, None, CaseError("target", f"{type(error).__name__}: {error}"))
    elapsed = round((time.perf_counter() - started) * 1000, 3)
    return Answered(started_at, _candidate(reply, elapsed))


def _candidate(reply: Reply, elapsed_ms: float) -> Candidate:
    duration = elapsed_ms if reply.duration_ms is None and not reply.recorded else reply.duration_ms
    return Candidate(
        answer=reply.text,
        output_messages=reply.output_messages,
        token_usage=reply.token_usage,
        cost_usd=reply.cost_usd,
        duration_ms=duration,
        trace_summary=summarize_trace(reply.output_messages, reply.token_usage, reply.cost_usd, duration),
    )


async def grade(item: WorkItem, answered: Answered, run_id: str, runtime: Runtime | None = None) -> CaseResult:
    """Judge the answer and make the row."""
    suite, candidate = item.planned.suite, answered.candidate
    row = CaseResult(
        run_id=run_id,
        eval_id=item.case.id,
        suite=suite.name,
        target=item.target,
        attempt=item.attempt,
        score=0.0,
        verdict=Verdict.FAIL,
        error=answered.error,
        token_usage=answered.token_usage,
        cost_usd=answered.cost_usd,
        started_at=answered.started_at,
        metadata=item.case.metadata,
        conversation_id=item.case.conversation_id,
    )
    if candidate is None:
        return row
    context = EvaluationContext(
        item.case, candidate, suite.name, item.target, item.attempt, directory=suite.directory, runtime=runtime
    )
    # Suites know evaluators by protocol; the plan's reader made these.
    results = await judge_all(cast("tuple[Evaluator, ...]", item.case.evaluators), context)
    outcome = combine(results, item.threshold)
    return replace(
        row,
        score=outcome.score,
        verdict=outcome.verdict,
        error=outcome.error,
        candidate_answer=candidate.answer,
        output_messages=candidate.output_messages,
        hits=outcome.hits,
        misses=outcome.misses,
        reasoning=outcome.reasoning,
        evaluator_results=results,
        trace_summary=candidate.trace_summary,
        token_usage=candidate.token_usage,
        cost_usd=candidate.cost_usd,
        duration_ms=candidate.duration_ms,
    )
