"""`stop_early`: attempts that cannot change the verdict are not run."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

import pytest

import agentv
from agentv.targets.provider import Request
from tests.conftest import Project

SUITE = """\
execution:
  trials: {{count: 5, pass_if: {rule}, stop_early: true}}
  evaluators: [{{type: contains, value: good}}]
evalcases:
- {{id: right, input: ggggg}}
- {{id: wrong, input: bbbbb}}
- {{id: mixed, input: bgbgg}}
- {{id: all-of-them, input: ggggg, execution: {{trials: {{stop_early: false}}}}}}
"""


def answer(request: Request) -> str:
    return "good" if request.question[request.attempt - 1] == "g" else "bad"


@pytest.mark.parametrize(
    ("rule", "attempts", "passed"),
    [
        ("any", {"right": 1, "wrong": 5, "mixed": 2}, {"right", "mixed", "all-of-them"}),
        ("all", {"right": 5, "wrong": 1, "mixed": 1}, {"right", "all-of-them"}),
        ("majority", {"right": 3, "wrong": 3, "mixed": 5}, {"right", "mixed", "all-of-them"}),
        ("mean", {"right": 4, "wrong": 2, "mixed": 3}, {"right", "all-of-them"}),
    ],
)
def test_only_attempts_that_the_verdict_needs_are_run(
    project: Project, monkeypatch: pytest.MonkeyPatch, rule: str, attempts: dict[str, int], passed: set[str]
) -> None:
    monkeypatch.chdir(project.root)
    project.write("suite.yaml", SUITE.format(rule=rule))
    run = agentv.evaluate("suite.yaml", target=answer)
    assert Counter(row.eval_id for row in run) == {**attempts, "all-of-them": 5}
    assert (run.summary.total, run.summary.passed, run.summary.incomplete) == (4, len(passed), 0)
    assert {*passed} == {"right", "wrong", "mixed", "all-of-them"} - {case.eval_id for case in run.summary.worst}
    assert run.summary.attempts == len(run) == json.loads((run.run_dir / "run.json").read_text())["total"]
    assert run.summary.repeats is not None
    assert not run.summary.repeats.pass_at_k  # early stopping would bias it


async def test_attempts_that_are_certainly_needed_run_at_the_same_time(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.root)
    project.write("suite.yaml", "\n".join(SUITE.format(rule="majority").splitlines()[:5]))
    three, running = asyncio.Barrier(3), 0

    async def slow(_: str) -> str:
        nonlocal running
        running += 1
        await asyncio.wait_for(three.wait(), 30)
        return "good"

    run = await agentv.evaluate_async("suite.yaml", target=slow)
    assert (running, len(run), run.summary.passed) == (3, 3, 1)


def test_batches_stop_early_by_round(project: Project) -> None:
    project.write(
        "agent.py",
        """\
        import json, sys
        cases = [json.loads(line) for line in sys.stdin]
        with open("asked.txt", "a") as asked:
            asked.write(" ".join(sorted(case["id"] for case in cases)) + "\\n")
        number = len(open("asked.txt").read().splitlines())
        print("\\n".join(json.dumps({"id": c["id"], "text": c["id"] if number > 1 else "no"}) for c in cases))
        """,
    )
    batch = "{provider: cli, command: [python, agent.py], provider_batching: true}"
    project.write("agentv.config.yaml", f"targets:\n  agent: {batch}\n")
    project.write(
        "suite.yaml",
        """\
        execution: {trials: {count: 4, pass_if: any, stop_early: true}}
        evalcases:
        - {id: one, input: x, evaluators: [{type: contains, value: one}]}
        - {id: two, input: x, evaluators: [{type: contains, value: never}]}
        """,
    )
    done = project.run("eval", "suite.yaml", "--json")
    summary = json.loads(done.stdout)
    assert (done.returncode, summary["attempts"], summary["passed"], summary["failed"]) == (1, 6, 1, 1), done.stderr
    asked = Path(project.root / "asked.txt").read_text().splitlines()
    assert asked == ["one two", "one two", "two", "two"]
