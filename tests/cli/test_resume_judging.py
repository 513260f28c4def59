"""A run that is killed while its answers are judged: replies of judges that arrived are not requested again."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentv.testing.model_server import Failure, FakeModelServer, Scripted
from tests.conftest import Project
from tests.spec.support import KEY, KIT, fake_model, mock, models, scripted, write, write_suite

SCRIPTS = {
    "serial": f"""
for word in ("one", "two {KEY}", "three", "four", "five"):
    assert invoke("serial " + word)[0] == 200
done()
""",
    "parallel": """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(6) as pool:
    replies = list(pool.map(lambda n: invoke(f"parallel {n // 2}"), range(6)))
assert [status for status, _ in replies] == [200] * 6
done()
""",
    "batch": """
status, body = ask("/invokeBatch", {"requests": [{"question": f"batch {n}"} for n in range(5)]})
assert status == 200 and [reply["rawText"] for reply in body["responses"]] == [f"re: batch {n}" for n in range(5)]
done(0.0)
""",
}
HELD = ("serial three", "parallel 1", "batch 3", "could not be used")
"""Parts of the questions that the judge does not answer before the kill; `parallel 1` is asked twice."""
ANSWERED = {"serial": 2, "parallel": 4, "batch": 4, "model": 1}


PAID = mock("yes", cost_usd=0.25, token_usage={"input": 10, "output": 1})


class Judge:
    """Counts the requests by question, and holds some of them until the run has been killed."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.holding = True

    def reply(self, body: Any) -> Scripted:
        question = body["messages"][-1]["content"]
        name = next((part for part in HELD if part in question), question.split("\n")[0])
        self.asked[name] += 1
        if self.holding and name in HELD:
            return Failure(hang=True)
        if "could not be used" in question:
            return '{"score": 1.0, "reasoning": "fits"}'
        return "hm" if "Grade" in question else f"re: {question}"


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


def calls_of(directory: Path) -> list[dict[str, Any]]:
    path = directory / "judge_calls.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def write_project(project: Project, server: FakeModelServer) -> None:
    project.write("kit.py", KIT)
    cases = []
    for name, script in SCRIPTS.items():
        project.write(f"{name}.py", f"from kit import *\n{script}")
        evaluator = {"name": name, "type": "code_judge", "script": ["python", f"{name}.py"], "judge": {"max_calls": 6}}
        cases.append({"id": name, "input": "The capital of France?", "evaluators": [evaluator]})
    model = {"name": "model", "type": "llm_judge"}
    cases.append({"id": "model", "input": "The capital of France?", "evaluators": [model]})
    write_suite(project, cases)
    config = models(server)
    config["targets"]["strict"]["prices"] = {"input": 100.0, "output": 100.0}
    project.write("agentv.config.yaml", json.dumps(config))


@pytest.mark.parametrize("judge_io", ["all", "failures", "none"])
async def test_replies_that_arrived_before_a_kill_are_not_requested_again(project: Project, judge_io: str) -> None:
    judge, run = Judge(), project.root / "run"
    env = {"MODEL_KEY": KEY}
    async with fake_model(judge.reply) as server:
        write_project(project, server)
        process = project.start("eval", "suite.yaml", "--run-dir", "run", "--judge-io", judge_io, env=env)
        await until(lambda: sum(judge.asked[part] for part in HELD) == 5 and len(calls_of(run)) == 11)
        process.kill()
        await asyncio.to_thread(process.communicate)
        first, before = Counter(judge.asked), calls_of(run)
        assert Counter(call["evaluator"] for call in before) == ANSWERED
        judge.holding = False
        resumed = await asyncio.to_thread(project.run, "eval", "--resume", "run", "--json", env=env)
    assert resumed.returncode == 1, resumed.stderr
    again = judge.asked - first
    ledgers = {
        row["eval_id"]: result.get("judge_proxy") or result["judge"]
        for row in project.rows(run)
        for result in row["evaluator_results"]
    }
    summary = json.loads(resumed.stdout)
    assert [(row["eval_id"], row["error"]) for row in project.rows(run) if row["error"]] == []
    assert {name: ledger["call_count"] for name, ledger in ledgers.items()} == {
        "serial": 5,
        "parallel": 6,
        "batch": 5,
        "model": 2,
    }
    if judge_io == "none":
        assert sum(again.values()) == 18
        assert not any({"question", "reply", "system_prompt", "error"} & call.keys() for call in calls_of(run))
        assert not any(call["request_sha256"] for call in calls_of(run))
        return
    # Each held question again, the two questions that the serial script had not asked yet, and nothing else.
    assert again == {"serial three": 1, "serial four": 1, "serial five": 1, "parallel 1": 2, "batch 3": 1,
                     "could not be used": 1}  # fmt: skip
    assert {name: ledger["from_record"] for name, ledger in ledgers.items()} == ANSWERED
    assert (summary["judge_calls"], summary["judge_calls_from_record"]) == (18, 11)
    lines = calls_of(run)
    assert len(lines) == 18
    costs = {name: sum(call["cost_usd"] for call in lines if call["evaluator"] == name) for name in ANSWERED}
    assert {name: ledger["cost_usd"] for name, ledger in ledgers.items()} == pytest.approx(costs)
    assert project.manifest(run)["budget"]["judge_calls"] == 18
    text = (run / "judge_calls.jsonl").read_text()
    assert KEY not in text
    with_io = {call["evaluator"] for call in lines if "reply" in call}
    assert with_io == (set(ANSWERED) if judge_io == "all" else {"batch"})
    if judge_io == "all":
        assert "serial two [redacted]" in text


def lose_rows(run: Path) -> None:
    """As if the run had been killed before its rows were written."""
    (run / "results.jsonl").write_text("")


def test_recorded_calls_are_charged_once_and_only_those_of_the_current_execution_are_used(project: Project) -> None:
    run = project.root / "run"
    write(project, "invoke('one')\ninvoke('two')\nsys.exit(1)", {"judge": {}}, config=scripted(judge=PAID))
    errored = project.run("eval", "suite.yaml", "--run-dir", "run", "--max-judge-calls", "2", "--max-cost", "0.7")
    assert errored.returncode == 3
    lose_rows(run)
    resumed = project.run("eval", "--resume", "run")
    assert resumed.returncode == 3, resumed.stderr
    assert "2 calls, 2 taken from the record, " in resumed.stdout
    assert "$0.5000" in resumed.stdout
    assert project.manifest(run)["budget"].items() >= {"judge_calls": 2, "spent_usd": 0.5}.items()
    project.write("judge.py", "from kit import *\ninvoke('one')\ndone()\n")
    more = ("--allow-changed", "--max-judge-calls", "3", "--max-cost", "1")
    retried = project.run("eval", "--retry-errors", "run", *more)
    assert retried.returncode == 0, retried.stderr
    assert [call.get("execution") for call in calls_of(run)] == [None, None, 2]
    (row,) = project.rows(run)
    assert row["evaluator_results"][0]["judge_proxy"]["from_record"] == 0
    lose_rows(run)
    (run / "run.json").write_text(json.dumps({**project.manifest(run), "budget": {}}))
    assert project.run("eval", "--resume", "run").returncode == 0
    assert project.manifest(run)["budget"].items() >= {"judge_calls": 3, "spent_usd": 0.75}.items()
    (row,) = project.rows(run)
    assert row["evaluator_results"][0]["judge_proxy"]["from_record"] == 1
    assert len(calls_of(run)) == 3
