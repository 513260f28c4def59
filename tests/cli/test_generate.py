"""`agentv generate rubrics`: generated rubrics are added to the suite file."""

from __future__ import annotations

import asyncio
import json
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agentv.cli.rubric_asking import read_rubrics
from agentv.evaluators.llm.reply import ReplyError
from agentv.suite.edit import InsertionPoint, SuiteFile, SuiteText
from agentv.suite.yaml import YamlWalk
from agentv.testing.model_server import FakeModelServer
from tests.conftest import Project

RUBRICS = [
    {"id": "names-paris", "description": "Names Paris: the city.", "weight": 2.0, "required": True},
    {"id": "one-sentence", "description": "Is one sentence.", "weight": 1.0, "required": False},
    {"id": "nothing-else", "description": "Names no other city.", "weight": 1.0, "required": False},
]
REPLY = json.dumps({"rubrics": RUBRICS})
CONFIG = f"""\
targets:
  plain: {{provider: mock, response: Paris, judge_target: writer}}
  writer:
    provider: mock
    rules: [{{match: Spain, response: I would rather not.}}]
    response: '{REPLY}'
defaults: {{target: plain}}
"""
SUITE = """\
# Capitals, checked by hand
evalcases:
  - id: france       # the easy one
    input: What is the capital of France?
    expected_outcome: Says Paris.   # nothing more

    # cheap checks
    evaluators:
      - {type: contains, value: Paris}
  - id: judged
    input: Capital?
    expected_outcome: Says it.
    rubrics: [Says it]
  - id: open
    input: Anything
"""
ADDED = """\
    rubrics:
      - id: names-paris
        description: "Names Paris: the city."
        weight: 2.0
        required: true
      - id: one-sentence
        description: Is one sentence.
        weight: 1.0
        required: false
      - id: nothing-else
        description: Names no other city.
        weight: 1.0
        required: false
"""


@pytest.fixture
def written(project: Project) -> Project:
    project.write("agentv.config.yaml", CONFIG)
    project.write("suite.yaml", SUITE)
    return project


def text_of(project: Project, name: str = "suite.yaml") -> str:
    return (project.root / name).read_bytes().decode("utf-8")


def test_rubrics_are_inserted_and_the_rest_of_the_file_is_unchanged(written: Project) -> None:
    done = written.run("generate", "rubrics", "suite.yaml")
    assert done.returncode == 0, done.stderr
    line = "    expected_outcome: Says Paris.   # nothing more\n"
    assert text_of(written) == SUITE.replace(line, line + ADDED)
    assert "france: 3 rubrics\n  names-paris: " in done.stdout
    assert "judged: skipped: already has rubrics" in done.stdout
    assert "open: skipped: has no expected_outcome" in done.stdout
    assert written.run("validate", "suite.yaml").returncode == 0


def test_second_run_makes_no_calls_and_no_changes(written: Project) -> None:
    written.run("generate", "rubrics", "suite.yaml")
    before = text_of(written)
    written.write("agentv.config.yaml", "targets: {writer: {provider: mock, error: must not be asked}}\n")
    done = written.run("generate", "rubrics", "suite.yaml")
    assert done.returncode == 0
    assert "suite.yaml was not changed" in done.stdout
    assert text_of(written) == before


def test_failure_of_one_case_keeps_the_rubrics_of_others(written: Project) -> None:
    written.write("suite.yaml", SUITE + "  - {id: spain, input: Capital of Spain?, expected_outcome: Says Madrid.}\n")
    done = written.run("generate", "rubrics", "suite.yaml", "--json")
    assert done.returncode == 3
    summary = json.loads(done.stdout)
    assert (summary["added"], summary["skipped"], summary["failed"], summary["written"]) == (1, 2, 1, True)
    assert summary["exit_code"] == 3
    (failed,) = [case for case in summary["cases"] if case["status"] == "failed"]
    assert failed["id"] == "spain"
    assert (
        "no usable reply in 3 attempts; the last one was rejected: it does not contain a JSON object"
        in failed["reason"]
    )
    assert ADDED in text_of(written)


