"""Cases with an LLM judge: two calls per case, one to the target and one to the judge, each taking 50 ms.

Efficiency is the ideal time, `2 * cases * 0.05 / in flight`, divided by the measured time. The ideal is that the
maximum number of calls is always in flight. For comparison: a bare aiohttp client that makes the same two calls for
every case, one after the other.
"""

from __future__ import annotations

import json
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.latency import DELAY, model_server
from benchmarks.measure import Usage, bare, evaluate, median, median_cpu, median_wall, peak_mb, run, take_turns
from benchmarks.options import Options
from benchmarks.report import Figure, Report
from benchmarks.workload import write_config, write_judged_suite

NAME = "llm_judge"
REPLY = json.dumps({"score": 1.0, "hits": ["names Paris"], "misses": [], "reasoning": "Paris is the capital."})
"""Both an answer to the question and a verdict."""


def measure(options: Options) -> Report:
    cases, limit = options.pick((1_000, 50), (20, 10))
    ideal = 2 * cases * DELAY / limit
    with tempfile.TemporaryDirectory(prefix="agentv-bench-") as temporary, model_server(reply=REPLY) as url:
        directory = Path(temporary)
        write_config(
            directory, base_url=url, limit=limit
        )  # the target is also the judge, so the limit applies to both calls
        suite, one = (write_judged_suite(directory / f"suite-{size}.yaml", size) for size in (cases, 1))
        contestants = {
            "agentv": partial(evaluate, suite, cases, "--workers", str(limit)),
            "agentv, 1 case": partial(evaluate, one, 1),
            "bare aiohttp": partial(run, bare("judged", str(cases), str(limit), url)),
        }
        turns = take_turns(contestants, options.pick(5, 1), options.say)
    inner = {
        "agentv": median(json.loads(usage.output)["duration_seconds"] for usage in turns["agentv"]),
        "bare aiohttp": median(_seconds(usage) for usage in turns["bare aiohttp"]),
    }
    cpu = {name: median_cpu(usages) for name, usages in turns.items()}
    without_start = (cpu["agentv"] - cpu["agentv, 1 case"]) / (cases - 1) * 1000
    about = f"{cases:,} at {limit}"
    figures = [
        Figure(f"{about}: CPU per case", cpu["agentv"] / cases * 1000, "ms", goal=2.0),
        Figure(f"{about}: CPU per case, without the start", without_start, "ms"),
        Figure(f"{about}: CPU per case, bare aiohttp", cpu["bare aiohttp"] / cases * 1000, "ms"),
        Figure(f"{about}: efficiency", ideal / inner["agentv"], goal=0.70, better="higher"),
        Figure(f"{about}: efficiency, whole command", ideal / median_wall(turns["agentv"])),
        Figure(f"{about}: efficiency, bare aiohttp", ideal / inner["bare aiohttp"]),
        Figure(f"{about}: agentv / bare aiohttp, wall", inner["agentv"] / inner["bare aiohttp"]),
        Figure(f"{about}: peak memory", peak_mb(turns["agentv"]), "MB"),
        Figure(f"{about}: peak memory, bare aiohttp", peak_mb(turns["bare aiohttp"]), "MB"),
    ]
    walls = {name: [usage.wall for usage in usages] for name, usages in turns.items()}
    return Report(NAME, figures, details={"ideal_s": ideal, "run_s": inner, "wall_s": walls, "cpu_s": cpu})


def _seconds(usage: Usage) -> float:
    return float(json.loads(usage.output)["seconds"])
