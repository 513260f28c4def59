"""JSON values: found in an answer, compared, and shown to people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Annotated, Any

from pydantic import BeforeValidator

from agentv.evaluators.is_json import NotJsonError, read_json
from agentv.jsonio import braced, fenced
from agentv.text import kind_of

LONGEST_VALUE = 200


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


WholeNumber = Annotated[int, BeforeValidator(_whole)]
"""A whole number; `1e6` is one, too."""


def find_data(text: str) -> Any:
    """The object or list that a text is, or has in a code fence, or the one object in it.

    `NotJsonError` says why there is none.
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
        found = _data(places)
        if len(found) > 1:
            raise NotJsonError("it holds several JSON values, and which one is meant is not clear")
        if found:
            return found[0]
    raise NotJsonError(reason if "{" in text or not text.strip() else "there is no JSON object in it")


def _data(texts: Iterable[str]) -> list[Any]:
    """The objects and lists among the texts; two at the most are looked for."""
    found: list[Any] = []
    for text in texts:
        with suppress(NotJsonError):
            value = read_json(text)
            if isinstance(value, dict | list):
                found.append(value)
        if len(found) > 1:
            break
    return found


def same_json(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON: 1 is 1.0, true is not 1, the order of keys does not matter."""
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
    """A value as JSON. A long one is only described: cut, a secret in it could not be masked."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return kind_of(value)
    return text if len(text) <= LONGEST_VALUE else f"{kind_of(value)} ({len(text):,} characters)"
