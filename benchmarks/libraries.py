"""`python -m benchmarks.libraries`: judge scripts with unmodified metrics of libraries, cold and warm.

Each library is installed in a virtual environment of its own, or `--venvs` names a directory with environments (and
keeps those that are installed there). Libraries get the variables that stop their telemetry, and 127.0.0.1 as the
only model.

`python -m benchmarks.libraries --serve` is the model: it answers with an example of the request's JSON Schema.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
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
from agentv.testing.model_server import FakeModelServer
from benchmarks.measure import (
    RESULTS,
    ROOT,
    FailedError,
    environment,
    evaluate,
    median,
    median_cpu,
    median_wall,
    run,
    take_turns,
)
from benchmarks.options import Options
from benchmarks.report import Figure, Report, machine

NAME = "libraries"
PROGRAMS = Path(__file__).parent / "peers" / "programs"
PAGE = ROOT / "docs" / "performance.md"
CASES = 20
ABOUT = {
    "cold": "as a judge script, cold",
    "warm": "as a judge script, warm",
    "deepeval": "in DeepEval itself, with a key",
}
GOAL_MS = 50.0
QUIET = {
    "DEEPEVAL_TELEMETRY_OPT_OUT": "1",
    "DEEPEVAL_DISABLE_DOTENV": "1",
    "RAGAS_DO_NOT_TRACK": "true",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_MODE": "PRODUCTION",
    "HF_HUB_OFFLINE": "1",
    "ANONYMIZED_TELEMETRY": "False",
}
LIBRARIES = {
    "deepeval": ("deepeval",),
    "ragas": ("ragas", "openai", "langchain-community<0.4"),
    "llamaindex": ("llama-index-core", "llama-index-llms-openai"),
    "dspy": ("dspy",),
}
"""What to install for each library; the first requirement is the library."""


# -- the model


def reply(text: str, schema: Mapping[str, Any] | None) -> str:
    """A reply that every metric above understands, and that passes."""
    if schema is None and (found := re.search(r"JSON Schema:\s*(\{.*)", text)) is not None:
        schema, _ = json.JSONDecoder().raw_decode(found[1])
    if schema is not None:
        return json.dumps(example(schema, schema))
    if "[[ ## correct ## ]]" in text:
        return "[[ ## correct ## ]]\nTrue\n\n[[ ## completed ## ]]"
    return "5.0\nIt is right."


def example(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    """The simplest value that a JSON Schema allows: `yes`, 1, true, and lists with two items."""
    if "$ref" in schema:
        return example(root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    if "anyOf" in schema:
        return example(schema["anyOf"][0], root)
    kind = schema.get("type")
    if kind == "object":
        return {name: example(member, root) for name, member in schema.get("properties", {}).items()}
    if kind == "array":
        return [example(schema["items"], root)] * 2
    values = {"string": "yes", "integer": 1, "number": 1.0, "boolean": True}
    return schema["enum"][0] if "enum" in schema else values[str(kind)]


class Scripted(Provider):
    async def invoke(self, request: Request) -> Reply:
        text = "\n".join(str(message.content) for message in request.messages)
        return Reply.of_text(reply(text, request.options.response_schema))


async def serve() -> None:
    def answer(body: Any) -> str:
        schema = body.get("response_format", {}).get("json_schema", {}).get("schema")
        return reply("\n".join(str(message["content"]) for message in body["messages"]), schema)

    async with FakeModelServer(answer, keep_requests=False) as server:
        print(server.url, flush=True)
        await asyncio.get_running_loop().create_future()


@contextlib.contextmanager
def model() -> Iterator[str]:
    command = [sys.executable, "-m", "benchmarks.libraries", "--serve"]
    with subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


# -- the libraries


@dataclass(frozen=True, slots=True)
class Installed:
    name: str
    python: Path
    version: str


def install(name: str, place: Path) -> Installed:
    """The environment of a library; made in `place` if it is not there yet."""
    packages, python = LIBRARIES[name], place / name / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(place / name)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *packages], check=True)
    asked = f"import importlib.metadata as m; print(m.version({packages[0]!r}))"
    version = subprocess.run([str(python), "-c", asked], check=True, capture_output=True, text=True).stdout
    return Installed(name, python, version.strip())


# -- one execution after another


@dataclass(frozen=True, slots=True)
class Taken:
    """One execution, in milliseconds: until the script's first line after its imports, until its end, and its CPU."""

    start: float
    whole: float
    cpu: float


