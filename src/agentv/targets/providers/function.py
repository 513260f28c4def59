"""A Python function as a target, for `agentv.evaluate(target=...)`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from agentv.errors import ProviderError
from agentv.targets.provider import Provider, Reply, Request
from agentv.targets.structured import ShapeError, parse_reply

Answerer = Callable[..., Any]


class FunctionProvider(Provider):
    """Calls the function with the question, or with the whole `Request` if its parameter is named `request`.

    Plain functions run in threads, so that cases run in parallel. Coroutine functions run on the event loop.
    """

    def __init__(self, function: Answerer) -> None:
        self._function = function
        self._takes_request = _takes_request(function)
        self._is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - an object whose __call__ is a coroutine function
        )

    async def invoke(self, request: Request) -> Reply:
        argument = request if self._takes_request else request.question
        if self._is_async:
            answer = await cast("Awaitable[Any]", self._function(argument))
        else:
            answer = await asyncio.to_thread(self._function, argument)
            if inspect.isawaitable(answer):
                answer = await answer
        return as_reply(answer)


def as_reply(answer: Any) -> Reply:
    """The return value of a target function as a `Reply`. Raises `ProviderError` if it cannot be converted."""
    if isinstance(answer, Reply):
        return answer
    if isinstance(answer, str):
        return Reply.of_text(answer)
    if isinstance(answer, Mapping):
        try:
            return parse_reply(dict(answer))
        except ShapeError as error:
            raise ProviderError(f"the target function returned an invalid mapping: {error}") from None
    raise ProviderError(
        f"the target function must return a str, Reply or mapping, got {type(answer).__name__}",
        next_step="A mapping needs `text` or `output_messages`.",
    )


def _takes_request(function: Answerer) -> bool:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return False
    return bool(parameters) and (parameters[0].name == "request" or parameters[0].annotation in (Request, "Request"))
