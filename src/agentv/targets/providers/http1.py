"""HTTP/1.1 as posting JSON to one server takes it: requests written in one go, replies read strictly.

A reply is read to its end, in whichever way that is marked, and never past a limit. Nothing is sent twice.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Iterator, Mapping
from typing import cast

MAX_HEAD = 64 * 1024
MAX_CHUNK_LINE = 4 * 1024
UNTIL_CLOSED, IN_CHUNKS, NO_HEAD_YET = -1, -2, -3

_HEAD_END = re.compile(rb"\r?\n\r?\n")
_STATUS = re.compile(r"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: .*)?")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LENGTH = re.compile(r"[0-9]{1,15}")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;.*)?", re.DOTALL)


class HttpError(Exception):
    """A call that has no reply; the message says why."""


class ConnectError(HttpError):
    """Nobody answers at this address."""


class TlsError(HttpError):
    """Somebody answers, and cannot be trusted."""


class ProxyError(HttpError):
    """The proxy in between does not let the call through."""

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        super().__init__(message)
        self.retryable = retryable


class BrokenOffError(HttpError):
    """The connection ended before the reply was complete."""


class BadReplyError(HttpError):
    """What came back is no HTTP/1.1."""


class ReplyTooLargeError(HttpError):
    """A reply over the limit."""


class Headers(Mapping[str, str]):
    """Headers of a reply, found in any case; iterating gives lower case."""

    __slots__ = ("_values",)

    def __init__(self, values: dict[str, str]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


Response = tuple[int, Mapping[str, str], bytes]
"""Status, headers and body."""


class Connection(asyncio.Protocol):
    """One connection, one call at a time."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[Response] | None = None
        self._buffer = bytearray()
        self._body = bytearray()
        self._expected = NO_HEAD_YET
        """Bytes of the body, or how its end is found."""
        self._status, self._headers = 0, Headers({})
        self._keeps_alive = False
        self.lost = self._loop.create_future()
        """Done when the connection is gone."""
        self.idle_since = 0.0

    @property
    def reusable(self) -> bool:
        """Whether another call may be made on it."""
        return self._keeps_alive and self._transport is not None and not self._transport.is_closing()

    async def exchange(self, request: bytes) -> Response:
        """Send a request and wait for the reply. Whoever stops waiting has to `abort`."""
        transport = self._transport
        if transport is None or transport.is_closing():
            raise BrokenOffError("the connection is closed")
        self._expected, self._keeps_alive = NO_HEAD_YET, False
        self._waiting = self._loop.create_future()
        transport.write(request)
        try:
            return await self._waiting
        finally:
            self._waiting = None

    def abort(self) -> None:
        """Close it at once."""
        self._keeps_alive = False
        if self._transport is not None:
            self._transport.abort()

    # -- what the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # TCP and TLS both are; other loops have their own class

    def data_received(self, data: bytes) -> None:
        waiting = self._waiting
        if waiting is None or waiting.done():
            self.abort()  # nothing was asked: whatever this is, the next call must not take it for its reply
            return
        self._buffer += data
        try:
            response = self._read()
        except HttpError as error:
            waiting.set_exception(error)
            self.abort()
            return
        if response is not None:
            waiting.set_result(response)

    def connection_lost(self, error: Exception | None) -> None:
        waiting, self._transport = self._waiting, None
        if waiting is not None and not waiting.done():
            if error is None and self._expected == UNTIL_CLOSED:
                try:
                    waiting.set_result(self._finished(bytes(self._buffer)))
                except HttpError as bad:
                    waiting.set_exception(bad)
            else:
                waiting.set_exception(BrokenOffError("the connection was broken off"))
        if not self.lost.done():
            self.lost.set_result(None)

    # -- a reply

    def _read(self) -> Response | None:
        """The reply, once all of it is there."""
        buffer = self._buffer
        while self._expected == NO_HEAD_YET:
            end = _HEAD_END.search(buffer)
            if end is None:
                if len(buffer) > MAX_HEAD or (b"\n" in buffer and not buffer.startswith(b"HTTP/1.")):
                    raise BadReplyError("it does not begin with an HTTP/1.1 status and headers")
                return None
            head = buffer[: end.start()].decode("latin-1")
            del buffer[: end.end()]
            self._read_head(head)
        expected = self._expected
        if expected >= 0:
            if expected > self._cap:
                raise ReplyTooLargeError
            if len(buffer) < expected:
                return None
            if len(buffer) > expected:  # more than was asked for
                self._keeps_alive = False
            return self._finished(bytes(buffer[:expected]))
        if expected == IN_CHUNKS:
            return self._finished(bytes(self._body)) if self._read_chunks() else None
        if len(buffer) > self._cap:
            raise ReplyTooLargeError
        return None

    def _read_head(self, head: str) -> None:
        first, *lines = head.split("\n")
        first = first.rstrip("\r")
        status = _STATUS.fullmatch(first)
        if status is None or status[2] == "101":
            raise BadReplyError(f"its status line is {first[:80]!r}")
        values: dict[str, str] = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon or _NAME.fullmatch(name) is None:
                raise BadReplyError("a header line is malformed")
            name, value = name.lower(), value.strip()
            values[name] = f"{values[name]}, {value}" if name in values else value
        if status[2][0] == "1":
            return  # the real one follows
        self._status, self._headers = int(status[2]), Headers(values)
        options = values.get("connection", "").lower()
        self._keeps_alive = "close" not in options and (status[1] == "1" or "keep-alive" in options)
        self._expected = self._framing(values)

    def _framing(self, values: Mapping[str, str]) -> int:
        encoding, length = values.get("transfer-encoding"), values.get("content-length")
        if self._status in (204, 304):
            return 0
        if encoding is not None:
            if encoding.lower() != "chunked":
                raise BadReplyError(f"its transfer encoding is {encoding[:80]!r}")
            self._keeps_alive = self._keeps_alive and length is None
            self._body.clear()
            return IN_CHUNKS
        if length is not None:
            if _LENGTH.fullmatch(length) is None:
                raise BadReplyError(f"its content length is {length[:80]!r}")
            return int(length)
        self._keeps_alive = False
        return UNTIL_CLOSED

    def _read_chunks(self) -> bool:
        """Move the chunks that are whole to the body. True at its end."""
        buffer, at = self._buffer, 0
        try:
            while (end := buffer.find(b"\n", at, at + MAX_CHUNK_LINE)) >= 0:
                found = _CHUNK.fullmatch(bytes(buffer[at:end]).rstrip(b"\r"))
                if found is None:
                    raise BadReplyError("the size of a chunk is no hexadecimal number")
                size, start = int(found[1], 16), end + 1
                if size == 0:
                    return self._ends_at(start)
                if len(self._body) + size > self._cap:
                    raise ReplyTooLargeError
                if len(buffer) < start + size + 2:
                    return False
                if buffer[start + size : start + size + 2] != b"\r\n":
                    raise BadReplyError("a chunk does not end where its size says")
                self._body += memoryview(buffer)[start : start + size]
                at = start + size + 2
            if len(buffer) - at >= MAX_CHUNK_LINE:
                raise BadReplyError("the line with the size of a chunk is too long")
            return False
        finally:
            del buffer[:at]

    def _ends_at(self, start: int) -> bool:
        """Whether the trailers, which nobody reads, are over."""
        rest = self._buffer[start:]
        if rest.startswith(b"\r\n"):
            end = 2
        elif (found := _HEAD_END.search(rest)) is not None:
            end = found.end()
        elif len(rest) > MAX_HEAD:
            raise BadReplyError("its trailers are too long")
        else:
            return False
        if len(rest) > end:
            self._keeps_alive = False
        return True

    def _finished(self, body: bytes) -> Response:
        self._buffer.clear()
        self._body = bytearray()
        transport = self._transport
        if transport is not None and transport.get_write_buffer_size():
            self._keeps_alive = False  # answered before it was all read: what is left of the request is in the way
        encoding = self._headers.get("content-encoding", "identity").lower()
        if body and encoding != "identity":
            body = _unpacked(body, encoding, self._cap)
        return self._status, self._headers, body


def _unpacked(data: bytes, encoding: str, cap: int) -> bytes:
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise BadReplyError(f"it is packed as {encoding[:80]!r}, which was not asked for")
    # Some take the word deflate for the bare format, without the two bytes of zlib in front.
    bare = encoding == "deflate" and (data[0] & 0x0F != 8 or int.from_bytes(data[:2], "big") % 31)
    unpacking = zlib.decompressobj(-zlib.MAX_WBITS if bare else zlib.MAX_WBITS | 32)
    try:
        body = unpacking.decompress(data, cap + 1)
    except zlib.error:
        raise BadReplyError(f"its {encoding} data is broken") from None
    if len(body) > cap:
        raise ReplyTooLargeError
    if not unpacking.eof:
        raise BrokenOffError("its packed data is cut off")
    return body
