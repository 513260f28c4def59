"""What calls wait for, as the progress of a run reports it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from agentv.errors import ProviderError
from agentv.targets.gate import TargetGate
from agentv.targets.provider import Provider, Reply, Request, TargetSettings
from agentv.targets.waits import Waits
from tests.targets.support import ask
from tests.targets.virtual import VirtualTime


class Held(Provider):
    """Answers one call per item in `places`."""

    def __init__(self) -> None:
        self.places: asyncio.Queue[None] = asyncio.Queue()

    async def invoke(self, request: Request) -> Reply:
        await self.places.get()
        return Reply.of_text("ok")


class Throttling(Provider):
    async def invoke(self, request: Request) -> Reply:
        raise ProviderError("slow down", retryable=True, status=429, retry_after=12.0)


class Watched:
    """A gate with a clock of its own, and what is reported about it."""

    def __init__(self, provider: Provider, **settings: Any) -> None:
        self.time = VirtualTime()
        self.gate = TargetGate(
            provider,
            TargetSettings(provider="x", **settings),
            name="gpt",
            sleep=self.time.sleep,
            clock=self.time.clock,
            jitter=lambda: 0.0,
        )
        self._waits = Waits(lambda: [self.gate], self.time.clock)
        self._calls: list[asyncio.Task[Reply]] = []

    async def call(self, count: int, **changes: Any) -> None:
        self._calls += [asyncio.create_task(self.gate.invoke(replace(ask(), **changes))) for _ in range(count)]
        await self.time.settle()

    def after(self, seconds: float) -> str:
        for _ in range(int(seconds)):
            self.time.now += 1.0
            text = self._waits.describe()
        return text

    async def close(self) -> None:
        for call in self._calls:
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)


async def test_queue_is_reported_when_its_first_call_has_waited_for_a_moment() -> None:
    provider = Held()
    watched = Watched(provider, max_concurrency=1)
    await watched.call(4, evaluator="precision")
    assert watched.after(1) == ""
    assert watched.after(2) == "waiting for judge 'gpt' (1 at a time, 3 calls queued)"
    await watched.call(1)
    provider.places.put_nowait(None)
    await watched.time.settle()
    assert watched.after(1) == "waiting for target 'gpt' (1 at a time, 3 calls queued)"
    for _ in range(3):
        provider.places.put_nowait(None)
    await watched.time.settle()
    await watched.call(1)
    assert watched.after(1) == ""  # the calls that waited for long have started
    await watched.close()


async def test_rate_limit_and_pause_are_reported() -> None:
    limited = Watched(Held(), requests_per_minute=2)
    await limited.call(2)
    assert limited.after(3) == "waiting for target 'gpt' (2 calls per minute, 1 call queued)"
    await limited.close()
    throttled = Watched(Throttling())
    await throttled.call(1)
    assert throttled.after(1) == "target 'gpt' asked to wait: next call in 11 s"
    await throttled.call(2)
    assert throttled.after(4) == "target 'gpt' asked to wait: next call in 7 s (2 calls queued)"
    await throttled.close()


@pytest.mark.parametrize("settings", [{}, {"max_concurrency": 1}])
async def test_calls_that_start_immediately_are_not_reported(settings: dict[str, Any]) -> None:
    watched = Watched(Held(), **settings)
    await watched.call(1)
    assert watched.after(10) == ""
    await watched.close()
