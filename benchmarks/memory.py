"""Peak memory by number of cases: it should not grow with the length of a run."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.measure import evaluate
from benchmarks.options import Options
from benchmarks.report import Figure, Report
from benchmarks.workload import write_config, write_json_lines_suite, write_suite

NAME = "memory"


def measure(options: Options) -> Report:
    sizes = options.pick((1_000, 10_000, 100_000), (10, 20, 40))
    peaks: dict[int, float] = {}
    with tempfile.TemporaryDirectory(prefix="agentv-bench-") as temporary:
        directory = Path(temporary)
        write_config(directory)
        for size in sizes:
            # The largest suite uses JSON Lines, the usual format for that size.
            write = write_json_lines_suite if size == sizes[-1] else write_suite
            suite = write(directory / f"suite-{size}.yaml", size)
            options.say(f"{size:,} cases")
            peaks[size] = evaluate(suite, size).peak_mb
    small, middle, large = sizes
    growth = (peaks[large] - peaks[small]) * 1024 / (large - small)
    return Report(
        NAME,
        [
            Figure(f"peak, {small:,} cases", peaks[small], "MB", goal=80.0),
            Figure(f"peak, {middle:,} cases", peaks[middle], "MB", goal=80.0),
            Figure(f"peak, {large:,} cases (JSON Lines)", peaks[large], "MB", goal=120.0),
            Figure(f"{large:,} cases / {small:,} cases", peaks[large] / peaks[small], goal=1.25),
            Figure("growth per case", growth, "KB"),
        ],
        details={"peak_mb": peaks},
    )
