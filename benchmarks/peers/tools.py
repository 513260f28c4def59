"""The tools: how to install each of them, run a workload, and read the number of passed cases."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.peers.server import ASSISTANT, GRADE_JUDGE, JSON_JUDGE, TEN_JUDGE, TOOL_JUDGE
from benchmarks.peers.workloads import Workload

PROGRAMS = Path(__file__).with_name("programs")
KEY = "OPENAI_API_KEY"
Passed = Callable[[Path, str], int]
Prepare = Callable[[Path, Workload], list[str]]


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool, or one way to use it."""

    key: str
    """The name for `--tools`."""
    name: str
    prepare: Prepare
    """Writes the tool's files to the directory and returns the command. `{bin}` is the directory of its commands."""
    passed: Passed
    """Reads the number of passed cases from the directory of the run and the output."""
    version: tuple[str, ...]
    packages: tuple[str, ...] = ()
    """Packages to install; the version of the first one is reported. None for agentv."""
    node: bool = False
    only: tuple[str, ...] | None = None
    """The workloads to run; default: all."""
    judges: dict[str, str] = field(default_factory=dict)
    """Workload -> judge model; default: one that answers in JSON."""

    in_process: bool = False
    """Whether the scorer that calls the judge is a function in the tool's process instead of a script."""

    def judge(self, workload: Workload) -> str:
        return self.judges.get(workload.name) or self.judges.get("", JSON_JUDGE)


def questions(cases: int) -> list[str]:
    return [f"What is the capital of France? ({n})" for n in range(cases)]


def copy(directory: Path, *names: str) -> None:
    for name in names:
        (directory / name).write_text((PROGRAMS / name).read_text(encoding="utf-8"), encoding="utf-8")


def printed_count(_: Path, printed: str) -> int:
    found = re.findall(r"^passed (\d+)$", printed, re.MULTILINE)
    return int(found[-1]) if found else 0


# agentv, this project

OWN_CONFIG = f"""\
targets:
  assistant: {{{{provider: openai, model: {ASSISTANT}, max_concurrency: {{places}}, judge_target: judge}}}}
  judge: {{{{provider: openai, model: {JSON_JUDGE}, max_concurrency: {{places}}}}}}
defaults: {{{{target: assistant}}}}
"""
OWN_EVALUATORS = {
    "contains": "{name: right, type: contains, value: Paris}",
    "llm-judge": "{name: right, type: llm_judge}",
    "script": "{name: right, type: code_judge, script: [python, script.py]}",
    "script-judge": "{name: right, type: code_judge, script: [python, asking_ours.py], judge: {max_calls: 1}}",
}


