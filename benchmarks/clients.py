"""The cost of a model call in the client: agentv's own client compared with other libraries.

The model server is a separate process and answers immediately, so only the client is measured. CPU time covers the
calls only: imports, connections and a warm-up round are done before the clock starts.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from functools import partial

from benchmarks.latency import model_server
from benchmarks.measure import ROOT, Usage, median, peak_mb, run, take_turns
from benchmarks.options import Options
from benchmarks.report import Figure, Report

NAME = "clients"
LABELS = {
    "agentv": "agentv",
    "aiohttp": "bare aiohttp",
    "openai": "openai SDK",
    "pydantic_ai": "pydantic-ai",
}


def measure(options: Options) -> Report:
    clients = [name for name in LABELS if name == "agentv" or importlib.util.find_spec(name)]
    missing = [LABELS[name] for name in LABELS if name not in clients]
    figures: list[Figure] = []
    details: dict[str, object] = {}
    with model_server(delay=0.0) as url:
        for limit in options.pick((50, 200), (5,)):
            calls = options.pick(2_000, 20)
            contestants = {name: partial(run, _command(name, calls, limit, url), cwd=ROOT) for name in clients}
            turns = take_turns(contestants, options.pick(3, 1), options.say)
            cpu = {name: median(_spent(usage, "cpu_seconds") for usage in turns[name]) / calls for name in clients}
            figures += _figures(limit, cpu, {name: peak_mb(turns[name]) for name in clients})
            details[f"{calls} calls, {limit} in flight"] = {
                name: [json.loads(usage.output) for usage in usages] for name, usages in turns.items()
            }
    notes = [f"not measured (not installed): {', '.join(missing)}"] if missing else []
    return Report(NAME, figures, details=details, notes=notes)


def _figures(limit: int, cpu: dict[str, float], memory: dict[str, float]) -> list[Figure]:
    figures = []
    for name, seconds in cpu.items():
        figures += [
            Figure(f"{limit} in flight: CPU per call, {LABELS[name]}", seconds * 1000, "ms"),
            Figure(f"{limit} in flight: calls per second of one core, {LABELS[name]}", 1 / seconds),
            Figure(f"{limit} in flight: peak memory, {LABELS[name]}", memory[name], "MB"),
        ]
    others = [name for name in cpu if name != "agentv"]
    return figures + [
        Figure(f"{limit} in flight: agentv / {LABELS[name]}, CPU", cpu["agentv"] / cpu[name]) for name in others
    ]


def _command(client: str, calls: int, limit: int, url: str) -> list[str]:
    return [sys.executable, "-m", "benchmarks.client_calls", client, str(calls), str(limit), url]


def _spent(usage: Usage, what: str) -> float:
    return float(json.loads(usage.output)[what])
