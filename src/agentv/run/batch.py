"""Targets that answer all cases of a suite with one command: run once, with the answers distributed to the cases."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentv.errors import ProviderError
from agentv.plan.plan import Lane, PlannedSuite, WorkItem
from agentv.results import RowKey
from agentv.run.case import Ask, build_request, with_file_text
from agentv.targets.gate import TargetGate
from agentv.targets.provider import Reply, Request


@dataclass(slots=True)
class Batches:
    """The batches of one lane: one for each suite and attempt, started when its first case is due."""

    lane: Lane
    gate: TargetGate
    is_done: Callable[[RowKey], bool]
    _batches: dict[tuple[Path, int], asyncio.Task[Mapping[str, Reply]]] = field(default_factory=dict)
    """By suite and attempt."""

    def asker(self, item: WorkItem) -> Ask:
        """A function that answers this case from its batch."""

        async def look_up(request: Request) -> Reply:
            key = (item.planned.suite.path, item.attempt)
            if key not in self._batches:
                self._batches[key] = asyncio.create_task(self._ask(item.planned, item.attempt))
            replies = await asyncio.shield(self._batches[key])
            if request.eval_id not in replies:
                raise ProviderError(
                    f"target '{self.lane.target}': the output of the batch has no line for case '{request.eval_id}'",
                    next_step="Write one JSON object per line for every case, with its `id`.",
                )
            return replies[request.eval_id]

        return look_up

    async def _ask(self, planned: PlannedSuite, attempt: int) -> Mapping[str, Reply]:
        items = await asyncio.to_thread(lambda: list(self.lane.items_of(planned)))
        due = [item for item in items if item.attempt == attempt and not self.is_done(item.key)]
        sent = [item for item in [await with_file_text(item) for item in due] if item.case.problem is None]
        return await self.gate.invoke_batch([build_request(item.case, attempt, planned.suite.files) for item in sent])

    async def aclose(self) -> None:
        """Cancel batches in flight."""
        in_flight = [task for task in self._batches.values() if not task.done()]
        for task in in_flight:
            task.cancel()
        if in_flight:
            await asyncio.wait(in_flight)
        for task in self._batches.values():
            if not task.cancelled():
                task.exception()  # retrieved, so that asyncio does not warn: the cases have reported it
