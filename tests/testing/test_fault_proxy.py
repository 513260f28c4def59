from __future__ import annotations

import asyncio
import http.client
import json
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from agentv.testing import FaultProxy
from agentv.testing.fault_proxy import (
    Exchange,
    Fault,
    answer,
    cut,
    drip,
    flood,
    hang_up,
    reset,
    silence,
    silence_after_head,
    spoil,
)
from agentv.testing.loop_thread import loop_thread
from agentv.testing.model_server import FakeModelServer


@pytest.fixture
def model() -> Iterator[FakeModelServer]:
    """A server in its own thread, like the proxy."""
    with loop_thread() as run:
        server = FakeModelServer("hello")
        run(server.__aenter__())
        yield server
        run(server.__aexit__())


def call(proxy: FaultProxy, timeout: float = 20.0, **headers: str) -> tuple[int, dict[str, str], bytes]:
    port = urlsplit(proxy.url).port
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps({"messages": []}), headers)
        reply = connection.getresponse()
        return reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read()
    finally:
        connection.close()


def connected(proxy: FaultProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", urlsplit(proxy.url).port or 0), timeout=20)


def test_call_without_fault_is_forwarded(model: FakeModelServer):
    with FaultProxy(model.url) as proxy:
        status, _, body = call(proxy, Authorization="Bearer x")
    assert status == 200
    assert json.loads(body)["choices"][0]["message"]["content"] == "hello"
    (received,) = model.requests
    assert (received.path, received.headers["Authorization"], received.body) == (
        "/v1/chat/completions",
        "Bearer x",
        {"messages": []},
    )


def test_faults_are_used_one_per_call_and_none_means_no_fault(model: FakeModelServer):
    with FaultProxy(model.url, [answer(429, b"slow", headers={"Retry-After": "7"}), None, answer(500)]) as proxy:
        first, second, third, fourth = (call(proxy) for _ in range(4))
    assert (first[0], first[1]["retry-after"], first[2]) == (429, "7", b"slow")
    assert [second[0], third[0], fourth[0]] == [200, 500, 200]
    assert ([exchange.method for exchange in proxy.exchanges], model.calls) == (["POST"] * 4, 2)


@pytest.mark.parametrize(
    ("fault", "what"),
    [
        (reset, ConnectionResetError),
        (hang_up, http.client.RemoteDisconnected),
        (cut(5), http.client.IncompleteRead),
        (cut(5, reset=True), (ConnectionResetError, http.client.IncompleteRead)),
    ],
    ids=["reset", "hang up", "cut", "cut with a reset"],
)
def test_connections_break_as_configured(model: FakeModelServer, fault: Fault, what: type[Exception]):
    with FaultProxy(model.url, always=fault) as proxy, pytest.raises(what):
        call(proxy)


def test_changed_body_is_a_valid_reply(model: FakeModelServer):
    with FaultProxy(model.url, always=spoil(lambda body: body[:9])) as proxy:
        status, headers, body = call(proxy)
    assert (status, headers["content-length"], body) == (200, "9", b'{"id": "c')


@pytest.mark.parametrize("fault", [silence, silence_after_head, drip(60.0)], ids=["silence", "a head", "a byte"])
def test_silent_faults_never_reply(model: FakeModelServer, fault: Fault):
    with FaultProxy(model.url, always=fault) as proxy, pytest.raises(TimeoutError):
        call(proxy, timeout=0.3)


def test_drip_delivers_the_complete_reply(model: FakeModelServer):
    with FaultProxy(model.url, always=drip(0.0)) as proxy:
        assert json.loads(call(proxy)[2])["object"] == "chat.completion"


def test_flood_ends_when_the_client_disconnects(model: FakeModelServer):
    with FaultProxy(model.url, always=flood) as proxy, connected(proxy) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert len(client.makefile("rb").read(200_000)) == 200_000


def test_custom_fault_can_read_the_call_and_reply(model: FakeModelServer):
    async def teapot(exchange: Exchange) -> None:
        head, _ = await exchange.ask()
        await exchange.send(head.replace(b"200 OK", b"418 " + exchange.path[-4:].encode()) + b"")

    with FaultProxy(model.url, always=teapot) as proxy, pytest.raises(http.client.IncompleteRead):
        call(proxy)


def test_closing_the_proxy_ends_calls_in_flight(model: FakeModelServer):
    with FaultProxy(model.url, always=silence) as proxy:
        client = connected(proxy)
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        asyncio.run(_until(lambda: proxy.calls == 1))
    with client:
        assert client.recv(1) == b""


async def _until(holds) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.01)


def test_invalid_upstream_is_rejected():
    with pytest.raises(ValueError, match=r"such as http://127\.0\.0\.1:8000, got"):
        FaultProxy("127.0.0.1:8000")
