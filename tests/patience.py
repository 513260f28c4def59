"""Deadlines that are to pass after something has happened, on a machine that may be busy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

Outcome = TypeVar("Outcome")
DEADLINES = (2.0, 8.0, 30.0)
"""Seconds. A longer one is tried when the time before was over too early for what a test is about."""


async def patiently(run: Callable[[float], Awaitable[Outcome]], came_so_far: Callable[[Outcome], bool]) -> Outcome:
    """What `run` gives with the first of the deadlines that leaves it the time to come as far as it must."""
    for seconds in DEADLINES[:-1]:
        outcome = await run(seconds)
        if came_so_far(outcome):
            return outcome
    return await run(DEADLINES[-1])
