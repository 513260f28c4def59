"""Call a chat completions server through one client; prints one JSON object.

python -m benchmarks.client_calls CLIENT CALLS IN_FLIGHT URL

agentv       the `openai` provider behind its gate
aiohttp      a bare aiohttp client
openai       the openai SDK
pydantic_ai  pydantic-ai's direct request, over the openai SDK
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from benchmarks.bare import in_flight

Call = Callable[[], Awaitable[object]]
KEY = "not-a-secret"
MODEL = "fake"
SYSTEM = "You answer in one sentence."
QUESTION = "What is the capital of France?"


def _checked(text: str | None) -> None:
    if "Paris" not in (text or ""):
        raise SystemExit(f"the answer must be the server's, got {text!r}")


@contextlib.asynccontextmanager
async def agentv(url: str, limit: int) -> AsyncIterator[Call]:
    from agentv.targets.gate import TargetGate  # noqa: PLC0415 - each client imports only what it needs
    from agentv.targets.provider import Request, TargetScope  # noqa: PLC0415
    from agentv.targets.registry import provider_class  # noqa: PLC0415

    kind = provider_class("openai")
    assert kind is not None
    settings = kind.Settings.model_validate(
        {"provider": "openai", "model": MODEL, "base_url": url, "api_key": KEY, "max_concurrency": limit}
    )
    gate = TargetGate(kind(settings, TargetScope("fake", Path.cwd())), settings, name="fake")

    async def call() -> None:
        _checked((await gate.invoke(Request(QUESTION, SYSTEM))).text)

    try:
        yield call
    finally:
        await gate.aclose()


@contextlib.asynccontextmanager
async def aiohttp(url: str, limit: int) -> AsyncIterator[Call]:
    import aiohttp as library  # noqa: PLC0415

    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]
    async with library.ClientSession(connector=library.TCPConnector(limit=limit)) as session:

        async def call() -> None:
            body = json.dumps({"model": MODEL, "messages": messages}).encode()
            async with session.post(f"{url}/chat/completions", data=body, headers=headers) as reply:
                _checked(json.loads(await reply.read())["choices"][0]["message"]["content"])

        yield call


@contextlib.asynccontextmanager
async def openai(url: str, _limit: int) -> AsyncIterator[Call]:
    import openai as library  # noqa: PLC0415

    messages: Any = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]
    async with library.AsyncOpenAI(base_url=url, api_key=KEY, max_retries=0) as client:

        async def call() -> None:
            reply = await client.chat.completions.create(model=MODEL, messages=messages)
            _checked(reply.choices[0].message.content)

        yield call


@contextlib.asynccontextmanager
async def pydantic_ai(url: str, _limit: int) -> AsyncIterator[Call]:
    import openai as library  # noqa: PLC0415
    from pydantic_ai.direct import model_request  # noqa: PLC0415
    from pydantic_ai.messages import ModelRequest, SystemPromptPart, TextPart, UserPromptPart  # noqa: PLC0415
    from pydantic_ai.models.openai import OpenAIChatModel  # noqa: PLC0415
    from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415

    async with library.AsyncOpenAI(base_url=url, api_key=KEY, max_retries=0) as client:
        model = OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=client))

        async def call() -> None:
            asked = ModelRequest(parts=[SystemPromptPart(SYSTEM), UserPromptPart(QUESTION)])
            reply = await model_request(model, [asked])
            _checked("".join(part.content for part in reply.parts if isinstance(part, TextPart)))

        yield call


CLIENTS = {"agentv": agentv, "aiohttp": aiohttp, "openai": openai, "pydantic_ai": pydantic_ai}


async def measure(client: str, calls: int, limit: int, url: str) -> dict[str, float]:
    async with CLIENTS[client](url, limit) as call:
        await in_flight(call, limit, limit)  # warm-up: connections and lazy imports
        started, cpu = time.perf_counter(), time.process_time()
        await in_flight(call, calls, limit)
        return {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - cpu}


def main(client: str, calls: str, limit: str, url: str) -> None:
    print(json.dumps(asyncio.run(measure(client, int(calls), int(limit), url))))


if __name__ == "__main__":
    main(*sys.argv[1:])
