"""The scheduler: one lane for each target, with separate slots for target calls and for cases being judged.

With N workers, a lane keeps at most N target calls in flight (fewer if its target allows fewer), judges at most N cases
at a time, and starts at most 2 N cases whose verdict is open. So slow evaluators slow down target calls. An answer that
a script or a judge will get is recorded before it is judged. A target slot is held until the answer is on disk, alone
or in its row: an interrupted run repeats only the calls in these slots. Scripts and judge calls need further slots, of
the run and of the judge target. A row that waits to be written does not count as a case in progress.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from agentv.errors import BudgetExhaustedError, ProviderError, RecordError, TargetUnavailableError
from agentv.plan.plan import Lane, RunPlan, WorkItem
from agentv.results import CaseError, CaseKey, CaseResult, RowKey, TurnRecord, spend_of
from agentv.run.batch import Batches
from agentv.run.case import (
    Answered,
    Ask,
    Judged,
    answer,
    answered_before,
    candidate_of,
    grade,
    now,
    row_of,
    timed,
    with_file_text,
)
from agentv.run.services import (
    OnNote,
    Services,
    most_scripts,
    node_commands,
    node_services,
    reply_cache,
    script_services,
)
from agentv.run.stop_early import NeededAttempts
from agentv.targets.answers import Answers
from agentv.targets.budget import Budget
from agentv.targets.gate import TargetGate
from agentv.targets.pool import TargetPool
from agentv.targets.provider import OnRetry, Reply, Request, TargetSettings
from agentv.targets.waits import OnWaiting, reported_waits
from agentv.trials import Attempts

if TYPE_CHECKING:
    from agentv.evaluators.base import Evaluator
    from agentv.judge.recording import Recording
    from agentv.nodes.remote import RemotePlace
    from agentv.run.conversation import Talk
    from agentv.run.replay import Replay
    from agentv.scripts import Runtime
    from agentv.targets.config import TargetSpec
    from agentv.targets.wording import Wording

BACKLOG = 1
"""Cases that may wait to be judged, or be answered meanwhile, as a multiple of the cases being judged."""
NOT_IN_BATCHES = "conversations cannot be sent in batches. Remove `provider_batching` from the target."
SOON = 0.01
"""Seconds in which most evaluators finish that neither start a script nor call a judge."""
UNWRITTEN = 256
"""Rows of the run that may wait to be written."""
QUICK = 0.1
"""A target that answers within these seconds gets the next call before the row is on disk, unless a script or a judge
gets the answer. Waiting for the disk would slow down targets that answer immediately; models and agents take longer."""

Deliver = Callable[[CaseResult], Awaitable[None]]
"""Receives a finished row, and returns when it is on disk."""


class Journal(Protocol):
    """Keeps answers on disk until their rows are written."""

    @property
    def answers(self) -> int:
        """The number of answers from an earlier part of the run."""

    def has(self, key: RowKey, case_sha256: str | None) -> bool:
        """Whether there is an answer for this case, from an earlier part of the run."""

    async def find(self, key: RowKey) -> CaseResult:
        """The row with this answer, for which `has` is true. Its score and evaluator results are not used."""

    def unfinished(self, key: RowKey, case_sha256: str | None) -> Awaitable[CaseResult | None]:
        """The row with the recorded turns of a conversation that an earlier part of the run did not finish."""

    def keep(self, row: CaseResult) -> Awaitable[object]:
        """Record a row that has not been judged, or one turn of a conversation. Done when it is on disk."""


class _Slots:
    """The slots of one lane."""

    def __init__(self, lane: Lane) -> None:
        self.cases = asyncio.Semaphore((1 + BACKLOG) * lane.workers)
        self.calls = asyncio.Semaphore(lane.calls)
        self.judging = asyncio.Semaphore(lane.workers)


class _Slot:
    """A slot of a target call. It is held until the answer is on disk, so that a kill costs only calls in slots."""

    def __init__(self, calls: asyncio.Semaphore) -> None:
        self._calls: asyncio.Semaphore | None = calls

    def release(self) -> None:
        """Release the slot. Calling this again does nothing."""
        calls, self._calls = self._calls, None
        if calls is not None:
            calls.release()


class _Asked(NamedTuple):
    item: WorkItem
    answered: Answered
    slot: _Slot | None = None
    """Still held, because the answer is not on disk yet."""


@dataclass(slots=True)
class Execution:
    """One run of a plan."""

    plan: RunPlan
    run_id: str
    deliver: Deliver
    is_done: Callable[[RowKey], bool] = lambda _: False
    on_retry: OnRetry | None = None
    recording: Recording | None = None
    """Receives the judge calls."""
    functions: Mapping[str, Ask] = field(default_factory=dict)
    """Answer the cases of lanes without a configured target, by the name of the target."""
    own_process: bool = False
    """Whether agentv owns the whole process, as on the command line."""
    cwd: Path = field(default_factory=Path.cwd)
    on_note: OnNote | None = None
    """Called with notes for the user."""
    on_waiting: OnWaiting | None = None
    """Called every second with what calls are waiting for; an empty string for nothing."""
    budget: Budget = field(default_factory=Budget)
    retry_command: str | None = None
    """The command that runs cases again whose target was down."""
    not_run: int = 0
    """Number of rows that were not run because the budget was exhausted."""
    attempts_not_run: Counter[CaseKey] = field(default_factory=Counter)
    """How many of them belong to a case with several attempts."""
    earlier: Callable[[RowKey], Attempts | None] = lambda _: None
    """The attempts of a case that an earlier part of the run has recorded."""
    on_skipped: Callable[[int], None] = lambda _: None
    """Called with the number of attempts that are not run because they cannot change the verdict."""
    journal: Journal | None = None
    replay: Replay | None = None
    """Answers for all targets and judges, in a replayed run."""
    nodes: RemotePlace | None = None
    """The nodes of the run, once it has begun."""
    _unwritten: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(UNWRITTEN))

    async def run(self) -> None:
        """Run every item of the plan that is not done yet. Cancelling stops the work in flight."""
        try:
            async with node_services(self.plan, self.on_note, own_process=self.own_process) as nodes:
                self.nodes = nodes
                await self._run(nodes)
        except BaseExceptionGroup as group:
            raise _first(group) from group

    async def _run(self, nodes: RemotePlace | None) -> None:
        options = self.plan.options
        slot_count = max(32, 4 * (os.cpu_count() or 1), options.workers or 0)
        pool = TargetPool(
            self.plan.secrets,
            workers=options.workers,
            timeout=options.timeout,
            on_retry=self.on_retry,
            budget=self.budget,
            max_consecutive_errors=options.max_consecutive_errors,
            retry_command=self.retry_command,
            nodes=None if nodes is None else node_commands(nodes, self.plan),
        )
        async with (
            pool,
            script_services(self.plan, own_process=self.own_process, on_note=self.on_note) as launcher,
            reply_cache(self.plan, self.cwd, self.on_note) as cache,
            reported_waits(pool.gates, self.on_waiting),
            asyncio.TaskGroup() as lanes,
        ):
            self._check_targets(pool)
            await self._note_unknown_prices(pool)
            slots = asyncio.Semaphore(slot_count if launcher is None else most_scripts(slot_count))
            judges = None if self.replay is None else self.replay.judges
            services = Services(self.plan, pool, launcher, self.recording, cache, slots, judges, nodes)
            for lane in self.plan.lanes:
                lanes.create_task(self._run_lane(lane, services))

    def _check_targets(self, pool: TargetPool) -> None:
        """Raise the first error if no target of the run is available, so that nothing is run."""
        if self.plan.answers is not None or self.replay is not None or not self.plan.lanes:
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
        if self.budget.max_cost is None or self.on_note is None or self.replay is not None:
            return
        for spec, environment in self.plan.called_targets():
            with suppress(Exception):  # a warning must not fail the run
                if (gap := await pool.gate(spec, environment).price_gap()) is not None:
                    self.on_note(f"warning: --max-cost does not count calls of target '{spec.name}': {gap}")

    async def _run_lane(self, lane: Lane, services: Services) -> None:
        needed = NeededAttempts(_items(lane), self.is_done, self.earlier, self.on_skipped)
        ask, batches = self._asker(lane, services, needed) if self.replay is None else (_no_target, None)
        needed.by_round = batches is not None
        slots = _Slots(lane)
        skipped = 0
        async with _closing(batches), asyncio.TaskGroup() as group:
            async for item in needed:
                if self.is_done(item.key):
                    skipped += 1
                    if skipped % 100 == 0:
                        await asyncio.sleep(0)
                    continue
                if batches is not None:
                    self.budget.enter()
                elif not await self.budget.admit():
                    self._note_not_run(item)
                    needed.finished(item, None)
                    continue
                await slots.cases.acquire()
                runtime = services.runtime(lane, item.planned)
                if self.replay is not None and self.plan.answers is None:
                    get_answer = partial(self._replayed, item, self.replay)
                elif self._has_answer(item):
                    get_answer = partial(self._answered_before, item)
                else:
                    await slots.calls.acquire()
                    get_answer = partial(self._answer, item, ask, batches, slots.calls)
                    if item.case.user is not None:
                        get_answer = partial(get_answer, self._user_of(item, services.pool))
                group.create_task(self._run_item(item, get_answer, runtime, slots, needed))

    def _note_not_run(self, item: WorkItem) -> None:
        self.not_run += 1
        if item.trials is not None:
            self.attempts_not_run[item.key.case] += 1

    async def _run_item(
        self,
        item: WorkItem,
        get_answer: Callable[[], Awaitable[_Asked]],
        runtime: Runtime | None,
        slots: _Slots,
        needed: NeededAttempts,
    ) -> None:
        slot: _Slot | None = None
        try:
            try:
                item, answered, slot = await get_answer()
                judged: Judged | None = None
                if answered.candidate is not None:
                    timer = self._keep_if_slow(item, answered, slot, slots)
                    try:
                        async with slots.judging:
                            judged = await grade(item, answered.candidate, runtime)
                    finally:
                        if timer is not None:
                            timer.cancel()
                row = self._row(item, answered, judged)
                self.budget.settle(*spend_of(row, answer_paid=self.plan.pays_for(item.target)))
                needed.finished(item, row)
                await self._unwritten.acquire()
            except BudgetExhaustedError:
                self._note_not_run(item)
                self.budget.give_up()
                needed.finished(item, None)
                return
            finally:
                slots.cases.release()
            try:
                await self.deliver(row)
            finally:
                self._unwritten.release()
        finally:
            if slot is not None:
                slot.release()

    def _user_of(self, item: WorkItem, pool: TargetPool) -> Ask | None:
        """Asks the model that plays the user of a case."""
        config = item.planned.config
        if item.case.user is None or config is None:
            return None
        try:
            return pool.gate(config.targets[item.case.user.target], config.environment).invoke
        except TargetUnavailableError as error:
            return _unavailable(error)

    async def _answer(
        self,
        item: WorkItem,
        ask: Ask,
        batches: Batches | None,
        calls: asyncio.Semaphore,
        ask_user: Ask | None = None,
    ) -> _Asked:
        """Call the target, and record the answer if a script or a judge will get it."""
        slot = _Slot(calls)
        try:
            item = await with_file_text(item)
            if self.plan.answers is not None:
                ask = self._recorded(item)
            started = time.monotonic()
            if item.case.is_conversation and self.plan.answers is not None:
                return _Asked(item, _recorded_conversation(self.plan.answers, item), slot)
            if item.case.is_conversation and batches is not None:
                error = CaseError("target", f"target '{item.target}': {NOT_IN_BATCHES}")
                return _Asked(item, Answered(now(), None, error), slot)
            talk = await self._talk(item, ask_user) if item.case.is_conversation else None
            answered = await answer(item, ask if batches is None else batches.asker(item), talk)
            is_quick = time.monotonic() - started < QUICK
            if self.journal is not None and answered.candidate is not None and not answered.recorded:
                if batches is not None:
                    await batches.kept(item)
                    answered = replace(answered, recorded=True)
                elif any(evaluator.needs for evaluator in item.case.evaluators):
                    await self.journal.keep(self._row(item, answered))
                    answered = replace(answered, recorded=True)
        except BaseException:
            slot.release()
            raise
        if self.journal is None or answered.recorded or is_quick:
            slot.release()
        return _Asked(item, answered, slot)

    async def _talk(self, item: WorkItem, ask_user: Ask | None) -> Talk:
        """The conversation of a case: a new one, or one that an earlier part of the run did not finish."""
        from agentv.run.conversation import Talk  # noqa: PLC0415 - most cases have one turn

        talk, journal = Talk(now(), item.case.user, ask_user), self.journal
        if journal is None:
            return talk
        if (row := await journal.unfinished(item.key, item.case_sha256)) is not None:
            talk.started_at, talk.turns = row.started_at, list(row.turns)

        async def keep(number: int, turn: TurnRecord) -> None:
            row = row_of(item, Answered(talk.started_at, None, turns=(turn,)), self.run_id)
            await journal.keep(replace(row, turn=number))

        talk.keep = keep
        return talk

    def _row(self, item: WorkItem, answered: Answered, judged: Judged | None = None) -> CaseResult:
        """The row of an answer. The row of a replayed answer says that nothing was paid for it."""
        row = row_of(item, answered, self.run_id, judged)
        if self.replay is None:
            return row
        cost_usd = 0.0 if self.plan.answers is None else row.cost_usd
        return replace(row, cost_usd=cost_usd, replayed=self.replay.run_id)

    def _keep_if_slow(
        self, item: WorkItem, answered: Answered, slot: _Slot | None, slots: _Slots
    ) -> asyncio.TimerHandle | None:
        """Record an answer that has not been recorded if its evaluators, which call nothing, still take a while.

        Returns a timer that must be cancelled when they have finished.
        """
        journal = self.journal
        if journal is None or slot is None or answered.recorded:
            return None
        evaluators = cast("tuple[Evaluator, ...]", item.case.evaluators)
        if not slots.judging.locked() and not any(evaluator.WAITS for evaluator in evaluators):
            return None

        def release_if_kept(done: asyncio.Future[object]) -> None:
            if not done.cancelled() and done.exception() is None:
                slot.release()

        def keep() -> None:
            with suppress(RecordError):  # if the disk is full, writing the row will report it
                asyncio.ensure_future(journal.keep(self._row(item, answered))).add_done_callback(release_if_kept)

        return asyncio.get_running_loop().call_later(SOON, keep)

    def _has_answer(self, item: WorkItem) -> bool:
        """Whether an earlier part of the run has recorded an answer for this case."""
        journal = self.journal
        return journal is not None and journal.answers > 0 and journal.has(item.key, item.case_sha256)

    async def _answered_before(self, item: WorkItem) -> _Asked:
        assert self.journal is not None  # noqa: S101 - only called for answers that it has
        item, row = await with_file_text(item), await self.journal.find(item.key)
        answered = answered_before(row) if item.case.problem is None else await answer(item, _no_target)
        return _Asked(item, answered)

    async def _replayed(self, item: WorkItem, replay: Replay) -> _Asked:
        """The recorded answer. Evaluators see its recorded cost."""
        item = await with_file_text(item)
        answered = await replay.answer(item) if item.case.problem is None else await answer(item, _no_target)
        return _Asked(item, answered)

    def _batches(self, lane: Lane, gate: TargetGate, needed: NeededAttempts) -> Batches:
        journal = self.journal
        if journal is None:
            return Batches(lane, gate, lambda item: not self.is_done(item.key) and needed.is_needed(item))
        return Batches(
            lane,
            gate,
            lambda item: not self.is_done(item.key) and not self._has_answer(item) and needed.is_needed(item),
            lambda item, answered: journal.keep(row_of(item, answered, self.run_id)),
        )

    def _asker(self, lane: Lane, services: Services, needed: NeededAttempts) -> tuple[Ask, Batches | None]:
        if lane.spec is None:
            function = self.functions.get(lane.target, _no_target)
            return partial(self.budget.pay, function) if self.budget.limited else function, None
        try:
            gate = services.pool.gate(lane.spec, lane.environment)
        except TargetUnavailableError as error:
            return _unavailable(error), None
        in_batches = gate.batches and self.plan.answers is None
        ask = timed(gate)
        if services.cache is not None and lane.spec.cache:
            from agentv.judge.cache import cached  # noqa: PLC0415 - only runs with a cache need SQLite

            ask = timed(cached(gate, lane.spec, lane.environment, services.cache, services.redactor))
        wording = _wording(lane.spec)
        batches = replace(self._batches(lane, gate, needed), wording=wording) if in_batches else None
        return ask if wording is None else _worded(wording, ask), batches

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


def _recorded_conversation(answers: Answers, item: WorkItem) -> Answered:
    """The recorded turns of a case. No model plays the user."""
    try:
        reply = _recorded_reply(answers, item)
    except ProviderError as error:
        return Answered(now(), None, CaseError("target", str(error)), recorded=True)
    suite, prompt = item.planned.suite.name, item.case.prompt
    recorded = answers.find(item.case.id, item.target, item.attempt, suite=suite, prompt=prompt)
    candidate = candidate_of(reply, 0.0)
    turns = () if recorded is None else recorded.turns
    return Answered(now(), replace(candidate, turns=turns), recorded=True)


def _recorded_reply(answers: Answers, item: WorkItem) -> Reply:
    suite, target, prompt = item.planned.suite.name, item.target, item.case.prompt
    recorded = answers.find(item.case.id, target, item.attempt, suite=suite, prompt=prompt)
    if recorded is None:
        failed = answers.failure(item.case.id, target, item.attempt, suite=suite, prompt=prompt)
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


def _wording(spec: TargetSpec) -> Wording | None:
    """What a target adds to its cases; None if nothing."""
    settings = spec.reading.settings
    if not isinstance(settings, TargetSettings) or not settings.changes_prompts:
        return None
    from agentv.targets.wording import wording_of  # noqa: PLC0415 - most targets change nothing

    return wording_of(spec.name, settings)


def _worded(wording: Wording, ask: Ask) -> Ask:
    async def invoke(request: Request) -> Reply:
        return await ask(await wording(request))

    return invoke


def _unavailable(error: TargetUnavailableError) -> Ask:
    async def refuse(_: Request) -> Reply:
        raise error

    return refuse


async def _no_target(_: Request) -> Reply:
    raise ProviderError(
        "this target has no provider", next_step="Configure a provider, pass a function, or use --outputs."
    )
