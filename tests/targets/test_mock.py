from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from agentv.errors import ProviderError
from agentv.messages import Message, TokenUsage, ToolCall
from tests.targets.support import ask, make

HERE = Path()


async def test_it_answers_with_its_response():
    reply = await make(HERE, "mock", response="Paris", model="any-label").invoke(ask("capital?"))
    assert reply.text == "Paris"
    assert reply.token_usage is None


async def test_an_object_is_sent_as_pretty_json():
    reply = await make(HERE, "mock", response={"score": 0.5, "who": "Zoë"}).invoke(ask())
    assert reply.text == '{\n  "score": 0.5,\n  "who": "Zoë"\n}'
    assert json.loads(reply.text) == {"score": 0.5, "who": "Zoë"}


async def test_the_first_matching_rule_wins_and_response_is_the_fallback():
    mock = make(
        HERE,
        "mock",
        response="fallback",
        rules=[{"match": "(?i)paris", "response": "first"}, {"match": "Paris|Rome", "response": "second"}],
    )
    assert (await mock.invoke(ask("in PARIS"))).text == "first"
    assert (await mock.invoke(ask("in Rome"))).text == "second"
    assert (await mock.invoke(ask("in Oslo"))).text == "fallback"


async def test_rules_see_the_system_prompt_a_line_break_and_the_question():
    mock = make(HERE, "mock", response="no", rules=[{"match": r"\Abe strict\nquestion\Z", "response": "both"}])
    assert (await mock.invoke(ask("question", system_prompt="be strict"))).text == "both"
    assert (await mock.invoke(ask("question"))).text == "no"
    alone = make(HERE, "mock", response="no", rules=[{"match": r"\A\nquestion\Z", "response": "alone"}])
    assert (await alone.invoke(ask("question"))).text == "alone"


async def test_no_matching_rule_and_no_response_is_an_error_with_a_next_step():
    with pytest.raises(ProviderError, match="Add a `response`"):
        await make(HERE, "mock").invoke(ask())


@pytest.mark.parametrize(("status", "retryable"), [(429, True), (503, True), (408, True), (400, False), (401, False)])
async def test_a_status_fails_as_with_a_real_provider(status, retryable):
    with pytest.raises(ProviderError, match=f"target 't' returned HTTP {status}: ") as caught:
        await make(HERE, "mock", response="never", status=status).invoke(ask())
    assert (caught.value.status, caught.value.retryable) == (status, retryable)


async def test_an_error_is_its_message_and_is_not_retried():
    with pytest.raises(ProviderError, match="out of cheese") as caught:
        await make(HERE, "mock", error="out of cheese").invoke(ask())
    assert (caught.value.status, caught.value.retryable) == (None, False)


async def test_a_rule_does_not_inherit_failure_but_inherits_delay_usage_and_cost():
    mock = make(
        HERE,
        "mock",
        status=500,
        delay_ms=30,
        token_usage={"input": 3, "output": 4, "cached": 5},
        cost_usd=0.25,
        rules=[
            {"match": "inherit", "response": "fine"},
            {
                "match": "own",
                "response": "quick",
                "delay_ms": 0,
                "token_usage": {"input": 1},
                "cost_usd": 0.0,
            },
        ],
    )
    started = time.monotonic()
    reply = await mock.invoke(ask("inherit"))
    assert time.monotonic() - started >= 0.029
    assert (reply.text, reply.token_usage, reply.cost_usd) == ("fine", TokenUsage(3, 4, 5), 0.25)
    own = await mock.invoke(ask("own"))
    assert (own.token_usage, own.cost_usd) == (TokenUsage(1, 0), 0.0)
    with pytest.raises(ProviderError, match="HTTP 500"):
        await mock.invoke(ask("else"))


async def test_two_ends_of_a_delay_are_one_wait_the_same_for_every_call():
    written: tuple[dict[str, Any], ...] = ({"delay_min_ms": 20, "delay_max_ms": 40}, {"delay_max_ms": 30})
    for ends in written:
        mock = make(HERE, "mock", response="fine", **ends)
        for _ in range(2):
            started = time.monotonic()
            await mock.invoke(ask())
            assert time.monotonic() - started >= 0.029
    started = time.monotonic()
    await make(HERE, "mock", response="fine", delay_ms=0, delay_min_ms=60_000).invoke(ask())
    assert time.monotonic() - started < 30


async def test_a_rule_may_fail_on_its_own():
    mock = make(HERE, "mock", response="fine", rules=[{"match": "bad", "status": 429, "error": "slow down"}])
    with pytest.raises(ProviderError, match="HTTP 429: slow down"):
        await mock.invoke(ask("bad"))
    assert (await mock.invoke(ask("good"))).text == "fine"


async def test_messages_come_first_and_the_response_last():
    call = {"tool": "search", "input": {"q": "x"}, "id": "1"}
    mock = make(HERE, "mock", response="done", output_messages=[{"role": "assistant", "tool_calls": [call]}])
    reply = await mock.invoke(ask())
    assert reply.output_messages == (
        Message("assistant", tool_calls=(ToolCall("search", {"q": "x"}, id="1"),)),
        Message("assistant", "done"),
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rules": [{"match": "(", "response": "x"}]}, "invalid regular expression"),
        ({"rules": [{"match": "a"}]}, "a rule needs"),
        ({"rules": [{"match": "a", "reponse": "x"}]}, "Extra inputs"),
        ({"response": ["a"]}, "response"),
        ({"response": {"x": float("nan")}}, "not a JSON object"),
        ({"output_messages": [{"content": "x"}]}, r"output_messages\[0\].role"),
        ({"status": 200}, "greater than or equal to 400"),
        ({"delay_ms": -1}, "greater than or equal to 0"),
        ({"token_usage": {"input": -1}}, "greater than or equal to 0"),
    ],
)
def test_invalid_settings_are_rejected(settings, message):
    with pytest.raises(ValidationError, match=message):
        make(HERE, "mock", **settings)
