"""The heartbeat measures what blocks the event loop of another process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.threats.heartbeat import Heartbeat


def run(heartbeat: Heartbeat, body: str) -> None:
    code = f"import asyncio, os, subprocess, sys, time\nasync def main():\n    {body}\nasyncio.run(main())"
    subprocess.run([sys.executable, "-c", code], env={**os.environ, **heartbeat.env}, check=True, timeout=60)


def test_waiting_in_the_loop_is_not_blocking(heartbeat: Heartbeat) -> None:
    run(heartbeat, "await asyncio.sleep(0.2)")
    assert heartbeat.measured["beats"] > 3
    heartbeat.assert_steady()


@pytest.mark.parametrize("blocking", ["time.sleep(0.2)", "sum(range(20_000_000))", "subprocess.run(['sleep', '0.2'])"])
def test_work_and_system_calls_in_the_loop_are_measured(heartbeat: Heartbeat, blocking: str) -> None:
    run(heartbeat, f"await asyncio.sleep(0.02); {blocking}; await asyncio.sleep(0.02)")
    assert heartbeat.measured["longest_ms"] > 100
    with pytest.raises(AssertionError, match="the event loop was blocked for"):
        heartbeat.assert_steady()


def test_children_do_not_inherit_the_heartbeat(heartbeat: Heartbeat) -> None:
    names = "[name for name in ('AGENTV_TEST_HEARTBEAT', 'PYTHONPATH') if 'heartbeat' in os.environ.get(name, '')]"
    run(heartbeat, f"assert not {names}; import sitecustomize; await asyncio.sleep(0)")
    heartbeat.assert_steady()
