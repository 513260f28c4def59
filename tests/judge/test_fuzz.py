"""Broken bytes: against a live proxy, and our reading of them against aiohttp's."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_parser import HttpRequestParser
from benchmarks.fuzz_proxy import broken, fuzz, valid

from agentv.judge import connection as connection_module
from agentv.judge.app import Answer, JudgeApp
from agentv.judge.http1 import BadRequestError, BodyTooLargeError, parse_head
from tests.judge.support import make_session

Parsed = list[tuple[str, str, bytes]]


async def test_broken_requests_crash_nothing_let_nobody_in_and_cost_no_extra_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HEAD_SECONDS", "BODY_SECONDS", "IDLE_SECONDS", "LINGER_SECONDS"):
        monkeypatch.setattr(connection_module, name, 0.03)
    outcome = await fuzz(3000, seed=7)
    assert (outcome.crashes, outcome.let_in, outcome.extra_calls) == ([], [], 0)
    assert outcome.answered["200"] > 300
    assert outcome.answered["401"] > 300
    assert outcome.answered["400"] > 100


def as_we_read(app: JudgeApp, data: bytes) -> Parsed:
    """The requests that would be served, up to the first that is refused or incomplete."""
    buffer, found = bytearray(data), Parsed()
    while (end := buffer.find(b"\r\n\r\n")) >= 0:
        if buffer.startswith(b"\r\n"):
            del buffer[:2]
            continue
        try:
            head = parse_head(buffer[: end + 4])
            body = app.screen(head)
            del buffer[: end + 4]
            content = b"" if body is None else None if isinstance(body, Answer) else body.take(buffer)
        except (BadRequestError, BodyTooLargeError):
            break
        if content is None:
            break
        found.append((head.method.decode(), head.target.decode(), content))
        if not head.keeps_alive:
            break
    return found


def as_aiohttp_reads(data: bytes) -> Parsed:
    loop = asyncio.get_running_loop()
    parser = HttpRequestParser(BaseProtocol(loop), loop, 2**16, max_line_size=2**16, max_field_size=2**16)
    seen = []
    with contextlib.suppress(Exception):  # whatever it raises, it reads no further
        for position in range(len(data)):
            messages, upgraded, _ = parser.feed_data(data[position : position + 1])
            seen += messages
            if upgraded:
                break
    complete = [(message, body) for message, body in seen if body.is_eof()]
    return [(message.method, message.path, body.read_nowait()) for message, body in complete]


async def test_whatever_we_serve_aiohttp_reads_the_same_way() -> None:
    chance, session = random.Random(11), make_session()
    app = JudgeApp(session)
    app.serve_on(5)
    served = 0
    for _ in range(6000):
        data = broken(chance, lambda: valid(chance, 5, session.token))
        ours = as_we_read(app, data)
        assert ours == as_aiohttp_reads(data)[: len(ours)], data
        served += len(ours)
    assert served > 1000
