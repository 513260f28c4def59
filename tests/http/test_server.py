"""The server over real sockets: routes, replies, streams and clients that disconnect."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import pytest

from agentv.http.app import App, HangUp, Response, Route, Stream, event, event_stream
from agentv.http.messages import Refused, Request
from agentv.http.server import Server


class Demo(App):
    def __init__(self) -> None:
        super().__init__()
        self.produced = 0
        self.closed = asyncio.Event()
        self.more = asyncio.Event()

    async def _page(self, request: Request) -> Response:
        cookies = (("Set-Cookie", "id=1; HttpOnly"), ("Set-Cookie", "theme=dark"), ("Cache-Control", "max-age=60"))
        return Response(200, request.headers.get(b"cookie", b"none"), "text/html; charset=utf-8", cookies)

    async def _file(self, request: Request) -> Response:
        return Response(200, request.path, "text/plain")

    async def _part(self, request: Request) -> Response:
        return Response(200, request.path.split(b"/")[2])

    async def _replace(self, request: Request) -> Response:
        return Response(204)

    async def _echo(self, request: Request) -> Response:
        return Response(200, request.body)

    async def _events(self, request: Request) -> Stream:
        async def events() -> AsyncGenerator[bytes, None]:
            yield event("one\r\ntwo", name="row", id="7")
            await self.more.wait()
            yield event("")

        return event_stream(events())

    async def _endless(self, request: Request) -> Stream:
        async def events() -> AsyncGenerator[bytes, None]:
            try:
                while True:
                    self.produced += 1
                    yield event("x" * 10_000)
            finally:
                self.closed.set()

        return event_stream(events())

    async def _quiet(self, request: Request) -> Stream:
        async def events() -> AsyncGenerator[bytes, None]:
            try:
                yield b": hello\n\n"
                await asyncio.Event().wait()
            finally:
                self.closed.set()

        return event_stream(events())

    async def _breaks(self, request: Request) -> Stream:
        async def chunks() -> AsyncGenerator[bytes, None]:
            yield b"half"
            raise RuntimeError("a secret path")

        return Stream(chunks())

    async def _hangs_up(self, request: Request) -> Response:
        raise HangUp

    async def _crashes(self, request: Request) -> Response:
        raise RuntimeError("a secret path")

    async def _refuses(self, request: Request) -> Response:
        raise Refused(403, "forbidden", "not here")

    async def _splits(self, request: Request) -> Response:
        return Response(200, headers=(("X", "a\r\nSet-Cookie: b"),))

    headers = (("X-Common", "1"),)
    routes = (
        Route("GET", "/", _page),
        Route("PUT", "/", _replace),
        Route("GET", "/files/*", _file),
        Route("POST", "/echo", _echo),
        Route("GET", "/books/{}/parts/{}", _part),
        Route("GET", "/books/{}", _file),
        Route("GET", "/events", _events),
        Route("GET", "/endless", _endless),
        Route("GET", "/quiet", _quiet),
        Route("GET", "/breaks", _breaks),
        Route("GET", "/hangs-up", _hangs_up),
        Route("GET", "/crashes", _crashes),
        Route("GET", "/refuses", _refuses),
        Route("GET", "/splits", _splits),
    )


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, path: str, method: str = "GET", version: str = "1.1", headers: str = "", body: str = "") -> None:
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        self.writer.write(f"{method} {path} HTTP/{version}\r\nHost: x\r\n{headers}{length}\r\n{body}".encode())

    async def head(self) -> tuple[int, list[tuple[str, str]]]:
        async with asyncio.timeout(20):
            first, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:-2]
        return int(first.split(" ")[1]), [(name.lower(), value) for name, value in (x.split(": ", 1) for x in lines)]

    async def reply(self) -> tuple[int, dict[str, str], bytes]:
        status, lines = await self.head()
        headers = dict(lines)
        async with asyncio.timeout(20):
            return status, headers, await self.reader.readexactly(int(headers.get("content-length", "0")))

    async def until(self, end: bytes) -> bytes:
        async with asyncio.timeout(20):
            return await self.reader.readuntil(end)

    async def rest(self) -> bytes:
        async with asyncio.timeout(20):
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[Demo, Client]]:
    app = Demo()
    async with Server(app) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        try:
            yield app, Client(reader, writer)
        finally:
            writer.close()


async def test_reply_has_its_content_type_cookies_and_caching() -> None:
    async with serving() as (_, client):
        client.send("/?x=1", headers="Cookie: id=1; b=2\r\n")
        status, lines = await client.head()
        assert status == 200
        assert [value for name, value in lines if name == "set-cookie"] == ["id=1; HttpOnly", "theme=dark"]
        headers = dict(lines)
        assert (headers["content-type"], headers["cache-control"]) == ("text/html; charset=utf-8", "max-age=60")
        assert await client.reader.readexactly(int(headers["content-length"])) == b"id=1; b=2"
        client.send("/", "PUT")
        assert (await client.reply())[0] == 204


async def test_unknown_path_or_method_lists_the_known_ones() -> None:
    async with serving() as (_, client):
        client.send("/nope")
        status, _, body = await client.reply()
        problem = json.loads(body)
        assert (status, problem["code"]) == (404, "not_found")
        assert "`GET /`, `PUT /`, `GET /files/*`, `POST /echo`" in problem["error"]
        client.send("/", "DELETE")
        status, headers, body = await client.reply()
        assert (status, headers["allow"], json.loads(body)["code"]) == (405, "GET, PUT", "method_not_allowed")


async def test_star_in_a_path_matches_any_characters() -> None:
    async with serving() as (_, client):
        for path in ("/files/", "/files/a/b.css", "/files/..%2f"):
            client.send(path + "?v=1")
            assert (await client.reply())[2] == path.encode()
        client.send("/file")
        assert (await client.reply())[0] == 404


async def test_braces_in_a_path_match_one_segment() -> None:
    async with serving() as (_, client):
        for path, body in (("/books/a%2Fb", b"/books/a%2Fb"), ("/books/a/parts/1", b"a"), ("/books/*/parts/{}", b"*")):
            client.send(path)
            assert (await client.reply())[2] == body
        for path in ("/books/", "/books/a/", "/books/a/b", "/books//parts/1", "/books/a/parts/1/2", "/bookss/a"):
            client.send(path)
            assert (await client.reply())[0] == 404


async def test_all_replies_have_the_common_headers() -> None:
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    requests = (
        ("/", ""),
        ("/events", ""),
        ("/nope", ""),
        ("/crashes", ""),
        ("/", "Content-Length: x\r\n"),
        ("/", "x\r\n"),
    )
    for path, headers in requests:
        async with serving() as (app, client):
            app.more.set()
            client.send(path, headers=headers)
            status, lines = await client.head()
            assert dict(lines)["x-common"] == "1", (path, headers, status)
    async with serving() as (_, client):
        client.send("/", "HEAD")
        assert dict((await client.head())[1])["x-common"] == "1"


async def test_events_are_sent_immediately_and_the_connection_stays_usable() -> None:
    async with serving() as (app, client):
        client.send("/events")
        status, lines = await client.head()
        headers = dict(lines)
        assert (status, headers["content-type"]) == (200, "text/event-stream")
        assert (headers["transfer-encoding"], headers["cache-control"]) == ("chunked", "no-store")
        first = b"event: row\nid: 7\ndata: one\ndata: two\n\n"
        assert await client.until(b"\r\n") == b"%x\r\n" % len(first)
        assert await client.until(b"\n\n\r\n") == first + b"\r\n"
        assert not app.more.is_set()
        app.more.set()
        assert await client.until(b"0\r\n\r\n") == b"8\r\ndata: \n\n\r\n0\r\n\r\n"
        client.send("/echo", "POST", body="still here")
        assert (await client.reply())[2] == b"still here"


async def test_http_1_0_event_stream_ends_with_the_connection() -> None:
    async with serving() as (app, client):
        app.more.set()
        client.send("/events", version="1.0")
        assert "transfer-encoding" not in dict((await client.head())[1])
        assert await client.rest() == b"event: row\nid: 7\ndata: one\ndata: two\n\ndata: \n\n"


async def test_stream_is_generated_no_faster_than_the_client_reads() -> None:
    async with serving() as (app, client):
        client.send("/endless")
        await client.head()
        produced = -1
        while produced != app.produced:
            produced = app.produced
            await asyncio.sleep(0.05)
        assert produced < 3000  # the socket buffers limit an endless stream
        await client.reader.readexactly(20 * 2**20)
        assert app.produced > produced
        client.writer.transport.abort()
        await asyncio.wait_for(app.closed.wait(), 20)


async def test_idle_stream_ends_when_the_client_disconnects() -> None:
    async with serving() as (app, client):
        client.send("/quiet")
        await client.until(b"hello\n\n")
        assert not app.closed.is_set()
        client.writer.close()
        await asyncio.wait_for(app.closed.wait(), 20)


async def test_stream_ends_when_the_server_exits() -> None:
    app = Demo()
    async with Server(app) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        client = Client(reader, writer)
        client.send("/quiet")
        await client.until(b"hello\n\n")
    assert app.closed.is_set()
    assert not (await client.rest()).endswith(b"0\r\n\r\n")
    writer.close()


async def test_stream_that_never_waits_does_not_block_other_clients() -> None:
    app = Demo()
    async with Server(app) as server:
        greedy, other = [Client(*await asyncio.open_connection("127.0.0.1", server.port)) for _ in range(2)]
        greedy.send("/endless")
        reading = asyncio.create_task(greedy.reader.readexactly(5 * 2**20))
        for _ in range(20):
            other.send("/echo", "POST", body="x")
            assert (await other.reply())[2] == b"x"
        await asyncio.wait_for(reading, 20)
        greedy.writer.transport.abort()
        other.writer.close()


async def test_failed_stream_is_cut_off_without_its_error_message() -> None:
    reported: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    async with serving() as (_, client):
        client.send("/breaks")
        received = await client.rest()
        assert not received.endswith(b"0\r\n\r\n")
        assert b"secret" not in received
    assert [str(context["exception"]) for context in reported] == ["a secret path"]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [("/crashes", 500, "internal_error"), ("/refuses", 403, "forbidden")],
)
async def test_exception_in_a_handler_becomes_an_error_reply(path: str, status: int, code: str) -> None:
    reported: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    async with serving() as (_, client):
        client.send(path)
        replied, _, body = await client.reply()
        assert (replied, json.loads(body)["code"]) == (status, code)
        assert b"secret" not in body
    assert len(reported) == (status == 500)


async def test_handler_can_hang_up_but_not_inject_headers() -> None:
    reported: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    for path in ("/hangs-up", "/splits"):
        async with serving() as (_, client):
            client.send(path)
            assert await client.rest() == b""
    assert ["cannot be sent" in str(context["exception"]) for context in reported] == [True]


@pytest.mark.parametrize("name", ["a\nb", "a\rb"])
def test_event_name_must_be_one_line(name: str) -> None:
    with pytest.raises(ValueError, match="one line"):
        event("x", name=name)
    assert event("a\nb") == b"data: a\ndata: b\n\n"
