"""Work on foreign input runs in processes that are killed at their deadline."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentv import workers
from agentv.errors import EvaluatorError
from agentv.processes.run import OWN_CHILDREN
from tests.threats.support import wait_for
from tests.workers import jobs


async def test_result_is_returned() -> None:
    assert await workers.call(jobs.echo, {"a": ["ü", 1, None]}, seconds=5) == {"a": ["ü", 1, None]}


def test_result_is_returned_without_an_event_loop() -> None:
    assert workers.call_blocking(jobs.echo, "x" * 3_000_000, seconds=5) == "x" * 3_000_000


async def test_worker_is_reused() -> None:
    assert await workers.call(jobs.pid, seconds=5) == await workers.call(jobs.pid, seconds=5)


async def test_large_values_pass_in_both_directions() -> None:
    text = "é" * 5_000_000
    assert await workers.call(jobs.echo, text, seconds=5) == text


async def test_exception_is_raised_with_its_fields() -> None:
    with pytest.raises(EvaluatorError) as caught:
        await workers.call(jobs.refuse, seconds=5)
    assert caught.value.message == "no"
    assert caught.value.next_step == "Try another."


async def test_result_that_cannot_be_sent_is_an_error() -> None:
    with pytest.raises((AttributeError, TypeError)):
        await workers.call(jobs.not_picklable, seconds=5)
    assert await workers.call(jobs.echo, 1, seconds=5) == 1


async def test_endless_work_is_killed_and_the_loop_keeps_running() -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    before = time.monotonic()
    with pytest.raises(workers.TookTooLongError, match=r"took longer than 0\.3 s"):
        await workers.call(jobs.backtrack, seconds=0.3)
    ticking.cancel()
    assert time.monotonic() - before < 30
    assert ticks > 3
    assert await workers.call(jobs.echo, 1, seconds=5) == 1


def test_endless_work_is_killed_without_an_event_loop() -> None:
    with pytest.raises(workers.TookTooLongError):
        workers.call_blocking(jobs.backtrack, seconds=0.2)


async def test_death_of_a_worker_is_tried_again_once(tmp_path: Path) -> None:
    assert await workers.call(jobs.die_once, str(tmp_path / "mark"), seconds=5) == "second time"
    with pytest.raises(workers.WorkerDiedError, match="ran out of memory"):
        await workers.call(jobs.die, seconds=5)


async def test_memory_is_limited() -> None:
    with pytest.raises(workers.WorkerDiedError):
        await workers.call(jobs.fill_memory, seconds=10)


async def test_worker_sees_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-secret")
    workers.close()
    environment = await workers.call(jobs.environment, seconds=5)
    assert "PATH" in environment
    assert "OPENAI_API_KEY" not in environment


async def test_cancelled_call_ends_its_worker(tmp_path: Path) -> None:
    mark = tmp_path / "started"
    before = set(OWN_CHILDREN)
    workers.close()
    task = asyncio.create_task(workers.call(jobs.wait, str(mark), seconds=60))
    while not mark.exists():
        await asyncio.sleep(0.005)
    started = set(OWN_CHILDREN) - before
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    wait_for(lambda: not any(_alive(pid) for pid in started))


async def test_calls_beyond_the_limit_wait() -> None:
    results = await asyncio.gather(*(workers.call(jobs.echo, number, seconds=10) for number in range(20)))
    assert results == list(range(20))


def test_worker_dies_with_a_killed_runtime(tmp_path: Path) -> None:
    mark = tmp_path / "started"
    code = (
        "import asyncio\nfrom agentv import workers\nfrom agentv.processes.run import OWN_CHILDREN\n"
        "from tests.workers import jobs\n"
        "async def main():\n"
        f"    task = asyncio.ensure_future(workers.call(jobs.wait, {str(mark)!r}, seconds=60))\n"
        "    await asyncio.sleep(0.01)\n    print(*OWN_CHILDREN, flush=True)\n    await task\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as runtime:
        assert runtime.stdout
        pid = int(runtime.stdout.readline())
        wait_for(mark.exists)
        runtime.send_signal(signal.SIGKILL)
    wait_for(lambda: not _alive(pid))


def test_worker_that_ended_does_not_remain_as_a_zombie() -> None:
    workers.close()
    pid = workers.call_blocking(jobs.pid, seconds=5)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not Path(f"/proc/{pid}").exists())
    assert workers.call_blocking(jobs.pid, seconds=5) != pid


def _alive(pid: int) -> bool:
    try:
        return b"\nState:\tZ" not in Path(f"/proc/{pid}/status").read_bytes()
    except OSError:
        return False


def test_fork_does_not_share_workers() -> None:
    workers.call_blocking(jobs.echo, 1, seconds=5)
    code = (
        "import os\nfrom agentv import workers\nfrom tests.workers import jobs\n"
        "first = workers.call_blocking(jobs.pid, seconds=5)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(workers.call_blocking(jobs.pid, seconds=5) == first)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "assert workers.call_blocking(jobs.pid, seconds=5) == first\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
