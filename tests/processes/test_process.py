from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from agentv.processes import run
from agentv.processes.run import ProcessOutcome, ProcessStartError, run_process
from tests.patience import patiently

from .support import alive

ENV = dict(os.environ)


async def python(code: str, *args: str, cwd: Path, **options) -> ProcessOutcome:
    return await run_process([sys.executable, "-c", code, *args], cwd=cwd, env=ENV, **options)


async def sh(script: str, *, cwd: Path, **options) -> ProcessOutcome:
    return await run_process(["/bin/sh", "-c", script], cwd=cwd, env=ENV, **options)


async def gone(pid: int) -> bool:
    for _ in range(3000):
        if not alive(pid):
            return True
        await asyncio.sleep(0.01)
    return False


async def written_pid(path: Path) -> int:
    for _ in range(3000):
        if path.exists() and path.read_text().endswith("\n"):
            return int(path.read_text())
        await asyncio.sleep(0.01)
    raise AssertionError(f"{path} was never written")


def children() -> list[str]:
    pids: list[str] = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread may end meanwhile
            pids += (task / "children").read_text().split()
    return sorted(pids)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@contextlib.contextmanager
def dies(pid_file: Path):
    """Kill the process that the test leaves running on purpose."""
    try:
        yield
    finally:
        if pid_file.exists():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid_file.read_text()), signal.SIGKILL)


async def test_stdin_and_stdout_bytes_are_unchanged(tmp_path):
    data = bytes(range(256)) * 4096
    outcome = await run_process(["cat"], stdin=data, cwd=tmp_path, env=ENV)
    assert outcome.stdout == data
    assert (outcome.returncode, outcome.signal, outcome.timed_out, outcome.stdout_overflow) == (
        0,
        None,
        False,
        False,
    )
    assert outcome.duration_ms > 0


async def test_exit_code_and_stderr_are_reported(tmp_path):
    outcome = await sh("echo out; echo err >&2; exit 7", cwd=tmp_path)
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (7, b"out\n", b"err\n")
    assert outcome.ending == "exited with code 7"


async def test_signal_is_reported_instead_of_exit_code(tmp_path):
    outcome = await sh("kill -9 $$", cwd=tmp_path)
    assert (outcome.returncode, outcome.signal) == (None, "SIGKILL")
    assert outcome.ending == "was killed by SIGKILL"


async def test_child_without_stdin_reads_nothing(tmp_path):
    outcome = await run_process(["cat"], cwd=tmp_path, env=ENV, timeout=30)
    assert (outcome.returncode, outcome.stdout) == (0, b"")


async def test_child_has_exactly_the_given_environment_and_directory(tmp_path):
    outcome = await run_process(["/bin/sh", "-c", "echo $ONLY; env | wc -l; pwd"], cwd=tmp_path, env={"ONLY": "this"})
    only, count, folder = outcome.stdout.decode().split()
    assert only == "this"
    assert int(count) <= 4  # the shell adds PWD and similar variables
    assert Path(folder) == tmp_path.resolve()


async def test_child_inherits_only_standard_descriptors(tmp_path):
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    try:
        outcome = await python("import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))", cwd=tmp_path)
    finally:
        os.close(reader)
        os.close(writer)
    assert outcome.stdout.decode().strip() in ("[0, 1, 2]", "[0, 1, 2, 3]")  # 3 is the listing itself


async def test_child_leads_its_own_session(tmp_path):
    outcome = await python("import os; print(os.getpid() == os.getsid(0) == os.getpgid(0))", cwd=tmp_path)
    assert outcome.stdout == b"True\n"


async def test_unread_stdin_does_not_block(tmp_path):
    outcome = await sh("exit 3", stdin=b"x" * 8_000_000, cwd=tmp_path, timeout=20)
    assert (outcome.returncode, outcome.timed_out) == (3, False)


async def test_closing_stdin_early_is_not_an_error(tmp_path):
    outcome = await sh("head -c 10; exec 0<&-; sleep 0.05; echo done", stdin=b"y" * 4_000_000, cwd=tmp_path)
    assert outcome.stdout == b"y" * 10 + b"done\n"


async def test_timeout_kills_the_process_group(tmp_path):
    pid_file = tmp_path / "pid"
    script = f"sleep 60 & echo $! > {pid_file}; echo early; wait"
    outcome = await patiently(
        lambda seconds: sh(script, cwd=tmp_path, timeout=seconds), lambda each: each.stdout != b""
    )
    assert outcome.timed_out
    assert (outcome.returncode, outcome.signal, outcome.stdout) == (None, "SIGKILL", b"early\n")
    assert await gone(int(pid_file.read_text()))


