"""Short ways to start a run, and messages for what people mistype."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import agentv
from tests.conftest import Project

ROOT = Path(__file__).parents[2]
CONFIG = """\
targets:
  strict: {provider: mock, response: Paris}
  slow: {provider: mock, response: Paris}
defaults: {target: strict}
"""
SUITE = "evalcases:\n- {id: %s, input: Where?, evaluators: [{type: contains, value: Paris}]}\n"


@pytest.fixture
def shop(project: Project) -> Project:
    project.write("agentv.config.yaml", CONFIG)
    project.write("evals/france.yaml", SUITE % "capital")
    return project


def test_eval_without_a_path_runs_the_directory_evals(shop: Project) -> None:
    done = shop.run("eval")
    assert done.returncode == 0, done.stderr
    assert [row["eval_id"] for row in shop.rows()] == ["capital"]
    assert shop.manifest()["options"]["paths"] == ["evals"]
    again = shop.run("eval", "--resume", shop.run_dirs()[-1].name)
    assert again.returncode == 0, again.stderr


def test_run_is_an_alias_of_eval_and_listed_once(shop: Project) -> None:
    assert shop.run("run", "evals/france.yaml").returncode == 0
    assert len(shop.rows()) == 1
    listing = shop.run("--help").stdout
    assert [line.split()[0] for line in listing.splitlines() if "alias: run" in line] == ["eval"]
    assert "\n  run " not in listing
    assert "Usage: agentv run [OPTIONS] [PATHS]..." in shop.run("run", "--help").stdout
    assert "did you mean 'run'?" in shop.run("runn").stderr


def test_validate_without_a_path_checks_the_directory_evals(shop: Project) -> None:
    assert shop.run("validate").stdout == "ok: 1 suite, 1 case, no problems\n"


def test_no_path_and_no_directory_evals_says_what_to_type(project: Project) -> None:
    done = project.run("eval")
    assert done.returncode == 2
    assert "No suite was given, and there is no directory `evals` here." in done.stderr
    assert "agentv init" in done.stderr


@pytest.mark.parametrize("command", ["eval", "validate"])
def test_missing_file_gets_a_suggestion_and_no_position(shop: Project, command: str) -> None:
    done = shop.run(command, "evals/frence.yaml")
    assert done.returncode == 2
    assert done.stderr.startswith(
        "agentv: There is no file or directory 'evals/frence.yaml' (did you mean `evals/france.yaml`?).\n"
    )
    assert ":1:1" not in done.stderr


@pytest.mark.parametrize("name", ["agentv.config.yaml", "mine.yaml"])
def test_configuration_given_as_a_suite_is_called_a_configuration(shop: Project, name: str) -> None:
    shop.write(name, CONFIG)
    done = shop.run("eval", name)
    assert done.returncode == 2
    assert f"{name}:1:1: this is a configuration file, not a suite" in done.stderr
    assert "1 problem in 1 file" in done.stderr


def test_unknown_key_lists_the_five_nearest_keys(shop: Project) -> None:
    shop.write("agentv.config.yaml", CONFIG.replace("response: Paris}", "answers_with: Paris}", 1))
    done = shop.run("eval")
    assert done.returncode == 2
    (message,) = [line for line in done.stderr.splitlines() if "unknown key `answers_with`" in line]
    assert message.count("`") == 2 + 2 * 5
    keys = message.split("`")[3::2]
    assert len({key.replace("_", "").lower() for key in keys}) == 5


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("strct", "(did you mean `strict`?)"),
        ("strict,slow", "Repeat it: --target strict --target slow"),
        ("strict, slow", "Repeat it: --target strict --target slow"),
        ("all", "--target takes one name; repeat it to select several."),
        ("s*", "--target takes one name; repeat it to select several."),
    ],
)
def test_unknown_target_is_explained(shop: Project, name: str, words: str) -> None:
    done = shop.run("eval", "--target", name)
    assert done.returncode == 2
    assert words in done.stderr


def test_case_that_matches_nothing_names_the_ids(shop: Project) -> None:
    done = shop.run("eval", "--case", "b")
    assert done.returncode == 2
    assert "--case 'b' matches no case.\nThe only id is `capital`." in done.stderr
    shop.write("evals/more.yaml", "evalcases:\n" + "".join((SUITE % f"case-{n}")[11:] for n in range(40)))
    done = shop.run("eval", "--case", "case-777")
    assert "(did you mean `case-7`?)" in done.stderr
    assert "The ids are `case-7`, `case-17`, `case-27`, `case-37`, " in done.stderr
    assert " and 36 more." in done.stderr


def test_package_lists_its_names() -> None:
    assert set(agentv.__all__) <= set(dir(agentv))
    assert "importlib" not in dir(agentv)


@pytest.mark.parametrize("goal", ["demo", "test", "check"])
def test_make_names_an_old_python_in_one_line(tmp_path: Path, goal: str) -> None:
    for name in (
        "Makefile",
        "requirements.lock",
        "requirements.runtime.lock",
        "requirements.build.lock",
        "pyproject.toml",
    ):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / "sdk" / "python").mkdir(parents=True)
    (tmp_path / "sdk" / "python" / "pyproject.toml").touch()
    old = tmp_path / "python3.10"
    old.write_text('#!/bin/sh\n[ "$1" = -c ] && echo 3.10.13\n')
    old.chmod(0o755)
    command = ["make", goal, f"PYTHON={old}", "NPM="]
    env = {name: value for name, value in os.environ.items() if "MAKE" not in name}  # the tests may run under make
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert "agentv needs Python 3.11 or later, found 3.10.13; set PYTHON, for example: make " in line
