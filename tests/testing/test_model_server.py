from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time

import aiohttp
import pytest

from agentv.testing.model_server import Failure, FakeModelServer


async def post(url: str, key: str = "", body: object = None) -> tuple[int, object]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/chat/completions", json=body or {"messages": []}, headers=headers) as response,
    ):
        return response.status, await response.json()


async def test_it_asks_for_its_key_and_counts_only_calls_that_have_it():
    async with FakeModelServer("ok", api_key="k") as server:
        assert (await post(server.url))[0] == 401
        assert (await post(server.url, "wrong"))[0] == 401
        assert (await post(server.url, "k"))[0] == 200
        assert server.calls == 1
        assert len(server.requests) == 1


async def test_failures_are_taken_in_turn_before_the_reply():
    async with FakeModelServer("ok", failures=[Failure(503), None, Failure(429)]) as server:
        assert [(await post(server.url))[0] for _ in range(5)] == [503, 200, 429, 200, 200]


async def test_a_reply_may_depend_on_the_request():
    async with FakeModelServer(lambda body: Failure(418) if body.get("bad") else body["model"]) as server:
        status, data = await post(server.url, body={"model": "echo"})
        assert status == 200
        assert "echo" in str(data)
        assert (await post(server.url, body={"bad": 1}))[0] == 418


async def test_other_paths_are_not_found():
    async with (
        FakeModelServer() as server,
        aiohttp.ClientSession() as session,
        session.get(server.url) as response,
    ):
        assert response.status == 404


async def test_it_stops_at_once_with_a_call_hanging():
    async with FakeModelServer(Failure(hang=True)) as server:
        call = asyncio.create_task(post(server.url))
        while not server.in_flight:
            await asyncio.sleep(0.001)
        started = time.monotonic()
    assert time.monotonic() - started < 20
    with pytest.raises(aiohttp.ClientError):
        await call


async def test_it_serves_from_the_command_line_until_it_is_stopped():
    argv = [
        sys.executable,
        "-m",
        "agentv.testing.model_server",
        "--port",
        "0",
        "--reply",
        "hello",
        "--api-key",
        "k",
    ]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = (await asyncio.to_thread(server.stdout.readline)).strip()
        status, data = await post(url, "k")
        os.kill(server.pid, signal.SIGTERM)
        assert await asyncio.to_thread(server.wait, 30) == 0
    assert status == 200
    assert "hello" in str(data)
