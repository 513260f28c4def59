"""What the judge proxy answers: messages in HTTP spelling, and JSON that every strict parser reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentv.jsonio import dump_line
from agentv.messages import Message, TokenUsage, final_text


def reply_object(messages: Sequence[Message], usage: TokenUsage | None) -> dict[str, Any]:
    """A reply of the judge. `rawText` is the text of the last assistant message."""
    reply: dict[str, Any] = {
        "outputMessages": [message_object(message) for message in messages],
        "rawText": final_text(messages),
    }
    if usage is not None:
        reply["usage"] = usage.to_dict()
    return reply


def failed_object(message: str, code: str) -> dict[str, Any]:
    """An item of a batch that failed at the judge."""
    return {"outputMessages": [], "error": message, "code": code}


def error_object(message: str, code: str) -> dict[str, str]:
    return {"error": message, "code": code}


def message_object(message: Message) -> dict[str, Any]:
    """A message as HTTP spells it. Only the key `tool_calls` differs; nothing inside is touched."""
    data = message.to_dict()
    if "tool_calls" in data:
        data["toolCalls"] = data.pop("tool_calls")
    return data


def to_json(value: Any) -> bytes:
    """Strict UTF-8 JSON. What a provider left in a message that JSON cannot hold is replaced, never refused."""
    return dump_line(value).encode("utf-8")
