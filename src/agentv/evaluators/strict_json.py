"""Parse an answer as strict JSON: short ones in the event loop, long ones in a worker."""

from __future__ import annotations

from typing import Any

from agentv.errors import EvaluatorError
from agentv.jsonio import JsonError, read

MAX_DEPTH = 500
"""Deeper than agentv allows elsewhere: here the answer itself is judged, and JSON does not limit nesting.

A fixed number, so that the verdict does not depend on the current depth of the stack.
"""
IN_LINE_LENGTH = 20_000
"""Longer answers are parsed in a worker: finding out what is wrong with an answer takes longer than parsing it."""
TIMEOUT_SECONDS = 5.0
"""Longest work on one answer."""


class NotJsonError(ValueError):
    """The text is not one strict JSON value. The message says what is wrong and where."""


def read_json(text: str) -> Any:
    """Parse a text that must be exactly one JSON value. Raises `NotJsonError`.

    Besides syntax errors, rejects NaN, Infinity, duplicate keys, excessive nesting and excessively long numbers.
    """
    try:
        return read(text, max_depth=MAX_DEPTH, infinite=True, surrogates=True)
    except JsonError as error:
        fence = "; the answer is wrapped in a code fence (```)" if text.lstrip().startswith("```") else ""
        raise NotJsonError(f"{error}{fence}") from None


async def refuse_other_text(text: str) -> None:
    """Raise `NotJsonError` if the text is not exactly one JSON value."""
    if len(text) <= IN_LINE_LENGTH:
        read_json(text)
        return
    from agentv import workers  # noqa: PLC0415 - only long answers need it

    try:
        await workers.call(refuse_other_text_here, text, seconds=TIMEOUT_SECONDS)
    except workers.WorkerError as error:
        raise too_large(text, error) from None


def refuse_other_text_here(text: str) -> None:
    """Do the same in this process, blocking it."""
    read_json(text)


def too_large(text: str, error: Exception) -> EvaluatorError:
    """The error for an answer that could not be processed in a worker."""
    return EvaluatorError(
        f"the answer of {len(text):,} characters could not be processed: {error}",
        next_step="Limit the length of answers, for example with `max_output_tokens`.",
    )
