"""`make demo` catches a worse retriever and fails on an unexpected exit code."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

BIN = Path(sys.executable).parent
EXAMPLE = Path("examples/retriever-regression")


def run_demo(folder: Path) -> subprocess.CompletedProcess[str]:
    """The recipe of `make demo`, in a copy of the examples, at 80 columns."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(r"^demo:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert recipe is not None
    commands = recipe[1].replace("\t@", "\t").replace("$(BIN)", str(BIN))
    return subprocess.run(
        ["sh", "-ec", commands],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "COLUMNS": "80", "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def test_demo_catches_the_worse_retriever_within_80_columns_as_often_as_it_runs(folder: Path) -> None:
    for _ in range(2):
        demo = run_demo(folder)
        assert demo.returncode == 0, demo.stderr
        assert "all 12 cases passed" in demo.stdout
        assert "7 of 12 cases did not pass" in demo.stdout
        assert "v2 scores 0.00" in demo.stdout
        assert "1. yes  Gift wrapping costs 2.00 per book" in demo.stdout
        assert "Reason: 0 of 3 passages help" in demo.stdout
        assert "the candidate is worse over 12 cases: mean score -0.361" in demo.stdout
        assert re.findall(r"^Exit code (\d), as expected", demo.stdout, re.MULTILINE) == ["0", "1", "1"]
        assert not re.search(r"pass +0\.00", demo.stdout + demo.stderr)
        assert [line for line in demo.stdout.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("[python, retriever.py, v2,", "[python, retriever.py, v1,", "expected exit code 1, got 0"),
        ("provider: mock", "provider: mok", "expected exit code 0, got 2"),
    ],
)
def test_demo_fails_on_an_unexpected_exit_code(folder: Path, old: str, new: str, expected: str) -> None:
    config = folder / EXAMPLE / "agentv.config.yaml"
    text = config.read_text(encoding="utf-8")
    assert old in text
    config.write_text(text.replace(old, new), encoding="utf-8")
    demo = run_demo(folder)
    assert demo.returncode == 1
    assert expected in demo.stderr
