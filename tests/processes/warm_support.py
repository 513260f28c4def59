"""Helpers to write Python scripts and run them cold and warm."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

from benchmarks.kill_runtime import _command, _descendants, _stat

from agentv.processes.launcher import Launcher, Script
from agentv.processes.run import ProcessOutcome

from .support import ENV

CLEAN = {name: value for name, value in ENV.items() if not name.startswith("PYTHON")}


def write(folder: Path, code: str, name: str = "judge.py") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(code), encoding="utf-8")
    return path


def script(folder: Path, *args: str, file: str = "judge.py", **options: Any) -> Script:
    settings = {"cwd": folder, "env": CLEAN, "timeout": 60.0, "warm": True, **options}
    return Script([sys.executable, file, *args], **settings)


class Cold:
    """Collects why scripts were not warm."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def __call__(self, reason: str) -> None:
        self.reasons.append(reason)


async def warm(launcher: Launcher, wanted: Script) -> ProcessOutcome:
    """Run the script and assert that it was warm."""
    cold = Cold()
    outcome = await launcher.run(wanted, on_cold=cold)
    assert cold.reasons == [], cold.reasons
    return outcome


async def why_cold(launcher: Launcher, wanted: Script) -> tuple[ProcessOutcome, list[str]]:
    cold = Cold()
    outcome = await launcher.run(wanted, on_cold=cold)
    return outcome, cold.reasons


def zygotes(launcher: Launcher, file: str = "judge.py") -> list[int]:
    """Pids of a launcher's zygotes: processes that run the script and whose parent does not."""
    below = [pid for helper in launcher._helpers.values() for pid in _descendants(helper.pid)]
    return [pid for pid in below if file in _command(pid) and file not in _command(int(_stat(pid)[1]))]
