"""The time a script may take. It does not pass while a judge call of the script waits for a place at the judge."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Self

LEASE_SECONDS = 10.0
"""How much longer than its own time a script with waiting calls may run if the runtime is stopped (SIGSTOP)."""


class WaitingTime:
    """How long at least one call has been waiting. Calls that wait at the same time count once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.calls = 0
        """Number of calls that are waiting now."""
        self.on_change: Callable[[], None] | None = None
        """Called when the first call starts to wait, and when no call waits any more."""
        self._clock = clock
        self._before = self._since = 0.0

    @property
    def seconds(self) -> float:
        return self._before + (self._clock() - self._since if self.calls else 0.0)

    def begin(self) -> None:
        if self.calls == 0:
            self._since = self._clock()
        self.calls += 1
        if self.calls == 1 and self.on_change is not None:
            self.on_change()

    def end(self) -> None:
        if self.calls == 1:
            self._before = self.seconds
        self.calls -= 1
        if self.calls == 0 and self.on_change is not None:
            self.on_change()


class ScriptTime:
    """The deadline of one execution: `seconds` from now, plus the time that its judge calls wait.

    The supervisor kills the script at the last deadline that was sent with `order`, even if the runtime is stopped. So
    while calls wait, it is sent deadlines slightly ahead, again and again, instead of none. `on_late` is called when
    the time is up. Leaving `with` stops watching the time.
    """

    def __init__(
        self,
        seconds: float | None,
        waiting: WaitingTime | None = None,
        *,
        on_late: Callable[[], None],
        order: Callable[[float], None] | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting = waiting or WaitingTime()
        self._on_late, self._order = on_late, order
        self._end = 0.0
        """The deadline without the time that calls waited; 0 for none."""
        self.ordered = 0.0
        """The deadline that the supervisor must know; 0 for none."""
        self._timer: asyncio.TimerHandle | None = None
        if seconds is not None:
            self.ordered = time.monotonic() + seconds
            self._end = self.ordered - self._waiting.seconds
            self._waiting.on_change = self._look
            self._look()

    @property
    def deadline(self) -> float:
        """The current deadline on the monotonic clock; 0 for none. It moves while a call waits."""
        return self._end + self._waiting.seconds if self._end else 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._waiting.on_change = None

    def _look(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now, deadline, waits = time.monotonic(), self.deadline, self._waiting.calls > 0
        if deadline <= now and not waits:
            self._waiting.on_change = None
            self._on_late()
            return
        ends = deadline + LEASE_SECONDS if waits else deadline
        # An order for every short wait would cost more than it is worth; the supervisor must only know in time.
        if self.ordered > ends or (self.ordered < ends and self.ordered - now < LEASE_SECONDS):
            self.ordered = ends
            if self._order is not None:
                self._order(ends)
        next_look = self.ordered - LEASE_SECONDS / 2 if waits or self.ordered < deadline else deadline
        self._timer = self._loop.call_later(next_look - now, self._look)
