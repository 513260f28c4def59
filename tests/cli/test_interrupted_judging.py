"""A run that is killed while answers are judged: no target is called again for an answer that arrived."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from agentv.testing.model_server import Failure, FakeModelServer
from tests.conftest import Project

FINE = '{"score": 1, "hits": [], "misses": [], "reasoning": "fine"}'
CASES = "".join(f"  - {{id: c{n}, input: question {n}, expected_outcome: an answer}}\n" for n in range(6))
BATCH = """\
import json, sys
open("batches.log", "a").write("x")
for line in sys.stdin:
    print(json.dumps({"id": json.loads(line)["id"], "text": "Paris"}))
"""


@dataclass
class Judged:
    """A project whose target and judge are counting servers on loopback."""

    project: Project
    target: FakeModelServer
    judge: FakeModelServer

    async def run(self, *arguments: str) -> str:
        """Run agentv; returns its exit code and standard error."""
        done = await asyncio.to_thread(self.project.run, *arguments)
        return f"{done.returncode}\n{done.stderr}"

    async def kill_when(self, moment: Callable[[], bool], *arguments: str) -> None:
        """Start agentv and kill it with SIGKILL as soon as `moment` is true."""
        process = self.project.start(*arguments)
        try:
            async with asyncio.timeout(30):
                while not moment():
                    await asyncio.sleep(0.005)
        finally:
            process.kill()
            await asyncio.to_thread(process.communicate)

    def rows(self) -> list[dict[str, Any]]:
        return sorted(self.project.rows(self.project.root / "run"), key=lambda row: row["eval_id"])

    def spent(self) -> float:
        return float(self.project.manifest(self.project.root / "run")["budget"]["spent_usd"])

    def lines(self, name: str) -> list[bytes]:
        """The complete lines of a file of the run."""
        path = self.project.root / "run" / name
        return path.read_bytes().split(b"\n")[:-1] if path.exists() else []


@pytest.fixture
async def judged(project: Project) -> AsyncIterator[Judged]:
    async with FakeModelServer("Paris") as target, FakeModelServer(Failure(hang=True)) as judge:
        server = "{provider: openai, model: m, api_key: k, max_retries: 0, prices: {input: 1000, output: 0}"
        project.write(
            "agentv.config.yaml",
            f"targets:\n  asked: {server}, base_url: '{target.url}', judge_target: judge}}\n"
            f"  judge: {server}, base_url: '{judge.url}'}}\n"
            "  batch: {provider: cli, command: [python, batch.py], provider_batching: true, judge_target: judge}\n",
        )
        project.write("suite.yaml", f"execution:\n  evaluators: [{{type: llm_judge}}]\nevalcases:\n{CASES}")
        yield Judged(project, target, judge)


async def test_recorded_answers_are_judged_without_calling_the_target_again(judged: Judged) -> None:
    start = ("eval", "suite.yaml", "--target", "asked", "--run-dir", "run", "--workers", "2")
    await judged.kill_when(lambda: judged.judge.calls == 2 and len(judged.lines("answers.jsonl")) == 4, *start)
    assert judged.target.calls == 4
    assert {json.loads(line)["candidate_answer"] for line in judged.lines("answers.jsonl")} == {"Paris"}

    # Lines that a damaged disk might leave behind, and a judge that rejects one of the calls.
    with (judged.project.root / "run" / "answers.jsonl").open("ab") as journal:
        journal.write(b'{"eval_id": 5}\n{"torn')
    judged.judge.reply = lambda body: Failure(400) if "question 4" in json.dumps(body) else FINE
    output = await judged.run("eval", "--resume", "run", "--max-cost", "5")
    assert output.startswith("3\n")
    assert "4 cases were answered before the interruption; they are only judged" in output
    assert "answers.jsonl line 5 is not a valid answer" in output
    assert "the last line of answers.jsonl is incomplete and was ignored" in output
    assert judged.target.calls == 6
    errors = {row["eval_id"]: (row["error"] or {}).get("stage") for row in judged.rows()}
    assert errors == {f"c{n}": "evaluator" if n == 4 else None for n in range(6)}
    assert not judged.lines("answers.jsonl")
    assert judged.spent() == pytest.approx(6 * 0.01 + 5 * 0.01)

    # The answer of the errored row is judged again, and paid for once.
    judged.judge.reply = FINE
    output = await judged.run("eval", "--retry-errors", "run")
    assert output.startswith("0\n")
    assert "1 answer of an errored row is judged again" in output
    assert judged.target.calls == 6
    assert [row["score"] for row in judged.rows()] == [1.0] * 6
    assert judged.spent() == pytest.approx(12 * 0.01)
    manifest = judged.project.root / "run" / "run.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"budget": None}))
    assert (await judged.run("eval", "--resume", "run")).startswith("0\n")
    assert judged.spent() == pytest.approx(12 * 0.01)


async def test_answers_of_a_batch_are_judged_without_running_the_batch_again(judged: Judged) -> None:
    judged.project.write("batch.py", BATCH)
    start = ("eval", "suite.yaml", "--target", "batch", "--run-dir", "run", "--workers", "1")
    await judged.kill_when(lambda: judged.judge.calls == 1, *start)
    assert len(judged.lines("answers.jsonl")) == 6
    judged.judge.reply = FINE
    output = await judged.run("eval", "--resume", "run")
    assert output.startswith("0\n")
    assert "6 cases were answered before the interruption; they are only judged" in output
    assert (judged.project.root / "batches.log").read_text() == "x"


async def test_answer_of_a_changed_case_is_not_used(judged: Judged) -> None:
    start = ("eval", "suite.yaml", "--target", "asked", "--run-dir", "run", "--workers", "1")
    await judged.kill_when(lambda: judged.judge.calls == 1 and len(judged.lines("answers.jsonl")) == 2, *start)
    suite = judged.project.root / "suite.yaml"
    suite.write_text(suite.read_text().replace("input: question 0,", "input: changed,"))
    judged.judge.reply = FINE
    output = await judged.run("eval", "--resume", "run", "--allow-changed")
    assert output.startswith("0\n")
    assert "1 case was answered before the interruption; it is only judged" in output
    questions = [request.body["messages"][-1]["content"] for request in judged.target.requests]
    assert sorted(questions) == sorted(["changed", *(f"question {n}" for n in range(6))])
