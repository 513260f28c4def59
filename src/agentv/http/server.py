"""A small HTTP/1.1 server for an `App`, with a deadline for everything that a client sends.

    async with Server(app) as server:
        ...  # server.url

Requests are checked in this order: `App.admit` (credentials, host), path, method, framing and encoding, body. A request
is refused at the first failed check, before its body is read. All clients together have one budget (`budget.py`). When
they exceed it, the port and all connections are closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Self, cast

from agentv.http.app import App, Handler, HangUp, Stream, head_of
from agentv.http.budget import SMALL_BODY, ClientBudget, ClientLimits
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
ACCEPTED_AT_ONCE = 4
"""Connections accepted per iteration of the event loop: few, so that a flood of connections does not delay other work,
and a request that has arrived is read before newer connections without credentials could close its connection."""
MOST_TURNED_AWAY = 1_000
"""After this number of connections that ended without credentials, new ones are accepted slowly."""
SLOW_SECONDS = 0.01
PAUSE_SECONDS = 0.1
END_SECONDS = 0.05

HEAD_SECONDS = 10.0
BODY_SECONDS = 30.0
IDLE_SECONDS = 300.0
LINGER_SECONDS = 2.0
"""How long to keep reading after a refusal: closing immediately would reset the connection and lose the reply."""
STALL_SECONDS = 5.0
"""How long a body may send nothing while other bodies wait for its memory."""
READ_AHEAD = 2 * MAX_HEAD
"""Bytes of a connection that are read before they are needed."""
CHUNK = 256 * 1024

UNAUTHORIZED = 401
_ENDS_CONNECTION = (UNAUTHORIZED, 403, 408, 421, 503)
"""Statuses after which the connection is closed, whether or not a body follows."""


_threads = threading.local()


def _chunk_of_this_thread() -> memoryview:
    """Memory to read into, shared by all servers of a thread: hundreds of them may be open."""
    if not hasattr(_threads, "chunk"):
        _threads.chunk = memoryview(bytearray(CHUNK))
    chunk: memoryview = _threads.chunk
    return chunk


_LARGE = 1 << 20
"""Bytes of a body that is sent without being copied behind its head."""


class Server:
    """Serves an app on a loopback port inside `async with`. Exit closes the port and all connections immediately.

    It accepts connections itself, because `asyncio.Server` loses a connection that is being accepted during close: the
    client would then wait until the garbage collector runs.
    """

    def __init__(
        self,
        app: App,
        *,
        port: int = 0,
        listener: socket.socket | None = None,
        limits: ClientLimits | None = None,
        on_exceeded: Callable[[str], None] | None = None,
    ) -> None:
        self.app = app
        self.budget = ClientBudget(limits or ClientLimits(), self._exceeded)
        self._on_exceeded = on_exceeded
        self._port = port
        self._inherited = listener
        self._connections: dict[Connection, None] = {}
        self._strangers: dict[Connection, None] = {}
        """The connections that were never admitted."""
        self._turned_away = 0
        """How many of them have ended."""
        self._accepting: set[asyncio.Task[Any]] = set()
        self._listener: socket.socket | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        self.chunk = memoryview(b"")
        """What connections read into, one after the other."""

    @property
    def port(self) -> int:
        return self._port

    @property
    def url(self) -> str:
        """The origin to call, without a trailing slash."""
        return f"http://{HOST}:{self._port}"

    async def __aenter__(self) -> Self:
        self.listen()
        return self

    def listen(self) -> None:
        """Open the port, or take over the given socket. Raises OSError if that is impossible."""
        self._listener = self._inherited or socket.create_server((HOST, self._port), backlog=BACKLOG)
        self._listener.setblocking(False)
        self._port = self._listener.getsockname()[1]
        self.chunk = _chunk_of_this_thread()
        self.app.hosts = frozenset(f"{name}:{self._port}".encode() for name in self.app.names)
        self._accept_again()

    async def __aexit__(self, *_: object) -> None:
        for connection in self._connections:
            connection.note_unfinished()
        connections = list(self._connections)
        ending = {connection.task for connection in connections if connection.task is not None} | self._accepting
        self._shut()
        if ending:
            await asyncio.wait(ending, timeout=END_SECONDS)
        if connections or ending:
            await asyncio.sleep(0)  # sockets are closed in the next iteration of the event loop

    def _shut(self) -> None:
        """Close the port and all connections."""
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        for connection in list(self._connections):
            connection.abort()

    def _exceeded(self, reason: str) -> None:
        if self._on_exceeded is not None:
            self._on_exceeded(reason)
            self._shut()

    def opened(self, connection: Connection) -> None:
        """Register a connection. If there are too many that were never admitted, close the oldest one of them."""
        if self._listener is None:
            connection.abort()
            return
        self._connections[connection] = self._strangers[connection] = None
        if len(self._strangers) > self.budget.limits.strangers:
            self._drop(next(iter(self._strangers)))

    def admitted(self, connection: Connection) -> None:
        """Register that a connection has the credentials. If there are too many, close the oldest idle one. Calls in
        flight are never cancelled for this: without an idle connection, this one is closed."""
        self._strangers.pop(connection, None)
        most = self.budget.limits.connections
        if len(self._connections) - len(self._strangers) <= most:
            return
        others = (other for other in self._connections if other.trusted and other is not connection and other.is_idle)
        resting = next(others, None)
        self._drop(resting or connection)
        if resting is None:
            self.budget.exceed(f"more than {most:,} connections had a request in progress at the same time")

    def _drop(self, connection: Connection) -> None:
        self.closed(connection)
        connection.abort()

    def closed(self, connection: Connection) -> None:
        if self._connections.pop(connection, 0) is None and self._strangers.pop(connection, 0) is None:
            self._turned_away += 1

    def watch_for_stalls(self) -> None:
        """Check later whether a body that sends nothing keeps memory from bodies that wait for it."""
        if self._stall_timer is None:
            self._stall_timer = asyncio.get_running_loop().call_later(STALL_SECONDS, self._check_for_stalls)

    def _check_for_stalls(self) -> None:
        self._stall_timer = None
        if self.budget.full:
            self.watch_for_stalls()
            for connection in list(self._connections):
                if connection.stalled():
                    connection.note_unfinished()

    def _accept_again(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().add_reader(self._listener, self._accept, self._listener)

    def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, _address = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                break
            except OSError:  # out of file descriptors: clients wait until some are free
                self._accept_after(PAUSE_SECONDS)
                return
            accepted.setblocking(False)
            task = loop.create_task(loop.connect_accepted_socket(lambda: Connection(self, loop), accepted))
            self._accepting.add(task)
            task.add_done_callback(self._accepting.discard)
        if self._turned_away > MOST_TURNED_AWAY:
            self._accept_after(SLOW_SECONDS)

    def _accept_after(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if self._listener is not None:
            loop.remove_reader(self._listener)
        loop.call_later(seconds, self._accept_again)


class Connection(asyncio.BufferedProtocol):
    """One connection: reads a head within 10 s and a body within 30 s, replies, and waits for the next request."""

    def __init__(self, server: Server, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._app = server.app
        self._budget = server.budget
        self._loop = loop
        self._transport = cast("asyncio.Transport", None)  # set by connection_made, which is called first
        self._buffer = bytearray()
        self._request: Request | None = None
        self._handler: Handler | None = None
        self._body: SizedBody | ChunkedBody | None = None
        self._task: asyncio.Task[None] | None = None
        self._idle = False
        self._lingering = False
        self._reserved = 0
        """Bytes of the budget that the current body may use, if it is large."""
        self._waiting = 0
        """Bytes of the budget that the body waits for. It is not read before they are free."""
        self._last_byte = 0.0
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
        self.note_unfinished()
        self._buffer.clear()
        self._server.closed(self)
        self._body = None
        self._release()

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        most = CHUNK if self._reserved else SMALL_BODY if self._body is not None else MAX_HEAD
        return self._server.chunk[:most]

    def buffer_updated(self, nbytes: int) -> None:
        if self._lingering:
            return
        self._buffer += self._server.chunk[:nbytes]
        self._last_byte = self._loop.time()
        if self._task is None:
            self._advance()
        if len(self._buffer) > READ_AHEAD and (self._task is not None or self._waiting or self._writing_paused):
            self._read_no_further()

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
        """Process the received bytes, at the expense of the budget if the client has the credentials."""
        if self._lingering or self._writing_paused:
            return
        started = time.perf_counter()
        self._step()
        if self.trusted:
            self._budget.charge(time.perf_counter() - started)

    def _step(self) -> None:
        """Parse a head, then its body, then start the call."""
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
            if self._transport.is_closing():
                return
        if self._body is not None:
            if not self._reserve(request, self._body.memory(len(self._buffer))):
                return
            try:
                body = self._body.take(self._buffer)
            except Refused as refused:
                self._refuse(refused, about=request)
                return
            if body is None:
                self._read_on()
                if self._request is None:
                    self._request = request
                    self._await_body(request)
                return
            request.body = body
            self._release(len(body))
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
        if not self.trusted:
            self.trusted = True
            self._server.admitted(self)
        self._handler = app.handler_of(request)
        self._body = body_of(request, app.max_body)

    # -- memory for the body

    def _reserve(self, request: Request, size: int) -> bool:
        """Reserve memory for the whole body. If there is none, nothing is read until there is."""
        if size <= SMALL_BODY or self._reserved:
            return True
        if self._waiting:
            return False
        if self._budget.reserve(size, self._granted):
            self._reserved = size
            return True
        self._waiting = size
        self._request = request
        self._deadline = float("inf")
        self._read_no_further()
        self._server.watch_for_stalls()
        return False

    def _granted(self) -> None:
        self._reserved, self._waiting = self._waiting, 0
        self._last_byte = self._loop.time()
        self._await_body(cast("Request", self._request))
        self._loop.call_soon(self._next)

    def _release(self, remaining: int = 0) -> None:
        """Return the memory of the body, except for the remaining bytes."""
        if self._waiting:
            self._waiting = 0
            self._budget.withdraw(self._granted)
        if remaining <= SMALL_BODY:
            remaining = 0
        if self._reserved > remaining:
            surplus, self._reserved = self._reserved - remaining, remaining
            self._budget.release(surplus)

    @property
    def _holds_memory(self) -> bool:
        """Whether a large body is incomplete and other bodies may have to wait for it."""
        return self._request is not None and self._reserved > 0

    def stalled(self) -> bool:
        """Whether the body has memory, is incomplete and sends nothing."""
        return self._holds_memory and self._loop.time() - self._last_byte >= STALL_SECONDS

    def note_unfinished(self) -> None:
        """Count an incomplete body against the budget if other bodies waited for its memory."""
        if self._holds_memory and self._budget.full:
            most = self._budget.limits.body_bytes or 0
            self._budget.exceed(
                f"more than {most // 2**20} MiB of request bodies arrived at the same time, and not all were completed"
            )

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
                refused = self._refusal(error)
                response = self._app.error(refused, request)
                self._loop.call_soon(self._count, refused)  # after the reply
            close = not request.keeps_alive
            if isinstance(response, Stream):
                await self._send_stream(response, request, close=close)
            elif not transport.is_closing():
                close = close or response.status in _ENDS_CONNECTION
                is_large = len(response.body) > _LARGE
                transport.write(response.to_bytes(close=close, common=self._app.headers, with_body=not is_large))
                if is_large:
                    transport.write(response.body)
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
            request.body = b""
            self._release()
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
            transport.write(head_of(stream, self._app.headers) + (framing + ending).encode())
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

    def _refuse(self, refused: Refused, request: Request | None = None, *, about: Request | None = None) -> None:
        """Reply without reading the body. Further bytes are ignored, unless the request has no body.

        `about` is a request whose body was begun.
        """
        head_only = request is not None and request.method == b"HEAD"
        continues = (
            request is not None
            and request.keeps_alive
            and not request.announces_body
            and not head_only
            and refused.status in (404, 405)
        )
        response = self._app.error(refused, request or about)
        self._transport.write(response.to_bytes(close=not continues, head_only=head_only, common=self._app.headers))
        if continues:
            self._continue()
        else:
            self._linger()
        self._count(refused)

    def _count(self, refused: Refused) -> None:
        if 400 <= refused.status < 500 and refused.status != UNAUTHORIZED:
            self._budget.count_refused(refused.status, refused.message)

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
        self._request, self._body = None, None
        self._release()
        self._read_on()
        if self._transport.can_write_eof():
            with contextlib.suppress(OSError):  # the client has disconnected, e.g. a script that was killed
                self._transport.write_eof()
        self._allow(LINGER_SECONDS)

    def _read_no_further(self) -> None:
        if not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()

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
            self.note_unfinished()
            request, self._request = self._request, None
            message = f"the body did not arrive within {BODY_SECONDS:g} s; send it immediately after the head"
            self._refuse(Refused(408, "request_timeout", message), about=request)
            return
        self._transport.abort()
