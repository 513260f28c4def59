"""Human-readable scores, durations, costs, token counts and rates."""

from __future__ import annotations

import math

from agentv.messages import TokenUsage
from agentv.text import plural


def format_score(score: float | None) -> str:
    """Two decimals, truncated: 0.7999 is below a threshold of 0.8 and must not be shown as 0.80."""
    if score is None:
        return "-"
    return f"{math.floor(round(score * 100, 6)) / 100:.2f}"


def format_duration(seconds: float) -> str:
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def format_cost(usd: float) -> str:
    if 0 < usd < 0.0001:
        return "<$0.0001"
    return f"${usd:.4f}" if usd < 1 else f"${usd:,.2f}"


def format_tokens(usage: TokenUsage) -> str:
    cached = f" + {usage.cached:,} cached" if usage.cached else ""
    return f"{plural(usage.total, 'token')} ({usage.input:,} in{cached}, {usage.output:,} out)"


def format_rate(per_second: float) -> str:
    if per_second >= 10:
        return f"{per_second:,.0f}/s"
    return f"{per_second:.1f}/s" if per_second >= 0.95 else f"{per_second * 60:.1f}/min"
