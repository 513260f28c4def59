"""An HTTP/1.1 client with keep-alive connections, TLS and proxies.

The size of replies is limited. Requests are never retried here.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import SplitResult, quote, unquote, urlsplit

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from agentv import __version__
from agentv.http.messages import Headers

if TYPE_CHECKING:
    import ssl

USER_AGENT = f"agentv/{__version__}"
CONNECT_SECONDS = 30.0
IDLE_SECONDS = 15.0
"""Connections that were idle for longer are not reused, because servers close them."""
CLOSING_SECONDS = 1.0
SECOND_ADDRESS_SECONDS = 0.25
"""Delay before the next address of a host is tried in parallel, e.g. when IPv6 does not work."""
MAX_REPLY_HEAD = 64 * 1024
MAX_MEMBERS = 1000
_PIECE = 64 * 1024
_PACKED_IN_LINE = 4 * 1024
"""Longer compressed bodies are decompressed in a thread: 4 kB can become 4 MB."""

_AS_WRITTEN = "%/:=&?~+!$,;'@()*[]"
_UNSENDABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_IS_ADDRESS = re.compile(r"[0-9.]+|.*:.*").fullmatch
_START = b"HTTP/1."


class HttpError(Exception):
    """A call failed without a reply. The message says why.

    It can quote what the server sent, which is not masked and not truncated here: truncated secrets cannot be masked.
    """


class ConnectError(HttpError):
    """The connection to the server failed."""


class TlsError(HttpError):
    """TLS handshake or certificate verification failed."""


class ProxyError(HttpError):
    """The connection through the proxy failed. `status` is the HTTP status of the proxy, if it replied."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class BrokenOffError(HttpError):
    """The connection was closed before the reply was complete."""


class BadReplyError(HttpError):
    """The reply is not valid HTTP/1.1."""


class ReplyTooLargeError(HttpError):
    """The reply exceeds the size limit."""


class HttpReply(NamedTuple):
    """A complete reply. The body is decompressed by the client."""

    status: int
    headers: Headers
    body: bytes


