"""The client over real sockets: valid and invalid replies, connections, proxies and TLS."""

from __future__ import annotations

import asyncio
import gzip
import shutil
import socket
import ssl
import subprocess
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from agentv.http import client as module
from agentv.http.client import (
    BadReplyError,
    BrokenOffError,
    Client,
    ConnectError,
    HttpError,
    ProxyError,
    ReplyTooLargeError,
    TlsError,
)

CAP = 1_000_000
HEADERS = {"Content-Type": "application/json", "X-Own": "1"}


@dataclass
class Received:
    """The requests that a server received, and its number of connections."""

    requests: list[bytes] = field(default_factory=list)
    connections: int = 0


Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def server(*answers: bytes | Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[tuple[str, Received]]:
    """Answers each request, on any connection, with the next of `answers`, then closes the connection."""
    received, left, serving = Received(), list(answers), list[asyncio.Task[None] | None]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.append(asyncio.current_task())
        received.connections += 1
        try:
            while left:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                received.requests.append(head + await reader.readexactly(int(length.split(b":")[1])))
                answer = left.pop(0)
                if isinstance(answer, bytes):
                    writer.write(answer)
                else:
                    await answer(writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    async with listening:
        port = listening.sockets[0].getsockname()[1]
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}/v1/x", received
    await asyncio.wait_for(asyncio.gather(*(task for task in serving if task is not None)), 20)


@asynccontextmanager
async def pool(**options: Any) -> AsyncIterator[Client]:
    made = Client(cap=CAP, **options)
    try:
        yield made
    finally:
        await made.aclose()


def sized(body: bytes, *more: bytes) -> bytes:
    lines = [b"HTTP/1.1 200 OK", b"Content-Length: %d" % len(body), *more]
    return b"\r\n".join([*lines, b"", body])


OK = sized(b"ok")


async def body_of(*answer: bytes | Answer) -> bytes:
    async with server(*answer) as (url, _), pool() as client:
        return (await asyncio.wait_for(client.post(url, HEADERS, b"{}"), 20))[2]


# -- valid replies


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (OK, b"ok"),
        (sized(b""), b""),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK, b"ok"),
        (b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", b"ok"),
        (b"HTTP/1.1 200 OK\nContent-Length:2\n\nok", b"ok"),
        (b"HTTP/1.0 200 OK\r\n\r\nuntil it is closed", b"until it is closed"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n", b"abcde"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n1\r\na\r\n0\r\nTrailer: t\r\n\r\n", b"a"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (sized(gzip.compress(b"packed", mtime=0), b"Content-Encoding: gzip"), b"packed"),
        (sized(zlib.compress(b"packed"), b"Content-Encoding: deflate"), b"packed"),
        (sized(zlib.compress(b"packed", wbits=-15), b"Content-Encoding: deflate"), b"packed"),
    ],
)
async def test_all_kinds_of_reply_framing_and_encoding_are_supported(answer: bytes, body: bytes) -> None:
    assert await body_of(answer) == body


async def test_reply_may_arrive_byte_by_byte() -> None:
    async def drip(writer: asyncio.StreamWriter) -> None:
        chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
        for byte in chunked:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)

    assert await body_of(drip) == b"abc"


async def test_headers_are_case_insensitive() -> None:
    async with server(sized(b"x", b"retry-AFTER: 3", b"X-Two: a", b"x-two: b")) as (url, _), pool() as client:
        status, headers, _ = await client.post(url, HEADERS, b"{}")
    assert (status, headers["Retry-After"], headers.get("x-two"), headers.get("none")) == (200, "3", "a, b", None)


# -- requests


async def test_request_line_headers_and_body() -> None:
    async with server(OK) as (url, received), pool() as client:
        await client.post(f"{url} y/ä?k=a b%20c", HEADERS | {"user-agent": "mine"}, b"{}")
        host = url.split("/")[2].encode()
    head, _, body = received.requests[0].partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    assert first == b"POST /v1/x%20y/%C3%A4?k=a%20b%20c HTTP/1.1"
    sent = dict(line.split(b": ", 1) for line in lines)
    assert sent == {
        b"Host": host,
        b"Accept": b"*/*",
        b"Accept-Encoding": b"gzip, deflate",
        b"user-agent": b"mine",
        b"Content-Type": b"application/json",
        b"X-Own": b"1",
        b"Content-Length": b"2",
    }
    assert body == b"{}"


