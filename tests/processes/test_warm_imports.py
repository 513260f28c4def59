"""Modules that libraries import on first use, which zygotes import early."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentv.processes.launcher import Launcher

from .warm_support import CLEAN, script, warm, write

COUNTS = "with open('imports', 'a') as file: file.write(__name__ + ' ')\n"


@pytest.mark.parametrize("quiet", [False, True], ids=["may download", "quiet"])
async def test_modules_of_the_first_call_are_imported_once_unless_they_could_use_the_network(
    launcher: Launcher, tmp_path: Path, quiet: bool
) -> None:
    for name in (
        "dspy",
        "litellm",
        "langchain_openai",
        "openai",
        "openai.resources",
        "openai.resources.chat",
        "openevals",
    ):
        code = "import openai\n" if name == "litellm" else ""
        file = f"{name.replace('.', '/')}/__init__.py"
        write(tmp_path, code + COUNTS, file)
    write(tmp_path, "import dspy, openevals\nprint('call')\nimport langchain_openai, litellm, openai.resources.chat")
    variables = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MODE": "PRODUCTION"} if quiet else {}
    for _ in range(3):
        assert (await warm(launcher, script(tmp_path, env={**CLEAN, **variables}))).stdout == b"call\n"
    expected = {
        "dspy": 1,
        "langchain_openai": 1,
        "litellm": 1 if quiet else 3,
        "openai.resources.chat": 1 if quiet else 3,
    }
    imported = (tmp_path / "imports").read_text().split()
    assert {name: imported.count(name) for name in expected} == expected
