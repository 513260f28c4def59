"""What a script receives from the launcher, and what the launcher returns."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path

import pytest
from benchmarks.kill_runtime import marked

from agentv.processes.launcher import Launcher, Script
from agentv.processes.run import Pipes, ProcessStartError
from agentv.processes.supervisor import MOST_IDLE
from tests.patience import patiently

from .support import ENV, children, helper_pid, marker, open_files, python, sh, until, zombies_of

INTERNAL_SIGNALS = (1 << 31) | (1 << 32)
"""32 and 33 are reserved by the C library; programs started with posix_spawn (by make, for example) ignore them."""


async def test_stdin_and_stdout_bytes_are_unchanged(launcher):
    data = bytes(range(256)) * 4096
    outcome = await launcher.run(sh("cat", stdin=data))
    assert outcome.stdout == data
    assert (outcome.returncode, outcome.signal, outcome.timed_out, outcome.supervisor_lost) == (0, None, False, False)
    assert outcome.duration_ms > 0


async def test_exit_code_and_stderr_are_reported(launcher):
    outcome = await launcher.run(sh("echo out; echo err >&2; exit 7"))
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (7, b"out\n", b"err\n")


async def test_signal_is_reported_instead_of_exit_code(launcher):
    outcome = await launcher.run(sh("kill -15 $$"))
    assert (outcome.returncode, outcome.signal) == (None, "SIGTERM")


async def test_unread_stdin_does_not_block(launcher):
    outcome = await launcher.run(sh("echo '{\"score\": 1}'", stdin=b"x" * 50_000_000))
    assert (outcome.returncode, outcome.stdout) == (0, b'{"score": 1}\n')


async def test_script_is_killed_when_stdout_exceeds_the_cap(launcher):
    outcome = await launcher.run(sh("head -c 200000000 /dev/zero; exec sleep 60"))
    assert outcome.stdout_overflow
    assert not outcome.timed_out
    assert len(outcome.stdout) == 16 * 1024 * 1024


async def test_stdout_is_read_after_excess_stderr(launcher):
    outcome = await launcher.run(sh("head -c 500000000 /dev/zero >&2; echo END >&2; echo ok"))
    assert (outcome.returncode, outcome.stdout, outcome.stderr_cut) == (0, b"ok\n", True)
    assert len(outcome.stderr) == 64 * 1024
    assert outcome.stderr.endswith(b"\0END\n")


async def test_script_that_closes_its_pipes_times_out(launcher):
    code = "echo bye; exec 1>&- 2>&-; exec sleep 60"
    outcome = await patiently(
        lambda seconds: launcher.run(sh(code, timeout=seconds)), lambda outcome: outcome.stdout != b""
    )
    assert (outcome.timed_out, outcome.stdout, outcome.signal) == (True, b"bye\n", "SIGKILL")


async def test_script_that_closes_its_pipes_is_waited_for(launcher):
    outcome = await launcher.run(sh("exec 0<&- 1>&- 2>&-; sleep 0.2; exit 4"))
    assert (outcome.returncode, outcome.timed_out) == (4, False)


async def test_only_standard_descriptors_are_inherited(launcher):
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    code = (
        "import os; print([n for n in map(int, os.listdir('/proc/self/fd')) if os.path.exists(f'/proc/self/fd/{n}')])"
    )
    try:
        runs = (launcher.run(python(code, isolate=isolate)) for isolate in (False, True) * 10)
        outcomes = await asyncio.gather(*runs)
    finally:
        os.close(reader)
        os.close(writer)
    assert {outcome.stdout for outcome in outcomes} == {b"[0, 1, 2]\n"}


async def test_script_has_exactly_the_given_environment(launcher):
    env = {"ONLY": "this", "EMPTY": "", "EQUALS": "a=b=c", "LINES": "a\nb", "BYTES": "\udcff\u00e9"}
    outcome = await launcher.run(Script(["/usr/bin/env", "-0"], cwd="/", env=env))
    assert outcome.stdout == b"".join(os.fsencode(f"{name}={value}\0") for name, value in env.items())


async def test_large_environment_and_many_arguments_are_passed(launcher):
    env = {f"NAME_{n}": "x" * 100_000 for n in range(15)}
    args = [str(n) * 100 for n in range(1000)]
    outcome = await launcher.run(
        python(
            "import os, sys, json; print(json.dumps([sum(map(len, os.environ.values())), sys.argv[1:]]))",
            *args,
            env=env,
        )
    )
    length, seen = json.loads(outcome.stdout)
    assert length >= 1_500_000
    assert seen == args


async def test_script_has_default_umask_own_session_and_no_terminal(launcher, tmp_path):
    code = """
