"""One connection to the judge proxy: requests one after another, each in its time. Decides nothing."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Protocol, cast

from agentv.judge.app import Answer, JudgeApp
from agentv.judge.http1 import MAX_HEAD, BadRequestError, Body, BodyTooLargeError, Head, is_hopeless, parse_head

HEAD_SECONDS = 10.0
BODY_SECONDS = 30.0
IDLE_SECONDS = 300.0
LINGER_SECONDS = 2.0
"""How long to go on reading after a refusal: closing at once would reset the connection and lose the answer."""
READ_AHEAD = 64 * 1024


class Owner(Protocol):
    """Whoever keeps the connections."""

    app: JudgeApp

    def opened(self, connection: Connection) -> None: ...

    def closed(self, connection: Connection) -> None: ...


class Connection(asyncio.Protocol):
    """Reads a head within 10 s and a body within 30 s, answers, and goes on with the next request."""

    def __init__(self, owner: Owner, loop: asyncio.AbstractEventLoop) -> None:
        self._owner = owner
        self._app = owner.app
        self._loop = loop
        self._transport = cast("asyncio.Transport", None)  # until connection_made, which comes first
        self._buffer = bytearray()
        self._head: Head | None = None
        self._body: Body | None = None
        self._task: asyncio.Task[None] | None = None
        self._idle = False
        self._lingering = False
        self._reading_paused = False
        self._writing_paused = False
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.trusted = False
        """Has sent the token: the last to be closed to make room for others."""

    @property
    def task(self) -> asyncio.Task[None] | None:
        """The call in flight, if there is one."""
        return self._task

    @property
    def is_idle(self) -> bool:
        """Whether nothing has come yet of a next request."""
        return self._task is None and self._head is None and not self._buffer

    def abort(self) -> None:
        """Close now, whatever is under way."""
        if self._task is not None:
            self._task.cancel()
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._allow(HEAD_SECONDS)
        self._owner.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is not None:
            self._task.cancel()
        self._buffer.clear()
        self._owner.closed(self)

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
        if self._task is None:
            self._advance()

    def _advance(self) -> None:
        """Go as far as the bytes that are there allow: a head, its body, the call."""
        if self._lingering or self._writing_paused:
            return
        head, fresh = self._head, self._head is None
        if head is None:
            head = self._read_head()
        if head is None:
            return
        body: bytes | None = b""
        if self._body is not None:
            try:
                body = self._body.take(self._buffer)
            except (BadRequestError, BodyTooLargeError) as error:
                self._refuse(self._app.refused(error))
                return
        if body is None:
            self._read_on()
            if fresh:
                self._await_body(head)
            return
        self._head, self._body = None, None
        self._deadline = float("inf")
        self._task = self._loop.create_task(self._serve(head, body))

    def _read_head(self) -> Head | None:
        """Read and screen a head. None: it is not there yet, or was refused."""
        buffer = self._buffer
        while buffer.startswith(b"\r\n"):
            del buffer[:2]
        end = buffer.find(b"\r\n\r\n", 0, MAX_HEAD)
        if end < 0:
            if len(buffer) >= MAX_HEAD or is_hopeless(buffer):
                error = BadRequestError("the request's head is too long or no HTTP/1.1")
                self._refuse(self._app.unreadable(buffer[:MAX_HEAD], error))
                return None
            if buffer and self._idle:
                self._idle = False
                self._allow(HEAD_SECONDS)
            self._read_on()
            return None
        try:
            head = parse_head(buffer[: end + 4])
        except BadRequestError as error:
            self._refuse(self._app.unreadable(buffer[: end + 4], error))
            return None
        del buffer[: end + 4]
        found = self._app.screen(head)
        if isinstance(found, Answer):
            self.trusted = self.trusted or found.status != 401
            self._refuse(found, head)
            return None
        self.trusted = True
        self._head, self._body = head, found
        return head

    def _await_body(self, head: Head) -> None:
        self._allow(BODY_SECONDS)
        expected = head.headers.get(b"expect", b"").lower()
        if expected == b"100-continue" and head.version == 1 and not self._buffer:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _go_on(self) -> None:
        """Wait for the next request, which may be there already."""
        self._idle = True
        self._allow(IDLE_SECONDS)
        if self._buffer:
            self._loop.call_soon(self._next)
        else:
            self._read_on()

    async def _serve(self, head: Head, body: bytes) -> None:
        try:
            answer = await self._app.answer(head, body)
        except asyncio.CancelledError:
            self._transport.abort()
            raise
        except Exception as error:
            self._loop.call_exception_handler({"message": "the judge proxy failed", "exception": error})
            answer = self._app.crashed()
        self._task = None
        transport = self._transport
        if transport.is_closing():
            return
        close = answer.ends_connection or not head.keeps_alive
        transport.write(answer.to_bytes(close=close))
        if close:
            self._linger()
            return
        self._go_on()

    def _refuse(self, answer: Answer, head: Head | None = None) -> None:
        """Answer without having read the body. What else was sent is not looked at, unless nothing can follow."""
        transport = self._transport
        head_only = head is not None and head.method == b"HEAD"
        goes_on = (
            head is not None
            and head.keeps_alive
            and not head.announces_body
            and not head_only
            and not answer.ends_connection
            and answer.status in (404, 405)
        )
        transport.write(answer.to_bytes(close=not goes_on, head_only=head_only))
        if not goes_on:
            self._linger()
            return
        self._go_on()

    def _next(self) -> None:
        if self._task is None and not self._transport.is_closing():
            self._advance()

    def _linger(self) -> None:
        self._lingering = True
        self._buffer.clear()
        transport = self._transport
        self._read_on()
        if transport.can_write_eof():
            with contextlib.suppress(OSError):  # whoever asked is gone, as scripts are that were killed
                transport.write_eof()
        self._allow(LINGER_SECONDS)

    def _read_on(self) -> None:
        """What is there is not enough for a request. While it is, nothing more is read: it would pile up."""
        if self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()

    def _allow(self, seconds: float) -> None:
        """So much time from now for what comes next. One timer serves many deadlines: it is set again when it fires."""
        self._deadline = self._loop.time() + seconds
        if self._timer is None:
            self._timer = self._loop.call_at(self._deadline, self._check_time)
        elif self._timer.when() > self._deadline:
            self._timer.cancel()
            self._timer = self._loop.call_at(self._deadline, self._check_time)

    def _check_time(self) -> None:
        self._timer = None
        now = self._loop.time()
        if now < self._deadline:
            if self._deadline != float("inf"):
                self._timer = self._loop.call_at(self._deadline, self._check_time)
            return
        if self._head is not None and not self._lingering:
            self._head = None
            self._refuse(self._app.body_too_late(BODY_SECONDS))
            return
        self._transport.abort()
