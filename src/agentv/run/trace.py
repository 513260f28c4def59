"""What an answer did on its way: computed from its messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from agentv.messages import Message, TokenUsage


def summarize_trace(
    messages: Sequence[Message], usage: TokenUsage | None, cost_usd: float | None, duration_ms: float | None
) -> dict[str, Any]:
    """Tool calls by name, and what the answer took."""
    calls = Counter(call.tool for message in messages for call in message.tool_calls)
    return {
        "event_count": calls.total(),
        "tool_names": sorted(calls),
        "tool_calls_by_name": {name: calls[name] for name in sorted(calls)},
        "error_count": 0,
        "token_usage": usage.to_dict() if usage else None,
        "cost_usd": cost_usd,
        "duration_ms": duration_ms,
    }
