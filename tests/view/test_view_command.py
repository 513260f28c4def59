"""`agentv view`: what it prints and opens, and how it ends."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import AGENTV, Project
from tests.view.held import wait_until
from tests.view.raw import RawClient

LINK = re.compile(r"http://127\.0\.0\.1:(\d+)/open\?t=[\w-]{43}(#/.*)\n")


RUNS = {name: f"2026111{day}-120000-{name}" for day, name in enumerate(("first", "second", "third"))}
FIRST, SECOND, THIRD = RUNS.values()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with the runs `first`, `second` and `third`, and a run elsewhere."""
    project = Project(tmp_path_factory.mktemp("recorded"))
    project.write("agentv.config.yaml", "targets: {app: {provider: mock, response: ok}}\n")
    project.write("suite.yaml", "evalcases: [{id: one, input: go, evaluators: [{type: equals, value: ok}]}]\n")
    for name, directory in RUNS.items():
        done = project.run("eval", "suite.yaml", "--name", name, "--run-dir", f".agentv/runs/{directory}")
        assert done.returncode == 0, done.stderr
    assert project.run("eval", "suite.yaml", "--run-dir", "elsewhere/~my run").returncode == 0
    return project


@contextmanager
def viewing(
    project: Project, *arguments: str, env: Mapping[str, str] | None = None, opens: bool = False
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and the first line that it prints."""
    process = project.start("view", *arguments, *([] if opens else ["--no-open"]), env=env)
    try:
        assert process.stdout
        yield process, process.stdout.readline()
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=60)


def place(line: str) -> str:
    match = LINK.fullmatch(line)
    assert match, line
    return match[2]


@pytest.mark.parametrize(
    ("runs", "opened", "listed"),
    [
        ((), "#/", 3),
        (("first",), f"#/run/{FIRST}", 3),
        (("latest",), f"#/run/{THIRD}", 3),
        (("first", "second"), f"#/compare/{FIRST}/{SECOND}", 3),
        (("second", "first"), f"#/compare/{SECOND}/{FIRST}", 3),
        (("first", "first"), f"#/run/{FIRST}", 3),
        (("first", "second", "third"), "#/", 3),
        (("elsewhere/~my run",), "#/run/~~my%20run", 1),
        (("first", "elsewhere/~my run"), f"#/compare/{FIRST}/~~my%20run", 2),
    ],
)
def test_link_opens_the_runs_that_are_named(recorded: Project, runs: tuple[str, ...], opened: str, listed: int) -> None:
    with viewing(recorded, *runs) as (_, line):
        assert place(line) == opened
        client = RawClient(line.strip())
        assert len(client.get("/api/runs").json["runs"]) == listed
        assert client.get("/").status == 200


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], "run 'nope' not found"),
        (["first", "fi rst"], "run 'fi rst' not found"),
        (["elsewhere"], "run 'elsewhere' not found"),
        (["--port", "80"], "80 is not in the range"),
        (["--host", "0.0.0.0"], "No such option"),
    ],
)
def test_errors_are_reported_and_nothing_is_served(recorded: Project, arguments: list[str], message: str) -> None:
    done = recorded.run("view", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_port_can_be_chosen_unless_it_is_in_use(recorded: Project) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = recorded.run("view", "--port", port)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"Cannot listen on port {port}: Address already in use." in done.stderr
    with viewing(recorded, "--port", port) as (_, line):
        assert f":{port}/open" in line
        assert RawClient(line.strip()).get("/").status == 200


def test_threads_take_turns_quickly(recorded: Project) -> None:
    """Otherwise, each request waits for a search or a calculation several times."""
    code = (
        "import sys\n"
        "from agentv.cli import view\n"
        "view.until_stopped = lambda serving: (serving.close(), serving)[0]\n"
        "view.asyncio.run = lambda _: print(sys.getswitchinterval())\n"
        "view.command.callback(runs=(), port=None, no_open=True, beside=None)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=recorded.root, capture_output=True, text=True, check=True)
    assert float(done.stdout) <= 0.001


def test_server_listens_on_loopback_only(recorded: Project) -> None:
    with viewing(recorded) as (process, line):
        inodes = {
            link.removeprefix("socket:[").removesuffix("]")
            for descriptor in Path(f"/proc/{process.pid}/fd").iterdir()
            if (link := str(descriptor.readlink())).startswith("socket:")
        }
        listening = [
            fields[1]
            for name in ("tcp", "tcp6")
            for fields in map(str.split, Path(f"/proc/net/{name}").read_text().splitlines()[1:])
            if fields[3] == "0A" and fields[9] in inodes
        ]
        port = LINK.fullmatch(line)
        assert port
        assert listening == [f"0100007F:{int(port[1]):04X}"]


def test_project_without_runs_is_served(project: Project) -> None:
    with viewing(project) as (process, line):
        assert place(line) == "#/"
        assert RawClient(line.strip()).get("/api/runs").json["runs"] == []
        process.terminate()
        _, errors = process.communicate(timeout=60)
    assert errors == "There are no runs in .agentv/runs yet. `agentv eval` records one.\nPress Ctrl-C to stop.\n"
    assert not (project.root / ".agentv").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_it_cleanly(recorded: Project, number: signal.Signals) -> None:
    with viewing(recorded) as (process, line):
        client = RawClient(line.strip())
        with client.connected() as following, client.connected() as idle:
            following.sendall(client.head("GET", f"/api/run/{FIRST}/events"))
            idle.sendall(client.head("GET", "/"))
            assert b"data: " in _received(following, b"data: ")
            process.send_signal(number)
            output, errors = process.communicate(timeout=60)
        assert (process.returncode, output, errors) == (0, "", "Press Ctrl-C to stop.\n")


def _received(connection: socket.socket, end: bytes) -> bytes:
    received = b""
    while end not in received:
        received += connection.recv(65536)
    return received


def test_closed_stdout_ends_it(recorded: Project) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [*AGENTV, "view", "--no-open"],
            cwd=recorded.root,
            env=recorded.environment(),
            stdin=subprocess.DEVNULL,
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.fixture
def browser_program(tmp_path: Path) -> Path:
    """A browser that writes down the address it is started with, in the file `opened` next to it."""
    program = tmp_path / "browser.sh"
    program.write_text('#!/bin/sh\ncd "${0%/*}" && printf %s "$1" > opened.tmp && mv opened.tmp opened\n')
    program.chmod(0o755)
    return program


def test_browser_is_started_with_a_link_that_works_once(recorded: Project, browser_program: Path) -> None:
    opened = browser_program.parent / "opened"
    with viewing(recorded, "first", env={"BROWSER": str(browser_program)}, opens=True) as (_, line):
        wait_until(opened.exists)
        link = opened.read_text()
        assert place(link + "\n") == f"#/run/{FIRST}"
        client, path = RawClient(line.strip()), link.partition("#")[0].partition(str(LINK.fullmatch(line)[1]))[2]  # type: ignore[index]
        assert client.token not in link
        assert client.get(path, cookie=None).status == 303
        assert client.get(path, cookie=None).status == 401


@pytest.mark.parametrize("why", ["--no-open", "CI", "no display"])
def test_browser_is_not_started(recorded: Project, browser_program: Path, why: str) -> None:
    folder = browser_program.parent
    shutil.copy(browser_program, folder / "xdg-open")
    env = {
        "BROWSER": str(browser_program),
        "PATH": f"{folder}:{os.environ['PATH']}",
        "DISPLAY": "",
        "WAYLAND_DISPLAY": "",
    }
    env |= {"CI": "true"} if why == "CI" else {"BROWSER": ""} if why == "no display" else {}
    with viewing(recorded, env=env, opens=why != "--no-open") as (process, line):
        assert RawClient(line.strip()).get("/").status == 200
        process.terminate()
        process.communicate(timeout=60)
    assert not (folder / "opened").exists()


def test_help_says_where_it_listens(project: Project) -> None:
    text = project.run("view", "--help").stdout
    assert "127.0.0.1" in text
    assert "--beside" not in text
