"""A proxy that injects faults into the replies of a real server, for testing how clients handle them.

    with FaultProxy("http://127.0.0.1:8000", faults=[answer(429, headers={"Retry-After": "1"}), None]) as proxy:
        ...  # call proxy.url; the first call is rejected, the others reach the server

A fault is a coroutine function that takes an `Exchange`: one call, with methods to get the server's reply and to send
data back. The proxy runs in its own thread, so that tests can use it with any program or event loop.
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
    """Names are lowercase."""
    body: bytes = field(repr=False)
    _head: bytes = field(repr=False)
    _upstream: tuple[str, int] = field(repr=False)
    _writer: asyncio.StreamWriter = field(repr=False)

    async def ask(self) -> tuple[bytes, bytes]:
        """Send the call to the server; returns the head of the reply, including the empty line, and its raw body."""
        reader, writer = await asyncio.open_connection(*self._upstream)
        try:
            writer.write(self._head + self.body)
            await writer.drain()
            head, _, body = (await reader.read(-1)).partition(b"\r\n\r\n")
        finally:
            writer.close()
        return head + b"\r\n\r\n", body

    async def send(self, data: bytes) -> None:
        """Send bytes to the client."""
        self._writer.write(data)
        await self._writer.drain()

    def reset(self) -> None:
        """Close the connection with a TCP reset, as a crashing server or a firewall does."""
        raw = self._writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


Fault = Callable[[Exchange], Awaitable[None]]


async def pass_on(exchange: Exchange) -> None:
    """No fault: send the server's reply unchanged."""
    head, body = await exchange.ask()
    await exchange.send(head + body)


def answer(status: int, body: bytes = b"", *, headers: Mapping[str, str] | None = None) -> Fault:
    """Send this reply without calling the server."""

    async def fault(exchange: Exchange) -> None:
        reply_headers = {"Content-Type": "application/json", **(headers or {}), "Content-Length": str(len(body))}
        await exchange.send(_head(status, reply_headers) + body)

    return fault


def cut(after: int, *, reset: bool = False) -> Fault:
    """Close the connection, normally or with a reset, after `after` bytes of the body of the server's reply."""

    async def fault(exchange: Exchange) -> None:
        head, body = await exchange.ask()
        await exchange.send(head + body[:after])
        if reset:
            await asyncio.sleep(0.05)  # send the data before the reset discards it
            exchange.reset()

    return fault


def spoil(change: Callable[[bytes], bytes]) -> Fault:
    """Send the server's reply with a changed body."""

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
    """Send the head of the server's reply, then its body byte by byte with a pause after each byte."""

    async def fault(exchange: Exchange) -> None:
        head, body = await exchange.ask()
        await exchange.send(head)
        for position in range(len(body)):
            await exchange.send(body[position : position + 1])
            await asyncio.sleep(seconds)

    return fault


async def reset(exchange: Exchange) -> None:
    """Close the connection with a TCP reset before sending anything."""
    exchange.reset()


async def hang_up(exchange: Exchange) -> None:
    """Close the connection before sending anything."""


async def silence(_: Exchange) -> None:
    """Never reply."""
    await asyncio.Event().wait()


async def silence_after_head(exchange: Exchange) -> None:
    """Send the head of the server's reply, but never its body."""
    head, _ = await exchange.ask()
    await exchange.send(head)
    await asyncio.Event().wait()


async def flood(exchange: Exchange) -> None:
    """Send an endless body."""
    await exchange.send(_head(200, {"Content-Type": "application/json"}))
    while True:
        await exchange.send(b" " * 65536)


class FaultProxy:
    """A context manager that forwards calls to `upstream`, the origin of a server. Each call gets the next item of
    `faults` (None for no fault), and `always` when they are used up."""

    def __init__(self, upstream: str, faults: Iterable[Fault | None] = (), *, always: Fault = pass_on) -> None:
        parts = urlsplit(upstream)
        if parts.scheme != "http" or not parts.hostname:
            raise ValueError(f"upstream must be an http:// origin such as http://127.0.0.1:8000, got {upstream!r}")
        self._upstream = (parts.hostname, parts.port or 80)
        self.faults: deque[Fault | None] = deque(faults)
        self.always = always
        self.exchanges: list[Exchange] = []
        """All calls received, in order."""
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
                await _until_disconnect(fault(exchange), reader)
        except (OSError, ValueError):
            pass  # one side closed the connection, and the other side notices
        except asyncio.CancelledError:
            pass  # the proxy is closing; asyncio would report a cancelled stream task as an error
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
        # One call per connection, so that the end of the connection is the end of the reply.
        forwarded = [line for line in lines if not line.lower().encode().startswith((*_FRAMING, b"expect:"))]
        request_lines = [first, *forwarded, f"Content-Length: {len(body)}", "Connection: close", "", ""]
        return Exchange(
            method, path, headers, body, "\r\n".join(request_lines).encode("latin-1"), self._upstream, writer
        )


_FRAMING = (b"content-length:", b"transfer-encoding:", b"connection:", b"keep-alive:")


async def _until_disconnect(fault: Awaitable[None], reader: asyncio.StreamReader) -> None:
    """Run a fault until it ends or the client disconnects."""
    running = asyncio.ensure_future(fault)
    disconnect = asyncio.ensure_future(reader.read(1))
    try:
        await asyncio.wait({running, disconnect}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
    finally:
        for task in (running, disconnect):
            task.cancel()
        with contextlib.suppress(OSError):
            await asyncio.gather(running, disconnect, return_exceptions=True)


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
