"""The time of a script, which does not pass while its judge calls wait for a place at the judge."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentv.processes import script_time
from agentv.processes.launcher import Launcher
from agentv.processes.script_time import ScriptTime, WaitingTime

from .support import alive, until
from .warm_support import script, write

HANGS = """\
import os, sys
if sys.stdin.readline().strip() != "{}":
    print("{}")
    sys.exit()
with open("pids", "a") as file:
    file.write(f"{os.getpid()}\\n")
while True:
    import signal
    signal.pause()
"""
TIMEOUT = 1.0
KINDS: dict[str, dict[str, Any]] = {
    "plain": {"warm": False},
    "isolated": {"warm": False, "isolate": True},
    "warm": {"warm": True},
    "lines": {"warm": False, "lines": True},
    "unsupervised": {"warm": False},
}


@pytest.fixture
def short_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_time, "LEASE_SECONDS", 1.0)


class Hanging:
    """A script that never ends, whose judge call waits from the start."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.launcher = Launcher(supervise=False if kind == "unsupervised" else None, namespaces=False)
        self.waiting = WaitingTime()
        write(folder, HANGS)
        self._pids = folder / "pids"
        self._pids.touch()
        self._script = script(folder, stdin=b"{}\n", timeout=TIMEOUT, waiting=self.waiting, **KINDS[kind])

    async def start(self) -> None:
        if self._script.warm:  # the imports of the first warm execution must not use up the time
            await self.launcher.run(replace(self._script, stdin=b"\n", timeout=60.0, waiting=None))
        self.waiting.begin()
        self.task = asyncio.create_task(self.launcher.run(self._script))
        assert await until(lambda: self._pids.read_text().endswith("\n"))

    @property
    def alive(self) -> bool:
        return alive(int(self._pids.read_text()))


@pytest.fixture
async def hanging(tmp_path: Path) -> AsyncIterator[list[Hanging]]:
    scripts = [Hanging(kind, tmp_path / kind) for kind in KINDS]
    async with AsyncExitStack() as stack:
        for one in scripts:
            await stack.enter_async_context(one.launcher)
        await asyncio.gather(*(one.start() for one in scripts))
        yield scripts


@pytest.mark.usefixtures("short_lease")
async def test_time_of_a_script_passes_only_while_no_call_waits(hanging: list[Hanging]) -> None:
    await asyncio.wait({one.task for one in hanging}, timeout=1.5 * TIMEOUT)
    assert not any(one.task.done() for one in hanging)
    for one in hanging:  # two calls wait: the time starts to pass when both have their places
        one.waiting.begin()
        one.waiting.end()
    waited_until = time.monotonic()
    for one in hanging:
        one.waiting.end()
    done, running = await asyncio.wait({one.task for one in hanging}, timeout=TIMEOUT / 4)
    assert not done
    assert all([(await task).timed_out for task in running])
    assert time.monotonic() - waited_until < 20


@pytest.mark.usefixtures("short_lease")
async def test_scripts_with_waiting_calls_are_killed_while_the_runtime_is_stopped(hanging: list[Hanging]) -> None:
    *supervised, _ = hanging
    await asyncio.sleep(TIMEOUT)
    assert all(one.alive for one in supervised)
    ends = time.monotonic() + 30
    while any(one.alive for one in supervised) and time.monotonic() < ends:
        time.sleep(0.02)  # the event loop does not run, like that of a stopped process
    assert not any(one.alive for one in supervised)
    assert all([(await one.task).timed_out for one in supervised])


def test_calls_that_wait_at_the_same_time_count_once() -> None:
    now = 100.0
    waiting = WaitingTime(lambda: now)
    changes: list[float] = []
    waiting.on_change = lambda: changes.append(now)
    waiting.begin()
    now = 101.0
    waiting.begin()
    now = 103.0
    waiting.end()
    assert (waiting.calls, waiting.seconds) == (1, 3.0)
    now = 104.0
    waiting.end()
    now = 200.0
    assert (waiting.calls, waiting.seconds, changes) == (0, 4.0, [100.0, 104.0])


async def test_supervisor_gets_orders_only_when_its_deadline_comes_near(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    orders: list[float] = []
    waiting = WaitingTime(lambda: now)
    with ScriptTime(60.0, waiting, on_late=lambda: orders.append(-1.0), order=orders.append) as limit:
        for _ in range(100):  # short waits, 40 s in all
            waiting.begin()
            now += 0.4
            waiting.end()
        assert (orders, round(limit.deadline, 6)) == ([], 1100.0)
        now = 1055.0
        limit._look()  # the timer, 5 s before the deadline that the supervisor knows
        assert [round(order, 6) for order in orders] == [1100.0]
        waiting.begin()
        now = 1500.0
        limit._look()
        assert round(orders[-1] - limit.deadline, 6) == script_time.LEASE_SECONDS
        waiting.end()
        assert round(orders[-1], 6) == round(limit.deadline, 6) == 1545.0
        now = 1545.5
        limit._look()
        assert orders[-1] == -1.0
