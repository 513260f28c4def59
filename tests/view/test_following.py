"""Pages follow a run that is written, killed, resumed and finished, by server-sent events of the real server."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import socket
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agentv.view import following
from agentv.view.following import Following
from agentv.view.library import Library
from agentv.view.listing import UnknownRunError
from agentv.view.packed_columns import Columns, unpack
from agentv.view.threads import ThreadCrew
from tests.view.bookshop import Bookshop
from tests.view.held import CASES, RUN, HeldProject, wait_until
from tests.view.opening import Server
from tests.view.raw import RawClient, read_head, unchunked

State = dict[str, Any]


class Events:
    """An open event stream."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        status, headers, self._received = read_head(connection)
        assert (status, headers["content-type"]) == (200, "text/event-stream")
        self.states: list[State] = []

    def until(self, condition: Callable[[State], bool], seconds: float = 60) -> State:
        """The first state after those that were returned before that fulfils the condition."""
        deadline, start = time.monotonic() + seconds, len(self.states)
        while True:
            text = unchunked(self._received).decode()
            events = [part for part in text.split("\n\n")[:-1] if part.startswith("data: ")]
            self.states = [json.loads(part.removeprefix("data: ")) for part in events]
            for number, state in enumerate(self.states[start:], start):
                if condition(state):
                    del self.states[number + 1 :]
                    return state
            assert time.monotonic() < deadline, self.states
            part = self._connection.recv(65536)
            assert part, self.states
            self._received += part

    def ends(self) -> bool:
        while part := self._connection.recv(65536):
            self._received += part
        return self._received.endswith(b"0\r\n\r\n")


@contextmanager
def following_run(client: RawClient, run: str) -> Iterator[Events]:
    with client.connected() as connection:
        connection.sendall(client.head("GET", f"/api/run/{run}/events", "Connection: close"))
        yield Events(connection)


class Page:
    """Keeps the rows of a run as `RunModel` does: by appending what is new."""

    def __init__(self, client: RawClient) -> None:
        self._client = client
        self.generation = ""
        self.rows: list[tuple[str, int]] = []
        self._ids: list[str] = []

    def catch_up(self) -> None:
        data = self._columns(len(self.rows))
        if data["generation"] != self.generation or data["start"] != len(self.rows):
            data, self.rows, self._ids = self._columns(0), [], []
        self.generation, ids = data["generation"], data["eval_id"]
        assert ids.first == len(self._ids)
        self._ids += ids.strings
        self.rows += zip((self._ids[number] for number in ids.index), data["attempt"], strict=True)

    def _columns(self, start: int) -> Columns:
        reply = self._client.get(f"/api/run/{RUN}/columns?start={start}")
        assert (reply.status, reply.headers["content-type"]) == (200, "application/octet-stream")
        return unpack(reply.body)


def test_run_is_followed_while_it_is_written_killed_resumed_and_finished(tmp_path: Path) -> None:
    project = HeldProject(tmp_path / "project")
    with Server(project.root) as server, project.running() as process:
        client = RawClient(server.link)
        page = Page(client)
        with following_run(client, RUN) as events, following_run(client, RUN) as others:
            first = events.until(lambda state: state["planned"] is not None)
            assert (first["status"], first["rows"], first["planned"]) == ("running", 0, len(CASES))
            project.let("one")
            state = events.until(lambda state: state["rows"] == 1)
            assert state["status"] == "running"
            page.catch_up()
            assert page.rows == [("one", 1)]
            generation = page.generation
            project.let("two")
            events.until(lambda state: state["rows"] == 2)
            others.until(lambda state: state["rows"] == 2)
            page.catch_up()

            process.send_signal(signal.SIGKILL)
            process.wait()
            killed = events.until(lambda state: state["status"] == "interrupted")
            assert (killed["rows"], killed["eta_seconds"], killed["rows_per_second"]) == (2, None, None)
            assert client.get(f"/api/run/{RUN}").json["head"]["status"] == "interrupted"

            with project.running(resume=True) as resumed:
                events.until(lambda state: state["status"] == "running")
                project.let("three", "four")
                finished = events.until(lambda state: state["status"] == "finished")
                assert resumed.wait() == 1
            assert (finished["rows"], finished["generation"]) == (4, generation)
            others.until(lambda state: state["status"] == "finished")
            page.catch_up()
            assert sorted(page.rows) == sorted((name, 1) for name in CASES)
            assert page.generation == generation
            assert [state["rows"] for state in events.states] == sorted(state["rows"] for state in events.states)