async def test_encoded_url_is_sent_unchanged() -> None:
    async with server(OK) as (url, received), pool() as client:
        await client.post(f"{url}/a%2Fb%3A", HEADERS, b"{}", encoded=True)
    assert received.requests[0].startswith(b"POST /v1/x/a%2Fb%3A HTTP/1.1\r\n")


async def test_credentials_in_the_url_become_a_header() -> None:
    async with server(OK, OK) as (url, received), pool() as client:
        with_user = url.replace("//", "//us%40er:pass@")
        await client.post(with_user, HEADERS, b"{}")
        await client.post(with_user, HEADERS | {"Authorization": "Bearer k"}, b"{}")
    assert b"Authorization: Basic dXNAZXI6cGFzcw==\r\n" in received.requests[0]
    assert b"Authorization: Bearer k\r\n" in received.requests[1]
    assert b"Basic" not in received.requests[1]


@pytest.mark.parametrize("value", ["a\r\nX-Injected: 1", "a\nb", "a\0b"])
async def test_header_with_a_line_break_is_rejected(value: str) -> None:
    async with server(OK) as (url, received), pool() as client:
        with pytest.raises(ValueError, match="cannot be sent"):
            await client.post(url, {"X": value}, b"{}")
    assert received.requests == []


# -- connections


async def test_connection_is_shared_by_sequential_but_not_by_concurrent_calls() -> None:
    together = asyncio.Barrier(3)

    async def wait_for_others(writer: asyncio.StreamWriter) -> None:
        await together.wait()
        writer.write(OK)

    async with server(OK, OK, *[wait_for_others] * 3) as (url, received), pool() as client:
        for _ in range(2):
            await client.post(url, HEADERS, b"{}")
        assert received.connections == 1
        await asyncio.wait_for(asyncio.gather(*(client.post(url, HEADERS, b"{}") for _ in range(3))), 20)
        assert received.connections == 3


async def test_number_of_connections_is_limited() -> None:
    async with server(*[OK] * 10) as (url, received), pool(limit=2) as client:
        await asyncio.wait_for(asyncio.gather(*(client.post(url, HEADERS, b"{}") for _ in range(10))), 20)
    assert received.connections <= 2


@pytest.mark.parametrize(
    "answer",
    [
        sized(b"ok", b"Connection: close"),
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        OK + b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nstray",
    ],
)
async def test_connection_in_an_unknown_state_is_not_reused(answer: bytes) -> None:
    async with server(answer, sized(b"second")) as (url, received), pool() as client:
        assert (await client.post(url, HEADERS, b"1"))[2] == b"ok"
        assert (await client.post(url, HEADERS, b"2"))[2] == b"second"
    assert received.connections == 2


async def test_idle_connection_closed_by_the_server_is_replaced() -> None:
    async with server(OK) as (url, _), pool() as client:
        await client.post(url, HEADERS, b"{}")
        (first,) = client._open
        await asyncio.wait_for(first.lost, 20)
        with pytest.raises(HttpError):
            await asyncio.wait_for(client.post(url, HEADERS, b"{}"), 20)
        assert first not in client._open


async def test_connection_idle_for_too_long_is_not_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.0)
    async with server(OK, OK) as (url, received), pool() as client:
        for _ in range(2):
            await client.post(url, HEADERS, b"{}")
    assert received.connections == 2


