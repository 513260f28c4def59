"""Judge scripts with a reused interpreter: `warm` (Python) and `protocol: jsonl` (any language), compared with neither.

A Python script runs in all three ways, taking turns; a Node script in two. `heavy` is a module that computes for half a
second when it is loaded. Figures for Node are omitted if Node is not installed.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentv.evaluators.base import Candidate, EvaluationContext
from agentv.evaluators.code_judge import CodeJudge
from agentv.judge.choice import JudgeChoice
from agentv.judge.lending import Lender
from agentv.messages import Message
from agentv.processes.launcher import Launcher
from agentv.processes.protection import protect_runtime
from agentv.scripts import Runtime
from agentv.suite.suite import EvalCase
from agentv.targets.environment import Environment
from agentv.targets.provider import Provider, Reply, Request
from benchmarks.measure import evaluate, median, median_cpu, median_wall, take_turns
from benchmarks.options import Options
from benchmarks.report import Figure, Report

NAME = "reuse"
PYTHON = """\
import {module}
import json, os, sys

if os.environ.get("AGENTV_JUDGE_PROTOCOL") == "jsonl":
    for line in sys.stdin:
        print(json.dumps({{"score": 1.0, "execution_id": json.loads(line)["execution_id"]}}), flush=True)
else:
    json.load(sys.stdin)
    print(json.dumps({{"score": 1.0}}))
"""
NODE = """\
require("{module}");
const jsonl = process.env.AGENTV_JUDGE_PROTOCOL === "jsonl";
let text = "";
process.stdin.on("data", (chunk) => {{
  text += chunk;
  for (let end; jsonl && (end = text.indexOf("\\n")) >= 0; text = text.slice(end + 1)) {{
    const id = JSON.parse(text.slice(0, end)).execution_id;
    process.stdout.write(JSON.stringify({{ score: 1, execution_id: id }}) + "\\n");
  }}
}});
process.stdin.on("end", () => {{
  if (!jsonl) process.stdout.write(JSON.stringify({{ score: JSON.parse(text) ? 1 : 0 }}) + "\\n");
}});
"""
HEAVY_PYTHON = "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass\n"
HEAVY_NODE = """\
const used = () => process.cpuUsage().user + process.cpuUsage().system;
const end = used() + 500000;
for (let n = 0; n % 100000 || used() < end; n++);
"""
WAYS: Mapping[str, Mapping[str, Any]] = {"cold": {}, "warm": {"warm": True}, "jsonl": {"protocol": "jsonl"}}
CONFIG = "targets: {scripted: {provider: mock, response: 'yes'}}\n"


class _Yes(Provider):
    async def invoke(self, request: Request) -> Reply:
        del request
        return Reply.of_text("yes")


def measure(options: Options) -> Report:
    figures: list[Figure] = []
    details: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="agentv-bench-") as temporary:
        directory = Path(temporary)
        for label, evaluators in _scripts(directory).items():
            if options.quick and "heavy" in label:
                continue
            options.say(f"one execution after another, {label}")
            rounds = options.pick(8 if "heavy" in label else 40, 1)
            taken = asyncio.run(_one_by_one(directory, evaluators, rounds))
            milliseconds = {way: 1000 * median(times) for way, times in taken.items()}
            details[label] = milliseconds
            figures += [Figure(f"{label}: {way}", value, "ms") for way, value in milliseconds.items()]
            for cases in options.pick((24,) if "heavy" in label else (24, 200), (2,)):
                figures += _runs(directory, label, evaluators, cases, options)
    return Report(
        NAME,
        figures,
        details={"milliseconds": details},
        notes=["each execution with judge access, in turns; cases: whole runs, scripts in parallel as agentv allows"],
    )


def _scripts(directory: Path) -> dict[str, dict[str, CodeJudge]]:
    """Script -> way to run it -> evaluator. Writes the modules and scripts to the directory."""
    (directory / "heavy.py").write_text(HEAVY_PYTHON)
    (directory / "heavy.js").write_text(HEAVY_NODE)
    scripts: dict[str, dict[str, CodeJudge]] = {}
    for module in ("json", "pydantic", "heavy"):
        (directory / f"judge_{module}.py").write_text(PYTHON.format(module=module))
        scripts[f"python, {module}"] = _ways(["python", f"judge_{module}.py"], "cold", "warm", "jsonl")
    for module in ("fs", "./heavy.js") if shutil.which("node") else ():
        name = Path(module).stem
        (directory / f"judge_{name}.cjs").write_text(NODE.format(module=module))
        scripts[f"node, {name}"] = _ways(["node", f"judge_{name}.cjs"], "cold", "jsonl")
    return scripts


def _ways(script: list[str], *ways: str) -> dict[str, CodeJudge]:
    common = {"name": "judge", "type": "code_judge", "script": script, "judge": {}}
    return {way: CodeJudge.model_validate({**common, **WAYS[way]}) for way in ways}


async def _one_by_one(directory: Path, evaluators: Mapping[str, CodeJudge], rounds: int) -> dict[str, list[float]]:
    """The first turn is not counted: it starts the process that the others reuse."""
    taken: dict[str, list[float]] = {way: [] for way in evaluators}
    async with Launcher() as launcher:
        lender = Lender(JudgeChoice(main="judge"), live={"judge": _Yes()})
        runtime = Runtime(launcher, lender, environment=Environment(dict(os.environ)))
        case = EvalCase("case", "question", (Message("user", "question"),))
        context = EvaluationContext(case, Candidate("answer"), directory=directory, runtime=runtime)
        with protect_runtime():
            for _ in range(rounds + 1):
                for way, evaluator in evaluators.items():
                    started = time.perf_counter()
                    score = await evaluator.evaluate(context)
                    taken[way].append(time.perf_counter() - started)
                    assert not score.warnings, score.warnings
    return {way: times[1:] for way, times in taken.items()}


def _runs(
    directory: Path, label: str, evaluators: Mapping[str, CodeJudge], cases: int, options: Options
) -> list[Figure]:
    """Measure whole runs, including the start of all reused processes: one per script running in parallel."""
    (directory / "agentv.config.yaml").write_text(CONFIG)
    lines = (json.dumps({"id": f"case-{number}", "input": "question"}) for number in range(cases))
    (directory / "cases.jsonl").write_text("".join(f"{line}\n" for line in lines))
    for way, evaluator in evaluators.items():
        entry = {"name": "judge", "type": "code_judge", "script": evaluator.script, "judge": {}, **WAYS[way]}
        suite = {"execution": {"evaluators": [entry]}, "evalcases": "cases.jsonl"}
        (directory / f"{way}.yaml").write_text(json.dumps(suite))
    used = take_turns(
        {way: lambda way=way: evaluate(directory / f"{way}.yaml", cases) for way in evaluators},  # type: ignore[misc]
        options.pick(3, 1),
        options.say,
    )
    return [
        figure
        for way in evaluators
        for figure in (
            Figure(f"{label}: {cases} cases, {way}", median_wall(used[way]), "s"),
            Figure(f"{label}: {cases} cases, {way}, CPU per case", median_cpu(used[way]) / cases * 1000, "ms"),
        )
    ]