def test_events_end_when_the_run_is_removed(own_project: Bookshop) -> None:
    run = own_project.runs["first"]
    with Server(own_project.root) as server:
        client = RawClient(server.link)
        with following_run(client, run) as events:
            events.until(lambda state: state["status"] == "finished")
            shutil.rmtree(own_project.root / ".agentv" / "runs" / run)
            assert events.ends()
        assert client.get(f"/api/run/{run}/events").status == 404


def test_runs_that_are_started_later_are_listed(tmp_path: Path) -> None:
    project = HeldProject(tmp_path / "project")
    with Server(project.root) as server:
        client = RawClient(server.link)
        assert client.get("/api/runs").json["runs"] == []
        with project.running():
            wait_until(lambda: client.get("/api/runs").json["runs"] != [])
            (run,) = client.get("/api/runs").json["runs"]
            assert (run["address"], run["status"]) == (RUN, "running")


class Counting(Library):
    """Counts how often the state of a run is computed."""

    computed = 0

    def live(self, address: str) -> State:
        self.computed += 1
        return super().live(address)


@pytest.fixture
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "LOOK_SECONDS", 0.01)


async def _state(events: AsyncGenerator[bytes, None]) -> State:
    async with asyncio.timeout(20):
        async for part in events:
            if part.startswith(b"data: "):
                state: State = json.loads(part.removeprefix(b"data: "))
                return state
    raise AssertionError("the events have ended")


async def _until_nothing_is_watched(watching: Following) -> None:
    async with asyncio.timeout(20):
        while watching._watched:
            await asyncio.sleep(0.01)


async def test_one_task_watches_a_run_for_all_pages(
    own_project: Bookshop, quick_looks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "STATE_SECONDS", 1000.0)
    library, run = Counting(own_project.root), own_project.runs["first"]
    watching = Following(library, ThreadCrew(2, "test"))
    pages = [await watching.events(run) for _ in range(50)]
    states = [await _state(page) for page in pages]
    assert {state["rows"] for state in states} == {states[0]["rows"]}
    before = library.computed
    assert before <= 3
    manifest = own_project.root / ".agentv" / "runs" / run / "run.json"
    manifest.write_text(manifest.read_text().replace('"finished"', '"failed"'))
    assert {(await _state(page))["status"] for page in pages} == {"failed"}
    assert library.computed <= before + 2
    for page in pages:
        await page.aclose()
    await _until_nothing_is_watched(watching)


async def test_page_that_leaves_before_the_first_event_stops_the_watch(
    own_project: Bookshop, quick_looks: None
) -> None:
    watching = Following(Library(own_project.root), ThreadCrew(2, "test"))
    page = await watching.events(own_project.runs["first"])
    await page.aclose()
    await _until_nothing_is_watched(watching)


async def test_heartbeats_keep_the_connection_open(
    own_project: Bookshop, quick_looks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "HEARTBEAT_SECONDS", 0.05)
    watching = Following(Library(own_project.root), ThreadCrew(2, "test"))
    page = await watching.events(own_project.runs["first"])
    async with asyncio.timeout(20):
        parts = [await anext(page) for _ in range(4)]
    assert parts[0] == following.RETRY
    assert parts[1].startswith(b"data: ")
    assert parts[2:] == [following.HEARTBEAT] * 2
    await page.aclose()


async def test_unknown_run_is_reported_before_the_events_begin(own_project: Bookshop) -> None:
    watching = Following(Library(own_project.root), ThreadCrew(2, "test"))
    with pytest.raises(UnknownRunError):
        await watching.events("nope")
    assert watching._watched == {}


def test_calls_do_not_wait_while_a_thread_is_free() -> None:
    crew, together = ThreadCrew(6, "test"), threading.Barrier(6)

    async def calls() -> list[int]:
        return await asyncio.gather(*(crew.call(together.wait, 20) for _ in range(6)))

    for _ in range(20):
        assert sorted(asyncio.run(calls())) == [0, 1, 2, 3, 4, 5]
