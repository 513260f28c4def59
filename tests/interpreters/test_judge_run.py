"""`agentv judge run` with another interpreter or packages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Project
from tests.interpreters.support import cache, requirement, user_python, wheel, write_project

__all__ = ["cache"]

CASE = ("--suite", "suite.yaml", "--answer", "Paris", "--json")


def test_judge_run_uses_the_python_of_the_evaluator_or_of_the_command_line(
    project: Project, cache: Path, tmp_path: Path
) -> None:
    old, new = requirement(wheel(tmp_path)), requirement(wheel(tmp_path, "2.0"))
    write_project(project, python=[old])
    python = user_python(project.root / ".venv", wheel(tmp_path, "3.0"))
    seen = {}
    for name, options in {
        "of the evaluator": (),
        "--with": ("--with", new, "--no-judge"),
        "--python": ("--python", ".venv/bin/python"),
        "new script": ("--python", ".venv/bin/python", "--no-judge", "judge.py"),
    }.items():
        ended = project.run("judge", "run", *CASE, *options)
        assert ended.returncode == 0, ended.stderr
        outcome = json.loads(ended.stdout)
        seen[name] = (outcome["result"]["reasoning"], outcome["script"][0] == str(python))
    assert seen == {
        "of the evaluator": ("shapes 1.0", False),
        "--with": ("shapes 2.0", False),
        "--python": ("shapes 3.0", True),
        "new script": ("shapes 3.0", True),
    }


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--python", "x/y", "--with", "z"), "--python and --with cannot be used together"),
        (("--python", "none/python"), "--python: there is no file '"),
        (("--with", "a b"), "--with: 'a b' is not a requirement"),
        (("--with", "x", "sh", "judge.sh"), "--with: `python` replaces the first word of a script"),
    ],
)
def test_options_that_cannot_be_used_are_refused(
    project: Project, cache: Path, options: tuple[str, ...], expected: str
) -> None:
    write_project(project)
    ended = project.run("judge", "run", *CASE, *options)
    assert ended.returncode == 2
    assert expected in ended.stderr
    assert not cache.exists()


def test_missing_interpreter_of_the_evaluator_is_reported(project: Project, cache: Path) -> None:
    write_project(project, python=".venv/bin/python")
    ended = project.run("judge", "run", *CASE)
    assert ended.returncode == 2
    assert "`python` of 'shape': there is no file '.venv/bin/python'" in ended.stderr
