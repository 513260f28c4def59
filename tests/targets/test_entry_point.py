from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentv.errors import UsageError
from agentv.targets import registry

PYPROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "shouting-provider"
version = "1.0"

[project.entry-points."agentv.providers"]
shouting = "shouting_provider:Shouting"
not_one = "shouting_provider:NotOne"
lazy = "shouting_provider:Lazy"
unsettled = "shouting_provider:Unsettled"
gone = "shouting_provider:Gone"
"""

MODULE = """
from agentv.targets.provider import Provider, Reply, TargetSettings

class ShoutingSettings(TargetSettings):
    mark: str = "!"

class Shouting(Provider):
    Settings = ShoutingSettings

    def __init__(self, settings, scope):
        self.mark = settings.mark

    async def invoke(self, request):
        return Reply.of_text(request.question.upper() + self.mark)

class NotOne:
    async def invoke(self, request):
        return Reply.of_text("")

class Lazy(Provider):
    pass

class Unsettled(Shouting):
    Settings = dict
"""

ASK = """
import asyncio
from pathlib import Path
from agentv.errors import UsageError
from agentv.targets.provider import Request, TargetScope
from agentv.targets.registry import provider_class, provider_names

assert "shouting" in provider_names(), provider_names()
kind = provider_class("shouting")
provider = kind(kind.Settings(provider="shouting", mark="?"), TargetScope("t", Path()))
print(asyncio.run(provider.invoke(Request("hello"))).text)
for broken in ("not_one", "lazy", "unsettled", "gone"):
    try:
        provider_class(broken)
    except UsageError as error:
        print(error.message, error.next_step)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("source")
    (source / "pyproject.toml").write_text(PYPROJECT)
    (source / "shouting_provider.py").write_text(MODULE)
    site = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    subprocess.run(
        [*pip, "--no-build-isolation", "--no-deps", "--target", str(site), str(source)],
        check=True,
        capture_output=True,
    )
    return site


def test_an_installed_package_brings_its_provider_along(installed):
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    ran = subprocess.run([sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, check=True)
    answer, not_one, lazy, unsettled, gone = ran.stdout.splitlines()
    assert answer == "HELLO?"
    assert (
        "shouting_provider:NotOne (provider 'not_one') must be a subclass of agentv.targets.provider.Provider"
        in not_one
    )
    assert "Derive the class from Provider" in not_one
    assert "shouting_provider:Lazy (provider 'lazy') does not implement `invoke`" in lazy
    assert "`Settings` of shouting_provider:Unsettled (provider 'unsettled') must be a subclass" in unsettled
    assert "provider 'gone' could not be loaded from shouting_provider:Gone" in gone


def test_every_built_in_provider_can_be_loaded():
    for name in registry.BUILT_IN:
        kind = registry.provider_class(name)
        assert kind is not None
        assert kind.Settings.model_json_schema()["properties"]["provider"]
    assert registry.provider_names() == sorted(registry.BUILT_IN)


def test_entry_points_are_not_read_for_built_in_providers():
    code = (
        "import sys; from agentv.targets.registry import BUILT_IN, provider_class\n"
        "provider_class('mock'); print('importlib.metadata' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"


def test_other_spellings_name_the_same_provider():
    assert registry.provider_class("azure-openai") is registry.provider_class("azure")


def test_an_unknown_provider_is_none():
    assert registry.provider_class("unknown") is None


def test_loading_providers_does_not_load_an_http_library():
    code = (
        "import sys; from agentv.targets.registry import BUILT_IN, provider_class\n"
        "[provider_class(name) for name in BUILT_IN]; print('aiohttp' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"


def test_a_broken_built_in_provider_is_an_error_with_a_next_step(monkeypatch):
    monkeypatch.setitem(registry.BUILT_IN, "broken", "agentv.no_such_module:Thing")
    with pytest.raises(UsageError, match=r"provider 'broken' could not be loaded.*\nInstall or repair"):
        registry.provider_class("broken")
