"""A proxy lives as long as its script, and exits immediately whatever its clients do."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import socket
import subprocess
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from agentv.http import server as server_module
from agentv.judge import proxy as proxy_module
from agentv.judge.proxy import JudgeProxy
from agentv.targets.provider import Provider, Request
from tests.judge.support import Judge, Wire, ask, make_session, port_of, request, session_of


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def leave(proxy: JudgeProxy) -> float:
    """Exit the proxy, and return how long it took in seconds."""
    started = time.perf_counter()
    await proxy.__aexit__(None, None, None)
    return time.perf_counter() - started


async def is_closed(proxy: JudgeProxy) -> bool:
    try:
        await asyncio.open_connection("127.0.0.1", port_of(proxy))
    except ConnectionRefusedError:
        return True
    return False


async def test_each_proxy_has_its_own_port_and_token() -> None:
    async with JudgeProxy(make_session()) as one, JudgeProxy(make_session()) as other:
        assert one.url == f"http://127.0.0.1:{port_of(one)}"
        assert one.url != other.url
        assert one.token != other.token


async def test_exit_closes_the_port_and_all_descriptors() -> None:
    before = descriptors()
    for _ in range(3):
        async with JudgeProxy(make_session()) as proxy:
            assert (await ask(proxy)).status == 200
        assert await is_closed(proxy)
    await asyncio.sleep(0)
    assert descriptors() <= before


async def test_exit_cancels_calls_in_flight_and_counts_them_as_failed() -> None:
    judge = Judge(held=True)
    proxy = await JudgeProxy(make_session(judge)).__aenter__()
    async with await Wire.to(proxy) as one, await Wire.to(proxy) as other:
        one.send(request(proxy, body={"question": "q"}))
        other.send(request(proxy, path="/invokeBatch", body={"requests": [{"question": "q"}] * 3}))
        await judge.has_calls(4)
        assert await leave(proxy) < 20
        assert judge.cancelled == 4
        assert session_of(proxy).ledger.to_dict()["failed_calls"] == 4
        assert await one.rest() == b""
        assert await other.rest() == b""
    assert await is_closed(proxy)


async def test_exit_does_not_wait_for_a_judge_that_ignores_cancellation() -> None:
    started, finish = asyncio.Event(), asyncio.Event()

    class Stubborn(Provider):
        async def invoke(self, request: Request) -> Any:
            started.set()
            while not finish.is_set():
                try:
                    await finish.wait()
                except asyncio.CancelledError:
                    continue
            return None

    proxy = await JudgeProxy(make_session(Stubborn())).__aenter__()
    async with await Wire.to(proxy) as wire:
        wire.send(request(proxy, body={"question": "q"}))
        await started.wait()
        assert await leave(proxy) < 20
        assert session_of(proxy).ledger.failed_calls == 1
        finish.set()
        assert await wire.rest() == b""


async def test_open_connection_cannot_be_used_after_exit() -> None:
    judge = Judge()
    proxy = await JudgeProxy(make_session(judge)).__aenter__()
    async with await Wire.to(proxy) as wire:
        wire.send(request(proxy, body={"question": "q"}))
        assert (await wire.response()).status == 200
        await leave(proxy)
        wire.send(request(proxy, body={"question": "late"}))
        assert await wire.rest() == b""
    assert judge.calls == 1


async def test_request_during_shutdown_is_503() -> None:
    judge = Judge()
    async with JudgeProxy(make_session(judge)) as proxy:
        assert (await ask(proxy)).status == 200
        session_of(proxy).close()
        reply = await ask(proxy)
        assert (reply.status, reply.code) == (503, "shutting_down")
    assert (judge.calls, session_of(proxy).ledger.breached) == (1, False)


@pytest.mark.parametrize("turns", range(4))
async def test_exit_closes_connections_that_are_being_accepted(turns: int) -> None:
    proxy = await JudgeProxy(make_session()).__aenter__()
    opening = [asyncio.create_task(Wire.to(proxy)) for _ in range(20)]
    for _ in range(turns):
        await asyncio.sleep(0)
    await leave(proxy)
    started = time.perf_counter()
    for wire in await asyncio.gather(*opening, return_exceptions=True):
        if isinstance(wire, Wire):
            assert await wire.rest() == b""
            await wire.close()
        else:
            assert isinstance(wire, ConnectionError)
    assert time.perf_counter() - started < 20
    assert not proxy._connections


async def test_exit_does_not_wait_for_incomplete_requests() -> None:
    proxy = await JudgeProxy(make_session()).__aenter__()
    halves = [b"", b"G", request(proxy)[:-2], request(proxy, headers={"Content-Length": "9"}) + b"{"]
    halves.append(request(proxy, headers={"Transfer-Encoding": "chunked"}) + b"5\r\na")
    halves.append(request(proxy, headers={"Authorization": None, "Content-Length": str(2**30)}))
    wires = [await Wire.to(proxy) for _ in range(200)]
    for number, wire in enumerate(wires):
        wire.send(halves[number % len(halves)])
    assert (await ask(proxy)).status == 200
    assert await leave(proxy) < 20
    assert await is_closed(proxy)
    for wire in wires:
        await wire.rest()
        await wire.close()


async def test_200_slow_clients_without_token_do_not_slow_a_script_down() -> None:
    async with JudgeProxy(make_session()) as proxy:
        wires = [await Wire.to(proxy) for _ in range(200)]
        dripping = True

        async def drip(wire: Wire) -> None:
            while dripping:
                wire.send(b"G")
                await asyncio.sleep(0.05)

        drips = [asyncio.create_task(drip(wire)) for wire in wires]
        times = []
        for _ in range(20):
            started = time.perf_counter()
            assert (await ask(proxy)).status == 200
            times.append(time.perf_counter() - started)
        assert sum(times) < 20
        dripping = False
        await asyncio.gather(*drips)
    for wire in wires:
        await wire.close()


async def test_call_is_cancelled_when_the_client_disconnects() -> None:
    judge = Judge(held=True)
    async with JudgeProxy(make_session(judge)) as proxy:
        async with await Wire.to(proxy) as wire:
            wire.send(request(proxy, body={"question": "q"}))
            await judge.has_calls(1)
        async with asyncio.timeout(30):
            while not judge.cancelled:
                await asyncio.sleep(0)
        assert session_of(proxy).ledger.failed_calls == 1


async def test_connection_limit_closes_the_oldest_connection_without_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_module, "MOST_CONNECTIONS", 3)
    async with JudgeProxy(make_session()) as proxy:
        trusted = await Wire.to(proxy)
        trusted.send(request(proxy, "GET", "/info"))
        assert (await trusted.response()).status == 200
        strangers = [await Wire.to(proxy) for _ in range(4)]
        async with asyncio.timeout(5):  # sooner than the timeout of a connection that sends nothing
            assert await strangers[0].rest() == b""
        trusted.send(request(proxy, "GET", "/info"))
        assert (await trusted.response()).status == 200
        for wire in (trusted, *strangers):
            await wire.close()


async def test_connection_is_trusted_only_with_the_token() -> None:
    async with JudgeProxy(make_session()) as proxy:
        for token, trusted in ((None, False), (f"Bearer {proxy.token}", True)):
            async with await Wire.to(proxy) as wire:
                wire.send(request(proxy, "GET", "/nope", headers={"Authorization": token}))
                await wire.response()
                assert [connection.trusted for connection in proxy._connections] == [trusted]
            while proxy._connections:
                await asyncio.sleep(0)


async def test_replies_are_not_buffered_for_a_client_that_does_not_read() -> None:
    judge = Judge("x" * 100_000)
    async with JudgeProxy(make_session(judge, max_calls=10_000)) as proxy, await Wire.to(proxy) as wire:
        wire.send(request(proxy, body={"question": "q"}) * 400)
        calls = -1
        while calls != judge.calls:
            calls = judge.calls
            await asyncio.sleep(0.05)
        assert calls < 200
        for _ in range(400):
            assert (await wire.response()).status == 200
    assert judge.calls == 400


async def test_requests_are_not_read_from_a_client_that_does_not_read_replies() -> None:
    async with JudgeProxy(make_session()) as proxy, await Wire.to(proxy) as wire:
        one_request = request(proxy, "GET", "/info")
        count = 32 * 2**20 // len(one_request)
        wire.send(one_request * count)
        held = -1
        while held != wire.writer.transport.get_write_buffer_size():
            held = wire.writer.transport.get_write_buffer_size()
            await asyncio.sleep(0.05)
        assert held > 2**20
        (connection,) = proxy._connections
        assert len(connection._buffer) < 2**20
        for _ in range(1000):
            assert (await wire.response()).status == 200
        wire.writer.transport.abort()  # closing would wait until everything is sent


async def test_connection_limit_closes_idle_connections_but_not_calls_in_flight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proxy_module, "MOST_CONNECTIONS", 3)
    judge = Judge(held=True)
    async with JudgeProxy(make_session(judge)) as proxy, AsyncExitStack() as stack:
        idle, *busy = [await stack.enter_async_context(await Wire.to(proxy)) for _ in range(2)]
        idle.send(request(proxy, "GET", "/info"))
        assert (await idle.response()).status == 200
        for number in (1, 2):
            busy[-1].send(request(proxy, body={"question": "q"}))
            await judge.has_calls(number)
            busy.append(await stack.enter_async_context(await Wire.to(proxy)))
        busy[-1].send(request(proxy, body={"question": "q"}))
        await judge.has_calls(3)
        assert await idle.rest() == b""
        judge.let_go()
        for wire in busy:
            assert (await wire.response()).status == 200
        assert session_of(proxy).overuse is None


async def test_500_concurrent_proxies_answer_independently() -> None:
    before = descriptors()
    async with AsyncExitStack() as stack:
        judges = [Judge(str(number)) for number in range(500)]
        proxies = [await stack.enter_async_context(JudgeProxy(make_session(judge))) for judge in judges]
        replies = await asyncio.gather(*(ask(proxy) for proxy in proxies))
        assert [reply.json["rawText"] for reply in replies] == [str(number) for number in range(500)]
    await asyncio.sleep(0)
    assert descriptors() <= before + 10


def test_judge_access_imports_no_http_library() -> None:
    code = "import agentv.judge.proxy, agentv.judge.session, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "agentv.judge.session" in done.stdout
    assert not {"aiohttp", "http.client", "http.server", "jsonschema", "rich"} & set(done.stdout.split())


async def test_clients_wait_when_file_descriptors_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "PAUSE_SECONDS", 0.01)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with JudgeProxy(make_session()) as proxy:
        with socket.create_connection(("127.0.0.1", port_of(proxy))) as waiting:
            free = os.dup(0)
            os.close(free)
            resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
            try:
                await asyncio.sleep(0.05)
                assert not proxy._connections
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            waiting.sendall(request(proxy, "GET", "/info"))
            assert (await asyncio.to_thread(waiting.recv, 12)) == b"HTTP/1.1 200"


async def test_client_that_disconnects_before_its_reply_causes_no_error() -> None:
    reported: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    async with JudgeProxy(make_session()) as proxy:
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", port_of(proxy))) as client:
                client.sendall(request(proxy, "GET", "/info", headers={"Connection": "close"}))
        assert (await ask(proxy)).status == 200  # by then the earlier requests have been answered
    gc.collect()
    await asyncio.sleep(0)
    assert reported == []
