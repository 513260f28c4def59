"""Decides when a call to a target may start: in order of arrival, within the limits on concurrency and rate.

When a target answers "too many requests", no call starts until the pause is over, and the concurrency is halved. It
grows again by one after each full round of successful calls.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

LATEST = 0.05
"""Seconds a start may be late without delaying those after it. Event loops wake up slightly late."""

Waiter = tuple[int, asyncio.Future[None], bool]
"""The ticket of a waiting call, what wakes it, and whether it is a call to a judge."""


class Turnstile:
    """The concurrency slots of one target. `enter` takes one, `leave` releases it."""

    def __init__(
        self,
        places: int,
        *,
        interval: float = 0.0,
        sleep: Callable[[float], Awaitable[object]],
        clock: Callable[[], float],
    ) -> None:
        self.places = places
        self.window = places
        """The current concurrency limit, between 1 and `places`."""
        self.inside = 0
        self._interval, self._sleep, self._clock = interval, sleep, clock
        self._next_start = self._paused_until = float("-inf")
        self._round = 0
        """Incremented whenever the window shrinks. Calls that started before that say nothing about the new window."""
        self._went_well = 0
        self._tickets = 0
        self._queue: deque[Waiter] = deque()
        self._timer: asyncio.Task[None] | None = None

    def ticket(self) -> int:
        """A position in the order of arrival. A call keeps it for all its attempts."""
        self._tickets += 1
        return self._tickets

    @property
    def latest_ticket(self) -> int:
        return self._tickets

    @property
    def queue(self) -> tuple[int, int, int]:
        """The ticket of the first waiting call (0 for none), the number of waiting calls, and how many call a judge."""
        if not self._queue:
            return 0, 0, 0
        return self._queue[0][0], len(self._queue), sum(judging for _, _, judging in self._queue)

    @property
    def paused_until(self) -> float:
        """The time on the clock before which no call starts."""
        return self._paused_until

    def enter_now(self) -> int | None:
        """Take a slot if one is free and no call waits. Returns what `enter` returns, or None."""
        if not self._queue and self.inside < self.window and self._closed_for() <= 0:
            self._admit_one()
            return self._round
        return None

    async def enter(self, ticket: int, *, judging: bool = False) -> int:
        """Wait for a slot and take it. Returns the value to pass to `leave` and `pause`."""
        entered = self.enter_now()
        if entered is not None:
            return entered
        while True:
            waiter: Waiter = (ticket, asyncio.get_running_loop().create_future(), judging)
            self._line_up(waiter)
            self._admit()
            try:
                await waiter[1]
            except asyncio.CancelledError:
                if waiter[1].cancelled():
                    self._drop(waiter)
                else:  # the slot had already been granted
                    self._give_back()
                raise
            if self._paused_until <= self._clock():
                return self._round
            self._give_back()  # a pause started after we were woken and before we ran

    @property
    def keeps_time(self) -> bool:
        """Whether the rate of calls is limited."""
        return self._interval > 0

    async def start_another(self) -> None:
        """Wait until a call that has a slot may send a second request. Its start time is reserved immediately."""
        now = self._clock()
        start = max(now, self._next_start, self._paused_until)
        self._next_start = start + self._interval
        if start > now:
            await self._sleep(start - now)

    def leave(self, entered: int, *, well: bool) -> None:
        """Release the slot. `well` is whether the target answered."""
        if well and self.window < self.places and entered == self._round:
            self._went_well += 1
            if self._went_well >= self.window:
                self.window += 1
                self._went_well = 0
        self._give_back()

    def pause(self, entered: int, seconds: float) -> None:
        """Start no call for this many seconds and then allow fewer in parallel: the target is rate limiting.

        Calls that were in flight together and are all rejected shrink the window only once.
        """
        self._paused_until = max(self._paused_until, self._clock() + seconds)
        if entered == self._round:
            self.window = max(1, self.window // 2)
            self._round += 1
            self._went_well = 0

    # -- the queue

    def _line_up(self, waiter: Waiter) -> None:
        at = len(self._queue)
        while at and self._queue[at - 1][0] > waiter[0]:
            at -= 1
        self._queue.insert(at, waiter)

    def _drop(self, waiter: Waiter) -> None:
        if waiter in self._queue:
            self._queue.remove(waiter)
        if self._timer is not None and not self._queue:
            self._timer.cancel()
            self._timer = None

    def _give_back(self) -> None:
        self.inside -= 1
        if self._queue:
            self._admit()

    def _admit(self) -> None:
        """Start the calls that may start now. If only the rate or a pause holds them up, schedule another check."""
        while self._queue and self.inside < self.window:
            if self._closed_for() > 0:
                if self._timer is None or self._timer.done():
                    self._timer = asyncio.get_running_loop().create_task(self._watch())
                return
            _, waiting, _ = self._queue.popleft()
            if not waiting.done():
                self._admit_one()
                waiting.set_result(None)

    async def _watch(self) -> None:
        while self._queue and self.inside < self.window:
            seconds = self._closed_for()
            if seconds > 0:
                await self._sleep(seconds)
            else:
                self._admit()
        self._timer = None

    def _admit_one(self) -> None:
        self.inside += 1
        if self._interval:
            now = self._clock()
            on_beat = now - self._next_start <= min(LATEST, self._interval / 2)
            self._next_start = (self._next_start if on_beat else now) + self._interval

    def _closed_for(self) -> float:
        return max(self._next_start, self._paused_until) - self._clock()
