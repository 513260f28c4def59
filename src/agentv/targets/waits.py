"""Reports what the calls of a run are waiting for. The queues are looked at from outside, so calls pay nothing."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

from agentv.targets.gate import TargetGate
from agentv.text import plural

LOOK_SECONDS = 1.0
LONG_SECONDS = 2.0
"""A queue is reported when its first call has waited for this long, and a pause when it lasts at least this long."""

OnWaiting = Callable[[str], None]
"""Called with what the run waits for, again and again while it does; with an empty string when it no longer does."""


class Waits:
    """Describes the queues of gates whose first call has been waiting for more than a moment."""

    def __init__(self, gates: Callable[[], Iterable[TargetGate]], clock: Callable[[], float] = time.monotonic) -> None:
        self._gates, self._clock = gates, clock
        self._seen: dict[TargetGate, deque[tuple[float, int]]] = {}
        """For each gate, the latest tickets at the last few times. A call with such a ticket is older than that."""

    def describe(self) -> str:
        """Like `waiting for judge 'gpt' (1 at a time, 12 calls queued)`; empty if no call waits for long."""
        now = self._clock()
        lines = []
        for gate in self._gates():
            seen = self._seen.setdefault(gate, deque(maxlen=int(LONG_SECONDS / LOOK_SECONDS) + 1))
            first, calls, judging = gate.queue
            paused = gate.paused_for
            if paused >= LONG_SECONDS:
                queued = f" ({plural(calls, 'call')} queued)" if calls else ""
                lines.append(f"target '{gate.name}' asked to wait: next call in {paused:.0f} s{queued}")
            elif calls and any(first <= ticket and now - at >= LONG_SECONDS for at, ticket in seen):
                kind = "judge" if judging == calls else "target"
                lines.append(f"waiting for {kind} '{gate.name}' ({gate.limit}, {plural(calls, 'call')} queued)")
            seen.append((now, gate.latest_ticket))
        return "; ".join(lines)


@asynccontextmanager
async def reported_waits(
    gates: Callable[[], Iterable[TargetGate]], on_waiting: OnWaiting | None
) -> AsyncIterator[None]:
    """Report every second what calls are waiting for, until the block is left."""
    if on_waiting is None:
        yield
        return
    waits = Waits(gates)

    async def watch(report: OnWaiting) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            report(waits.describe())

    watching = asyncio.create_task(watch(on_waiting))
    try:
        yield
    finally:
        watching.cancel()
