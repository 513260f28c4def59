"""What an engine has to provide: the nodes that there are, and the exchange of one frame for another."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from agentv.errors import AgentVError


class NodeRefusedError(AgentVError):
    """A node cannot be used; the message is the reason."""

    exit_code = 3


class NodeEndedError(AgentVError):
    """The process of a node has ended, with everything that it ran. Another one may take its place."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class Joined:
    """A node is there. Its name is unique, and a new node never gets that of an earlier one."""

    node: str


@dataclass(frozen=True, slots=True)
class Left:
    """A node is gone for good."""

    node: str
    reason: str = "it left the cluster"


Change = Joined | Left


class Channel(Protocol):
    """A connection to the nodes of an engine, open while it is entered."""

    encrypted: bool
    """Whether frames can be read only by the driver and the nodes."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def changes(self) -> AsyncIterator[Change]:
        """First `Joined` for the nodes that are there, then every change. It never ends while the engine is there."""

    async def exchange(self, node: str, frame: bytes, hold: float) -> bytes:
        """Send a frame to a node and return its reply, which the node may hold back for `hold` seconds.

        It may fail, and a frame may be delivered several times. Raises `NodeEndedError` if the node's process has
        ended, and `NodeRefusedError` if the node can never be used.
        """
