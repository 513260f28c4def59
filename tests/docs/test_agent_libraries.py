"""The examples of docs/python-function.md work with the real libraries, if they are installed.

Set AGENTV_AGENTS_PYTHON to the interpreter of an environment with `openai-agents` and `langchain-core`.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.conftest import Project
from tests.docs.pages import ROOT, blocks

PYTHON = os.environ.get("AGENTV_AGENTS_PYTHON", sys.executable)


@pytest.mark.parametrize(
    ("target", "package", "module"),
    [
        ("pydantic-ai", "pydantic-ai-slim", "pydantic_ai"),
        ("openai-agents", "openai-agents", "agents"),
        ("langchain", "langchain-core", "langchain_core"),
    ],
)
def test_agent_of_a_library_is_a_target(project: Project, target: str, package: str, module: str) -> None:
    found = subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True, check=False, cwd=project.root)
    if found.returncode:
        pytest.skip(f"{package} is not installed in {PYTHON}")
    for block in blocks(ROOT / "docs" / "python-function.md"):
        if block.file is not None:
            project.write(block.file, block.text.replace('answer"}', f'answer", python: "{PYTHON}"}}'))
    done = project.run("eval", "suite.yaml", "--config", "agents", "--target", target)
    assert done.returncode == 0, done.stdout + done.stderr
    row = project.rows()[0]
    assert row["candidate_answer"] == "Paris"
    if target == "openai-agents":
        assert row["token_usage"] == {"input": 12, "output": 1}
    if target == "pydantic-ai":
        assert row["trace_summary"]["tool_calls_by_name"] == {"search": 1}
