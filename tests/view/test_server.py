"""What the viewer's server sends, and that a slow request or a slow client does not hold up others."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from agentv.view import assets, server
from agentv.view.library import Library
from agentv.view.packed_columns import plain, unpack
from agentv.view.server import SLOW_THREADS, ViewServer
from agentv.view.threads import ThreadCrew
from tests.view.bookshop import RUNS, Bookshop
from tests.view.opening import Server
from tests.view.raw import RawClient, read_head, read_reply, unchunked

RUN, BASELINE = RUNS["new-prompt"], RUNS["baseline"]


@pytest.fixture(scope="module")
def client(served: Server) -> RawClient:
    return RawClient(served.link)


@pytest.fixture(scope="module")
def library(rich_project: Bookshop) -> Library:
    return Library(rich_project.root)


# -- pages and files


def test_shell_loads_only_files_that_are_served(client: RawClient) -> None:
    shell = client.get("/")
    assert (shell.status, shell.headers["content-type"]) == (200, "text/html; charset=utf-8")
    text = shell.body.decode()
    paths = re.findall(r'(?:src|href)="([^"]+)"', text)
    assert "/static/all.js" in paths
    for path in paths:
        if path != "data:,":
            assert client.get(path).status == 200, path
    assert "<script>" not in text
    assert "style=" not in text


def test_modules_and_styles_are_sent_with_their_types_and_kept_by_browsers(client: RawClient) -> None:
    for name in assets.SERVED:
        reply = client.get(f"/static/{name}")
        kind = "text/javascript" if name.endswith(".js") else "text/css"
        assert (reply.status, reply.headers["content-type"]) == (200, f"{kind}; charset=utf-8")
        assert reply.body == assets.served(name)
        again = client.get(f"/static/{name}", f"If-None-Match: {reply.headers['etag']}")
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", reply.headers["etag"])
        assert client.get(f"/static/{name}", 'If-None-Match: "other"').status == 200


# -- data


def test_data_is_that_of_the_library(
    client: RawClient, library: Library, rich_project: Bookshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(rich_project.root)  # commands name runs as they are found from there
    row = library.column_data(RUN)["eval_id"].index("shipping-cost")
    expected: dict[str, Callable[[], Any]] = {
        "/api/runs": library.runs,
        "/api/trend": library.trend,
        f"/api/run/{RUN}": lambda: library.info(RUN),
        f"/api/run/{RUN}/rows/{row}": lambda: library.detail(RUN, row),
        f"/api/run/{RUN}/history/{row}": lambda: library.history(RUN, row),
        f"/api/run/{RUN}/judges": lambda: library.judges(RUN),
        f"/api/run/{RUN}/labels": lambda: library.labels(RUN),
        f"/api/compare/{BASELINE}/{RUN}": lambda: library.compare(BASELINE, RUN),
    }
    for path, method in expected.items():
        reply = client.get(path)
        assert (reply.status, reply.headers["content-type"]) == (200, "application/json"), path
        assert reply.json == json.loads(json.dumps(method())), path


def test_columns_are_packed_and_kept_by_browsers(client: RawClient, library: Library) -> None:
    reply = client.get(f"/api/run/{RUN}/columns")
    assert reply.headers["content-type"] == "application/octet-stream"
    assert plain(unpack(reply.body)) == library.column_data(RUN)
    again = client.get(f"/api/run/{RUN}/columns?start=0", f"If-None-Match: {reply.headers['etag']}")
    assert (again.status, again.body) == (304, b"")
    later = client.get(f"/api/run/{RUN}/columns?start=5", f"If-None-Match: {reply.headers['etag']}")
    data = unpack(later.body)
    assert (data["start"], data["count"]) == (5, library.column_data(RUN)["count"] - 5)


def test_label_is_appended_under_the_name_of_the_user(own_project: Bookshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTV_USER", "grace")
    label = {"suite": "support", "eval_id": "shipping-cost", "target": "assistant", "attempt": 1}
    with Server(own_project.root) as process:
        client = RawClient(process.link)
        reply = client.post(
            f"/api/run/{RUN}/labels",
            {**label, "label": "fail", "note": "<b>wrong</b>"},
            "Sec-Fetch-Site: same-origin",
            f"Origin: http://{client.host}",
        )
        assert reply.status == 200, reply
        assert reply.json["by"] == "grace"
        assert reply.json in client.get(f"/api/run/{RUN}/labels").json
        removed = client.post(f"/api/run/{RUN}/labels", {**label, "label": None, "note": ""})
        assert removed.status == 200
        assert all(one["by"] != "grace" for one in client.get(f"/api/run/{RUN}/labels").json)
    lines = (own_project.root / ".agentv/runs" / RUN / "labels.jsonl").read_text().splitlines()
    assert [json.loads(line)["label"] for line in lines[-2:]] == ["fail", None]


@pytest.mark.parametrize("text", ["Shipping is always free", "shipping IS", "é", "100%", "a&b=c", "", "zzzz-nothing"])
def test_search_reports_progress_and_then_the_rows(client: RawClient, library: Library, text: str) -> None:
    reply = client.get(f"/api/run/{RUN}/search?q={quote(text, safe='')}")
    assert reply.status == 200
    *steps, last = [json.loads(line) for line in reply.body.splitlines()]
    *_, (_, rows) = library.search(RUN, text, lambda: False)
    assert last == {"share": 1, "rows": rows}
    assert all(step.keys() == {"share"} for step in steps)


def test_record_that_cannot_be_read_is_an_error_in_words(own_project: Bookshop) -> None:
    with Server(own_project.root) as process:
        client = RawClient(process.link)
        (own_project.root / ".agentv/runs" / RUN / "run.json").write_text("{")
        for path in (f"/api/run/{RUN}/judges", f"/api/compare/{BASELINE}/{RUN}"):
            reply = client.get(path)
            assert (reply.status, reply.json["code"]) == (422, "not_readable"), reply
            assert "run.json" in reply.json["error"]
        assert client.get(f"/api/run/{BASELINE}").status == 200


# -- slow requests and slow clients


class Slow(Library):
    """A library whose searches wait for the test. `searching` counts those that have begun."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.release = threading.Event()
        self.searching = threading.Semaphore(0)
        self.stopped = threading.Event()

    def search(self, address: str, text: str, stop: Callable[[], bool]) -> Iterator[tuple[float, list[int]]]:
        self.directory(address)
        yield 0.25, []
        self.searching.release()
        while not self.release.wait(0.01):
            if stop():
                self.stopped.set()
                return
            if text == "steps":
                yield 0.5, [1]
        yield 1.0, [1, 2]