def test_case_option_selects_and_unmatched_pattern_is_an_error(written: Project) -> None:
    written.write("suite.yaml", SUITE + "  - {id: spain, input: Capital of Spain?, expected_outcome: Says Madrid.}\n")
    assert written.run("generate", "rubrics", "suite.yaml", "--case", "fr*").returncode == 0
    wrong = written.run("generate", "rubrics", "suite.yaml", "--case", "frence")
    assert wrong.returncode == 2
    assert "did you mean `france`?" in wrong.stderr


def test_stdout_prints_the_suite_and_dry_run_makes_no_calls(written: Project) -> None:
    shown = written.run("generate", "rubrics", "suite.yaml", "--stdout")
    assert ADDED in shown.stdout
    assert YamlWalk(shown.stdout).document()["evalcases"][0]["rubrics"] == RUBRICS
    dry = written.run("generate", "rubrics", "suite.yaml", "--dry-run")
    assert "france: would get rubrics" in dry.stdout
    assert text_of(written) == SUITE


def test_target_option_overrides_the_judge_target(written: Project) -> None:
    other = written.run("generate", "rubrics", "suite.yaml", "--target", "plain")
    assert other.returncode == 3
    assert text_of(written) == SUITE
    unknown = written.run("generate", "rubrics", "suite.yaml", "--judge-target", "writr")
    assert unknown.returncode == 2
    assert "did you mean `writer`?" in unknown.stderr


def test_generate_fails_without_a_judge_target(written: Project) -> None:
    written.write("agentv.config.yaml", CONFIG.replace("judge_target: writer", "judge_target: none"))
    done = written.run("generate", "rubrics", "suite.yaml")
    assert done.returncode == 2
    assert "No judge target is configured" in done.stderr


def test_json_lines_case_keeps_its_formatting(written: Project) -> None:
    first = '{"id":"a", "input":"Capital of France?",  "expected_outcome":"Paris" }'
    second = '{"id": "b", "input": "no outcome"}'
    written.write("cases.jsonl", f"{first}\n\n{second}\n")
    assert written.run("generate", "rubrics", "cases.jsonl").returncode == 0
    added, blank, other = text_of(written, "cases.jsonl").splitlines()
    assert added.startswith(first.removesuffix(" }") + ', "rubrics": [')
    assert json.loads(added)["rubrics"] == RUBRICS
    assert (blank, other) == ("", second)


def test_cases_in_referenced_files_are_skipped(written: Project) -> None:
    written.write("cases.jsonl", '{"id": "a", "input": "Capital of France?", "expected_outcome": "Paris"}\n')
    written.write("suite.yaml", "evalcases: cases.jsonl\n")
    done = written.run("generate", "rubrics", "suite.yaml")
    assert done.returncode == 0
    assert "a: skipped: it is in another file that suite.yaml refers to" in done.stdout


def test_file_mode_and_symlink_are_preserved(written: Project) -> None:
    real = written.root / "suite.yaml"
    real.chmod(0o640)
    (written.root / "link.yaml").symlink_to("suite.yaml")
    assert written.run("generate", "rubrics", "link.yaml").returncode == 0
    assert (written.root / "link.yaml").is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert ADDED in text_of(written)
    assert [path.name for path in written.root.iterdir() if path.name.startswith(".suite")] == []