def starts(library: Installed, home: Path, rounds: int) -> list[Figure]:
    medians = [
        Taken(*(median(getattr(each, name) for each in taken) for name in ("start", "whole", "cpu")))
        for taken in asyncio.run(_one_by_one(library, home, rounds))
    ]
    cold, warm = medians
    name = f"{library.name} {library.version}"
    return [
        Figure(f"{name}: first line, cold", cold.start, "ms"),
        Figure(f"{name}: first line, warm", warm.start, "ms", goal=GOAL_MS),
        Figure(f"{name}: CPU, cold", cold.cpu, "ms"),
        Figure(f"{name}: CPU, warm", warm.cpu, "ms"),
        Figure(f"{name}: whole execution, warm / cold", warm.whole / cold.whole),
    ]


async def _one_by_one(library: Installed, home: Path, rounds: int) -> tuple[list[Taken], list[Taken]]:
    """The same script cold and warm, taking turns; the first turn, which starts the zygote, is not counted."""
    common = {"type": "code_judge", "script": [str(library.python), str(PROGRAMS / f"judge_{library.name}.py")]}
    evaluators = [
        CodeJudge.model_validate({"name": "judge", **common, "judge": {}, "timeout_seconds": 120, "warm": warm})
        for warm in (False, True)
    ]
    taken: tuple[list[Taken], list[Taken]] = ([], [])
    async with Launcher() as launcher:
        runtime = Runtime(
            launcher,
            Lender(JudgeChoice(main="judge"), live={"judge": Scripted()}),
            environment=Environment({**environment(), **QUIET, "HOME": str(home)}),
        )
        question = "What is the capital of France?"
        context = EvaluationContext(
            EvalCase("case", question, (Message("user", question),)),
            Candidate("Paris"),
            directory=home,
            runtime=runtime,
        )
        with protect_runtime():
            for _ in range(rounds + 1):
                for times, evaluator in zip(taken, evaluators, strict=True):
                    started = time.monotonic()
                    score = await evaluator.evaluate(context)
                    ended = time.monotonic()
                    if score.score != 1.0 or score.warnings or not score.details:
                        raise FailedError(f"{library.name}: {score}")
                    begun, cpu = float(score.details["begun"]), float(score.details["cpu"])
                    times.append(Taken((begun - started) * 1000, (ended - started) * 1000, cpu * 1000))
    return taken[0][1:], taken[1][1:]


# -- whole runs


def whole_runs(library: Installed, directory: Path, options: Options) -> list[Figure]:
    """The same cases and the same metric as a cold and as a warm judge script, and in DeepEval itself."""
    cases = options.pick(CASES, 2)
    with model() as url:
        target = {"provider": "openai_compatible", "base_url": url, "model": "fake", "api_key": "${{ FAKE_KEY }}"}
        targets = {"assistant": {"provider": "mock", "response": "Paris"}, "judge": target}
        config = {"targets": targets, "defaults": {"target": "assistant", "judge_target": "judge"}}
        (directory / "agentv.config.yaml").write_text(json.dumps(config))
        asked = [{"id": f"case-{n}", "input": f"What is the capital of France? ({n})"} for n in range(cases)]
        for name, warm in (("cold", False), ("warm", True)):
            script = [str(library.python), str(PROGRAMS / "judge_deepeval.py")]
            judge = {"name": "precision", "type": "code_judge", "script": script, "judge": {}, "timeout_seconds": 120}
            suite = {"execution": {"evaluators": [{**judge, "warm": warm}]}, "evalcases": asked}
            (directory / f"{name}.yaml").write_text(json.dumps(suite))
        os.environ.update(QUIET, FAKE_KEY="made-up", HOME=str(directory))
        own = ["env", "OPENAI_API_KEY=made-up", f"OPENAI_BASE_URL={url}", str(library.python)]
        contestants = {
            "cold": partial(evaluate, directory / "cold.yaml", cases),
            "warm": partial(evaluate, directory / "warm.yaml", cases),
            "deepeval": lambda: run([*own, str(PROGRAMS / "deepeval_cases.py"), str(cases)], cwd=directory),
        }
        used = take_turns(contestants, options.pick(3, 1), options.say)
    assert all(f"passed {cases}" in each.output for each in used["deepeval"]), used["deepeval"][0].output
    return [
        Figure(f"{cases} cases, {ABOUT[key]}: {unit}", value(each), "s")
        for key, each in used.items()
        for unit, value in (("wall", median_wall), ("CPU", median_cpu))
    ]


