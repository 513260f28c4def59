"""A Python function as an evaluator, for `agentv.evaluate(evaluators=[...])`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from pydantic import Field

from agentv.errors import AgentVError, EvaluatorError
from agentv.evaluators.base import EvaluationContext, Evaluator
from agentv.results import Score


class FunctionEvaluator(Evaluator):
    """Calls a function with the answer, or with the whole context if its first parameter is named `context`."""

    function: Callable[..., Any] = Field(exclude=True)

    @classmethod
    def of(cls, function: Callable[..., Any]) -> FunctionEvaluator:
        name = getattr(function, "__name__", type(function).__name__)
        return cls(name=name, type="function", function=function)

    def recorded_options(self) -> dict[str, Any]:
        """Where the function is defined."""
        kind = type(self.function)
        module, name = getattr(self.function, "__module__", kind.__module__), getattr(self.function, "__qualname__", "")
        return {**super().recorded_options(), "function": f"{module}.{name or kind.__qualname__}"}

    async def evaluate(self, context: EvaluationContext) -> Score:
        first = next(iter(inspect.signature(self.function).parameters), "answer")
        try:
            verdict = self.function(context if first == "context" else context.candidate.answer)
            if inspect.isawaitable(verdict):
                verdict = await verdict
        except AgentVError:
            raise
        except Exception as error:
            from agentv.processes.causes import raised  # noqa: PLC0415 - compiles patterns that most runs never need

            raise EvaluatorError(f"{raised(error)} (the function '{self.name}' failed)") from error
        if isinstance(verdict, Score):
            return verdict
        if isinstance(verdict, bool | int | float):
            return Score(float(verdict))
        raise EvaluatorError(
            f"the function '{self.name}' must return a number, a bool or a Score, got {type(verdict).__name__}",
            next_step="Return a number from 0 to 1, True or False, or an agentv Score.",
        )
