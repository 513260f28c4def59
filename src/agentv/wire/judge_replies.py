"""What the judge proxy answers: messages in HTTP spelling, and JSON that every strict parser reads."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from agentv.messages import Message, TokenUsage, final_text

DEEPEST = 200

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


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
    try:
        return _encode(value).encode("utf-8")
    except (ValueError, TypeError, RecursionError):
        return _encode(_writable(value, 0)).encode("utf-8")


def _writable(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth >= DEEPEST:
        return "(nested too deep to be shown)"
    if isinstance(value, Mapping):
        return {_writable(str(key), depth): _writable(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_writable(item, depth + 1) for item in value]
    return _writable(str(value), depth)
