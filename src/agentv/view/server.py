"""The server of the viewer: its pages and their data, for one browser on this machine.

async with ViewServer(Library(root)) as server:
    print(server.link("#/"))

Everything that reads files or calculates runs in threads. Runs are found in the listing of the library by their
address, and static files by their name: no part of a request becomes part of a path.
"""

from __future__ import annotations

import hashlib
import os
import socket
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from functools import cache
from html import escape
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, unquote_to_bytes

from agentv import jsonio
from agentv.errors import AgentVError, UsageError
from agentv.http.app import App, HeaderLines, Response, Route, Stream, event_stream
from agentv.http.budget import ClientLimits
from agentv.http.messages import Refused, Request, bad_request
from agentv.http.server import HOST, Server
from agentv.record.human_labels import current_user
from agentv.text import quoted
from agentv.view import assets
from agentv.view.access import Access
from agentv.view.following import Following
from agentv.view.library import Library
from agentv.view.listing import UnknownRunError
from agentv.view.threads import ThreadCrew

LIMITS = ClientLimits(connections=256, strangers=64, body_bytes=8 << 20)
"""For some browsers with many open pages: each has at most six connections to a server."""
MAX_BODY = 64 << 10
"""Bytes of a request: a label with a long note."""
QUICK_THREADS, SLOW_THREADS = 6, 3
"""Searches and calculations have their own threads, so that they cannot hold up the pages."""
PROGRESS_SECONDS = 0.1
MAX_DIGITS = 9

_POLICY = (
    *assets.POLICY,
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "img-src 'self' data:",
    "frame-ancestors 'none'",
)
_HTML = "text/html; charset=utf-8"
_FOR_PEOPLE = {401: "This page needs its link", 403: "This request was refused", 421: "This is another address"}
"""Refusals that are shown as a page, with their title. All others are JSON."""