async def test_child_that_closes_its_pipes_is_waited_for(tmp_path):
    fifo = tmp_path / "go"
    os.mkfifo(fifo)
    running = asyncio.create_task(sh(f"echo bye; exec 1>&- 2>&-; read line < {fifo}; exit 4", cwd=tmp_path, timeout=60))
    with await asyncio.to_thread(fifo.open, "w") as go:  # it opened the FIFO, so it has closed its pipes
        closed = time.monotonic()
        await asyncio.sleep(run.QUIET_SECONDS)
        assert not running.done()
        lived_ms = (time.monotonic() - closed) * 1000
        go.write("go\n")
    outcome = await running
    assert (outcome.returncode, outcome.stdout) == (4, b"bye\n")
    assert outcome.duration_ms >= lived_ms


async def test_child_that_closes_its_pipes_times_out(tmp_path):
    outcome = await sh("exec 1>&- 2>&-; exec sleep 60", cwd=tmp_path, timeout=0.3)
    assert outcome.timed_out


async def test_grandchild_that_keeps_pipes_open_delays_the_end_only_briefly(tmp_path):
    pid_file = tmp_path / "pid"
    with dies(pid_file):
        started = time.monotonic()
        outcome = await python(
            "import os, subprocess, sys\n"
            "child = subprocess.Popen(['sleep', '60'], start_new_session=True)\n"
            "open(sys.argv[1], 'w').write(f'{child.pid}\\n')\n"
            "print('answer', flush=True)\n",
            str(pid_file),
            cwd=tmp_path,
            timeout=30,
        )
        elapsed = time.monotonic() - started
        assert (outcome.returncode, outcome.stdout, outcome.timed_out) == (0, b"answer\n", False)
        assert elapsed - outcome.duration_ms / 1000 < 20
        assert alive(int(pid_file.read_text()))  # it kept the pipe open all the time


async def test_grandchild_that_keeps_writing_delays_the_end_only_briefly(tmp_path):
    pid_file = tmp_path / "pid"
    with dies(pid_file):
        started = time.monotonic()
        outcome = await sh(
            f"setsid sh -c 'echo $$ > {pid_file}; while :; do echo noise; sleep 0.01; done' & "
            f"while [ ! -s {pid_file} ]; do :; done; exit 0",
            cwd=tmp_path,
            timeout=30,
        )
        assert outcome.returncode == 0
        assert time.monotonic() - started - outcome.duration_ms / 1000 < 20


async def test_process_group_is_killed_after_the_child_exits(tmp_path):
    pid_file = tmp_path / "pid"
    outcome = await sh(f"sleep 60 >/dev/null 2>&1 & echo $! > {pid_file}; exit 0", cwd=tmp_path, timeout=30)
    assert outcome.returncode == 0
    assert await gone(int(pid_file.read_text()))


async def test_output_of_a_descendant_right_after_the_exit_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "QUIET_SECONDS", 20)  # a busy machine may take longer than the real grace
    monkeypatch.setattr(run, "DRAIN_SECONDS", 20)
    outcome = await sh("(sleep 0.1; echo late) & echo early", cwd=tmp_path, timeout=30)
    assert outcome.stdout == b"early\nlate\n"


async def test_excess_stdout_is_cut_without_using_memory(tmp_path):
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    before, peak = resident(), 0

    async def watch() -> None:
        nonlocal peak
        while True:
            peak = max(peak, resident())
            await asyncio.sleep(0)

    watcher = asyncio.create_task(watch())
    outcome = await sh("head -c 200000000 /dev/zero; exec sleep 60", cwd=tmp_path, timeout=60, stdout_cap=4_000_000)
    watcher.cancel()
    assert outcome.stdout_overflow
    assert not outcome.timed_out
    assert len(outcome.stdout) == 4_000_000
    assert peak - before < 40_000_000


async def test_output_of_exactly_the_cap_does_not_overflow(tmp_path):
    outcome = await sh("head -c 1000 /dev/zero", cwd=tmp_path, stdout_cap=1000)
    assert (len(outcome.stdout), outcome.stdout_overflow, outcome.returncode) == (1000, False, 0)


async def test_only_the_end_of_long_stderr_is_kept(tmp_path):
    outcome = await sh(
        "head -c 50000000 /dev/zero | tr '\\0' x >&2; echo END >&2; echo ok", cwd=tmp_path, stderr_keep=1000
    )
    assert (outcome.returncode, outcome.stdout) == (0, b"ok\n")
    assert len(outcome.stderr) == 1000
    assert outcome.stderr.endswith(b"xEND\n")
    assert outcome.stderr_cut


async def test_cancelling_kills_and_reaps_the_process(tmp_path):
    pid_file = tmp_path / "pid"
    running = asyncio.create_task(sh(f"echo $$ > {pid_file}; exec sleep 60", cwd=tmp_path))
    pid = await written_pid(pid_file)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not Path(f"/proc/{pid}").exists()


