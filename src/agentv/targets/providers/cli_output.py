"""Parses the output of a command into replies."""

from __future__ import annotations

import json

from agentv import jsonio
from agentv.targets.provider import Reply
from agentv.targets.structured import ShapeError, parse_reply


def parse_output(data: bytes) -> Reply:
    """The reply in an output: a JSON object with `text` or `output_messages`, or else the answer as plain text.

    Raises `ShapeError` if such an object is malformed, or if the output is not UTF-8.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ShapeError(f"it is not UTF-8 text (byte {error.start})") from None
    if _is_structured(text):
        return _structured(text)
    return Reply.of_text(text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text)


def parse_batch(data: bytes) -> dict[str, Reply]:
    """Replies by `id`, from JSON Lines. Raises `ShapeError` with the number of the invalid line."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ShapeError(f"it is not UTF-8 text (byte {error.start})") from None
    replies: dict[str, Reply] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = jsonio.read(line)
            if not isinstance(value, dict):
                raise ShapeError("it must be a JSON object")
            name = value.get("id")
            if not isinstance(name, str) or not name:
                raise ShapeError("`id` must be a non-empty string")
            if name in replies:
                raise ShapeError(f"duplicate id '{name}'")
            replies[name] = parse_reply(value)
        except ValueError as error:
            raise ShapeError(f"line {number}: {error}") from None
    return replies


def _is_structured(text: str) -> bool:
    if not text.lstrip().startswith("{"):
        return False
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and ("output_messages" in value or isinstance(value.get("text"), str))


def _structured(text: str) -> Reply:
    try:
        value = jsonio.read(text.strip())
    except ValueError as error:
        raise ShapeError(f"invalid JSON: {error}") from None
    return parse_reply(value)
