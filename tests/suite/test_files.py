"""Files that a suite refers to: found near the suite, inside its repository, and regular files only."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

import pytest

from agentv.errors import SuiteError
from agentv.evaluators.reader import EvaluatorReader
from agentv.suite.files import MAX_FILE_BYTES, FileReferenceError, SuiteFiles
from agentv.suite.loader import load_suite
from agentv.suite.suite import EvalSuite
from tests.suite.support import EVALUATORS, cases, load, options, problems_in, write

SCHEMA = '{"type": "object"}'


def suite_with(reference: str, *, outside: bool = False) -> str:
    return (
        f"execution: {{allow_outside_files: {str(outside).lower()}, evaluators: [{{type: is_json}}]}}\n"
        "evalcases:\n"
        "- id: a\n"
        "  input: [{role: user, content: [{type: text, value: Read}, {type: file, value: "
        f'"{reference}"}}]}}]\n'
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """`<tmp>/repo` with a .git directory, next to a secret file."""
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "secret.txt").write_text("secret")
    return tmp_path / "repo"


def refused(folder: Path, reference: str) -> str:
    (message,) = problems_in(write(folder, suite_with(reference)))
    assert message.startswith("4:81: ")
    return message.removeprefix("4:81: ")


@pytest.mark.parametrize("where", ["evals/deep", "evals", "."])
@pytest.mark.parametrize("slash", ["", "/"])
def test_file_is_searched_from_the_suite_up_to_the_repository(repository, where, slash):
    note = write(repository, "text", f"{where}/docs/note.md")
    (case,) = cases(repository, suite_with(f"{slash}docs/note.md"), "evals/deep/suite.yaml")
    assert case.input_files == (note.resolve(),)


def test_nearest_file_is_used(repository):
    write(repository, "far", "note.md")
    near = write(repository, "near", "evals/note.md")
    (case,) = cases(repository, suite_with("note.md"), "evals/suite.yaml")
    assert case.input_files == (near,)


def test_working_directory_is_searched_last_and_only_inside_the_repository(repository, monkeypatch):
    note = write(repository, "text", "tools/note.md")
    monkeypatch.chdir(repository / "tools")
    (case,) = cases(repository, suite_with("note.md"), "evals/suite.yaml")
    assert case.input_files == (note,)
    write(repository.parent, "text", "note2.md")
    monkeypatch.chdir(repository.parent)
    assert "is outside" in refused(repository, "note2.md")


def test_only_the_suite_directory_is_searched_without_a_repository(tmp_path):
    write(tmp_path, "text", "note.md")
    folder = tmp_path / "evals"
    folder.mkdir()
    assert refused(folder, "../note.md") == (
        f"'../note.md' is outside {folder}; move it inside, or set `execution.allow_outside_files: true` in the suite"
    )


@pytest.mark.parametrize(
    "reference",
    [
        "../secret.txt",
        "../../../../../../../../../../../../etc/passwd",
        "/etc/passwd",
        "out",
        "loop/../out",
        "dir/passwd",
    ],
)
def test_file_outside_the_repository_is_rejected_unless_allowed(repository, reference):
    (repository / "out").symlink_to("../secret.txt")
    (repository / "dir").symlink_to("/etc")
    (repository / "loop").mkdir()
    assert f"is outside {repository}; move it inside" in refused(repository, reference)
    (case,) = cases(repository, suite_with(reference, outside=True))
    assert case.input_files[0].name in ("secret.txt", "passwd")


def test_symlink_inside_the_repository_is_followed(repository):
    write(repository, "text", "docs/note.md")
    (repository / "link.md").symlink_to("docs/note.md")
    (case,) = cases(repository, suite_with("link.md"))
    assert case.input_files == (repository / "docs/note.md",)


def test_only_regular_files_are_read_without_blocking(repository):
    os.mkfifo(repository / "pipe")
    (repository / "folder").mkdir()
    (repository / "round").symlink_to("round")
    (repository / "zero").symlink_to("/dev/zero")
    assert refused(repository, "pipe") == "'pipe' is not a regular file"
    assert refused(repository, "folder") == "'folder' is a directory, not a file"
    assert "there is no file 'round'" in refused(repository, "round")
    assert "is outside" in refused(repository, "zero")
    path = write(repository, suite_with("/dev/zero", outside=True))
    assert problems_in(path) == ["4:81: '/dev/zero' is not a regular file"]


def test_large_binary_and_missing_files_are_reported(repository):
    with (repository / "large").open("wb") as file:
        file.truncate(2**30)
    write(repository, b"caf\xe9", "latin.txt")
    assert refused(repository, "large") == "'large' is 1,024 MiB; a referenced file may be at most 16 MiB"
    assert refused(repository, "latin.txt") == f"'{repository}/latin.txt' is not UTF-8 text (byte 3)"
    assert refused(repository, "nowhere.md") == (
        f"there is no file 'nowhere.md' in {repository} or the working directory"
    )
    assert refused(repository, "") == "a file reference must be a non-empty path without NUL characters"
    assert refused(repository, "a\\0b") == "a file reference must be a non-empty path without NUL characters"
    assert refused(repository, "x" * 5000).startswith("there is no file 'xxx")


def test_file_of_the_maximum_size_is_read(repository):
    write(repository, b"x" * MAX_FILE_BYTES, "large.txt")
    (case,) = cases(repository, suite_with("large.txt"))
    assert case.input_files == (repository / "large.txt",)


def test_text_is_read_without_byte_order_mark_and_carriage_returns(repository):
    path = write(repository, b"\xef\xbb\xbfone\r\ntwo\r\n", "note.md")
    assert SuiteFiles.of(repository / "suite.yaml").read_text(path) == "one\ntwo\n"


def test_files_of_expected_messages_are_checked_but_not_sent_to_the_target(repository):
    text = EVALUATORS + (
        "evalcases:\n- id: a\n  input: x\n"
        "  expected_messages: [{role: assistant, content: [{type: file, value: answer.md}]}]\n"
    )
    (message,) = problems_in(write(repository, text))
    assert message.startswith("5:71: there is no file 'answer.md'")
    write(repository, "Paris", "answer.md")
    assert cases(repository, text)[0].input_files == ()


# -- schemas of json_schema


def test_schema_file_is_searched_like_other_files(repository):
    write(repository, SCHEMA, "schemas/answer.json")
    text = "evalcases: [{id: a, input: x, evaluators: [{type: json_schema, schema: schemas/answer.json}]}]\n"
    (case,) = cases(repository, text, "evals/deep/suite.yaml")
    assert options(case)[0]["schema"] == {"type": "object"}


def test_schema_file_outside_and_invalid_schema_are_reported(repository):
    write(repository.parent, SCHEMA, "outside.json")
    write(repository, '{"type": "objekt"}', "broken.json")
    text = """\
    evalcases:
      - id: a
        input: x
        evaluators:
          - {name: a, type: json_schema, schema: ../outside.json}
          - {name: b, type: json_schema, schema: broken.json}
    """
    first, second = problems_in(write(repository, text))
    assert first.startswith(f"5:46: `schema`: '../outside.json' is outside {repository};")
    assert second.startswith("6:46: `schema`: broken.json: not a valid JSON Schema")


# -- what the run depends on


def test_digests_cover_the_suite_and_every_file_it_refers_to(repository):
    files = {
        "cases.jsonl": '{"id": "b", "input": "x"}\n',
        "note.md": "note",
        "default.json": SCHEMA,
        "own.json": SCHEMA + " ",
    }
    for name, text in files.items():
        write(repository, text, name)
    files["suite.yaml"] = """\
