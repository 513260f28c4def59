"""Warm judges: the cost of an execution with preloaded modules, compared with starting the script each time.

python -m benchmarks.warm CASES IN_FLIGHT FILE     spawns a script that calls a judge, without any framework
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path

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
from benchmarks.measure import ROOT, evaluate, median, median_cpu, median_wall, run, take_turns
from benchmarks.options import Options
from benchmarks.report import Figure, Report

NAME = "warm"
IN_FLIGHT = 50

SCRIPT = "import {module}\nimport json, sys\njson.load(sys.stdin)\nprint(json.dumps({{'score': 1.0}}))\n"
HEAVY = "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass\n"
MODULES = {"json": 5.0, "pydantic": 5.0, "heavy": None, "openai": None}
"""Module -> goal for a warm execution, in milliseconds."""
ASKS = """\
from agentv_eval import code_judge

@code_judge
def judge(input, judge):
    judge.invoke(question="relevant?")
    return 1.0
"""
CONFIG = "targets: {scripted: {provider: mock, response: 'yes'}}\n"


class _Yes(Provider):
    async def invoke(self, request: Request) -> Reply:
        del request
        return Reply.of_text("yes")


def measure(options: Options) -> Report:
    modules = {name: goal for name, goal in MODULES.items() if name != "openai" or not options.quick}
    with tempfile.TemporaryDirectory(prefix="agentv-bench-") as temporary:
        directory = Path(temporary)
        (directory / "heavy").mkdir()
        (directory / "heavy" / "__init__.py").write_text(HEAVY)
        taken = {}
        for module in modules:
            options.say(f"one execution after another, import {module}")
            (directory / f"{module}.judge.py").write_text(SCRIPT.format(module=module))
            heavy = MODULES[module] is None
            taken[module] = asyncio.run(_one_by_one(directory, module, options.pick(10 if heavy else 60, 2)))
        figures = [figure for module, goal in modules.items() for figure in _sequential(module, goal, *taken[module])]
        figures += _run(directory, options)
    return Report(
        NAME,
        figures,
        details={"milliseconds": {module: [1000 * median(each) for each in both] for module, both in taken.items()}},
        notes=[
            "each execution with judge access; cold and warm in turns; heavy: a package that computes for 0.5 s",
            "cases: a script on the SDK with one judge call, 50 in flight; plain: the same script spawned by asyncio",
        ],
    )


def _sequential(module: str, goal: float | None, cold: list[float], warm: list[float]) -> list[Figure]:
    return [
        Figure(f"import {module}: warm execution", median(warm) * 1000, "ms", goal=goal),
        Figure(f"import {module}: warm / cold, wall", median(warm) / median(cold)),
    ]


async def _one_by_one(directory: Path, module: str, rounds: int) -> tuple[list[float], list[float]]:
    """Run the same script cold and warm, taking turns; the first turn, which starts the zygote, is not counted."""
    common = {"type": "code_judge", "script": ["python", f"{module}.judge.py"], "judge": {}}
    evaluators = [CodeJudge.model_validate({"name": "judge", **common, "warm": warm}) for warm in (False, True)]
    taken: tuple[list[float], list[float]] = ([], [])
    async with Launcher() as launcher:
        runtime = Runtime(
            launcher,
            Lender(JudgeChoice(main="judge"), live={"judge": _Yes()}),
            environment=Environment(dict(os.environ)),
        )
        case = EvalCase("case", "question", (Message("user", "question"),))
        context = EvaluationContext(case, Candidate("answer"), directory=directory, runtime=runtime)
        with protect_runtime():
            for _ in range(rounds + 1):
                for times, evaluator in zip(taken, evaluators, strict=True):
                    started = time.perf_counter()
                    score = await evaluator.evaluate(context)
                    times.append(time.perf_counter() - started)
                    assert not score.warnings, score.warnings
    return taken[0][1:], taken[1][1:]


def _run(directory: Path, options: Options) -> list[Figure]:
    """Whole runs of a suite, compared with spawning the same script for each case."""
    cases = options.pick(200, 4)
    (directory / "asks.py").write_text(ASKS)
    (directory / "agentv.config.yaml").write_text(CONFIG)
    lines = (json.dumps({"id": f"case-{n}", "input": "question"}) for n in range(cases))
    (directory / "cases.jsonl").write_text("".join(f"{line}\n" for line in lines))
    for name, warm in (("cold", False), ("warm", True)):
        evaluator = {"name": "asks", "type": "code_judge", "script": ["python", "asks.py"], "judge": {}, "warm": warm}
        head = {"execution": {"evaluators": [evaluator]}, "evalcases": "cases.jsonl"}
        (directory / f"{name}.yaml").write_text(json.dumps(head))
    workers = ("--workers", str(IN_FLIGHT))
    used = take_turns(
        {
            "plain": lambda: run(_plain(cases, directory / "asks.py"), cwd=ROOT),
            "cold": lambda: evaluate(directory / "cold.yaml", cases, *workers),
            "warm": lambda: evaluate(directory / "warm.yaml", cases, *workers),
        },
        options.pick(3, 1),
        options.say,
    )
    plain, cold, warmed = (used[name] for name in ("plain", "cold", "warm"))
    return [
        Figure(f"{cases} cases with a judge call: warm / plain spawning, wall",
               median_wall(warmed) / median_wall(plain), goal=0.3),
        Figure(f"{cases} cases with a judge call: warm / cold, wall", median_wall(warmed) / median_wall(cold)),
        Figure("CPU per case with a judge call, warm", median_cpu(warmed) / cases * 1000, "ms", goal=20),
        Figure("CPU per case with a judge call, cold", median_cpu(cold) / cases * 1000, "ms"),
        Figure("CPU per case with a judge call, plain spawning", median_cpu(plain) / cases * 1000, "ms"),
    ]  # fmt: skip


# -- the same without any framework


def _plain(cases: int, script: Path) -> list[str]:
    return [sys.executable, "-m", "benchmarks.warm", str(cases), str(IN_FLIGHT), str(script)]


async def spawn(cases: int, limit: int, script: str) -> None:
    """Start the script for every case, at most `limit` of them concurrently, and answer its judge calls."""
    reply = json.dumps({"outputMessages": [{"role": "assistant", "content": "yes"}], "rawText": "yes"}).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(reply)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
            elif line == b"\r\n":
                await reader.readexactly(length)
                writer.write(head + reply)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    env = {**os.environ, "AGENTV_JUDGE_PROXY_URL": url, "AGENTV_JUDGE_PROXY_TOKEN": "token"}
    slots = asyncio.Semaphore(limit)

    async def one() -> None:
        async with slots:
            process = await asyncio.create_subprocess_exec(
                sys.executable, script, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env=env
            )
            stdout, _ = await process.communicate(b"{}")
            assert json.loads(stdout)["score"] == 1.0

    await asyncio.gather(*(one() for _ in range(cases)))
    server.close()


if __name__ == "__main__":
    asyncio.run(spawn(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
