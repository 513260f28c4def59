"""A kill costs at most the calls in flight: the short form of the program that `make soak` runs for minutes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def test_killed_runs_repeat_only_calls_in_flight() -> None:
    options = ["--kills", "3", "--kills-per-run", "1", "--cases", "5", "--workers", "2", "--kinds", "talk,script,check"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.kill_calls", *options, "--seed", "2026"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 kills in" in done.stdout
    assert "problems: 0" in done.stdout