async def test_cancelled_call_closes_its_connection() -> None:
    connected, gone = asyncio.Event(), asyncio.Event()

    async def watch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        while await reader.read(1000):
            pass
        writer.close()
        gone.set()

    listening = await asyncio.start_server(watch, "127.0.0.1", 0)
    async with listening, pool() as client:
        port = listening.sockets[0].getsockname()[1]
        call = asyncio.create_task(client.post(f"http://127.0.0.1:{port}/", HEADERS, b"{}"))
        await asyncio.wait_for(connected.wait(), 20)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.wait_for(gone.wait(), 20)


# -- invalid replies


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"220 mail.example ESMTP\r\n", BadReplyError),
        (b"HTTP/2 200 OK\r\n\r\n", BadReplyError),
        (b"HTTP/1.1 999 OK\r\n\r\n", BadReplyError),
        (b"HTTP/1.1 101 Switching\r\n\r\n", BadReplyError),
        (b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n", BadReplyError),
        (b"RTSP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", BadReplyError),
        (b"\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", BadReplyError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nokk", BadReplyError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok", BadReplyError),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", BadReplyError),
        (b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", BadReplyError),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", BadReplyError),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", BadReplyError),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 5000, BadReplyError),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000, BadReplyError),
        (sized(b"x", b"Content-Encoding: br"), BadReplyError),
        (sized(b"not packed", b"Content-Encoding: gzip"), BadReplyError),
        (sized(gzip.compress(b"x" * 100, mtime=0)[:-9], b"Content-Encoding: gzip"), BrokenOffError),
        (sized(gzip.compress(bytes(CAP + 1), mtime=0), b"Content-Encoding: gzip"), ReplyTooLargeError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000001\r\n\r\n", ReplyTooLargeError),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n" + bytes(CAP + 1), ReplyTooLargeError),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"x" * (3 * CAP), ReplyTooLargeError),
        (b"HTTP/1.0 200 OK\r\n\r\n" + bytes(CAP + 1), ReplyTooLargeError),
        (b"", BrokenOffError),
        (b"HTTP/1.1 2", BrokenOffError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", BrokenOffError),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", BrokenOffError),
    ],
)
async def test_malformed_incomplete_or_too_large_reply_raises(answer: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        await body_of(answer)


# -- proxies


@dataclass
class Proxy:
    """A proxy that records requests, and opens a tunnel to `upstream` or refuses it with `status`."""

    upstream: int = 0
    status: int = 200
    requests: list[bytes] = field(default_factory=list)
    url: str = ""

    serving: list[asyncio.Task[None] | None] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.serving.append(asyncio.current_task())
        head = await reader.readuntil(b"\r\n\r\n")
        self.requests.append(head)
        if not head.startswith(b"CONNECT"):
            writer.write(OK)
        elif self.status != 200:
            writer.write(b"HTTP/1.1 %d No\r\nContent-Length: 1000\r\n\r\n" % self.status)
        else:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.upstream)
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))
        await shut(writer)


