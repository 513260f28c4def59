from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from agentv.processes.launcher import Launcher


@pytest.fixture
async def launcher() -> AsyncIterator[Launcher]:
    async with Launcher() as launcher:
        yield launcher