@pytest.fixture
def slow(rich_project: Bookshop) -> Iterator[tuple[Slow, RawClient]]:
    """A server in a thread of this process."""
    library, ready, ended = Slow(rich_project.root), threading.Event(), threading.Event()
    link: list[str] = []

    async def serve() -> None:
        async with ViewServer(library) as running:
            link.append(running.link())
            ready.set()
            while not ended.is_set():
                await asyncio.sleep(0.02)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(20)
        yield library, RawClient(link[0])
    finally:
        library.release.set()
        ended.set()
        thread.join(20)
    assert not thread.is_alive()


def test_slow_searches_do_not_hold_up_other_requests(slow: tuple[Slow, RawClient]) -> None:
    library, client = slow
    with ExitStack() as stack:
        connections = [stack.enter_context(client.connected()) for _ in range(SLOW_THREADS + 4)]
        for connection in connections:
            connection.sendall(client.head("GET", f"/api/run/{RUN}/search?q=x"))
        for _ in range(SLOW_THREADS):
            assert library.searching.acquire(timeout=20)
        for path in ("/", "/api/runs", f"/api/run/{RUN}", f"/api/run/{RUN}/columns", f"/api/run/{RUN}/rows/0"):
            assert client.get(path).status == 200
        assert not library.release.is_set()
        library.release.set()
        for connection in connections:
            reply = read_reply(connection)
            assert json.loads(reply.body.splitlines()[-1]) == {"share": 1, "rows": [1, 2]}


@pytest.mark.parametrize("text", ["x", "steps"])
def test_search_stops_when_the_page_no_longer_wants_it(
    slow: tuple[Slow, RawClient], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "PROGRESS_SECONDS", 0.0)
    library, client = slow
    with client.connected() as connection:
        connection.sendall(client.head("GET", f"/api/run/{RUN}/search?q={text}"))
        _, _, received = read_head(connection)
        while b'"share"' not in received:
            received += connection.recv(1000)
        assert json.loads(unchunked(received).splitlines()[0]) == {"share": 0.25}
        assert library.searching.acquire(timeout=20)
        assert not library.stopped.is_set()
    assert library.stopped.wait(20)


def test_clients_that_send_or_read_nothing_do_not_hold_up_others(slow: tuple[Slow, RawClient]) -> None:
    _, client = slow
    with ExitStack() as stack:
        for number in range(200):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", client.port)))
            if number % 4 == 1:
                connection.sendall(b"GET / HTTP/1.1\r\nHost: ")
            elif number % 4 == 2:
                connection.sendall(client.head("GET", f"/api/compare/{BASELINE}/{RUN}") * 20)
            elif number % 4 == 3:
                connection.sendall(client.head("GET", f"/api/run/{RUN}/events"))
        started = time.monotonic()
        for path in ("/", "/api/runs", "/static/all.css"):
            assert client.get(path).status == 200
        assert time.monotonic() - started < 20


def test_connections_of_strangers_and_pages_are_limited(slow: tuple[Slow, RawClient]) -> None:
    _, client = slow
    with ExitStack() as stack:
        strangers = [stack.enter_context(client.connected()) for _ in range(server.LIMITS.strangers + 20)]
        assert client.get("/").status == 200
        assert strangers[0].recv(1) == b""  # the oldest ones were closed
        idle = []
        for _ in range(server.LIMITS.connections + 20):
            idle.append(stack.enter_context(client.connected()))
            idle[-1].sendall(client.head("GET", "/static/all.js"))
            assert read_reply(idle[-1]).status == 200
        assert idle[0].recv(1) == b""
        assert client.get("/").status == 200


async def test_calls_that_wait_for_a_thread_can_be_cancelled() -> None:
    crew, hold = ThreadCrew(2, "test"), threading.Event()
    held = [asyncio.ensure_future(crew.call(hold.wait)) for _ in range(2)]
    made: list[int] = []
    waiting = [asyncio.ensure_future(crew.call(made.append, number)) for number in range(3)]
    await asyncio.sleep(0.05)
    waiting[1].cancel()
    await asyncio.sleep(0)
    hold.set()
    await asyncio.gather(*held, waiting[0], waiting[2])
    assert made == [0, 2]
    with pytest.raises(ZeroDivisionError):
        await crew.call(lambda: 1 // 0)


async def test_number_of_threads_is_limited() -> None:
    crew, barrier = ThreadCrew(3, "limited"), threading.Barrier(3)
    await asyncio.gather(*(crew.call(barrier.wait, 20) for _ in range(9)))
    assert sum(thread.name == "agentv-limited" for thread in threading.enumerate()) == 3
