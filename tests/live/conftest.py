from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live import servers
from tests.live.servers import LiveServer


@pytest.fixture(scope="session")
def aimock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with servers.aimock(tmp_path_factory.mktemp("aimock")) as server:
        yield server


@pytest.fixture(scope="session")
def mockllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with servers.mockllm(tmp_path_factory.mktemp("mockllm")) as server:
        yield server


@pytest.fixture(params=["aimock", "mockllm"])
def server(request: pytest.FixtureRequest) -> LiveServer:
    """Each of the third-party servers."""
    found: LiveServer = request.getfixturevalue(request.param)
    return found
