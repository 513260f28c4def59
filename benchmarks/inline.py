"""Checks in one line of Python or JavaScript: whole runs, compared with `contains` and with judge scripts."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.measure import evaluate, median_cpu, median_wall, take_turns
from benchmarks.options import Options
from benchmarks.report import Figure, Report

NAME = "inline"
CASES = 1_000
SCRIPT = """\
from agentv_eval import code_judge

@code_judge
def judge(input):
    return float(len(input.candidate_answer) < 400)
"""
SCRIPT_ENTRY = {"type": "code_judge", "script": ["python", "judge.py"]}
WAYS: dict[str, dict[str, Any]] = {
    "contains": {"type": "contains", "value": "yes"},
    "python": {"type": "python", "value": "len(answer) < 400"},
    "javascript": {"type": "javascript", "value": "answer.length < 400"},
    "code_judge, warm": {**SCRIPT_ENTRY, "warm": True},
    "code_judge, jsonl": {**SCRIPT_ENTRY, "protocol": "jsonl"},
}
CONFIG = "targets: {scripted: {provider: mock, response: 'yes'}}\n"


def measure(options: Options) -> Report:
    cases = options.pick(CASES, 20)
    ways = {way: entry for way, entry in WAYS.items() if way != "javascript" or shutil.which("node")}
    with tempfile.TemporaryDirectory(prefix="agentv-bench-") as temporary:
        directory = Path(temporary)
        (directory / "agentv.config.yaml").write_text(CONFIG)
        (directory / "judge.py").write_text(SCRIPT)
        lines = (json.dumps({"id": f"case-{number}", "input": "question"}) for number in range(cases))
        (directory / "cases.jsonl").write_text("".join(f"{line}\n" for line in lines))
        for number, entry in enumerate(ways.values()):
            suite = {"execution": {"evaluators": [entry]}, "evalcases": "cases.jsonl"}
            (directory / f"suite-{number}.yaml").write_text(json.dumps(suite))
        used = take_turns(
            {
                way: lambda number=number: evaluate(directory / f"suite-{number}.yaml", cases)  # type: ignore[misc]
                for number, way in enumerate(ways)
            },
            options.pick(3, 1),
            options.say,
        )
    seconds = {way: median_wall(used[way]) for way in ways}
    figures = [Figure(f"{cases:,} cases, {way}", seconds[way], "s") for way in ways]
    figures += [Figure(f"{way}, CPU per case", median_cpu(used[way]) / cases * 1000, "ms") for way in ways]
    figures += [
        Figure("python / contains", seconds["python"] / seconds["contains"], "x"),
        Figure("python / code_judge, warm", seconds["python"] / seconds["code_judge, warm"], "x"),
    ]
    return Report(NAME, figures, notes=["whole runs with a scripted target, one check per case, taking turns"])
