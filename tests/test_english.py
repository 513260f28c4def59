"""The check for phrases to avoid finds them in prose only."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.english import findings

PYTHON = '''"""Nobody reads this."""
texts = told = 1  # mended, as of 2026
def test_a_run_goes_on(stands): return f"{texts} is no number", "there is no number", "stands for"
'''


def phrases(folder: Path, name: str, text: str) -> list[tuple[int, str]]:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return [(line, phrase.strip()) for line, phrase, _ in findings(path, folder)]


def test_python_files_are_searched_in_strings_comments_and_test_names_only(tmp_path: Path) -> None:
    expected = [(1, "Nobody"), (2, "mended"), (3, "goes on"), (3, "is no")]
    assert phrases(tmp_path, "module.py", PYTHON) == expected


@pytest.mark.parametrize("name", ["page.md", "suite.yaml", "judge.ts"])
def test_other_files_are_searched_completely(tmp_path: Path, name: str) -> None:
    assert phrases(tmp_path, name, "one\n# whoever\n") == [(2, "whoever")]


def test_allowed_paths_are_not_reported(tmp_path: Path) -> None:
    assert phrases(tmp_path, "tests/english.py", "# nobody") == []
