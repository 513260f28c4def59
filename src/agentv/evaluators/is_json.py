"""`is_json`: checks that the whole answer is one strict JSON value."""

from __future__ import annotations

from typing import Literal

from agentv.evaluators.base import EvaluationContext, Evaluator
from agentv.evaluators.strict_json import NotJsonError, refuse_other_text
from agentv.results import Score


class IsJson(Evaluator):
    """Checks that the whole answer is one strict JSON value. Whitespace around it is allowed."""

    WAITS = False

    type: Literal["is_json"] = "is_json"

    async def evaluate(self, context: EvaluationContext) -> Score:
        try:
            await refuse_other_text(context.candidate.answer)
        except NotJsonError as error:
            return Score(0.0, (), (f"is not JSON: {error}",), f"the answer is not JSON: {error}")
        return Score(1.0, ("is JSON",), (), "the whole answer is one JSON value")
