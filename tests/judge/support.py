"""A fake judge, a session for it, and a client that sends raw bytes to a judge proxy."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agentv.judge.proxy import JudgeProxy
from agentv.judge.recording import Recording
from agentv.judge.session import JudgeSession
from agentv.judge.targets import JudgeTargets
from agentv.messages import OPTIONS, TokenUsage
from agentv.targets.provider import Provider, Reply, Request


class Judge(Provider):
    """A provider that counts its calls. With `held`, it does not answer before `let_go` is called."""

    honours = frozenset(OPTIONS)

    def __init__(self, answer: Callable[[Request], Reply] | str = "yes", *, held: bool = False) -> None:
        self.calls = 0
        self.cancelled = 0
        self.requests: list[Request] = []
        self._answer = answer
        self._free = asyncio.Event()
        self._arrived = asyncio.Condition()
        if not held:
            self._free.set()

    def let_go(self) -> None:
        self._free.set()

    async def has_calls(self, count: int) -> None:
        async with asyncio.timeout(30), self._arrived:
            await self._arrived.wait_for(lambda: self.calls >= count)

    async def invoke(self, request: Request) -> Reply:
        self.calls += 1
        self.requests.append(request)
        async with self._arrived:
            self._arrived.notify_all()
        try:
            await self._free.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return Reply.of_text(self._answer) if isinstance(self._answer, str) else self._answer(request)


class Embedder(Judge):
    """A target for embeddings that embeds every text as 1.0 and 2.0."""

    embeds = True

    async def invoke(self, request: Request) -> Reply:
        await super().invoke(request)
        assert request.embeddings
        vectors = tuple(bytes.fromhex("0000803f00000040") for _ in request.messages)
        return Reply((), TokenUsage(4), 0.5, model="small", embeddings=vectors)


def make_session(judge: Any = None, *, others: dict[str, Any] | None = None, **options: Any) -> JudgeSession:
    """A session whose default target is `strict`. With `on_call`, calls are recorded there."""
    if "on_call" in options:
        options["recording"] = Recording(options.pop("on_call"), options.pop("io", True))
    targets = {name: options.pop(name) for name in ("unavailable", "allowed", "embeddings") if name in options}
    live = {"strict": judge if judge is not None else Judge(), **(others or {})}
    return JudgeSession(JudgeTargets("strict", live, **targets), evaluator="precision", **options)


@dataclass
class Response:
    status: int
    headers: dict[str, str]
    body: bytes
    raw: bytes = field(repr=False, default=b"")

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return str(self.json["code"])


def session_of(proxy: JudgeProxy) -> JudgeSession:
    """The session behind a proxy of this process."""
    assert isinstance(proxy.session, JudgeSession)
    return proxy.session


def port_of(proxy: JudgeProxy) -> int:
    return int(proxy.url.rpartition(":")[2])


def request(
    proxy: JudgeProxy,
    method: str = "POST",
    path: str = "/invoke",
    body: bytes | Any = None,
    *,
    headers: dict[str, str | None] | None = None,
    version: str = "HTTP/1.1",
) -> bytes:
    """The bytes of a request. Headers with the value None are omitted."""
    content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    fields: dict[str, str | None] = {
        "Host": f"127.0.0.1:{port_of(proxy)}",
        "Authorization": f"Bearer {proxy.token}",
        "Content-Length": str(len(content)) if content else None,
        **(headers or {}),
    }
    lines = [f"{method} {path} {version}", *(f"{name}: {value}" for name, value in fields.items() if value is not None)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + content


class Wire:
    """One raw connection to a proxy."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def to(cls, proxy: JudgeProxy) -> Wire:
        return cls(*await asyncio.open_connection("127.0.0.1", port_of(proxy)))

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def response(self, *, body: bool = True) -> Response:
        async with asyncio.timeout(30):
            head = await self.reader.readuntil(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")[:-2]
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            status = int(first.split(" ")[1])
            size = int(headers.get("content-length", "0")) if body and status >= 200 else 0
            content = await self.reader.readexactly(size)
        return Response(status, headers, content, head + content)

    async def rest(self) -> bytes:
        """Everything until the other side closes."""
        async with asyncio.timeout(30):
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()

    async def __aenter__(self) -> Wire:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def send(proxy: JudgeProxy, data: bytes, *, body: bool = True) -> Response:
    """Send one request on a new connection."""
    async with await Wire.to(proxy) as wire:
        wire.send(data)
        return await wire.response(body=body)


async def ask(proxy: JudgeProxy, body: Any = None, **options: Any) -> Response:
    """`POST /invoke` with a question."""
    return await send(proxy, request(proxy, body={"question": "q"} if body is None else body, **options))


async def info(proxy: JudgeProxy) -> Any:
    reply = await send(proxy, request(proxy, "GET", "/info"))
    assert reply.status == 200
    return reply.json
