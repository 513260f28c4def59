"""Counting judge calls: all or none, never over the limit, final after `close`."""

from __future__ import annotations

import pytest

from agentv.judge.ledger import JudgeLedger
from agentv.messages import TokenUsage


def test_reservation_is_all_or_none() -> None:
    ledger = JudgeLedger(10, target="a")
    assert ledger.reserve(["a"] * 7)
    assert not ledger.reserve(["a"] * 5, batch=True)
    assert (ledger.call_count, ledger.refused_calls, ledger.breached, ledger.batch_used) == (7, 5, True, False)
    assert ledger.reserve(["a"] * 3, batch=True)
    assert (ledger.call_count, ledger.remaining, ledger.batch_used) == (10, 0, True)


def test_limit_of_0_refuses_every_call() -> None:
    ledger = JudgeLedger(0)
    assert not ledger.reserve(["a"])
    assert ledger.breached


@pytest.mark.parametrize("limit", [-1, 1.5, True, "10", None, float("nan")])
def test_limit_must_be_a_whole_number(limit: object) -> None:
    with pytest.raises(ValueError, match="max_calls"):
        JudgeLedger(limit)  # type: ignore[arg-type]


def test_ledger_totals_in_a_result() -> None:
    now = [0.0]
    ledger = JudgeLedger(5, target="a", clock=lambda: now[0])
    ledger.reserve(["a", "b"], batch=True)
    now[0] = 1.0
    ledger.settle(retries=2, token_usage=TokenUsage(10, 2), cost_usd=0.25)
    now[0] = 2.0
    ledger.settle(cache_hit=True, from_record=True, token_usage=TokenUsage(1, 1), cost_usd=0.5)
    now[0] = 50.0
    ledger.reserve(["a"])
    now[0] = 51.0
    ledger.settle(failed=True, retries=1)
    assert ledger.to_dict() == {
        "target": "a",
        "call_count": 3,
        "max_calls": 5,
        "batch_used": True,
        "refused_calls": 0,
        "failed_calls": 1,
        "retries": 3,
        "cache_hits": 1,
        "from_record": 1,
        "targets": {"a": 2, "b": 1},
        "token_usage": {"input": 11, "output": 3},
        "cost_usd": 0.75,
        "duration_ms": 3000.0,
    }


def test_cost_is_null_when_one_answer_has_no_price() -> None:
    ledger = JudgeLedger(5)
    ledger.reserve(["a", "a"])
    ledger.settle(cost_usd=1.0)
    ledger.settle()
    assert ledger.to_dict()["cost_usd"] is None


def test_close_counts_calls_in_flight_as_failed_and_is_final() -> None:
    ledger = JudgeLedger(5)
    ledger.reserve(["a", "a"])
    ledger.close()
    ledger.settle(cost_usd=3.0)
    ledger.close()
    assert (ledger.failed_calls, ledger.to_dict()["cost_usd"]) == (2, None)
    with pytest.raises(RuntimeError):
        ledger.reserve(["a"])
