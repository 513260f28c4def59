"""Extracts a verdict from a judge's reply: one of the choices, or one JSON value. Nothing is guessed."""

from __future__ import annotations

import json
import re
from math import isinf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_QUOTES = ('""', "''", "``", "“”", "„“", "‘’", "‚‘", "«»")  # noqa: RUF001 - the quotes that models write
_SHOWN = 200
_MOST_BRACKETS = 1_000
_FENCE = "```"
_BRACKET = re.compile(r"[\[\]{}]")


class NoVerdictError(ValueError):
    """A reply contains no verdict. The message completes `your last reply could not be used: `."""


def folded(text: str) -> str:
    """A choice normalized for comparison: lower case, without surrounding quotes and a final period."""
    bare = _without_stop(text.strip())
    if len(bare) > 1 and bare[0] + bare[-1] in _QUOTES:
        bare = _without_stop(bare[1:-1].strip())
    return bare.lower()


def _without_stop(text: str) -> str:
    return text[:-1].rstrip() if text.endswith(".") else text


def read_choice(reply: str, choices: dict[str, str]) -> str:
    """The choice that a reply names, as the caller wrote it. The keys of `choices` are `folded`."""
    choice = choices.get(folded(reply))
    if choice is None:
        raise NoVerdictError(f"it is {shown(reply)}, which is not one of: {', '.join(choices.values())}")
    return choice


def read_json(reply: str) -> Any:
    """The JSON value of a reply: the whole reply, or the only JSON value in it."""
    text = reply.strip()
    if not text:
        raise NoVerdictError("it is empty, expected JSON")
    try:
        return _decoder.decode(text)
    except (ValueError, RecursionError):
        pass
    found = list(_inside(text))
    if not found:
        found = list(_fenced(text))
    if len(found) > 1:
        raise NoVerdictError(f"it contains more than one JSON value, {shown(reply)}")
    if not found:
        raise NoVerdictError(f"it contains no valid JSON, {shown(reply)}")
    return found[0]


def _inside(text: str) -> Iterator[Any]:
    """The objects and arrays in a text.

    A bracket that does not start valid JSON stays open until a closing bracket. A value inside an open bracket may be a
    fragment of truncated JSON, so it is not a verdict.
    """
    at = still_open = brackets = 0
    while bracket := _BRACKET.search(text, at):
        at = bracket.end()
        if bracket[0] in "}]":
            still_open = max(0, still_open - 1)
            continue
        brackets += 1
        if brackets > _MOST_BRACKETS:
            raise NoVerdictError(f"it contains too many brackets, {shown(text)}")
        try:
            value, at = _decoder.raw_decode(text, bracket.start())
        except NoVerdictError:
            raise
        except (ValueError, RecursionError):
            still_open += 1
            continue
        if still_open:
            raise NoVerdictError(f"its JSON is malformed or inside other brackets, {shown(text)}")
        yield value


def _fenced(text: str) -> Iterator[Any]:
    """The JSON values in the code fences of a text."""
    parts = text.split(_FENCE)
    for part in parts[1::2] if len(parts) % 2 else ():
        _, _, content = part.partition("\n")
        try:
            yield _decoder.decode(content.strip())
        except (ValueError, RecursionError):
            continue


def shown(text: str) -> str:
    """A reply in quotes, on one line, truncated."""
    words = " ".join(text.split())
    return f"{words[:_SHOWN]!r} (truncated)" if len(words) > _SHOWN else f"{words!r}"


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise NoVerdictError(f"its JSON has a duplicate key {twice!r}")
    return value


def _finite(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise ValueError(f"{text} is too large")
    return number


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


_decoder = json.JSONDecoder(object_pairs_hook=_pairs, parse_float=_finite, parse_constant=_no_constant)
