"""Paths into data: `invoice.lines[0].amount`, and `["a.b"]` for a key with a dot."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

MISSING: Any = object()
"""Where a path leads to nothing. Not None: null is a value."""

_NAME = re.compile(r"[^.\[\]\"']+")
_PLACE = re.compile(r"[0-9]{1,9}")
_BRACKET = re.compile(r"""\[(?:(?P<index>[0-9]{1,9})|(?P<double>"(?:[^"\\]|\\.)*")|'(?P<single>[^']*)')\]""")
_RULE = (
    'write names with dots and places in lists with [n], like `invoice.lines[0].amount`; a key with a dot is `["a.b"]`'
)


@lru_cache(maxsize=4096)
def parse_path(path: str) -> tuple[str | int, ...]:
    """The steps of a path. ValueError says what is wrong with it."""
    steps: list[str | int] = []
    at = 0
    while at < len(path) or not steps:
        bracket = _BRACKET.match(path, at)
        if bracket is not None:
            steps.append(_step(bracket, path))
            at = bracket.end()
            continue
        if steps:
            if path[at] != ".":
                raise ValueError(f"'{path[at:]}' in the path '{path}' is no step; {_RULE}")
            at += 1
        name = _NAME.match(path, at)
        if name is None:
            where = f"after '{path[:at]}' " if path[:at] else ""
            raise ValueError(f"the path '{path}' has no name {where}where one should be; {_RULE}")
        steps.append(name[0])
        at = name.end()
    return tuple(steps)


def _step(bracket: re.Match[str], path: str) -> str | int:
    if bracket["index"] is not None:
        return int(bracket["index"])
    if bracket["single"] is not None:
        return bracket["single"]
    try:
        return str(json.loads(bracket["double"]))
    except ValueError as error:
        raise ValueError(f"the quoted key in the path '{path}' cannot be read: {error}") from None


def value_at(data: Any, steps: Sequence[str | int]) -> Any:
    """The value that a path leads to, or MISSING."""
    for step in steps:
        if isinstance(data, Mapping):
            data = data.get(str(step), MISSING)
        elif isinstance(data, list | tuple) and _PLACE.fullmatch(str(step)):
            data = data[int(step)] if int(step) < len(data) else MISSING
        else:
            return MISSING
    return data
