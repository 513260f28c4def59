"""The scheduler: a lane for each target, and stages that never hold each other's slots.

A lane keeps as many target calls in flight as its target allows. When an answer is there, its target slot is free at
once, and the answer is judged. What judging waits for has slots of its own: processes for scripts, places at a judge's
target for evaluators that ask, and places in the run for all others; nobody waits in one line while holding a place of
another. How many answers may wait is bounded, so a slow evaluator slows the calls down before memory fills.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agentv.errors import BudgetExhaustedError, ProviderError, TargetUnavailableError
from agentv.plan.plan import Lane, RunPlan, WorkItem
from agentv.results import CaseResult, RowKey, spend_of
from agentv.run.batch import Batches
from agentv.run.case import Ask, answer, grade
from agentv.run.services import OnJudgeCall, OnNote, Services, judge_cache, script_services
from agentv.targets.answers import Answers
from agentv.targets.budget import Budget
from agentv.targets.pool import TargetPool
from agentv.targets.provider import OnRetry, Reply, Request

if TYPE_CHECKING:
    from agentv.scripts import Runtime

BACKLOG = 256
"""Cases between the start of their target call and the end of their row, beyond the target slots."""

Deliver = Callable[[CaseResult], Awaitable[None]]
"""Takes a finished row; returns when it is safe."""


@dataclass(slots=True)
class Execution:
    """One run of a plan."""

    plan: RunPlan
    run_id: str
    deliver: Deliver
    is_done: Callable[[RowKey], bool] = lambda _: False
    on_retry: OnRetry | None = None
    on_judge_call: OnJudgeCall | None = None
    function: Ask | None = None
    """Answers the lanes that have no configured target."""
    own_process: bool = False
    """Whether the process is ours alone, as on the command line."""
    cwd: Path = field(default_factory=Path.cwd)
    on_note: OnNote | None = None
    """Hears what a user should know of the run, besides its rows."""
    budget: Budget = field(default_factory=Budget)
    not_run: int = 0
    """Cases that the budget did not allow."""
    _judging: asyncio.Semaphore = field(init=False)
    """Places for cases whose evaluators neither start scripts nor ask a judge."""

    async def run(self) -> None:
        """Every item of the plan that is not done yet. Cancelling stops the work in flight."""
        options = self.plan.options
        places = max(32, 4 * (os.cpu_count() or 1), options.workers or 0)
        self._judging = asyncio.Semaphore(places)
        pool = TargetPool(
            self.plan.secrets,
            workers=options.workers,
            timeout=options.timeout,
            on_retry=self.on_retry,
            budget=self.budget,
        )
        try:
            async with (
                pool,
                script_services(self.plan.needs, own_process=self.own_process, on_note=self.on_note) as launcher,
                judge_cache(self.plan, self.cwd, self.on_note) as cache,
                asyncio.TaskGroup() as lanes,
            ):
                self._refuse_when_nobody_answers(pool)
                slots = asyncio.Semaphore(places)
                services = Services(self.plan, pool, launcher, self.on_judge_call, cache, slots)
                for lane in self.plan.lanes:
                    lanes.create_task(self._run_lane(lane, services))
        except BaseExceptionGroup as group:
            raise _first(group) from group

    def _refuse_when_nobody_answers(self, pool: TargetPool) -> None:
        """When no target of the run can be set up, nothing is run."""
        if self.plan.answers is not None or not self.plan.lanes:
            return
        problem: TargetUnavailableError | None = None
        for lane in self.plan.lanes:
            if lane.spec is None:
                return
            try:
                pool.gate(lane.spec, lane.environment)
            except TargetUnavailableError as error:
                problem = problem or error
            else:
                return
        if problem is not None:
            raise problem

    async def _run_lane(self, lane: Lane, services: Services) -> None:
        ask, batches = self._asker(lane, services.pool)
        slots = asyncio.Semaphore(lane.workers)
        backlog = asyncio.Semaphore(lane.workers + BACKLOG)
        skipped = 0
        async with _closing(batches), asyncio.TaskGroup() as group:
            for item in lane.items():
                if self.is_done(item.key):
                    skipped += 1
                    if skipped % 100 == 0:
                        await asyncio.sleep(0)
                    continue
                if batches is not None:
                    self.budget.enter()
                elif not await self.budget.admit():
                    self.not_run += 1
                    continue
                await backlog.acquire()
                await slots.acquire()
                runtime = services.runtime(lane, item.planned)
                asked = ask if batches is None else batches.asker(item)
                group.create_task(self._run_item(item, asked, runtime, slots, backlog))

    async def _run_item(
        self,
        item: WorkItem,
        ask: Ask,
        runtime: Runtime | None,
        slots: asyncio.Semaphore,
        backlog: asyncio.Semaphore,
    ) -> None:
        try:
            try:
                answered = await answer(item, ask if self.plan.answers is None else self._recorded(item))
            finally:
                slots.release()
            if runtime is not None and any(evaluator.needs for evaluator in item.case.evaluators):
                row = await grade(item, answered, self.run_id, runtime)
            else:
                async with self._judging:
                    row = await grade(item, answered, self.run_id, runtime)
            self.budget.settle(*spend_of(row, answer_paid=self.plan.pays_for(item.target)))
            await self.deliver(row)
        except BudgetExhaustedError:
            self.not_run += 1
            self.budget.give_up()
        finally:
            backlog.release()

    def _asker(self, lane: Lane, pool: TargetPool) -> tuple[Ask, Batches | None]:
        if lane.spec is None:
            asked = self.function or _nobody
            return partial(self.budget.pay, asked) if self.budget.limited else asked, None
        try:
            gate = pool.gate(lane.spec, lane.environment)
        except TargetUnavailableError as error:
            return _unavailable(error), None
        return gate.invoke, Batches(lane, gate, self.is_done) if gate.batches and self.plan.answers is None else None

    def _recorded(self, item: WorkItem) -> Ask:
        answers = self.plan.answers
        assert answers is not None  # noqa: S101 - only called for runs that grade recorded answers

        async def look_up(_: Request) -> Reply:
            return _recorded_reply(answers, item)

        return look_up


@asynccontextmanager
async def _closing(batches: Batches | None) -> AsyncIterator[None]:
    try:
        yield
    finally:
        if batches is not None:
            await batches.aclose()


def _first(error: BaseException) -> BaseException:
    """The error that stopped the run; the others are its echoes."""
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def _recorded_reply(answers: Answers, item: WorkItem) -> Reply:
    suite, target = item.planned.suite.name, item.target
    found = answers.find(item.case.id, target, item.attempt, suite=suite)
    if found is None:
        failed = answers.failure(item.case.id, target, item.attempt, suite=suite)
        why = f"the recorded call had failed: {failed.failure}" if failed else f"{answers.path} holds no answer for it"
        raise ProviderError(
            f"the case '{item.case.id}' cannot be graded: {why}",
            next_step="Add a line with its `eval_id` and `candidate_answer`, or leave it out with --case.",
        )
    return Reply(found.output_messages, found.token_usage, found.cost_usd, found.duration_ms, recorded=True)


def _unavailable(error: TargetUnavailableError) -> Ask:
    async def refuse(_: Request) -> Reply:
        raise error

    return refuse


async def _nobody(_: Request) -> Reply:
    raise ProviderError("nothing answers this target", next_step="Give it a provider, a function or recorded answers.")
