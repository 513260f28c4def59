"""The cost of the judge proxy: `python -m benchmarks.proxy [--quick]`.

Measures calls per second and time per call, compared with bare servers that only echo. Each server is a separate
process, called by the same client. The overhead is measured against calling the same provider in this process.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from agentv.judge.proxy import JudgeProxy
from agentv.judge.session import JudgeSession
from agentv.judge.targets import JudgeTargets
from agentv.targets.gate import TargetGate
from agentv.targets.provider import Request, TargetScope
from agentv.targets.providers.mock import MockProvider, MockSettings
from benchmarks.options import Options
from benchmarks.proxy_servers import KINDS, start
from benchmarks.report import Figure, Report, machine

NAME = "proxy"
BODY = json.dumps({"question": "Is this chunk relevant to the question? " * 20, "systemPrompt": "Be strict."}).encode()


def _gate(delay_ms: float = 0.0, concurrency: int = 64) -> TargetGate:
    settings = MockSettings(provider="mock", response="yes", delay_ms=delay_ms, max_concurrency=concurrency)
    return TargetGate(MockProvider(settings, TargetScope("judge", Path())), settings, name="judge")


def _session(gate: TargetGate, max_calls: int = 10**9) -> JudgeSession:
    return JudgeSession(JudgeTargets("judge", {"judge": gate}), evaluator="bench", max_calls=max_calls)


class Client(asyncio.Protocol):
    """One keep-alive connection that sends the next request as soon as the response has arrived."""

    def __init__(self, request: bytes, calls: int, done: asyncio.Future[list[float]]) -> None:
        self._request, self._left, self._done = request, calls, done
        self._buffer = bytearray()
        self._times: list[float] = []
        self.errors = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(exc or ConnectionError("closed by the server"))

    def _send(self) -> None:
        self._sent = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._buffer[:end]).lower()
        size = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        if len(self._buffer) < end + 4 + size:
            return
        self._times.append(time.perf_counter() - self._sent)
        self.errors += not head.startswith(b"http/1.1 200")
        self._buffer.clear()
        self._left -= 1
        if self._left:
            self._send()
        else:
            if not self._done.done():
                self._done.set_result(self._times)
            self._transport.abort()


def request_bytes(port: int, token: str, path: str = "/invoke", body: bytes = BODY) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
    head += f"Accept: */*\r\nUser-Agent: bench\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _same(client: Client) -> Client:
    return client


async def hammer(port: int, request: bytes, connections: int, calls: int) -> tuple[float, list[float], int]:
    """Seconds for all calls, the time of each call, and the number of responses other than 200."""
    loop = asyncio.get_running_loop()
    clients, waits = [], []
    started = time.perf_counter()
    for _ in range(connections):
        done: asyncio.Future[list[float]] = loop.create_future()
        client = Client(request, calls // connections, done)
        clients.append(client)
        waits.append(done)
        await loop.create_connection(partial(_same, client), "127.0.0.1", port)
    times = [one for group in await asyncio.gather(*waits) for one in group]
    return time.perf_counter() - started, times, sum(client.errors for client in clients)


def _cpu_seconds(pid: int) -> float:
    """The CPU time a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Served:
    """A running contestant."""

    port: int
    token: str
    pid: int


@contextlib.contextmanager
def serving(kind: str, delay_ms: float = 0.0) -> Iterator[Served]:
    """Run a contestant in a separate process."""
    process: subprocess.Popen[str] = start(kind, delay_ms)
    try:
        assert process.stdout is not None
        port, _, token = process.stdout.readline().strip().partition(" ")
        yield Served(int(port), token, process.pid)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(timeout=10)


def _routes(options: Options) -> dict[str, float]:
    """p50 in milliseconds of sequential calls by route, in turns on the same proxy."""
    message = {"role": "user", "content": json.loads(BODY)["question"]}
    chat = {"model": "gpt-4o", "messages": [{"role": "system", "content": "Be strict."}, message], "temperature": 0}
    responses = {"model": "gpt-4o", "instructions": "Be strict.", "input": [message], "temperature": 0}
    bodies = {"/invoke": BODY}
    bodies |= {
        path: json.dumps(body).encode() for path, body in (("/v1/chat/completions", chat), ("/v1/responses", responses))
    }
    times: dict[str, list[float]] = {path: [] for path in bodies}
    with serving("judge") as server:
        for _ in range(options.pick(20, 2)):
            for path, body in bodies.items():
                request = request_bytes(server.port, server.token, path, body)
                times[path] += asyncio.run(hammer(server.port, request, 1, options.pick(200, 10)))[1]
    return {path: statistics.median(taken) * 1000 for path, taken in times.items()}


def _median(rounds: list[float]) -> float:
    return statistics.median(rounds)


@dataclass(slots=True)
class Rates:
    """Calls per second of wall time, and per second of the server's CPU time: what one core could do."""

    wall: list[float] = field(default_factory=list)
    core: list[float] = field(default_factory=list)


def _throughput(options: Options) -> tuple[dict[str, Rates], int]:
    """Rates with 32 connections, contestants taking turns; and the failed calls of all rounds."""
    kinds = [kind for kind in KINDS if kind != "node" or shutil.which("node")]
    rates = {kind: Rates() for kind in kinds}
    calls, failed = options.pick(20_000, 640), 0
    for turn in range(options.pick(3, 1)):
        for kind in kinds[:: 1 if turn % 2 == 0 else -1]:
            options.say(f"{kind}, turn {turn + 1}")
            with serving(kind) as server:
                request = request_bytes(server.port, server.token)
                asyncio.run(hammer(server.port, request, 32, 1600))
                before = _cpu_seconds(server.pid)
                seconds, times, errors = asyncio.run(hammer(server.port, request, 32, calls))
                used = _cpu_seconds(server.pid) - before
            rates[kind].wall.append(len(times) / seconds)
            rates[kind].core.append(len(times) / max(used, 0.01))
            failed += errors
    return rates, failed


