"""The tables of the reference are generated from the code and up to date."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import ROOT


def generate(docs: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(docs / "generate_reference.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_reference_is_up_to_date() -> None:
    done = generate(ROOT / "docs", "--check")
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\nRun: .venv/bin/python docs/generate_reference.py"


def test_manually_edited_page_is_stale_and_is_regenerated(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    shutil.copytree(ROOT / "docs", docs)
    page = docs / "reference" / "evaluators.md"
    right = page.read_text(encoding="utf-8")
    page.write_text(right.replace("Weight in the score of the case;", "Something else."), encoding="utf-8")

    stale = generate(docs, "--check")
    assert (stale.returncode, stale.stdout) == (1, "stale: docs/reference/evaluators.md\n")
    assert generate(docs).returncode == 0
    assert page.read_text(encoding="utf-8") == right


def test_evaluator_without_a_section_is_reported(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    shutil.copytree(ROOT / "docs", docs)
    page = docs / "reference" / "evaluators.md"
    text = page.read_text(encoding="utf-8")
    page.write_text(text.replace("<!-- generated: evaluator regex -->", "<!-- nothing -->"), encoding="utf-8")

    done = generate(docs, "--check")
    assert done.returncode == 1
    assert "missing: no page has the block <!-- generated: evaluator regex -->" in done.stdout
