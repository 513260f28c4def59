"""Loading and validating a large suite, compared with PyYAML's C loader on the same file."""

from __future__ import annotations

import json
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.measure import Usage, agentv, bare, median, median_wall, run, take_turns
from benchmarks.options import Options
from benchmarks.report import Figure, Report
from benchmarks.workload import write_config, write_long_suite

NAME = "loading"


def measure(options: Options) -> Report:
    cases = options.pick(10_000, 100)
    with tempfile.TemporaryDirectory(prefix="agentv-bench-") as temporary:
        directory = Path(temporary)
        write_config(directory)
        suite = write_long_suite(directory / "suite.yaml", cases)
        size = suite.stat().st_size / 1e6
        kinds = ("load", "events", "csafe")
        contestants = {kind: partial(run, bare(kind, str(suite))) for kind in kinds}
        contestants["validate"] = partial(run, agentv("validate", "suite.yaml"), cwd=directory)
        turns = take_turns(contestants, options.pick(5, 1), options.say)
    wall = {kind: median(_spent(usage)["seconds"] for usage in turns[kind]) for kind in kinds}
    cpu = {kind: median(_spent(usage)["cpu_seconds"] for usage in turns[kind]) for kind in kinds}
    return Report(
        NAME,
        [
            Figure("load and validate / CSafeLoader, CPU", cpu["load"] / cpu["csafe"], goal=0.5),
            Figure("load and validate / CSafeLoader, wall", wall["load"] / wall["csafe"]),
            Figure("load and validate / events only, CPU", cpu["load"] / cpu["events"]),
            Figure("load and validate, CPU", cpu["load"], "s", goal=1.2),
            Figure("load and validate, wall", wall["load"], "s"),
            Figure("CSafeLoader, CPU", cpu["csafe"], "s"),
            Figure("events of the C parser only, CPU", cpu["events"], "s"),
            Figure("agentv validate, whole command, wall", median_wall(turns["validate"]), "s"),
        ],
        details={"cases": cases, "megabytes": size, "wall_s": wall, "cpu_s": cpu},
        notes=[f"{cases:,} cases, {size:.1f} MB"],
    )


def _spent(usage: Usage) -> dict[str, float]:
    spent: dict[str, float] = json.loads(usage.output)
    return spent
