"""A small HTTP/1.1 server for an `App`, with a deadline for everything that a client sends.

    async with Server(app) as server:
        ...  # server.url

Requests are checked in this order: `App.admit` (credentials, host), path, method, framing and encoding, body. A request
is refused at the first failed check, before its body is read.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any, Self, cast

from agentv.http.app import App, Handler, HangUp, Stream, head_of
from agentv.http.messages import (
    MAX_HEAD,
    ChunkedBody,
    Refused,
    Request,
    SizedBody,
    bad_request,
    body_of,
    cannot_become_request,
    parse_request,
)

HOST = "127.0.0.1"
BACKLOG = 4096
ACCEPTED_AT_ONCE = 100
MAX_CONNECTIONS = 1024
PAUSE_SECONDS = 0.1
END_SECONDS = 0.05

HEAD_SECONDS = 10.0
BODY_SECONDS = 30.0
IDLE_SECONDS = 300.0
LINGER_SECONDS = 2.0
"""How long to keep reading after a refusal: closing immediately would reset the connection and lose the reply."""
READ_AHEAD = 64 * 1024

_ENDS_CONNECTION = (401, 403, 408, 421, 503)
"""Statuses after which the connection is closed, whether or not a body follows."""


class Server:
    """Serves an app on a loopback port inside `async with`. Exit closes the port and all connections immediately.

    It accepts connections itself, because `asyncio.Server` loses a connection that is being accepted during close: the
    client would then wait until the garbage collector runs.
    """

    def __init__(self, app: App, *, port: int = 0, max_connections: int | None = None) -> None:
        self.app = app
        self._port = port
        self._max_connections = max_connections
        self._connections: dict[Connection, None] = {}
        self._accepting: set[asyncio.Task[Any]] = set()
        self._listener: socket.socket | None = None

    @property
    def port(self) -> int:
        return self._port

    @property
    def url(self) -> str:
        """The origin to call, without a trailing slash."""
        return f"http://{HOST}:{self._port}"

    async def __aenter__(self) -> Self:
        self._listener = socket.create_server((HOST, self._port), backlog=BACKLOG)
        self._listener.setblocking(False)
        self._port = self._listener.getsockname()[1]
        names = (HOST, "localhost", "[::1]")
        self.app.hosts = frozenset(f"{name}:{self._port}".encode() for name in names)
        self._listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        connections = list(self._connections)
        ending = {connection.task for connection in connections if connection.task is not None} | self._accepting
        for connection in connections:
            connection.abort()
        if ending:
            await asyncio.wait(ending, timeout=END_SECONDS)
        if connections or ending:
            await asyncio.sleep(0)  # sockets are closed in the next iteration of the event loop

    def opened(self, connection: Connection) -> None:
        """Register a connection. Over the limit, close the oldest connection that was never admitted, else the oldest
        idle one. Calls in flight are never cancelled for this."""
        self._connections[connection] = None
        if self._listener is None:
            connection.abort()
        elif len(self._connections) > (self._max_connections or MAX_CONNECTIONS):
            others = [other for other in self._connections if other is not connection]
            strangers = (other for other in others if not other.trusted)
            resting = next(strangers, None) or next((other for other in others if other.is_idle), None)
            if resting is not None:
                resting.abort()

    def closed(self, connection: Connection) -> None:
        self._connections.pop(connection, None)

    def _listen(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().add_reader(self._listener, self._accept, self._listener)

    def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, _address = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # out of file descriptors: waiting clients are accepted later
                loop.remove_reader(listener)
                loop.call_later(PAUSE_SECONDS, self._listen)
                return
            accepted.setblocking(False)
            task = loop.create_task(loop.connect_accepted_socket(lambda: Connection(self, loop), accepted))
            self._accepting.add(task)
            task.add_done_callback(self._accepting.discard)


class Connection(asyncio.Protocol):
    """One connection: reads a head within 10 s and a body within 30 s, replies, and waits for the next request."""

    def __init__(self, server: Server, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._app = server.app
        self._loop = loop
        self._transport = cast("asyncio.Transport", None)  # set by connection_made, which is called first
        self._buffer = bytearray()
        self._request: Request | None = None
        self._handler: Handler | None = None
        self._body: SizedBody | ChunkedBody | None = None
        self._task: asyncio.Task[None] | None = None
        self._idle = False
        self._lingering = False
        self._reading_paused = False
        self._writing_paused = False
        self._drained: asyncio.Future[None] | None = None
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.trusted = False
        """Whether a request was admitted. Over the connection limit, other connections are closed first."""

    @property
    def task(self) -> asyncio.Task[None] | None:
        """The call in flight, if any."""
        return self._task

    @property
    def is_idle(self) -> bool:
        """Whether no part of another request has arrived."""
        return self._task is None and self._request is None and not self._buffer

    def abort(self) -> None:
        """Close immediately, and cancel the call in flight."""
        if self._task is not None:
            self._task.cancel()
        self._transport.abort()

    # -- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._allow(HEAD_SECONDS)
        self._server.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is not None:
            self._task.cancel()
        self._buffer.clear()
        self._server.closed(self)

    def data_received(self, data: bytes) -> None:
        if self._lingering:
            return
        self._buffer += data
        if len(self._buffer) > READ_AHEAD and not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()
        if self._task is None:
            self._advance()

    def pause_writing(self) -> None:
        self._writing_paused = True

    def resume_writing(self) -> None:
        self._writing_paused = False
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        if self._task is None:
            self._advance()

    # -- one request after another

    def _advance(self) -> None:
        """Process the received bytes: parse a head, then its body, then start the call."""
        if self._lingering or self._writing_paused:
            return
        request = self._request
        if request is None:
            try:
                request = self._read_head()
            except Refused as refused:
                self._refuse(refused)
                return
            if request is None:
                self._read_on()
                return
            try:
                self._screen(request)
            except Refused as refused:
                self._refuse(refused, request)
                return
        if self._body is not None:
            try:
                body = self._body.take(self._buffer)
            except Refused as refused:
                self._refuse(refused)
                return
            if body is None:
                self._read_on()
                if self._request is None:
                    self._request = request
                    self._await_body(request)
                return
            request.body = body
        self._request, self._body = None, None
        self._deadline = float("inf")
        self._task = self._loop.create_task(self._serve(request))

    def _read_head(self) -> Request | None:
        """The next request; None if its head is incomplete. Raises Refused for a malformed request."""
        buffer = self._buffer
        while buffer.startswith(b"\r\n"):
            del buffer[:2]
        end = buffer.find(b"\r\n\r\n", 0, MAX_HEAD) + 4
        if end < 4:
            if len(buffer) >= MAX_HEAD or cannot_become_request(buffer):
                refused = bad_request("the head of the request is too long or not HTTP/1.1")
                raise self._app.unreadable(bytes(buffer[:MAX_HEAD]), refused)
            if buffer and self._idle:
                self._idle = False
                self._allow(HEAD_SECONDS)
            return None
        head = bytes(memoryview(buffer)[:end])
        try:
            request = parse_request(head)
        except Refused as refused:
            raise self._app.unreadable(head, refused) from None
        del buffer[:end]
        return request

    def _screen(self, request: Request) -> None:
        """Make all checks that do not need the body, in order, and choose the reader for the body."""
        app = self._app
        app.admit(request)
        self.trusted = True
        self._handler = app.handler_of(request)
        self._body = body_of(request, app.max_body)

    def _await_body(self, request: Request) -> None:
        self._allow(BODY_SECONDS)
        expected = request.headers.get(b"expect", b"").lower()
        if expected == b"100-continue" and request.version == 1 and not self._buffer:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    async def _serve(self, request: Request) -> None:
        transport = self._transport
        try:
            try:
                response = await cast("Handler", self._handler)(self._app, request)
            except Exception as error:
                response = self._app.error(self._refusal(error))
            close = not request.keeps_alive
            if isinstance(response, Stream):
                await self._send_stream(response, request, close=close)
            elif not transport.is_closing():
                close = close or response.status in _ENDS_CONNECTION
                transport.write(response.to_bytes(close=close))
        except asyncio.CancelledError:
            transport.abort()
            raise
        except Exception as error:
            if not isinstance(error, HangUp):
                self._report(error)
            transport.abort()
            return
        finally:
            self._task = None
        if transport.is_closing():
            return
        if close:
            self._linger()
        else:
            self._continue()

    def _refusal(self, error: Exception) -> Refused:
        if isinstance(error, HangUp):
            raise error
        refused = self._app.failure(error)
        if refused is None:
            self._report(error)
            refused = self._app.crashed()
        return refused

    def _report(self, error: Exception) -> None:
        self._loop.call_exception_handler({"message": "a request could not be handled", "exception": error})

    async def _send_stream(self, stream: Stream, request: Request, *, close: bool) -> None:
        transport = self._transport
        in_chunks = stream.length is None and request.version == 1
        framing = f"Content-Length: {stream.length}\r\n" if stream.length is not None else ""
        framing = "Transfer-Encoding: chunked\r\n" if in_chunks else framing
        ending = "Connection: close\r\n\r\n" if close else "\r\n"
        async with contextlib.aclosing(stream.chunks) as chunks:
            transport.write(head_of(stream) + (framing + ending).encode())
            async for chunk in chunks:
                if chunk:
                    transport.write(b"%x\r\n%b\r\n" % (len(chunk), chunk) if in_chunks else chunk)
                if self._writing_paused:
                    self._drained = self._loop.create_future()
                    await self._drained
                else:
                    await asyncio.sleep(0)  # a generator that never waits must not block other tasks
        if in_chunks:
            transport.write(b"0\r\n\r\n")

    def _refuse(self, refused: Refused, request: Request | None = None) -> None:
        """Reply without reading the body. Further bytes are ignored, unless the request has no body."""
        head_only = request is not None and request.method == b"HEAD"
        continues = (
            request is not None
            and request.keeps_alive
            and not request.announces_body
            and not head_only
            and refused.status in (404, 405)
        )
        response = self._app.error(refused)
        self._transport.write(response.to_bytes(close=not continues, head_only=head_only))
        if continues:
            self._continue()
        else:
            self._linger()

    def _continue(self) -> None:
        """Wait for the next request, which may have arrived already."""
        self._idle = True
        self._allow(IDLE_SECONDS)
        if self._buffer:
            self._loop.call_soon(self._next)
        else:
            self._read_on()

    def _next(self) -> None:
        if self._task is None and not self._transport.is_closing():
            self._advance()

    def _linger(self) -> None:
        self._lingering = True
        self._buffer.clear()
        self._read_on()
        if self._transport.can_write_eof():
            with contextlib.suppress(OSError):  # the client has disconnected, e.g. a script that was killed
                self._transport.write_eof()
        self._allow(LINGER_SECONDS)

    def _read_on(self) -> None:
        """Resume reading, because more bytes are needed. Reading is paused otherwise, to limit memory."""
        if self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()

    # -- deadlines

    def _allow(self, seconds: float) -> None:
        """Set the deadline for the next step. One timer serves many deadlines: it is rescheduled when it fires."""
        self._deadline = self._loop.time() + seconds
        if self._timer is None:
            self._timer = self._loop.call_at(self._deadline, self._check_time)
        elif self._timer.when() > self._deadline:
            self._timer.cancel()
            self._timer = self._loop.call_at(self._deadline, self._check_time)

    def _check_time(self) -> None:
        self._timer = None
        if self._loop.time() < self._deadline:
            if self._deadline != float("inf"):
                self._timer = self._loop.call_at(self._deadline, self._check_time)
            return
        if self._request is not None and not self._lingering:
            self._request = None
            message = f"the body did not arrive within {BODY_SECONDS:g} s; send it immediately after the head"
            self._refuse(Refused(408, "request_timeout", message))
            return
        self._transport.abort()
