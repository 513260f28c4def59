from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from agentv.judge.proxy import JudgeProxy
from tests.judge.support import Judge, make_session


@pytest.fixture
async def judge() -> Judge:
    return Judge()


@pytest.fixture
async def proxy(judge: Judge) -> AsyncIterator[JudgeProxy]:
    """A proxy with the targets `strict` (default) and `mild` and a limit of 10 calls."""
    async with JudgeProxy(make_session(judge, others={"mild": Judge("mild")}, max_calls=10)) as opened:
        yield opened