import os, json, signal
umask = os.umask(0)
try:
    os.open('/dev/tty', os.O_RDWR); terminal = True
except OSError:
    terminal = False
mask = [int(s) for s in signal.pthread_sigmask(signal.SIG_BLOCK, ())]
status = open('/proc/self/status').read()
ignored = [line.split()[1] for line in status.splitlines() if line.startswith('SigIgn')][0]
print(json.dumps([os.getcwd(), umask, os.getpid() == os.getsid(0) == os.getpgid(0), terminal, mask, ignored]))
"""
    before = os.umask(0o027)
    try:
        async with Launcher() as fresh:
            outcome = await fresh.run(python(code, cwd=tmp_path))
    finally:
        os.umask(before)
    cwd, umask, leads, terminal, mask, ignored = json.loads(outcome.stdout)
    assert Path(cwd) == tmp_path.resolve()
    assert (umask, leads, terminal, mask) == (0o027, True, False, [])
    # Python itself ignores SIGPIPE and SIGXFSZ.
    assert int(ignored, 16) & ~((1 << 12) | (1 << 24) | INTERNAL_SIGNALS) == 0


async def test_script_starts_with_default_signal_handlers(launcher):
    outcome = await launcher.run(Script(["grep", "-E", "SigIgn|SigBlk", "/proc/self/status"], cwd="/", env=ENV))
    masks = [int(line.split()[1], 16) & ~INTERNAL_SIGNALS for line in outcome.stdout.decode().splitlines()]
    assert masks == [0, 0]


async def test_program_is_searched_on_the_script_path(launcher, tmp_path):
    for folder, mode in (("plain", 0o644), ("good", 0o755)):
        tool = tmp_path / folder / "judge-tool"
        tool.parent.mkdir()
        tool.write_text("#!/bin/sh\necho found\n")
        tool.chmod(mode)
    path = f"{tmp_path}/missing:{tmp_path}/plain:{tmp_path}/good"
    outcome = await launcher.run(Script(["judge-tool"], cwd="/", env={"PATH": path}))
    assert outcome.stdout == b"found\n"


async def test_relative_cwd_starts_at_the_runtime_directory(launcher, tmp_path, monkeypatch):
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path)
    outcome = await launcher.run(sh("pwd -P", cwd="inner"))
    assert outcome.stdout.decode().strip() == str((tmp_path / "inner").resolve())


async def test_fifty_scripts_run_concurrently(launcher, tmp_path):
    """Each script waits for all others, so they can only end when all of them are running."""
    code = """
