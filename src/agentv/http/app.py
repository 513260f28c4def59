"""What a server serves: routes, replies, streams and errors. No sockets.

class Pong(App):
    async def ping(self, request: Request) -> Response:
        return Response(200, b"{}")

    routes = (Route("GET", "/ping", ping),)
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import Any, ClassVar

from agentv.http.messages import MAX_BODY, Refused, Request
from agentv.text import one_of

_NO_BODY = (204, 304)

HeaderLines = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Response:
    """A complete reply. Clients do not cache it unless its headers allow it."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: HeaderLines = ()

    def to_bytes(
        self, *, close: bool, head_only: bool = False, common: HeaderLines = (), with_body: bool = True
    ) -> bytes:
        """The reply as sent, with the headers `common`. A reply to HEAD has neither a body nor a Content-Length.

        Without its body, a large one can be sent after this, without a copy of it.
        """
        ending = b"Connection: close\r\n\r\n" if close else b"\r\n"
        start = head_of(self, common)
        if head_only or self.status in _NO_BODY:
            return start + ending
        return b"%bContent-Length: %d\r\n%b%b" % (
            start,
            len(self.body),
            ending,
            self.body if with_body else b"",
        )


@dataclass(frozen=True, slots=True)
class Stream:
    """A reply whose body is generated while it is sent, no faster than the client reads. Items are sent immediately.

    The generator is closed when the client disconnects. If `length` is set, the body is not chunked.
    """

    chunks: AsyncGenerator[bytes, None]
    status: int = 200
    content_type: str = "application/octet-stream"
    headers: HeaderLines = ()
    length: int | None = None


def event(data: str, *, name: str | None = None, id: str | None = None) -> bytes:  # noqa: A002 - the field's name
    """One server-sent event. `data` may have several lines; `name` and `id` must not."""
    fields = [(key, value) for key, value in (("event", name), ("id", id)) if value is not None]
    if any(set("\r\n\0") & set(value) for _, value in fields):
        raise ValueError("the name and the id of an event must be one line each")
    lines = data.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return (
        "".join(f"{key}: {value}\n" for key, value in [*fields, *(("data", line) for line in lines)]).encode() + b"\n"
    )


def event_stream(events: AsyncGenerator[bytes, None], headers: HeaderLines = ()) -> Stream:
    """A reply of server-sent events, which are created with `event`."""
    return Stream(events, content_type="text/event-stream", headers=headers)


class HangUp(Exception):  # noqa: N818 - a way to answer, not a defect
    """Raised by a handler or inside a stream to close the connection without finishing the reply."""


Handler = Callable[[Any, Request], Awaitable[Response | Stream]]
"""A method of an `App`."""


@dataclass(frozen=True, slots=True)
class Route:
    """The handler for a method and a path. In the path, `*` stands for any characters, and `{}` for one segment."""

    method: str
    path: str
    handler: Handler


class App:
    """What a server serves. Subclasses define the routes, and may override access checks and error replies."""

    routes: ClassVar[tuple[Route, ...]] = ()
    max_body: ClassVar[int] = MAX_BODY
    headers: ClassVar[HeaderLines] = ()
    """Headers of every reply, also of errors."""
    names: ClassVar[tuple[str, ...]] = ("127.0.0.1", "localhost", "[::1]")
    """How clients may call the server: with its port, these are the valid values of `Host`."""
    _paths: ClassVar[dict[bytes, dict[bytes, Handler]]] = {}
    _patterns: ClassVar[dict[re.Pattern[bytes], dict[bytes, Handler]]] = {}

    def __init_subclass__(cls) -> None:
        cls._paths = {}
        for route in cls.routes:
            cls._paths.setdefault(route.path.encode(), {})[route.method.encode()] = route.handler
        cls._patterns = {
            _pattern(path): methods for path, methods in cls._paths.items() if b"*" in path or b"{}" in path
        }

    def __init__(self) -> None:
        self.hosts: frozenset[bytes] = frozenset()
        """The valid values of `Host`; set when the server listens."""

    def admit(self, request: Request) -> None:
        """Raise `Refused` for a client without access. Called before every other check."""

    def unreadable(self, head: bytes, refused: Refused) -> Refused:
        """The refusal of a malformed request. Override it to hide details from clients without credentials."""
        del head
        return refused

    def error(self, refused: Refused, request: Request | None) -> Response:
        """The reply that reports a refusal. `request` is None if it could not be parsed."""
        del request
        body = json.dumps({"error": refused.message, "code": refused.code}).encode()
        return Response(refused.status, body, headers=refused.headers)

    def failure(self, error: Exception) -> Refused | None:
        """Convert an exception of a handler to a refusal. None means a bug: it is reported to the event loop, and the
        client gets the reply of `crashed`."""
        return error if isinstance(error, Refused) else None

    def crashed(self) -> Refused:
        """The refusal sent to the client for a bug in a handler."""
        return Refused(500, "internal_error", "agentv failed to handle this request; please report this bug")

    def handler_of(self, request: Request) -> Handler:
        """Find the handler of a request by its path, then by its method."""
        path = request.path
        methods = self._paths.get(path) or next((self._patterns[p] for p in self._patterns if p.fullmatch(path)), None)
        if methods is None:
            known = one_of([f"{route.method} {route.path}" for route in self.routes])
            raise Refused(404, "not_found", f"unknown path; use {known}")
        handler = methods.get(request.method)
        if handler is None:
            allowed = b", ".join(methods).decode()
            raise Refused(405, "method_not_allowed", f"use {allowed} for this path", (("Allow", allowed),))
        return handler


def _pattern(path: bytes) -> re.Pattern[bytes]:
    return re.compile(re.escape(path).replace(rb"\*", rb".*").replace(rb"\{\}", rb"[^/]+"), re.DOTALL)


def head_of(reply: Response | Stream, common: HeaderLines = ()) -> bytes:
    """The status line and the headers, without those about the length of the body."""
    return _head(reply.status, reply.content_type, reply.headers + common)


@lru_cache(maxsize=256)
def _head(status: int, content_type: str, headers: HeaderLines) -> bytes:
    lines = [("Content-Type", content_type), *headers]
    if not any(name.lower() == "cache-control" for name, _ in headers):
        lines.insert(1, ("Cache-Control", "no-store"))
    for name, value in lines:
        if not name or set("\r\n\0: ") & set(name) or set("\r\n\0") & set(value):
            raise ValueError(f"the header {name!r} cannot be sent: it must be one line")
    known = {number.value: number.phrase for number in HTTPStatus}
    start = f"HTTP/1.1 {status} {known.get(status, '')}"
    return "\r\n".join([start, *(f"{name}: {value}" for name, value in lines), ""]).encode("latin-1")
