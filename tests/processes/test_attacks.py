"""A script that attacks the processes above it is killed, and the run continues."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from benchmarks.kill_runtime import marked

from .support import ANCESTORS, helper_pid, marker, open_files, python, sh, until, zombies_of

LEAVE_A_DAEMON = """
import signal
def daemon(then):
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork(): os._exit(0)
        os.write(writer, b'x')
        then()
        while True: signal.pause()
    os.read(reader, 1)
"""


async def test_script_that_kills_its_supervisor_fails_and_leaves_no_process(launcher):
    code = ANCESTORS + LEAVE_A_DAEMON + "daemon(lambda: None)\nprint('{\"score\": 1}', flush=True)\n"
    with marker() as mark:
        outcome = await launcher.run(python(code + "os.kill(supervisor, 9)\nsignal.pause()", mark))
        assert marked(mark) == []
    assert outcome.supervisor_lost
    assert (outcome.returncode, outcome.signal, outcome.timed_out) == (None, None, False)
    assert "killed its supervisor process" in outcome.ending
    assert (await launcher.run(sh("echo next"))).stdout == b"next\n"


async def test_shell_script_that_kills_its_supervisor_fails(launcher):
    outcome = await launcher.run(sh("kill -9 $PPID; echo '{\"score\": 1}'"))
    assert outcome.supervisor_lost


async def test_daemon_that_kills_the_supervisor_is_killed(launcher):
    code = ANCESTORS + LEAVE_A_DAEMON + "daemon(lambda: os.kill(supervisor, 9))\nsignal.pause()"
    with marker() as mark:
        outcome = await launcher.run(python(code, mark))
        assert marked(mark) == []
    assert outcome.supervisor_lost


async def test_killing_one_supervisor_does_not_affect_other_scripts(launcher, tmp_path):
    fifo = tmp_path / "go"
    os.mkfifo(fifo)
    others = [asyncio.create_task(launcher.run(sh(f"cat {fifo}; echo fine"))) for _ in range(1)]
    assert (await launcher.run(sh("kill -9 $PPID"))).supervisor_lost
    await asyncio.to_thread(fifo.write_text, "")
    assert [outcome.stdout for outcome in await asyncio.gather(*others)] == [b"fine\n"]


async def test_killed_helper_is_replaced_and_running_scripts_continue(launcher):
    await launcher.run(sh("true"))
    files, before = open_files(), helper_pid(launcher)
    outcome = await launcher.run(python(ANCESTORS + "os.kill(helper, 9); print('done')"))
    assert (outcome.returncode, outcome.stdout, outcome.supervisor_lost) == (0, b"done\n", False)
    assert (await launcher.run(sh("echo next"))).stdout == b"next\n"
    assert helper_pid(launcher) != before
    assert open_files() == files
    assert zombies_of(os.getpid()) == []


async def test_scripts_requested_while_the_helper_dies_are_started_by_its_replacement(launcher):
    calls: list[int] = []
    for _ in range(10):
        await launcher.run(sh("true"))
        launcher.start()
        os.kill(helper_pid(launcher), signal.SIGSTOP)
        requests = [asyncio.create_task(launcher.run(sh("echo ok"), on_exit=lambda: calls.append(1))) for _ in range(5)]
        await asyncio.sleep(0)
        os.kill(helper_pid(launcher), signal.SIGKILL)
        assert [outcome.stdout for outcome in await asyncio.gather(*requests)] == [b"ok\n"] * 5
    assert len(calls) == 50


async def test_script_is_started_without_waiting_for_others_after_the_helper_died(launcher):
    await launcher.run(sh("true"))
    os.kill(helper_pid(launcher), signal.SIGSTOP)
    long = [asyncio.create_task(launcher.run(sh("sleep 60"))) for _ in range(12)]
    await asyncio.sleep(0)
    late = asyncio.create_task(launcher.run(sh("echo ok")))
    await asyncio.sleep(0)
    os.kill(helper_pid(launcher), signal.SIGKILL)
    async with asyncio.timeout(30):
        assert (await late).stdout == b"ok\n"
    assert not any(task.done() for task in long)
    for task in long:
        task.cancel()
    await asyncio.wait(long)


RUNTIME = """
import asyncio, json, os, sys
from agentv.processes.launcher import Launcher, Script
async def main(code, mark):
    own = await asyncio.create_subprocess_exec('sleep', '60')
    async with Launcher(adopt_orphans=True) as launcher:
        def run(source, *args):
            return launcher.run(Script([sys.executable, '-I', '-S', '-c', source, *args], '/', {}, timeout=30))
        other = asyncio.create_task(run('import sys; print(sys.stdin.read())'))
        lost = await run(code, mark)
        left = [pid for pid in os.listdir('/proc') if pid.isdigit() and mark in cmdline(pid)]
        left.remove(str(os.getpid()))
        fine = await other
        after = await run('print(1)')
        children = open(f'/proc/self/task/{os.getpid()}/children').read().split()
        print(json.dumps([lost.supervisor_lost, left, fine.returncode, after.stdout.decode(), own.returncode,
                          len(children)]))
    own.kill()
    await own.wait()
def cmdline(pid):
    try: return open(f'/proc/{pid}/cmdline').read()
    except OSError: return ''
asyncio.run(main(*sys.argv[1:]))
"""


def attacked(code: str, mark: str) -> list[object]:
    """Run a script in a separate runtime that adopts orphans; returns the processes left and the other outcomes."""
    done = subprocess.run(
        [sys.executable, "-c", RUNTIME, code, mark],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result: list[object] = json.loads(done.stdout)
    return result


def test_runtime_kills_a_daemon_that_killed_the_helper_and_then_the_supervisor():
    code = (
        ANCESTORS
        + LEAVE_A_DAEMON
        + "daemon(lambda: (os.kill(helper, 9), os.kill(supervisor, 9)))\nwhile True: signal.pause()"
    )
    with marker() as mark:
        assert attacked(code, mark) == [True, [], 0, "1\n", None, 2]


def test_runtime_kills_a_daemon_that_killed_the_supervisor_and_then_the_helper():
    code = (
        ANCESTORS
        + LEAVE_A_DAEMON
        + "daemon(lambda: (os.kill(supervisor, 9), os.kill(helper, 9)))\nwhile True: signal.pause()"
    )
    with marker() as mark:
        assert attacked(code, mark) == [True, [], 0, "1\n", None, 2]


async def test_run_continues_without_adopt_orphans_after_helper_and_supervisor_were_killed(launcher):
    code = ANCESTORS + "os.kill(helper, 9); os.kill(supervisor, 9)\nimport signal; signal.pause()"
    with marker() as mark:
        outcome = await launcher.run(python(code, mark))
        assert outcome.supervisor_lost
        assert await until(lambda: marked(mark) == [])  # the script dies with its supervisor
        assert (await launcher.run(sh("echo next"))).stdout == b"next\n"