class Origin(NamedTuple):
    """The scheme, host and port of a connection."""

    secure: bool
    host: str
    port: int

    @classmethod
    def of(cls, parts: SplitResult) -> Origin:
        host, secure = parts.hostname or "", parts.scheme == "https"
        ascii_host = host if host.isascii() else host.encode("idna").decode("ascii")
        return cls(secure, ascii_host, parts.port or (443 if secure else 80))

    def named(self, *, default_port: bool) -> str:
        """`host:port`. The default port of the scheme is omitted unless `default_port` is set."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        is_default = self.port == (443 if self.secure else 80)
        return host if is_default and not default_port else f"{host}:{self.port}"


class Client:
    """Makes calls, directly or through a `proxy` (http://host:port). Concurrent calls use separate connections."""

    def __init__(self, *, cap: int, limit: int = 0, proxy: str | None = None) -> None:
        self._cap = cap
        self._places = asyncio.Semaphore(limit) if limit else None
        self._proxy = urlsplit(proxy) if proxy is not None else None
        self._idle: dict[Origin, list[Connection]] = {}
        self._open: set[Connection] = set()
        self._prepared: tuple[tuple[str, str], Mapping[str, str], Origin, bytes] | None = None

    async def status_of(self, url: str) -> int:
        """The status of the reply to a GET request. The body is not read."""
        parts = urlsplit(url)
        origin = Origin.of(parts)
        head = _head("GET", parts, origin, {}, encoded=False, proxy=self._proxy)
        connection = await self._connect(origin)
        try:
            return (await connection.exchange(head + b"0\r\n\r\n", head_only=True)).status
        finally:
            connection.abort()

    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, *, encoded: bool = False, method: str = "POST"
    ) -> HttpReply:
        """Send a request with a body. Raises HttpError, or ValueError if it cannot be sent. Redirects are not followed.

        With `encoded`, the address is sent unchanged, which signed requests need.
        """
        if self._places is None:
            return await self._post(url, headers, body, encoded=encoded, method=method)
        async with self._places:
            return await self._post(url, headers, body, encoded=encoded, method=method)

    async def aclose(self) -> None:
        """Close all connections."""
        still_open = list(self._open)
        for connection in still_open:
            connection.abort()
        if still_open:
            await asyncio.wait([connection.lost for connection in still_open], timeout=CLOSING_SECONDS)

    async def _post(
        self, url: str, headers: Mapping[str, str], body: bytes, *, encoded: bool, method: str
    ) -> HttpReply:
        known = self._prepared  # most calls of a target have the same head, except for the Content-Length
        if known is not None and known[1] is headers and known[0] == (method, url):
            origin, head = known[2], known[3]
        else:
            parts = urlsplit(url)
            origin = Origin.of(parts)
            head = _head(method, parts, origin, headers, encoded=encoded, proxy=self._proxy)
            self._prepared = ((method, url), headers, origin, head)
        idle = self._idle.setdefault(origin, [])
        connection = self._usable(idle) or await self._connect(origin)
        try:
            reply = await connection.exchange(b"%b%d\r\n\r\n%b" % (head, len(body), body))
            reply = await _decompressed(reply, self._cap)
        except BaseException:
            connection.abort()
            raise
        if connection.reusable:
            connection.idle_since = asyncio.get_running_loop().time()
            idle.append(connection)
        else:
            connection.abort()
        return reply

    def _usable(self, idle: list[Connection]) -> Connection | None:
        """The most recently used connection, so that connections that are not needed expire."""
        while idle:
            connection = idle.pop()
            if connection.reusable and asyncio.get_running_loop().time() - connection.idle_since < IDLE_SECONDS:
                return connection
            connection.abort()
        return None

    async def _connect(self, origin: Origin) -> Connection:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                if self._proxy is None:
                    connection = await self._dial(origin)
                else:
                    connection = await self._dial_through(self._proxy, origin)
        except TimeoutError:
            error_class = ConnectError if self._proxy is None else ProxyError
            raise error_class("timed out") from None
        except ConnectionAbortedError as error:  # raised by asyncio when a handshake times out
            raise TlsError(str(error)) from error
        self._open.add(connection)
        connection.lost.add_done_callback(lambda _: self._open.discard(connection))
        return connection

    async def _dial(self, origin: Origin, failure: type[ConnectError | ProxyError] = ConnectError) -> Connection:
        loop = asyncio.get_running_loop()
        options: dict[str, Any] = {}
        if isinstance(loop, asyncio.BaseEventLoop) and not _IS_ADDRESS(origin.host):
            options["happy_eyeballs_delay"] = SECOND_ADDRESS_SECONDS  # not supported by other event loops
        connection = Connection(self._cap)
        try:
            tls = _tls() if origin.secure else None
            await loop.create_connection(lambda: connection, origin.host, origin.port, ssl=tls, **options)
        except (TimeoutError, ConnectionAbortedError):
            raise
        except (OSError, UnicodeError) as error:
            raise _as_http_error(error, failure, secure=origin.secure) from error
        return connection

    async def _dial_through(self, proxy: SplitResult, origin: Origin) -> Connection:
        connection = await self._dial(Origin.of(proxy), ProxyError)
        if not origin.secure:
            return connection  # plain HTTP: every request contains the full address for the proxy
        address = origin.named(default_port=True)
        lines = [f"CONNECT {address} HTTP/1.1", f"Host: {address}", f"User-Agent: {USER_AGENT}", *_proxy_key(proxy)]
        try:
            await connection.open_tunnel("\r\n".join([*lines, "", ""]).encode(), _tls(), origin.host)
        except BaseException as error:
            connection.abort()
            if isinstance(error, BadReplyError | BrokenOffError):
                raise ProxyError(str(error)) from error
            if isinstance(error, OSError) and not isinstance(error, TimeoutError | ConnectionAbortedError):
                raise _as_http_error(error, ProxyError, secure=True) from error
            raise
        return connection


