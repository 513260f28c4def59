"""One gate per target, shared by all callers."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentv.errors import TargetUnavailableError
from agentv.targets.config import TargetsConfig, load_config
from agentv.targets.environment import Environment
from agentv.targets.pool import TargetPool
from agentv.targets.secrets import Secrets
from tests.conftest import Project


def read(path: Path, **dotenv: str) -> TargetsConfig:
    """The configuration for a suite with these values in its `.env`."""
    return load_config(path, Environment({"PATH": "/bin", **dotenv}, frozenset(dotenv)))


@pytest.fixture
def config(project: Project) -> Path:
    return project.write(
        "agentv.config.yaml",
        """\
        targets:
          plain: {provider: mock, response: x}
          keyed: {provider: mock, response: "${{ WHO:-unset }}"}
          limited: {provider: mock, response: x, max_concurrency: 3}
        """,
    )


async def test_suites_with_their_own_env_files_share_the_gate_of_a_target(config: Path):
    one, other = read(config, NOTE="one suite"), read(config, REMARK="another")
    secrets = Secrets.of([one, other], [one.environment, other.environment])
    async with TargetPool(secrets) as pool:
        first = pool.gate(one.targets["plain"], one.environment)
        assert pool.gate(one.targets["plain"], one.environment) is first
        assert pool.gate(other.targets["plain"], other.environment) is first
        assert pool.gate(one.targets["limited"], one.environment) is not first


async def test_a_target_that_reads_other_values_is_another_target(config: Path):
    one, other = read(config, WHO="Ann"), read(config, WHO="Bob")
    async with TargetPool(Secrets.of([one, other], [one.environment, other.environment])) as pool:
        ann = pool.gate(one.targets["keyed"], one.environment)
        assert pool.gate(other.targets["keyed"], other.environment) is not ann


async def test_a_target_that_cannot_be_created_is_unavailable(project: Project, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("agentv.targets.providers.library.find_spec", lambda _: None)
    path = project.write(
        "agentv.config.yaml", "targets: {claude: {provider: anthropic, model: m, api_key: key-key-key}}\n"
    )
    config = read(path)
    async with TargetPool(Secrets.of([config], [config.environment])) as pool:
        with pytest.raises(TargetUnavailableError) as caught:
            pool.gate(config.targets["claude"], config.environment)
    assert caught.value.reason == "its library is not installed. Run: pip install 'pydantic-ai-slim[anthropic]>=2.60'"
