"""Limits of a template: how many steps it takes, and how large each value in it can become.

A rendering that is certain to be short is done in place. Any other one raises `NeedsWorkerError` and is repeated in a
worker, which has a deadline and a memory limit. What is certain follows from the arguments of an operation alone, so
no filter needs a rule of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from agentv.text import plural

LONGEST_VALUE = 16 * 2**20
"""Maximum characters of a rendered template, and of each value in it."""
ITEM = 16
"""How many characters an item of a list or a mapping counts as."""
MOST_STEPS = 100_000
"""Maximum passes of loops, calls and items of `range`, together, in one rendering."""
MOST_BITS = 4096
"""Maximum bits of a number."""
STEPS_IN_PLACE = 2_000
TEXT_IN_PLACE = 64 * 1024
"""Characters and items that the filters and calls of one rendering may process in place."""
GROWTH_IN_PLACE = 2 * 2**20
"""Characters and items that they may produce in place."""
_LONG_NUMBER = re.compile(r"\d{4,}")


class LimitError(Exception):
    """A limit is exceeded: the message for the user."""


class NeedsWorkerError(Exception):
    """The rendering may take long or need much memory."""


class Budget:
    """What is left of the limits, in one rendering."""

    def __init__(self, text: str, *, in_place: bool) -> None:
        self._in_place = in_place
        self._steps = MOST_STEPS
        self._worker_steps = MOST_STEPS - min(STEPS_IN_PLACE, GROWTH_IN_PLACE // (len(text) + 1))
        self._text, self._growth = TEXT_IN_PLACE, GROWTH_IN_PLACE

    def step(self, count: int = 1) -> None:
        """Count passes of a loop, or calls."""
        self._steps -= count
        if self._steps < 0:
            raise LimitError(f"the template needs more than {plural(MOST_STEPS, 'step')}; loop over fewer items")
        if self._in_place and self._steps < self._worker_steps:
            raise NeedsWorkerError

    def before(self, subject: Any, others: Iterable[Any] = ()) -> None:
        """Check an operation on a value, with these arguments: it may repeat them for every character or item."""
        if not self._in_place:
            return
        length = size(subject, TEXT_IN_PLACE)
        factor = 1 + _width(subject) + sum(_factor(other) for other in others)
        self._text -= length
        self._growth -= (1 + length) * factor
        if self._text < 0 or self._growth < 0:
            raise NeedsWorkerError

    def after(self, result: Any) -> Any:
        """The result of an operation, if it is not too large."""
        if isinstance(result, int) and result.bit_length() > MOST_BITS:
            raise LimitError(f"a number has more than {MOST_BITS:,} bits")
        limit = GROWTH_IN_PLACE if self._in_place else LONGEST_VALUE
        if size(result, limit) > limit:
            if self._in_place:
                raise NeedsWorkerError
            raise LimitError(f"a value has more than {LONGEST_VALUE:,} characters or {LONGEST_VALUE // ITEM:,} items")
        return result

    def insert(self, value: Any) -> None:
        """Check a value that is about to be inserted."""
        self.after(value)
        if self._in_place:
            self._growth -= size(value, GROWTH_IN_PLACE)
            if self._growth < 0:
                raise NeedsWorkerError


def refuse_large_power(left: Any, right: Any) -> None:
    """Refuse powers that would take long to compute."""
    if isinstance(left, int) and isinstance(right, int) and left.bit_length() * right > MOST_BITS:
        raise LimitError(f"a number has more than {MOST_BITS:,} bits")


def size(value: Any, limit: int) -> int:
    """Characters and items of a value, nested ones as often as they occur. An item counts as `ITEM` characters.

    Counting stops above `limit`.
    """
    total, left = 0, [value]
    while left and total <= limit:
        item = left.pop()
        if isinstance(item, str | bytes):
            total += len(item)
        elif isinstance(item, Mapping | list | tuple | set | frozenset | range):
            total += ITEM * len(item)
            if total <= limit and not isinstance(item, range):
                left += item
                left += item.values() if isinstance(item, Mapping) else ()
        else:
            total += 1
    return total


def _factor(value: Any) -> int:
    """How many characters or items an argument may add for each one of the value."""
    if isinstance(value, int):
        return abs(value)
    return size(value, GROWTH_IN_PLACE) + _width(value)


def _width(value: Any) -> int:
    """The largest number in a format string, such as the width in `%9999d`."""
    if not isinstance(value, str) or ("%" not in value and "{" not in value):
        return 0
    return max((int(digits[:9]) for digits in _LONG_NUMBER.findall(value)), default=0)
