"""Judge scripts: the overhead of an execution over starting the program, and executions with many judge calls."""

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
from benchmarks.measure import Usage, agentv, median, run
from benchmarks.options import Options
from benchmarks.report import Figure, Report

NAME = "scripts"

PLAIN = "import json, sys\njson.load(sys.stdin)\nprint(json.dumps({'score': 1.0}))\n"
ASKS = """\
from agentv_eval import code_judge, create_judge_proxy_client

@code_judge
def judge(input):
    with create_judge_proxy_client() as judge:
        for _ in range(10):
            judge.invoke(question="relevant?")
        judge.invoke_batch([{"question": "relevant?"}] * 10)
    return 1.0
"""
CONFIG = "targets: {scripted: {provider: mock, response: 'yes'}}\n"


class _Yes(Provider):
    async def invoke(self, request: Request) -> Reply:
        del request
        return Reply.of_text("yes")


def measure(options: Options) -> Report:
    with tempfile.TemporaryDirectory(prefix="agentv-bench-") as temporary:
        directory = Path(temporary)
        (directory / "plain.py").write_text(PLAIN)
        options.say("one execution after another")
        spawned, judged, with_access = asyncio.run(_one_by_one(directory, options.pick(100, 3)))
        options.say("many executions with many judge calls")
        executions = options.pick(1000, 4)
        used, calls, failed = _many(directory, executions)
    bare = median(spawned)
    return Report(
        NAME,
        [
            Figure("execution with judge access / bare posix_spawn, wall", median(with_access) / bare, goal=1.15),
            Figure("execution without judge access / bare posix_spawn, wall", median(judged) / bare),
            Figure("bare posix_spawn of the script", bare * 1000, "ms"),
            Figure("execution with judge access", median(with_access) * 1000, "ms"),
            Figure("judge calls in one run", calls),
            Figure("of them failed or missing", failed + (20 * executions - calls), goal=0),
            Figure("judge calls per second, whole run", calls / used.wall, "/s"),
            Figure("CPU per execution with 20 calls", used.cpu / executions * 1000, "ms"),
            Figure("peak memory of the run", used.peak_mb, "MB"),
        ],
        details={"executions": executions},
        notes=["the script: python, json in, json out; with calls: the SDK, ten single calls and a batch of ten"],
    )


async def _one_by_one(directory: Path, rounds: int) -> tuple[list[float], list[float], list[float]]:
    """Run the same script in three ways, taking turns: bare, through the launcher, and with a proxy too."""
    common = {"type": "code_judge", "script": ["python", "plain.py"]}
    plain = CodeJudge.model_validate({"name": "plain", **common})
    asks = CodeJudge.model_validate({"name": "asks", **common, "judge": {}})
    case = EvalCase("case", "question", (Message("user", "question"),))
    taken: tuple[list[float], list[float], list[float]] = ([], [], [])
    async with Launcher() as launcher:
        runtime = Runtime(
            launcher,
            Lender(JudgeChoice(main="judge"), live={"judge": _Yes()}),
            environment=Environment(dict(os.environ)),
        )
        context = EvaluationContext(case, Candidate("answer"), directory=directory, runtime=runtime)
        with protect_runtime():
            for _ in range(rounds + 1):
                started = time.perf_counter()
                _bare(directory)
                taken[0].append(time.perf_counter() - started)
                for place, evaluator in enumerate((plain, asks), 1):
                    started = time.perf_counter()
                    await evaluator.evaluate(context)
                    taken[place].append(time.perf_counter() - started)
    return taken[0][1:], taken[1][1:], taken[2][1:]


def _bare(directory: Path) -> None:
    """Start the script, send it a payload, read its answer, and wait for it to exit."""
    in_read, in_write = os.pipe()
    out_read, out_write = os.pipe()
    child = os.posix_spawn(
        sys.executable,
        [sys.executable, str(directory / "plain.py")],
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_DUP2, in_read, 0),
            (os.POSIX_SPAWN_DUP2, out_write, 1),
            *((os.POSIX_SPAWN_CLOSE, number) for number in (in_write, out_read)),
        ],
    )
    os.close(in_read)
    os.close(out_write)
    os.write(in_write, b"{}")
    os.close(in_write)
    while os.read(out_read, 65536):
        pass
    os.close(out_read)
    os.waitpid(child, 0)


def _many(directory: Path, executions: int) -> tuple[Usage, int, int]:
    """Measure a whole run; returns its usage, and the numbers of answered and failed judge calls."""
    (directory / "asks.py").write_text(ASKS)
    (directory / "agentv.config.yaml").write_text(CONFIG)
    evaluator = {"name": "asks", "type": "code_judge", "script": ["python", "asks.py"], "judge": {"max_calls": 20}}
    head = {"execution": {"evaluators": [evaluator]}, "evalcases": "cases.jsonl"}
    (directory / "suite.yaml").write_text(json.dumps(head))
    lines = (json.dumps({"id": f"case-{n}", "input": "question"}) for n in range(executions))
    (directory / "cases.jsonl").write_text("".join(f"{line}\n" for line in lines))
    used = run(agentv("eval", "suite.yaml", "--quiet", "--workers", "50", "--run-dir", "run"), cwd=directory)
    with (directory / "run" / "judge_calls.jsonl").open() as file:
        ended = [json.loads(line)["status"] for line in file]
    return used, ended.count("ok"), len(ended) - ended.count("ok")
