"""The budget of one proxy: connections, body bytes, refused requests and CPU time."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
from contextlib import AsyncExitStack

import pytest

from agentv.errors import EvaluatorError
from agentv.http import server as server_module
from agentv.judge import proxied as proxied_module
from agentv.judge import proxy as proxy_module
from agentv.judge.proxy import JudgeProxy, limits_of
from agentv.processes import descriptors
from tests.judge.support import Judge, Wire, ask, info, make_session, request, session_of

MIB = 2**20


@pytest.fixture
def small_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for two bodies of 1 MiB."""
    monkeypatch.setattr(proxy_module, "BODY_BYTES", 2 * MIB)


async def until_closed(proxy: JudgeProxy) -> str:
    async with asyncio.timeout(30):
        while (overuse := session_of(proxy).overuse) is None:
            await asyncio.sleep(0.01)
    return overuse


def test_every_call_may_have_its_own_connection() -> None:
    assert limits_of(0).connections == 256
    assert limits_of(50).connections in (256, 306)  # depends on the limit of descriptors
    assert limits_of(10**9).connections <= 1024


async def test_connection_over_the_limit_closes_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_module, "MOST_CONNECTIONS", 3)
    async with JudgeProxy(make_session(Judge(held=True))) as proxy, AsyncExitStack() as stack:
        wires = [await stack.enter_async_context(await Wire.to(proxy)) for _ in range(3)]
        for wire in wires:
            wire.send(request(proxy, body={"question": "q"}))
        async with asyncio.timeout(30):
            while len([one for one in proxy._connections if one.trusted]) < 3:
                await asyncio.sleep(0)
        assert session_of(proxy).overuse is None
        wires.append(await stack.enter_async_context(await Wire.to(proxy)))
        wires[-1].send(request(proxy, headers={"Content-Length": "9"}) + b"{")
        assert "more than 3 connections" in await until_closed(proxy)
        assert [await wire.rest() for wire in wires] == [b""] * 4
        assert session_of(proxy).closed
        with pytest.raises(ConnectionRefusedError):
            await Wire.to(proxy)


async def test_connections_without_the_token_never_fail_the_evaluator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_module, "MOST_CONNECTIONS", 20)
    monkeypatch.setattr(proxy_module, "MOST_REFUSED", 3)
    async with JudgeProxy(make_session()) as proxy, AsyncExitStack() as stack:
        for number in range(60):
            wire = await stack.enter_async_context(await Wire.to(proxy))
            wire.send([b"", b"GET", request(proxy, headers={"Authorization": "Bearer no"})][number % 3])
            if number % 10 == 9:
                assert (await ask(proxy)).status == 200
        assert len(proxy._strangers) <= 20
        assert session_of(proxy).overuse is None


async def test_flood_of_connections_without_the_token_is_accepted_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MOST_TURNED_AWAY", 10)
    async with JudgeProxy(make_session()) as proxy:
        for _ in range(12):
            await (await Wire.to(proxy)).close()
        async with asyncio.timeout(30):
            while proxy._turned_away <= 10:
                await asyncio.sleep(0.001)
        paused: list[float] = []
        accept_after = proxy._accept_after

        def record(seconds: float) -> None:
            paused.append(seconds)
            accept_after(seconds)

        monkeypatch.setattr(proxy, "_accept_after", record)
        assert [(await ask(proxy)).status for _ in range(3)] == [200] * 3
        assert set(paused) == {server_module.SLOW_SECONDS}
        assert proxy._turned_away <= 12


