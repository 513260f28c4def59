"""What an answer did on its way: computed from its messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from agentv.messages import Message, TokenUsage, ToolCall


def summarize_trace(
    messages: Sequence[Message], usage: TokenUsage | None, cost_usd: float | None, duration_ms: float | None
) -> dict[str, Any]:
    """Tool calls by name, model calls, and what the answer took."""
    made = [call for message in messages for call in message.tool_calls]
    calls: Counter[str] = Counter(call.tool for call in made)
    return {
        "event_count": len(made),
        "tool_names": sorted(calls),
        "tool_calls_by_name": {name: calls[name] for name in sorted(calls)},
        "error_count": sum(map(_failed, made)),
        "token_usage": usage.to_dict() if usage else None,
        "cost_usd": cost_usd,
        "duration_ms": duration_ms,
        "llm_call_count": sum(message.role == "assistant" for message in messages),
    }


def _failed(call: ToolCall) -> bool:
    """A call failed when its output says so: an object with an `error` that is not empty, or `is_error: true`."""
    output = call.output
    if not isinstance(output, Mapping):
        return False
    return bool(output.get("error")) or output.get("is_error") is True or output.get("isError") is True
