"""What a command under test wrote -> a reply."""

from __future__ import annotations

import json

from agentv.suite.json_lines import parse_json
from agentv.targets.provider import Reply
from agentv.targets.structured import ShapeError, parse_reply


def parse_output(data: bytes) -> Reply:
    """A JSON object with `text` or `output_messages` is structured; anything else is the answer itself.

    Raises `ShapeError` for what means to be structured but is malformed, and for what is not UTF-8.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ShapeError(f"it is not UTF-8 text (byte {error.start})") from None
    if _is_structured(text):
        return _structured(text)
    return Reply.of_text(text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text)


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
        value = parse_json(text.strip())
    except ValueError as error:
        raise ShapeError(f"its JSON is refused: {error}") from None
    return parse_reply(value)