async def test_cancelling_twice_still_reaps_the_process(tmp_path):
    pid_file = tmp_path / "pid"
    running = asyncio.create_task(sh(f"echo $$ > {pid_file}; exec sleep 60", cwd=tmp_path))
    pid = await written_pid(pid_file)
    running.cancel()
    asyncio.get_running_loop().call_soon(running.cancel)
    with pytest.raises(asyncio.CancelledError):
        await running
    for _ in range(3000):
        if not Path(f"/proc/{pid}").exists():
            return
        await asyncio.sleep(0.01)
    pytest.fail("the process was not reaped")


async def test_fifty_runs_leak_no_descriptors_or_processes(tmp_path):
    await sh("true", cwd=tmp_path)
    gc.collect()  # garbage of other tests must not be freed while we count
    files, processes = open_files(), children()
    await asyncio.gather(*(sh("echo a; echo b >&2", stdin=b"in", cwd=tmp_path) for _ in range(30)))
    await asyncio.gather(*(sh("exec sleep 60", stdin=b"in", cwd=tmp_path, timeout=0.05) for _ in range(10)))
    for _ in range(10):
        with pytest.raises(ProcessStartError):
            await run_process(["/nowhere/at/all"], stdin=b"", cwd=tmp_path, env=ENV)
    assert open_files() == files
    assert children() == processes


async def test_thread_waits_for_the_child_without_pidfd(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "pidfd_open")
    assert (await sh("echo hi; exit 5", cwd=tmp_path)).returncode == 5
    assert (await sh("kill -15 $$", cwd=tmp_path)).signal == "SIGTERM"
    late = await sh("exec sleep 60", cwd=tmp_path, timeout=0.2)
    assert (late.timed_out, late.signal) == (True, "SIGKILL")


async def test_lost_exit_status_is_not_a_success(tmp_path):
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        outcome = await sh("exit 1", cwd=tmp_path, timeout=20)
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert (outcome.returncode, outcome.signal) == (None, None)
    assert "exit status was lost" in outcome.ending


async def test_output_written_while_the_loop_is_busy_is_not_lost(tmp_path):
    running = asyncio.create_task(sh("head -c 60000 /dev/zero", cwd=tmp_path))
    await asyncio.sleep(0)
    time.sleep(run.QUIET_SECONDS + run.DRAIN_SECONDS)
    assert len((await running).stdout) == 60000


# -- a program that cannot be started


async def start_error(argv: list[str], cwd: Path, env: dict[str, str] | None = None) -> str:
    with pytest.raises(ProcessStartError) as caught:
        await run_process(argv, cwd=cwd, env=ENV if env is None else env)
    assert caught.value.next_step
    return str(caught.value)


async def test_missing_program_is_reported(tmp_path):
    assert "`no-such-program`: program not found on PATH" in await start_error(["no-such-program"], tmp_path)


async def test_missing_file_is_reported_with_its_full_path(tmp_path):
    assert f"{tmp_path / 'tool'} does not exist" in await start_error(["./tool"], tmp_path)


async def test_non_executable_file_suggests_chmod(tmp_path):
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    message = await start_error(["./tool"], tmp_path)
    assert "is not executable" in message
    assert "chmod +x" in message
    on_path = await start_error(["tool"], tmp_path, {"PATH": str(tmp_path)})
    assert "is not executable" in on_path


async def test_missing_shebang_interpreter_is_reported(tmp_path):
    tool = tmp_path / "tool"
    tool.write_text("#!/opt/nowhere/python9 -x\n")
    tool.chmod(0o755)
    assert "`#!` line, /opt/nowhere/python9, is missing" in await start_error([str(tool)], tmp_path)


async def test_file_without_shebang_is_reported(tmp_path):
    tool = tmp_path / "tool"
    tool.write_text("just text\n")
    tool.chmod(0o755)
    assert "has no `#!` line" in await start_error([str(tool)], tmp_path)


async def test_missing_directory_is_not_reported_as_a_missing_program(tmp_path):
    assert "its working directory" in await start_error(["true"], tmp_path / "gone")
    (tmp_path / "file").write_text("")
    assert "is not a directory" in await start_error(["true"], tmp_path / "file")


async def test_long_argument_suggests_a_file(tmp_path):
    assert "{PROMPT_FILE}" in await start_error(["true", "x" * 3_000_000], tmp_path)


async def test_argument_with_nul_or_surrogate_raises_start_error(tmp_path):
    assert "cannot be passed" in await start_error(["true", "a\0b"], tmp_path)
    assert "cannot be passed" in await start_error(["true", "a\ud800b"], tmp_path)


async def test_empty_command_raises_start_error(tmp_path):
    assert "empty" in await start_error([], tmp_path)