def prepare_own(directory: Path, workload: Workload, *, warm: bool = False) -> list[str]:
    copy(directory, "script.py", "asking_ours.py")
    # agentv limits calls to the target and to the judge separately; together they have the limit of the other tools.
    places = max(1, workload.in_flight // workload.calls)
    (directory / "agentv.config.yaml").write_text(OWN_CONFIG.format(places=places))
    evaluator = OWN_EVALUATORS[scorer_of(workload)]
    head = f"execution:\n  evaluators:\n    - {evaluator}\n{'  warm: true' if warm else ''}\n"
    cases = (
        f"  - id: case-{n:06}\n    input: {question}\n    expected_outcome: Names Paris\n"
        for n, question in enumerate(questions(workload.cases))
    )
    (directory / "suite.yaml").write_text(f"{head}evalcases:\n{''.join(cases)}")
    return ["{bin}/agentv", "eval", "suite.yaml", "--json", "--workers", str(places)]


def prepare_warm(directory: Path, workload: Workload) -> list[str]:
    return prepare_own(directory, workload, warm=True)


def passed_own(_: Path, printed: str) -> int:
    found = re.search(r"^\{.*", printed, re.MULTILINE | re.DOTALL)
    return int(json.JSONDecoder().raw_decode(found[0])[0]["passed"]) if found else 0


def scorer_of(workload: Workload) -> str:
    """The scorer of a workload; the workload of one case uses the cheapest check."""
    return "contains" if workload.name == "one-case" else workload.name


# Python libraries: a program that takes the workload as an argument


def library(program: str) -> Prepare:
    def prepare(directory: Path, workload: Workload) -> list[str]:
        copy(directory, program, "script.py")
        return ["{bin}/python", program, scorer_of(workload), str(workload.cases), str(workload.in_flight)]

    return prepare


# promptfoo

PROMPTFOO_ASSERTS = {
    "contains": {"type": "contains", "value": "Paris"},
    "llm-judge": {"type": "llm-rubric", "value": "Names Paris"},
    "script": {"type": "python", "value": "file://assertion.py"},
    "script-judge": {"type": "python", "value": "file://asking.py"},
}


def prepare_promptfoo(directory: Path, workload: Workload) -> list[str]:
    copy(directory, "assertion.py", "asking.py")
    config = {
        "prompts": ["{{question}}"],
        "providers": [f"openai:chat:{ASSISTANT}"],
        "defaultTest": {
            "assert": [PROMPTFOO_ASSERTS[scorer_of(workload)]],
            "options": {"provider": f"openai:chat:{JSON_JUDGE}"},
        },
        "tests": [{"vars": {"question": question}} for question in questions(workload.cases)],
    }
    (directory / "promptfooconfig.json").write_text(json.dumps(config))
    options = ["--no-cache", "--no-progress-bar", "--no-table", "--max-concurrency", str(workload.in_flight)]
    return ["{bin}/promptfoo", "eval", "--config", "promptfooconfig.json", *options, "--output", "out.json"]


def passed_promptfoo(directory: Path, _: str) -> int:
    return int(json.loads((directory / "out.json").read_text(encoding="utf-8"))["results"]["stats"]["successes"])


# AgentV, the npm package

NPM_TARGETS = f"""\
targets:
  - {{name: assistant, provider: openai, base_url: "${{{{ OPENAI_BASE_URL }}}}", api_key: "${{{{ {KEY} }}}}",
     model: "${{{{ ASSISTANT_MODEL }}}}", grader_target: judge, workers: 50}}
  - {{name: judge, provider: openai, base_url: "${{{{ OPENAI_BASE_URL }}}}", api_key: "${{{{ {KEY} }}}}",
     model: "${{{{ JUDGE_MODEL }}}}", workers: 50}}
"""


def prepare_npm(directory: Path, workload: Workload) -> list[str]:
    copy(directory, "script.py", "asking.py")
    python = json.dumps(sys.executable)
    assertion = {
        "contains": "{name: right, type: contains, value: Paris}",
        "llm-judge": "{name: right, type: llm-grader}",
        "script": f"{{name: right, type: code-grader, command: [{python}, script.py]}}",
        "script-judge": f"{{name: right, type: code-grader, command: [{python}, asking.py], target: {{max_calls: 1}}}}",
    }[scorer_of(workload)]
    cases = (
        f"  - id: case-{n:06}\n    criteria: Names Paris\n    input: {question}\n    assertions: [{assertion}]\n"
        for n, question in enumerate(questions(workload.cases))
    )
    (directory / "suite.eval.yaml").write_text(f"execution: {{target: assistant}}\ntests:\n{''.join(cases)}")
    (directory / "targets.yaml").write_text(NPM_TARGETS)
    options = ["--targets", "targets.yaml", "--output", "out", "--workers", str(workload.in_flight)]
    return ["{bin}/agentv", "eval", "suite.eval.yaml", *options]


def passed_npm(directory: Path, _: str) -> int:
    lines = (directory / "out" / "index.jsonl").read_text(encoding="utf-8").splitlines()
    return sum(json.loads(line).get("score") == 1 for line in lines if line.strip())


OWN, WARM = "agentv", "agentv-warm"
SCRIPTS = ("script", "script-judge")
TOOLS = (
    Tool(
        key=OWN,
        name="agentv (this project)",
        prepare=prepare_own,
        passed=passed_own,
        version=("{bin}/agentv", "--version"),
    ),
    Tool(
        key=WARM,
        name="agentv (this project), `warm: true`",
        prepare=prepare_warm,
        passed=passed_own,
        version=("{bin}/agentv", "--version"),
        only=SCRIPTS,
    ),
    Tool(
        key="agentv-npm",
        name="AgentV (npm)",
        prepare=prepare_npm,
        passed=passed_npm,
        version=("{bin}/agentv", "--version"),
        packages=("agentv",),
        node=True,
    ),
    Tool(
        key="pydantic-evals",
        name="pydantic-evals",
        prepare=library("pydantic_evals_run.py"),
        passed=printed_count,
        version=("{bin}/python", "-c", "import pydantic_evals"),
        packages=("pydantic-evals", "pydantic-ai-slim[openai]"),
        judges={"llm-judge": TOOL_JUDGE},
        in_process=True,
    ),
    Tool(
        key="deepeval",
        name="DeepEval",
        prepare=library("deepeval_run.py"),
        passed=printed_count,
        version=("{bin}/deepeval", "--version"),
        packages=("deepeval",),
        judges={"": TEN_JUDGE},
        in_process=True,
    ),
    Tool(
        key="promptfoo",
        name="promptfoo",
        prepare=prepare_promptfoo,
        passed=passed_promptfoo,
        version=("{bin}/promptfoo", "--version"),
        packages=("promptfoo",),
        node=True,
    ),
    Tool(
        key="inspect",
        name="Inspect AI",
        prepare=library("inspect_run.py"),
        passed=printed_count,
        version=("{bin}/inspect", "--version"),
        packages=("inspect-ai", "openai"),
        judges={"": GRADE_JUDGE},
        in_process=True,
    ),
)
IN_PROCESS = {tool.key for tool in TOOLS if tool.in_process}
