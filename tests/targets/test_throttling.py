"""When a target is rate limiting, all calls pause and then fewer run in parallel."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from agentv.errors import ProviderError, ProviderTimeoutError
from agentv.targets.gate import TargetGate
from agentv.targets.provider import Provider, Reply, Request, TargetSettings
from tests.targets.support import ask
from tests.targets.virtual import VirtualTime


def throttled(retry_after: float | None = None, status: int = 429, **details: Any) -> ProviderError:
    return ProviderError("slow down", status=status, retry_after=retry_after, **{"retryable": True, **details})


class Server(Provider):
    """Takes a second per call. `answers` returns the error of call number n (from 0), or None for a reply."""

    def __init__(self, time: VirtualTime, answers: Callable[[int], ProviderError | None]) -> None:
        self.time, self.answers = time, answers
        self.starts: list[tuple[float, str]] = []
        self.inside = self.most = 0

    async def invoke(self, request: Request) -> Reply:
        number = len(self.starts)
        self.starts.append((self.time.now - 1000.0, request.question))
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            await self.time.sleep(1.0)
            if (error := self.answers(number)) is not None:
                raise error
        finally:
            self.inside -= 1
        return Reply.of_text(request.question)


class Crowd:
    """Calls to one gate and their outcomes."""

    def __init__(self, answers: Callable[[int], ProviderError | None], *, jitter: float = 0.0, **settings: Any) -> None:
        self.time = VirtualTime()
        self.server = Server(self.time, answers)
        self.gate = TargetGate(
            self.server,
            TargetSettings(provider="x", **settings),
            name="t",
            sleep=self.time.sleep,
            jitter=lambda: jitter,
            clock=self.time.clock,
        )
        self.calls: list[asyncio.Task[Reply]] = []

    def call(self, *names: str) -> None:
        self.calls += [asyncio.create_task(self.gate.invoke(ask(name))) for name in names]

    async def outcome(self) -> list[Reply | BaseException]:
        await self.time.run_out()
        assert all(call.done() for call in self.calls)
        return await asyncio.gather(*self.calls, return_exceptions=True)


def only_first(error: ProviderError) -> Callable[[int], ProviderError | None]:
    return lambda number: error if number == 0 else None


async def test_no_call_starts_before_the_retry_after_of_another_has_passed():
    crowd = Crowd(only_first(throttled(30.0)), max_concurrency=1)
    crowd.call("a", "b", "c")
    replies = await crowd.outcome()
    assert crowd.server.starts == [(0.0, "a"), (31.0, "a"), (32.0, "b"), (33.0, "c")]
    assert [getattr(reply, "retries", None) for reply in replies] == [1, 0, 0]


async def test_calls_that_arrive_during_a_pause_wait_for_its_end():
    crowd = Crowd(only_first(throttled(30.0)), max_concurrency=8)
    crowd.call("a")
    await crowd.time.pass_until(1010.0)
    crowd.call("late")
    await crowd.outcome()
    assert [start for start, _ in crowd.server.starts] == [0.0, 31.0, 31.0]


async def test_without_a_time_from_the_server_the_back_off_is_everybodys_pause():
    crowd = Crowd(only_first(throttled()), jitter=0.5, max_concurrency=1, retry_initial_delay_ms=8000.0)
    crowd.call("a", "b")
    await crowd.outcome()
    assert crowd.server.starts == [(0.0, "a"), (5.0, "a"), (6.0, "b")]


@pytest.mark.parametrize(
    ("error", "pauses"),
    [
        (throttled(30.0, 503), True),
        (throttled(None, 503), False),
        (throttled(30.0, 500), False),
        (throttled(30.0, 429, retryable=False), False),  # a quota used up: waiting does not help
    ],
)
async def test_what_counts_as_throttling(error, pauses):
    crowd = Crowd(only_first(error), max_concurrency=1, max_retries=0)
    crowd.call("a", "b")
    await crowd.outcome()
    assert crowd.server.starts[1] == (31.0 if pauses else 1.0, "b")


async def test_a_rate_limited_call_without_retries_still_pauses_the_others():
    crowd = Crowd(only_first(throttled(30.0)), max_concurrency=1, retry_status_codes=[500])
    crowd.call("a", "b")
    first, second = await crowd.outcome()
    assert isinstance(first, ProviderError)
    assert isinstance(second, Reply)
    assert crowd.server.starts == [(0.0, "a"), (31.0, "b")]


async def test_calls_rejected_together_halve_the_concurrency_once():
    crowd = Crowd(lambda number: throttled(10.0) if number < 8 else None, max_concurrency=8)
    crowd.call(*"abcdefgh")
    await crowd.outcome()
    at_once = [start for start, _ in crowd.server.starts].count(11.0)
    assert (crowd.server.most, at_once) == (8, 4)


async def test_repeated_rejections_lower_the_concurrency_to_one_but_not_below():
    crowd = Crowd(lambda number: throttled(10.0) if number < 40 else None, max_concurrency=8, max_retries=100)
    crowd.call(*"abcdefgh")
    replies = await crowd.outcome()
    starts = [start for start, _ in crowd.server.starts]
    assert [starts.count(moment) for moment in (0.0, 11.0, 22.0, 33.0, 44.0)] == [8, 4, 2, 1, 1]
    assert all(isinstance(reply, Reply) for reply in replies)


async def test_each_round_of_successful_calls_raises_the_concurrency_up_to_the_limit():
    crowd = Crowd(lambda number: throttled(10.0) if number < 4 else None, max_concurrency=4)
    crowd.call(*(f"call {number}" for number in range(40)))
    await crowd.outcome()
    starts = [start for start, _ in crowd.server.starts]
    assert [starts.count(moment) for moment in (0.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0)] == [4, 2, 3, 4, 4, 4, 4]
    assert crowd.server.most == 4


async def test_calls_start_in_the_order_they_came_and_a_retry_keeps_its_place():
    crowd = Crowd(only_first(throttled(5.0)), max_concurrency=1)
    crowd.call(*"abcdef")
    await crowd.outcome()
    assert "".join(name for _, name in crowd.server.starts) == "aabcdef"


async def test_a_call_let_in_at_the_very_moment_a_pause_begins_waits_it_out():
    # Both of the first two end at 1 s: the first frees a slot for "c", the second is rate limited.
    crowd = Crowd(lambda number: throttled(20.0) if number == 1 else None, max_concurrency=2, max_retries=0)
    crowd.call("a", "b", "c", "d")
    await crowd.outcome()
    assert crowd.server.starts == [(0.0, "a"), (0.0, "b"), (21.0, "c"), (22.0, "d")]


async def test_cancelling_all_waiting_calls_leaves_nothing_behind():
    crowd = Crowd(only_first(throttled(60.0)), max_concurrency=2)
    crowd.call("a")
    await crowd.time.pass_until(1002.0)
    crowd.call("b", "c")
    await crowd.time.settle()
    before = asyncio.all_tasks()
    for call in crowd.calls:
        call.cancel()
    await asyncio.gather(*crowd.calls, return_exceptions=True)
    await crowd.time.settle()
    assert len(before) > 1
    assert asyncio.all_tasks() == {asyncio.current_task()}  # no timer is left behind
    await crowd.time.pass_until(1100.0)
    crowd.calls.clear()
    crowd.call("d")
    assert [getattr(reply, "text", None) for reply in await crowd.outcome()] == ["d"]


# -- the whole call


async def test_a_retry_that_cannot_start_in_time_fails_immediately():
    crowd = Crowd(only_first(throttled(30.0)), total_timeout_seconds=20.0)
    crowd.call("a")
    (error,) = await crowd.outcome()
    assert str(error).startswith(
        "slow down (after 1 attempt; another could not start within `total_timeout_seconds` (20 s)).\n"
        "Lower `max_concurrency`"
    )
    assert crowd.time.now == 1001.0


async def test_pauses_caused_by_other_calls_count_towards_the_total_timeout():
    crowd = Crowd(
        lambda number: throttled(30.0) if number == 1 else throttled(None, 500),
        jitter=1.0,
        retry_initial_delay_ms=4000.0,
        total_timeout_seconds=20.0,
    )
    crowd.call("a")
    await crowd.time.pass_until(1000.5)
    crowd.call("b")
    errors = await crowd.outcome()
    assert [str(error)[:30] for error in errors] == ["slow down (after 1 attempt; another"[:30]] * 2
    assert crowd.time.now == 1005.0


async def test_the_total_timeout_covers_all_attempts_but_not_the_wait_for_the_first():
    crowd = Crowd(lambda number: throttled(2.0, 500), max_concurrency=1, max_retries=100, total_timeout_seconds=8.0)
    crowd.call("a", "b", "c")
    errors = await crowd.outcome()
    tries = {name: sum(1 for _, who in crowd.server.starts if who == name) for name in "abc"}
    assert all(isinstance(error, ProviderError) for error in errors)
    assert min(tries.values()) >= 2


async def test_an_attempt_in_flight_is_cancelled_at_the_total_timeout():
    class Silent(Provider):
        async def invoke(self, request: Request) -> Reply:
            await asyncio.Event().wait()
            raise AssertionError

    gate = TargetGate(Silent(), TargetSettings(provider="x", total_timeout_seconds=0.05), name="t")
    with pytest.raises(
        ProviderTimeoutError, match=r"'t' did not answer within 0.05 s, including all attempts.\nRaise `total"
    ):
        await gate.invoke(ask())


async def test_a_retry_without_a_slot_in_time_raises_the_last_error():
    class Busy(Provider):
        async def invoke(self, request: Request) -> Reply:
            if request.question == "first":
                raise throttled(None, 500)
            await asyncio.Event().wait()
            raise AssertionError

    settings = TargetSettings(provider="x", max_concurrency=1, total_timeout_seconds=0.2, retry_initial_delay_ms=0.0)
    narrow = TargetGate(Busy(), settings, name="t")
    first = asyncio.create_task(narrow.invoke(ask("first")))
    second = asyncio.create_task(narrow.invoke(ask("second")))
    with pytest.raises(ProviderError, match=r"another could not start within `total_timeout_seconds` \(0.2 s\)"):
        await first
    with pytest.raises(ProviderTimeoutError):
        await second
