"""Targets that answer all cases of a suite with one command: asked once, answers handed out case by case."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentv.errors import ProviderError
from agentv.plan.plan import Lane, PlannedSuite, WorkItem
from agentv.results import RowKey
from agentv.run.case import Ask, build_request
from agentv.targets.gate import TargetGate
from agentv.targets.provider import Reply, Request


@dataclass(slots=True)
class Batches:
    """The batches of one lane: one for each suite and attempt, made when its first case is due."""

    lane: Lane
    gate: TargetGate
    is_done: Callable[[RowKey], bool]
    _asked: dict[tuple[Path, int], asyncio.Task[Mapping[str, Reply]]] = field(default_factory=dict)
    """By suite and attempt."""

    def asker(self, item: WorkItem) -> Ask:
        """Answers this case from its batch."""

        async def look_up(request: Request) -> Reply:
            key = (item.planned.suite.path, item.attempt)
            if key not in self._asked:
                self._asked[key] = asyncio.create_task(self._ask(item.planned, item.attempt))
            replies = await asyncio.shield(self._asked[key])
            if request.eval_id not in replies:
                raise ProviderError(
                    f"target '{self.lane.target}': the batch wrote no line for the case '{request.eval_id}'",
                    next_step="Write one JSON object a line for every case, with its `id`.",
                )
            return replies[request.eval_id]

        return look_up

    async def _ask(self, planned: PlannedSuite, attempt: int) -> Mapping[str, Reply]:
        due = (item for item in self.lane.items_of(planned) if item.attempt == attempt)
        return await self.gate.invoke_batch(
            [build_request(item.case, attempt, planned.suite.files) for item in due if not self.is_done(item.key)]
        )

    async def aclose(self) -> None:
        """End what is under way."""
        asked = [task for task in self._asked.values() if not task.done()]
        for task in asked:
            task.cancel()
        if asked:
            await asyncio.wait(asked)
        for task in self._asked.values():
            if not task.cancelled():
                task.exception()  # every case that waited has told it