async def test_file_changed_during_generation_is_not_overwritten(project: Project) -> None:
    def edit(_: Any) -> str:
        (project.root / "suite.yaml").write_text(SUITE + "# mine\n", encoding="utf-8")
        return REPLY

    async with FakeModelServer(edit) as server:
        settings = f"{{provider: openai_compatible, model: m, base_url: '{server.url}', api_key: k}}"
        project.write("agentv.config.yaml", f"targets: {{writer: {settings}}}\n")
        project.write("suite.yaml", SUITE)
        done = await run(project, "generate", "rubrics", "suite.yaml")
        (request,) = server.requests
    assert done.returncode == 2
    assert "was changed while the model was called" in done.stderr
    assert text_of(project) == SUITE + "# mine\n"
    assert request.body["response_format"]["type"] == "json_schema"
    assert "Says Paris." in request.body["messages"][-1]["content"]


async def test_unusable_reply_is_retried_with_the_reason(project: Project) -> None:
    replies = ["no", json.dumps({"rubrics": RUBRICS[:2]}), REPLY]
    async with FakeModelServer(lambda _: replies.pop(0)) as server:
        settings = f"{{provider: openai_compatible, model: m, base_url: '{server.url}', api_key: k}}"
        project.write("agentv.config.yaml", f"targets: {{writer: {settings}}}\n")
        project.write("suite.yaml", SUITE)
        done = await run(project, "generate", "rubrics", "suite.yaml")
        asked = [request.body["messages"][-1]["content"] for request in server.requests]
    assert done.returncode == 0, done.stderr
    assert "it does not contain a JSON object" in asked[1]
    assert "it must have 3 to 6 criteria, got 2" in asked[2]