execution: {evaluators: [{type: json_schema, schema: default.json}]}
evalcases:
  - id: a
    input: [{role: user, content: [{type: file, value: note.md}]}]
    evaluators: [{type: json_schema, schema: own.json}]
  - file: cases.jsonl
"""
    suite = load(repository, files["suite.yaml"])
    assert suite.digests == {
        str(repository / name): hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()
    }


@pytest.fixture
def changing(repository: Path) -> EvalSuite:
    write(repository, SCHEMA, "own.json")
    write(repository, "note", "note.md")
    write(repository, '{"id": "c", "input": "x", "evaluators": [{"type": "is_json"}]}\n', "cases.jsonl")
    return load(
        repository,
        """\
        evalcases:
          - id: a
            input: [{role: user, content: [{type: file, value: note.md}]}]
            evaluators: [{type: json_schema, schema: own.json}]
          - id: b
            input: x
            evaluators: [{type: is_json}]
          - file: cases.jsonl
        """,
    )


CHANGES = ["same length", "longer", "gone", "replaced by a pipe", "replaced by a link"]


def change_file(path: Path, change: str) -> None:
    text = path.read_text()
    if change == "longer":
        path.write_text(text + "\n")
    elif change == "same length":
        path.write_text(text.replace("x", "y").replace("note", "n0te").replace("object", "string"))
    else:
        path.unlink()
        if change == "replaced by a pipe":
            os.mkfifo(path)
        elif change == "replaced by a link":
            other = path.with_name("other")
            other.write_text(text.replace("note", "n0te"))
            path.symlink_to(other)


@pytest.mark.parametrize("name", ["suite.yaml", "cases.jsonl"])
@pytest.mark.parametrize("change", CHANGES[:-1])
def test_cases_that_changed_after_validation_are_reported_before_they_run(changing, name, change):
    change_file(changing.directory / name, change)
    run: list[str] = []
    with pytest.raises(SuiteError, match="changed after it was validated; start the run again"):
        run.extend(case.id for case in changing.cases())
    assert set(run) <= ({"a", "b"} if name == "cases.jsonl" else set())


@pytest.mark.parametrize("name", ["note.md", "own.json"])
@pytest.mark.parametrize("change", CHANGES)
def test_case_has_a_problem_if_its_file_changed_after_validation(changing, name, change):
    change_file(changing.directory / name, change)
    cases = list(changing.cases())
    assert [case.id for case in cases] == ["a", "b", "c"]
    assert [case.problem for case in cases[1:]] == [None, None]
    problem = cases[0].problem
    if problem is None:  # the contents of attachments are checked when they are sent
        with pytest.raises(FileReferenceError) as caught:
            changing.files.read_text(changing.directory / name)
        problem = str(caught.value)
    assert name in problem
    assert re.search("changed since it was checked|replaced after the suite was validated", problem)


def test_file_that_was_only_touched_is_not_reported(changing):
    for path in map(Path, changing.digests):
        os.utime(path, (1, 1))
    assert [case.id for case in changing.cases()] == ["a", "b", "c"]


def test_suite_that_changes_during_the_run_is_reported(repository):
    lines = "".join(f"- {{id: c{i}, input: x}}\n" for i in range(20_000))
    path = write(repository, EVALUATORS + "evalcases:\n" + lines)
    running = load_suite(path, EvaluatorReader()).cases()
    assert next(running).id == "c0"
    path.write_text(EVALUATORS + "evalcases:\n" + lines.replace("input: x", "input: y"))
    with pytest.raises(SuiteError, match="changed after it was validated"):
        list(running)


def test_concurrent_iterations_are_independent(changing):
    pairs = list(zip(changing.cases(), changing.cases(), strict=True))
    assert [(one.id, other.id) for one, other in pairs] == [("a", "a"), ("b", "b"), ("c", "c")]
