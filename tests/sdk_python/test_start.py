"""A judge script loads only the modules it needs."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

import pytest

import agentv_eval
from tests.sdk_python.support import SDK, Server, reply

SOURCES = sorted((SDK / "src" / "agentv_eval").glob("*.py"))
HEAVY = {
    "http.client",
    "socket",
    "ssl",
    "asyncio",
    "email",
    "typing",
    "dataclasses",
    "inspect",
    "difflib",
    "traceback",
}


def loaded_by(code: str, environ: dict[str, str] | None = None) -> set[str]:
    """Modules that running `code` adds to a bare interpreter."""
    script = f"""
import os, sys
before = set(sys.modules)
{code}
os.write(2, " ".join(set(sys.modules) - before).encode())
"""
    done = subprocess.run(
        [sys.executable, "-S", "-c", script],
        input=b"{}",
        capture_output=True,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(SDK / "src"), **(environ or {})},
        timeout=60,
        check=True,
    )
    return set(done.stderr.decode().split())


def test_importing_the_package_loads_nothing_else():
    assert loaded_by("import agentv_eval") <= {"agentv_eval", "__future__"}


def test_a_judge_without_calls_loads_json_but_no_network_and_no_heavy_module():
    loaded = loaded_by("from agentv_eval import define_code_judge\ndefine_code_judge(lambda input: 1)")
    assert "json" in loaded
    assert not loaded & HEAVY


def test_a_judge_with_calls_loads_a_socket_and_no_http_library():
    code = """
from agentv_eval import define_code_judge
define_code_judge(lambda input, judge: len(judge.invoke(question="q").raw_text) / 10)
"""
    with Server(lambda seen: reply("yes")) as server:
        loaded = loaded_by(code, server.environ)
    assert "socket" in loaded
    slow = {
        "http.client",
        "email",
        "ssl",
        "urllib",
        "asyncio",
        "concurrent.futures",
        "inspect",
        "dataclasses",
        "typing",
    }
    assert not loaded & slow


def test_every_exported_name_can_be_imported():
    for name in agentv_eval.__all__:
        assert getattr(agentv_eval, name) is not None
        assert name in dir(agentv_eval)
    with pytest.raises(AttributeError, match="create_judge_proxy_client"):
        agentv_eval.nonsense  # noqa: B018


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_the_source_is_python_3_9_and_uses_only_the_standard_library(source):
    tree = ast.parse(source.read_text(encoding="utf-8"), feature_version=(3, 9))
    roots: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            roots.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            roots.add((node.module or "").partition(".")[0])
    assert roots <= sys.stdlib_module_names
