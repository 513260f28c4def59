"""The part of the Dask engine in a worker: passes frames on to a node process. Nothing of the driver is imported.

Drivers refer to `NodePlugin` by its name, so they run the installed package here and send no code.
"""

from __future__ import annotations

from typing import Any

from distributed import Worker
from distributed.diagnostics.plugin import WorkerPlugin

from agentv.nodes.channel import NodeRefusedError
from agentv.nodes.process import NodeProcess, NodeProcessEndedError

OPERATION = "agentv_exchange"
"""The name of the worker's handler."""
LONGEST_REASON = 2_000


class NodePlugin(WorkerPlugin):  # type: ignore[misc, unused-ignore]
    """Starts a node process when the first frame arrives, and ends it with the worker."""

    def __init__(self) -> None:
        self._process: NodeProcess | None = None

    def setup(self, worker: Worker) -> None:
        if OPERATION in worker.handlers:
            return  # installed by another driver
        self._process = NodeProcess()
        worker.handlers[OPERATION] = self.exchange

    async def teardown(self, worker: Worker) -> None:
        if self._process is None:
            return
        worker.handlers.pop(OPERATION, None)
        await self._process.aclose()

    async def exchange(self, frame: object, hold: object) -> dict[str, Any]:
        """The reply of the node process to a frame, or why there is none."""
        assert self._process is not None  # noqa: S101 - installed by `setup`
        if not isinstance(frame, bytes) or not isinstance(hold, int | float):
            return {"refused": "a frame must be bytes"}
        try:
            return {"frame": await self._process.exchange(frame, float(hold))}
        except NodeRefusedError as error:
            return {"refused": str(error)[:LONGEST_REASON]}
        except (NodeProcessEndedError, OSError) as error:
            return {"failed": str(error)[:LONGEST_REASON]}
