"""The examples behave as their READMEs describe."""

from __future__ import annotations

import json
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    return tmp_path


def run(folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "-m", "agentv", *arguments, "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, json.loads(done.stdout)


def test_quickstart_uses_every_deterministic_check(folder: Path) -> None:
    _, summary = run(folder, "eval", "examples/quickstart/suite.yaml")
    rows = Path(summary["run_dir"], "results.jsonl").read_text(encoding="utf-8").splitlines()
    types = {result["type"] for row in map(json.loads, rows) for result in row["evaluator_results"]}
    assert types >= {"contains", "icontains", "equals", "starts_with", "ends_with", "regex"}
    assert types >= {"is_json", "json_schema", "similarity"}


def test_regression_example_passes_before_the_change_and_fails_after_it(folder: Path) -> None:
    suite = "examples/regression/suite.yaml"
    assert run(folder, "eval", suite, "--target", "before")[0] == 0
    code, summary = run(folder, "eval", suite)
    assert code == 1
    assert (summary["passed"], summary["borderline"], summary["failed"]) == (1, 1, 1)


def test_pictures_show_the_commands_of_their_script() -> None:
    script = runpy.run_path(str(ROOT / "docs/images/make_screenshot.py"))
    for name, commands in script["PICTURES"].items():
        picture = (ROOT / "docs/images" / name).read_text(encoding="utf-8").replace("&#160;", " ")
        for command in commands:
            assert command in picture, f"{name} is stale. Run: make pictures"
