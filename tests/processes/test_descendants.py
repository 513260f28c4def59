"""Every process that a script leaves behind is killed when the script ends and when the runtime dies."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time

import pytest
from benchmarks.kill_runtime import KINDS, MODES, SIGNALS, marked, one_round

from agentv.processes.run import ProcessOutcome
from tests.patience import patiently

from .support import ANCESTORS, marker, python, sh, until

DESCENDANT = """
import os, signal, sys
kind, then = sys.argv[1:3]
reader, writer = os.pipe()
if os.fork() == 0:
    if kind in ('setsid', 'double-fork'): os.setsid()
    if kind == 'double-fork' and os.fork(): os._exit(0)
    if kind == 'ignoring-signals':
        for number in range(1, 65):
            try: signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError): pass
    if kind == 'without-pipes':
        for descriptor in (0, 1, 2): os.close(descriptor)
    os.write(writer, b'x')
    while True: signal.pause()
os.read(reader, 1)
print('answer', flush=True)
if then == 'wait': signal.pause()
"""


@pytest.mark.parametrize("isolate", [False, True], ids=["plain", "isolated"])
@pytest.mark.parametrize("kind", KINDS)
async def test_descendants_are_killed_when_the_script_ends(launcher, kind, isolate):
    with marker() as mark:
        outcome = await launcher.run(python(DESCENDANT, kind, "exit", mark, isolate=isolate))
        assert marked(mark) == []
    assert (outcome.returncode, outcome.stdout, outcome.supervisor_lost) == (0, b"answer\n", False)


@pytest.mark.parametrize("kind", KINDS)
async def test_descendants_are_killed_on_timeout(launcher, kind):
    with marker() as mark:

        async def ended(seconds: float) -> ProcessOutcome:
            started = time.monotonic()
            outcome: ProcessOutcome = await launcher.run(python(DESCENDANT, kind, "wait", mark, timeout=seconds))
            assert marked(mark) == []
            assert time.monotonic() - started < seconds + 30
            return outcome

        outcome = await patiently(ended, lambda outcome: outcome.stdout != b"")
    assert (outcome.timed_out, outcome.stdout) == (True, b"answer\n")


async def test_descendants_are_alive_while_the_script_runs(launcher):
    """Verifies that the descendants in the tests above were really started."""
    with marker() as mark:
        running = asyncio.create_task(launcher.run(python(DESCENDANT, "double-fork", "wait", mark)))
        assert await until(lambda: len(marked(mark)) == 2)
        running.cancel()
        await asyncio.wait({running})
        assert marked(mark) == []


async def test_isolated_descendants_are_killed_with_their_supervisor(launcher):
    with marker() as mark:
        running = asyncio.create_task(launcher.run(python(DESCENDANT, "double-fork", "wait", mark, isolate=True)))
        assert await until(lambda: len(marked(mark)) == 2)
        (execution,) = launcher._running
        os.kill(execution.supervisor, signal.SIGKILL)
        assert (await running).supervisor_lost
        assert marked(mark) == []


async def test_descendants_in_nested_sessions_are_killed(launcher):
    code = """
import os, signal, sys
reader, writer = os.pipe()
for depth in range(12):
    if os.fork() == 0: os.setsid()
    elif depth % 2: break
    else: os.waitpid(-1, 0); break
else:
    os.write(writer, b'x')
    signal.pause()
if depth: signal.pause()
os.read(reader, 1)
"""
    with marker() as mark:
        outcome = await launcher.run(python(code, mark, timeout=2))
        assert marked(mark) == []
        assert not outcome.supervisor_lost


async def test_processes_that_fork_and_exit_repeatedly_are_killed(launcher):
    code = """
import os, sys
os.write(1, b'go')
if os.fork() == 0:
    os.setsid()
    while True:
        if os.fork(): os._exit(0)
"""
    with marker() as mark:
        outcome = await launcher.run(python(code, mark))
        assert (outcome.returncode, outcome.survivors) == (0, ())
        assert marked(mark) == []


async def test_other_scripts_continue_when_one_ends(launcher, tmp_path):
    fifo = tmp_path / "go"
    os.mkfifo(fifo)
    other = asyncio.create_task(launcher.run(sh(f"setsid cat {fifo} & wait; echo done")))
    await launcher.run(python(DESCENDANT, "double-fork", "exit"))
    await asyncio.to_thread(fifo.write_text, "still here ")
    assert (await other).stdout == b"still here done\n"


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("mode", MODES)
def test_no_process_survives_a_killed_runtime(number, mode):
    assert one_round(number, mode=mode) == []


@pytest.mark.parametrize(
    "number", [pytest.param(n, marks=() if n == signal.SIGKILL else pytest.mark.soak, id=n.name) for n in SIGNALS]
)
@pytest.mark.parametrize("mode", MODES)
def test_no_process_survives_a_runtime_killed_while_starting_scripts(number, mode):
    for moment in (0, 0.02, 0.05):
        assert one_round(number, moment, mode=mode) == []


FORKING_RUNTIME = """
import asyncio, os, signal, sys
from agentv.processes.launcher import Launcher, Script
async def main():
    async with Launcher() as launcher:
        asyncio.create_task(launcher.run(Script(['sh', '-c', 'setsid sleep $1 & sleep $1', 'sh', MARK], '/', ENV)))
        await launcher.run(Script(['true'], '/', ENV))
        sys.stdin.readline()
        bystander = os.fork()
        if bystander == 0:
            signal.pause()
        print(bystander, flush=True)
        signal.pause()
MARK, ENV = sys.stdin.readline().strip(), {'PATH': os.environ['PATH']}
asyncio.run(main())
"""


async def test_no_process_survives_a_killed_runtime_whose_fork_keeps_its_descriptors():
    with marker() as mark:
        command = [sys.executable, "-c", FORKING_RUNTIME]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as runtime:
            assert runtime.stdin is not None
            assert runtime.stdout is not None
            runtime.stdin.write(f"{mark}\n".encode())
            assert await until(lambda: len(marked(mark)) == 3)
            runtime.stdin.write(b"go\n")
            bystander = int(await asyncio.to_thread(runtime.stdout.readline))
            try:
                runtime.kill()
                assert await until(lambda: marked(mark) == [])
                os.kill(bystander, 0)
            finally:
                os.kill(bystander, signal.SIGKILL)


async def test_descendants_of_a_stopped_supervisor_are_killed(launcher):
    code = ANCESTORS + "os.kill(supervisor, 19)\nif os.fork() == 0: os.setsid()\nimport signal; signal.pause()"
    with marker() as mark:
        started = time.monotonic()
        outcome = await launcher.run(python(code, mark, timeout=0.5))
        assert outcome.timed_out
        assert marked(mark) == []
        assert time.monotonic() - started < 30


async def test_stopped_helper_is_woken(launcher, tmp_path):
    outcome = await launcher.run(python(ANCESTORS + "os.kill(helper, 19); print('done')"))
    assert outcome.stdout == b"done\n"

    async def together(name: str, timeout: float) -> list[bool]:
        """Run scripts that wait for each other, more than the number of idle supervisors."""
        (tmp_path / name).mkdir()
        code = "touch $1/$2; while [ $(ls $1 | wc -l) -lt 12 ]; do sleep 0.05; done"
        scripts = (sh(code, str(tmp_path / name), str(number), timeout=timeout) for number in range(12))
        return [outcome.timed_out for outcome in await asyncio.gather(*map(launcher.run, scripts))]

    assert any(await together("stopped", 0.5))
    assert not any(await together("woken", 30))
