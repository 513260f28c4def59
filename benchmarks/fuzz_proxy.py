"""Send malformed HTTP to a live judge proxy: `python -m benchmarks.fuzz_proxy --requests 200000 [--seed N]`.

Half of the inputs have a wrong token: none of them may get a 1xx or 2xx response or reach the judge. The other half
have the right token: the number of judge calls must match the responses and stay within the limit. Nothing may crash.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import secrets
import socket
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from agentv.http import server
from agentv.judge.proxy import JudgeProxy
from agentv.judge.session import JudgeSession
from agentv.judge.targets import JudgeTargets
from agentv.targets.provider import Provider, Reply, Request

LIMIT = 10**9
NAMES = (
    b"Content-Length",
    b"Transfer-Encoding",
    b"Host",
    b"Authorization",
    b"Connection",
    b"Expect",
    b"Origin",
    b"Upgrade",
)
PIECES = (
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b"\t",
    b":",
    b"\r\n\r\n",
    b"\r\n ",
    b"\xff",
    b"0\r\n\r\n",
    b"5\r\n",
    b"Content-Length: 0\r\n",
    b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding : chunked\r\n",
    b"Content-Length: 99999999999999999999\r\n",
    b"Expect: 100-continue\r\n",
    b"HTTP/1.0",
    b"{",
    b"[" * 50,
    b'"question"',
)


class Counting(Provider):
    """A judge that counts its calls."""

    calls = 0

    async def invoke(self, request: Request) -> Reply:
        del request
        self.calls += 1
        return Reply.of_text("yes")


@dataclass
class Outcome:
    """The outcome so far. The three lists must stay empty."""

    requests: int = 0
    answered: dict[str, int] = field(default_factory=dict)
    crashes: list[str] = field(default_factory=list)
    let_in: list[bytes] = field(default_factory=list)
    extra_calls: int = 0

    @property
    def clean(self) -> bool:
        return not (self.crashes or self.let_in or self.extra_calls)


def valid(chance: random.Random, port: int, token: str) -> bytes:
    """A valid request, as clients send it."""
    path, body = chance.choice(
        [
            ("/info", b""),
            ("/invoke", b'{"question": "q"}'),
            ("/invoke", json.dumps({"question": "q" * chance.randrange(1, 300), "attempt": 1}).encode()),
            ("/invokeBatch", b'{"requests": [{"question": "a"}, {"question": "b"}]}'),
        ]
    )
    lines = [
        f"{'POST' if body else 'GET'} {path} HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        f"Authorization: Bearer {token}",
    ]
    if body and chance.random() < 0.3:
        cut = chance.randrange(1, len(body))
        lines.append("Transfer-Encoding: chunked")
        body = b"%x\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (cut, body[:cut], len(body) - cut, body[cut:])
    elif body:
        lines.append(f"Content-Length: {len(body)}")
    lines[1:] = chance.sample(lines[1:], len(lines) - 1)
    return "\r\n".join([*lines, "", ""]).encode() + body


def broken(chance: random.Random, make: Callable[[], bytes]) -> bytes:
    """One or more requests, corrupted in up to a few places."""
    if chance.random() < 0.03:
        return chance.randbytes(chance.randrange(1, 400))
    data = bytearray(b"".join(make() for _ in range(chance.choice((1, 1, 1, 2, 3)))))
    for _ in range(chance.choice((0, 1, 1, 2, 3, 8))):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(7):
            case 0 if at < len(data):
                data[at] = chance.randrange(256)
            case 1:
                del data[at : at + chance.randrange(1, 20)]
            case 2 | 3:
                data[at:at] = chance.choice(PIECES)
            case 4:
                data[at:at] = data[at : at + chance.randrange(1, 60)]
            case 5:
                name = chance.choice(NAMES)
                end = data.find(b"\r\n") + 2
                data[end:end] = name + b": " + chance.choice((b"0", b"5", b"chunked", b"x", b"close", b"")) + b"\r\n"
            case _:
                del data[max(1, at) :]
        if not data:
            data = bytearray(b"\r\n")
    return bytes(data)


async def exchange(port: int, data: bytes) -> bytes:
    """Send the input and read until the proxy closes the connection; its deadlines are short here."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    # Reset the connection, so that no port stays in TIME_WAIT: there are more requests than ports.
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    try:
        writer.write(data)
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()


def _statuses(reply: bytes) -> list[str]:
    return [status.decode() for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", reply)]


async def fuzz(requests: int, seed: int, say: Callable[[str], None] = lambda _: None, in_flight: int = 64) -> Outcome:
    """Send `requests` inputs. The caller must have shortened the deadlines of the proxy."""
    chance, judge, outcome = random.Random(seed), Counting(), Outcome()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: outcome.crashes.append(str(context)))
    session = JudgeSession(JudgeTargets("judge", {"judge": judge}), evaluator="fuzz", max_calls=LIMIT)
    replied = 0
    async with JudgeProxy(session) as proxy:
        # A script that sends this many invalid requests loses its proxy; here, one proxy has to serve all of them.
        proxy.budget.limits = replace(proxy.budget.limits, refused=None, cpu_seconds=None)
        port = int(proxy.url.rpartition(":")[2])
        stranger = secrets.token_urlsafe(32)

        async def one(data: bytes, trusted: bool) -> int:
            reply = await exchange(port, data)
            for status in _statuses(reply):
                outcome.answered[status] = outcome.answered.get(status, 0) + 1
                if not trusted and status < "400":
                    outcome.let_in.append(data)
            return reply.count(b'"rawText"')

        for start in range(0, requests, in_flight):
            inputs = []
            for number in range(start, min(start + in_flight, requests)):
                token = proxy.token if number % 2 else stranger
                inputs.append((broken(chance, partial(valid, chance, port, token)), bool(number % 2)))
            replied += sum(await asyncio.gather(*(one(data, trusted) for data, trusted in inputs)))
            outcome.requests += len(inputs)
            outcome.extra_calls = max(judge.calls, session.ledger.call_count) - replied
            if start % (in_flight * 100) == 0:
                say(f"{outcome.requests:,} requests, {judge.calls:,} calls")
        if (await exchange(port, valid(random.Random(0), port, stranger)))[9:12] != b"401":
            outcome.crashes.append("the proxy no longer responds")
    return outcome


def short_deadlines() -> None:
    """Shorten the deadlines of the proxy from seconds to milliseconds."""
    server.HEAD_SECONDS = server.BODY_SECONDS = server.IDLE_SECONDS = server.LINGER_SECONDS = 0.03


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz_proxy")
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    short_deadlines()
    started = time.perf_counter()
    outcome = asyncio.run(fuzz(args.requests, args.seed, lambda text: print(text, file=sys.stderr)))
    print(f"{outcome.requests:,} requests in {time.perf_counter() - started:.0f} s, answers {outcome.answered}")
    print(f"crashes {len(outcome.crashes)}, no-token accepts {len(outcome.let_in)}, extra calls {outcome.extra_calls}")
    for crash in outcome.crashes[:5]:
        print(crash)
    sys.exit(not outcome.clean)


if __name__ == "__main__":
    main()
