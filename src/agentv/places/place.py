"""The seam between a job and the machine that runs it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Literal, Protocol

from agentv.errors import PlaceLostError
from agentv.processes.job import Job
from agentv.processes.run import OnBytes, ProcessOutcome

if TYPE_CHECKING:
    from agentv.judge.session import JudgeSession


Where = Literal["driver", "nodes"]
"""Where evaluators and targets run in a run with nodes."""


class Slot(Protocol):
    """Room for one job at a place. Jobs are written for the place: paths may differ there."""

    @property
    def node(self) -> str | None:
        """The name of the node; None for this machine."""

    def path(self, path: str) -> str:
        """A path of this machine as it is at the place."""

    async def run(
        self,
        job: Job,
        *,
        judge: JudgeSession | None = None,
        on_stderr: OnBytes | None = None,
        on_cold: Callable[[str], None] | None = None,
        repeatable: Callable[[], bool] = lambda: False,
    ) -> ProcessOutcome:
        """Run the job to its end. With `judge`, it can call the judge through a proxy, until its process has exited.

        `on_cold` is called with the reason if a warm job cannot be kept warm. `repeatable` tells whether a job with
        `lines` can be repeated after the process that it shares ended without a result. Raises `ProcessStartError` if
        the program cannot be started, and `PlaceLostError` if the node is lost.
        """


class Place(Protocol):
    """Runs jobs, each in a slot."""

    attempts: int
    """How often a job is run at most, if its nodes are lost."""

    def slot(self) -> AbstractAsyncContextManager[Slot]:
        """A slot for one job, which is free again at the end of `with`. Waits until one is free."""


__all__ = ["Place", "PlaceLostError", "Slot", "Where"]