import os, sys, time
open(sys.argv[1] + '/' + sys.argv[2], 'w').close()
while len(os.listdir(sys.argv[1])) < 50: time.sleep(0.01)
print(sys.argv[2])
"""
    outcomes = await asyncio.gather(*(launcher.run(python(code, str(tmp_path), str(n))) for n in range(50)))
    assert [outcome.stdout for outcome in outcomes] == [b"%d\n" % n for n in range(50)]


async def test_more_requests_than_the_socket_buffer_are_all_served(launcher):
    outcomes = await asyncio.gather(*(launcher.run(sh(f"exit {n % 200}")) for n in range(600)))
    assert [outcome.returncode for outcome in outcomes] == [n % 200 for n in range(600)]


async def test_on_exit_is_called_once_before_the_pipes_are_drained(launcher, monkeypatch):
    calls: list[str] = []
    drain = Pipes.drain

    async def noted(self: Pipes) -> None:
        calls.append("drain")
        await drain(self)

    monkeypatch.setattr(Pipes, "drain", noted)
    await launcher.run(sh("echo x"), on_exit=lambda: calls.append("exit"))
    assert calls == ["exit", "drain"]
    calls.clear()
    await launcher.run(sh("exec sleep 60", timeout=0.1), on_exit=lambda: calls.append("exit"))
    assert calls == ["exit", "drain"]
    calls.clear()
    with pytest.raises(ProcessStartError):
        await launcher.run(sh("", cwd="/nowhere/at/all"), on_exit=lambda: calls.append("exit"))
    assert calls.count("exit") == 1
    calls.clear()
    await launcher.run(sh("head -c 1000 /dev/zero; sleep 60", stdout_cap=10), on_exit=lambda: calls.append("exit"))
    assert calls == ["exit", "drain"]


async def test_on_exit_is_prompt_when_descendants_keep_the_pipes_open(launcher, tmp_path):
    exited = asyncio.get_running_loop().create_future()
    outcome = await launcher.run(
        sh("(trap '' TERM; sleep 60) & echo answer"), on_exit=lambda: exited.set_result(time.monotonic())
    )
    assert (outcome.stdout, outcome.returncode) == (b"answer\n", 0)
    assert time.monotonic() - exited.result() < 20


async def test_failing_on_exit_does_not_hang_the_run(launcher):
    problems: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context["exception"]))

    def fail() -> None:
        raise RuntimeError("from on_exit")

    outcome = await launcher.run(sh("echo x"), on_exit=fail)
    assert outcome.stdout == b"x\n"
    assert len(problems) == 1


async def test_cancelling_kills_the_script_before_raising(launcher, tmp_path):
    with marker() as mark:
        calls: list[str] = []
        running = asyncio.create_task(
            launcher.run(sh("setsid sleep $1 & sleep $1; :", mark), on_exit=lambda: calls.append("exit"))
        )
        assert await until(lambda: len(marked(mark)) == 3)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert marked(mark) == []
        assert calls == ["exit"]


async def test_cancelling_before_the_start_leaves_no_process(launcher):
    await launcher.run(sh("true"))
    files = open_files()
    for turns in range(6):
        running = asyncio.create_task(launcher.run(sh("sleep 60")))
        for _ in range(turns):
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert open_files() == files


async def test_runs_and_start_errors_leak_no_descriptors_or_processes(launcher):
    await launcher.run(sh("true"))
    files, processes = open_files(), sorted(children())
    await asyncio.gather(*(launcher.run(sh("echo a; echo b >&2", stdin=b"in")) for _ in range(30)))
    await asyncio.gather(*(launcher.run(sh("exec sleep 60", timeout=0.05)) for _ in range(10)))
    for _ in range(10):
        with pytest.raises(ProcessStartError):
            await launcher.run(sh("true", cwd="/nowhere/at/all"))
    assert open_files() == files
    assert sorted(children()) == processes


async def test_two_hundred_scripts_with_ten_children_each_leave_no_process(launcher):
    with marker() as mark:
        code = "i=0; while [ $i -lt 10 ]; do sleep $1 & i=$((i+1)); done; setsid sleep $1 & echo done"
        limit = asyncio.Semaphore(20)

        async def one() -> None:
            async with limit:
                assert (await launcher.run(sh(code, mark))).stdout == b"done\n"

        await one()
        helper = helper_pid(launcher)
        files, helper_files = open_files(), open_files(helper)
        await asyncio.gather(*(one() for _ in range(200)))
        assert marked(mark) == []
        assert open_files() == files
        assert zombies_of(os.getpid()) == []
        assert await until(lambda: not zombies_of(helper))
        # Up to twenty supervisors may stay when they finish at the same moment, but not one per script.
        assert await until(lambda: open_files(helper) <= helper_files + 20 + MOST_IDLE + 3)


async def test_launcher_leaks_no_processes_or_descriptors():
    async with Launcher() as first:
        await first.run(sh("true"))
    files, processes = open_files(), sorted(children())
    async with Launcher() as launcher:
        await launcher.run(sh("true"))
        helper = helper_pid(launcher)
    assert not Path(f"/proc/{helper}").exists()
    assert (open_files(), sorted(children())) == (files, processes)


def test_unused_launcher_can_be_stopped():
    files, processes = open_files(), sorted(children())
    launcher = Launcher()
    launcher.start()
    launcher.start()
    assert len(children()) == len(processes) + 1
    launcher.stop()
    assert (open_files(), sorted(children())) == (files, processes)


async def test_closing_the_launcher_kills_running_scripts():
    async with Launcher() as launcher:
        running = asyncio.create_task(launcher.run(sh("sleep 60")))
        await asyncio.sleep(0)
        await launcher.run(sh("true"))
    outcome = await running
    assert outcome.signal == "SIGKILL"


async def test_helper_has_its_own_environment_and_session(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "do-not-pass-this")
    async with Launcher() as launcher:
        await launcher.run(sh("true"))
        helper = helper_pid(launcher)
        names = {
            entry.partition(b"=")[0] for entry in Path(f"/proc/{helper}/environ").read_bytes().split(b"\0") if entry
        }
        assert names <= {b"LD_LIBRARY_PATH", b"LC_CTYPE"}
        assert os.getsid(helper) == helper != os.getsid(0)


# -- a script that cannot be started


async def start_error(launcher: Launcher, argv: list[str], cwd: Path, env: dict[str, str] | None = None) -> str:
    script = Script(argv, cwd=cwd, env=ENV if env is None else env, timeout=30)
    with pytest.raises(ProcessStartError) as caught:
        await launcher.run(script)
    assert caught.value.next_step
    return str(caught.value)


async def test_start_errors_name_the_cause(launcher, tmp_path):
    plain = tmp_path / "plain"
    plain.write_text("#!/bin/sh\n")
    assert "program not found on PATH" in await start_error(launcher, ["no-such-program"], tmp_path)
    assert f"{tmp_path / 'tool'} does not exist" in await start_error(launcher, ["./tool"], tmp_path)
    assert "chmod +x" in await start_error(launcher, ["./plain"], tmp_path)
    assert "is not executable" in await start_error(launcher, ["plain"], tmp_path, {"PATH": str(tmp_path)})
    assert "does not exist" in await start_error(launcher, ["true"], tmp_path / "gone")
    assert "is not a directory" in await start_error(launcher, ["true"], plain)
    assert "{PROMPT_FILE}" in await start_error(launcher, ["true", "x" * 3_000_000], tmp_path)
    assert "cannot be passed" in await start_error(launcher, ["true", "a\0b"], tmp_path)
    assert "cannot be passed" in await start_error(launcher, ["true", "a\ud800b"], tmp_path)
    assert "cannot be passed" in await start_error(launcher, ["true"], tmp_path, {"A=B": "x"})
    assert "empty" in await start_error(launcher, [], tmp_path)


async def test_invalid_shebang_is_reported(launcher, tmp_path):
    tool = tmp_path / "tool"
    tool.write_text("#!/opt/nowhere/python9 -x\n")
    tool.chmod(0o755)
    assert "`#!` line, /opt/nowhere/python9, is missing" in await start_error(launcher, [str(tool)], tmp_path)
    tool.write_text("just text\n")
    assert "has no `#!` line" in await start_error(launcher, [str(tool)], tmp_path)


async def test_start_error_does_not_affect_other_scripts(launcher, tmp_path):
    good = asyncio.create_task(launcher.run(sh("read line; echo $line", stdin=b"hello\n")))
    await start_error(launcher, ["no-such-program"], tmp_path)
    assert (await good).stdout == b"hello\n"
