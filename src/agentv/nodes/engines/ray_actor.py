"""The actor on each Ray node. It starts the node process and passes frames on.

Ray imports this module on the nodes, so it imports nothing of the driver, and not Ray either.
"""

from __future__ import annotations

import os
import platform

from agentv import __version__
from agentv.nodes.channel import NodeRefusedError
from agentv.nodes.process import NodeProcess

REPLY, FAILED, REFUSED = b"\0", b"\1", b"\2"
"""The first byte of a result: what follows is a frame, or the text of an error."""
LONGEST_ERROR = 2_000


class NodeActor:
    """One for each driver and Ray node. It ends when the driver does, and the node process ends with it."""

    def __init__(self) -> None:
        self._process = NodeProcess(env=node_variables())

    async def ready(self) -> str:
        """Name and versions of the node."""
        return f"agentv {__version__}, Python {platform.python_version()}"

    async def exchange(self, frame: bytes, hold: float) -> bytes:
        try:
            return REPLY + await self._process.exchange(frame, hold)
        except NodeRefusedError as error:
            return REFUSED + _text(str(error))
        except Exception as error:
            return FAILED + _text(f"{type(error).__name__}: {error}")

    async def aclose(self) -> None:
        """End the node process and all its jobs."""
        await self._process.aclose()


def node_variables() -> dict[str, str]:
    """The variables for scripts: without those that Ray sets for its workers, such as one thread for numpy."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    started = _variables_of(os.getppid())  # the raylet has what the node was started with
    if started is not None and "OMP_NUM_THREADS" not in started:
        variables.pop("OMP_NUM_THREADS", None)
    return variables


def _variables_of(process: int) -> set[str] | None:
    """Names of the variables that a process was started with; None if they cannot be read."""
    try:
        with open(f"/proc/{process}/environ", "rb") as file:  # noqa: PTH123 - not a regular file
            return {os.fsdecode(entry.partition(b"=")[0]) for entry in file.read().split(b"\0")}
    except OSError:
        return None


def _text(message: str) -> bytes:
    return message[:LONGEST_ERROR].encode("utf-8", "replace")
