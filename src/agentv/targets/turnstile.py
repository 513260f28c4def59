"""Who may start a call to a target: in order of arrival, so many at once, so many a minute, nobody during a pause.

A target that says "too many requests" closes the turnstile for everyone until its pause is over, and halves how many
may be inside at once. Calls that go well open it again, one place after each full round of them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

LATEST = 0.05
"""Seconds by which a start may miss its beat without moving the beats after it: how late an event loop wakes."""

Waiter = tuple[int, asyncio.Future[None]]


class Turnstile:
    """Places at one target. `enter` takes one, `leave` gives it back."""

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
        """How many may be inside now; between 1 and `places`."""
        self.inside = 0
        self._interval, self._sleep, self._clock = interval, sleep, clock
        self._next_start = self._paused_until = float("-inf")
        self._round = 0
        """Grows with every cut of the window: calls that began before it say nothing about the new one."""
        self._went_well = 0
        self._tickets = 0
        self._queue: deque[Waiter] = deque()
        self._timer: asyncio.Task[None] | None = None

    def ticket(self) -> int:
        """A place in the order of arrival. A call keeps it for all its tries."""
        self._tickets += 1
        return self._tickets

    @property
    def paused_until(self) -> float:
        """Nobody starts before this time of the clock."""
        return self._paused_until

    async def enter(self, ticket: int) -> int:
        """Wait for a place and take it. Gives what `leave` and `pause` want to know."""
        if not self._queue and self.inside < self.window and self._closed_for() <= 0:
            self._admit_one()
            return self._round
        while True:
            waiter: Waiter = (ticket, asyncio.get_running_loop().create_future())
            self._line_up(waiter)
            self._admit()
            try:
                await waiter[1]
            except asyncio.CancelledError:
                if waiter[1].cancelled():
                    self._drop(waiter)
                else:  # it had just been let in
                    self._give_back()
                raise
            if self._paused_until <= self._clock():
                return self._round
            self._give_back()  # a pause began between the nod and the step

    @property
    def keeps_time(self) -> bool:
        """Whether calls start at a given rate."""
        return self._interval > 0

    async def start_another(self) -> None:
        """Wait until who is inside may send a second request. Its beat is taken at once: nobody else starts on it."""
        now = self._clock()
        start = max(now, self._next_start, self._paused_until)
        self._next_start = start + self._interval
        if start > now:
            await self._sleep(start - now)

    def leave(self, entered: int, *, well: bool) -> None:
        """Give the place back. `well` is whether the target answered."""
        if well and self.window < self.places and entered == self._round:
            self._went_well += 1
            if self._went_well >= self.window:
                self.window += 1
                self._went_well = 0
        self._give_back()

    def pause(self, entered: int, seconds: float) -> None:
        """The target is throttling: nobody starts for so long, and then fewer at once. Many calls that are refused
        together are one reason to cut, not many."""
        self._paused_until = max(self._paused_until, self._clock() + seconds)
        if entered == self._round:
            self.window = max(1, self.window // 2)
            self._round += 1
            self._went_well = 0

    # -- the line

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
        """Let in who may go in now; when only the time is missing, see to it that somebody looks again."""
        while self._queue and self.inside < self.window:
            if self._closed_for() > 0:
                if self._timer is None or self._timer.done():
                    self._timer = asyncio.get_running_loop().create_task(self._watch())
                return
            _, waiting = self._queue.popleft()
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
