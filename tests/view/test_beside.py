"""`agentv eval --view`: the viewer beside a run. It never changes how the run ends, and never outlives it."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.conftest import AGENTV, OF_CI, Project
from tests.view.held import CASES, RUN, HeldProject, wait_until
from tests.view.raw import RawClient

LINK = re.compile(rb"view this run at (http://127\.0\.0\.1:\d+/open\?t=[\w-]+#/run/[\w%~-]+)\r?\n")
SUITE = "evalcases: [{id: one, input: go, evaluators: [{type: equals, value: ok}]}]\n"


def viewer_of(process: subprocess.Popen[str]) -> int:
    """The process of the viewer that a run has started."""
    viewers: list[int] = []

    def is_found() -> bool:
        for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            with suppress(OSError):
                if b"--beside" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                    viewers.append(int(pid))
        return bool(viewers)

    wait_until(is_found)
    return viewers[0]


def link_of(process: subprocess.Popen[str]) -> str:
    assert process.stderr
    for line in process.stderr:
        if match := LINK.fullmatch(line.encode()):
            return match[1].decode()
    raise AssertionError("no link was printed")


def is_listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


def test_run_can_be_followed_until_it_ends(tmp_path: Path) -> None:
    project = HeldProject(tmp_path / "project")
    with project.running("--view") as process:
        link = link_of(process)
        assert link.endswith(f"#/run/{RUN}")
        client = RawClient(link)
        info = client.get(f"/api/run/{RUN}").json
        assert (info["head"]["status"], info["planned"]) == ("running", len(CASES))
        pid = viewer_of(process)
        assert os.getpriority(os.PRIO_PROCESS, pid) > os.getpriority(os.PRIO_PROCESS, process.pid)
        assert client.token.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
        assert client.token.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
        project.let(*CASES)
        output, errors = process.communicate(timeout=60)  # there is no terminal, so it does not wait for anyone
    assert process.returncode == 1
    assert "3 passed   1 failed" in output
    assert "http://" not in output + errors
    assert not is_listening(client.port)


@pytest.mark.parametrize(("response", "code"), [("ok", 0), ("no", 1)])
@pytest.mark.parametrize("options", [(), ("--quiet",), ("--json",)], ids=str)
def test_exit_code_is_that_of_the_run(project: Project, response: str, code: int, options: tuple[str, ...]) -> None:
    project.write("agentv.config.yaml", f"targets: {{app: {{provider: mock, response: {response}}}}}\n")
    project.write("suite.yaml", SUITE)
    done = project.run("eval", "suite.yaml", "--view", *options)
    assert done.returncode == code
    assert len(LINK.findall(done.stderr.encode())) == 1
    if "--json" in options:
        assert json.loads(done.stdout)["exit_code"] == code
    assert "viewer" not in done.stderr


def test_invalid_suite_starts_no_viewer(project: Project) -> None:
    project.write("suite.yaml", "evalcases: 5\n")
    done = project.run("eval", "suite.yaml", "--view")
    assert done.returncode == 2
    assert "http://" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGSTOP])
def test_run_is_not_affected_by_what_happens_to_the_viewer(tmp_path: Path, number: signal.Signals) -> None:
    project = HeldProject(tmp_path / "project")
    with project.running("--view") as process:
        link_of(process)
        pid = viewer_of(process)
        os.kill(pid, number)
        project.let(*CASES)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "3 passed   1 failed" in output
    assert "viewer" not in errors
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_viewer_ends_with_a_run_that_is_stopped(tmp_path: Path, number: signal.Signals) -> None:
    project = HeldProject(tmp_path / "project")
    with project.running("--view") as process:
        client = RawClient(link_of(process))
        assert client.get("/").status == 200
        with client.connected() as following:
            following.sendall(client.head("GET", f"/api/run/{RUN}/events"))
            assert following.recv(1000)
            process.send_signal(number)
            process.wait(60)
        expected = {signal.SIGKILL: -9, signal.SIGINT: 130, signal.SIGTERM: 143}
        assert process.returncode == expected[number]
        wait_until(lambda: not is_listening(client.port))


def test_viewer_gets_no_keys(project: Project) -> None:
    key = "sk-a-secret-of-the-run"
    project.write(
        "agentv.config.yaml",
        """
        targets:
          app: {provider: cli, command: [python, wait.py]}
          paid: {provider: openai, model: m, api_key: "${{ MY_KEY }}"}
        """,
    )
    wait = "import time, pathlib\nwhile not pathlib.Path('go').exists(): time.sleep(0.02)\nprint('ok')\n"
    project.write("wait.py", wait)
    project.write("suite.yaml", SUITE)
    process = project.start("eval", "suite.yaml", "--target", "app", "--view", env={"MY_KEY": key, "COPY": f"x{key}"})
    try:
        client = RawClient(link_of(process))
        assert client.get("/").status == 200
        pid = viewer_of(process)
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        assert b"PATH=" in environment
        assert key.encode() not in environment
    finally:
        project.write("go", "")
        process.communicate(timeout=60)
    assert process.returncode == 0


def test_modules_in_the_working_directory_are_not_imported(project: Project) -> None:
    project.write("agentv.config.yaml", "targets: {app: {provider: mock, response: ok}}\n")
    project.write("suite.yaml", SUITE)
    project.write("click.py", "import pathlib\npathlib.Path('imported').touch()\n")
    program = Path(AGENTV[0]).parent / "agentv"
    done = subprocess.run(
        [program, "eval", "suite.yaml", "--view"],
        cwd=project.root,
        env=project.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not (project.root / "imported").exists()


# -- at a terminal


class Terminal:
    """`agentv eval --view` at a terminal."""

    def __init__(self, root: Path, *arguments: str) -> None:
        environment = {name: value for name, value in os.environ.items() if name not in OF_CI}
        self.pid, self._terminal = pty.fork()
        if not self.pid:
            os.chdir(root)
            shown = {"BROWSER": "true", "TERM": "xterm", "NO_COLOR": "1"}
            os.execve(AGENTV[0], [*AGENTV, "eval", *arguments], {**environment, **shown})
        self.output = b""

    def until(self, text: bytes) -> None:
        deadline = time.monotonic() + 60
        while text not in self.output:
            assert time.monotonic() < deadline, self.output
            if select.select([self._terminal], [], [], 0.1)[0]:
                self.output += os.read(self._terminal, 65536)

    def press(self, key: bytes) -> None:
        os.write(self._terminal, key)

    def exit_code(self) -> int:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if select.select([self._terminal], [], [], 0.05)[0]:
                with suppress(OSError):  # the terminal was closed
                    self.output += os.read(self._terminal, 65536)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
        raise AssertionError(f"it did not end: {self.output!r}")

    def close(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._terminal)


@contextmanager
def at_a_terminal(project: Project, *arguments: str) -> Iterator[Terminal]:
    project.write("agentv.config.yaml", "targets: {app: {provider: mock, response: no}}\n")
    project.write("suite.yaml", SUITE)
    terminal = Terminal(project.root, "suite.yaml", "--view", *arguments)
    try:
        yield terminal
    finally:
        terminal.close()


@pytest.mark.parametrize("how", ["Ctrl-C", "SIGTERM"])
def test_finished_run_is_served_at_a_terminal_until_it_is_stopped(project: Project, how: str) -> None:
    with at_a_terminal(project) as terminal:
        terminal.until(b"Press Ctrl-C to stop it.")
        (link,) = LINK.findall(terminal.output)
        client = RawClient(link.decode())
        (run,) = client.get("/api/runs").json["runs"]
        assert run["status"] == "finished"
        if how == "Ctrl-C":
            terminal.press(b"\x03")
        else:
            os.kill(terminal.pid, signal.SIGTERM)
        assert terminal.exit_code() == 1  # that of the run
        assert not is_listening(client.port)


def test_run_ends_at_a_terminal_when_its_viewer_has_ended(project: Project) -> None:
    with at_a_terminal(project) as terminal:
        terminal.until(b"Press Ctrl-C to stop it.")
        for pid in Path(f"/proc/{terminal.pid}/task/{terminal.pid}/children").read_text().split():
            os.kill(int(pid), signal.SIGKILL)
        assert terminal.exit_code() == 1


def test_watched_runs_have_one_viewer(project: Project) -> None:
    with at_a_terminal(project, "--watch") as terminal:
        terminal.until(b"press Ctrl-C to stop")
        (link,) = LINK.findall(terminal.output)
        client = RawClient(link.decode())
        project.write("suite.yaml", SUITE.replace("go", "go again"))
        wait_until(lambda: len(client.get("/api/runs").json["runs"]) == 2)
        wait_until(lambda: client.get("/api/runs").json["runs"][0]["status"] == "finished")
        terminal.output = terminal.output.replace(b"watching", b"")
        terminal.until(b"watching")
        terminal.press(b"\x03")
        assert terminal.exit_code() == 1
        assert len(LINK.findall(terminal.output)) == 1
        assert not is_listening(client.port)
