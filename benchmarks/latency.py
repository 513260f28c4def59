"""How well waiting overlaps: cases against a model server that takes 50 ms per answer.

Efficiency is the ideal time, `cases * 0.05 / in flight`, divided by the measured time. For comparison: a bare asyncio
loop that only sleeps, and a bare aiohttp client of the same server.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.measure import (
    Usage,
    bare,
    environment,
    evaluate,
    median,
    median_cpu,
    median_wall,
    peak_mb,
    run,
    take_turns,
)
from benchmarks.options import Options
from benchmarks.report import Figure, Report
from benchmarks.workload import ANSWER, write_config, write_suite

NAME = "latency"
DELAY = 0.05


@dataclass(frozen=True, slots=True)
class Load:
    """The number of cases, the number of calls in flight, and the goals."""

    cases: int
    in_flight: int
    efficiency: float
    peak_mb: float | None = None

    @property
    def ideal(self) -> float:
        return self.cases * DELAY / self.in_flight


FULL = (Load(1_000, 50, 0.60), Load(10_000, 100, 0.75, 120.0))
QUICK = (Load(40, 20, 0.0),)


def measure(options: Options) -> Report:
    figures: list[Figure] = []
    details: dict[str, object] = {}
    with tempfile.TemporaryDirectory(prefix="agentv-bench-") as temporary, model_server() as url:
        directory = Path(temporary)
        write_config(directory, base_url=url)
        for load in options.pick(FULL, QUICK):
            found, detail = _measure_load(load, directory, url, options)
            figures += found
            details[f"{load.cases} cases, {load.in_flight} in flight"] = detail
    return Report(NAME, figures, details=details)


def _measure_load(load: Load, directory: Path, url: str, options: Options) -> tuple[list[Figure], dict[str, object]]:
    suite = write_suite(directory / f"suite-{load.cases}.yaml", load.cases)
    calls, limit = str(load.cases), str(load.in_flight)
    contestants = {
        "agentv": partial(evaluate, suite, load.cases, "--workers", limit),
        "bare sleep": partial(run, bare("sleep", calls, limit, str(DELAY))),
        "bare aiohttp": partial(run, bare("http", calls, limit, url)),
    }
    turns = take_turns(contestants, options.pick(3, 1), options.say)
    inner = {
        "agentv": median(json.loads(usage.output)["duration_seconds"] for usage in turns["agentv"]),
        "bare sleep": median(_seconds(usage) for usage in turns["bare sleep"]),
        "bare aiohttp": median(_seconds(usage) for usage in turns["bare aiohttp"]),
    }
    efficiency = {name: load.ideal / seconds for name, seconds in inner.items()}
    whole = load.ideal / median_wall(turns["agentv"])
    memory = peak_mb(turns["agentv"])
    about = f"{load.cases:,} at {load.in_flight}"
    figures = [
        Figure(f"{about}: efficiency", efficiency["agentv"], goal=load.efficiency, better="higher"),
        Figure(f"{about}: efficiency, whole command", whole),
        Figure(f"{about}: efficiency, bare aiohttp client", efficiency["bare aiohttp"]),
        Figure(f"{about}: efficiency, bare sleep", efficiency["bare sleep"]),
        Figure(f"{about}: agentv / bare aiohttp, wall", inner["agentv"] / inner["bare aiohttp"]),
        Figure(f"{about}: CPU per case", median_cpu(turns["agentv"]) / load.cases * 1000, "ms"),
        Figure(
            f"{about}: CPU per case, bare aiohttp",
            median_cpu(turns["bare aiohttp"]) / load.cases * 1000,
            "ms",
        ),
        Figure(f"{about}: peak memory", memory, "MB", goal=load.peak_mb),
    ]
    walls = {name: [usage.wall for usage in usages] for name, usages in turns.items()}
    return figures, {"ideal_s": load.ideal, "run_s": inner, "wall_s": walls}


def _seconds(usage: Usage) -> float:
    return float(json.loads(usage.output)["seconds"])


@contextlib.contextmanager
def model_server(*, delay: float = DELAY, reply: str = ANSWER) -> Iterator[str]:
    """Start a model server in a separate process and yield its address."""
    command = [sys.executable, "-m", "agentv.testing.model_server"]
    command += ["--delay-ms", str(delay * 1000), "--reply", reply]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
