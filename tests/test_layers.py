"""Imports point one way, and heavy libraries stay out of the quick paths."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "agentv"

BASE = {"errors", "messages", "results", "redact", "text", "jsonio", "command", "http", "processes", "wire"}
RUN_ARM = ["suite", "targets", "judge", "scripts", "evaluators", "plan", "run"]
READ_ARM = ["record", "report"]
JOINS = {"recorded", "api", "cli", "importing", "__main__", "__init__"}


def allowed(layer: str) -> set[str]:
    """The layers a layer may import."""
    if layer in BASE:
        return BASE
    for arm in (RUN_ARM, READ_ARM):
        if layer in arm:
            return BASE | set(arm[: arm.index(layer) + 1])
    if layer == "testing":
        return BASE | set(RUN_ARM)
    return BASE | set(RUN_ARM) | set(READ_ARM) | JOINS


def imports_of(path: Path) -> set[str]:
    """The layers of agentv that a file imports, lazily or not."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [node.module]
        for name in names:
            parts = name.split(".")
            if parts[0] == "agentv" and len(parts) > 1:
                found.add(parts[1])
    return found


FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path: Path) -> None:
    layer = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    assert imports_of(path) <= allowed(layer) | {layer}


def test_the_rule_would_catch_a_wrong_import(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text("def f():\n    from agentv.run.execute import Execution\n")
    assert not imports_of(wrong) <= allowed("suite")


HEAVY = {
    "aiohttp",
    "anthropic",
    "anyio",
    "boto3",
    "botocore",
    "dotenv",
    "duckdb",
    "email.parser",
    "genai_prices",
    "google",
    "google.genai",
    "http.client",
    "httpx2",
    "jinja2",
    "json_repair",
    "jsonschema",
    "openai",
    "opentelemetry",
    "pydantic_ai",
    "rapidfuzz",
    "regex",
    "rich",
    "sqlite3",
    "urllib.request",
    "yarl",
}


def modules_after(code: str, cwd: Path) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules, file=sys.stderr)"],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return set(done.stderr.splitlines()[-1].split())


RUN = "import sys\nfrom agentv.cli.program import run\nassert run({arguments!r}) == 0"


def test_the_version_loads_neither_click_nor_pydantic(tmp_path: Path) -> None:
    code = "import sys; sys.argv = ['agentv', '--version']\nfrom agentv.cli import main\nmain()"
    loaded = modules_after(code, tmp_path)
    assert not loaded & {"click", "pydantic", "yaml", "asyncio", *HEAVY}


@pytest.mark.parametrize("arguments", [["validate", "suite.yaml"], ["eval", "suite.yaml", "--quiet"]])
def test_validating_and_a_mock_run_load_no_heavy_library(tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "agentv.config.yaml").write_text("targets: {a: {provider: mock, response: Paris}}\n")
    (tmp_path / "suite.yaml").write_text(
        "evalcases: [{id: a, input: x, evaluators: [{type: contains, value: Paris}]}]\n"
    )
    loaded = modules_after(RUN.format(arguments=arguments), tmp_path)
    assert sorted(loaded & HEAVY) == []


@pytest.mark.parametrize(
    ("target", "evaluator"), [("b", "{type: contains, value: It fits}"), ("a", "{type: llm_judge}")]
)
def test_a_run_against_a_server_loads_no_client_library(tmp_path: Path, target: str, evaluator: str) -> None:
    command = [sys.executable, "-m", "agentv.testing.model_server", "--reply", '{"score": 1, "reasoning": "It fits."}']
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            (tmp_path / "agentv.config.yaml").write_text(
                "targets:\n  a: {provider: mock, response: Paris}\n"
                f"  b: {{provider: openai, model: m, api_key: k, base_url: '{url}'}}\n"
            )
            (tmp_path / "suite.yaml").write_text(f"evalcases: [{{id: a, input: x, evaluators: [{evaluator}]}}]\n")
            arguments = ["eval", "suite.yaml", "--quiet", "--target", target, "--judge-target", "b"]
            loaded = modules_after(RUN.format(arguments=arguments), tmp_path)
        finally:
            server.terminate()
    assert sorted(loaded & HEAVY) == []
