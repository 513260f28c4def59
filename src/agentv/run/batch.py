"""Targets that answer all cases of a suite with one command: run once, with the answers distributed to the cases."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from agentv.errors import ProviderError
from agentv.plan.plan import Lane, PlannedSuite, WorkItem
from agentv.run.case import Answered, Ask, build_request, candidate_of, milliseconds_since, now, with_file_text
from agentv.targets.gate import TargetGate
from agentv.targets.provider import Reply, Request

if TYPE_CHECKING:
    from agentv.targets.wording import Wording


@dataclass(frozen=True, slots=True)
class _Batch:
    replies: Mapping[str, Reply]
    kept: asyncio.Future[list[object]]
    """Done when all answers are recorded."""


class _BatchKey(NamedTuple):
    """What is asked together: one attempt at the cases of a suite, with one prompt."""

    suite: Path
    attempt: int
    prompt: str | None

    @classmethod
    def of(cls, item: WorkItem) -> _BatchKey:
        return cls(item.planned.suite.path, item.attempt, item.case.prompt)


@dataclass(slots=True)
class Batches:
    """The batches of one lane: one for each suite and attempt, started when its first case is due."""

    lane: Lane
    gate: TargetGate
    is_due: Callable[[WorkItem], bool]
    """Whether a case still needs an answer."""
    keep: Callable[[WorkItem, Answered], Awaitable[object]] | None = None
    """Records an answer."""
    wording: Wording | None = None
    """What the target adds to its cases."""
    _batches: dict[_BatchKey, asyncio.Task[_Batch]] = field(default_factory=dict)

    def asker(self, item: WorkItem) -> Ask:
        """A function that answers this case from its batch."""

        async def look_up(request: Request) -> Reply:
            key = _BatchKey.of(item)
            if key not in self._batches:
                self._batches[key] = asyncio.create_task(self._ask(item.planned, key))
            replies = (await asyncio.shield(self._batches[key])).replies
            if request.eval_id not in replies:
                raise ProviderError(
                    f"target '{self.lane.target}': the output of the batch has no line for case '{request.eval_id}'",
                    next_step="Write one JSON object per line for every case, with its `id`.",
                )
            return replies[request.eval_id]

        return look_up

    async def kept(self, item: WorkItem) -> None:
        """Wait until all answers of the batch of this case are recorded."""
        batch = await asyncio.shield(self._batches[_BatchKey.of(item)])
        await asyncio.shield(batch.kept)

    async def _ask(self, planned: PlannedSuite, key: _BatchKey) -> _Batch:
        items = await asyncio.to_thread(lambda: list(self.lane.items_of(planned)))
        due = [
            item for item in items if _BatchKey.of(item) == key and not item.case.is_conversation and self.is_due(item)
        ]
        sent = [item for item in [await with_file_text(item) for item in due] if item.case.problem is None]
        started_at, started = now(), time.perf_counter()
        requests = [build_request(item.case, item.attempt, planned.suite.files) for item in sent]
        if self.wording is not None:
            requests = [await self.wording(request) for request in requests]
        replies = await self.gate.invoke_batch(requests)
        elapsed = milliseconds_since(started)
        answers: list[Awaitable[object]] = []
        for number, item in enumerate(sent, 1):
            if self.keep is not None and item.case.id in replies:
                answered = Answered(started_at, candidate_of(replies[item.case.id], elapsed))
                answers.append(self.keep(item, answered))
            if number % 50 == 0:
                await asyncio.sleep(0)
        return _Batch(replies, asyncio.gather(*answers))

    async def aclose(self) -> None:
        """Cancel batches in flight."""
        in_flight = [task for task in self._batches.values() if not task.done()]
        for task in in_flight:
            task.cancel()
        if in_flight:
            await asyncio.wait(in_flight)
        for task in self._batches.values():
            # Errors are retrieved, so that asyncio does not warn: the cases have reported them.
            if not task.cancelled() and task.exception() is None:
                kept = task.result().kept
                if not kept.done():
                    await asyncio.wait([kept])
                kept.exception()
