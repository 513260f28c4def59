"""Judge targets of a run: calls, failures, cost and latency, from `judge_calls.jsonl` and the ledgers in its rows."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from agentv.amounts import MOST_TOKENS, known_ms, known_usd
from agentv.record.run_dir import RunDirectory
from agentv.report.statistics import quantile
from agentv.view.ledger_lines import LedgerLines, parsed

MOST_MODELS = 20
_BEFORE_PROMPTS = b',"request_sha256":"'
"""Comes after everything that is counted. In a string, the quotation marks would be escaped."""
_REPLAYED = b'"replayed":true}\n'


@dataclass(slots=True)
class Usage:
    """Tokens and cost of judge calls. What was not reported is unknown, not 0."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    cost_complete: bool = True

    def add(self, usage: Any, cost: Any) -> None:
        """Add answered calls."""
        paid = known_usd(cost)
        if paid is None:
            self.cost_complete = False
        else:
            self.cost_usd = (self.cost_usd or 0.0) + paid
        if type(usage) is dict:
            if "input" in usage:
                self.input_tokens = (self.input_tokens or 0) + count_of(usage, "input") + count_of(usage, "cached")
            if "output" in usage:
                self.output_tokens = (self.output_tokens or 0) + count_of(usage, "output")

    def to_dict(self) -> dict[str, Any]:
        cost = None if self.cost_usd is None else round(self.cost_usd, 9)
        return {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cost_usd": cost,
            "cost_complete": self.cost_complete,
        }


@dataclass(slots=True)
class _Target:
    models: dict[str, None] = field(default_factory=dict)
    calls: int = 0
    ended: dict[str, int] = field(default_factory=dict)
    retries: int = 0
    cache_hits: int = 0
    replayed: int = 0
    usage: Usage = field(default_factory=Usage)
    duration_ms: array[float] = field(default_factory=lambda: array("d"))
    waited_ms: array[float] = field(default_factory=lambda: array("d"))


@dataclass(slots=True)
class _Ledgers:
    """What the rows say about the calls to one judge target."""

    calls: int = 0
    failed: int = 0
    refused: int = 0
    retries: int = 0
    cache_hits: int = 0
    from_record: int = 0
    usage: Usage = field(default_factory=Usage)


class JudgeTargets:
    """The judge targets of a run. Add the ledgers of all rows, then read the calls."""

    def __init__(self) -> None:
        self._targets: dict[str, _Target] = {}
        self._ledgers: dict[str, _Ledgers] = {}
        self.damaged = 0

    def add_ledger(self, ledger: Mapping[str, Any]) -> None:
        name = ledger.get("target")
        totals = self._ledgers.setdefault(name if type(name) is str and name else "unknown", _Ledgers())
        calls, failed = count_of(ledger, "call_count"), count_of(ledger, "failed_calls")
        totals.calls += calls
        totals.failed += failed
        totals.refused += count_of(ledger, "refused_calls")
        totals.retries += count_of(ledger, "retries")
        totals.cache_hits += count_of(ledger, "cache_hits")
        totals.from_record += count_of(ledger, "from_record")
        if calls > failed:
            totals.usage.add(ledger.get("token_usage"), ledger.get("cost_usd"))

    def read(self, directory: RunDirectory) -> None:
        """Read all calls of the run. Lines that are damaged are counted."""
        for _, line in LedgerLines(directory.judge_calls).read():
            try:
                self._add(_counted_fields(line))
            except (ValueError, RecursionError):
                self.damaged += 1

    def _add(self, call: Mapping[str, Any]) -> None:
        name, status = call.get("target"), call.get("status")
        if type(name) is not str or type(status) is not str:
            raise ValueError("a judge call must have a target and a status")
        target = self._targets.get(name)
        if target is None:
            target = self._targets[name] = _Target()
        target.calls += 1
        target.ended[status] = target.ended.get(status, 0) + 1
        target.retries += count_of(call, "retries")
        is_repeated = call.get("cache_hit") is True or call.get("replayed") is True
        target.cache_hits += call.get("cache_hit") is True
        target.replayed += call.get("replayed") is True
        model = call.get("model")
        if type(model) is str and model and len(target.models) < MOST_MODELS:
            target.models[model] = None
        if status != "ok":
            return
        target.usage.add(call.get("token_usage"), call.get("cost_usd"))
        if not is_repeated:
            _append(target.duration_ms, call.get("duration_ms"))
            _append(target.waited_ms, call.get("waited_ms"))

    def to_list(self) -> list[dict[str, Any]]:
        """`JudgeTarget` of each target, the most called first."""
        names = sorted({**self._targets, **self._ledgers})
        targets = [self._of_calls(name) if name in self._targets else self._of_ledgers(name) for name in names]
        return sorted(
            (target for target in targets if target["calls"] or target["refused"]),
            key=lambda target: -int(target["calls"]),
        )

    def _of_calls(self, name: str) -> dict[str, Any]:
        target, ledgers = self._targets[name], self._ledgers.get(name, _Ledgers())
        durations, waits = sorted(target.duration_ms), sorted(target.waited_ms)
        return {
            "name": name,
            "models": list(target.models),
            "calls": target.calls,
            "ok": target.ended.get("ok", 0),
            "failed": target.ended.get("failed", 0),
            "timeouts": target.ended.get("timeout", 0),
            "cancelled": target.ended.get("cancelled", 0),
            "refused": ledgers.refused,
            "retries": target.retries,
            "cache_hits": target.cache_hits,
            # Replies that a resumed row got from the record have no line of their own.
            "from_record": max(target.replayed, ledgers.from_record),
            **target.usage.to_dict(),
            "p50_ms": quantile(durations, 0.5) if durations else None,
            "p95_ms": quantile(durations, 0.95) if durations else None,
            "waited_p95_ms": quantile(waits, 0.95) if waits else None,
        }

    def _of_ledgers(self, name: str) -> dict[str, Any]:
        """A target whose calls are not in `judge_calls.jsonl`, as in runs of other tools."""
        totals = self._ledgers[name]
        return {
            "name": name,
            "models": [],
            "calls": totals.calls,
            "ok": totals.calls - totals.failed,
            "failed": totals.failed,
            "timeouts": None,
            "cancelled": None,
            "refused": totals.refused,
            "retries": totals.retries,
            "cache_hits": totals.cache_hits,
            "from_record": totals.from_record,
            **totals.usage.to_dict(),
            "p50_ms": None,
            "p95_ms": None,
            "waited_p95_ms": None,
        }


def _counted_fields(line: bytes) -> Mapping[str, Any]:
    """The fields of a call that are counted. Prompts and replies are most of a line, and are not parsed."""
    end = line.find(_BEFORE_PROMPTS)
    if end > 0:
        with suppress(ValueError, RecursionError):
            call = parsed(line[:end] + b"}")
            if type(call) is dict and "duration_ms" in call and "cost_usd" in call:
                return {**call, "replayed": True} if line.endswith(_REPLAYED) else call
    call = parsed(line)
    if type(call) is not dict:
        raise ValueError("a judge call must be an object")
    return call


def count_of(data: Mapping[str, Any], name: str) -> int:
    """A number of calls or tokens; 0 if it is missing or not a number."""
    value = data.get(name)
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else 0


def _append(values: array[float], value: Any) -> None:
    if (ms := known_ms(value)) is not None:
        values.append(ms)
