"""Options that a model rejects: some accept no temperature, no log probabilities, or not two of them together.

A request with `best_effort` is sent again without them. Providers cannot know them: they differ between models.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace

from agentv.errors import ProviderError
from agentv.messages import GenerationOptions
from agentv.targets.best_effort import without_options
from agentv.targets.provider import CallHooks, Reply, Request
from agentv.targets.providers.model_settings import OPTIONS_OF_FIELDS

_NOT_SUPPORTED = re.compile(r"unsupported|not (be )?(support|enabled|allowed)|deprecated|cannot both", re.IGNORECASE)


async def send_best_effort(
    request: Request, send: Callable[[Request], Awaitable[Reply]], rejected: set[str], hooks: CallHooks
) -> Reply:
    """The reply to the request without the options that the model rejects, which are added to `rejected`."""
    dropped = [name for name in request.options.requested if name in rejected]
    while True:
        request = replace(request, options=without_options(request.options, dropped))
        try:
            reply = await send(request)
        except ProviderError as error:
            option = rejected_option(error, request.options)
            if option is None:
                raise
            dropped.append(option)
            await hooks.before_second_request()
        else:
            rejected.update(dropped)
            return replace(reply, dropped_options=(*dropped, *reply.dropped_options)) if dropped else reply


def rejected_option(error: ProviderError, options: GenerationOptions) -> str | None:
    """The requested option that the server says it does not support; None for any other error."""
    message = error.message.rpartition("returned HTTP")[2]
    if error.status not in (400, 422) or not _NOT_SUPPORTED.search(message):
        return None
    words = re.findall(r"\w+", message.lower())
    named = [name for word in words if (name := OPTIONS_OF_FIELDS.get(word)) in options.requested]
    return None if not named else named[-1 if " both " in message else 0]
