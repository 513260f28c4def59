"""The scheduler: one lane for each target, with separate slots for target calls and for evaluators.

A lane keeps as many target calls in flight as its target allows. When an answer arrives, its target slot is released
before the answer is judged. Evaluators have separate slots: process slots for scripts, slots of the judge target for
evaluators that call a judge, and slots of the run for all others. No task waits for one kind of slot while it holds
another. The number of answers that wait to be judged is bounded, so slow evaluators slow down target calls instead of
filling memory.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agentv.errors import BudgetExhaustedError, ProviderError, TargetUnavailableError
from agentv.plan.plan import Lane, RunPlan, WorkItem
from agentv.results import CaseResult, RowKey, spend_of
from agentv.run.batch import Batches
from agentv.run.case import Ask, answer, grade, with_file_text
from agentv.run.services import OnJudgeCall, OnNote, Services, judge_cache, most_scripts, script_services
from agentv.targets.answers import Answers
from agentv.targets.budget import Budget
from agentv.targets.pool import TargetPool
from agentv.targets.provider import OnRetry, Reply, Request

if TYPE_CHECKING:
    from agentv.scripts import Runtime

BACKLOG = 256
"""Cases that may be in progress at the same time, in addition to the target slots."""

Deliver = Callable[[CaseResult], Awaitable[None]]
"""Receives a finished row, and returns when it is on disk."""


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
    """Answers the cases of lanes without a configured target."""
    own_process: bool = False
    """Whether agentv owns the whole process, as on the command line."""
    cwd: Path = field(default_factory=Path.cwd)
    on_note: OnNote | None = None
    """Called with notes for the user."""
    budget: Budget = field(default_factory=Budget)
    retry_command: str | None = None
    """The command that runs cases again whose target was down."""
    not_run: int = 0
    """Number of cases that were not run because the budget was exhausted."""
    _judging: asyncio.Semaphore = field(init=False)
    """Slots for cases whose evaluators neither start scripts nor call a judge."""

    async def run(self) -> None:
        """Run every item of the plan that is not done yet. Cancelling stops the work in flight."""
        options = self.plan.options
        slot_count = max(32, 4 * (os.cpu_count() or 1), options.workers or 0)
        self._judging = asyncio.Semaphore(slot_count)
        pool = TargetPool(
            self.plan.secrets,
            workers=options.workers,
            timeout=options.timeout,
            on_retry=self.on_retry,
            budget=self.budget,
            max_consecutive_errors=options.max_consecutive_errors,
            retry_command=self.retry_command,
        )
        try:
            async with (
                pool,
                script_services(self.plan.needs, own_process=self.own_process, on_note=self.on_note) as launcher,
                judge_cache(self.plan, self.cwd, self.on_note) as cache,
                asyncio.TaskGroup() as lanes,
            ):
                self._check_targets(pool)
                await self._note_unknown_prices(pool)
                slots = asyncio.Semaphore(slot_count if launcher is None else most_scripts(slot_count))
                services = Services(self.plan, pool, launcher, self.on_judge_call, cache, slots)
                for lane in self.plan.lanes:
                    lanes.create_task(self._run_lane(lane, services))
        except BaseExceptionGroup as group:
            raise _first(group) from group

    def _check_targets(self, pool: TargetPool) -> None:
        """Raise the first error if no target of the run is available, so that nothing is run."""
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

    async def _note_unknown_prices(self, pool: TargetPool) -> None:
        """Before anything is called: `--max-cost` does not count calls whose price is unknown."""
        if self.budget.max_cost is None or self.on_note is None:
            return
        for spec, environment in self.plan.called_targets():
            with suppress(Exception):  # a warning must not fail the run
                if (gap := await pool.gate(spec, environment).price_gap()) is not None:
                    self.on_note(f"warning: --max-cost does not count calls of target '{spec.name}': {gap}")

    async def _run_lane(self, lane: Lane, services: Services) -> None:
        ask, batches = self._asker(lane, services.pool)
        slots = asyncio.Semaphore(lane.workers)
        backlog = asyncio.Semaphore(lane.workers + BACKLOG)
        skipped = 0
        async with _closing(batches), asyncio.TaskGroup() as group:
            async for item in _items(lane):
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
                item_ask = ask if batches is None else batches.asker(item)
                group.create_task(self._run_item(item, item_ask, runtime, slots, backlog))

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
                item = await with_file_text(item)
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
            function = self.function or _no_target
            return partial(self.budget.pay, function) if self.budget.limited else function, None
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


async def _items(lane: Lane) -> AsyncIterator[WorkItem]:
    """The work items of a lane. Suites that refer to files are read in a thread, so that no file blocks the run."""
    items = lane.items()
    reads_files = any(len(planned.suite.digests) > 1 for planned, _ in lane.work)
    while True:
        item = await asyncio.to_thread(next, items, None) if reads_files else next(items, None)
        if item is None:
            return
        yield item


def _first(error: BaseException) -> BaseException:
    """The first error of nested groups; the others are its consequences."""
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def _recorded_reply(answers: Answers, item: WorkItem) -> Reply:
    suite, target = item.planned.suite.name, item.target
    recorded = answers.find(item.case.id, target, item.attempt, suite=suite)
    if recorded is None:
        failed = answers.failure(item.case.id, target, item.attempt, suite=suite)
        why = f"the recorded call failed: {failed.failure}" if failed else answers.why_missing(item.case.id, suite)
        raise ProviderError(
            f"case '{item.case.id}' cannot be graded: {why}",
            next_step="Add a line with its `eval_id` and `candidate_answer`, or select other cases with --case.",
        )
    return Reply(
        recorded.output_messages,
        recorded.token_usage,
        recorded.cost_usd,
        recorded.duration_ms,
        finish_reason=recorded.finish_reason,
        model=recorded.model,
        recorded=True,
    )


def _unavailable(error: TargetUnavailableError) -> Ask:
    async def refuse(_: Request) -> Reply:
        raise error

    return refuse


async def _no_target(_: Request) -> Reply:
    raise ProviderError(
        "this target has no provider", next_step="Configure a provider, pass a function, or use --outputs."
    )
