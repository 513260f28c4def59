"""Measure the promises that need many repetitions or a lot of data: `python -m benchmarks.endurance [--quick]`.

Each line shows what was measured and its limit. Exits with code 1 if a limit was exceeded.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from agentv.errors import EvaluatorError
from agentv.judge.proxy import JudgeProxy
from agentv.judge.session import JudgeSession
from agentv.judge.targets import JudgeTargets
from agentv.processes.launcher import Launcher
from agentv.scripts import Runtime, ScriptSpec, run_script
from agentv.targets.environment import Environment
from agentv.wire.output import OutputError, parse_output
from agentv.wire.payload import with_empty_values
from benchmarks.fuzz_proxy import Counting, exchange

LIMIT, CONCURRENT = 50, 200
PAYLOAD = with_empty_values({"eval_id": "endurance", "attempt": 1})
RESULTS = (
    b'{"score": 0.5}',
    b'{"score": 1, "hits": ["a"], "misses": [], "reasoning": "r", "details": {"k": [1, null]}}',
    b'log\n{\n "score": 0.25,\n "reasoning": "\\u00e9"\n}\nmore log\n',
    b'{"score": 1e0}\n{"not": "a result"}',
)
PIECES = (
    b"{",
    b"}",
    b'"score"',
    b":",
    b"1e400",
    b"-0",
    b"NaN",
    b"1.0000001",
    b"-1e-7",
    b"\n",
    b"\xff",
    b"true",
    b"9" * 40,
)


@dataclass(frozen=True, slots=True)
class Measured:
    """One promise: the measured value must be at most the limit."""

    what: str
    value: float
    limit: float
    unit: str = ""

    @property
    def held(self) -> bool:
        return self.value <= self.limit

    def __str__(self) -> str:
        mark = "ok  " if self.held else "FAIL"
        return f"{mark}  {self.what}: {self.value:,.6g}{self.unit} (at most {self.limit:,g}{self.unit})"


# -- the proxy


def _request(proxy: JudgeProxy) -> bytes:
    body = b'{"question": "q"}'
    port = proxy.url.rpartition(":")[2]
    head = f"POST /invoke HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {proxy.token}\r\n"
    return f"{head}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def _session(judge: Counting, max_calls: int) -> JudgeSession:
    return JudgeSession(JudgeTargets("judge", {"judge": judge}), evaluator="endurance", max_calls=max_calls)


async def limit(rounds: int) -> AsyncIterator[Measured]:
    """Concurrent calls of one script never exceed its limit."""
    over = under = 0
    for _ in range(rounds):
        judge = Counting()
        async with JudgeProxy(_session(judge, LIMIT)) as proxy:
            port, request = int(proxy.url.rpartition(":")[2]), _request(proxy)
            replies = await asyncio.gather(*(exchange(port, request) for _ in range(CONCURRENT)))
        answered = sum(reply[9:12] == b"200" for reply in replies)
        over += max(0, judge.calls - LIMIT)
        under += LIMIT - answered
    yield Measured(f"calls over a limit of {LIMIT}, {CONCURRENT} at a time, {rounds:,} rounds", over, 0)
    yield Measured("allowed calls that got no answer in these rounds", under, 0)


async def proxies(count: int, calls: int) -> AsyncIterator[Measured]:
    """Many proxies are open at the same time, and all their calls are answered."""
    judge = Counting()
    errors = 0
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(JudgeProxy(_session(judge, calls))) for _ in range(count)]
        waiting = [(int(proxy.url.rpartition(":")[2]), _request(proxy)) for proxy in opened for _ in range(calls)]
        random.Random(1).shuffle(waiting)
        for start in range(0, len(waiting), 100):
            batch = waiting[start : start + 100]
            replies = await asyncio.gather(*(exchange(port, request) for port, request in batch))
            errors += sum(reply[9:12] != b"200" for reply in replies)
    yield Measured(f"failed calls of {len(waiting):,} through {count:,} open proxies", errors, 0)
    yield Measured("judge calls that were not asked for", judge.calls - len(waiting), 0)


# -- scripts

CALLS_ON = """\
import json, os, socket, sys, time
url, token = os.environ["AGENTV_JUDGE_PROXY_URL"], os.environ["AGENTV_JUDGE_PROXY_TOKEN"]
port = int(url.rpartition(":")[2])
request = f"GET /info HTTP/1.1\\r\\nHost: 127.0.0.1:{port}\\r\\nAuthorization: Bearer {token}\\r\\n\\r\\n".encode()
started, answered = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        connection = socket.create_connection(("127.0.0.1", port))
        while True:
            connection.sendall(request)
            if not connection.recv(65536).startswith(b"HTTP/1.1 200"):
                break
            os.write(log, b"%d\\n" % time.monotonic_ns())
            if answered >= 0:
                os.write(answered, b"x")
                os.close(answered)
                answered = -1
    os._exit(0)
os.read(started, 1)
print(json.dumps({"score": 1, "details": {"exit": time.monotonic_ns()}}), flush=True)
os._exit(0)
"""
FLOOD = """\
import os, sys
chunk = b"x" * 2**20
for _ in range(int(sys.argv[2])):
    os.write(int(sys.argv[1]), chunk)
