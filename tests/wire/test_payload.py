"""The payload of judge scripts: its keys, their empty values and the encoding."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentv.wire.payload import EMPTY, KEYS, encode_payload, with_empty_values

VECTORS = Path(__file__).parents[2] / "conformance" / "payloads.json"


def attributes_read_from(stdin: str) -> dict[str, object]:
    """The attributes that both SDKs are tested to read from `stdin`."""
    (vector,) = [item for item in json.loads(VECTORS.read_text("utf-8")) if item["stdin"] == stdin]
    attributes: dict[str, object] = vector["attributes"]
    return attributes


def test_both_sdks_are_tested_with_every_key_of_the_payload():
    assert attributes_read_from(encode_payload(EMPTY).decode()) == EMPTY


def test_both_sdks_read_a_missing_list_as_an_empty_list():
    absent = attributes_read_from("{}")
    assert set(absent) == set(KEYS)
    assert {key for key in KEYS if absent[key] == []} == {key for key in KEYS if EMPTY[key] == []}


def test_missing_keys_get_a_new_empty_value():
    payload = with_empty_values({"candidate_answer": "Paris", "later_key": 1})
    assert payload == {**EMPTY, "candidate_answer": "Paris", "later_key": 1}
    payload["input_messages"].append("x")
    assert EMPTY["input_messages"] == []


def test_keys_have_a_fixed_order_with_extra_keys_last():
    values = {key: empty if empty is not None else "x" for key, empty in reversed(list(EMPTY.items()))}
    written = encode_payload({"results": [], **values})
    second = ["input", "output", "messages", "expected_output", "criteria"]
    assert list(json.loads(written)) == [*KEYS, "results", *second]


def test_absent_values_are_left_out_but_user_data_is_unchanged():
    summary = {"event_count": 1, "cost_usd": None, "token_usage": {"input": 1, "output": 2, "cached": None}}
    messages = [{"role": "tool", "content": {"found": None}}]
    values = {"eval_id": "a", "trace_summary": summary, "output_messages": messages, "metadata": {"owner": None}}
    written = json.loads(encode_payload({**EMPTY, **values}))
    assert written["trace_summary"] == {"event_count": 1, "token_usage": {"input": 1, "output": 2}}
    assert (written["output_messages"], written["metadata"]) == (messages, {"owner": None})
    assert not {"question", "expected_outcome", "reference_answer", "candidate_answer", "target"} & set(written)
    assert {key for key, value in written.items() if value is None} == {"config"}


def test_agentv_names_are_beside_ours_and_user_data_is_the_same():
    calls = [{"tool": "get_weather", "id": "1", "input": {"topK": None}, "output": {"snake_key": [1]}}]
    asked, answered = [{"role": "user", "content": "q"}], [{"role": "assistant", "content": "é", "tool_calls": calls}]
    summary = {"event_count": 1, "error_count": 0, "tool_calls_by_name": {"get_weather": 1}, "cost_usd": 0.5}
    values = {"candidate_answer": "é", "reference_answer": "Paris", "config": {"camelKey": {"snake_key": 1}}}
    messages = {"input_messages": asked, "output_messages": answered}
    sent = json.loads(encode_payload({**EMPTY, **values, **messages, "trace_summary": summary}))
    assert (sent["input"], sent["messages"], sent["output"], sent["criteria"]) == (asked, answered, "é", "")
    assert sent["expected_output"] == [{"role": "assistant", "content": "Paris"}]
    assert sent["trace_summary"]["tool_calls"] == {"get_weather": 1}
    assert (sent["cost_usd"], "token_usage" in sent, sent["config"]) == (0.5, False, values["config"])
    trace = sent["trace"]
    assert trace["messages"] == [*asked, *answered]
    assert [event["type"] for event in trace["events"]] == ["message", "message", "tool_call"]
    assert trace["events"][-1]["tool"] == {
        "name": "get_weather",
        "call_id": "1",
        "input": {"topK": None},
        "output": {"snake_key": [1]},
    }


def test_agentv_name_that_the_payload_has_already_is_kept():
    sent = json.loads(encode_payload({**EMPTY, "expected_outcome": "ours", "criteria": "theirs", "output": None}))
    assert (sent["criteria"], sent["expected_outcome"]) == ("theirs", "ours")


def test_missing_key_is_rejected():
    with pytest.raises(ValueError, match="the payload must have the keys"):
        encode_payload({"eval_id": "a"})


def test_lone_surrogate_is_escaped():
    assert b"\\ud800" in encode_payload({**EMPTY, "candidate_answer": "\ud800"})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_non_finite_numbers_are_rejected(value):
    with pytest.raises(ValueError, match="JSON compliant"):
        encode_payload({**EMPTY, "config": {"x": value}})


@pytest.mark.parametrize("odd", [None, "text", {"a": 1}, [], ["text", 1]])
def test_payload_is_valid_json_whatever_the_messages_are(odd: object) -> None:
    summary = {"event_count": 0}
    sent = json.loads(
        encode_payload({**EMPTY, "output_messages": odd, "input_messages": odd, "trace_summary": summary})
    )
    assert sent["trace"]["events"] == []
