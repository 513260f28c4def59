"""The budget of a run: a limit in US dollars and a limit on judge calls.

A case may start if the remaining budget covers it and every case in flight, assuming that each costs as much as the
most expensive case so far. Until the first case has finished, cases run one at a time. Once the budget is used up,
calls are refused. A case that hits the limit counts as not run and can be resumed; no case is left half judged.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from agentv.amounts import known_count, known_usd
from agentv.errors import BudgetExhaustedError, ProviderError
from agentv.targets.provider import CallHooks, Provider, ProviderLayer, Reply, Request

HOW = "Continue with --resume and a larger limit."


class Budget:
    """The limits of one run and the amounts spent so far. No method awaits between a check and its update."""

    def __init__(
        self, max_cost: float | None = None, max_judge_calls: int | None = None, *, shard: str | None = None
    ) -> None:
        """With `shard`, such as `2/4`, the limits are the part of this shard."""
        self._whose = f" for shard {shard}" if shard is not None else ""
        self.max_cost = max_cost
        self.max_judge_calls = max_judge_calls
        self.spent_usd = 0.0
        self.judge_calls = 0
        self.unpriced_calls = 0
        """Answered calls without a known price. If there are any, `spent_usd` is a lower bound."""
        self.exhausted: str | None = None
        """Why no further case may start, or None while cases may."""
        self._in_flight = 0
        self._costliest: tuple[float, int] | None = None
        self._changed: list[asyncio.Future[None]] = []

    @property
    def limited(self) -> bool:
        return self.max_cost is not None or self.max_judge_calls is not None

    def spent_before(self, usd: float, judge_calls: int) -> None:
        """Add the amounts that an earlier part of the run has spent."""
        self.spent_usd += usd
        self.judge_calls += judge_calls

    def spent_at_least(self, recorded: Mapping[str, Any]) -> None:
        """Raise the amounts to those of an earlier `to_dict`, which also counts cases that left no row."""
        self.spent_usd = max(self.spent_usd, known_usd(recorded.get("spent_usd")) or 0.0)
        self.judge_calls = max(self.judge_calls, known_count(recorded.get("judge_calls")) or 0)

    async def admit(self) -> bool:
        """Whether another case may start. Waits while the answer depends on cases in flight.

        After True, call `settle` or `give_up` when the case ends.
        """
        while self.exhausted is None and self.limited:
            if self._fits():
                break
            if self._in_flight == 0:
                self.exhausted = self._what_is_left()
                break
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._changed.append(waiting)
            await waiting
        if self.exhausted is not None:
            return False
        self._in_flight += 1
        return True

    def enter(self) -> None:
        """Count a case in flight whose call is already paid for. Call `settle` or `give_up` when it ends."""
        self._in_flight += 1

    def settle(self, usd: float = 0.0, judge_calls: int = 0) -> None:
        """Record the end of an admitted case. Later cases are expected to cost no more than the maximum so far."""
        self._in_flight -= 1
        before = self._costliest or (0.0, 0)
        self._costliest = max(before[0], usd), max(before[1], judge_calls)
        self._wake()

    def give_up(self) -> None:
        """Record that an admitted case was not run."""
        self._in_flight -= 1
        self._wake()

    def check(self) -> None:
        """Raise `BudgetExhaustedError` if all dollars are spent."""
        if self.max_cost is not None and self.spent_usd >= self.max_cost:
            raise self._over(f"the run has spent ${self.spent_usd:.4g} of --max-cost {self.max_cost:g}{self._whose}")

    def spend(self, usd: float | None) -> None:
        """Count an answered call; None if its price is unknown."""
        if usd is None:
            self.unpriced_calls += 1
        else:
            self.spent_usd += usd

    async def pay(self, ask: Callable[[Request], Awaitable[Reply]], request: Request) -> Reply:
        """Make a call and count its cost."""
        self.check()
        try:
            reply = await ask(request)
        except ProviderError as error:
            self.spend(error.cost_usd or 0.0)  # an unusable reply is charged as well
            raise
        if isinstance(reply, Reply):  # the gate reports a provider that returns anything else
            self.spend(0.0 if reply.recorded else reply.cost_usd)
        return reply

    def take_judge_calls(self, calls: int) -> None:
        """Count judge calls that are about to be made. Raises `BudgetExhaustedError` unless all of them fit."""
        if self.max_judge_calls is not None and self.judge_calls + calls > self.max_judge_calls:
            requested = "one more judge call" if calls == 1 else f"{calls} more judge calls"
            raise self._over(
                f"{requested} would exceed --max-judge-calls {self.max_judge_calls}{self._whose} "
                f"({self.judge_calls} made in this run)"
            )
        self.judge_calls += calls

    def give_back_judge_calls(self, calls: int) -> None:
        """Uncount calls that were never made because their case counts as not run."""
        self.judge_calls -= calls

    def to_dict(self) -> dict[str, float | int | str | None]:
        return {
            "max_cost": self.max_cost,
            "max_judge_calls": self.max_judge_calls,
            "spent_usd": round(self.spent_usd, 12),
            "judge_calls": self.judge_calls,
            "unpriced_calls": self.unpriced_calls,
            "exhausted": self.exhausted,
        }

    def _fits(self) -> bool:
        usd, calls = self._costliest or (0.0, 0)
        if self._costliest is None and self._in_flight:
            return False
        cases = self._in_flight + 1
        money = self.max_cost is None or (
            self.spent_usd < self.max_cost
            and (
                self.spent_usd + cases * usd <= self.max_cost
                or math.isclose(self.spent_usd + cases * usd, self.max_cost)
            )
        )
        return money and (self.max_judge_calls is None or self.judge_calls + cases * calls <= self.max_judge_calls)

    def _what_is_left(self) -> str:
        parts = []
        if self.max_cost is not None:
            parts.append(f"${self.spent_usd:.4g} of --max-cost {self.max_cost:g}{self._whose} is spent")
        if self.max_judge_calls is not None:
            parts.append(f"{self.judge_calls} of --max-judge-calls {self.max_judge_calls}{self._whose} are used")
        return " and ".join(parts)

    def _over(self, why: str) -> BudgetExhaustedError:
        self.exhausted = self.exhausted or why
        self._wake()
        return BudgetExhaustedError(f"the budget of the run is exhausted: {why}", next_step=HOW)

    def _wake(self) -> None:
        waiting, self._changed = self._changed, []
        for future in waiting:
            if not future.done():
                future.set_result(None)


class MeteredProvider(ProviderLayer):
    """A provider whose calls are charged to the budget of the run."""

    def __init__(self, provider: Provider, budget: Budget) -> None:
        super().__init__(provider)
        self._budget = budget

    async def call(self, request: Request, hooks: CallHooks) -> Reply:
        return await self._budget.pay(lambda request: self.provider.call(request, hooks), request)

    async def invoke_batch(self, requests: Sequence[Request]) -> Mapping[str, Reply]:
        self._budget.check()
        replies = await self.provider.invoke_batch(requests)
        for reply in replies.values():
            self._budget.spend(reply.cost_usd)
        return replies
