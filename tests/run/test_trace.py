from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentv.messages import Message, TokenUsage, ToolCall
from agentv.run.case import summarize_trace


def test_trace_counts_tool_calls_by_name_and_keeps_usage_and_cost():
    messages = (
        Message("assistant", "Let me see.", tool_calls=(ToolCall("search"), ToolCall("fetch"))),
        Message("tool", "found", name="search"),
        Message("assistant", None, tool_calls=(ToolCall("search"),)),
        Message("assistant", "Done."),
    )
    assert summarize_trace(messages, TokenUsage(10, 2, 3), 0.01, 1200.5) == {
        "event_count": 3,
        "tool_names": ["fetch", "search"],
        "tool_calls_by_name": {"fetch": 1, "search": 2},
        "error_count": 0,
        "token_usage": {"input": 10, "output": 2, "cached": 3},
        "cost_usd": 0.01,
        "duration_ms": 1200.5,
        "llm_call_count": 3,
    }


def test_unknown_usage_and_cost_are_null():
    assert summarize_trace((), None, None, None) == {
        "event_count": 0,
        "tool_names": [],
        "tool_calls_by_name": {},
        "error_count": 0,
        "token_usage": None,
        "cost_usd": None,
        "duration_ms": None,
        "llm_call_count": 0,
    }


@pytest.mark.parametrize(
    ("output", "errors"),
    [
        ({"error": "no such file"}, 1),
        ({"error": {"code": 404}}, 1),
        ({"is_error": True, "content": "x"}, 1),
        ({"isError": True}, 1),
        ({"error": None, "rows": []}, 0),
        ({"error": ""}, 0),
        ({"is_error": False}, 0),
        ({"is_error": "false"}, 0),
        ("error: none found", 0),
        ([{"error": "x"}], 0),
        (None, 0),
    ],
)
def test_tool_call_with_an_error_in_its_output_is_counted_as_error(output, errors):
    messages = (Message("assistant", None, tool_calls=(ToolCall("read", {}, output), ToolCall("read", {}, "fine"))),)
    assert summarize_trace(messages, None, None, None)["error_count"] == errors


@settings(deadline=None)
@given(st.lists(st.lists(st.sampled_from(["a", "b", "c"]), max_size=4), max_size=5), st.randoms())
def test_counts_add_up_in_any_order(turns, random):
    messages = [Message("assistant", None, tool_calls=tuple(map(ToolCall, turn))) for turn in turns]
    summary = summarize_trace(messages, None, None, None)
    assert summary["event_count"] == sum(summary["tool_calls_by_name"].values()) == sum(map(len, turns))
    assert summary["tool_names"] == list(summary["tool_calls_by_name"])
    assert summarize_trace(random.sample(messages, len(messages)), None, None, None) == summary