class ViewApp(App):
    """The routes of the viewer. Replies are for our own pages only, and nothing can be changed but labels."""

    max_body = MAX_BODY
    names = (HOST,)
    headers = (
        ("Content-Security-Policy", "; ".join(_POLICY)),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
    )

    def __init__(self, library: Library, access: Access) -> None:
        self._library = library
        self._quick = ThreadCrew(QUICK_THREADS, "view")
        self._slow = ThreadCrew(SLOW_THREADS, "view-slow")
        self._following = Following(library, self._quick)
        self.access = access
        super().__init__()

    @property
    def host(self) -> bytes:
        """The only valid value of `Host`."""
        (host,) = self.hosts
        return host

    # -- pages

    async def _open(self, _: Request) -> Response:
        # The browser keeps what follows # in the link, so it shows the page that the link names.
        return Response(303, headers=(("Location", "/"), ("Set-Cookie", self.access.cookie(self.host))))

    async def _shell(self, request: Request) -> Response:
        return _cacheable(request, await self._quick.call(_tagged_shell), _HTML)

    async def _static(self, request: Request) -> Response:
        name = _segment(request, 2)
        if name not in assets.SERVED:
            raise Refused(404, "not_found", "there is no such file")
        content = await self._quick.call(_tagged_asset, name)
        return _cacheable(request, content, assets.content_type(name) or "")

    # -- data

    async def _runs(self, _: Request) -> Response:
        return await self._json(self._quick, self._library.runs)

    async def _trend(self, _: Request) -> Response:
        return await self._json(self._slow, self._library.trend)

    async def _info(self, request: Request) -> Response:
        return await self._json(self._quick, self._library.info, _segment(request, 3))

    async def _columns(self, request: Request) -> Response:
        run, start = _segment(request, 3), _number(_query(request, "start") or "0")
        body, name = await self._quick.call(self._library.columns, run, start)
        return _cacheable(request, _Tagged(body, f'"{name}"'), "application/octet-stream")

    async def _detail(self, request: Request) -> Response:
        row = _number(_segment(request, 5))
        text = await self._quick.call(self._library.detail_json, _segment(request, 3), row)
        return Response(200, text.encode("utf-8"))

    async def _history(self, request: Request) -> Response:
        return await self._json(self._slow, self._library.history, _segment(request, 3), _number(_segment(request, 5)))

    async def _compare(self, request: Request) -> Response:
        return await self._json(self._slow, self._library.compare, _segment(request, 3), _segment(request, 4))

    async def _judges(self, request: Request) -> Response:
        return await self._json(self._slow, self._library.judges, _segment(request, 3))

    async def _user(self, _: Request) -> Response:
        """Who labels answers, unless the page is used by another person."""
        return await self._json(self._quick, lambda: {"user": current_user()})

    async def _labels(self, request: Request) -> Response:
        return await self._json(self._quick, self._library.labels, _segment(request, 3))

    async def _add_label(self, request: Request) -> Response:
        label = await self._sent(request)
        if type(label) is not dict or "label" not in label:
            raise bad_request("the body must be an object with a label")
        run = _segment(request, 3)
        return await self._json(self._quick, lambda: self._library.add_label(run, label, current_user()))

    async def _events(self, request: Request) -> Stream:
        return event_stream(await self._following.events(_segment(request, 3)))

    async def _search(self, request: Request) -> Stream:
        """Lines of JSON: the share that was searched, and in the last line the rows that were found."""
        run, text, stopped = _segment(request, 3), _query(request, "q"), threading.Event()
        steps = _SearchSteps(lambda: self._library.search(run, text, stopped.is_set))
        first = await self._slow.call(steps.advance)  # an unknown run is reported before the reply begins

        async def lines() -> AsyncGenerator[bytes, None]:
            line = first
            try:
                yield line
                while not steps.done:
                    line = await self._slow.call(steps.advance)
                    yield line
            finally:
                stopped.set()  # the page was closed, or the user has typed another letter

        return Stream(lines(), content_type="application/x-ndjson")

    routes = (
        Route("GET", "/", _shell),
        Route("GET", "/open", _open),
        Route("GET", "/static/{}", _static),
        Route("GET", "/api/runs", _runs),
        Route("GET", "/api/trend", _trend),
        Route("GET", "/api/user", _user),
        Route("GET", "/api/run/{}", _info),
        Route("GET", "/api/run/{}/columns", _columns),
        Route("GET", "/api/run/{}/rows/{}", _detail),
        Route("GET", "/api/run/{}/history/{}", _history),
        Route("GET", "/api/run/{}/search", _search),
        Route("GET", "/api/run/{}/judges", _judges),
        Route("GET", "/api/run/{}/labels", _labels),
        Route("POST", "/api/run/{}/labels", _add_label),
        Route("GET", "/api/run/{}/events", _events),
        Route("GET", "/api/compare/{}/{}", _compare),
    )

    async def _json(self, crew: ThreadCrew, method: Callable[..., Any], *args: Any) -> Response:
        """What a method of the library returns, as JSON."""
        return Response(200, await crew.call(lambda: jsonio.dump_line(method(*args)).encode("utf-8")))

    async def _sent(self, request: Request) -> Any:
        """The JSON value in the body. Only a script of our pages can send the header that is needed for it."""
        if request.headers.get(b"x-agentv") != b"1":
            raise Refused(403, "forbidden", "the header X-Agentv is missing")
        if request.headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != b"application/json":
            raise Refused(415, "unsupported_media_type", "send Content-Type: application/json")
        try:
            return await self._quick.call(jsonio.load, request.body)
        except ValueError as error:
            raise bad_request(f"the body is not valid JSON: {error}") from None

    # -- access and errors

    def admit(self, request: Request) -> None:
        self.access.check(request, self.host)

    def failure(self, error: Exception) -> Refused | None:
        if isinstance(error, UnknownRunError):
            return Refused(404, "unknown_run", str(error))
        if isinstance(error, AgentVError):
            return Refused(422, "not_readable", str(error))
        return super().failure(error)

    def error(self, refused: Refused, request: Request | None) -> Response:
        title = _FOR_PEOPLE.get(refused.status)
        if title is None:
            return super().error(refused, request)
        text = (
            '<!doctype html><html lang="en"><meta charset="utf-8"><title>agentv</title>'
            '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
            f"<h1>{title}</h1><p>{escape(refused.message)}</p></html>"
        )
        return Response(refused.status, text.encode("utf-8"), _HTML, refused.headers)