os.write(1, b'\\n{"score": 1}\\n')
"""


@asynccontextmanager
async def _runtime() -> AsyncIterator[Runtime]:
    async with Launcher() as launcher:
        yield Runtime(launcher, environment=Environment(dict(os.environ)))


def _spec(folder: Path, code: str, *arguments: str) -> ScriptSpec:
    file = folder / "script.py"
    file.write_text(code)
    return ScriptSpec("endurance", [sys.executable, "-I", "-S", str(file), *arguments], folder, timeout=120)


async def script_end(rounds: int) -> AsyncIterator[Measured]:
    """A child that a script leaves behind, with the pipes open, neither calls the judge nor delays the result."""
    late, delay = 0.0, 0.0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        async with _runtime() as runtime:
            for number in range(rounds):
                log = folder / f"calls-{number}"
                spec = _spec(folder, CALLS_ON, str(log))
                score = await run_script(spec, PAYLOAD, runtime, lend=partial(_session, Counting(), LIMIT))
                done = time.monotonic_ns()
                ended = int((score.details or {})["exit"])
                last = int(log.read_bytes().split()[-1])
                late, delay = max(late, (last - ended) / 1e6), max(delay, (done - ended) / 1e6)
    yield Measured(f"last answer of the proxy after the script's exit, worst of {rounds}", late, 100, " ms")
    yield Measured("result after the script's exit with its pipes held open", delay, 1000, " ms")


async def floods(megabytes: int) -> AsyncIterator[Measured]:
    """Output without end does not fill the memory of the runtime."""
    with tempfile.TemporaryDirectory() as temporary:
        async with _runtime() as runtime:
            await run_script(_spec(Path(temporary), FLOOD, "2", "1"), PAYLOAD, runtime)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            for descriptor, name in ((1, "stdout"), (2, "stderr")):
                spec = _spec(Path(temporary), FLOOD, str(descriptor), str(megabytes))
                try:
                    await run_script(spec, PAYLOAD, runtime)
                except EvaluatorError as error:
                    if descriptor == 2:
                        raise
                    print(f"      (the flood of stdout was refused: {error.message[:80]})")
                grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
                yield Measured(f"memory for {megabytes:,} MB on {name}", grown, 50, " MB")


async def executions(count: int) -> AsyncIterator[Measured]:
    """Executions leave nothing behind in the runtime."""
    argv = ["/bin/echo", '{"score": 1}']
    async with _runtime() as runtime:

        async def some(number: int) -> None:
            for start in range(0, number, 20):
                await asyncio.gather(
                    *(
                        run_script(
                            ScriptSpec("endurance", argv, Path("/")),
                            PAYLOAD,
                            runtime,
                            lend=partial(_session, Counting(), LIMIT),
                        )
                        for _ in range(min(20, number - start))
                    )
                )

        await some(max(100, count // 10))
        descriptors, memory = _descriptors(), _memory()
        await some(count)
        more, grown = _descriptors() - descriptors, _memory() - memory
    yield Measured(f"more descriptors after {count:,} executions", more, 2)
    yield Measured("memory of each execution", grown / count, 2048, " bytes")


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _memory() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# -- output


async def outputs(count: int) -> AsyncIterator[Measured]:
    """Whatever a script prints is a score from 0 to 1 or an error with a reason."""
    chance = random.Random(7)
    wrong = crashes = scores = 0
    for _ in range(count):
        data = bytearray(chance.choice(RESULTS))
        for _ in range(chance.choice((0, 1, 1, 2, 4))):
            at = chance.randrange(len(data) + 1)
            match chance.randrange(4):
                case 0:
                    data[at:at] = chance.choice(PIECES)
                case 1:
                    del data[at : at + chance.randrange(1, 8)]
                case 2:
                    data[at:at] = data[: chance.randrange(len(data) + 1)]
                case _:
                    data[at : at + 1] = bytes([chance.randrange(256)])
        try:
            score = parse_output(bytes(data)).score
        except OutputError:
            continue
        except Exception as error:
            crashes += 1
            print(f"      {type(error).__name__}: {error}: {json.dumps(data.decode('latin-1'))}")
            continue
        scores += 1
        wrong += not 0.0 <= score <= 1.0
    yield Measured(f"scores outside 0 to 1 in {count:,} broken outputs ({scores:,} scores)", wrong, 0)
    yield Measured("crashes", crashes, 0)


async def measure(*, quick: bool, say: Callable[[Measured], None]) -> bool:
    """Measure everything. True if every promise was kept."""
    parts = (
        limit(5 if quick else 1_000),
        proxies(50 if quick else 2_000, 10),
        script_end(3 if quick else 50),
        floods(100 if quick else 5_000),
        executions(200 if quick else 10_000),
        outputs(2_000 if quick else 100_000),
    )
    kept = True
    for part in parts:
        async for measured in part:
            say(measured)
            kept = kept and measured.held
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the promises that need many repetitions or a lot of data.")
    parser.add_argument("--quick", action="store_true", help="a few repetitions, to try the measurement")
    quick = parser.parse_args().quick
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    sys.exit(0 if asyncio.run(measure(quick=quick, say=lambda measured: print(measured, flush=True))) else 1)


if __name__ == "__main__":
    main()
