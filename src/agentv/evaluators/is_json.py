"""`is_json`: checks that the whole answer is one strict JSON value. Other evaluators share its strict parser."""

from __future__ import annotations

from typing import Any, Literal

from agentv.evaluators.base import EvaluationContext, Evaluator
from agentv.jsonio import JsonError, read
from agentv.results import Score

MAX_DEPTH = 500
"""Deeper than agentv allows elsewhere: here the answer itself is judged, and JSON does not limit nesting.

A fixed number, so that the verdict does not depend on the current depth of the stack.
"""


class NotJsonError(ValueError):
    """The text is not one strict JSON value. The message says what is wrong and where."""


class IsJson(Evaluator):
    """Checks that the whole answer is one strict JSON value. Whitespace around it is allowed."""

    WAITS = False

    type: Literal["is_json"] = "is_json"

    async def evaluate(self, context: EvaluationContext) -> Score:
        try:
            read_json(context.candidate.answer)
        except NotJsonError as error:
            return Score(0.0, (), (f"is not JSON: {error}",), f"the answer is not JSON: {error}")
        return Score(1.0, ("is JSON",), (), "the whole answer is one JSON value")


def read_json(text: str) -> Any:
    """Parse a text that must be exactly one JSON value. Raises `NotJsonError`.

    Besides syntax errors, rejects NaN, Infinity, duplicate keys, excessive nesting and excessively long numbers.
    """
    try:
        return read(text, max_depth=MAX_DEPTH, infinite=True, surrogates=True)
    except JsonError as error:
        fence = "; the answer is wrapped in a code fence (```)" if text.lstrip().startswith("```") else ""
        raise NotJsonError(f"{error}{fence}") from None
