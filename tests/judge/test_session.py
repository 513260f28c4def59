"""Judge sessions, without HTTP."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from agentv.errors import ProviderError
from agentv.evidence import JudgeCallRecord
from agentv.judge.call_error import JudgeCallError
from agentv.judge.proxy import JudgeProxy
from agentv.judge.session import JudgeSession
from agentv.judge.targets import JudgeTargets
from agentv.messages import GenerationOptions, Message, TokenUsage
from agentv.processes.script_time import WaitingTime
from agentv.redact import Redactor
from agentv.targets.gate import TargetGate
from agentv.targets.provider import Provider, Reply, Request, TargetSettings
from agentv.wire.judge import JudgeCall
from tests.judge.support import Judge, Wire, make_session, request

CALL = JudgeCall("q")
SECRET = "sk-very-secret-0123456789"


class Failing(Provider):
    def __init__(self, error: BaseException) -> None:
        self._error = error

    async def invoke(self, request: Request) -> Reply:
        raise self._error


async def refused(session: JudgeSession, *calls: JudgeCall) -> JudgeCallError:
    with pytest.raises(JudgeCallError) as caught:
        await (session.invoke(calls[0]) if len(calls) == 1 else session.invoke_batch(calls))
    return caught.value


async def test_judge_gets_the_question_with_the_case_of_the_execution() -> None:
    judge = Judge()
    session = make_session(judge, eval_id="case-1", attempt=3)
    await session.invoke(JudgeCall("q", "be strict"))
    await session.invoke(JudgeCall("q", eval_case_id="other", attempt=1))
    received = [(r.question, r.system_prompt, r.eval_id, r.attempt) for r in judge.requests]
    assert received == [("q", "be strict", "case-1", 3), ("q", None, "other", 1)]


async def test_judge_gets_the_conversation_options_and_evaluator() -> None:
    judge = Judge()
    session = make_session(judge, eval_id="case-1")
    talk = (Message("system", "s"), Message("user", "q"), Message("assistant", "a"), Message("user", "sure?"))
    options = GenerationOptions(temperature=0.5, stop=("END",))
    await session.invoke(JudgeCall(messages=talk, options=options))
    (received,) = judge.requests
    assert (received.messages, received.options, received.evaluator, received.eval_id) == (
        talk,
        options,
        "precision",
        "case-1",
    )


async def test_unsupported_option_fails_the_call_before_it_is_sent() -> None:
    judge = Judge()
    judge.honours = frozenset({"temperature"})
    session = make_session(TargetGate(judge, TargetSettings(provider="x"), name="strict"))
    assert (session.honours("temperature"), session.honours("seed")) == (True, False)
    error = await refused(session, JudgeCall("q", options=GenerationOptions(seed=1)))
    assert (error.status, error.code, judge.calls) == (502, "judge_failed", 0)
    assert "`seed`" in error.message


async def test_target_override_is_called_and_counted() -> None:
    strict, mild = Judge("no"), Judge("yes")
    session = make_session(strict, others={"mild": mild})
    assert (await session.invoke(JudgeCall("q", target="mild"))).text == "yes"
    assert (await session.invoke(CALL)).text == "no"
    assert session.ledger.to_dict()["targets"] == {"mild": 1, "strict": 1}


async def test_default_target_must_be_available() -> None:
    with pytest.raises(ValueError, match="gone"):
        JudgeTargets("gone", {})


async def test_only_allowed_targets_and_the_default_can_be_chosen() -> None:
    session = make_session(
        others={"mild": Judge(), "wild": Judge()}, allowed=["mild"], unavailable={"broken": "no key"}
    )
    assert session.info()["availableTargets"] == ["mild", "strict"]
    await session.invoke(JudgeCall("q", target="mild"))
    await session.invoke(JudgeCall("q", target="strict"))
    for name in ("wild", "nonexistent", "broken", ""):
        error = await refused(session, JudgeCall("q", target=name))
        assert (error.status, error.code) == (400, "unknown_target")
        assert "mild, strict" in error.message
        assert "no key" not in error.message
    assert session.ledger.call_count == 2


async def test_unavailable_target_is_refused_with_the_reason() -> None:
    session = make_session(unavailable={"broken": "the variable KEY is not set"})
    error = await refused(session, JudgeCall("q", target="broken"))
    assert (error.code, session.info()["availableTargets"]) == ("unknown_target", ["strict"])
    assert "the variable KEY is not set" in error.message


async def test_batch_is_refused_as_a_whole_when_one_target_is_unknown() -> None:
    judge = Judge()
    session = make_session(judge)
    error = await refused(session, CALL, JudgeCall("q", target="nope"))
    assert "requests[1]" in error.message
    assert (judge.calls, session.ledger.call_count, session.ledger.breached) == (0, 0, False)


async def test_batch_is_refused_as_a_whole_when_it_would_exceed_the_limit() -> None:
    judge = Judge()
    session = make_session(judge, max_calls=10)
    await session.invoke_batch([CALL] * 7)
    error = await refused(session, *[CALL] * 5)
    assert (error.status, error.code) == (429, "max_calls_exceeded")
    assert all(part in error.message for part in ("10", "precision", "max_calls", "5"))
    assert (judge.calls, session.ledger.refused_calls, session.ledger.breached) == (7, 5, True)
    assert len(await session.invoke_batch([CALL] * 3)) == 3


async def test_batch_runs_concurrently_and_keeps_its_order() -> None:
    judge = Judge(lambda request: Reply.of_text(request.question.upper()), held=True)
    session = make_session(judge)
    batch = asyncio.create_task(session.invoke_batch([JudgeCall(word) for word in "abcd"]))
    await judge.has_calls(4)
    judge.let_go()
    assert [item.text for item in await batch if isinstance(item, Reply)] == ["A", "B", "C", "D"]
    assert session.ledger.batch_used


async def test_batch_respects_the_concurrency_limit_of_the_target() -> None:
    judge = Judge(held=True)
    gate = TargetGate(judge, TargetSettings(provider="x", max_concurrency=2), name="strict")
    session = make_session(gate)
    batch = asyncio.create_task(session.invoke_batch([CALL] * 5))
    await judge.has_calls(2)
    for _ in range(20):
        await asyncio.sleep(0)
    assert judge.calls == 2
    judge.let_go()
    assert len(await batch) == 5


async def test_failed_batch_item_does_not_fail_the_others() -> None:
    def answer(request: Request) -> Reply:
        if request.question == "bad":
            raise ProviderError("the judge answered HTTP 500", status=500)
        return Reply.of_text("ok")

    session = make_session(Judge(answer))
    first, second, third = await session.invoke_batch([CALL, JudgeCall("bad"), CALL])
    assert (first, third) == (Reply.of_text("ok"), Reply.of_text("ok"))
    assert isinstance(second, JudgeCallError)
    assert second.code == "judge_failed"
    assert "HTTP 500" in second.message
    assert (session.ledger.call_count, session.ledger.failed_calls) == (3, 1)


@pytest.mark.parametrize(
    "error",
    [ProviderError("HTTP 500"), RuntimeError("boom"), SystemExit(3), TimeoutError("inner"), asyncio.CancelledError()],
    ids=lambda error: type(error).__name__,
)
async def test_judge_failure_is_502_and_counted(error: BaseException) -> None:
    session = make_session(Failing(error))
    raised = await refused(session, CALL)
    assert (raised.status, raised.code) == (502, "judge_failed")
    assert "strict" in raised.message
    assert (session.ledger.call_count, session.ledger.failed_calls) == (1, 1)


async def test_provider_that_returns_no_valid_reply_fails_the_call() -> None:
    class Odd(Provider):
        def __init__(self, reply: Any) -> None:
            self.reply = reply

        async def invoke(self, request: Request) -> Any:
            return self.reply

    odd: Any = ("text", Reply("text"), Reply(({"role": "assistant", "content": "x"},)), Reply(None))  # type: ignore[arg-type]
    for reply in odd:
        session = make_session(Odd(reply))
        assert (await refused(session, CALL)).code == "judge_failed"
        assert session.ledger.failed_calls == 1


async def test_judge_timeout_is_504_and_counted() -> None:
    judge = Judge(held=True)
    session = make_session(judge, timeout=0.01)
    error = await refused(session, CALL)
    assert (error.status, error.code) == (504, "judge_timeout")
    assert "timeout_seconds" in error.message
    assert (judge.cancelled, session.ledger.failed_calls) == (1, 1)


async def test_retries_are_recorded_but_not_counted_as_calls() -> None:
    class Flaky(Provider):
        attempts = 0

        async def invoke(self, request: Request) -> Reply:
            self.attempts += 1
            if request.question == "never" or self.attempts < 3:
                raise ProviderError("HTTP 503", status=503, retryable=True)
            return Reply.of_text("ok")

    settings = TargetSettings(provider="x", max_retries=2, retry_initial_delay_ms=0)
    session = make_session(TargetGate(Flaky(), settings, name="strict"))
    await session.invoke(CALL)
    assert (session.ledger.call_count, session.ledger.retries) == (1, 2)
    await refused(session, JudgeCall("never"))
    assert (session.ledger.call_count, session.ledger.retries, session.ledger.failed_calls) == (2, 4, 1)


async def test_secrets_are_masked_in_errors_and_replies() -> None:
    redactor = Redactor([SECRET])
    session = make_session(Failing(ProviderError(f"401: bad key {SECRET}")), redactor=redactor)
    error = await refused(session, CALL)
    assert SECRET not in error.message
    assert "401" in error.message
    session = make_session(Judge(f"the key is {SECRET}"), redactor=redactor)
    async with JudgeProxy(session) as proxy, await Wire.to(proxy) as wire:
        for path, body in (("/invoke", {"question": "q"}), ("/invokeBatch", {"requests": [{"question": "q"}]})):
            wire.send(request(proxy, path=path, body=body))
            response = await wire.response()
            assert response.status == 200
            assert "the key is [redacted]" in str(response.json)
            assert SECRET not in str(response.json)


async def test_token_is_masked_in_errors() -> None:
    session = make_session()
    error = await refused(session, JudgeCall("q", target=session.token))
    assert session.token not in error.message


async def test_tokens_are_256_bits_and_distinct() -> None:
    tokens = {make_session().token for _ in range(200)}
    assert len(tokens) == 200
    assert all(len(token) == 43 for token in tokens)


async def test_calls_are_recorded_without_question_and_reply() -> None:
    records: list[JudgeCallRecord] = []
    reply = replace(
        Reply.of_text("a reply", token_usage=TokenUsage(5, 1), cost_usd=0.5), model="m", finish_reason="stop"
    )
    session = make_session(Judge(lambda _: reply), on_call=records.append, io=False, eval_id="c", attempt=2)
    await session.invoke(JudgeCall("a question", "a system prompt"))
    await session.invoke_batch([CALL])
    first, second = records
    assert (first.index, first.target, first.eval_case_id, first.attempt) == (1, "strict", "c", 2)
    assert (first.batch, first.status, first.code) == (False, "ok", None)
    assert (first.token_usage, first.cost_usd) == (TokenUsage(5, 1), 0.5)
    assert (first.model, first.finish_reason, first.execution) == ("m", "stop", None)
    assert first.started_at
    assert first.duration_ms >= 0
    assert (second.index, second.batch) == (2, True)
    assert not {"question", "system_prompt", "reply"} & set(first.to_dict())
    assert "a question" not in str(records)


async def test_questions_and_replies_are_recorded() -> None:
    records: list[JudgeCallRecord] = []
    session = make_session(Judge(), on_call=records.append)
    await session.invoke(JudgeCall("q", "s"))
    (record,) = records
    assert (record.question, record.system_prompt, record.messages, record.options) == ("q", "s", (), None)
    assert record.reply == {"outputMessages": [{"role": "assistant", "content": "yes"}], "rawText": "yes"}


async def test_conversation_and_options_are_recorded_if_they_are_more_than_a_question() -> None:
    records: list[JudgeCallRecord] = []
    session = make_session(Judge(), on_call=records.append)
    talk = (Message("user", "q"), Message("assistant", "a"), Message("user", "sure?"))
    await session.invoke(JudgeCall(messages=talk, options=GenerationOptions(temperature=0.5)))
    (record,) = records
    assert (record.messages, record.options) == (talk, {"temperature": 0.5})
    assert record.conversation == talk
    assert record.question is not None
    assert "sure?" in record.question


async def test_reply_is_returned_once_its_record_is_written() -> None:
    written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    recorded = asyncio.Event()

    def record(_: JudgeCallRecord) -> asyncio.Future[None]:
        recorded.set()
        return written

    session = make_session(Judge(), on_call=record)
    call = asyncio.create_task(session.invoke(CALL))
    await recorded.wait()
    for _ in range(20):
        await asyncio.sleep(0)
    assert not call.done()
    written.set_exception(OSError("disk full"))
    assert (await call).text == "yes"


async def test_close_cancels_and_settles_calls_before_it_returns() -> None:
    judge, records = Judge(held=True), list[JudgeCallRecord]()
    session = make_session(judge, on_call=records.append)
    one = asyncio.create_task(session.invoke(CALL))
    batch = asyncio.create_task(session.invoke_batch([CALL, CALL]))
    await judge.has_calls(3)
    session.close()
    assert (session.ledger.failed_calls, len(records)) == (3, 3)
    assert {record.status for record in records} == {"cancelled"}
    with pytest.raises(JudgeCallError) as caught:
        await one
    assert (caught.value.status, caught.value.code) == (503, "shutting_down")
    codes = [item.code for item in await batch if isinstance(item, JudgeCallError)]
    assert codes == ["shutting_down"] * 2
    assert judge.cancelled == 3
    late = await refused(session, CALL)
    assert late.code == "shutting_down"
    assert (judge.calls, session.ledger.breached) == (3, False)
    with pytest.raises(JudgeCallError):
        session.info()


async def test_late_reply_does_not_change_a_closed_ledger() -> None:
    started, finish = asyncio.Event(), asyncio.Event()

    class Stubborn(Provider):
        async def invoke(self, request: Request) -> Reply:
            started.set()
            try:
                await finish.wait()
            except asyncio.CancelledError:
                await finish.wait()
            return Reply.of_text("late", cost_usd=9.0)

    session = make_session(Stubborn())
    call = asyncio.create_task(session.invoke(CALL))
    await started.wait()
    session.close()
    before = session.ledger.to_dict()
    await asyncio.sleep(0)
    finish.set()
    with pytest.raises(JudgeCallError, match="this execution has ended"):
        await call
    assert session.ledger.to_dict() == before
    assert before["failed_calls"] == 1


async def test_cancelled_call_counts_as_failed() -> None:
    judge = Judge(held=True)
    session = make_session(judge)
    call = asyncio.create_task(session.invoke(CALL))
    await judge.has_calls(1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (judge.cancelled, session.ledger.failed_calls, session.ledger.call_count) == (1, 1, 1)


async def test_200_concurrent_calls_never_exceed_the_limit() -> None:
    class Counting(Provider):
        calls = 0

        async def invoke(self, request: Request) -> Reply:
            self.calls += 1
            await asyncio.sleep(0)
            return reply

    reply = Reply.of_text("ok")
    for round_number in range(70):
        judge = Counting()
        session = make_session(judge, max_calls=50)
        size = 1 + round_number % 7
        calls = [session.invoke(CALL) if i % 2 else session.invoke_batch([CALL] * size) for i in range(200)]
        await asyncio.gather(*calls, return_exceptions=True)
        assert judge.calls == session.ledger.call_count <= 50
        assert session.ledger.call_count > 50 - size
        assert session.ledger.breached


async def test_time_spent_waiting_for_a_place_at_the_judge_is_known_while_it_passes() -> None:
    judge = Judge(held=True)
    gate = TargetGate(judge, TargetSettings(provider="x", max_concurrency=1), name="strict")
    session = make_session(gate)
    now = 0.0
    session.waiting = WaitingTime(lambda: now)

    def known() -> tuple[int, int]:
        info = session.info()
        return info["waitingCalls"], info["waitedMs"]

    async with asyncio.TaskGroup() as group:
        group.create_task(session.invoke(CALL))
        await judge.has_calls(1)
        assert known() == (0, 0)
        waiting = [group.create_task(session.invoke(CALL)) for _ in range(2)]
        while session.waiting.calls < 2:
            await asyncio.sleep(0)
        now = 1.5
        assert known() == (2, 1500)
        waiting[0].cancel()
        while session.waiting.calls > 1:
            await asyncio.sleep(0)
        now = 2.0
        assert known() == (1, 2000)
        judge.let_go()
    now = 9.0
    assert known() == (0, 2000)


async def test_pause_before_a_retry_counts_as_waiting() -> None:
    pauses: list[int] = []

    async def sleep(_: float) -> None:
        pauses.append(session.info()["waitingCalls"])

    error = ProviderError("busy", retryable=True, status=429)
    settings = TargetSettings(provider="x", max_retries=2)
    gate = TargetGate(Failing(error), settings, name="strict", sleep=sleep, jitter=lambda: 0.0)
    session = make_session(gate)
    await refused(session, CALL)
    assert pauses == [1, 1]
    assert session.info()["waitingCalls"] == 0
