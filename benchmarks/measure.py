"""Measure wall time, CPU time and peak memory of child processes, one or several side by side.

The machine may be busy with other work, so numbers are not comparable between runs of a benchmark. Contestants take
turns within one run, and figures are ratios of their medians.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
SOURCE = "AGENTV_BENCH_SOURCE"
"""Environment variable with a `src` directory to measure instead of the installed package."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The resources used by a process and all children it waited for."""

    wall: float
    cpu: float
    peak_mb: float
    output: str = ""


class FailedError(Exception):
    """A measured command exited with an unexpected code; its time is meaningless."""


def agentv(*arguments: str) -> list[str]:
    """The installed `agentv` command of this interpreter."""
    command = Path(sys.executable).with_name("agentv")
    return [str(command), *arguments] if command.exists() else [sys.executable, "-m", "agentv", *arguments]


def bare(*arguments: str) -> list[str]:
    """The command of a contestant without any framework; see `bare.py`."""
    return [sys.executable, str(Path(__file__).with_name("bare.py")), *arguments]


def environment() -> dict[str, str]:
    """The caller's environment without variables that change how Python behaves.

    Compiled files are kept, as in a normal installation.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    source = os.environ.get(SOURCE)
    path = {"PYTHONPATH": source} if source else {}
    return {**inherited, **path, "PYTHONPYCACHEPREFIX": str(RESULTS / "pycache")}


def run(command: Sequence[str], *, cwd: Path | None = None) -> Usage:
    """Run a command and measure it. Its output goes to files, so that it never waits for a reader."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        started = time.perf_counter()
        # The peak memory of a child starts at that of its parent, so this process must stay small.
        process = subprocess.Popen(
            command, cwd=cwd, env=environment(), stdin=subprocess.DEVNULL, stdout=output, stderr=errors
        )
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        if process.returncode != 0:
            stderr = errors.read().decode(errors="replace").strip()[-2000:]
            raise FailedError(f"exit code {process.returncode} of: {' '.join(command)}\n{stderr}")
        text = output.read().decode(errors="replace")
    return Usage(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, text)


def evaluate(suite: Path, cases: int, *options: str) -> Usage:
    """Measure `agentv eval` of a suite; the output is the summary. All cases must pass."""
    used = run(agentv("eval", suite.name, "--json", *options), cwd=suite.parent)
    passed = json.loads(used.output)["passed"]
    if passed != cases:
        raise FailedError(f"all {cases} cases of {suite} must pass, got {passed}")
    return used


def take_turns(
    contestants: Mapping[str, Callable[[], Usage]], turns: int, say: Callable[[str], None] = lambda _: None
) -> dict[str, list[Usage]]:
    """Run every contestant once per turn, in reverse order every other turn."""
    measured: dict[str, list[Usage]] = {name: [] for name in contestants}
    for turn in range(turns):
        names = list(contestants)[:: 1 if turn % 2 == 0 else -1]
        for name in names:
            say(f"{name}, {turn + 1} of {turns}")
            measured[name].append(contestants[name]())
    return measured


def median(values: Iterable[float]) -> float:
    return statistics.median(values)


def median_wall(usages: Sequence[Usage]) -> float:
    return median(usage.wall for usage in usages)


def median_cpu(usages: Sequence[Usage]) -> float:
    return median(usage.cpu for usage in usages)


def peak_mb(usages: Sequence[Usage]) -> float:
    return max(usage.peak_mb for usage in usages)