async def shut(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
    await shut(writer)


@asynccontextmanager
async def proxy(upstream: str = "http://x:0", status: int = 200) -> AsyncIterator[Proxy]:
    made = Proxy(urlsplit(upstream).port or 0, status)
    listening = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    async with listening:
        made.url = f"http://us%40er:pass@127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        yield made
    await asyncio.wait_for(asyncio.gather(*(task for task in made.serving if task is not None)), 20)


async def test_plain_http_through_a_proxy_sends_the_full_url() -> None:
    async with proxy() as between, pool(proxy=between.url) as client:
        assert (await client.post("http://model.invalid:81/v1/x?k=a b", HEADERS, b"")).body == b"ok"
    first, *lines = between.requests[0].split(b"\r\n")
    assert first == b"POST http://model.invalid:81/v1/x?k=a%20b HTTP/1.1"
    assert b"Host: model.invalid:81" in lines
    assert b"Proxy-Authorization: Basic dXNAZXI6cGFzcw==" in lines


async def test_https_through_a_proxy_uses_a_tunnel_that_hides_the_headers(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusting = ssl.create_default_context(cafile=f"{certificate}.crt")
    monkeypatch.setattr(module, "_tls", lambda: trusting)
    async with (
        server(OK, OK, tls=served_by(certificate)) as (url, received),
        proxy(url) as between,
        pool(proxy=between.url) as client,
    ):
        for _ in range(2):
            assert (await client.post(url, HEADERS | {"Authorization": "Bearer k"}, b"{}")).body == b"ok"
        assert received.connections == len(between.requests) == 1
    host = url.split("/")[2].encode()
    assert between.requests[0].startswith(b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n" % (host, host))
    assert b"Proxy-Authorization: Basic dXNAZXI6cGFzcw==\r\n" in between.requests[0]
    assert b"Bearer" not in between.requests[0]
    assert b"Proxy-Authorization" not in received.requests[0]


async def test_certificate_is_verified_through_a_tunnel(certificate: Path) -> None:
    async with (
        server(OK, tls=served_by(certificate)) as (url, received),
        proxy(url) as between,
        pool(proxy=between.url) as client,
    ):
        with pytest.raises(TlsError, match="CERTIFICATE_VERIFY_FAILED"):
            await client.post(url, HEADERS, b"{}")
    assert received.requests == []


async def test_proxy_that_refuses_the_tunnel_raises_with_its_status() -> None:
    async with proxy(status=407) as between, pool(proxy=between.url) as client:
        with pytest.raises(ProxyError, match="it answered HTTP 407") as raised:
            await client.post("https://model.invalid/v1", HEADERS, b"{}")
        assert raised.value.status == 407


async def test_unreachable_or_invalid_proxy_raises_without_a_status() -> None:
    async def mail(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n")
        await shut(writer)

    listening = await asyncio.start_server(mail, "127.0.0.1", 0)
    async with listening:
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        async with pool(proxy=url) as client:
            with pytest.raises(ProxyError) as raised:
                await client.post("https://model.invalid/v1", HEADERS, b"{}")
            assert raised.value.status is None
    async with pool(proxy=url) as client:
        with pytest.raises(ProxyError, match="refused"):
            await client.post("http://model.invalid/v1", HEADERS, b"{}")


# -- status and connection errors


async def test_status_is_returned_before_the_body_arrives() -> None:
    async with server(b"HTTP/1.1 503 Busy\r\nContent-Length: 1000\r\n\r\n") as (url, received), pool() as client:
        assert await asyncio.wait_for(client.status_of(f"{url}?a=1"), 20) == 503
    assert received.requests[0].startswith(b"GET /v1/x?a=1 HTTP/1.1\r\n")


async def test_unreachable_server_or_unknown_host_raises_connect_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:  # reserves a port on which no process listens
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1/x"
        async with pool() as client:
            with pytest.raises(ConnectError, match=r"(?i:refused|connect)"):
                await client.post(url, HEADERS, b"{}")

    def unknown_host(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown_host)  # like a resolver, without the network
    async with pool() as client:
        with pytest.raises(ConnectError):
            await client.post("http://name.invalid/", HEADERS, b"{}")


# -- TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for 127.0.0.1 with its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    options = ["-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-days", "2"]
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = [openssl, "req", "-x509", *options, *subject, "-keyout", str(path), "-out", f"{path}.crt"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return path


def served_by(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{certificate}.crt", certificate)
    return context


async def test_tls_connection_verifies_the_certificate(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with server(OK, OK, tls=served_by(certificate)) as (url, received), pool() as client:
        with pytest.raises(TlsError, match="CERTIFICATE_VERIFY_FAILED"):
            await client.post(url, HEADERS, b"{}")
        trusting = ssl.create_default_context(cafile=f"{certificate}.crt")
        monkeypatch.setattr(module, "_tls", lambda: trusting)
        for _ in range(2):
            assert (await client.post(url, HEADERS, b"{}"))[2] == b"ok"
        assert len(received.requests) == 2


async def test_https_to_a_server_without_tls_raises_tls_error() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening, pool() as client:
        port = listening.sockets[0].getsockname()[1]
        with pytest.raises(TlsError):
            await asyncio.wait_for(client.post(f"https://127.0.0.1:{port}/", HEADERS, b"{}"), 20)