async def run(project: Project, *arguments: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(project.run, *arguments)


SHAPES = {
    "block scalar": (
        "evalcases:\n- id: a\n  expected_outcome: |\n    one\n    # not a comment\n\n  # about the input\n  input: x\n",
        "    # not a comment\n  rubrics:",
    ),
    "kept blank lines": ("evalcases:\n- id: a\n  expected_outcome: |+\n    one\n\n\n  input: x\n", "\n\n\n  rubrics:"),
    "several lines": ("evalcases:\n- expected_outcome: one\n    two # c\n  id: a\n", "two # c\n  rubrics:"),
    "no line end at the end": ("evalcases:\n- id: a\n  outcome: >-\n    one", "    one\n  rubrics:"),
    "crlf": ("evalcases:\r\n- id: a\r\n  outcome: one\r\n  input: x\r\n", "one\r\n  rubrics:\r\n"),
    "flow": ("evalcases: [{id: a, outcome: one, input: x}] # c\n", "outcome: one, rubrics: [{id: "),
    "merged outcome": (
        "x-base: &base {expected_outcome: one}\nevalcases:\n- <<: *base\n  id: a\n  input: x\n",
        "  id: a\n  rubrics:",
    ),
    "byte order mark": ("\ufeffevalcases:\n- id: a\n  outcome: one\n", "outcome: one\n  rubrics:"),
    "odd line ends": ('evalcases:\n- id: "a\u2028b"\n  outcome: one\n', "outcome: one\n  rubrics:"),
}


@pytest.mark.parametrize(("text", "expected"), SHAPES.values(), ids=SHAPES)
def test_rubrics_are_inserted_into_every_yaml_style(text: str, expected: str) -> None:
    new = SuiteText(text).with_rubrics({0: RUBRICS})
    assert expected in new
    kept = YamlWalk(new).document()["evalcases"][0]
    assert kept.pop("rubrics") == RUBRICS
    assert kept == YamlWalk(text).document()["evalcases"][0]


def test_cases_that_cannot_be_edited_are_skipped_with_a_reason(written: Project) -> None:
    written.write(
        "suite.yaml",
        """\
        evalcases:
          - &first {id: a, input: x, expected_outcome: Paris}
          - <<: *first
            id: b
          - id: c
            input: x
            expected_outcome: Paris
            rubrics:
          - id: d
            input: x
            expected_outcome: Paris
            evaluators: [{name: rubric, type: contains, value: x}]
        """,
    )
    done = written.run("generate", "rubrics", "suite.yaml")
    assert done.returncode == 0, done.stderr
    assert "a: skipped: other cases are based on it (&first)" in done.stdout
    assert "b: 3 rubrics" in done.stdout
    assert "c: skipped: it has an empty `rubrics:`" in done.stdout
    assert "d: skipped: already has an evaluator named `rubric`" in done.stdout
    assert written.run("validate", "suite.yaml").returncode == 0


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"id": "two words"}, "`rubrics[0].id` must be a short name"),
        ({"id": "one-sentence"}, "two criteria have the id `one-sentence`"),
        ({"description": "  "}, "`rubrics[0].description` must be one sentence"),
        ({"weight": -1}, "`rubrics[0].weight`"),
        ({"weight": True}, "`rubrics[0].weight`"),
        ({"required": "yes"}, "`rubrics[0].required`"),
        ({"score": 1}, "`rubrics[0]` has an unknown key `score`"),
    ],
)
def test_invalid_rubrics_are_rejected(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(ReplyError) as error:
        read_rubrics(json.dumps({"rubrics": [RUBRICS[0] | change, *RUBRICS[1:]]}))
    assert problem in str(error.value)


def test_weight_and_required_are_optional_in_replies() -> None:
    short = [{"id": item["id"], "description": item["description"]} for item in RUBRICS]
    assert [(item["weight"], item["required"]) for item in read_rubrics(json.dumps({"rubrics": short}))] == [
        (1.0, False)
    ] * 3


def test_directory_is_rejected(written: Project) -> None:
    done = written.run("generate", "rubrics", ".")
    assert done.returncode == 2
    assert "is not a single suite file" in done.stderr


def test_case_with_explicit_keys_is_skipped(written: Project):
    suite = (
        "evalcases:\n- ? id\n  : odd\n  ? input\n  : q\n  ? expected_outcome\n  : Says Paris.\n"
        "- id: plain\n  input: q\n  expected_outcome: Says Paris.\n"
    )
    path = written.write("suite.yaml", suite)
    done = written.run("generate", "rubrics", "suite.yaml")
    assert done.returncode == 0, done.stderr
    assert "odd: skipped: neither its outcome nor its id is written" in done.stdout
    assert YamlWalk(path.read_bytes()).document()["evalcases"][1]["rubrics"] == RUBRICS
    assert path.read_text(encoding="utf-8").startswith(suite)


def test_json_suite_stays_json(written: Project):
    case = {"id": "a", "input": "q", "expected_outcome": "Says Paris."}
    path = written.write("suite.yaml", json.dumps({"evalcases": [case]}))
    assert written.run("generate", "rubrics", "suite.yaml").returncode == 0
    assert json.loads(path.read_text(encoding="utf-8")) == {"evalcases": [{**case, "rubrics": RUBRICS}]}


def test_failed_insertion_keeps_the_rubrics_of_other_cases(tmp_path: Path):
    path = tmp_path / "suite.yaml"
    path.write_text("evalcases:\n- {id: a, input: q, expected_outcome: x}\n- id: b\n  input: q\n", encoding="utf-8")
    file = SuiteFile.read(path)
    assert file._yaml is not None
    file._yaml.places[1] = InsertionPoint(3, 0)  # in the middle of a word, so the result is not a valid suite
    new, problems = file.with_rubrics({"a": RUBRICS, "b": RUBRICS})
    assert list(problems) == ["b"]
    assert [case.get("rubrics") for case in YamlWalk(new).document()["evalcases"]] == [RUBRICS, None]


def test_read_only_suite_is_rejected_before_any_call(written: Project):
    path = written.write("suite.yaml", SUITE)
    path.chmod(0o444)
    done = written.run("generate", "rubrics", "suite.yaml")
    assert done.returncode == 2
    assert "suite.yaml is read-only.\nMake it writable, or use --stdout. No model was called." in done.stderr
    assert path.read_text(encoding="utf-8") == SUITE
    assert written.run("generate", "rubrics", "suite.yaml", "--stdout").returncode == 0
