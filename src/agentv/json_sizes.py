"""How much JSON is parsed where: what is quick enough for the event loop, and the most values that are accepted."""

from __future__ import annotations

from typing import Any

MOST_VALUES = 200_000
"""The most values (lists, objects, strings, numbers, ...) that large JSON from outside may contain."""

QUICK_BYTES, QUICK_WHATEVER_IT_IS = 256 * 1024, 4 * 1024
QUICK_OBJECTS, QUICK_VALUES = 500, 2_000


def is_quick(content: bytes) -> bool:
    """Whether parsing takes at most a few milliseconds, even if the content is invalid.

    The time depends on the number of objects, lists and values: 256 kB of tiny objects take 100 times longer than a
    text of that length. What looks like one inside a text is counted, too.
    """
    if len(content) <= QUICK_WHATEVER_IT_IS:
        return True
    if len(content) > QUICK_BYTES:
        return False
    return content.count(b"{") + content.count(b"[") <= QUICK_OBJECTS and content.count(b",") <= QUICK_VALUES


class TooManyValuesError(ValueError):
    """The JSON contains more values than are accepted."""


def check_values(value: Any, most: int = MOST_VALUES) -> None:
    """Raise TooManyValuesError if a JSON value contains more than `most` values."""
    left, waiting = most, [value]
    while waiting:
        node = waiting.pop()
        children = node.values() if isinstance(node, dict) else node if isinstance(node, list | tuple) else ()
        left -= len(children)
        if left < 0:
            raise TooManyValuesError(f"it contains more than {most:,} values")
        waiting.extend(children)
