"""Requests to the viewer's server over plain sockets: HTTP libraries would add and correct headers.

Every reply is checked for the headers that all replies must have.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

SECONDS = 20
EVERYWHERE = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
DIRECTIVES = {
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "img-src 'self' data:",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
}


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class RawClient:
    """Sends requests to a server, by default as its own page does."""

    def __init__(self, link: str) -> None:
        parts = urlsplit(link)
        assert parts.hostname == "127.0.0.1"
        assert parts.port
        self.port = parts.port
        self.host = f"127.0.0.1:{parts.port}"
        self.token = parts.query.removeprefix("t=")
        opened = self.get(f"/open?{parts.query}", cookie=None)
        assert (opened.status, opened.headers["location"]) == (303, "/")
        self.set_cookie = opened.headers["set-cookie"]
        self.cookie = self.set_cookie.partition(";")[0]

    def get(self, path: str, *lines: str, **changes: str | None) -> Reply:
        return self.send("GET", path, *lines, **changes)

    def post(self, path: str, value: Any, *lines: str, **changes: str | None) -> Reply:
        """Send JSON. `x_agentv=None` leaves out that header."""
        changes = {"x_agentv": "1", "content_type": "application/json", **changes}
        body = value if isinstance(value, str) else json.dumps(value)
        return self.send("POST", path, f"Content-Length: {len(body.encode())}", *lines, body=body, **changes)

    def send(self, method: str, path: str, *lines: str, body: str | None = "", **changes: str | None) -> Reply:
        """Send a request with these header lines, and with others that can be changed or, as None, left out."""
        with self.connected() as connection:
            connection.sendall(self.head(method, path, *lines, **changes) + (body or "").encode())
            return read_reply(connection)

    def head(self, method: str, path: str, *lines: str, **changes: str | None) -> bytes:
        headers: dict[str, str | None] = {"host": self.host, "cookie": getattr(self, "cookie", None), **changes}
        named = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items() if value is not None]
        return "\r\n".join([f"{method} {path} HTTP/1.1", *named, *lines, "", ""]).encode("latin-1")

    @contextmanager
    def connected(self) -> Iterator[socket.socket]:
        with socket.create_connection(("127.0.0.1", self.port), timeout=SECONDS) as connection:
            yield connection


def read_head(connection: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """Status, headers, and what was received after them."""
    received = b""
    while b"\r\n\r\n" not in received:
        part = connection.recv(65536)
        assert part, received
        received += part
    head, _, rest = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    names = [line.partition(": ")[0].lower() for line in lines]
    assert len(names) == len(set(names)), names
    headers = {line.partition(": ")[0].lower(): line.partition(": ")[2] for line in lines}
    check(headers)
    return int(first.split(" ")[1]), headers, rest


def read_reply(connection: socket.socket) -> Reply:
    status, headers, body = read_head(connection)
    length = int(headers.get("content-length", "0"))
    while len(body) < length:
        part = connection.recv(65536)
        assert part
        body += part
    if headers.get("transfer-encoding") == "chunked":
        while not body.endswith(b"0\r\n\r\n"):
            body += connection.recv(65536)
        body = unchunked(body)
    return Reply(status, headers, body)


def unchunked(body: bytes) -> bytes:
    """The contents of the complete chunks."""
    contents = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        length = int(size or b"0", 16)
        if len(rest) < length + 2:
            break
        contents, body = contents + rest[:length], rest[length + 2 :]
    return contents


def check(headers: dict[str, str]) -> None:
    """What must be true of every reply."""
    assert EVERYWHERE.items() <= headers.items(), headers
    assert set(headers["content-security-policy"].split("; ")) == DIRECTIVES
    assert not [name for name in headers if name.startswith("access-control")]
    assert headers["cache-control"] == ("no-cache" if "etag" in headers else "no-store"), headers
