"""Connections to the server of one target: kept open between calls, as many as there are calls at once."""

from __future__ import annotations

import asyncio
import base64
import os
import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from agentv import __version__
from agentv.targets.providers.http1 import BrokenOffError, ConnectError, Connection, Response, TlsError

if TYPE_CHECKING:
    import ssl

USER_AGENT = f"agentv/{__version__}"
CONNECT_SECONDS = 30.0
IDLE_SECONDS = 15.0
"""Servers close connections that nobody uses; one that was idle for longer is not tried."""
CLOSING_SECONDS = 1.0
SECOND_ADDRESS = 0.25
"""Seconds until the next address of a host is tried as well, as with an IPv6 that leads nowhere."""

_AS_WRITTEN = "%/:=&?~+!$,;'@()*[]"
_UNSENDABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_IS_ADDRESS = re.compile(r"[0-9.]+|.*:.*").fullmatch
_Origin = tuple[bool, str, int]


class Connections:
    """Posts to servers, each call on a connection of its own."""

    def __init__(self, *, limit: int = 0, cap: int) -> None:
        self._cap = cap
        self._places = asyncio.Semaphore(limit) if limit else None
        self._idle: dict[_Origin, list[Connection]] = {}
        self._open: set[Connection] = set()
        self._prepared: tuple[str, Mapping[str, str], _Origin, bytes] | None = None

    async def post(self, url: str, headers: Mapping[str, str], body: bytes, *, encoded: bool = False) -> Response:
        """Status, headers and body of the reply, or an `HttpError`; ValueError for what cannot be sent."""
        if self._places is None:
            return await self._post(url, headers, body, encoded=encoded)
        async with self._places:
            return await self._post(url, headers, body, encoded=encoded)

    async def _post(self, url: str, headers: Mapping[str, str], body: bytes, *, encoded: bool) -> Response:
        origin, head = self._head(url, headers, encoded=encoded)
        idle = self._idle.setdefault(origin, [])
        connection = self._usable(idle) or await self._connect(origin)
        try:
            response = await connection.exchange(b"%s%d\r\n\r\n%s" % (head, len(body), body))
        except BaseException:
            connection.abort()
            raise
        if connection.reusable:
            connection.idle_since = asyncio.get_running_loop().time()
            idle.append(connection)
        else:
            connection.abort()
        return response

    async def aclose(self) -> None:
        """Close them all."""
        still_open = list(self._open)
        for connection in still_open:
            connection.abort()
        if still_open:
            await asyncio.wait([connection.lost for connection in still_open], timeout=CLOSING_SECONDS)

    # -- connections

    def _usable(self, idle: list[Connection]) -> Connection | None:
        """The one used last: those that are not needed age and go."""
        while idle:
            connection = idle.pop()
            if connection.reusable and asyncio.get_running_loop().time() - connection.idle_since < IDLE_SECONDS:
                return connection
            connection.abort()
        return None

    async def _connect(self, origin: _Origin) -> Connection:
        (secure, host, port), loop = origin, asyncio.get_running_loop()
        more: dict[str, Any] = {}
        if isinstance(loop, asyncio.BaseEventLoop) and not _IS_ADDRESS(host):
            more["happy_eyeballs_delay"] = SECOND_ADDRESS  # other loops, as programs around us may run, do not know it
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                connection: Connection
                _, connection = await loop.create_connection(
                    lambda: Connection(self._cap), host, port, ssl=_tls() if secure else None, **more
                )
        except TimeoutError:
            raise ConnectError("no answer in time") from None
        except ConnectionAbortedError as error:  # asyncio's word for a handshake that does not end
            raise TlsError(str(error)) from error
        except (OSError, UnicodeError) as error:
            if _is_about_tls(error):
                raise TlsError(str(error)) from error
            if secure and isinstance(error, ConnectionResetError):
                raise BrokenOffError("the connection was broken off") from error
            raise ConnectError(os_reason(error)) from error
        self._open.add(connection)
        connection.lost.add_done_callback(lambda _: self._open.discard(connection))
        return connection

    # -- requests

    def _head(self, url: str, headers: Mapping[str, str], *, encoded: bool) -> tuple[_Origin, bytes]:
        """Where a request goes, and its head up to the length of its body. Most calls have the same: kept."""
        known = self._prepared
        if known is not None and known[0] == url and known[1] is headers:
            return known[2], known[3]
        origin, head = _written_head(url, headers, encoded=encoded)
        self._prepared = (url, headers, origin, head)
        return origin, head


def _written_head(url: str, headers: Mapping[str, str], *, encoded: bool) -> tuple[_Origin, bytes]:
    parts = urlsplit(url)
    secure, host = parts.scheme == "https", parts.hostname or ""
    named = host if host.isascii() else host.encode("idna").decode("ascii")
    port = parts.port or (443 if secure else 80)
    shown = f"[{named}]" if ":" in named else named
    path, query = parts.path or "/", parts.query
    if not encoded:
        path, query = quote(path, safe=_AS_WRITTEN), quote(query, safe=_AS_WRITTEN)
    sent = {
        "Host": shown if port == (443 if secure else 80) else f"{shown}:{port}",
        "Accept": "*/*",
        "Accept-Encoding": "gzip, deflate",
        "User-Agent": USER_AGENT,
    }
    if parts.username is not None:
        credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        sent["Authorization"] = f"Basic {base64.b64encode(credentials).decode('ascii')}"
    names = {name.lower(): name for name in sent}
    for name, value in headers.items():
        sent.pop(names.get(name.lower(), ""), None)
        sent[name] = value
    lines = [f"POST {path}{'?' if query else ''}{query} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in sent.items() if name.lower() != "content-length"]
    if any(map(_UNSENDABLE.search, lines)) or " " in f"{path}{query}" or any(" " in name for name in sent):
        raise ValueError("the address or a header holds characters that cannot be sent")
    return (secure, named, port), "\r\n".join([*lines, "Content-Length: "]).encode()


def os_reason(error: Exception) -> str:
    """Why there is no connection, in the words of the system: asyncio puts the address in their place."""
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return getattr(error, "strerror", None) or str(error)


def _is_about_tls(error: Exception) -> bool:
    import ssl  # noqa: PLC0415 - as below

    return isinstance(error, ssl.SSLError)


@cache
def _tls() -> ssl.SSLContext:
    """Certificates are checked against those of the system. Reading them takes a while, and once is enough."""
    import ssl  # noqa: PLC0415 - servers on this machine rarely need it

    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
