"""The options of a run: one table for the command line, Python and run.json."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import agentv
from agentv import api
from agentv.errors import UsageError
from agentv.plan.options import OPTIONS, RunOptions
from tests.conftest import Project

VALUES: dict[str, Any] = {
    "targets": ("a", "b"),
    "judge_target": "judge",
    "config": "other.yaml",
    "cases": ("x*",),
    "tags": ("smoke",),
    "exclude_tags": ("slow",),
    "where": ("metadata.lang=fr",),
    "sample": 5,
    "seed": 7,
    "shard": "1/1",
    "workers": 3,
    "repeat": 2,
    "prompts": ("prompt.txt",),
    "on": "none",
    "timeout": 7.5,
    "threshold": 0.5,
    "outputs": "answers.jsonl",
    "replay": "recorded",
    "out": "rows.jsonl",
    "judge_io": "failures",
    "cache": True,
    "max_cost": 2.0,
    "max_judge_calls": 9,
    "max_consecutive_errors": 4,
}
"""A value for every option that is not the default."""
WITHOUT_CALLS = {"targets", "timeout"}
"""Options that contradict --outputs."""


@pytest.fixture
def ready(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    project.write(
        "other.yaml",
        """\
        targets:
          a: {provider: mock, response: Paris, cost_usd: 0.01}
          b: {provider: mock, response: Paris, cost_usd: 0.01}
          judge: {provider: mock, response: '{"score": 1, "reasoning": "It fits."}', cost_usd: 0.01}
        """,
    )
    project.write(
        "suite.yaml",
        "tags: smoke\nevalcases:\n"
        "  - {id: xa, input: Q, metadata: {lang: fr}, evaluators: [{type: llm_judge}]}\n  - {id: y, input: Q}\n",
    )
    project.write("prompt.txt", "Please: {{ input }}")
    project.write("answers.jsonl", '{"eval_id": "xa", "candidate_answer": "Paris"}\n')
    monkeypatch.chdir(project.root)
    return project


def words(name: str, value: Any) -> list[str]:
    option = OPTIONS[name]
    if option.kind == "switch":
        return [option.flag]
    return [word for item in (value if isinstance(value, tuple) else (value,)) for word in (option.flag, str(item))]


@pytest.mark.parametrize("left_out", [{"outputs"}, WITHOUT_CALLS])
def test_every_option_is_accepted_by_the_command_line_python_and_run_json(ready: Project, left_out: set[str]) -> None:
    values = {name: value for name, value in VALUES.items() if name not in left_out}
    assert set(VALUES) | {"paths"} == set(OPTIONS)
    expected = RunOptions(paths=("suite.yaml",), **values)
    agentv.evaluate(
        "suite.yaml",
        config="other.yaml",
        target=["a", "b"],
        prompt="prompt.txt",
        judge_target="judge",
        repeat=2,
        run_dir="recorded",
    )

    arguments = [word for name, value in values.items() for word in words(name, value)]
    done = ready.run("eval", "suite.yaml", "--run-dir", "typed", *arguments)
    assert done.returncode == 0, done.stderr
    assert RunOptions.from_dict(ready.manifest(ready.root / "typed")["options"]) == expected

    keywords: Any = {OPTIONS[name].keyword: value for name, value in values.items()}
    run = agentv.evaluate("suite.yaml", run_dir="called", **keywords)
    assert run.passed
    assert ready.manifest(run.run_dir)["options"] == expected.to_dict()

    for directory in ("typed", "called"):
        (ready.root / "rows.jsonl").unlink()  # it contains the rows of the other run, which a resume does not replace
        resumed = ready.run("eval", "--resume", directory)
        assert resumed.returncode == 0, resumed.stderr
        assert ready.manifest(ready.root / directory)["options"] == expected.to_dict()


@pytest.mark.parametrize(
    ("options", "judge_io"),
    [
        ({}, "all"),
        ({"record_judge_io": True}, "all"),
        ({"record_judge_io": False}, "none"),
        ({"judge_io": "none"}, "none"),
    ],
    ids=["default", "older-name", "older-name-off", "none"],
)
def test_prompts_of_judges_are_recorded_unless_turned_off(ready: Project, options: Any, judge_io: str) -> None:
    run = agentv.evaluate("suite.yaml", config="other.yaml", target="a", judge_target="judge", **options)
    assert ("It fits." in (run.run_dir / "judge_calls.jsonl").read_text()) is (judge_io == "all")
    assert ready.manifest(run.run_dir)["options"]["judge_io"] == judge_io


def test_older_name_of_judge_io_is_read_and_must_not_contradict_the_new_one() -> None:
    assert RunOptions.from_dict({"record_judge_io": True}).judge_io == "all"
    assert RunOptions.from_dict({"record_judge_io": False}).judge_io == "none"
    assert RunOptions.from_dict({"record_judge_io": False, "judge_io": "failures"}).judge_io == "failures"
    for options in ({"record_judge_io": True, "judge_io": "none"}, {"record_judge_io": False, "judge_io": "all"}):
        with pytest.raises(UsageError, match="contradict each other"):
            RunOptions.from_dict(options)
    with pytest.raises(UsageError, match="`record_judge_io` must be true or false, got 'yes'"):
        RunOptions.from_dict({"record_judge_io": "yes"})
    with pytest.raises(UsageError, match=r"`judge_io` must be `all`, `failures` or `none`, got 'some'"):
        RunOptions.from_dict({"judge_io": "some"})


def test_editors_know_every_option_with_its_type() -> None:
    hints = get_type_hints(api.Options)
    kinds = {
        "whole": int,
        "number": float,
        "switch": bool,
        "text": str,
        "shard": str,
        "file": PathLike[str],
        "list": Sequence[str],
    }
    for option in OPTIONS.values():
        if option.keyword:
            assert option.keyword in hints, f"agentv.api.Options has no key for {option.keyword}"
            hint = hints[option.keyword]
            if option.choices:
                assert get_args(hint) == option.choices
            else:
                assert kinds[option.kind] in (hint, *get_args(hint)), option.keyword


@pytest.mark.parametrize("name", OPTIONS)
def test_a_value_of_another_kind_in_run_json_is_refused(name: str) -> None:
    wrong: list[Any] = [{}, 5.5j, object, [1], "", -1, float("inf"), ("",)]
    if OPTIONS[name].kind != "switch":
        wrong.append(True)
    for value in wrong:
        with pytest.raises(UsageError):
            RunOptions.from_dict({name: value})


def test_options_of_python_may_be_paths_and_single_strings(tmp_path: Path) -> None:
    options = RunOptions.from_keywords(("s",), {"case": "a*", "target": ["t"], "config": tmp_path, "workers": None})
    assert options == RunOptions(paths=("s",), cases=("a*",), targets=("t",), config=str(tmp_path))


def test_a_wrong_value_in_python_is_reported_by_the_name_of_its_keyword() -> None:
    with pytest.raises(UsageError, match=r"^`case` must be a list of strings, got 5\.$"):
        RunOptions.from_keywords(("s",), {"case": 5})
