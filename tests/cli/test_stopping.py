"""A stopped run leaves no processes behind and keeps its finished rows."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from benchmarks.kill_runtime import KINDS, marked

from agentv.processes.protection import supervision_works
from benchmarks import kill_runtime
from tests.conftest import AGENTV, Project

EXIT = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGKILL: -9}
ONE_CASE = "evalcases: [{id: one, input: go, evaluators: [{type: equals, value: ok}]}]\n"
QUICK = "targets: {scripted: {provider: mock, response: ok}}\n"
supervised = pytest.mark.skipif(not supervision_works(), reason="only process groups end here")


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "gave up waiting"
        time.sleep(0.01)


def command_that_stays(project: Project, marker: str) -> Path:
    """A target for every kind of descendant, and the file that grows by a byte while each of them runs."""
    ready = project.root / "ready"
    os.mkfifo(ready)
    word = [sys.executable, "-I", "-S", kill_runtime.__file__, "--script"]
    targets = "".join(f"  {kind}: {{provider: cli, command: {[*word, kind, str(ready), marker]}}}\n" for kind in KINDS)
    project.write("agentv.config.yaml", f"targets:\n{targets}")
    project.write("suite.yaml", ONE_CASE)
    return ready


@supervised
@pytest.mark.parametrize("numbers", [(number,) for number in EXIT] + [(signal.SIGINT, signal.SIGINT)])
def test_descendants_of_a_cli_target_end_with_the_run(project: Project, numbers: tuple[signal.Signals, ...]) -> None:
    marker = f"marker-{secrets.token_hex(8)}"
    ready = os.open(command_that_stays(project, marker), os.O_RDONLY | os.O_NONBLOCK)
    chosen = [word for kind in KINDS for word in ("--target", kind)]
    with project.start("eval", "suite.yaml", "--run-dir", "run", *chosen) as process:
        try:
            kill_runtime._await_bytes(ready, len(KINDS))
            for number in numbers:
                process.send_signal(number)
            process.communicate(timeout=30)
            assert process.returncode == EXIT[numbers[0]]
            wait_until(lambda: marked(marker) == [])
        finally:
            os.close(ready)
            process.kill()
            for pid in marked(marker):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


@supervised
def test_descendants_of_a_cli_target_end_with_the_command(project: Project) -> None:
    marker = f"marker-{secrets.token_hex(8)}"
    left = f"import os, time\nos.setsid()\nos.fork() and os._exit(0)\nos.write(1, b'ok')\ntime.sleep(600) or '{marker}'"
    program = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {left!r}])\n"
    project.write("leave.py", program)
    project.write("agentv.config.yaml", f"targets: {{cli: {{provider: cli, command: [{sys.executable}, leave.py]}}}}\n")
    project.write("suite.yaml", ONE_CASE)
    done = project.run("eval", "suite.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert marked(marker) == []


def test_cli_target_without_stdin_prompt_reads_the_null_device(project: Project) -> None:
    code = "import os; print('ok' if os.path.samestat(os.fstat(0), os.stat(os.devnull)) else 'a pipe')"
    command = [sys.executable, "-c", code, "{PROMPT}"]
    project.write("agentv.config.yaml", f"targets: {{cli: {{provider: cli, command: {command}}}}}\n")
    project.write("suite.yaml", ONE_CASE)
    assert project.run("eval", "suite.yaml").returncode == 0


def test_run_continues_if_sighup_is_ignored(project: Project) -> None:
    ready = project.root / "ready"
    os.mkfifo(ready)
    project.write("agentv.config.yaml", "targets: {cli: {provider: cli, command: [cat, ready], timeout_seconds: 60}}\n")
    project.write("suite.yaml", ONE_CASE)
    words = ["sh", "-c", "trap '' HUP; exec \"$@\"", "sh", *AGENTV, "eval", "suite.yaml"]
    process = subprocess.Popen(words, cwd=project.root, env=project.environment(), stdout=subprocess.DEVNULL)
    with ready.open("w") as answer:  # opens when the command does
        process.send_signal(signal.SIGHUP)
        answer.write("ok")
    assert process.wait(60) == 0


def test_signal_after_the_last_row_does_not_change_the_result(project: Project) -> None:
    os.mkfifo(project.root / "rows")
    project.write("agentv.config.yaml", QUICK)
    project.write("suite.yaml", ONE_CASE)
    process = project.start("eval", "suite.yaml", "--run-dir", "run", "--out", "rows")
    assert process.stderr is not None
    line = ""
    while "one" not in line:  # the row is recorded; the run now waits for a reader of the pipe `rows`
        line = process.stderr.readline()
        assert line
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert "Traceback" not in said
    assert process.returncode in (3, 130)  # 3: the copy is not complete
    assert project.manifest(project.root / "run")["summary"]["passed"] == 1


def test_resume_works_if_a_path_contains_a_secret(project: Project) -> None:
    folder = str(project.root)
    project.write(
        "agentv.config.yaml",
        "targets: {cli: {provider: cli, command: [cat], env: {WORKSPACE: '${{ WORKSPACE }}'}}}\n",
    )
    project.write("suite.yaml", ONE_CASE.replace("value: ok", "value: go"))
    env = {"WORKSPACE": folder}
    project.run("eval", "suite.yaml", "--run-dir", "run", "--out", "rows.jsonl", env=env)
    assert folder not in (project.root / "run" / "run.json").read_text(encoding="utf-8")
    (project.root / "run" / "results.jsonl").write_bytes(b"")
    again = project.run("eval", "--resume", "run", env=env)
    assert again.returncode == 0, again.stderr
    assert "has changed" not in again.stderr
    assert (project.root / "rows.jsonl").read_bytes() == (project.root / "run" / "results.jsonl").read_bytes() != b""
