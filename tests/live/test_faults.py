"""Replies of real servers, corrupted in transit: every call ends in an answer or an error with the cause."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from agentv.errors import ProviderError, ProviderTimeoutError
from agentv.targets.gate import TargetGate
from agentv.targets.provider import TargetSettings
from agentv.testing.fault_proxy import (
    Fault,
    FaultProxy,
    answer,
    cut,
    drip,
    flood,
    hang_up,
    pass_on,
    reset,
    silence,
    silence_after_head,
    spoil,
)
from tests.live import targets
from tests.live.servers import ANSWER, QUESTION, LiveServer
from tests.targets.support import ask, make

RETRY_NOW = {"Retry-After": "0.01"}
QUICK: dict[str, Any] = {"retry_initial_delay_ms": 1.0, "retry_max_delay_ms": 1.0}


@asynccontextmanager
async def gate(proxy: FaultProxy, name: str = "openai", **limits: Any) -> AsyncIterator[TargetGate]:
    """A target with its server behind the fault proxy."""
    chosen = {**targets.settings(name, proxy.url), "timeout_seconds": 30.0, **QUICK, **limits}
    scope = {"environment": {**os.environ, **targets.ENVIRONMENT}}
    provider = make(Path.cwd(), chosen.pop("provider"), scope=scope, **chosen)
    shared = {key: value for key, value in chosen.items() if key in TargetSettings.model_fields}
    built = TargetGate(provider, TargetSettings(provider="x", **shared), name="t")
    try:
        yield built
    finally:
        await built.aclose()


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in targets.ENVIRONMENT.items():
        monkeypatch.setenv(variable, value)


LIBRARIES = [
    pytest.param(name, marks=pytest.mark.skipif(find_spec(module.partition(".")[0]) is None, reason=f"no {module}"))
    for name, module in targets.LIBRARIES.items()
]


PASSING: list[tuple[str, Sequence[Fault]]] = [
    ("429 with Retry-After", [answer(429, b'{"error": {"message": "slow"}}', headers=RETRY_NOW)]),
    ("503 with Retry-After", [answer(503, b"busy", headers=RETRY_NOW)]),
    ("500 twice", [answer(500, b"oops"), answer(502, b"<html>Bad gateway</html>")]),
    ("reset before the head", [reset]),
    ("closed before the head", [hang_up]),
    ("reset in the body", [cut(20, reset=True)]),
    ("closed in the body", [cut(20), cut(0)]),
]


@pytest.mark.parametrize("faults", [faults for _, faults in PASSING], ids=[name for name, _ in PASSING])
async def test_what_passes_is_answered_after_a_retry(server: LiveServer, faults: Sequence[Fault]):
    with FaultProxy(server.url, faults) as proxy:
        async with gate(proxy) as target:
            reply = await target.invoke(ask(QUESTION))
    assert (reply.text, reply.retries, proxy.calls) == (ANSWER, len(faults), len(faults) + 1)


STAYING: list[tuple[str, Fault, str]] = [
    (
        "429",
        answer(429, b'{"error": {"message": "slow"}}', headers=RETRY_NOW),
        r"HTTP 429: slow.*attempts\)\.?\nLower `max",
    ),
    ("500", answer(500, b'{"detail": "oops"}'), r"HTTP 500: oops \(after 3 attempts\)\.?\n.*Try again later"),
    ("reset", reset, r"closed the connection .*\(after 3 attempts\)\.?\n.*Try again later"),
    ("reset in the body", cut(20, reset=True), r"closed the connection .*\(after 3 attempts\)\.?\n.*Try again later"),
    ("closed in the body", cut(20), r"closed the connection .*\(after 3 attempts\)\.?\n.*Try again later"),
    ("malformed", spoil(lambda body: body.replace(b":", b";")), r"is not JSON \(application/json\): .*\n.*base_url"),
    ("truncated", spoil(lambda body: body[:40]), r"is not JSON \(application/json\): .*\n.*base_url"),
    (
        "a web page",
        answer(200, b"<html>Sign in</html>", headers={"Content-Type": "text/html"}),
        r"text/html.*\n.*web page",
    ),
    ("an empty reply", answer(200), r"is not JSON \(application/json\): ''.*\n.*base_url"),
    ("a body without end", flood, r"is larger than 8 MiB and was not read"),
    ("JSON of another kind", answer(200, b'{"ok": true}'), r"has no `choices`.*\n.*chat completions"),
    ("JSON null", answer(200, b"null"), r"target 't': "),
    ("401", answer(401, b'{"error": {"message": "bad key"}}'), r"HTTP 401: bad key.*\nCheck .*key"),
]


@pytest.mark.parametrize(("fault", "message"), [row[1:] for row in STAYING], ids=[row[0] for row in STAYING])
async def test_the_final_error_has_the_cause_and_a_next_step(mockllm: LiveServer, fault: Fault, message: str):
    with FaultProxy(mockllm.url, always=fault) as proxy:
        async with gate(proxy) as target:
            with pytest.raises(ProviderError, match=message) as caught:
                await target.invoke(ask(QUESTION))
            assert "crashed" not in str(caught.value)
            proxy.always = answer(200, b'{"choices": [{"message": {"content": "still alive"}}]}')
            assert (await target.invoke(ask(QUESTION))).text == "still alive"


@pytest.mark.parametrize("fault", [silence, silence_after_head, drip(0.2)], ids=["silence", "only a head", "drip"])
async def test_a_server_that_does_not_finish_is_left_when_the_time_is_over(server: LiveServer, fault: Fault):
    with FaultProxy(server.url, always=fault) as proxy:
        async with gate(proxy, timeout_seconds=2.0) as target:
            with pytest.raises(ProviderTimeoutError, match=r"'t' did not answer within 2 s.\nRaise `timeout_seconds`"):
                await target.invoke(ask(QUESTION))
    assert proxy.calls == 1


async def test_a_slow_reply_that_ends_in_time_is_an_answer(server: LiveServer):
    with FaultProxy(server.url, always=drip(0.001)) as proxy:
        async with gate(proxy) as target:
            assert (await target.invoke(ask(QUESTION))).text == ANSWER


async def test_the_total_timeout_ends_a_call_with_any_number_of_attempts(mockllm: LiveServer):
    with FaultProxy(mockllm.url, always=answer(503, b"busy")) as proxy:
        async with gate(
            proxy, max_retries=100, total_timeout_seconds=1.0, retry_initial_delay_ms=200.0, retry_max_delay_ms=200.0
        ) as target:
            with pytest.raises(
                ProviderError, match=r"HTTP 503: busy \(after \d+ attempt.*`total_timeout_seconds` \(1 s\)|all attempts"
            ):
                await target.invoke(ask(QUESTION))
    assert 1 <= proxy.calls < 100


# -- the same through the vendors' libraries


@pytest.mark.parametrize("name", LIBRARIES)
async def test_a_library_is_answered_after_retries_that_are_ours(aimock: LiveServer, name: str):
    faults = [answer(429, b'{"error": {"message": "slow"}}', headers=RETRY_NOW), answer(500, b"oops"), reset, cut(20)]
    with FaultProxy(aimock.url, faults) as proxy:
        async with gate(proxy, name, max_retries=4) as target:
            reply = await target.invoke(ask(QUESTION))
    assert (reply.text, reply.retries, proxy.calls) == (ANSWER, 4, 5)


@pytest.mark.parametrize("name", LIBRARIES)
async def test_a_reply_that_a_library_cannot_parse_is_an_error(aimock: LiveServer, name: str):
    spoiled = {
        spoil(lambda body: body[:40]): r"is not JSON \(application/json\): .*\n.*base_url",
        answer(200): r"is not JSON \(application/json\): ''.*\n.*base_url",
        answer(200, b"<html>Sign in</html>", headers={"Content-Type": "text/html"}): r"text/html.*\n.*web page",
        answer(200, b'{"ok": true}'): r"target 't': .*",
        answer(200, b"[]"): r"target 't': .*",
        answer(401, b'{"error": {"message": "bad key"}}'): r"HTTP 401: bad key.*\nCheck ",
        flood: r"is larger than 8 MiB and was not read",
        cut(20): r"closed the connection .*\n.*Try again later",
    }
    with FaultProxy(aimock.url) as proxy:
        async with gate(proxy, name, max_retries=0) as target:
            for fault, message in spoiled.items():
                proxy.always = fault
                with pytest.raises(ProviderError, match=message) as caught:
                    await target.invoke(ask(QUESTION))
                assert "crashed" not in str(caught.value)
            proxy.always = pass_on
            assert (await target.invoke(ask(QUESTION))).text == ANSWER


@pytest.mark.parametrize("name", LIBRARIES)
async def test_a_library_does_not_wait_longer_than_it_may_for_a_server_that_is_silent(aimock: LiveServer, name: str):
    with FaultProxy(aimock.url) as proxy:
        async with gate(proxy, name) as target:
            await target.invoke(ask(QUESTION))  # importing the library is not what is timed
        proxy.always = silence_after_head
        async with gate(proxy, name, timeout_seconds=0.5) as target:
            with pytest.raises(ProviderTimeoutError, match=r"did not answer within 0.5 s"):
                await target.invoke(ask(QUESTION))
