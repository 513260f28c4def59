"""Secrets are masked in all output and records, and processes receive only the variables they need."""

from __future__ import annotations

import asyncio
import base64
from urllib.parse import quote

import pytest

from agentv.testing.model_server import Failure, FakeModelServer
from tests.conftest import Project

KEY = "sk-K3y/with+odd=chars&0123456789"
SUITE = "evalcases: [{id: a, input: hello, evaluators: [{type: contains, value: hello}]}]\n"


def artefacts(project: Project) -> str:
    files = [path for path in (project.root / ".agentv").rglob("*") if path.is_file()]
    assert files
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


def assert_absent(text: str) -> None:
    for form in (KEY, quote(KEY, safe=""), base64.b64encode(KEY.encode()).decode(), KEY[:8], KEY[-12:]):
        assert form not in text


async def test_key_echoed_by_a_server_is_masked(project: Project) -> None:
    encoded = base64.b64encode(KEY.encode()).decode()
    body = f'{{"error": {{"message": "bad key {KEY}, {quote(KEY, safe="")}, {encoded}"}}}}'
    async with FakeModelServer(Failure(401, {"X-Echo": KEY}, body.encode())) as server:
        project.write(
            "agentv.config.yaml",
            f"targets: {{real: {{provider: openai_compatible, model: m, base_url: '{server.url}', "
            "api_key: '${{ MY_SECRET }}'}}\n",
        )
        project.write("suite.yaml", SUITE)
        done = await asyncio.to_thread(project.run, "eval", "suite.yaml", "--verbose", env={"MY_SECRET": KEY})
        assert server.calls == 1
    (row,) = project.rows()
    assert done.returncode == 3
    assert "401" in row["error"]["message"]
    assert "real" in row["error"]["message"] or row["target"] == "real"
    assert_absent(done.stdout + done.stderr + artefacts(project))
    assert "[redacted]" in row["error"]["message"]


def test_command_receives_only_its_own_key(project: Project) -> None:
    project.write(
        "agentv.config.yaml",
        """\
        targets:
          a: {provider: cli, command: [python, show.py], env: {OWN: '${{ KEY_A }}'}}
          b: {provider: cli, command: [python, show.py], env: [KEY_B]}
        """,
    )
    project.write("show.py", "import json, os, sys\nprint(json.dumps(sorted(os.environ)))\n")
    project.write("suite.yaml", SUITE)
    project.write(".env", "FROM_DOTENV=x\n")
    variables = {
        "KEY_A": "aaaa-secret-a",
        "KEY_B": "bbbb-secret-b",
        "COPY_OF_B": "x bbbb-secret-b y",
        "PLAIN": "1",
    }
    project.run("eval", "suite.yaml", "--target", "a", "--target", "b", env=variables)
    seen = {row["target"]: row["candidate_answer"] for row in project.rows()}
    assert '"KEY_A"' in seen["a"]
    assert '"OWN"' in seen["a"]
    assert '"KEY_B"' not in seen["a"]
    assert '"COPY_OF_B"' not in seen["a"]
    assert '"FROM_DOTENV"' not in seen["a"]
    assert '"KEY_B"' in seen["b"]
    assert '"KEY_A"' not in seen["b"]
    assert '"PLAIN"' in seen["a"]
    assert '"PATH"' in seen["a"]


def test_key_in_an_answer_is_masked_everywhere(project: Project) -> None:
    project.write(
        "agentv.config.yaml",
        "targets: {a: {provider: cli, command: [python, leak.py], env: {OWN: '${{ MY_SECRET }}'}}}\n",
    )
    project.write("leak.py", "import os\nprint('hello', os.environ['OWN'] * 3)\n")
    project.write("suite.yaml", SUITE)
    done = project.run("eval", "suite.yaml", "--out", "rows.jsonl", env={"MY_SECRET": KEY})
    assert done.returncode == 0, done.stderr
    assert_absent(artefacts(project) + (project.root / "rows.jsonl").read_text() + done.stdout + done.stderr)


@pytest.mark.parametrize("written", ["'${{ MY_SECRET }}'", f"'{KEY}'"])
def test_run_json_contains_the_configuration_without_secrets(project: Project, written: str) -> None:
    project.write(
        "agentv.config.yaml",
        "targets:\n  a: {provider: mock, response: hello}\n"
        f"  real: {{provider: openai, model: m, api_key: {written}}}\ndefaults: {{target: a}}\n",
    )
    project.write("suite.yaml", SUITE)
    assert project.run("eval", "suite.yaml", env={"MY_SECRET": KEY}).returncode == 0
    assert project.manifest()["configuration"]
    assert_absent(artefacts(project))