class ViewServer(Server):
    """Serves the runs of a library on 127.0.0.1 inside `async with`. Port 0 is any free one.

    Another process may have opened the port, and chosen the token of the link, already.
    """

    def __init__(
        self, library: Library, *, port: int = 0, listener: socket.socket | None = None, token: bytes | None = None
    ) -> None:
        self._view = ViewApp(library, Access(token))
        super().__init__(self._view, port=port, listener=listener, limits=LIMITS)

    async def __aenter__(self) -> Self:
        try:
            self.listen()
        except OSError as error:
            why = os.strerror(error.errno or 0)
            raise UsageError(
                f"Cannot listen on port {self.port}: {why}.", next_step="Choose another --port, or none."
            ) from error
        return self

    def link(self, place: str = "#/") -> str:
        """The link to print, which opens a place of the viewer, such as `#/run/ID`."""
        return self._view.access.link(self._view.host, place)

    def invitation(self, place: str = "#/") -> str:
        """The same for starting a browser: it can be used once."""
        return self._view.access.invitation(self._view.host, place)


class _SearchSteps:
    """A search, in steps that each take a moment of one of the threads."""

    def __init__(self, search: Callable[[], Iterator[tuple[float, list[int]]]]) -> None:
        self._search = search
        self._steps: Iterator[tuple[float, list[int]]] | None = None
        self._rows: list[int] = []
        self.done = False

    def advance(self) -> bytes:
        """Search for a moment. Returns the next line of the reply."""
        end = time.monotonic() + PROGRESS_SECONDS
        self._steps = self._steps or self._search()
        for share, rows in self._steps:
            self._rows = rows
            if time.monotonic() > end:
                return _line({"share": share})
        self.done = True
        return _line({"share": 1, "rows": self._rows})


def _line(value: Any) -> bytes:
    return jsonio.dump_line(value).encode("utf-8") + b"\n"


class _Tagged(NamedTuple):
    """The body of a reply, and the tag by which a browser knows whether it has it already."""

    body: bytes
    tag: str


def _tagged(body: bytes) -> _Tagged:
    return _Tagged(body, f'"{hashlib.sha256(body).hexdigest()[:32]}"')


@cache
def _tagged_shell() -> _Tagged:
    return _tagged(assets.shell().encode("utf-8"))


@cache
def _tagged_asset(name: str) -> _Tagged:
    return _tagged(assets.served(name))


def _cacheable(request: Request, content: _Tagged, kind: str, headers: HeaderLines = ()) -> Response:
    """A reply that browsers keep. They ask whether it has changed before they use it again."""
    headers = (("Cache-Control", "no-cache"), ("ETag", content.tag), *headers)
    if request.headers.get(b"if-none-match") == content.tag.encode("ascii"):
        return Response(304, content_type=kind, headers=headers)
    return Response(200, content.body, kind, headers)


def _segment(request: Request, at: int) -> str:
    """A part of the path, decoded: it may contain any character, also `/`."""
    try:
        return unquote_to_bytes(request.path.split(b"/")[at]).decode("utf-8")
    except UnicodeDecodeError:
        raise Refused(404, "not_found", "the path is not UTF-8") from None


def _query(request: Request, name: str) -> str:
    """A value in the query, empty if it is missing."""
    query = request.target.partition(b"?")[2]
    try:
        values = parse_qs(query.decode("ascii"), errors="strict", max_num_fields=10).get(name, [""])
    except ValueError:
        raise bad_request("the query is malformed") from None
    return values[-1]


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS):
        raise Refused(404, "not_found", f"expected the number of a row, got {quoted(text)}")
    return int(text)
