"""The budget of a run: cases are admitted, rejected and settled, and the limits are never exceeded."""

from __future__ import annotations

import asyncio

import pytest

from agentv.errors import BudgetExhaustedError
from agentv.targets.budget import Budget, MeteredProvider
from agentv.targets.provider import Provider, Reply, Request


class Priced(Provider):
    """Replies with the given costs, one per call."""

    def __init__(self, *costs: float | None) -> None:
        self.costs = list(costs)
        self.closed = False

    async def invoke(self, request: Request) -> Reply:
        del request
        return Reply.of_text("ok", cost_usd=self.costs.pop(0))

    async def aclose(self) -> None:
        self.closed = True


async def test_without_limits_every_case_starts_immediately():
    budget = Budget()
    assert [await budget.admit() for _ in range(1000)] == [True] * 1000
    assert not budget.limited


async def test_the_first_case_runs_alone_and_sets_the_expected_cost():
    budget = Budget(max_judge_calls=10)
    assert await budget.admit()
    second = asyncio.ensure_future(budget.admit())
    await asyncio.sleep(0)
    assert not second.done()
    budget.take_judge_calls(3)
    budget.settle(judge_calls=3)
    assert await second


async def test_a_case_waits_for_cases_in_flight_and_is_rejected_without_any():
    budget = Budget(max_judge_calls=6)
    await budget.admit()
    budget.take_judge_calls(3)
    budget.settle(judge_calls=3)
    assert await budget.admit()  # three are left, and this one may need them
    waiting = asyncio.ensure_future(budget.admit())
    await asyncio.sleep(0)
    assert not waiting.done()
    budget.take_judge_calls(3)
    budget.settle(judge_calls=3)
    assert not await waiting
    assert budget.exhausted == "6 of --max-judge-calls 6 are used"
    assert not await budget.admit()


async def test_a_case_that_turned_out_cheap_makes_room_for_the_next():
    budget = Budget(max_judge_calls=5)
    await budget.admit()
    budget.take_judge_calls(2)
    budget.settle(judge_calls=2)
    assert await budget.admit()
    waiting = asyncio.ensure_future(budget.admit())
    await asyncio.sleep(0)
    budget.take_judge_calls(1)
    budget.settle(judge_calls=1)
    assert await waiting  # 3 made, 2 left


def test_judge_calls_are_taken_all_or_none_and_never_pass_the_limit():
    budget = Budget(max_judge_calls=5)
    budget.take_judge_calls(4)
    with pytest.raises(BudgetExhaustedError, match=r"2 more judge calls would exceed --max-judge-calls 5 \(4 made"):
        budget.take_judge_calls(2)
    budget.take_judge_calls(1)
    assert budget.judge_calls == 5


async def test_calls_are_rejected_once_the_budget_is_spent():
    budget = Budget(max_cost=0.10)
    metered = MeteredProvider(Priced(0.06, 0.05, 1.0), budget)
    await metered.invoke(Request("a"))
    await metered.invoke(Request("b"))
    with pytest.raises(BudgetExhaustedError, match=r"has spent \$0\.11 of --max-cost 0\.1"):
        await metered.invoke(Request("c"))
    assert budget.spent_usd == pytest.approx(0.11)


async def test_calls_without_a_price_are_counted_separately():
    budget = Budget(max_cost=1)
    provider = Priced(None)
    metered = MeteredProvider(provider, budget)
    await metered.invoke(Request("a"))
    assert (budget.spent_usd, budget.unpriced_calls) == (0.0, 1)
    await metered.aclose()
    assert provider.closed


@pytest.mark.parametrize("cases", [3, 10])
async def test_prices_that_add_up_to_the_limit_exactly_are_all_paid(cases: int):
    budget = Budget(max_cost=0.1 * cases)
    for _ in range(cases):
        assert await budget.admit()
        budget.spend(0.1)
        budget.settle(usd=0.1)
    assert not await budget.admit()


async def test_giving_up_a_case_wakes_waiting_cases():
    budget = Budget(max_cost=1)
    await budget.admit()
    waiting = asyncio.ensure_future(budget.admit())
    await asyncio.sleep(0)
    budget.give_up()
    assert await waiting


def test_what_an_earlier_part_spent_counts():
    budget = Budget(max_cost=1, max_judge_calls=9)
    budget.spent_before(0.25, 2)
    budget.spent_at_least({"spent_usd": 0.5, "judge_calls": 1})
    assert (budget.spent_usd, budget.judge_calls) == (0.5, 2)


async def test_a_limit_that_is_spent_to_the_cent_refuses_the_next_call():
    budget = Budget(max_cost=0.5)
    metered = MeteredProvider(Priced(0.5, 0.0), budget)
    await metered.invoke(Request("a"))
    with pytest.raises(BudgetExhaustedError):
        await metered.invoke(Request("b"))


async def test_the_costliest_case_sets_the_price_not_the_last_one():
    budget = Budget(max_cost=10, max_judge_calls=10)
    for usd, calls in ((4.0, 4), (0.0, 0)):
        assert await budget.admit()
        budget.spend(usd)
        budget.take_judge_calls(calls)
        budget.settle(usd, calls)
    assert await budget.admit()  # 6 are left, and it may need 4 of them
    waiting = asyncio.ensure_future(budget.admit())
    await asyncio.sleep(0)
    assert not waiting.done()
    budget.give_up()
    assert await waiting


async def test_when_every_dollar_is_spent_not_even_a_free_case_begins():
    budget = Budget(max_cost=0.5)
    budget.spent_before(0.5, 0)
    assert not await budget.admit()
    assert budget.exhausted == "$0.5 of --max-cost 0.5 is spent"


async def test_exhausted_reports_the_first_reason():
    budget = Budget(max_cost=0.5, max_judge_calls=1)
    with pytest.raises(BudgetExhaustedError, match="2 more judge calls would exceed --max-judge-calls 1"):
        budget.take_judge_calls(2)
    budget.spend(0.5)
    with pytest.raises(BudgetExhaustedError, match="of --max-cost"):
        budget.check()
    assert budget.exhausted == "2 more judge calls would exceed --max-judge-calls 1 (0 made in this run)"


async def test_every_answer_of_a_batch_is_paid_for():
    budget = Budget(max_cost=1)
    metered = MeteredProvider(Priced(0.5, 0.25, None, 0.5), budget)
    await metered.invoke_batch([Request("q", eval_id=name) for name in "abc"])
    assert (budget.spent_usd, budget.unpriced_calls) == (0.75, 1)
    await metered.invoke_batch([Request("q", eval_id="d")])
    with pytest.raises(BudgetExhaustedError):
        await metered.invoke_batch([Request("q", eval_id="e")])


def test_returned_judge_calls_can_be_used_again():
    budget = Budget(max_judge_calls=5)
    budget.take_judge_calls(5)
    budget.give_back_judge_calls(3)
    budget.take_judge_calls(3)
    assert budget.judge_calls == 5