async def _in_process(delay_ms: float, calls: int) -> list[float]:
    gate, times = _gate(delay_ms), []
    request = Request(json.loads(BODY)["question"], "Be strict.")
    for _ in range(calls):
        started = time.perf_counter()
        await gate.invoke(request)
        times.append(time.perf_counter() - started)
    return times


def _added(options: Options, delay_ms: float, kind: str = "judge") -> dict[str, float]:
    """Overhead per sequential call in milliseconds: through a server minus in this process, taking turns."""
    turns, calls = options.pick(10, 2), options.pick(200 if delay_ms == 0 else 20, 10)
    bare: list[float] = []
    proxied: list[float] = []
    with serving(kind, delay_ms) as server:
        request = request_bytes(server.port, server.token)
        asyncio.run(hammer(server.port, request, 1, 20))
        for _ in range(turns):
            bare += asyncio.run(_in_process(delay_ms, calls))
            proxied += asyncio.run(hammer(server.port, request, 1, calls))[1]
    bare.sort()
    proxied.sort()
    return {
        "p50": (proxied[len(proxied) // 2] - bare[len(bare) // 2]) * 1000,
        "p99": (proxied[len(proxied) * 99 // 100] - bare[len(bare) * 99 // 100]) * 1000,
    }


async def _open_close(times: int) -> float:
    """Milliseconds to create a session and to open and close its proxy."""
    gate = _gate()
    started = time.perf_counter()
    for _ in range(times):
        async with JudgeProxy(_session(gate)):
            pass
    return (time.perf_counter() - started) / times * 1000


@contextlib.asynccontextmanager
async def _many(count: int) -> AsyncIterator[list[JudgeProxy]]:
    gate = _gate()
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(JudgeProxy(_session(gate))) for _ in range(count)]


async def _all_at_once(count: int) -> int:
    """The number of proxies that answered while all of them were open."""
    answered = 0
    async with _many(count) as proxies:
        for first in range(0, count, 100):
            group = proxies[first : first + 100]
            calls = [
                hammer(port := int(proxy.url.rpartition(":")[2]), request_bytes(port, proxy.token), 1, 1)
                for proxy in group
            ]
            answered += sum(not errors for _, _, errors in await asyncio.gather(*calls))
    return answered


async def _batch_ratio(rounds: int) -> float:
    """The time of a batch of 20 calls of 50 ms, divided by that of one such call."""
    batch = json.dumps({"requests": [{"question": "q"}] * 20}).encode()
    ones, batches = [], []
    async with JudgeProxy(_session(_gate(50.0, concurrency=32))) as proxy:
        port = int(proxy.url.rpartition(":")[2])
        for _ in range(rounds):
            ones += (await hammer(port, request_bytes(port, proxy.token), 1, 1))[1]
            batches += (await hammer(port, request_bytes(port, proxy.token, "/invokeBatch", batch), 1, 1))[1]
    return _median(batches) / _median(ones)


def measure(options: Options) -> Report:
    rates, failed = _throughput(options)
    instant, slow = _added(options, 0.0), _added(options, 20.0)
    echo = _added(options, 20.0, "aiohttp parser")
    proxies = options.pick(2_000, 50)
    routes = _routes(options)
    figures = [
        Figure("calls/s of one core, 32 connections", _median(rates["judge"].core), goal=10_000, better="higher"),
        *(Figure(f"  {kind}, echo only", _median(rates[kind].core)) for kind in rates if kind != "judge"),
        Figure("calls/s of wall time, 32 connections", _median(rates["judge"].wall), goal=10_000, better="higher"),
        *(Figure(f"  {kind}, echo only", _median(rates[kind].wall)) for kind in rates if kind != "judge"),
        Figure("failed calls, all rounds", failed, goal=0),
        Figure("added per call, 0 ms provider: p50", instant["p50"], "ms", goal=0.4),
        Figure("added per call, 0 ms provider: p99", instant["p99"], "ms"),
        Figure("added per call, 20 ms provider: p50", slow["p50"], "ms", goal=0.4),
        Figure("added per call, 20 ms provider: p99", slow["p99"], "ms"),
        Figure("  aiohttp parser, echo after 20 ms: p50", echo["p50"], "ms"),
        Figure("/invoke, 0 ms provider: p50", routes["/invoke"], "ms"),
        *(
            Figure(f"  {path}, added to /invoke: p50", routes[path] - routes["/invoke"], "ms")
            for path in routes
            if path != "/invoke"
        ),
        Figure("open and close", asyncio.run(_open_close(options.pick(1_000, 20))), "ms", goal=1.0),
        Figure(
            "proxies open together that answered", asyncio.run(_all_at_once(proxies)), goal=proxies, better="higher"
        ),
        Figure("batch of 20 / one call, 50 ms each", asyncio.run(_batch_ratio(options.pick(9, 2))), goal=1.3),
    ]
    return Report(NAME, figures)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.proxy")
    parser.add_argument("--quick", action="store_true", help="run a smoke test; the numbers are meaningless")
    quick = parser.parse_args().quick
    print(f"python {machine()['python']}, {machine()['cpus']} CPUs, load {machine()['load']:.1f}")
    report = measure(Options(quick=quick, say=lambda text: print(text, file=sys.stderr)))
    print((report.without_goals() if quick else report).table())


if __name__ == "__main__":
    main()
