from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from agentv.errors import ProviderError, ProviderTimeoutError, TargetUnavailableError
from agentv.targets.gate import TargetGate
from agentv.targets.provider import CallHooks, Provider, Reply, Request, Retry, TargetSettings
from tests.targets.support import ask


class Scripted(Provider):
    """A provider that runs scripted steps, one per call; the last step repeats."""

    def __init__(self, *steps: Any) -> None:
        self.steps = list(steps)
        self.calls = 0
        self.closed = 0

    async def invoke(self, request: Request) -> Any:
        step = self.steps[min(self.calls, len(self.steps) - 1)]
        self.calls += 1
        if isinstance(step, BaseException):
            raise step
        if callable(step):
            step = await step()
        return step if step is None or isinstance(step, Reply | int) else Reply.of_text(step)

    async def aclose(self) -> None:
        self.closed += 1


class Time:
    """A clock that advances only during sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def gate(provider: Any, time: Time | None = None, *, jitter: float = 1.0, **settings: Any) -> TargetGate:
    time = time or Time()
    return TargetGate(
        provider,
        TargetSettings(provider="x", **settings),
        name="t",
        sleep=time.sleep,
        jitter=lambda: jitter,
        clock=time.clock,
    )


def down(status: int | None = 503, **details: Any) -> ProviderError:
    return ProviderError("down", status=status, **{"retryable": True, **details})


def blocked() -> tuple[Callable[[], Awaitable[str]], asyncio.Event, list[int]]:
    release, seen, inside = asyncio.Event(), [0], 0

    async def step() -> str:
        nonlocal inside
        inside += 1
        seen[0] = max(seen[0], inside)
        await release.wait()
        inside -= 1
        return "ok"

    return step, release, seen


async def test_a_successful_call_returns_the_reply():
    reply = await gate(Scripted("hi")).invoke(ask())
    assert (reply.text, reply.retries) == ("hi", 0)


async def test_no_more_calls_are_in_flight_than_allowed():
    step, release, seen = blocked()
    provider = Scripted(step)
    limited = gate(provider, max_concurrency=3)
    calls = [asyncio.create_task(limited.invoke(ask())) for _ in range(10)]
    for _ in range(20):
        await asyncio.sleep(0)
    assert provider.calls == 3
    release.set()
    await asyncio.gather(*calls)
    assert (provider.calls, seen) == (10, [3])


async def test_sixteen_calls_are_in_flight_by_default():
    step, release, seen = blocked()
    open_gate = gate(Scripted(step))
    calls = [asyncio.create_task(open_gate.invoke(ask())) for _ in range(40)]
    for _ in range(20):
        await asyncio.sleep(0)
    release.set()
    await asyncio.gather(*calls)
    assert seen == [16]


async def test_retryable_errors_are_retried_with_growing_pauses():
    time, provider = Time(), Scripted(down(), down(429), down(None), "ok")
    reply = await gate(provider, time, max_retries=3).invoke(ask())
    assert (reply.text, reply.retries, provider.calls) == ("ok", 3, 4)
    assert time.slept == [0.5, 1.0, 2.0]


async def test_pauses_have_full_jitter_and_a_ceiling():
    time = Time()
    with pytest.raises(ProviderError):
        await gate(Scripted(down()), time, jitter=0.5, max_retries=9).invoke(ask())
    assert time.slept == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 15.0, 15.0]


async def test_the_settings_of_agentv_shape_the_pauses():
    time = Time()
    settings = {"retryInitialDelayMs": 100.0, "retry_max_delay_ms": 500.0, "retry_backoff_factor": 3.0}
    with pytest.raises(ProviderError):
        await gate(Scripted(down()), time, max_retries=4, **settings).invoke(ask())
    assert time.slept == pytest.approx([0.1, 0.3, 0.5, 0.5])


async def test_the_final_error_reports_the_number_of_attempts():
    provider = Scripted(down())
    with pytest.raises(ProviderError, match=r"down \(after 3 attempts\)") as caught:
        await gate(provider).invoke(ask())
    assert (provider.calls, caught.value.status) == (3, 503)


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (down(429), "Lower `max_concurrency` of the target"),
        (down(500), "Try again later, or raise `max_retries`"),
        (down(None), "Try again later, or raise `max_retries`"),
        (down(500, next_step="Do this."), "Do this."),
        (down(400, retryable=False), ""),
    ],
)
async def test_the_final_error_has_a_next_step(error, advice):
    with pytest.raises(ProviderError) as caught:
        await gate(Scripted(error), max_retries=0).invoke(ask())
    assert advice in (caught.value.next_step or "")


async def test_other_errors_are_not_retried():
    provider = Scripted(down(400, retryable=False))
    with pytest.raises(ProviderError, match=r"^down$"):
        await gate(provider).invoke(ask())
    assert provider.calls == 1


async def test_chosen_status_codes_replace_the_default_but_never_allow_401():
    for status, tries in ((418, 3), (503, 1), (401, 1), (None, 3)):
        provider = Scripted(down(status))
        with pytest.raises(ProviderError):
            await gate(provider, retry_status_codes=[418, 401]).invoke(ask())
        assert provider.calls == tries


async def test_retry_after_is_honoured_up_to_two_minutes():
    time = Time()
    await gate(Scripted(down(429, retry_after=7.0), "ok"), time, jitter=0.0).invoke(ask())
    await gate(Scripted(down(429, retry_after=9999.0), "ok"), time, jitter=0.0).invoke(ask())
    await gate(Scripted(down(429, retry_after=7.0), "ok"), time, jitter=1.0).invoke(ask())
    assert time.slept == [7.0, 120.0, 7.5]


async def test_the_slot_is_free_while_a_call_waits_for_its_retry():
    provider = Scripted(down(), "second caller", "first caller")
    asleep, wake = asyncio.Event(), asyncio.Event()

    async def sleep(_: float) -> None:
        asleep.set()
        await wake.wait()

    narrow = TargetGate(provider, TargetSettings(provider="x", max_concurrency=1), name="t", sleep=sleep)
    first = asyncio.create_task(narrow.invoke(ask()))
    await asleep.wait()
    assert (await narrow.invoke(ask())).text == "second caller"
    wake.set()
    assert (await first).text == "first caller"


async def test_calls_per_minute_are_evenly_spaced_tries_included():
    time, starts = Time(), list[float]()

    async def step() -> str:
        starts.append(time.now)
        if len(starts) == 1:
            raise down(429, retry_after=0.0)
        return "ok"

    paced = gate(Scripted(step), time, jitter=0.0, requests_per_minute=30.0)
    for _ in range(3):
        await paced.invoke(ask())
    assert [start - starts[0] for start in starts] == [0.0, 2.0, 4.0, 6.0]


async def test_a_call_past_its_deadline_is_cancelled_and_not_retried():
    cancelled = asyncio.Event()

    async def hang() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return "never"

    provider = Scripted(hang)
    with pytest.raises(ProviderTimeoutError, match=r"target 't' did not answer within 0.01 s.\n.*not retried"):
        await gate(provider, timeout_seconds=0.01).invoke(ask())
    assert cancelled.is_set()
    assert provider.calls == 1


async def test_waiting_for_a_slot_does_not_count_against_the_deadline(monkeypatch):
    """Three calls of 50 s with a deadline of 60 s; the last waits 100 s for its turn. The loop's clock is advanced."""
    loop, skipped = asyncio.get_running_loop(), 0.0
    real = loop.time
    monkeypatch.setattr(loop, "time", lambda: real() + skipped)

    async def slow() -> str:
        nonlocal skipped
        skipped += 50
        await asyncio.sleep(0.001)
        return "ok"

    narrow = gate(Scripted(slow), max_concurrency=1, timeout_seconds=60)
    replies = await asyncio.gather(*(narrow.invoke(ask()) for _ in range(3)))
    assert [reply.text for reply in replies] == ["ok"] * 3


