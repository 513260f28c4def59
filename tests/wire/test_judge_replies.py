"""Judge proxy replies: camelCase keys, and JSON that can always be encoded."""

from __future__ import annotations

import json
from typing import Any

from agentv.messages import Message, TokenUsage, ToolCall
from agentv.wire.judge import message_object, reply_object, sent_object, to_json


def test_tool_calls_key_is_renamed_and_nested_keys_are_not() -> None:
    inner = {"tool_calls": 1, "camelCase": {"snake_case": 2}}
    message = Message("assistant", "x", tool_calls=(ToolCall("t", inner, inner),), metadata={"tool_calls": [1]})
    data = message_object(message)
    assert data["toolCalls"] == [{"tool": "t", "input": inner, "output": inner}]
    assert data["metadata"] == {"tool_calls": [1]}
    assert "tool_calls" not in data


def test_raw_text_joins_the_text_of_the_last_assistant_message() -> None:
    parts = [{"type": "text", "value": "a"}, {"type": "image", "value": "no"}, {"type": "text", "text": "b"}]
    messages = [Message("assistant", "first"), Message("assistant", parts), Message("tool", "no")]
    assert reply_object(messages, None)["rawText"] == "ab"


def test_usage_is_omitted_when_unknown() -> None:
    assert reply_object([], TokenUsage(3, 1))["usage"] == {"input": 3, "output": 1}
    assert "usage" not in reply_object([], None)


def test_scripts_get_the_names_of_agentv_beside_ours() -> None:
    reply = reply_object([Message("assistant", "yes")], TokenUsage(3, 1))
    sent = sent_object(reply)
    assert sent == {**reply, "output": reply["outputMessages"], "tokenUsage": {"input": 3, "output": 1}}
    assert "tokenUsage" not in sent_object(reply_object([], None))


def test_values_that_json_cannot_represent_are_replaced() -> None:
    deep: Any = "end"
    for _ in range(5000):
        deep = [deep]
    value = {"nan": float("nan"), "half": "a\ud800b", "object": object, "deep": deep, 5: {1, 2}, "t": (1,)}
    text = to_json(value)
    assert json.loads(text)["nan"] == "NaN"
    assert json.loads(text)["half"] == "a\ufffdb"
    assert json.loads(text)["5"] == [1, 2]


def test_non_ascii_text_is_not_escaped() -> None:
    assert to_json({"a": "é🙂"}) == '{"a":"é🙂"}'.encode()
