"""Run a test with increasing deadlines, for tests in which something must happen before a deadline expires."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

Outcome = TypeVar("Outcome")
DEADLINES = (2.0, 8.0, 30.0)
"""Deadlines in seconds. On a busy machine a short one may expire too early; then the next one is used."""


async def patiently(run: Callable[[float], Awaitable[Outcome]], came_so_far: Callable[[Outcome], bool]) -> Outcome:
    """Call `run` with increasing deadlines until `came_so_far` accepts the outcome; returns that outcome."""
    for seconds in DEADLINES[:-1]:
        outcome = await run(seconds)
        if came_so_far(outcome):
            return outcome
    return await run(DEADLINES[-1])
