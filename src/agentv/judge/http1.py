"""HTTP/1.1 requests, read strictly: the head, and the body in either framing. No sockets, no waiting.

Only what is unambiguous is accepted: line ends are CRLF, a header is one line, a length is given once. Whatever
two parsers might read differently is a `BadRequestError`, after which the connection is closed.
"""

from __future__ import annotations

import re
from typing import Protocol

MAX_HEAD = 16 * 1024
MAX_HEADERS = 100
MAX_BODY = 8 * 1024 * 1024
LONGEST_LENGTH = 15
"""Digits of a Content-Length that are worth reading: Python refuses to read thousands of them."""
MAX_CHUNK_LINE = 256
MAX_FRAMING = 256 * 1024
"""Bytes of chunk sizes and extensions in one body: millions of tiny chunks are no way to send one."""

_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]"
_REQUEST_LINE = re.compile(rb"(" + _TOKEN + rb"{1,32}) ([\x21-\x7e]{1,8192}) HTTP/1\.([01])\r\n")
_HEADER = re.compile(rb"(" + _TOKEN + rb"{1,256}):([\t\x20-\x7e\x80-\xff]*)\r\n")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})(?:;[\t\x20-\x7e\x80-\xff]*)?")
_LENGTH = re.compile(rb"0*([0-9]+)")


class BadRequestError(Exception):
    """Bytes that are no request; the message says why."""


class BodyTooLargeError(Exception):
    """A body over the limit."""


class Head:
    """Method, target and headers of one request. Names are in lower case; a header sent twice is in `repeated`."""

    __slots__ = ("headers", "method", "repeated", "target", "version")

    def __init__(self, method: bytes, target: bytes, version: int) -> None:
        self.method = method
        self.target = target
        self.version = version
        """The minor version of HTTP/1."""
        self.headers: dict[bytes, bytes] = {}
        self.repeated: set[bytes] = set()

    @property
    def path(self) -> bytes:
        return self.target.partition(b"?")[0]

    @property
    def announces_body(self) -> bool:
        """Whether bytes of a body may follow, however its length is given."""
        headers = self.headers
        return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"

    @property
    def keeps_alive(self) -> bool:
        options = self.headers.get(b"connection", b"").lower()
        return self.version == 1 and b"close" not in options and b"connection" not in self.repeated


class Body(Protocol):
    """Takes its bytes from the front of a buffer; gives the whole body when it is there."""

    def take(self, buffer: bytearray) -> bytes | None: ...


def parse_head(block: bytes | bytearray) -> Head:
    """The head of a request, up to and with its empty line."""
    line = _REQUEST_LINE.match(block)
    if line is None:
        raise BadRequestError("this is no HTTP/1.1 request; send e.g. `GET /info HTTP/1.1`")
    head = Head(line[1], line[2], 1 if line[3] == b"1" else 0)
    position, end = line.end(), len(block) - 2
    headers, count = head.headers, 0
    while position < end:
        header = _HEADER.match(block, position)
        if header is None:
            raise BadRequestError("a header line is malformed; send `Name: value`, one line each")
        name = header[1].lower()
        if name in headers:
            head.repeated.add(name)
        headers[name] = header[2].strip(b" ")
        position = header.end()
        count += 1
    if count > MAX_HEADERS:
        raise BadRequestError(f"more than {MAX_HEADERS} headers; send fewer")
    return head


def is_hopeless(buffer: bytes | bytearray) -> bool:
    """Whether these bytes cannot be the beginning of a request any more."""
    return b"\n" in buffer and _REQUEST_LINE.match(buffer) is None


def body_of(head: Head) -> Body | None:
    """How the body is to be read; None when there is none."""
    headers, repeated = head.headers, head.repeated
    length, chunked = headers.get(b"content-length"), headers.get(b"transfer-encoding")
    if chunked is not None:
        if length is not None:
            raise BadRequestError("both Content-Length and Transfer-Encoding are given; send one of them")
        if head.version == 0:
            raise BadRequestError("HTTP/1.0 has no Transfer-Encoding; send Content-Length")
        return ChunkedBody()
    if length is None:
        return None
    digits = _LENGTH.fullmatch(length)
    if b"content-length" in repeated or digits is None:
        raise BadRequestError("Content-Length must be given once, as a whole number")
    if len(digits[1]) > LONGEST_LENGTH or int(digits[1]) > MAX_BODY:
        raise BodyTooLargeError
    size = int(digits[1])
    return SizedBody(size) if size else None


class SizedBody:
    """A body of a known length."""

    __slots__ = ("_size",)

    def __init__(self, size: int) -> None:
        self._size = size

    def take(self, buffer: bytearray) -> bytes | None:
        if len(buffer) < self._size:
            return None
        body = bytes(memoryview(buffer)[: self._size])
        del buffer[: self._size]
        return body


class ChunkedBody:
    """A body in chunks; sizes are checked before anything is kept."""

    __slots__ = ("_data", "_ending", "_framing", "_left")

    def __init__(self) -> None:
        self._data = bytearray()
        self._framing = 0
        self._left = -1
        """Bytes of the current chunk still to come, its CRLF included; -1 between chunks."""
        self._ending = False

    def take(self, buffer: bytearray) -> bytes | None:
        position = 0
        try:
            while True:
                if self._left > 0:
                    position = self._chunk_data(buffer, position)
                    if self._left > 0:
                        return None
                    self._left = -1
                line_end = buffer.find(b"\r\n", position, position + MAX_CHUNK_LINE)
                if line_end < 0:
                    if len(buffer) - position >= MAX_CHUNK_LINE:
                        raise BadRequestError("a chunk's size line is too long")
                    return None
                line, position = bytes(buffer[position:line_end]), line_end + 2
                if self._line(line):
                    return bytes(self._data)
        finally:
            del buffer[:position]

    def _line(self, line: bytes) -> bool:
        """A line between chunks. True at the end of the body."""
        self._framing += len(line) + 2
        if self._framing > MAX_FRAMING:
            raise BadRequestError("the body comes in too many small chunks; send larger ones")
        if self._ending:
            if line:
                raise BadRequestError("headers after the last chunk are not read; send them before the body")
            return True
        found = _CHUNK.fullmatch(line)
        if found is None:
            raise BadRequestError("a chunk's size is no hexadecimal number")
        size = int(found[1], 16)
        if len(self._data) + size > MAX_BODY:
            raise BodyTooLargeError
        if size == 0:
            self._ending = True
        else:
            self._left = size + 2
        return False

    def _chunk_data(self, buffer: bytearray, position: int) -> int:
        """Keep what is there of the chunk; its last two bytes are CRLF and are not kept."""
        taken = min(self._left, len(buffer) - position)
        wanted = max(0, min(taken, self._left - 2))
        self._data += memoryview(buffer)[position : position + wanted]
        ending = bytes(buffer[position + wanted : position + taken])
        expected = b"\r\n"[2 - (self._left - wanted) :][: len(ending)] if self._left - wanted <= 2 else b""
        if ending != expected:
            raise BadRequestError("a chunk does not end with CRLF where its size says")
        self._left -= taken
        return position + taken
