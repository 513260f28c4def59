"""Run evaluators on one answer. The only place where exceptions become failed results."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from agentv.errors import AgentVError, BudgetExhaustedError, EvaluatorError, NodesLostError
from agentv.evaluators.base import EvaluationContext, Evaluator
from agentv.results import CaseError, EvaluatorResult, Score, Verdict, verdict_for, weighted_mean
from agentv.text import without_controls


@dataclass(frozen=True, slots=True)
class CaseScore:
    """The combined result of a case's evaluators."""

    score: float
    verdict: Verdict
    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    reasoning: str = ""
    error: CaseError | None = None


async def judge(evaluator: Evaluator, context: EvaluationContext) -> EvaluatorResult:
    """Run one evaluator on one answer. Raises only what ends the run or its case, cancellation and interrupts."""
    started = time.perf_counter()
    try:
        score = await evaluator.evaluate(context)
        if not isinstance(score, Score):
            raise TypeError(f"evaluate() must return a Score, got {type(score).__name__}")  # noqa: TRY301 - handled below
    except (BudgetExhaustedError, NodesLostError):
        raise  # the case counts as not run
    except AgentVError as error:
        return _failed(evaluator, str(error), started, error)
    except Exception as error:
        from agentv.processes.causes import raised  # noqa: PLC0415 - compiles patterns that most runs never need

        message = (
            f"evaluator '{evaluator.name}' crashed: {raised(error)}\n"
            f"This is a bug in the evaluator (type '{evaluator.type}'), not a problem with the answer. "
            "Please report it to the evaluator's author."
        )
        return _failed(evaluator, message, started, error)
    return _judged(evaluator, score, started)


async def judge_all(evaluators: Sequence[Evaluator], context: EvaluationContext) -> tuple[EvaluatorResult, ...]:
    """Run all evaluators and return their results in the same order. Evaluators that wait run concurrently."""
    waiting = [index for index, evaluator in enumerate(evaluators) if evaluator.WAITS]
    if len(waiting) < 2:
        return tuple([await judge(evaluator, context) for evaluator in evaluators])
    try:
        async with asyncio.TaskGroup() as group:
            tasks = {index: group.create_task(judge(evaluators[index], context)) for index in waiting}
            # A task costs more than a string comparison, so evaluators that never wait run here, without one.
            direct = {i: await judge(evaluator, context) for i, evaluator in enumerate(evaluators) if i not in tasks}
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return tuple(tasks[i].result() if i in tasks else direct[i] for i in range(len(evaluators)))


def combine(results: Sequence[EvaluatorResult], threshold: float) -> CaseScore:
    """Combine the results into the score and verdict of the case.

    A failed required evaluator fails the case. A case with an error never passes.
    """
    errors = [f"{result.name}: {result.error}" for result in results if result.error is not None]
    if any(result.failed_required for result in results):
        score, verdict = 0.0, Verdict.FAIL
    else:
        score = weighted_mean(results)
        verdict = verdict_for(score, threshold)
        if errors and verdict is Verdict.PASS:
            verdict = Verdict.FAIL
    return CaseScore(
        score=score,
        verdict=verdict,
        hits=tuple(hit for result in results for hit in result.hits),
        misses=tuple(miss for result in results for miss in result.misses),
        reasoning=" | ".join(f"{result.name}: {result.reasoning}" for result in results if result.reasoning),
        error=CaseError("evaluator", "; ".join(errors)) if errors else None,
    )


def _judged(evaluator: Evaluator, score: Score, started: float) -> EvaluatorResult:
    value, hits, misses = float(score.score), tuple(score.hits), tuple(score.misses)
    if evaluator.negate:
        # Round, so that 1 - 0.9 reaches a threshold of 0.1.
        value, hits, misses = round(1.0 - value, 12), misses, hits
    return EvaluatorResult(
        name=evaluator.name,
        type=evaluator.type,
        score=value,
        weight=evaluator.weight,
        verdict=verdict_for(value, evaluator.threshold),
        required=evaluator.required,
        warnings=tuple(score.warnings),
        hits=hits,
        misses=misses,
        reasoning=score.reasoning,
        details=score.details,
        duration_ms=_since(started),
        judge_proxy=score.judge_proxy,
        judge=score.judge,
        evaluator_results=tuple(score.evaluator_results),
        execution=score.execution,
    )


def _failed(evaluator: Evaluator, message: str, started: float, error: Exception) -> EvaluatorResult:
    # Record what the evaluator spent before it failed.
    spent = error if isinstance(error, EvaluatorError) else EvaluatorError(message)
    return EvaluatorResult(
        name=evaluator.name,
        type=evaluator.type,
        score=0.0,
        weight=evaluator.weight,
        verdict=Verdict.FAIL,
        required=evaluator.required,
        error=without_controls(message),
        duration_ms=_since(started),
        judge_proxy=spent.judge_proxy,
        judge=spent.judge,
        details=spent.details,
        evaluator_results=tuple(spent.evaluator_results),
        execution=spent.execution,
    )


def _since(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 3)
