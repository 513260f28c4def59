"""The names that AgentV 4 and 5 give to the keys of the payload, which are sent beside ours in the same object.

A script cannot announce which names it reads, so every script gets both. Values are encoded once: a key with two names
costs the bytes of its second copy, and no second encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

SECOND_NAMES: Mapping[str, str] = {
    "input": "input_messages",
    "output": "candidate_answer",
    "messages": "output_messages",
    "expected_output": "expected_messages",
    "criteria": "expected_outcome",
}
"""AgentV's name of a key -> ours. Scripts that check their input require all of these but `output`."""
FIGURES = ("token_usage", "cost_usd", "duration_ms")
"""Keys of our `trace_summary` that AgentV sends at the top level."""
ALL_SECOND_NAMES = (*SECOND_NAMES, *FIGURES, "trace")
_OF_CALL = {"id": "call_id", "input": "input", "output": "output"}


def with_tool_counts(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The trace summary with its tool counts under both names."""
    counts = summary.get("tool_calls_by_name")
    return dict(summary) if counts is None or "tool_calls" in summary else {**summary, "tool_calls": counts}


def second_names(values: Mapping[str, Any], encoded: Mapping[str, str], dumps: Callable[[Any], str]) -> dict[str, str]:
    """AgentV's keys that are not in the payload, as JSON. `encoded` has the JSON of every key in `values`."""
    names = {name: encoded[own] for name, own in SECOND_NAMES.items() if values.get(own) is not None}
    names.setdefault("messages", "[]")
    names.setdefault("criteria", '""')
    answer = values.get("reference_answer")
    if not values.get("expected_messages") and answer is not None:
        names["expected_output"] = dumps([{"role": "assistant", "content": answer}])
    summary = values.get("trace_summary")
    if isinstance(summary, Mapping):
        names |= {key: dumps(summary[key]) for key in FIGURES if key in summary}
        names["trace"] = _trace(values, summary, encoded, dumps)
    return {name: text for name, text in names.items() if name not in values}


def _trace(
    values: Mapping[str, Any], summary: Mapping[str, Any], encoded: Mapping[str, str], dumps: Callable[[Any], str]
) -> str:
    """The trace summary with the messages of the whole conversation, and an event per message and tool call."""
    whole = any(message.get("role") in ("user", "system") for message in _objects(values.get("output_messages")))
    keys = ("output_messages",) if whole else ("input_messages", "output_messages")
    messages = [message for key in keys for message in _objects(values.get(key))]
    lists = ", ".join(encoded[key][1:-1] for key in keys if isinstance(values.get(key), list) and values[key])
    head, events = dumps(with_tool_counts(summary)), dumps(list(_events(messages)))
    return f'{head[:-1]}{", " if summary else ""}"messages": [{lists}], "events": {events}}}'


def _objects(messages: Any) -> list[Mapping[str, Any]]:
    return [message for message in messages if isinstance(message, Mapping)] if isinstance(messages, list) else []


def _events(messages: list[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """An event for each message, without its content, which is in `messages`; and one for each of its tool calls."""
    ordinal = 0
    for at, message in enumerate(messages):
        parent = f"message-{at}"
        yield {"event_id": parent, "ordinal": ordinal, "type": "message", "message": {"role": message.get("role")}}
        ordinal += 1
        for number, call in enumerate(_objects(message.get("tool_calls"))):
            tool = {"name": call.get("tool"), **{new: call[key] for key, new in _OF_CALL.items() if key in call}}
            name = f"{parent}-tool-{number}"
            yield {"event_id": name, "parent_event_id": parent, "ordinal": ordinal, "type": "tool_call", "tool": tool}
            ordinal += 1
