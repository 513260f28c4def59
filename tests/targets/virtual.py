"""Virtual time, which passes only when all tasks wait: tests of minutes run instantly and deterministically."""

from __future__ import annotations

import asyncio
import heapq
import itertools


class VirtualTime:
    """`clock` and `sleep` for the code under test; `run_out` advances time until no sleeper is left."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now + seconds, next(self._order), woken))
        await woken

    async def settle(self) -> None:
        """Run all tasks that can continue without time passing."""
        for _ in range(12):
            await asyncio.sleep(0)

    async def pass_until(self, when: float) -> None:
        """Advance time to a moment and run all tasks that are due by then."""
        await self.settle()
        while self._sleepers and self._sleepers[0][0] <= when:
            self.now = max(self.now, self._sleepers[0][0])
            while self._sleepers and self._sleepers[0][0] <= self.now:
                _, _, woken = heapq.heappop(self._sleepers)
                if not woken.done():
                    woken.set_result(None)
            await self.settle()
        self.now = max(self.now, when)

    async def run_out(self) -> None:
        await self.settle()
        while self._sleepers:
            await self.pass_until(self._sleepers[0][0])