@pytest.mark.usefixtures("small_bodies")
@pytest.mark.parametrize("chunked", [False, True])
async def test_large_bodies_wait_for_memory_and_all_succeed(chunked: bool) -> None:
    judge = Judge()
    async with JudgeProxy(make_session(judge)) as proxy, AsyncExitStack() as stack:
        body = b'{"question": "' + b"x" * MIB + b'"}'
        whole = request(proxy, body=body)
        if chunked:
            head = request(proxy, headers={"Transfer-Encoding": "chunked"})
            whole = head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        wires = [await stack.enter_async_context(await Wire.to(proxy)) for _ in range(8)]
        for wire in wires:  # half of every body first
            wire.send(whole[: MIB // 2])
        await asyncio.sleep(0)
        for wire in wires:
            wire.send(whole[MIB // 2 :])
        assert [(await wire.response()).status for wire in wires] == [200] * 8
        assert (judge.calls, proxy.budget.body_bytes, session_of(proxy).overuse) == (8, 0, None)


@pytest.mark.usefixtures("small_bodies")
async def test_memory_does_not_grow_with_the_number_of_half_sent_bodies() -> None:
    async with JudgeProxy(make_session()) as proxy, AsyncExitStack() as stack:
        half = request(proxy, headers={"Content-Length": str(MIB)}) + b"x" * (MIB - 1)
        wires = [await stack.enter_async_context(await Wire.to(proxy)) for _ in range(20)]
        for wire in wires:
            wire.send(half)
        async with asyncio.timeout(30):
            while sum(len(one._buffer) for one in proxy._connections) < 2 * (MIB - 1) + 18 * 1024:
                await asyncio.sleep(0.01)
        assert (await ask(proxy)).status == 200  # small requests do not wait
        assert sum(len(one._buffer) for one in proxy._connections) < 2 * MIB + 20 * server_module.READ_AHEAD
    assert "2 MiB of request bodies" in str(session_of(proxy).overuse)


@pytest.mark.usefixtures("small_bodies")
@pytest.mark.parametrize("deadline", ["STALL_SECONDS", "BODY_SECONDS"])
async def test_body_that_keeps_others_waiting_closes_the_proxy(monkeypatch: pytest.MonkeyPatch, deadline: str) -> None:
    monkeypatch.setattr(server_module, deadline, 0.05)
    async with JudgeProxy(make_session()) as proxy, AsyncExitStack() as stack:
        for _ in range(3):
            wire = await stack.enter_async_context(await Wire.to(proxy))
            wire.send(request(proxy, headers={"Content-Length": str(MIB)}) + b"x" * 100_000)
        assert "2 MiB of request bodies" in await until_closed(proxy)


@pytest.mark.usefixtures("small_bodies")
async def test_client_that_gives_up_while_nothing_waits_is_harmless() -> None:
    async with JudgeProxy(make_session()) as proxy:
        for _ in range(5):
            async with await Wire.to(proxy) as wire:
                wire.send(request(proxy, headers={"Content-Length": str(2 * MIB)}) + b"x" * 200_000)
        async with asyncio.timeout(30):
            while proxy.budget.body_bytes or proxy._connections:
                await asyncio.sleep(0.01)
        assert (await ask(proxy)).status == 200
    assert session_of(proxy).overuse is None


async def test_refused_requests_are_limited_and_the_last_one_is_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_module, "MOST_REFUSED", 5)
    async with JudgeProxy(make_session()) as proxy:
        assert [(await ask(proxy, body)).status for body in ({}, b"{", {"question": 1})] == [400] * 3
        assert (await ask(proxy, path="/nope")).status == 404
        assert (await ask(proxy, method="PUT")).status == 405
        assert (await info(proxy))["callCount"] == 0
        async with await Wire.to(proxy) as wire:
            wire.send(request(proxy, body={"question": "q", "target": "unknown"}))
            await wire.rest()
    assert "more than 5 of its requests were refused, the last one with 400: unknown target" in str(
        session_of(proxy).overuse
    )


async def test_time_for_requests_that_are_not_calls_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_module, "CPU_SECONDS", 0.05)
    async with JudgeProxy(make_session(max_calls=0)) as proxy, await Wire.to(proxy) as wire:
        wire.send(request(proxy, "GET", "/info") * 20_000)
        assert "reading and checking its requests took more than 0.05 s" in await until_closed(proxy)


async def test_large_requests_are_parsed_elsewhere_with_the_same_result() -> None:
    judge = Judge()
    async with JudgeProxy(make_session(judge, max_calls=3)) as proxy:
        long = "x" * (300 * 1024)
        assert (await ask(proxy, {"question": long, "systemPrompt": "s"})).status == 200
        assert (judge.requests[0].question, judge.requests[0].system_prompt) == (long, "s")
        reply = await ask(proxy, {"question": long, "target": "unknown"})
        assert (reply.status, reply.code) == (400, "unknown_target")
        reply = await ask(proxy, {"question": long, "systemPromt": "s"})
        assert (reply.status, reply.json["error"]) == (
            400,
            "the body: unknown key `systemPromt` (did you mean `systemPrompt`?)",
        )
        batch = [{"question": "q", "target": name} for name in ("strict", None)] * 10_000
        reply = await ask(proxy, {"requests": batch}, path="/invokeBatch")
        assert (reply.status, reply.code) == (429, "max_calls_exceeded")
        assert session_of(proxy).ledger.refused_calls == 20_000
        batch[15_000] = {"question": "q", "target": "unknown"}
        reply = await ask(proxy, {"requests": batch}, path="/invokeBatch")
        assert reply.code == "unknown_target"
        assert reply.json["error"].startswith("requests[15000]: unknown target 'unknown'")
        assert (judge.calls, session_of(proxy).ledger.refused_calls) == (1, 20_000)


async def test_proxy_waits_for_descriptors_and_then_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptors, "WAIT_SECONDS", 0.2)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
    try:
        with pytest.raises(
            EvaluatorError, match=r"judge proxy could not start: agentv is out of file descriptors"
        ) as raised:
            await JudgeProxy(make_session()).__aenter__()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert "ulimit -n" in str(raised.value)


async def test_action_is_retried_until_a_descriptor_is_free() -> None:
    attempts = iter([OSError(errno.EMFILE, ""), OSError(errno.ENFILE, ""), None])

    def action() -> str:
        if (error := next(attempts)) is not None:
            raise error
        return "open"

    assert await descriptors.when_free(action) == "open"


async def test_body_that_cannot_be_parsed_in_time_is_400_and_costs_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxied_module, "PARSE_SECONDS", 0.01)
    async with JudgeProxy(make_session()) as proxy:
        reply = await ask(proxy, b'{"question": [' + b"[]," * 300_000 + b"[]]}")
        assert (reply.status, reply.code) == (400, "invalid_request")
        assert "could not be parsed in time" in reply.json["error"]
        assert proxy.budget.cpu_seconds >= 0.01
        assert (await ask(proxy)).status == 200