def table(figures: Sequence[Figure]) -> str:
    """The figures as a table: what comes before the last colon of a name is its row, the rest its column."""
    rows: dict[str, dict[str, str]] = {}
    for figure in figures:
        row, _, column = figure.name.rpartition(": ")
        rows.setdefault(row, {})[column] = figure.text
    columns = list(next(iter(rows.values())))
    lines = [f"| {' | '.join(['', *columns])} |", "| --- " * (len(columns) + 1) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join([name, *row.values()])} |" for name, row in rows.items())])


def write(report: Report) -> None:
    """Replace the tables in the page."""
    begin, end = f"<!-- {NAME}: begin -->", f"<!-- {NAME}: end -->"
    now, about = datetime.now(UTC), machine()
    runs = [figure for figure in report.figures if " cases, " in figure.name]
    single = [figure for figure in report.figures if figure not in runs]
    parts = [
        f"{now:%Y-%m-%d}, Python {about['python']}, {about['cpus']} CPUs, load {report.details['load']:.1f}:",
        table(single),
    ]
    parts += [table(runs)] if runs else []
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(begin)
    text = "\n\n".join([begin, *parts, end])
    PAGE.write_text(f"{before}{text}{rest.partition(end)[2]}", encoding="utf-8")


def measure(names: Sequence[str], place: Path, options: Options) -> Report:
    figures: list[Figure] = []
    load = machine()["load"]
    for name in names:
        options.say(f"{name}: installing")
        library = install(name, place)
        with tempfile.TemporaryDirectory(prefix="agentv-libraries-") as directory:
            options.say(f"{name}: cold and warm in turns")
            figures += starts(library, Path(directory), options.pick(5, 1))
            if name == "deepeval":
                figures += whole_runs(library, Path(directory), options)
    return Report(
        NAME,
        figures,
        details={"load": load},
        notes=[
            "first line: from the job to the script's first line after its imports; medians of turns, one at a time",
            "20 cases: default number of workers, the same fake server with OpenAI's API for all three, in turns",
        ],
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.libraries", description="Metric libraries, cold and warm."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(LIBRARIES)}; all by default")
    parser.add_argument("--venvs", type=Path, metavar="DIR", help="directory with one environment per library")
    parser.add_argument("--quick", action="store_true", help="run a smoke test; the numbers are meaningless")
    parser.add_argument("--write", action="store_true", help="write the table to docs/performance.md")
    parser.add_argument("--serve", action="store_true", help="only serve the model, and print its address")
    args = parser.parse_args(arguments)
    if args.serve:
        asyncio.run(serve())
    options = Options(quick=args.quick, peers=False, say=lambda text: print(text, file=sys.stderr, flush=True))
    print(f"python {machine()['python']}, {machine()['cpus']} CPUs, load {machine()['load']:.1f}\n", flush=True)
    with tempfile.TemporaryDirectory(prefix="agentv-venvs-") as scratch:
        place = (args.venvs or Path(scratch)).absolute()
        report = measure(args.names or list(LIBRARIES), place, options)
    report.write(RESULTS, quick=args.quick)
    print(report.table())
    if args.write:
        write(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
