"""Listing 1,000 recorded runs: `agentv runs`, whole command, and the same with every run read."""

from __future__ import annotations

import shutil
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.measure import agentv, median_wall, run, take_turns
from benchmarks.options import Options
from benchmarks.report import Figure, Report
from benchmarks.workload import write_config, write_long_suite

NAME = "runs"


def measure(options: Options) -> Report:
    count = options.pick(1_000, 20)
    with tempfile.TemporaryDirectory(prefix="agentv-bench-") as temporary:
        directory = Path(temporary)
        write_config(directory)
        write_long_suite(directory / "suite.yaml", 20)
        run(agentv("eval", "suite.yaml", "--quiet"), cwd=directory)
        runs = directory / ".agentv" / "runs"
        recorded = next(runs.iterdir())
        for i in range(count - 1):
            shutil.copytree(recorded, runs / f"2026{i % 12 + 1:02}01-{i:06}-{recorded.name[-9:]}")
        size = (recorded / "run.json").stat().st_size
        contestants = {
            "newest": partial(run, agentv("runs"), cwd=directory),
            "all": partial(run, agentv("runs", "--limit", str(count)), cwd=directory),
            "json": partial(run, agentv("runs", "--json"), cwd=directory),
            "help": partial(run, agentv("runs", "--help"), cwd=directory),
        }
        turns = take_turns(contestants, options.pick(7, 1), options.say)
    return Report(
        NAME,
        [
            Figure(f"agentv runs, {count:,} recorded", median_wall(turns["newest"]), "s", goal=0.5),
            Figure(f"agentv runs --limit {count}", median_wall(turns["all"]), "s", goal=0.5),
            Figure("agentv runs --json, all runs", median_wall(turns["json"]), "s", goal=0.5),
            Figure("agentv runs --help", median_wall(turns["help"]), "s"),
        ],
        details={"runs": count, "manifest_bytes": size},
        notes=[f"{count:,} runs, {size:,} bytes of run.json each"],
    )
