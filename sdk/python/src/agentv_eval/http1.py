"""A minimal HTTP/1.1 client: importing `http.client` would take longer than the call.

It never resends a request, never follows a redirect, and never waits past its deadline, unless the caller moves it.
"""

from __future__ import annotations

import socket
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_REPLY_BYTES = 256 * 1024 * 1024
MAX_LINE = 64 * 1024
MAX_HEADERS = 100
PIECE = 256 * 1024
_HEXADECIMAL = frozenset("0123456789abcdefABCDEF")


class NotHttpError(Exception):
    """The response is not valid HTTP/1.1. The message says why."""


class CutOffError(Exception):
    """The connection was closed in the middle of the response."""


class NoAnswerError(ConnectionResetError):
    """The connection was closed before the first byte of the response."""


class Answer:
    """Status, headers and body, and whether the connection can be reused."""

    __slots__ = ("body", "headers", "reusable", "status")

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes, reusable: bool) -> None:
        self.status = status
        self.headers = headers
        """Names are in lower case."""
        self.body = body
        self.reusable = reusable


class Stream:
    """A socket with one deadline for the whole call, so that a slow server cannot extend it byte by byte."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._buffer = bytearray()
        self._deadline = 0.0
        self._later: Callable[[], float] | None = None
        self.received = 0

    def arm(self, deadline: float, later: Callable[[], float] | None = None) -> None:
        """Start a new call that must end by `deadline` (`time.monotonic`).

        If it has passed before the first byte of the response, `later` is called for a new one.
        """
        self._deadline, self._later = deadline, later
        self._buffer.clear()
        self.received = 0

    def connect(self, host: str, port: int) -> None:
        self._settle()
        self._socket.connect((host, port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data: bytes) -> None:
        self._settle()
        self._socket.sendall(data)

    def read_answer(self) -> Answer:
        """Read the complete response."""
        version, status = self._status_line()
        headers = self._headers()
        while 100 <= status < 200:  # interim responses
            if status == 101:
                raise NotHttpError("it switches to another protocol (101)")
            version, status = self._status_line()
            headers = self._headers()
        options = headers.get("connection", "").lower()
        reusable = "close" not in options and (version == "1" or "keep-alive" in options)
        encoding, length = headers.get("transfer-encoding"), headers.get("content-length")
        if status in (204, 304):
            body = b""
        elif encoding is not None:
            if encoding.lower() != "chunked":
                raise NotHttpError(f"its transfer encoding is {encoding[:80]!r}")
            body, reusable = self._chunks(), reusable and length is None
        elif length is not None:
            if not (length.isascii() and length.isdigit() and len(length) < 16):
                raise NotHttpError(f"its length is {length[:80]!r}")
            body = self._exactly(int(length))
        else:
            body, reusable = self._rest(), False
        # Extra bytes must not be taken for the response to the next call.
        return Answer(status, headers, body, reusable and not self._buffer)

    def _status_line(self) -> tuple[str, int]:
        line = self._line(first=True)
        protocol, _, rest = line.partition(" ")
        status = rest[:3]
        if protocol not in ("HTTP/1.1", "HTTP/1.0") or not (status.isascii() and status.isdigit() and len(status) == 3):
            raise NotHttpError(f"it starts with {line[:80]!r}")
        if rest[3:4] not in ("", " "):
            raise NotHttpError(f"it starts with {line[:80]!r}")
        return protocol[-1], int(status)

    def _headers(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        for _ in range(MAX_HEADERS + 1):
            line = self._line()
            if not line:
                return headers
            name, colon, value = line.partition(":")
            if not colon or not name or name.strip() != name:
                raise NotHttpError(f"a header line is {line[:80]!r}")
            name, value = name.lower(), value.strip(" \t")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        raise NotHttpError(f"it has more than {MAX_HEADERS} headers")

    def _chunks(self) -> bytes:
        body = bytearray()
        while True:
            size = self._line().partition(";")[0].strip()
            if not 0 < len(size) <= 8 or not _HEXADECIMAL.issuperset(size):
                raise NotHttpError(f"the size of a chunk is {size[:80]!r}")
            count = int(size, 16)
            if count == 0:
                self._headers()  # trailers, which are ignored
                return bytes(body)
            if len(body) + count > MAX_REPLY_BYTES:
                raise _too_long()
            body += self._exactly(count)
            if self._line():
                raise NotHttpError("a chunk is longer than its declared size")

    # -- bytes

    def _line(self, first: bool = False) -> str:
        buffer, start = self._buffer, 0
        while True:
            end = buffer.find(b"\n", start)
            if end >= 0:
                break
            start = len(buffer)
            if start > MAX_LINE:
                raise NotHttpError("a line is too long")
            if not self._receive():
                if first and not self.received:
                    raise NoAnswerError("no response")
                raise CutOffError(f"after {self.received} bytes")
        line = bytes(buffer[:end])
        del buffer[: end + 1]
        return (line[:-1] if line.endswith(b"\r") else line).decode("latin-1")

    def _exactly(self, count: int) -> bytes:
        if count > MAX_REPLY_BYTES:
            raise _too_long()
        buffer = self._buffer
        while len(buffer) < count:
            if not self._receive():
                raise CutOffError(f"{len(buffer)} of {count} bytes")
        data = bytes(memoryview(buffer)[:count])
        del buffer[:count]
        return data

    def _rest(self) -> bytes:
        while self._receive():
            pass
        data = bytes(self._buffer)
        self._buffer.clear()
        return data

    def _receive(self) -> bool:
        """Read more bytes into the buffer. False at the end of the stream."""
        while True:
            try:
                self._settle()
                data = self._socket.recv(PIECE)
                break
            except socket.timeout:  # nothing was read, so the connection is still usable
                if self.received or self._later is None:
                    raise
                self._deadline = self._later()
        self.received += len(data)
        if self.received > MAX_REPLY_BYTES:
            raise _too_long()
        self._buffer += data
        return bool(data)

    def _settle(self) -> None:
        left = self._deadline - monotonic()
        if left <= 0:
            raise socket.timeout("the call timed out")
        self._socket.settimeout(left)


def _too_long() -> NotHttpError:
    return NotHttpError(f"it is longer than {MAX_REPLY_BYTES} bytes")
