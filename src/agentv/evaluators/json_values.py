"""Find JSON values in an answer, compare them, and format them for messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Annotated, Any

from pydantic import BeforeValidator

from agentv.evaluators.strict_json import NotJsonError, read_json
from agentv.jsonio import braced, fenced
from agentv.text import kind_of

LONGEST_VALUE = 200
MOST_OBJECTS = 10_000
"""Spans between braces in which data is searched."""
MOST_CHARACTERS = 100_000
"""The length of longer values is not computed."""


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


WholeNumber = Annotated[int, BeforeValidator(_whole)]
"""An integer. Floats with an integer value, such as `1e6`, are accepted."""


def find_data(text: str) -> Any:
    """Return the JSON object or list of a text: the whole text, else its code fence, else the only object in it.

    Raises `NotJsonError` when there is none.
    """
    try:
        whole = read_json(text)
    except NotJsonError as error:
        reason = str(error)
    else:
        if isinstance(whole, dict | list):
            return whole
        raise NotJsonError(f"it is {kind_of(whole)}, not an object")
    for places in (fenced(text), (span.text for span in braced(text) if span.closed)):
        values = _data(places)
        if len(values) > 1:
            raise NotJsonError("it contains several JSON values, and it is unclear which one to use")
        if values:
            return values[0]
    raise NotJsonError(reason if "{" in text or not text.strip() else "it does not contain a JSON object")


def _data(candidates: Iterable[str]) -> list[Any]:
    """Parse the strings that are objects or lists, and stop after two."""
    values: list[Any] = []
    for number, text in enumerate(candidates):
        if number >= MOST_OBJECTS:
            raise NotJsonError(f"it contains more than {MOST_OBJECTS:,} pairs of braces, too many to search")
        with suppress(NotJsonError):
            value = read_json(text)
            if isinstance(value, dict | list):
                values.append(value)
        if len(values) > 1:
            break
    return values


def same_json(one: Any, other: Any) -> bool:
    """Whether two values are equal as JSON: 1 equals 1.0, true is not 1, and the order of keys does not matter."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same_json(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(same_json(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other
    return type(one) is type(other) and bool(one == other)


def shown(value: Any) -> str:
    """Format a value as JSON. A long value is described instead: if it were cut, a secret in it could not be masked."""
    if is_longer(value, MOST_CHARACTERS):
        return f"{kind_of(value)} (more than {MOST_CHARACTERS:,} characters)"
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return kind_of(value)
    return text if len(text) <= LONGEST_VALUE else f"{kind_of(value)} ({len(text):,} characters)"


def is_longer(value: Any, most: int) -> bool:
    """Whether JSON data has more than `most` characters and values. Looks at no more than that."""
    pending, left = [value], most
    while pending and left >= 0:
        item = pending.pop()
        if isinstance(item, str | Mapping | list | tuple):
            left -= len(item)
            if isinstance(item, Mapping):
                pending += item.values()
            elif not isinstance(item, str):
                pending += item
    return left < 0
