"""Problems in files: one line for editors, an excerpt for people."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentv.errors import Problem
from agentv.report.problems import render_problems


def test_problems_have_a_location_an_excerpt_and_a_total(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    problems = [
        Problem(tmp_path / "suite.yaml", 4, 5, "unknown key 'inptu'; did you mean 'input'?", "    inptu: hello\n"),
        Problem(Path("other.yaml"), 1, 1, "the file is empty"),
        Problem(Path("/elsewhere/suite.yaml"), 2, 3, "duplicate id 'a'", "\t\tid: a"),
    ]
    assert render_problems(problems, color=False) == (
        "suite.yaml:4:5: unknown key 'inptu'; did you mean 'input'?\n"
        "    4 |     inptu: hello\n"
        "      |     ^\n"
        "\n"
        "other.yaml:1:1: the file is empty\n"
        "\n"
        "/elsewhere/suite.yaml:2:3: duplicate id 'a'\n"
        "    2 | →→id: a\n"
        "      |   ^\n"
        "\n"
        "3 problems in 3 files"
    )


def test_the_first_line_of_a_problem_is_never_colored():
    problem = Problem(Path("suite.yaml"), 4, 5, "unknown key", "    inptu: hello")
    first, *rest = render_problems([problem], color=True).splitlines()
    assert first == "suite.yaml:4:5: unknown key"
    assert any("\x1b[" in line for line in rest)


def test_multi_line_message_is_printed_on_one_line():
    text = render_problems([Problem(Path("s.yaml"), 1, 2, "first\nsecond")], color=False)
    assert text.splitlines()[0] == "s.yaml:1:2: first second"


def test_control_characters_in_an_excerpt_take_one_column_each():
    problem = Problem(Path("s\x1b[31m.yaml"), 1, 8, "bad \x1b]0;t\x07key", "a\x1b[2J: \u202eb")
    text = render_problems([problem], color=False)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
    _, code, caret = text.splitlines()[:3]
    assert code[caret.index("^")] == "\ufffd"


def test_no_problems_give_an_empty_string():
    assert render_problems([], color=True) == ""
