from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from agentv.http.client import Client, HttpError
from agentv.testing.model_server import Failure, FakeModelServer


async def post(url: str, key: str = "", body: object = None) -> tuple[int, object]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    client = Client(cap=1_000_000)
    try:
        reply = await client.post(f"{url}/chat/completions", headers, json.dumps(body or {"messages": []}).encode())
    finally:
        await client.aclose()
    return reply.status, json.loads(reply.body)


async def test_server_requires_its_key_and_counts_only_authorized_calls():
    async with FakeModelServer("ok", api_key="k") as server:
        assert (await post(server.url))[0] == 401
        assert (await post(server.url, "wrong"))[0] == 401
        assert (await post(server.url, "k"))[0] == 200
        assert server.calls == 1
        assert len(server.requests) == 1


async def test_failures_are_used_in_order_before_the_reply():
    async with FakeModelServer("ok", failures=[Failure(503), None, Failure(429)]) as server:
        assert [(await post(server.url))[0] for _ in range(5)] == [503, 200, 429, 200, 200]


async def test_reply_can_depend_on_the_request():
    async with FakeModelServer(lambda body: Failure(418) if body.get("bad") else body["model"]) as server:
        status, data = await post(server.url, body={"model": "echo"})
        assert status == 200
        assert "echo" in str(data)
        assert (await post(server.url, body={"bad": 1}))[0] == 418


async def test_other_paths_are_not_found():
    async with FakeModelServer() as server:
        assert await Client(cap=0).status_of(server.url) == 404


async def test_requests_keep_path_and_case_insensitive_headers():
    async with FakeModelServer() as server:
        await post(f"{server.url}/x", "k")
        (received,) = server.requests
    assert received.path == "/v1/x/chat/completions"
    assert received.headers["authorization"] == received.headers["Authorization"] == "Bearer k"
    assert received.body == {"messages": []}


async def test_server_stops_immediately_during_a_hanging_call():
    async with FakeModelServer(Failure(hang=True)) as server:
        call = asyncio.create_task(post(server.url))
        while not server.in_flight:
            await asyncio.sleep(0.001)
        started = time.monotonic()
    assert time.monotonic() - started < 20
    with pytest.raises(HttpError):
        await call


async def test_command_line_server_runs_until_stopped():
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
