"""Call limits over HTTP: what is counted, what is not, and that concurrency never exceeds the limit."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentv.errors import ProviderError
from agentv.judge.proxy import JudgeProxy
from agentv.targets.provider import Reply, Request
from tests.judge.support import Judge, Response, Wire, ask, info, make_session, request, send, session_of

ROUNDS = 20


async def batch(proxy: JudgeProxy, *items: Any) -> Response:
    return await send(proxy, request(proxy, path="/invokeBatch", body={"requests": list(items)}))


async def test_default_limit_is_50_calls() -> None:
    judge = Judge()
    async with JudgeProxy(make_session(judge)) as proxy, await Wire.to(proxy) as wire:
        statuses = []
        for _ in range(51):
            wire.send(request(proxy, body={"question": "q"}))
            reply = await wire.response()
            statuses.append(reply.status)
    assert statuses == [200] * 50 + [429]
    assert reply.code == "max_calls_exceeded"
    assert all(part in reply.json["error"] for part in ("50", "precision", "max_calls"))
    assert (judge.calls, session_of(proxy).ledger.breached) == (50, True)


async def test_call_over_the_limit_is_429_and_marks_the_ledger(proxy: JudgeProxy, judge: Judge) -> None:
    assert [(await ask(proxy)).status for _ in range(10)] == [200] * 10
    assert not session_of(proxy).ledger.breached
    assert (await ask(proxy)).status == 429
    ledger = session_of(proxy).ledger.to_dict()
    assert (judge.calls, ledger["call_count"], ledger["refused_calls"]) == (10, 10, 1)
    assert session_of(proxy).ledger.breached


async def test_limit_of_0_refuses_every_call_but_not_info() -> None:
    async with JudgeProxy(make_session(max_calls=0)) as proxy:
        assert (await ask(proxy)).status == 429
        assert (await info(proxy))["maxCalls"] == 0


async def test_batch_over_the_remaining_calls_is_refused_as_a_whole(proxy: JudgeProxy, judge: Judge) -> None:
    question = {"question": "q"}
    assert (await batch(proxy, *[question] * 7)).status == 200
    reply = await batch(proxy, *[question] * 5)
    assert (reply.status, reply.code) == (429, "max_calls_exceeded")
    assert (judge.calls, (await info(proxy))["callCount"]) == (7, 7)
    assert (await batch(proxy, *[question] * 3)).status == 200
    assert (judge.calls, session_of(proxy).ledger.refused_calls) == (10, 5)


async def test_calls_that_fail_at_the_judge_are_counted() -> None:
    def fail(request: Request) -> Reply:
        raise ProviderError("HTTP 500", status=500)

    async with JudgeProxy(make_session(Judge(fail), max_calls=3)) as proxy:
        assert [(await ask(proxy)).status for _ in range(4)] == [502, 502, 502, 429]
        ledger = session_of(proxy).ledger.to_dict()
    assert (ledger["call_count"], ledger["failed_calls"], ledger["refused_calls"]) == (3, 3, 1)


async def test_requests_that_never_reach_the_judge_are_not_counted() -> None:
    judge = Judge()
    async with JudgeProxy(make_session(judge, max_calls=5)) as proxy:
        for _ in range(20):
            assert (await ask(proxy, headers={"Authorization": None})).status == 401
            assert (await ask(proxy, b"{")).status == 400
            assert (await ask(proxy, headers={"Content-Length": str(9 * 2**20)})).status == 413
            assert (await ask(proxy, {"question": "q", "target": "nope"})).status == 400
        assert [(await ask(proxy)).status for _ in range(5)] == [200] * 5
        assert not session_of(proxy).ledger.breached
        # At the limit, an invalid request is still reported as invalid.
        assert (await ask(proxy, {"question": ""})).status == 400
        assert (await ask(proxy, {"question": "q", "target": "nope"})).code == "unknown_target"
        assert not session_of(proxy).ledger.breached


async def test_info_is_exact_and_not_counted(proxy: JudgeProxy) -> None:
    for count in range(11):
        for _ in range(2):
            reply = await info(proxy)
            assert (reply["targetName"], reply["maxCalls"], reply["callCount"]) == ("strict", 10, count)
        assert (await ask(proxy)).status == (200 if count < 10 else 429)
    assert (await info(proxy))["callCount"] == 10


async def test_batch_is_refused_as_a_whole_when_one_item_is_invalid(proxy: JudgeProxy, judge: Judge) -> None:
    good = {"question": "q"}
    for bad, code in (({"question": ""}, "invalid_request"), ({"question": "q", "target": "x"}, "unknown_target")):
        reply = await batch(proxy, good, bad, good)
        assert (reply.status, reply.code) == (400, code)
        assert "requests[1]" in reply.json["error"]
    assert (judge.calls, (await info(proxy))["callCount"]) == (0, 0)
    assert (await batch(proxy, good, good, good)).status == 200
    assert judge.calls == 3


async def open_wires(proxy: JudgeProxy, count: int) -> list[Wire]:
    return list(await asyncio.gather(*(Wire.to(proxy) for _ in range(count))))


async def statuses_of(wires: list[Wire]) -> list[int]:
    replies = await asyncio.gather(*(wire.response() for wire in wires))
    await asyncio.gather(*(wire.close() for wire in wires))
    return sorted(reply.status for reply in replies)


async def test_200_concurrent_calls_never_exceed_a_limit_of_50() -> None:
    for _ in range(ROUNDS):
        judge = Judge(held=True)
        async with JudgeProxy(make_session(judge, max_calls=50)) as proxy:
            wires = await open_wires(proxy, 200)
            for wire in wires:
                wire.send(request(proxy, body={"question": "q"}))
            await judge.has_calls(50)
            judge.let_go()
            assert await statuses_of(wires) == [200] * 50 + [429] * 150
            assert (judge.calls, session_of(proxy).ledger.refused_calls) == (50, 150)


async def test_limit_holds_when_bodies_arrive_after_all_heads() -> None:
    judge = Judge()
    body = b'{"question": "q"}'
    async with JudgeProxy(make_session(judge, max_calls=50)) as proxy:
        wires = await open_wires(proxy, 200)
        for wire in wires:
            wire.send(request(proxy, headers={"Content-Length": str(len(body))}))
        assert (await info(proxy))["callCount"] == 0
        for wire in wires:
            wire.send(body)
        assert await statuses_of(wires) == [200] * 50 + [429] * 150
    assert judge.calls == 50


@pytest.mark.parametrize("size", [3, 7, 20])
async def test_overlapping_batches_run_completely_or_not_at_all(size: int) -> None:
    judge = Judge(held=True)
    async with JudgeProxy(make_session(judge, max_calls=50)) as proxy:
        wires = await open_wires(proxy, 60)
        for wire in wires:
            wire.send(request(proxy, path="/invokeBatch", body={"requests": [{"question": "q"}] * size}))
        fitting = 50 // size
        await judge.has_calls(fitting * size)
        judge.let_go()
        assert await statuses_of(wires) == [200] * fitting + [429] * (60 - fitting)
    assert judge.calls == fitting * size


async def test_pipelined_calls_never_exceed_the_limit() -> None:
    judge = Judge()
    async with JudgeProxy(make_session(judge, max_calls=50)) as proxy:
        wires = await open_wires(proxy, 4)
        for wire in wires:
            wire.send(request(proxy, body={"question": "q"}) * 50)
        statuses = [(await wire.response()).status for wire in wires for _ in range(50)]
        await asyncio.gather(*(wire.close() for wire in wires))
    assert (statuses.count(200), statuses.count(429), judge.calls) == (50, 150, 50)