async def test_a_provider_that_keeps_its_deadline_is_left_to_it():
    class OnTime(Scripted):
        keeps_deadline = True

    async def slow() -> str:
        await asyncio.sleep(0.05)
        return "ok"

    assert (await gate(OnTime(slow), timeout_seconds=0.01).invoke(ask())).text == "ok"


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (KeyError("x"), "its provider crashed: KeyError: 'x'"),
        (TimeoutError("inner"), "its provider crashed: TimeoutError: inner"),
        (SystemExit(1), "its provider crashed: SystemExit: 1"),
        (asyncio.CancelledError(), "its provider crashed: it cancelled its own call"),
        (5, "its provider crashed: `invoke` must return a Reply, got int"),
    ],
)
async def test_whatever_a_provider_does_wrong_is_a_provider_error(step, message):
    provider = Scripted(step)
    with pytest.raises(ProviderError, match=message) as caught:
        await gate(provider, timeout_seconds=5.0).invoke(ask())
    assert not isinstance(caught.value, ProviderTimeoutError)
    assert provider.calls == 1


async def test_agentv_errors_are_not_wrapped():
    with pytest.raises(TargetUnavailableError):
        await gate(Scripted(TargetUnavailableError("t", "why"))).invoke(ask())


async def test_cancelling_a_call_is_a_cancellation():
    step, _, _ = blocked()
    provider = Scripted(step, "ok")
    narrow = gate(provider, max_concurrency=1)
    call = asyncio.create_task(narrow.invoke(ask()))
    while not provider.calls:
        await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (await narrow.invoke(ask())).text == "ok"  # the slot came back


async def test_listeners_hear_of_every_retry():
    heard: list[tuple[str, Retry]] = []
    built = TargetGate(
        Scripted(down(), "ok"),
        TargetSettings(provider="x", retry_initial_delay_ms=0.0),
        name="t",
        on_retry=lambda retry: heard.append(("gate", retry)),
    )
    request = ask("what")
    await built.call(request, CallHooks(on_retry=lambda retry: heard.append(("call", retry))))
    assert [who for who, _ in heard] == ["gate", "call"]
    retry = heard[0][1]
    assert (retry.target, retry.request, retry.tries, retry.error.status) == ("t", request, 1, 503)


async def test_closing_closes_the_provider_once():
    provider = Scripted("ok")
    built = gate(provider)
    await built.aclose()
    await built.aclose()
    assert provider.closed == 1
