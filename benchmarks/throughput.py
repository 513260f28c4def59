"""The overhead per case: scripted answers without delay, one `contains` check each."""

from __future__ import annotations

import json
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.measure import Usage, evaluate, median, median_cpu, median_wall, take_turns
from benchmarks.options import Options
from benchmarks.report import Figure, Report
from benchmarks.workload import write_config, write_suite

NAME = "throughput"


def measure(options: Options) -> Report:
    sizes = options.pick((1, 1_000, 10_000), (1, 50, 100))
    with tempfile.TemporaryDirectory(prefix="agentv-bench-") as temporary:
        directory = Path(temporary)
        write_config(directory)
        suites = {size: write_suite(directory / f"suite-{size}.yaml", size) for size in sizes}
        contestants = {f"{size}": partial(evaluate, suite, size) for size, suite in suites.items()}
        turns = take_turns(contestants, options.pick(5, 1), options.say)
    start_cpu = median_cpu(turns["1"])
    figures: list[Figure] = []
    for size in sizes[1:]:
        wall, cpu = median_wall(turns[f"{size}"]), median_cpu(turns[f"{size}"])
        inner = median(_seconds(usage) for usage in turns[f"{size}"])
        figures += [
            Figure(f"{size:,} cases: CPU per case, start-up included", cpu / size * 1000, "ms"),
            Figure(f"{size:,} cases: CPU per case", (cpu - start_cpu) / (size - 1) * 1000, "ms", goal=1.0),
            Figure(f"{size:,} cases: rate, whole command", size / wall, "cases/s"),
            Figure(f"{size:,} cases: rate of the run itself", size / inner, "cases/s"),
        ]
    details = {
        size: {"wall_s": [usage.wall for usage in usages], "cpu_s": [usage.cpu for usage in usages]}
        for size, usages in turns.items()
    }
    return Report(NAME, figures, details=details)


def _seconds(usage: Usage) -> float:
    return float(json.loads(usage.output)["duration_seconds"])
