"""Parse JSON that a server sent: small bodies here, large ones in a worker with a deadline and a limit on values.

A body of a few megabytes can contain millions of values, which take seconds to parse and much memory to keep.
"""

from __future__ import annotations

import json
from typing import Any

from agentv import jsonio, workers
from agentv.json_sizes import MOST_VALUES, check_values
from agentv.targets.agentv_replies import with_our_names

PARSE_SECONDS = 10.0


class LoneSurrogateError(ValueError):
    """A string contains half of a surrogate pair, which is not text."""


async def parse(body: bytes) -> Any:
    """The JSON value of a body. Raises ValueError if it is not JSON, one of the errors above, or a WorkerError."""
    if len(body) <= workers.IN_LINE_BYTES:
        return parse_here(body)
    return await workers.call(parse_here, body, MOST_VALUES, seconds=PARSE_SECONDS)


def parse_here(body: bytes, most_values: int | None = None) -> Any:
    """The JSON value of a body. The message of a ValueError does not contain the body."""
    text = body.decode("utf-8", "replace")
    try:
        value = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {getattr(error, 'msg', 'nested too deeply')}") from None
    if most_values is not None:
        check_values(value, most_values)
    if ("\\ud" in text or "\\uD" in text) and not _is_text(value):
        raise LoneSurrogateError
    return value


def read_strict(text: str, most_values: int | None = None) -> Any:
    """Like `parse_here`, for strict JSON: no duplicate keys, no NaN. ValueError describes the first problem."""
    try:
        value = jsonio.read(text)
    except ValueError as error:
        raise ValueError(str(error)) from None
    if most_values is not None:
        check_values(value, most_values)
    return value


def read_answer(text: str, most_values: int | None = None) -> Any:
    """The output of a command if it is a JSON object with an answer; None if the text itself is the answer."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    if not ("output_messages" in with_our_names(value) or isinstance(value.get("text"), str)):
        return None
    return read_strict(text.strip(), most_values)


def _is_text(value: Any) -> bool:
    """Whether all strings of a JSON value can be encoded as UTF-8."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
