"""Paths of the command line become suite files."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentv.errors import UsageError
from agentv.plan.discovery import find_suites, suite_paths
from tests.conftest import Project

SUITE = "evalcases: [{id: one, input: a}]\n"


@pytest.fixture
def evals(project: Project) -> Project:
    for name in (
        "evals/b.yaml",
        "evals/a.yml",
        "evals/deep/c.yaml",
        "evals/.hidden/d.yaml",
        "evals/node_modules/e.yaml",
    ):
        project.write(name, SUITE)
    project.write("evals/agentv.config.yaml", "# evalcases\ntargets: {}\n")
    project.write("evals/notes.yaml", "other: file\n")
    return project


def found(project: Project, *paths: str) -> list[str]:
    return [str(path.relative_to(project.root)) for path in find_suites(paths, project.root)]


def test_directory_gives_every_suite_in_it_and_nothing_else(evals: Project) -> None:
    assert found(evals, "evals") == ["evals/a.yml", "evals/b.yaml", "evals/deep/c.yaml"]


def test_globs_are_expanded_and_a_suite_is_taken_once_in_the_order_given(evals: Project) -> None:
    assert found(evals, "evals/b.yaml", "evals/*.y*ml") == ["evals/b.yaml", "evals/a.yml", "evals/notes.yaml"]
    assert found(evals, "evals/**/c.yaml") == ["evals/deep/c.yaml"]


def test_file_is_taken_as_named_even_if_it_does_not_look_like_a_suite(evals: Project) -> None:
    assert found(evals, "evals/notes.yaml") == ["evals/notes.yaml"]


def test_file_whose_name_looks_like_a_glob_is_a_file(evals: Project) -> None:
    evals.write("evals/[x].yaml", SUITE)

    assert found(evals, "evals/[x].yaml") == ["evals/[x].yaml"]


@pytest.mark.parametrize("path", ["evals/node_modules/*.txt", "empty"])
def test_path_that_matches_no_suite_is_refused(evals: Project, path: str) -> None:
    (evals.root / "empty").mkdir()

    with pytest.raises(UsageError, match="No suite file matches"):
        find_suites([path], evals.root)


def test_no_path_means_the_directory_evals(evals: Project) -> None:
    assert suite_paths([], evals.root, command="eval") == ("evals",)
    assert suite_paths(["x.yaml"], evals.root, command="eval") == ("x.yaml",)


def test_no_path_and_no_directory_evals_is_refused_with_the_command_to_type(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        suite_paths([], tmp_path, command="validate")
    assert "there is no directory `evals` here" in str(caught.value)
    (tmp_path / "rag.yaml").write_text("evalcases: []")
    with pytest.raises(UsageError) as caught:
        suite_paths([], tmp_path, command="validate")
    assert "agentv validate rag.yaml" in str(caught.value)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("evals/bb.yaml", "There is no file or directory 'evals/bb.yaml' (did you mean `evals/b.yaml`?)."),
        ("evals/B.YAML", "There is no file or directory 'evals/B.YAML' (did you mean `evals/b.yaml`?)."),
        ("evls", "There is no file or directory 'evls' (did you mean `evals`?)."),
        ("evls/b.yaml", "There is no directory 'evls' for 'evls/b.yaml' (did you mean `evals`?)."),
        (
            "evals/deeep/c.yaml",
            "There is no directory 'evals/deeep' for 'evals/deeep/c.yaml' (did you mean `evals/deep`?).",
        ),
        ("nothing-like-it.yaml", "There is no file or directory 'nothing-like-it.yaml'."),
        ("evals/b.yaml/c.yaml", "There is no file or directory 'evals/b.yaml/c.yaml'."),
    ],
)
def test_wrong_path_names_the_nearest_one(evals: Project, path: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        find_suites(["evals/b.yaml", path], evals.root)
    assert caught.value.message == message