class Connection(asyncio.Protocol):
    """One connection, one call at a time. llhttp calls the methods that begin with `on_`."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser: HttpResponseParser | None = None
        self._waiting: asyncio.Future[HttpReply] | None = None
        self._head_only = False
        """Only the head of the reply is wanted."""
        self._complete = self._until_closed = self._keeps_alive = False
        self._headers: dict[bytes, bytes] = {}
        self._body: list[bytes] = []
        self._problem: HttpError | None = None
        self._begin()
        self.lost = self._loop.create_future()
        """Done when the connection is closed."""
        self.idle_since = 0.0

    @property
    def reusable(self) -> bool:
        """Whether the connection can be used for another call."""
        return self._keeps_alive and self._transport is not None and not self._transport.is_closing()

    async def exchange(self, request: bytes, *, head_only: bool = False) -> HttpReply:
        """Send a request and wait for the reply, or only for its head. If cancelled, call `abort`."""
        transport = self._transport
        if transport is None or transport.is_closing():
            raise BrokenOffError("the connection is closed")
        self._begin()
        self._head_only = head_only
        self._waiting = self._loop.create_future()
        transport.write(request)
        try:
            return await self._waiting
        finally:
            self._waiting = None

    async def open_tunnel(self, request: bytes, context: ssl.SSLContext, host: str) -> None:
        """Ask a proxy to connect to a server, and start TLS with that server."""
        status = (await self.exchange(request, head_only=True)).status
        if not 200 <= status < 300:
            raise ProxyError(f"it answered HTTP {status}", status)
        if self._transport is None:
            raise BrokenOffError("the connection was closed before the reply was complete")
        transport = await self._loop.start_tls(self._transport, self, context, server_hostname=host)
        self._transport, self._parser = cast("asyncio.Transport", transport), None

    def abort(self) -> None:
        """Close the connection immediately."""
        self._keeps_alive = False
        if self._transport is not None:
            self._transport.abort()

    # -- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # other event loops have their own class

    def data_received(self, data: bytes) -> None:
        waiting = self._waiting
        if waiting is None or waiting.done():
            self.abort()  # unsolicited data must not become the reply to the next call
            return
        try:
            self._feed(data)
            if self._complete:
                waiting.set_result(self._finished())
        except HttpError as error:
            waiting.set_exception(error)
            self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        waiting, self._transport, self._parser = self._waiting, None, None
        if waiting is not None and not waiting.done():
            try:
                if error is not None or not self._until_closed:
                    raise BrokenOffError("the connection was closed before the reply was complete")
                waiting.set_result(self._finished())
            except HttpError as problem:
                waiting.set_exception(problem)
        if not self.lost.done():
            self.lost.set_result(None)

    # -- called by llhttp

    def on_message_begin(self) -> None:
        if self._complete:  # an unsolicited second reply
            self._keeps_alive = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._status:
            return  # a trailer
        name, value = name.lower(), value.rstrip()
        self._headers[name] = b"%b, %b" % (self._headers[name], value) if name in self._headers else value

    def on_headers_complete(self) -> None:
        parser, headers = cast("HttpResponseParser", self._parser), self._headers
        if self._complete:
            return
        status = parser.get_status_code()
        if 100 <= status < 200 and status != 101:
            self._headers = {}  # informational; the final reply follows
            return
        self._status = status
        length, coding = headers.get(b"content-length"), headers.get(b"transfer-encoding")
        options = headers.get(b"connection", b"").lower()
        self._keeps_alive = b"close" not in options and (parser.get_http_version() == "1.1" or b"keep-alive" in options)
        if not 200 <= status < 600:
            self._problem = BadReplyError(f"its status is {status}")
        elif self._head_only:
            self._complete, self._keeps_alive = True, False
        elif status in (204, 304):
            pass
        elif coding is not None:
            self._keeps_alive = self._keeps_alive and length is None
            if coding.lower() != b"chunked":
                self._problem = BadReplyError(f"its transfer encoding is {coding.decode('latin-1')!r}")
        elif length is None:
            self._keeps_alive, self._until_closed = False, True
        elif int(length) > self._cap:
            self._problem = ReplyTooLargeError()

    def on_body(self, data: bytes) -> None:
        if not self._complete:
            self._body.append(data)
            self._size += len(data)

    def on_message_complete(self) -> None:
        if self._status:
            self._complete = True

    # -- a reply

    def _begin(self) -> None:
        self._headers, self._body, self._problem = {}, [], None
        self._size = self._received = self._status = 0
        self._complete = self._until_closed = self._keeps_alive = False

    def _feed(self, data: bytes) -> None:
        if not self._received and not (data.startswith(_START) or _START.startswith(data)):
            first = data.partition(b"\n")[0].rstrip().decode("latin-1")
            raise BadReplyError(f"it begins with {first!r}")
        self._received += len(data)
        parser = self._parser
        if parser is None:
            parser = self._parser = HttpResponseParser(self)
            # Some servers end lines with a bare line feed, or send Content-Length with chunks.
            parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True, lenient_chunked_length=True)
        try:
            parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self._keeps_alive = False
            if not self._complete and self._problem is None:
                raise BadReplyError(str(error)) from None
        if self._problem is not None:
            raise self._problem
        if not self._status and self._received > MAX_REPLY_HEAD:
            raise BadReplyError("its status and headers are too long")
        if self._size > self._cap or self._received > 2 * self._cap + MAX_REPLY_HEAD:
            raise ReplyTooLargeError

    def _finished(self) -> HttpReply:
        transport = self._transport
        if transport is not None and transport.get_write_buffer_size():
            self._keeps_alive = (
                False  # replied before the request was read completely, so the connection is in an unknown state
            )
        return HttpReply(self._status, Headers(self._headers), b"".join(self._body))


async def _decompressed(reply: HttpReply, cap: int) -> HttpReply:
    encoding = reply.headers.get("Content-Encoding")
    if encoding is None or not reply.body:
        return reply
    if len(reply.body) <= _PACKED_IN_LINE:
        return reply._replace(body=_unpacked(reply.body, encoding, cap))
    return reply._replace(body=await asyncio.to_thread(_unpacked, reply.body, encoding, cap))


def _unpacked(data: bytes, named: str, cap: int) -> bytes:
    encoding = named.lower()
    if encoding == "identity":
        return data
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise BadReplyError(f"its content encoding is {named!r}, which was not requested")
    try:
        return b"".join(_members(data, encoding, cap))
    except zlib.error:
        raise BadReplyError(f"its {encoding} data is corrupt") from None


def _members(data: bytes, encoding: str, cap: int) -> Iterator[bytes]:
    """The decompressed pieces of the data, which may consist of several compressed members."""
    # Some servers send raw deflate data, without the two bytes of the zlib header.
    bare = encoding == "deflate" and (data[0] & 0x0F != 8 or int.from_bytes(data[:2], "big") % 31)
    begin = partial(zlib.decompressobj, -zlib.MAX_WBITS if bare else zlib.MAX_WBITS | 32)
    unpacking, members, unread = begin(), 1, memoryview(data)
    pending = b""
    while pending or unread:
        if not pending:  # in pieces, because what follows a member is copied
            pending, unread = bytes(unread[:_PIECE]), unread[_PIECE:]
        if unpacking.eof:
            pending = pending.lstrip(b"\0")  # padding
            if not pending:
                continue
            if bare or members == MAX_MEMBERS:
                raise BadReplyError(f"its {encoding} data has more than {members} members")
            unpacking, members = begin(), members + 1
        piece = unpacking.decompress(pending, cap + 1)
        pending = unpacking.unconsumed_tail or unpacking.unused_data
        cap -= len(piece)
        if cap < 0:
            raise ReplyTooLargeError
        yield piece
    if not unpacking.eof:
        raise BrokenOffError("its compressed data is incomplete")


# -- requests


def _head(
    method: str,
    parts: SplitResult,
    origin: Origin,
    headers: Mapping[str, str],
    *,
    encoded: bool,
    proxy: SplitResult | None,
) -> bytes:
    """The head of a request, up to the value of Content-Length."""
    path, query = parts.path or "/", parts.query
    if not encoded:
        path, query = quote(path, safe=_AS_WRITTEN), quote(query, safe=_AS_WRITTEN)
    target, host = f"{path}{'?' if query else ''}{query}", origin.named(default_port=False)
    sent = {"Host": host, "Accept": "*/*", "Accept-Encoding": "gzip, deflate", "User-Agent": USER_AGENT}
    if parts.username is not None:
        sent["Authorization"] = _basic(parts)
    names = {name.lower(): name for name in sent}
    for name, value in headers.items():
        sent.pop(names.get(name.lower(), ""), None)
        sent[name] = value
    if any(" " in name for name in sent) or " " in target:
        raise ValueError(_CANNOT_BE_SENT)
    in_between = proxy if not origin.secure else None
    lines = [f"{method} {f'http://{host}' if in_between else ''}{target} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in sent.items() if name.lower() != "content-length"]
    lines += _proxy_key(in_between) if in_between else []
    if any(map(_UNSENDABLE.search, lines)):
        raise ValueError(_CANNOT_BE_SENT)
    return "\r\n".join([*lines, "Content-Length: "]).encode()


_CANNOT_BE_SENT = "the address or a header contains characters that cannot be sent"


def _basic(parts: SplitResult) -> str:
    credentials = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}".encode()
    return f"Basic {base64.b64encode(credentials).decode('ascii')}"


def _proxy_key(proxy: SplitResult) -> list[str]:
    return [f"Proxy-Authorization: {_basic(proxy)}"] if proxy.username is not None else []


# -- errors


def os_reason(error: Exception) -> str:
    """The message of the operating system, which asyncio replaces by one with the address."""
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return getattr(error, "strerror", None) or str(error)


def _as_http_error(error: Exception, failure: type[ConnectError | ProxyError], *, secure: bool) -> HttpError:
    import ssl  # noqa: PLC0415 - as below

    if isinstance(error, ssl.SSLError):
        return TlsError(str(error))
    if secure and isinstance(error, ConnectionResetError):
        return BrokenOffError("the connection was closed before the reply was complete")
    return failure(os_reason(error))


@cache
def _tls() -> ssl.SSLContext:
    """A context that verifies certificates against those of the system. Cached, because loading them is slow."""
    import ssl  # noqa: PLC0415 - servers on this machine rarely need it

    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
