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


WRITTEN = """\
evalcases:
  - id: talk
    turns:
      - {input: message 1, evaluators: [{type: contains, value: answer 1}]}
      - input: message 2
      - input: message 3
      - {input: message 4, evaluators: [{type: llm_judge}]}
"""
PLAYED = """\
evalcases:
  - id: talk
    user: {target: judge, persona: a customer, max_turns: 4}
    evaluators: [{type: contains, value: answer 4}]
"""


def numbered(word: str, *, hangs: int | None = None) -> Callable[[Any], str | Failure]:
    """Replies `word N` to the N-th message of the conversation; never to the one numbered `hangs`."""

    def reply(body: Any) -> str | Failure:
        if "Grade the answer" in str(body):
            return FINE
        number = sum(message["role"] == "user" for message in body["messages"])
        return Failure(hang=True) if number == hangs else f"{word} {number}"

    return reply


def comparable(row: dict[str, Any]) -> dict[str, Any]:
    """The row without what differs between any two runs."""
    for part in (row, *row["turns"], *row["evaluator_results"], row["trace_summary"] or {}):
        for name in ("run_id", "started_at", "duration_ms"):
            part.pop(name, None)
    for turn in row["evaluator_results"][0].get("evaluator_results", []):
        for result in turn["evaluator_results"]:
            result.pop("duration_ms")
            result.get("judge", {}).pop("duration_ms", None)
    return row


@pytest.mark.parametrize(
    ("suite", "at", "repeated"),
    [(WRITTEN, "target", {"target": 1}), (PLAYED, "target", {"target": 1}), (PLAYED, "judge", {"judge": 1})],
    ids=["written", "target-of-played", "user"],
)
async def test_conversation_continues_after_its_last_recorded_turn(
    judged: Judged, suite: str, at: str, repeated: dict[str, int]
) -> None:
    judged.project.write("suite.yaml", suite)
    servers = {"target": judged.target, "judge": judged.judge}
    judged.target.reply, judged.judge.reply = numbered("answer"), numbered("message")
    start = ("eval", "suite.yaml", "--target", "asked", "--max-cost", "5", "--run-dir")
    assert (await judged.run(*start, "undisturbed")).startswith("0\n")
    (expected,) = judged.project.rows(judged.project.root / "undisturbed")
    spent = judged.project.manifest(judged.project.root / "undisturbed")["budget"]["spent_usd"]
    calls = {name: server.calls for name, server in servers.items()}

    servers[at].reply = numbered("answer" if at == "target" else "message", hangs=3)
    await judged.kill_when(lambda: servers[at].calls == calls[at] + 3, *start, "run")
    turns = [json.loads(line) for line in judged.lines("answers.jsonl")]
    assert all(len(line["turns"]) == 1 for line in turns)
    assert [line["turn"] for line in turns if "unanswered" not in line["turns"][0]] == [1, 2]
    assert (judged.project.root / "run" / "answers.jsonl").stat().st_mode & 0o777 == 0o600

    servers[at].reply = numbered("answer" if at == "target" else "message")
    output = await judged.run("eval", "--resume", "run")
    assert output.startswith("0\n"), output
    assert "1 conversation continues after its last recorded turn" in output
    for name, server in servers.items():
        assert server.calls == 2 * calls[name] + repeated.get(name, 0), name
    (row,) = judged.rows()
    assert comparable(row) == comparable(expected)
    assert judged.spent() == pytest.approx(spent)  # the call that was killed is not known to have cost anything
    assert not judged.lines("answers.jsonl")


async def test_turns_of_a_changed_case_or_target_are_not_used(judged: Judged) -> None:
    suite, config = judged.project.write("suite.yaml", WRITTEN), judged.project.root / "agentv.config.yaml"
    start = ("eval", "suite.yaml", "--target", "asked", "--max-cost", "5", "--run-dir", "run")
    judged.target.reply, judged.judge.reply = numbered("answer", hangs=3), numbered("message")
    await judged.kill_when(lambda: judged.target.calls == 3, *start)
    suite.write_text(WRITTEN.replace("input: message 2", "input: a changed message"))
    assert "has changed" in await judged.run("eval", "--resume", "run")
    await judged.kill_when(lambda: judged.target.calls == 6, "eval", "--resume", "run", "--allow-changed")
    config.write_text(config.read_text().replace("model: m", "model: other"))
    judged.target.reply = numbered("answer")
    output = await judged.run("eval", "--resume", "run", "--allow-changed")
    assert output.startswith("0\n"), output
    assert "continues after" not in output
    assert judged.target.calls == 10
    (row,) = judged.rows()
    assert [turn["input_messages"][0]["content"] for turn in row["turns"]][1] == "a changed message"
    assert judged.spent() == pytest.approx((2 + 2 + 4 + 1) * 0.01)


async def test_conversation_that_broke_off_is_retried_from_the_failed_turn(judged: Judged) -> None:
    judged.project.write("suite.yaml", PLAYED)
    judged.judge.reply = numbered("message")
    judged.target.reply = lambda body: Failure(400) if "message 3" in str(body) else numbered("answer")(body)
    output = await judged.run("eval", "suite.yaml", "--target", "asked", "--max-cost", "5", "--run-dir", "run")
    assert output.startswith("3\n"), output
    (row,) = judged.rows()
    assert row["error"]["message"].startswith("turn 3: ")
    assert [turn["answer"] for turn in row["turns"]] == ["answer 1", "answer 2", ""]
    assert row["turns"][2]["unanswered"] is True
    shown = (await asyncio.to_thread(judged.project.run, "show", "run", "talk")).stdout
    assert "answer 2" in shown
    assert "message 3" in shown
    judged.target.reply = numbered("answer")
    output = await judged.run("eval", "--retry-errors", "run")
    assert output.startswith("0\n"), output
    assert (judged.target.calls, judged.judge.calls) == (5, 4)
    (row,) = judged.rows()
    assert [turn["answer"] for turn in row["turns"]] == [f"answer {n}" for n in range(1, 5)]
    assert judged.spent() == pytest.approx(8 * 0.01)
    manifest = judged.project.root / "run" / "run.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"budget": None}))
    assert (await judged.run("eval", "--resume", "run")).startswith("0\n")
    assert judged.spent() == pytest.approx(8 * 0.01)


async def test_replies_of_judges_of_turns_are_not_repeated(judged: Judged) -> None:
    checked = WRITTEN.replace("input: message 2", "input: message 2\n        evaluators: [{type: llm_judge}]")
    judged.project.write("suite.yaml", checked)
    judged.target.reply = numbered("answer")
    judged.judge.failures.extend([None, Failure(hang=True)])
    judged.judge.reply = FINE
    start = ("eval", "suite.yaml", "--target", "asked", "--max-cost", "5", "--run-dir", "run")
    await judged.kill_when(lambda: judged.judge.calls == 2, *start)
    output = await judged.run("eval", "--resume", "run")
    assert output.startswith("0\n"), output
    assert "1 case was answered before the interruption; it is only judged" in output
    assert (judged.target.calls, judged.judge.calls) == (4, 3)
