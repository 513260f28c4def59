"""The range of numbers that come from outside: costs, durations and token counts.

A target, a script or a recorded file can report any number. A value outside its range is unknown (None), never clamped,
so sums cannot overflow and a wrong number cannot pass as a measurement.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

if TYPE_CHECKING:
    from agentv.messages import TokenUsage

MOST_USD = 10.0**9
MOST_MS = 10.0**12
"""About 32 years."""
MOST_TOKENS = 2**53 - 1
"""The largest number that every JSON reader keeps exact."""


class Amounts(NamedTuple):
    """What a call reported. Each value is None if it is unknown or was out of range; then a warning says so."""

    token_usage: TokenUsage | None
    cost_usd: float | None
    duration_ms: float | None
    warnings: tuple[str, ...]


def known_usd(value: object) -> float | None:
    """The value as an amount in US dollars; None if it is not a number in range."""
    return float(value) if _is_number(value) and 0 <= value <= MOST_USD else None


def known_ms(value: object) -> float | None:
    """The value as a number of milliseconds; None if it is not a number in range."""
    return float(value) if _is_number(value) and 0 <= value <= MOST_MS else None


def known_count(value: object) -> int | None:
    """The value as a number of tokens or calls; None if it is not a whole number in range."""
    return int(value) if _is_number(value) and 0 <= value <= MOST_TOKENS and value == int(value) else None


def bounded(token_usage: TokenUsage | None, cost_usd: Any, duration_ms: Any) -> Amounts:
    """The amounts that a target reported, without those that are out of range."""
    warnings: list[str] = []
    if cost_usd is not None and known_usd(cost_usd) is None:
        warnings.append(_unknown("cost_usd", cost_usd, MOST_USD))
        cost_usd = None
    if duration_ms is not None and known_ms(duration_ms) is None:
        warnings.append(_unknown("duration_ms", duration_ms, MOST_MS))
        duration_ms = None
    if token_usage is not None:
        for name in ("input", "output", "cached"):
            count = getattr(token_usage, name)
            if count is not None and known_count(count) is None:
                warnings.append(_unknown(f"token_usage.{name}", count, MOST_TOKENS))
                token_usage = None
                break
    return Amounts(token_usage, cost_usd, duration_ms, tuple(warnings))


def bounded_ledger(ledger: Mapping[str, Any]) -> Mapping[str, Any]:
    """Recorded judge usage, without amounts that are out of range."""
    usage, cost = ledger.get("token_usage"), ledger.get("cost_usd")
    counts = usage.values() if isinstance(usage, Mapping) else ()
    valid_usage = all(count is None or known_count(count) is not None for count in counts)
    if valid_usage and (cost is None or known_usd(cost) is not None):
        return ledger
    return {**ledger, "token_usage": usage if valid_usage else None, "cost_usd": known_usd(cost)}


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _unknown(name: str, value: object, most: float) -> str:
    if isinstance(value, float):
        shown = f"{value:.4g}"
    elif isinstance(value, int):
        shown = str(value).lower() if abs(value) < 10**30 else "a longer number"
    else:
        shown = f"a value of type {type(value).__name__}"
    return f"`{name}` must be a number from 0 to {most:,.0f}, got {shown}; it is recorded as unknown"
