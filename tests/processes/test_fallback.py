"""Without supervision, scripts run directly and their process group is killed with them."""

from __future__ import annotations

import asyncio
import os

import pytest
from benchmarks.kill_runtime import marked

from agentv.processes.launcher import Launcher
from agentv.processes.protection import Capabilities, capabilities
from agentv.processes.run import ProcessStartError

from .support import children, marker, open_files, sh, until


async def test_scripts_run_directly(tmp_path):
    before = sorted(children())
    calls: list[str] = []
    async with Launcher(supervise=False, adopt_orphans=True) as launcher:
        assert launcher.capabilities == Capabilities(supervised=False, landlock=None)
        assert sorted(children()) == before
        outcome = await launcher.run(
            sh("cat; pwd; exit 3", cwd=tmp_path, stdin=b"in ", isolate=True), on_exit=lambda: calls.append("exit")
        )
    assert (outcome.returncode, outcome.stdout) == (3, f"in {tmp_path.resolve()}\n".encode())
    assert calls == ["exit"]


async def test_process_group_is_killed_on_timeout_and_exit():
    async with Launcher(supervise=False) as launcher:
        with marker() as mark:
            outcome = await launcher.run(sh("sleep $1 & sleep $1", mark, timeout=0.5))
            assert outcome.timed_out
            assert await until(lambda: marked(mark) == [])
            await launcher.run(sh("sleep $1 >&2 & echo x", mark))
            assert await until(lambda: marked(mark) == [])


async def test_on_exit_is_called_after_cancelling_and_start_errors():
    calls: list[str] = []
    async with Launcher(supervise=False) as launcher:
        with pytest.raises(ProcessStartError):
            await launcher.run(sh("", cwd="/nowhere/at/all"), on_exit=lambda: calls.append("start"))
        files = open_files()
        running = asyncio.create_task(launcher.run(sh("sleep 60"), on_exit=lambda: calls.append("cancel")))
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert open_files() == files
    assert calls == ["start", "cancel"]


async def test_falls_back_when_the_system_has_no_pidfds(monkeypatch):
    assert capabilities().supervised
    monkeypatch.delattr(os, "pidfd_open")
    assert not capabilities().supervised
    async with Launcher() as launcher:
        assert not launcher.capabilities.supervised
        assert (await launcher.run(sh("echo x"))).stdout == b"x\n"


async def test_falls_back_when_the_kernel_refuses_pidfds(monkeypatch):
    def refused(pid: int, flags: int = 0) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", refused)
    async with Launcher() as launcher:
        assert not launcher.capabilities.supervised
