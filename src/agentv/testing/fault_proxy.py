"""A proxy in front of a real server that spoils some of its replies, for tests of what clients make of that.

    with FaultProxy("http://127.0.0.1:8000", faults=[answer(429, headers={"Retry-After": "1"}), None]) as proxy:
        ...  # talk to proxy.url; the first call is refused, the others reach the server

A fault is a coroutine function of an `Exchange`: one call, what the server says to it, and the way back. The proxy
runs in a thread of its own, so that any test can use it while a program or a loop of its own runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Self
from urllib.parse import urlsplit

from agentv.testing.loop_thread import RunThere, loop_thread

HEAD_LIMIT = 1024 * 1024


@dataclass(slots=True)
class Exchange:
    """One call through the proxy."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes = field(repr=False)
    _head: bytes = field(repr=False)
    _upstream: tuple[str, int] = field(repr=False)
    _writer: asyncio.StreamWriter = field(repr=False)

    async def ask(self) -> tuple[bytes, bytes]:
        """What the server answers to this call: its head, with the empty line, and its body as sent."""
        reader, writer = await asyncio.open_connection(*self._upstream)
        try:
            writer.write(self._head + self.body)
            await writer.drain()
            head, _, body = (await reader.read(-1)).partition(b"\r\n\r\n")
        finally:
            writer.close()
        return head + b"\r\n\r\n", body

    async def send(self, data: bytes) -> None:
        """Bytes back to the client."""
        self._writer.write(data)
        await self._writer.drain()

    def reset(self) -> None:
        """Break the connection off with a TCP reset, as a dying server or a firewall does."""
        raw = self._writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


Fault = Callable[[Exchange], Awaitable[None]]


async def pass_on(exchange: Exchange) -> None:
    """No fault: the reply of the server, as it is."""
    head, body = await exchange.ask()
    await exchange.send(head + body)


def answer(status: int, body: bytes = b"", *, headers: Mapping[str, str] | None = None) -> Fault:
    """This reply, without asking the server."""

    async def fault(exchange: Exchange) -> None:
        told = {"Content-Type": "application/json", **(headers or {}), "Content-Length": str(len(body))}
        await exchange.send(_head(status, told) + body)

    return fault


def cut(after: int, *, reset: bool = False) -> Fault:
    """The connection ends, in order or with a reset, after so many bytes of the body of the server's reply."""

    async def fault(exchange: Exchange) -> None:
        head, body = await exchange.ask()
        await exchange.send(head + body[:after])
        if reset:
            await asyncio.sleep(0.05)  # let it leave before the reset overtakes it
            exchange.reset()

    return fault


def spoil(change: Callable[[bytes], bytes]) -> Fault:
    """A whole HTTP reply with the server's head and this change of its body."""

    async def fault(exchange: Exchange) -> None:
        head, body = await exchange.ask()
        if b"transfer-encoding: chunked" in head.lower():
            body = _unchunked(body)
        changed = change(body)
        lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(_FRAMING)]
        framed = b"\r\n".join(line for line in lines if line)
        await exchange.send(framed + b"\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(changed) + changed)

    return fault


def drip(seconds: float) -> Fault:
    """The head of the server's reply, then its body byte by byte with a pause after each."""

    async def fault(exchange: Exchange) -> None:
        head, body = await exchange.ask()
        await exchange.send(head)
        for place in range(len(body)):
            await exchange.send(body[place : place + 1])
            await asyncio.sleep(seconds)

    return fault


async def reset(exchange: Exchange) -> None:
    """A TCP reset before the first byte of a reply."""
    exchange.reset()


async def hang_up(exchange: Exchange) -> None:
    """The connection is closed before the first byte of a reply."""


async def silence(_: Exchange) -> None:
    """Nothing, for ever."""
    await asyncio.Event().wait()


async def silence_after_head(exchange: Exchange) -> None:
    """The head of the server's reply, and then nothing, for ever."""
    head, _ = await exchange.ask()
    await exchange.send(head)
    await asyncio.Event().wait()


async def flood(exchange: Exchange) -> None:
    """A body without end."""
    await exchange.send(_head(200, {"Content-Type": "application/json"}))
    while True:
        await exchange.send(b" " * 65536)


class FaultProxy:
    """Passes calls on to `upstream`, a server's origin, while it is entered. Every call takes the next of `faults`,
    where None stands for none; when they are used up, `always`."""

    def __init__(self, upstream: str, faults: Iterable[Fault | None] = (), *, always: Fault = pass_on) -> None:
        parts = urlsplit(upstream)
        if parts.scheme != "http" or not parts.hostname:
            raise ValueError(f"{upstream!r} is not the address of a server; expected one like http://127.0.0.1:8000")
        self._upstream = (parts.hostname, parts.port or 80)
        self.faults: deque[Fault | None] = deque(faults)
        self.always = always
        self.exchanges: list[Exchange] = []
        """Every call that came, in order."""
        self._port = 0
        self._stack = ExitStack()
        self._handlers: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """The origin to call instead of the server's."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def calls(self) -> int:
        return len(self.exchanges)

    def __enter__(self) -> Self:
        run: RunThere = self._stack.enter_context(loop_thread())
        run(self._start())
        self._stack.callback(lambda: run(self._stop()))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    async def _start(self) -> None:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=HEAD_LIMIT)
        self._port = self._listener.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        if self._listener is not None:
            self._listener.close()
        for handler in self._handlers:
            handler.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._handlers.add(task)
            task.add_done_callback(self._handlers.discard)
        try:
            exchange = await self._read(reader, writer)
            if exchange is not None:
                self.exchanges.append(exchange)
                fault = (self.faults.popleft() if self.faults else self.always) or pass_on
                await _unless_gone(fault(exchange), reader)
        except (OSError, ValueError):
            pass  # the client or the server went away: the other end sees it
        except asyncio.CancelledError:
            pass  # the proxy is closed; a stream's task that ends cancelled would be reported as an error
        finally:
            writer.close()

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Exchange | None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return None
        first, *lines = head.decode("latin-1").split("\r\n")[:-2]
        method, path, _ = first.split(" ", 2)
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if "100-continue" in headers.get("expect", ""):
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body = await _read_chunks(reader)
        else:
            body = await reader.readexactly(int(headers.get("content-length", "0")))
        # One call per connection: then the end of the connection is the end of the reply.
        kept = [line for line in lines if not line.lower().encode().startswith((*_FRAMING, b"expect:"))]
        asked = [first, *kept, f"Content-Length: {len(body)}", "Connection: close", "", ""]
        return Exchange(method, path, headers, body, "\r\n".join(asked).encode("latin-1"), self._upstream, writer)


_FRAMING = (b"content-length:", b"transfer-encoding:", b"connection:", b"keep-alive:")


async def _unless_gone(fault: Awaitable[None], reader: asyncio.StreamReader) -> None:
    """Let a fault run, but not longer than the client stays."""
    acting = asyncio.ensure_future(fault)
    leaving = asyncio.ensure_future(reader.read(1))
    try:
        await asyncio.wait({acting, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if acting.done():
            acting.result()
    finally:
        for task in (acting, leaving):
            task.cancel()
        with contextlib.suppress(OSError):
            await asyncio.gather(acting, leaving, return_exceptions=True)


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int((await reader.readline()).split(b";")[0], 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readline()
    return body


def _unchunked(data: bytes) -> bytes:
    body = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        length = int(size.split(b";")[0] or b"0", 16)
        if not length:
            break
        body, data = body + data[:length], data[length + 2 :]
    return body


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1")
