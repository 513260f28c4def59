"""`local:N`: N node processes on this machine, to try out nodes and for tests."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from agentv.errors import UsageError
from agentv.nodes.channel import Change, Joined
from agentv.nodes.engines import EngineAddress
from agentv.nodes.process import NodeProcess

MOST = 64
KEPT = frozenset({"PATH", "HOME", "USER", "LANG", "LC_ALL", "TERM", "TZ", "TMPDIR", "SHELL", "LD_LIBRARY_PATH"})
"""Variables of this process that its nodes get. They must not have its keys, as nodes elsewhere would not have them."""


class LocalEngine:
    """Starts the node processes."""

    encrypted = True

    def __init__(self, address: EngineAddress) -> None:
        if not address.rest.isdecimal() or not 1 <= int(address.rest) <= MOST:
            raise UsageError(f"--on local:N needs a number of nodes from 1 to {MOST}, got '{address.text}'")
        env = {name: value for name, value in os.environ.items() if name in KEPT or name.startswith("XDG_")}
        self.processes = {f"local-{number}": NodeProcess(env=env) for number in range(1, int(address.rest) + 1)}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.gather(*(process.aclose() for process in self.processes.values()))

    async def changes(self) -> AsyncIterator[Change]:
        for name in self.processes:
            yield Joined(name)
        await asyncio.get_running_loop().create_future()  # no others will join

    async def exchange(self, node: str, frame: bytes, hold: float) -> bytes:
        return await self.processes[node].exchange(frame, hold)
