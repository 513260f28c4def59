"""Recorded replies are found by row, evaluator and request, and each is used once."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentv.evidence import JudgeCallRecord
from agentv.judge.recorded_replies import RecordedReplies
from agentv.judge.recording import Recording
from agentv.judge.session import JudgeSession
from agentv.messages import GenerationOptions, Message, TokenLogprob, TokenUsage, ToolCall
from agentv.record.judge_calls import encode_call
from agentv.redact import NO_SECRETS, Redactor
from agentv.results import RowKey
from agentv.targets.budget import Budget
from agentv.targets.provider import Reply, Request
from agentv.wire.judge import JudgeCall
from tests.judge.support import Judge, make_session

SECRET = "sk-very-secret-0123456789"
KEY = RowKey("suite", "case", "assistant", 1)
WHOLE = Reply(
    (
        Message("assistant", "thinking", tool_calls=(ToolCall("search", {"q": [1]}, {"found": None}, "id-1"),)),
        Message("assistant", [{"type": "text", "value": "yes"}]),
    ),
    TokenUsage(5, 1, 2),
    0.25,
    finish_reason="stop",
    model="m-1",
    logprobs=(TokenLogprob("yes", -0.5, (("no", -1.5),)),),
)


def session_of(judge: Judge, recording: Recording, key: RowKey = KEY, **options: Any) -> JudgeSession:
    place: dict[str, Any] = {
        "suite": key.suite,
        "eval_id": key.eval_id,
        "case_target": key.target,
        "attempt": key.attempt,
    }
    return make_session(judge, recording=recording, **place, **options)


class Log:
    """Writes calls to a file as a run does."""

    def __init__(self, path: Path, redactor: Redactor = NO_SECRETS) -> None:
        self.path, self._redactor = path, redactor

    def append(self, record: JudgeCallRecord) -> None:
        with self.path.open("ab") as file:
            file.write(encode_call(record, self._redactor))

    def replies(self, **options: Any) -> RecordedReplies:
        return RecordedReplies.read(self.path, self._redactor, **options)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "judge_calls.jsonl")


def numbered() -> Judge:
    """A judge whose replies are `1`, `2`, and so on."""
    judge = Judge(lambda _: Reply.of_text(str(judge.calls), cost_usd=0.25))
    return judge


async def test_reply_is_restored_as_it_was(log: Log) -> None:
    call = JudgeCall("q", "s", options=GenerationOptions(logprobs=1))
    await session_of(Judge(lambda _: WHOLE), Recording(log.append)).invoke(call)
    judge = Judge()
    session = session_of(judge, Recording(log.append, replies=log.replies()))
    reply = await session.invoke(call)
    assert replace(reply, recorded=False, duration_ms=None) == WHOLE
    ledger = session.ledger.to_dict()
    assert (ledger["call_count"], ledger["from_record"], ledger["cost_usd"]) == (1, 1, 0.25)
    assert ledger["token_usage"] == {"input": 5, "output": 1, "cached": 2}
    assert judge.calls == 0
    assert log.path.read_bytes().count(b"\n") == 1


async def test_equal_requests_get_their_replies_in_order_each_once(log: Log) -> None:
    first = session_of(numbered(), Recording(log.append))
    assert [(await first.invoke(JudgeCall("q"))).text for _ in range(3)] == ["1", "2", "3"]
    judge = Judge("new")
    session = session_of(judge, Recording(log.append, replies=log.replies()))
    batch = await session.invoke_batch([JudgeCall("q"), JudgeCall("other"), JudgeCall("q")])
    assert [reply.text for reply in batch if isinstance(reply, Reply)] == ["1", "new", "2"]
    assert [(await session.invoke(JudgeCall("q"))).text for _ in range(2)] == ["3", "new"]
    assert (judge.calls, session.ledger.call_count, session.ledger.from_record) == (2, 5, 3)


async def test_order_is_that_of_the_calls_not_of_the_replies(log: Log) -> None:
    records: list[JudgeCallRecord] = []
    first = session_of(numbered(), Recording(records.append))
    for _ in range(3):
        await first.invoke(JudgeCall("q"))
    for record in reversed(records):
        log.append(record)
    session = session_of(Judge(), Recording(replies=log.replies()))
    assert [(await session.invoke(JudgeCall("q"))).text for _ in range(3)] == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("key", "call"),
    [
        (KEY._replace(eval_id="other"), JudgeCall("q")),
        (KEY._replace(attempt=2), JudgeCall("q")),
        (KEY._replace(target="other"), JudgeCall("q")),
        (KEY, JudgeCall("q", "s")),
        (KEY, JudgeCall("q", attempt=2)),
        (KEY, JudgeCall("q", eval_case_id="x")),
        (KEY, JudgeCall("q", options=GenerationOptions(seed=1))),
        (KEY, JudgeCall("q", target="mild")),
    ],
    ids=["case", "row-attempt", "row-target", "system-prompt", "attempt", "eval-case-id", "options", "judge-target"],
)
async def test_other_requests_are_sent_to_the_judge(log: Log, key: RowKey, call: JudgeCall) -> None:
    await session_of(Judge(), Recording(log.append)).invoke(JudgeCall("q"))
    judge = Judge("new")
    session = session_of(judge, Recording(replies=log.replies()), key, others={"mild": judge})
    assert (await session.invoke(call)).text == "new"
    assert session.ledger.from_record == 0


async def test_calls_of_other_evaluators_rows_and_executions_are_not_used(log: Log) -> None:
    await session_of(Judge(), Recording(log.append, execution=lambda _: 2)).invoke(JudgeCall("q"))
    for options in ({}, {"execution": lambda _: 1}, {"execution": lambda _: 2, "wanted": lambda _: False}):
        replies = log.replies(**options)
        assert (replies.knows(KEY, "precision"), replies.call_count) == (False, 0)
    replies = log.replies(execution=lambda _: 2)
    assert (replies.knows(KEY, "precision"), replies.knows(KEY, "recall")) == (True, False)


async def test_failed_calls_are_made_again_and_count_as_spent(log: Log) -> None:
    def fail_first(_: Request) -> Reply:
        if judge.calls == 1:
            raise RuntimeError("down")
        return Reply.of_text("yes", cost_usd=0.25)

    judge = Judge(fail_first)
    first = session_of(judge, Recording(log.append))
    await first.invoke_batch([JudgeCall("q")])
    await first.invoke(JudgeCall("r"))
    replies = log.replies()
    assert (replies.call_count, replies.cost_usd) == (2, 0.25)
    session = session_of(judge, Recording(replies=replies))
    assert (await session.invoke(JudgeCall("q"))).text == "yes"
    assert (await session.invoke(JudgeCall("r"))).recorded
    assert judge.calls == 3


async def test_recorded_calls_respect_the_limit_and_are_not_charged_again(log: Log) -> None:
    await session_of(Judge(), Recording(log.append)).invoke_batch([JudgeCall("q")] * 2)
    budget = Budget(max_judge_calls=3)
    budget.spent_before(0.0, 2)
    judge = Judge()
    session = session_of(judge, Recording(replies=log.replies()), max_calls=3, budget=budget)
    await session.invoke_batch([JudgeCall("q")] * 3)
    assert (session.ledger.from_record, budget.judge_calls, judge.calls) == (2, 3, 1)
    with pytest.raises(Exception, match="judge call limit of 3"):
        await session.invoke(JudgeCall("q"))


async def test_secrets_are_masked_in_the_record_and_the_call_is_still_found(tmp_path: Path) -> None:
    log = Log(tmp_path / "judge_calls.jsonl", Redactor([SECRET]))
    key = KEY._replace(eval_id=f"case {SECRET}")
    call = JudgeCall(f"Is {SECRET} right? " + "x" * 100_000, f"Use {SECRET}.")
    judge = Judge(f"no, {SECRET}")
    await session_of(judge, Recording(log.append), key, redactor=Redactor([SECRET])).invoke(call)
    assert SECRET.encode() not in log.path.read_bytes()
    session = session_of(judge, Recording(replies=log.replies()), key, redactor=Redactor([SECRET]))
    assert (await session.invoke(call)).text == "no, [redacted]"
    # An answer from the record of the run is masked, too, so the prompt may contain the mask instead of the secret.
    session = session_of(judge, Recording(replies=log.replies()), key, redactor=Redactor([SECRET]))
    masked = JudgeCall("Is [redacted] right? " + "x" * 100_000, "Use [redacted].")
    assert (await session.invoke(masked)).recorded
    assert judge.calls == 1


async def test_damaged_lines_and_lines_of_older_versions_are_skipped(log: Log) -> None:
    older = {
        "suite": "suite",
        "eval_id": "case",
        "case_target": "assistant",
        "case_attempt": 1,
        "index": 1,
        "evaluator": "precision",
        "target": "strict",
        "eval_case_id": "case",
        "attempt": 1,
        "batch": False,
        "status": "ok",
        "code": None,
        "retries": 0,
        "cache_hit": False,
        "token_usage": {"input": 1, "output": 1},
        "cost_usd": 0.5,
        "started_at": "2026-01-01T00:00:00.000+00:00",
        "duration_ms": 1.0,
        "question": "q",
        "system_prompt": None,
        "reply": {"outputMessages": [{"role": "assistant", "content": "old"}], "rawText": "old"},
        "error": None,
    }
    odd = [
        json.dumps(older, separators=(",", ":")),
        json.dumps({**older, "suite": ["x"]}, separators=(",", ":")),
        "",
        "null",
        '{"evaluator":1}',
        json.dumps({**older, "index": "x"}, separators=(",", ":")),
    ]
    log.path.write_text("\n".join(odd) + "\n")
    await session_of(Judge("recorded"), Recording(log.append)).invoke(JudgeCall("q"))
    with log.path.open("a") as file:
        file.write(odd[0][:40])
    replies = log.replies()
    assert (replies.call_count, replies.cost_usd) == (2, 0.5)
    session = session_of(Judge("new"), Recording(replies=replies))
    assert [(await session.invoke(JudgeCall("q"))).text for _ in range(2)] == ["recorded", "new"]


async def test_missing_file_and_a_line_that_was_changed_lead_to_a_call(log: Log) -> None:
    assert log.replies().call_count == 0
    await session_of(Judge(), Recording(log.append)).invoke(JudgeCall("q"))
    replies = log.replies()
    os.truncate(log.path, 10)
    session = session_of(Judge("new"), Recording(replies=replies))
    assert (await session.invoke(JudgeCall("q"))).text == "new"


async def test_session_that_is_closed_while_a_reply_is_read_refuses_the_call(log: Log) -> None:
    await session_of(Judge(), Recording(log.append)).invoke(JudgeCall("q"))
    session = session_of(Judge(), Recording(replies=log.replies()))
    call = asyncio.create_task(session.invoke(JudgeCall("q")))
    await asyncio.sleep(0)
    session.close()
    with pytest.raises(Exception, match="this execution has ended"):
        await call
