"""Attempts of cases with `stop_early`: an attempt starts only if the verdict needs it.

Of each case, as many attempts run at the same time as must finish before its outcome can be settled: three of five for
`majority`, one for `any` and `all`. The next ones start when those have finished, ahead of other cases, so that only
the cases in progress are kept in memory. Attempts that cannot change the outcome are skipped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace

from agentv.plan.plan import WorkItem
from agentv.results import CaseKey, CaseResult, RowKey, Trials
from agentv.trials import Attempts


@dataclass(slots=True)
class _Case:
    """A case in progress."""

    attempts: Attempts
    """The attempts that have finished."""
    running: int = 0
    waiting: deque[WorkItem] = field(default_factory=deque)
    seen: int = 0
    """Attempts that were read from the suite."""
    not_run: bool = False
    """Whether an attempt was not run, so that the others do not wait for it."""


@dataclass(slots=True)
class NeededAttempts:
    """Iterates over work items, without those that are not needed. Each one must be reported as `finished`."""

    items: AsyncIterator[WorkItem]
    is_done: Callable[[RowKey], bool]
    """Whether an earlier part of the run has recorded this row."""
    earlier: Callable[[RowKey], Attempts | None]
    """The attempts of a case that an earlier part of the run has recorded."""
    on_skipped: Callable[[int], None] = lambda _: None
    """Called with the number of attempts that are not needed."""
    by_round: bool = False
    """Whether no second attempt starts before all first attempts have finished, as batches require."""
    _cases: dict[CaseKey, _Case] = field(default_factory=dict)
    _ready: deque[WorkItem] = field(default_factory=deque)
    _running: int = 0
    _round: int = 1
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def __aiter__(self) -> AsyncIterator[WorkItem]:
        held = 0
        async for item in self.items:
            if _stops_early(item) is None:
                yield item
            else:
                self._read(item)
                held += 1
                if held % 100 == 0:
                    await asyncio.sleep(0)
            while self._ready:
                yield self._ready.popleft()
        while self._ready or self._running or self._next_round():
            if not self._ready:
                self._changed.clear()
                await self._changed.wait()
            while self._ready:
                yield self._ready.popleft()

    def is_needed(self, item: WorkItem) -> bool:
        """Whether this attempt can still change the outcome of its case."""
        trials = _stops_early(item)
        return trials is None or not self._case(item, trials).attempts.is_settled

    def finished(self, item: WorkItem, row: CaseResult | None) -> None:
        """An attempt has ended; without a row, it was not run."""
        trials = _stops_early(item)
        if trials is None:
            return
        case = self._case(item, trials)
        case.running -= 1
        self._running -= 1
        if row is None:
            case.not_run = True
        else:
            case.attempts.add(row)
        self._release(item.key.case, case)
        self._changed.set()

    def _case(self, item: WorkItem, trials: Trials) -> _Case:
        key = item.key.case
        if key not in self._cases:
            earlier = self.earlier(item.key) or Attempts(trials)
            attempts = replace(earlier, trials=trials, threshold=item.threshold, scores=list(earlier.scores))
            self._cases[key] = _Case(attempts)
        return self._cases[key]

    def _read(self, item: WorkItem) -> None:
        case = self._case(item, item.trials or Trials())
        case.seen += 1
        if not self.is_done(item.key):
            case.waiting.append(item)
        self._release(item.key.case, case)

    def _release(self, key: CaseKey, case: _Case) -> None:
        """Start or skip waiting attempts."""
        if case.attempts.is_settled and case.waiting:
            self.on_skipped(len(case.waiting))
            case.waiting.clear()
        room = len(case.waiting) if case.not_run else case.attempts.needed - case.running
        while case.waiting and room > 0 and not (self.by_round and case.waiting[0].attempt > self._round):
            self._ready.append(case.waiting.popleft())
            case.running += 1
            self._running += 1
            room -= 1
        if case.seen == case.attempts.trials.count and not case.waiting and not case.running and not self.by_round:
            del self._cases[key]

    def _next_round(self) -> bool:
        """Begin the next round of attempts; False if none are left."""
        due = [case.waiting[0].attempt for case in self._cases.values() if case.waiting]
        if not due:
            return False
        self._round = min(due)
        for key, case in list(self._cases.items()):
            self._release(key, case)
        return True


def _stops_early(item: WorkItem) -> Trials | None:
    return item.trials if item.trials is not None and item.trials.stop_early else None
