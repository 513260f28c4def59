"""The heartbeat measures what blocks the event loop of another process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.threats.heartbeat import Heartbeat

ROOT = Path(__file__).parents[2]


def run(heartbeat: Heartbeat, body: str) -> None:
    code = f"import asyncio, os, subprocess, sys, time\nasync def main():\n    {body}\nasyncio.run(main())"
    subprocess.run([sys.executable, "-c", code], env={**os.environ, **heartbeat.env}, check=True, timeout=60)


def test_waiting_in_the_loop_is_not_blocking(heartbeat: Heartbeat) -> None:
    run(heartbeat, "await asyncio.sleep(0.2)")
    assert heartbeat.measured["beats"] > 3
    heartbeat.assert_steady()


@pytest.mark.parametrize("blocking", ["time.sleep(0.2)", "sum(range(20_000_000))", "subprocess.run(['sleep', '0.2'])"])
def test_work_and_system_calls_in_the_loop_are_measured(tmp_path: Path, blocking: str) -> None:
    heartbeat = Heartbeat(tmp_path, steal=False)
    run(heartbeat, f"await asyncio.sleep(0.02); {blocking}; await asyncio.sleep(0.02)")
    assert heartbeat.measured["longest_ms"] > 100
    with pytest.raises(AssertionError, match="the event loop was blocked for"):
        heartbeat.assert_steady()


def test_children_do_not_inherit_the_heartbeat(heartbeat: Heartbeat) -> None:
    names = "[name for name in ('AGENTV_TEST_HEARTBEAT', 'PYTHONPATH') if 'heartbeat' in os.environ.get(name, '')]"
    run(heartbeat, f"assert not {names}; import sitecustomize; await asyncio.sleep(0)")
    heartbeat.assert_steady()


REPEATED = """
from tests.threats.heartbeat import LoopBlockedError

TURNS = []

def test_blocked_once(heartbeat, tmp_path):
    TURNS.append(tmp_path)
    if len(TURNS) == 1:
        raise LoopBlockedError("once")
    assert TURNS[0] != TURNS[1]

def test_blocked_every_time(heartbeat):
    TURNS.append(None)
    raise LoopBlockedError(f"turn {len(TURNS) - 2}")

def test_other_failure(heartbeat):
    TURNS.append(None)
    assert len(TURNS) != 6, "failed the first time"
"""


def test_blocked_loop_is_measured_again_before_the_test_fails(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.threats.conftest import heartbeat, pytest_runtest_protocol\n")
    (tmp_path / "test_repeated.py").write_text(REPEATED)
    options = ["-p", "no:cacheprovider", "-p", "no:langsmith_plugin", "--rootdir", str(tmp_path)]
    command = [sys.executable, "-m", "pytest", *options, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert "2 failed, 1 passed" in done.stdout, done.stdout
    assert "LoopBlockedError: turn 3" in done.stdout
    assert "AssertionError: failed the first time" in done.stdout
