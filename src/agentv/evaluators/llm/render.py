"""Render judge prompts: about short answers in the event loop, about long ones in a worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from agentv.evaluators.base import EvaluationContext
from agentv.evaluators.json_values import is_longer
from agentv.evaluators.strict_json import too_large

IN_LINE_LENGTH = 100_000
"""Characters of messages, plus their values, that are rendered in the event loop."""
SECONDS = 10.0


async def rendered(render: Callable[..., str], context: EvaluationContext, *arguments: Any) -> str:
    """Return the prompt that `render(context, *arguments)` returns. `render` is a function of a module."""
    if not is_longer(_material(context), IN_LINE_LENGTH):
        return render(context, *arguments)
    from agentv import workers  # noqa: PLC0415 - only long answers need it

    case = replace(context.case, evaluators=())  # evaluators are not needed, and hold what cannot be sent
    try:
        return await workers.call(render, replace(context, case=case, runtime=None), *arguments, seconds=SECONDS)
    except workers.WorkerError as error:
        raise too_large(context.candidate.answer, error) from None


def _material(context: EvaluationContext) -> list[Any]:
    """Everything that a prompt can show."""
    case, candidate = context.case, context.candidate
    values: list[Any] = [candidate.answer, case.question, case.reference_answer, case.metadata]
    for message in (*candidate.output_messages, *case.input_messages, *case.expected_messages):
        values.append(message.content)
        for call in message.tool_calls:
            values += (call.input, call.output)
    return values
