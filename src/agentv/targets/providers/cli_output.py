"""Parses the output of a command into replies. Large JSON is parsed in a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from agentv import workers
from agentv.json_sizes import MOST_VALUES
from agentv.targets.provider import Reply
from agentv.targets.providers.large_json import PARSE_SECONDS, read_answer, read_strict
from agentv.targets.structured import ShapeError, parse_reply


async def parse_output(data: bytes) -> Reply:
    """The reply in an output: a JSON object with `text` or `output_messages`, or else the answer as plain text.

    Raises `ShapeError` if such an object is malformed, or if the output is not UTF-8.
    """
    text = _decoded(data)
    if text.lstrip()[:1] == "{" and (value := await _read(read_answer, text)) is not None:
        return parse_reply(value)
    return Reply.of_text(text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text)


async def parse_object(data: bytes) -> Reply:
    """The reply in a JSON object with `text` or `output_messages`. Raises `ShapeError` if it is something else."""
    value = await _read(read_strict, _decoded(data))
    if not isinstance(value, dict):
        raise ShapeError("it must be a JSON object")
    return parse_reply(value)


async def parse_batch(data: bytes) -> dict[str, Reply]:
    """Replies by `id`, from JSON Lines. Raises `ShapeError` with the number of the invalid line."""
    replies: dict[str, Reply] = {}
    parsed = 0
    for number, line in enumerate(_decoded(data).split("\n"), 1):
        if not line.strip():
            continue
        parsed += len(line)
        if parsed > workers.IN_LINE_BYTES:
            await asyncio.sleep(0)
            parsed = 0
        try:
            value = await _read(read_strict, line)
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


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ShapeError(f"it is not UTF-8 text (byte {error.start})") from None


async def _read(read: Callable[..., Any], text: str) -> Any:
    """What `read` returns for the text; for a large text, from a worker."""
    try:
        if len(text) <= workers.IN_LINE_BYTES:
            return read(text)
        return await workers.call(read, text, MOST_VALUES, seconds=PARSE_SECONDS)
    except ValueError as error:
        raise ShapeError(f"invalid JSON: {error}") from None
    except workers.WorkerError as error:
        raise ShapeError(f"its JSON could not be parsed: {error}") from None
