"""The same work without any framework, as a baseline. Run as a script; prints one JSON object.

bare.py sleep CALLS IN_FLIGHT SECONDS     asyncio.sleep behind a semaphore
bare.py http CALLS IN_FLIGHT URL          an aiohttp client
bare.py judged CASES IN_FLIGHT URL        the same with two calls per case: the answer and the judgment
bare.py csafe FILE                        yaml.CSafeLoader
bare.py events FILE                       parser events of the same C parser, discarded
bare.py load FILE                         agentv: load and validate
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

Call = Callable[[], Awaitable[object]]
IMPORTS: dict[str, tuple[str, ...]] = {
    "sleep": (),
    "http": ("aiohttp",),
    "judged": ("aiohttp",),
    "csafe": ("yaml",),
    "events": ("yaml",),
    "load": ("agentv.suite.loader", "agentv.evaluators.reader"),
}


async def in_flight(call: Call, calls: int, limit: int) -> None:
    """Make the calls, at most `limit` of them concurrently."""
    slots = asyncio.Semaphore(limit)

    async def one() -> None:
        async with slots:
            await call()

    async with asyncio.TaskGroup() as group:
        for _ in range(calls):
            group.create_task(one())


async def sleep(calls: int, limit: int, seconds: float) -> None:
    await in_flight(lambda: asyncio.sleep(seconds), calls, limit)


async def http(calls: int, limit: int, url: str, *, each: int = 1) -> None:
    import aiohttp  # noqa: PLC0415 - the other contestants do not need it

    body = {"model": "fake", "messages": [{"role": "user", "content": "What is the capital of France?"}]}
    data = json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Authorization": "Bearer not-a-secret"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=limit)) as session:

        async def ask() -> None:
            async with session.post(f"{url}/chat/completions", data=data, headers=headers) as reply:
                answer = json.loads(await reply.read())
                assert "Paris" in answer["choices"][0]["message"]["content"]

        async def ask_each() -> None:
            for _ in range(each):
                await ask()

        await in_flight(ask if each == 1 else ask_each, calls, limit)


def csafe(path: Path) -> int:
    import yaml  # noqa: PLC0415

    with path.open("rb") as file:
        return len(yaml.load(file, Loader=yaml.CSafeLoader)["evalcases"])


def events(path: Path) -> int:
    import yaml  # noqa: PLC0415

    with path.open("rb") as file:
        parser = yaml.CSafeLoader(file)
        return sum(1 for _ in iter(parser.get_event, None))


def load(path: Path) -> int:
    from agentv.evaluators.reader import EvaluatorReader  # noqa: PLC0415
    from agentv.suite.loader import load_suite  # noqa: PLC0415

    return len(load_suite(path, EvaluatorReader()).ids)


def main(kind: str, *arguments: str) -> None:
    reader = {"csafe": csafe, "events": events, "load": load}.get(kind)
    for module in IMPORTS[kind]:  # measured elsewhere
        importlib.import_module(module)
    started, cpu = time.perf_counter(), time.process_time()
    count = 0
    if reader is not None:
        count = reader(Path(arguments[0]))
    elif kind == "sleep":
        asyncio.run(sleep(int(arguments[0]), int(arguments[1]), float(arguments[2])))
    else:
        each = 2 if kind == "judged" else 1
        asyncio.run(http(int(arguments[0]), int(arguments[1]), arguments[2], each=each))
    spent = {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - cpu,
        "count": count,
    }
    print(json.dumps(spent))


if __name__ == "__main__":
    main(*sys.argv[1:])
