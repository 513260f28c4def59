"""`make test` repeats a test that failed, alone, before it counts as failed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.twice import MOST

ROOT = Path(__file__).parents[1]
PASSES = "def test_passes():\n    pass\n"
FAILS = "def test_fails():\n    assert False\n"
FLAKY = """
def test_fails_once(request):
    file = request.path.with_suffix(".seen")
    seen = file.exists()
    file.touch()
    assert seen
"""
MANY = (
    f"import pytest\n@pytest.mark.parametrize('number', range({MOST + 1}))\ndef test_fails(number):\n    assert False\n"
)


@pytest.mark.parametrize(
    ("tests", "code", "closing"),
    [
        (FLAKY + FAILS, 1, ["2 failed", "Running again", "1 failed, 1 passed", "Flaky,", "test_fails_once"]),
        (FLAKY + PASSES, 0, ["1 failed, 1 passed", "Running again", "1 passed", "Flaky,", "test_fails_once"]),
        (MANY, 1, [f"{MOST + 1} failed"]),
    ],
    ids=["fails twice", "flaky", "many fail"],
)
def test_failed_tests_are_repeated_once(tmp_path: Path, tests: str, code: int, closing: list[str]) -> None:
    (tmp_path / "test_some.py").write_text(tests, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    command = [sys.executable, "-m", "tests.twice", "-p", "xdist.plugin", "--rootdir", str(tmp_path), str(tmp_path)]
    # The other plugins take longer to import than these tests to run.
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100, check=False)
    rest = done.stdout
    for expected in closing:
        _, found, rest = rest.partition(expected)
        assert found, done.stdout + done.stderr
    assert "Running again" not in rest
    assert done.returncode == code
