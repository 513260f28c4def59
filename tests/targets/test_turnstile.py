"""Properties of a gate that hold for any mix of arrivals, failures and cancellations."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agentv.errors import ProviderError
from agentv.targets.gate import TargetGate
from agentv.targets.provider import Provider, Reply, Request, TargetSettings
from agentv.targets.turnstile import LATEST, Turnstile
from tests.targets.support import ask
from tests.targets.virtual import VirtualTime


@dataclass(frozen=True)
class Call:
    """One call: its arrival, its attempts (seconds, status, Retry-After), and when it is cancelled."""

    comes: float
    tries: tuple[tuple[float, int, float | None], ...]
    cancelled: float | None


tenths = st.integers(0, 40).map(lambda number: number / 10)
tries = st.tuples(tenths, st.sampled_from([200, 200, 429, 500, 503, 400]), st.none() | tenths)
calls = st.builds(Call, tenths, st.lists(tries, min_size=1, max_size=4).map(tuple), st.none() | tenths)


class Watching(Provider):
    """Runs the scripted calls and records every violated property."""

    def __init__(self, time: VirtualTime, script: list[Call], limit: int) -> None:
        self.time, self.script, self.limit = time, script, limit
        self.closed_until = 0.0
        self.inside = 0
        self.made = [0] * len(script)
        self.first_starts: list[int] = []
        self.starts: list[float] = []
        self.broken: list[str] = []

    async def invoke(self, request: Request) -> Reply:
        number = int(request.question)
        todo = self.script[number].tries
        seconds, status, retry_after = todo[min(self.made[number], len(todo) - 1)]
        if self.made[number] == 0:
            self.first_starts.append(number)
        self.made[number] += 1
        self.starts.append(self.time.now)
        self.inside += 1
        if self.inside > self.limit:
            self.broken.append(f"{self.inside} in flight")
        if self.time.now < self.closed_until:
            self.broken.append(f"{number} started at {self.time.now}, in the pause until {self.closed_until}")
        try:
            await self.time.sleep(seconds)
        finally:
            self.inside -= 1
        if status == 200:
            return Reply.of_text("ok")
        if (status == 429 or status == 503) and retry_after is not None:
            self.closed_until = max(self.closed_until, self.time.now + retry_after)
        raise ProviderError("no", status=status, retryable=status != 400, retry_after=retry_after)


async def play(script: list[Call], limit: int, per_minute: float | None) -> Watching:
    time = VirtualTime()
    server = Watching(time, script, limit)
    gate = TargetGate(
        server,
        TargetSettings(provider="x", max_concurrency=limit, requests_per_minute=per_minute),
        name="t",
        sleep=time.sleep,
        jitter=lambda: 0.5,
        clock=time.clock,
    )
    running: dict[int, asyncio.Task[Reply]] = {}
    arrivals = sorted(range(len(script)), key=lambda number: (script[number].comes, number))
    moments = [(script[number].comes, 0, number) for number in arrivals]
    moments += [(call.cancelled + call.comes, 1, n) for n, call in enumerate(script) if call.cancelled is not None]
    for moment, cancels, number in sorted(moments):
        await time.pass_until(1000.0 + moment)
        if cancels:
            running[number].cancel()
        else:
            running[number] = asyncio.create_task(gate.invoke(ask(str(number))))
    await time.run_out()
    for number, task in running.items():
        if not task.done():
            server.broken.append(f"{number} hangs")
    places: Turnstile = gate._turnstile
    if places.inside or places._queue:
        server.broken.append(f"{places.inside} places lost, {len(places._queue)} still in line")
    if not 1 <= places.window <= limit:
        server.broken.append(f"window {places.window}")
    order = {number: place for place, number in enumerate(arrivals)}
    if server.first_starts != sorted(server.first_starts, key=order.__getitem__):
        server.broken.append(f"started in the order {server.first_starts}, came in {arrivals}")
    await asyncio.gather(*running.values(), return_exceptions=True)
    await asyncio.sleep(0)
    if left := asyncio.all_tasks() - {asyncio.current_task()}:
        server.broken.append(f"tasks left: {left}")
    return server


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(calls, min_size=1, max_size=12), st.integers(1, 4), st.none() | st.sampled_from([30.0, 120.0, 600.0]))
@example(
    [Call(0.0, ((1.0, 200, None),), None), Call(0.0, ((1.0, 429, 3.0),), None), Call(0.0, ((0.0, 200, None),), None)],
    2,
    None,
)
@example(
    [Call(0.0, ((1.0, 429, 3.0),), 2.0), Call(0.5, ((1.0, 200, None),), 1.0), Call(0.6, ((1.0, 200, None),), None)],
    1,
    30.0,
)
def test_no_promise_is_broken_whatever_happens(script, limit, per_minute):
    server = asyncio.run(play(script, limit, per_minute))
    assert server.broken == []
    if per_minute is not None:
        interval = 60.0 / per_minute
        for first, start in enumerate(server.starts):
            for later in range(first + 1, len(server.starts)):
                assert server.starts[later] - start >= (later - first) * interval - LATEST - 1e-6


async def test_a_start_that_is_a_little_late_does_not_slow_down_those_after_it():
    class LateTime(VirtualTime):
        async def sleep(self, seconds: float) -> None:
            await super().sleep(seconds + 0.01)

    time, starts = LateTime(), list[float]()

    class Server(Provider):
        async def invoke(self, request: Request) -> Reply:
            starts.append(time.now - 1000.0)
            return Reply.of_text("ok")

    limits = TargetSettings(provider="x", requests_per_minute=60.0)
    gate = TargetGate(Server(), limits, name="t", sleep=time.sleep, clock=time.clock)
    running = [asyncio.create_task(gate.invoke(ask())) for _ in range(101)]
    await time.run_out()
    await asyncio.gather(*running)
    assert len(starts) == 101
    assert round(starts[-1] - starts[0], 6) == 100.01


async def test_a_call_cancelled_when_it_has_just_been_let_in_gives_its_place_to_the_next():
    time = VirtualTime()
    turnstile = Turnstile(1, sleep=time.sleep, clock=time.clock)
    entered = await turnstile.enter(turnstile.ticket())
    second, third = (asyncio.create_task(turnstile.enter(turnstile.ticket())) for _ in range(2))
    await time.settle()
    turnstile.leave(entered, well=True)
    second.cancel()
    await time.settle()
    assert (second.cancelled(), third.done(), turnstile.inside) == (True, True, 1)
