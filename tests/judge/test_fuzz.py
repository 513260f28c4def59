"""Fuzzing: broken requests sent to a live proxy, and our parser compared with h11."""

from __future__ import annotations

import random

import h11
import pytest
from benchmarks.fuzz_proxy import broken, fuzz, valid

from agentv.http import server as server_module
from agentv.http.messages import Refused, body_of, parse_request
from agentv.judge.proxy import JudgeApp
from tests.judge.support import make_session

Parsed = list[tuple[bytes, bytes, bytes]]


async def test_broken_requests_neither_crash_nor_bypass_the_token_nor_cost_extra_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HEAD_SECONDS", "BODY_SECONDS", "IDLE_SECONDS", "LINGER_SECONDS"):
        monkeypatch.setattr(server_module, name, 0.03)
    outcome = await fuzz(1500, seed=7)
    assert (outcome.crashes, outcome.let_in, outcome.extra_calls) == ([], [], 0)
    assert outcome.answered["200"] > 100
    assert outcome.answered["401"] > 100
    assert outcome.answered["400"] > 40


def as_we_read(app: JudgeApp, data: bytes) -> Parsed:
    """The requests that the proxy would serve, up to the first that is refused or incomplete."""
    buffer, served = bytearray(data), Parsed()
    while (end := buffer.find(b"\r\n\r\n")) >= 0:
        if buffer.startswith(b"\r\n"):
            del buffer[:2]
            continue
        try:
            request = parse_request(bytes(buffer[: end + 4]))
            app.admit(request)
            app.handler_of(request)
            body = body_of(request)
            del buffer[: end + 4]
            content = b"" if body is None else body.take(buffer)
        except Refused:
            break
        if content is None:
            break
        served.append((request.method, request.target, content))
        if not request.keeps_alive:
            break
    return served


def as_h11_reads(data: bytes) -> Parsed:
    """The complete requests that h11 parses, up to the first that it refuses.

    h11 refuses an empty line before a request, which RFC 9112 asks servers to ignore, so these lines are removed.
    """
    complete = Parsed()
    try:
        while data:
            while data.startswith(b"\r\n"):
                data = data[2:]
            connection, body = h11.Connection(h11.SERVER, max_incomplete_event_size=2**20), b""
            connection.receive_data(data)
            request = connection.next_event()
            if not isinstance(request, h11.Request):
                break
            while isinstance(event := connection.next_event(), h11.Data):
                body += bytes(event.data)
            if not isinstance(event, h11.EndOfMessage):
                break
            complete.append((request.method, request.target, body))
            data = connection.trailing_data[0]
    except h11.RemoteProtocolError:
        pass
    return complete


async def test_served_requests_are_parsed_the_same_way_by_h11() -> None:
    """h11 accepts more than the proxy serves: bare line feeds, folded headers, trailers, repeated equal lengths,
    Transfer-Encoding together with Content-Length, and any method. It must not parse anything differently."""
    chance, session = random.Random(11), make_session()
    app = JudgeApp(session)
    app.hosts = frozenset({b"127.0.0.1:5"})
    served = 0
    for _ in range(3000):
        data = broken(chance, lambda: valid(chance, 5, session.token))
        ours = as_we_read(app, data)
        assert ours == as_h11_reads(data)[: len(ours)], data
        served += len(ours)
    assert served > 1000
