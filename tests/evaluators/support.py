"""Helpers to create an evaluator, run it on an answer and read the result."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Literal, TypeVar

import pytest
from pydantic import ValidationError

from agentv.evaluators.base import Candidate, EvaluationContext, Evaluator
from agentv.evaluators.registry import evaluator_class
from agentv.evaluators.scoring import judge
from agentv.results import EvaluatorResult, Score
from agentv.suite.suite import EvalCase

T = TypeVar("T")


def an_answer(answer: str, reference: str | None = None) -> EvaluationContext:
    case = EvalCase(id="case", question="question", input_messages=(), reference_answer=reference)
    return EvaluationContext(case, Candidate(answer))


def an_evaluator(type: str, **options: Any) -> Evaluator:  # noqa: A002 - same name as the option
    found = evaluator_class(type)
    assert found is not None
    return found.model_validate({"name": type, "type": type, **options})


async def judged(answer: str, type: str, *, reference: str | None = None, **options: Any) -> EvaluatorResult:  # noqa: A002
    return await judge(an_evaluator(type, **options), an_answer(answer, reference))


def problem_of(type: str, **options: Any) -> tuple[tuple[int | str, ...], str]:  # noqa: A002
    """Location and message of the only validation error for these options."""
    with pytest.raises(ValidationError) as caught:
        an_evaluator(type, **options)
    (error,) = caught.value.errors(include_url=False)
    return error["loc"], error["msg"].removeprefix("Value error, ")


def without_waiting(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits; fails if it does wait."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        value: T = stop.value
        return value
    coroutine.close()
    raise AssertionError("the coroutine waited")


class Fixed(Evaluator):
    """Returns the configured score, or raises the configured failure."""

    WAITS = False

    type: Literal["fixed"] = "fixed"
    says: float = 1.0
    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    reasoning: str = ""
    failure: Any = None

    async def evaluate(self, context: EvaluationContext) -> Score:
        if self.failure is not None:
            raise self.failure
        return Score(self.says, self.hits, self.misses, self.reasoning)
