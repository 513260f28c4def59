"""The variables of a request, for targets that pick what they need: templates and functions."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from agentv.targets.provider import Request
from agentv.targets.providers.chat import wire_messages

VARIABLES = ("prompt", "system_prompt", "messages", "eval_id", "attempt", "vars")
"""Variables of every request. In templates, all others are variables of the case."""


def request_variables(request: Request, used: Set[str]) -> dict[str, Any]:
    """The values of `VARIABLES`. Nothing of the conversation is lost, whichever of them are used:

    `prompt` is the last user message if `messages` is used, and otherwise the whole conversation as text; it begins
    with the system prompt unless `messages` or `system_prompt` is used.
    """
    prompt, instructions = request.question, request.instructions
    messages: list[dict[str, Any]] = []
    if "messages" in used:
        messages = wire_messages(request)
        users = [message for message in request.turns if message.role == "user"]
        prompt = users[-1].text if users else prompt
    elif instructions and "system_prompt" not in used:
        prompt = f"{instructions}\n\n{prompt}"
    return {
        "prompt": prompt,
        "system_prompt": instructions,
        "messages": messages,
        "eval_id": request.eval_id,
        "attempt": request.attempt,
        "vars": request.vars,
    }
