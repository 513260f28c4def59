"""Render judge prompts: about short answers in the event loop, about long ones in a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from agentv.evaluators.base import EvaluationContext
from agentv.evaluators.strict_json import too_large
from agentv.messages import Message

IN_LINE_LENGTH = 100_000
"""Characters of messages, plus their values, that are rendered in the event loop."""
SECONDS = 10.0


async def rendered(render: Callable[..., str], context: EvaluationContext, *arguments: Any) -> str:
    """Return the prompt that `render(context, *arguments)` returns. `render` is a function of a module."""
    if not _is_longer(context, IN_LINE_LENGTH):
        return render(context, *arguments)
    from agentv import workers  # noqa: PLC0415 - only long answers need it

    case = replace(context.case, evaluators=())  # evaluators are not needed, and hold what cannot be sent
    try:
        return await workers.call(render, replace(context, case=case, runtime=None), *arguments, seconds=SECONDS)
    except workers.WorkerError as error:
        raise too_large(context.candidate.answer, error) from None


def _is_longer(context: EvaluationContext, most: int) -> bool:
    """Whether the material has more than `most` characters and values. Looks at no more than that."""
    left = most
    for size in _sizes(context):
        left -= size
        if left < 0:
            return True
    return False


def _sizes(context: EvaluationContext) -> Iterator[int]:
    case, candidate = context.case, context.candidate
    yield len(candidate.answer) + len(case.question) + len(case.reference_answer or "")
    pending: list[Any] = [case.metadata]
    for message in (*candidate.output_messages, *case.input_messages, *case.expected_messages):
        pending += _values(message)
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            yield len(value)
        elif isinstance(value, Mapping):
            yield len(value)
            pending += value.values()
        elif isinstance(value, list | tuple):
            yield len(value)
            pending += value


def _values(message: Message) -> Iterator[Any]:
    yield message.content
    for call in message.tool_calls:
        yield from (call.input, call.output)
