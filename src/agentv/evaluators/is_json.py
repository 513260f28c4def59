"""`is_json`: the whole answer is one strict JSON value. Also the strict reader other evaluators share."""

from __future__ import annotations

from typing import Any, Literal

from agentv.evaluators.base import EvaluationContext, Evaluator
from agentv.jsonio import JsonError, read
from agentv.results import Score

MAX_DEPTH = 500
"""Deeper than what agentv reads elsewhere: here the answer itself is judged, and JSON has no limit of its own.

Fixed, so that the verdict does not depend on how full the stack happens to be.
"""


class NotJsonError(ValueError):
    """A text is not one strict JSON value: what is wrong, and where."""


class IsJson(Evaluator):
    """The whole answer is one strict JSON value; white space around it is fine."""

    WAITS = False

    type: Literal["is_json"] = "is_json"

    async def evaluate(self, context: EvaluationContext) -> Score:
        try:
            read_json(context.candidate.answer)
        except NotJsonError as error:
            return Score(0.0, (), (f"is not JSON: {error}",), f"the answer is not JSON: {error}")
        return Score(1.0, ("is JSON",), (), "the whole answer is one JSON value")


def read_json(text: str) -> Any:
    """The value of a text that is one JSON value and nothing else; `NotJsonError` says where it is not.

    Refused besides bad syntax: NaN, Infinity, a key twice in one object, bottomless nesting, endless digits.
    """
    try:
        return read(text, max_depth=MAX_DEPTH, infinite=True, surrogates=True)
    except JsonError as error:
        fence = "; the answer is wrapped in a code fence (```)" if text.lstrip().startswith("```") else ""
        raise NotJsonError(f"{error}{fence}") from None
