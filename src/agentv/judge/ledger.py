"""Counts the judge calls of one execution. Nothing here awaits, so the limit is checked and counted atomically."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from agentv.messages import TokenUsage

DEFAULT_MAX_CALLS = 50


class JudgeLedger:
    """Reserve calls before making them, and settle each one afterwards. A reserved call counts, however it ends."""

    def __init__(
        self, max_calls: int = DEFAULT_MAX_CALLS, *, target: str = "", clock: Callable[[], float] = time.perf_counter
    ) -> None:
        if isinstance(max_calls, bool) or not isinstance(max_calls, int) or max_calls < 0:
            raise ValueError(f"max_calls must be a whole number from 0, got {max_calls!r}")
        self.target = target
        self.max_calls = max_calls
        self.call_count = 0
        self.refused_calls = 0
        self.failed_calls = 0
        self.retries = 0
        self.cache_hits = 0
        self.from_record = 0
        self.batch_used = False
        self.targets: dict[str, int] = {}
        self.models: dict[str, dict[str, int]] = {}
        """Models that client libraries asked for -> the targets that were used, with the number of calls."""
        self.token_usage: TokenUsage | None = None
        self.embeddings: JudgeLedger | None = None
        """The ledger of requests for embeddings, which have a limit of their own."""
        self.closed = False
        self._cost = 0.0
        self._cost_known = True
        self._answered = 0
        self._clock = clock
        self._in_flight = 0
        self._busy_since = 0.0
        self._busy = 0.0

    @property
    def breached(self) -> bool:
        """Whether a call was refused because of the limit. If so, the evaluator fails, whatever the script prints."""
        return self.refused_calls > 0 or (self.embeddings is not None and self.embeddings.breached)

    @property
    def remaining(self) -> int:
        return self.max_calls - self.call_count

    def reserve(self, targets: Sequence[str], *, batch: bool = False) -> bool:
        """Count one call per target, all or none. Returns False if they would exceed the limit and were refused."""
        if self.closed:
            raise RuntimeError("the ledger is closed")
        if len(targets) > self.remaining:
            self.refuse(len(targets))
            return False
        if self._in_flight == 0:
            self._busy_since = self._clock()
        self.call_count += len(targets)
        self._in_flight += len(targets)
        self.batch_used = self.batch_used or batch
        for name in targets:
            self.targets[name] = self.targets.get(name, 0) + 1
        return True

    def note_model(self, asked: str, target: str) -> None:
        """Count a reserved call under the name of the model that it asked for."""
        used = self.models.setdefault(asked, {})
        used[target] = used.get(target, 0) + 1

    def refuse(self, calls: int) -> None:
        """Count calls that were not made because of the limit."""
        self.refused_calls += calls

    def settle(
        self,
        *,
        failed: bool = False,
        retries: int = 0,
        cache_hit: bool = False,
        from_record: bool = False,
        token_usage: TokenUsage | None = None,
        cost_usd: float | None = None,
    ) -> None:
        """Record how one reserved call ended. After `close` this has no effect."""
        if self.closed:
            return
        self._in_flight -= 1
        if self._in_flight == 0:
            self._busy += self._clock() - self._busy_since
        self.retries += retries
        self.cache_hits += cache_hit
        self.from_record += from_record
        if failed:
            self.failed_calls += 1
            return
        self._answered += 1
        if token_usage is not None:
            self.token_usage = token_usage if self.token_usage is None else self.token_usage + token_usage
        if cost_usd is None:
            self._cost_known = False
        else:
            self._cost += cost_usd

    def close(self) -> None:
        """Count calls in flight as failed, and allow no further reservations."""
        if self.closed:
            return
        if self.embeddings is not None:
            self.embeddings.close()
        self.failed_calls += self._in_flight
        if self._in_flight:
            self._busy += self._clock() - self._busy_since
            self._in_flight = 0
        self.closed = True

    def _known_cost(self) -> float | None:
        known = self._cost_known and (self._answered or not self.call_count)
        return round(self._cost, 12) if known else None

    def to_dict(self) -> dict[str, Any]:
        """The `judge_proxy` object of the evaluator's result.

        `duration_ms` is the time during which at least one call was in flight. `cost_usd` is null if the cost of an
        answered call is unknown, or if calls were made and none was answered.
        """
        running = self._clock() - self._busy_since if self._in_flight else 0.0
        return {
            "target": self.target,
            "call_count": self.call_count,
            "max_calls": self.max_calls,
            "batch_used": self.batch_used,
            "refused_calls": self.refused_calls,
            "failed_calls": self.failed_calls,
            "retries": self.retries,
            "cache_hits": self.cache_hits,
            "from_record": self.from_record,
            "targets": dict(self.targets),
            **({"models": {name: dict(used) for name, used in self.models.items()}} if self.models else {}),
            "token_usage": self.token_usage.to_dict() if self.token_usage else None,
            "cost_usd": self._known_cost(),
            "duration_ms": round((self._busy + running) * 1000, 3),
            **({} if self.embeddings is None else {"embeddings": self.embeddings.to_dict()}),
        }
