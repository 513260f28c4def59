"""Parsing HTTP/1.1 requests: llhttp parses the bytes, this module decides what is accepted. No sockets.

A request that two parsers could read differently is refused, and its connection is closed. `parse_request` refuses
malformed requests. `body_of` refuses ambiguous or unsupported framing (both framings, several lengths, encodings,
Upgrade); it is called after the checks of the token, the path and the method.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from agentv.http.budget import SMALL_BODY

MAX_HEAD = 16 * 1024
MAX_HEADERS = 100
MAX_NAME = 256
MAX_TARGET = 8192
MAX_BODY = 8 * 1024 * 1024
MAX_LENGTH_DIGITS = 15
"""Longer values of Content-Length exceed every limit. Python refuses to parse thousands of digits."""
MAX_CHUNK_LINE = 256
MAX_FRAMING = 256 * 1024
"""Limit for the bytes of chunk sizes and extensions in one body, against millions of tiny chunks."""

_LINES = re.IGNORECASE | re.MULTILINE
_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]"
_REQUEST_LINE = re.compile(rb"(" + _TOKEN + rb"{1,32}) ([\x21-\x7e]{1,%d}) HTTP/1\.([01])\r\n" % MAX_TARGET)
_FRAMING_LINE = re.compile(rb"^(?:content-length|transfer-encoding):[\t\x20-\x7e\x80-\xff]*\r\n", _LINES)
_HEADER_LINE = re.compile(rb"^([^:\r\n]+):([^\r\n]*)\r\n", re.MULTILINE)
_LENGTH = re.compile(rb"0*([0-9]+)")
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[;\r]")


class Refused(Exception):  # noqa: N818 - the reply to a request, not a defect
    """A request that is answered with an error status. `code` is a stable identifier for programs."""

    def __init__(self, status: int, code: str, message: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.headers = status, code, message, headers


def bad_request(message: str) -> Refused:
    return Refused(400, "invalid_request", message)


class Headers(Mapping[str, str]):
    """Case-insensitive headers; iteration yields lower-case names. Repeated headers are joined with commas."""

    __slots__ = ("_values",)

    def __init__(self, values: dict[bytes, bytes]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> str:
        value = self._values[name.lower().encode()]
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value.decode("latin-1")

    def __iter__(self) -> Iterator[str]:
        return (name.decode("latin-1") for name in self._values)

    def __len__(self) -> int:
        return len(self._values)


class Request:
    """One request. Header names are in lower case; repeated headers are joined with commas and listed in `repeated`.

    llhttp calls the methods that begin with `on_`.
    """

    method = b""
    target = b""
    version = 1
    """The minor version of HTTP/1."""
    repeated: frozenset[bytes] = frozenset()
    body = b""
    misread = False
    """llhttp refused it, so it is never served. It is parsed only to find the first check that it fails."""

    def __init__(self) -> None:
        self.headers: dict[bytes, bytes] = {}

    @property
    def path(self) -> bytes:
        return self.target.partition(b"?")[0]

    @property
    def announces_body(self) -> bool:
        """Whether a body may follow, with either framing."""
        headers = self.headers
        return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"

    @property
    def keeps_alive(self) -> bool:
        options = self.headers.get(b"connection")
        if options is None:
            return self.version == 1
        return self.version == 1 and b"close" not in options.lower() and b"connection" not in self.repeated

    def on_url(self, target: bytes) -> None:
        self.target = target

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.lower()] = value


def parse_request(head: bytes) -> Request:
    """Parse the head of a request, including its empty last line. Raises Refused if it is malformed."""
    request = Request()
    parser = HttpRequestParser(request)
    try:
        parser.feed_data(head)
    except HttpParserUpgrade:
        pass  # `body_of` refuses it later
    except HttpParserError:
        return _misread_request(head)
    request.method = parser.get_method()
    # llhttp accepts more versions, protocols and white space than this server.
    start = b"%b %b HTTP/1." % (request.method, request.target)
    version = head[len(start) : len(start) + 3] if head.startswith(start) else b""
    if version != b"1\r\n":
        if version != b"0\r\n":
            raise bad_request(_NOT_A_REQUEST)
        request.version = 0
    return _checked(request, head, len(start) + 3)


_NOT_A_REQUEST = "this is not an HTTP/1.1 request; send e.g. `GET / HTTP/1.1`"
_BAD_HEADER = "a header line is malformed; send `Name: value`, one line each"


def _checked(request: Request, head: bytes, start: int) -> Request:
    """Check the limits. Headers that llhttp does not report exactly are parsed again."""
    count = head.count(b"\n") - 2
    if count > MAX_HEADERS:
        raise bad_request(f"more than {MAX_HEADERS} headers; send fewer")
    if len(request.target) > MAX_TARGET:
        raise bad_request(_NOT_A_REQUEST)
    if len(request.headers) != count or b"\t" in head or b" \r\n" in head:
        _read_headers(request, head, start)
    if len(head) > MAX_NAME and max(map(len, request.headers), default=0) > MAX_NAME:
        raise bad_request(_BAD_HEADER)
    return request


def _read_headers(request: Request, head: bytes, start: int) -> None:
    """Parse headers that llhttp accepted: repeated ones are joined, and only spaces around values are removed."""
    values: dict[bytes, list[bytes]] = {}
    for name, value in _HEADER_LINE.findall(head, start):
        values.setdefault(name.lower(), []).append(value.strip(b" "))
    request.headers = {name: b", ".join(several) for name, several in values.items()}
    request.repeated = frozenset(name for name, several in values.items() if len(several) > 1)


def _misread_request(head: bytes) -> Request:
    """Parse a request that llhttp refused only for its method, target or framing. Raises Refused for malformed lines.

    llhttp stops at the first problem, but the checks that come before framing must still be made.
    """
    line = _REQUEST_LINE.match(head)
    if line is None:
        raise bad_request(_NOT_A_REQUEST)
    request = Request()
    try:
        HttpRequestParser(request).feed_data(b"POST / HTTP/1.1\r\n" + _FRAMING_LINE.sub(b"", head[line.end() :]))
    except HttpParserUpgrade:
        pass
    except HttpParserError:
        raise bad_request(_BAD_HEADER) from None
    request.method, request.target, request.version = line[1], line[2], int(line[3])
    request.misread = True
    _read_headers(request, head, line.end())
    return _checked(request, head, line.end())


def cannot_become_request(buffer: bytes | bytearray) -> bool:
    """Whether these bytes cannot be the start of a request."""
    return b"\n" in buffer and _REQUEST_LINE.match(buffer) is None


def body_of(request: Request, max_body: int = MAX_BODY) -> SizedBody | ChunkedBody | None:
    """A reader for the body of a request; None if it has no body. Raises Refused for unsupported framing."""
    headers = request.headers
    if b"upgrade" in headers or b"x-http-method-override" in headers:
        raise bad_request("only plain HTTP/1.1 is supported; send neither Upgrade nor X-HTTP-Method-Override")
    length, coding = headers.get(b"content-length"), headers.get(b"transfer-encoding")
    encoding = headers.get(b"content-encoding", b"").lower()
    if (coding is not None and coding.lower() != b"chunked") or encoding not in (b"", b"identity"):
        message = "the body must not be encoded; send it without Content-Encoding, with Content-Length or chunked"
        raise Refused(415, "unsupported_encoding", message)
    if coding is not None:
        if length is not None:
            raise bad_request("the request has both Content-Length and Transfer-Encoding; send one of them")
        if request.version == 0:
            raise bad_request("HTTP/1.0 has no Transfer-Encoding; send Content-Length")
    size = 0
    if length is not None:
        digits = _LENGTH.fullmatch(length)
        if digits is None:
            raise bad_request("Content-Length must be one whole number")
        if len(digits[1]) > MAX_LENGTH_DIGITS or (size := int(digits[1])) > max_body:
            raise too_large(max_body)
    if request.misread:
        raise bad_request(_NOT_A_REQUEST)
    if coding is not None:
        return ChunkedBody(max_body)
    return SizedBody(size) if size else None


def too_large(max_body: int) -> Refused:
    return Refused(413, "payload_too_large", f"the body is larger than {max_body // 2**20} MiB; send less")


class SizedBody:
    """A body of a known length."""

    __slots__ = ("_size",)

    def __init__(self, size: int) -> None:
        self._size = size

    def memory(self, received: int) -> int:
        """Bytes to reserve for the whole body, if `received` bytes are in the buffer."""
        del received
        return self._size

    def take(self, buffer: bytearray) -> bytes | None:
        """Remove the body from the start of the buffer and return it; None if it is incomplete."""
        if len(buffer) < self._size:
            return None
        body = bytes(memoryview(buffer)[: self._size])
        del buffer[: self._size]
        return body


class _Chunks:
    """Collects chunk data from llhttp. It has no reference to the parser, so that no cycle keeps megabytes alive."""

    __slots__ = ("complete", "data")

    def __init__(self) -> None:
        self.data = bytearray()
        self.complete = False

    def on_body(self, data: bytes) -> None:
        self.data += data

    def on_message_complete(self) -> None:
        self.complete = True


class ChunkedBody:
    """A chunked body. llhttp validates the chunks; limits are checked line by line, before data is stored."""

    __slots__ = ("_chunks", "_framing", "_last", "_left", "_max_body", "_parser")

    def __init__(self, max_body: int) -> None:
        self._max_body = max_body
        self._framing = 0
        self._left = 0
        """Bytes of the current chunk that are missing, including its CRLF; 0 at the start of a line."""
        self._last = False
        self._chunks = _Chunks()
        self._parser = HttpRequestParser(self._chunks)
        self._parser.feed_data(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")

    def memory(self, received: int) -> int:
        """Bytes to reserve: little at first, and as much as allowed when the body turns out not to be small."""
        small = len(self._chunks.data) + received <= SMALL_BODY
        return min(SMALL_BODY, self._max_body) if small else self._max_body

    def take(self, buffer: bytearray) -> bytes | None:
        """Remove parsed bytes from the buffer; return the body when it is complete, else None."""
        position = 0
        try:
            while not self._chunks.complete:
                piece = self._piece(buffer, position)
                if not piece:
                    return None
                self._parser.feed_data(piece)
                position += len(piece)
        except HttpParserError:
            raise bad_request("the chunks of the body are malformed") from None
        finally:
            del buffer[:position]
        return bytes(self._chunks.data)

    def _piece(self, buffer: bytearray, position: int) -> bytes:
        """The next bytes to parse: a line, or the received part of a chunk; empty if more bytes are needed."""
        if self._left:
            piece = bytes(memoryview(buffer)[position : position + self._left])
            self._left -= len(piece)
            return piece
        end = buffer.find(b"\r\n", position, position + MAX_CHUNK_LINE)
        if end < 0:
            if len(buffer) - position >= MAX_CHUNK_LINE:
                raise bad_request("the size line of a chunk is too long")
            return b""
        line = bytes(buffer[position : end + 2])
        self._framing += len(line)
        if self._framing > MAX_FRAMING:
            raise bad_request("the body has too many small chunks; send larger ones")
        if self._last:
            if line != b"\r\n":
                raise bad_request("headers after the last chunk are not supported; send them before the body")
            return line
        size = _CHUNK_SIZE.match(line)
        if size is None:
            raise bad_request("the size of a chunk must be a hexadecimal number")
        self._left = int(size[1], 16) + 2
        if len(self._chunks.data) + self._left - 2 > self._max_body:
            raise too_large(self._max_body)
        if self._left == 2:
            self._last, self._left = True, 0
        return line
