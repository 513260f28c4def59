"""Validates the messages and numbers in JSON from commands, functions and recorded answers."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from agentv import jsonio
from agentv.messages import Message, TokenUsage, ToolCall
from agentv.targets.agentv_replies import with_our_names
from agentv.targets.provider import Reply

LONGEST_MODEL_NAME = 500


class ShapeError(ValueError):
    """A value has the wrong type or range. The message names the value and what was expected."""


def parse_reply(value: Mapping[str, Any]) -> Reply:
    """`text` or `output_messages` with optional `token_usage`, `cost_usd`, `duration_ms` and `model` -> a reply."""
    value = with_our_names(value)
    answer = value.get("text")
    messages = () if value.get("output_messages") is None else parse_messages(value["output_messages"])
    if not messages:
        if not isinstance(answer, str):
            raise ShapeError("it has neither `text` nor `output_messages`")
        messages = (Message("assistant", answer),)
    return Reply(
        messages,
        token_usage=parse_usage(value.get("token_usage")),
        cost_usd=parse_amount(value.get("cost_usd"), "cost_usd"),
        duration_ms=parse_amount(value.get("duration_ms"), "duration_ms"),
        model=named_model(value.get("model")),
    )


def named_model(value: Any) -> str | None:
    """The name of a model as reported with an answer; None if it is not a usable name. Never an error."""
    return value if isinstance(value, str) and 0 < len(value) <= LONGEST_MODEL_NAME else None


def parse_messages(value: Any, where: str = "output_messages") -> tuple[Message, ...]:
    """A list of messages. Raises `ShapeError` if any part of it is invalid."""
    if not isinstance(value, list):
        raise ShapeError(f"`{where}` must be a list of messages, got {_kind(value)}")
    messages = tuple(_message(item, f"{where}[{index}]") for index, item in enumerate(value))
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        raise ShapeError(f"`{where}` contains a number that is not finite") from None
    return messages


def _message(value: Any, where: str) -> Message:
    if not isinstance(value, Mapping):
        raise ShapeError(f"`{where}` must be an object with a `role`, got {_kind(value)}")
    role = value.get("role")
    if not isinstance(role, str) or not role:
        raise ShapeError(f"`{where}.role` must be a string like `assistant`, got {_kind(role)}")
    content = value.get("content")
    if not isinstance(content, str | list | Mapping | None):
        raise ShapeError(f"`{where}.content` must be a string, a list of parts or an object, got {_kind(content)}")
    metadata = value.get("metadata")
    if not isinstance(metadata, Mapping | None):
        raise ShapeError(f"`{where}.metadata` must be an object, got {_kind(metadata)}")
    calls = value.get("tool_calls")
    if not isinstance(calls, list | None):
        raise ShapeError(f"`{where}.tool_calls` must be a list, got {_kind(calls)}")
    if isinstance(value.get("tool_call_id"), str):  # OpenAI's name for the call that a `tool` message answers
        metadata = {"tool_call_id": value["tool_call_id"], **(metadata or {})}
    return Message(
        role=role,
        content=content,
        name=_optional_text(value, "name", where),
        tool_calls=tuple(_call(call, f"{where}.tool_calls[{index}]") for index, call in enumerate(calls or ())),
        timestamp=_optional_text(value, "timestamp", where),
        metadata=metadata,
    )


CALL_SHAPES = (
    '`{"tool": "search", "input": {...}}`, or as in OpenAI\'s API '
    '`{"id": "call_1", "type": "function", "function": {"name": "search", "arguments": "{...}"}}`'
)


def _call(value: Any, where: str) -> ToolCall:
    """A tool call, as in rows (`tool`, `input`) or as in OpenAI's API (`function` with `name` and `arguments`)."""
    if not isinstance(value, Mapping):
        raise ShapeError(f"`{where}` must be {CALL_SHAPES}, got {_kind(value)}")
    tool, arguments = value.get("tool"), value.get("input")
    function = value.get("function")
    if tool is None and isinstance(function, Mapping):
        tool, arguments = function.get("name"), received_arguments(function.get("arguments"))
    if not isinstance(tool, str) or not tool:
        keys = ", ".join(f"`{str(key)[:40]}`" for key in list(value)[:8])
        raise ShapeError(f"`{where}` must be {CALL_SHAPES}, got an object with {keys or 'no keys'}")
    return ToolCall(
        tool=tool,
        input=arguments,
        output=value.get("output"),
        id=_optional_text(value, "id", where),
        timestamp=_optional_text(value, "timestamp", where),
        duration_ms=_duration(value.get("duration_ms")),
    )


def _duration(value: Any) -> float | None:
    """A duration in milliseconds; None if it is not one."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) and value >= 0 else None


def received_arguments(arguments: Any) -> Any:
    """The arguments of a tool call as OpenAI's API sends them: JSON in a string. Invalid JSON is kept as it is."""
    if isinstance(arguments, str):
        with suppress(ValueError):
            return jsonio.read(arguments)
    return arguments


def _optional_text(value: Mapping[str, Any], key: str, where: str) -> str | None:
    text = value.get(key)
    if not isinstance(text, str | None):
        raise ShapeError(f"`{where}.{key}` must be a string, got {_kind(text)}")
    return text


def parse_usage(value: Any, where: str = "token_usage") -> TokenUsage | None:
    """`{input, output, cached}` as token counts; None stays None."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise ShapeError(f"`{where}` must be an object with `input` and `output`, got {_kind(value)}")
    counts = {key: _count(value.get(key), f"{where}.{key}") for key in ("input", "output", "cached")}
    return TokenUsage(counts["input"] or 0, counts["output"] or 0, counts["cached"])


def _count(value: Any, where: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise ShapeError(f"`{where}` must be a whole number, got {_kind(value)}")
    if value < 0:
        raise ShapeError(f"`{where}` must not be negative, got {value}")
    return value


def parse_amount(value: Any, where: str) -> float | None:
    """A finite number of 0 or more; None stays None."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ShapeError(f"`{where}` must be a number, got {_kind(value)}")
    try:
        amount = float(value)
    except OverflowError:
        amount = math.inf
    if not math.isfinite(amount) or amount < 0:
        raise ShapeError(f"`{where}` must be a finite number of 0 or more, got {amount}")
    return amount


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"the number {value}" if len(repr(value)) < 40 else "a number"
    if isinstance(value, str):
        return "a string" if value else "an empty string"
    return "a list" if isinstance(value, list) else "an object" if isinstance(value, Mapping) else repr(type(value))
