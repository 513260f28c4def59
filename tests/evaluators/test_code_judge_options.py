"""Options of `code_judge`: accepted values, and errors with their position and advice."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import indent
from typing import Any

import jsonschema
import pytest

from agentv.errors import Problem, SuiteError
from agentv.evaluators.base import Need
from agentv.evaluators.code_judge import CodeJudge
from agentv.evaluators.reader import EvaluatorReader
from agentv.judge.access import JudgeAccess
from agentv.plan.schema import suite_schema
from agentv.suite.loader import load_suite
from tests.conftest import Project

SCRIPT = "script: [python, judge.py]"


def suite(options: str) -> str:
    """A suite whose evaluator starts at line 5 with the first of the options."""
    return "evalcases:\n  - id: a\n    input: hi\n    evaluators:\n" + indent(options, " " * 8).replace(
        "        ", "      - ", 1
    ) + "\n        type: code_judge\n"  # fmt: skip


def read(tmp_path: Path, options: str) -> CodeJudge:
    path = tmp_path / "suite.yaml"
    path.write_text(suite(options))
    (case,) = load_suite(path, EvaluatorReader()).cases()
    (evaluator,) = case.evaluators
    assert isinstance(evaluator, CodeJudge)
    return evaluator


def problems(tmp_path: Path, options: str) -> tuple[Problem, ...]:
    with pytest.raises(SuiteError) as caught:
        read(tmp_path, options)
    return caught.value.problems


def only_problem(tmp_path: Path, options: str) -> Problem:
    (problem,) = problems(tmp_path, options)
    return problem


# -- script, cwd, timeout, weight


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("[python, judges/a.py, --strict]", ["python", "judges/a.py", "--strict"]),
        ("python judges/a.py --strict", ["python", "judges/a.py", "--strict"]),
        ("\"python 'my judge.py' a\\\\ b\"", ["python", "my judge.py", "a b"]),
        ("'node judge.mjs \"$HOME\"'", ["node", "judge.mjs", "$HOME"]),
        ("[sh, -c, 'cat | wc -c; echo $?']", ["sh", "-c", "cat | wc -c; echo $?"]),
        ("[python, 3]", ["python", "3"]),
    ],
)
def test_script_is_a_list_or_a_string_split_with_shell_rules(tmp_path: Path, written: str, words: list[str]) -> None:
    assert read(tmp_path, f"script: {written}").script == words


@pytest.mark.parametrize(
    "command",
    ["a | b", "a && b", "a; b", "a > out", "a < in", "echo `id`", "echo $(id)", 'echo "$(id)"', "a &", "(a)"],
)
def test_shell_operators_are_rejected_with_advice(tmp_path: Path, command: str) -> None:
    problem = only_problem(tmp_path, f"script: {json.dumps(command)}")
    assert "needs a shell" in problem.message
    assert "[sh, -c," in problem.message
    assert (problem.line, problem.column) == (5, 9)


@pytest.mark.parametrize("written", ["", "[]", "''", "['']", "'  '", "5", "{a: 1}", "[python, [x]]", '"\'open"'])
def test_script_without_a_program_is_rejected(tmp_path: Path, written: str) -> None:
    problem = only_problem(tmp_path, f"script: {written}")
    assert "script" in problem.message
    assert problem.line == 5


def test_script_is_required(tmp_path: Path) -> None:
    assert "`script` is missing" in only_problem(tmp_path, "judge: {}").message


def test_defaults_match_the_reference(tmp_path: Path) -> None:
    judge = read(tmp_path, SCRIPT)
    assert (judge.name, judge.cwd, judge.timeout_seconds, judge.judge) == ("code_judge", None, 120, None)
    assert (judge.weight, judge.required, judge.threshold) == (1.0, False, 0.8)
    assert (judge.env, judge.config) == ({}, None)


@pytest.mark.parametrize("written", ["0", "-1", ".inf", ".nan", "true", "'5'", "soon"])
def test_timeout_must_be_a_positive_number(tmp_path: Path, written: str) -> None:
    problem = only_problem(tmp_path, f"{SCRIPT}\ntimeout_seconds: {written}")
    assert "`timeout_seconds`" in problem.message
    assert problem.line == 6


def test_common_evaluator_options_are_read(tmp_path: Path) -> None:
    judge = read(tmp_path, f"{SCRIPT}\nname: mine\nweight: 2\nrequired: true\nthreshold: 0.5\ncwd: sub")
    assert (judge.name, judge.weight, judge.required, judge.threshold, judge.cwd) == ("mine", 2.0, True, 0.5, "sub")


@pytest.mark.parametrize(
    ("written", "env"), [("{A: b}", {"A": "b"}), ("{A: 1}", {"A": "1"}), ("[HOME, X]", ["HOME", "X"])]
)
def test_env_is_a_mapping_or_a_list_of_names(tmp_path: Path, written: str, env: Any) -> None:
    assert read(tmp_path, f"{SCRIPT}\nenv: {written}").env == env


# -- judge access


@pytest.mark.parametrize(
    ("written", "access"),
    [
        ("judge: true", JudgeAccess()),
        ("judge: {}", JudgeAccess()),
        ("judge: false", None),
        ("weight: 1", None),
        ("judge: {max_calls: 3}", JudgeAccess(max_calls=3)),
        ("judge: {max_calls: 0}", JudgeAccess(max_calls=0)),
        (
            "judge: {target: a, allowed_targets: [a, b], timeout_seconds: 5}",
            JudgeAccess(target="a", allowed_targets=["a", "b"], timeout_seconds=5),
        ),
        ("use_judge_provider: true", JudgeAccess()),
        ("use_judge_provider: false", None),
        ("use_judge_provider: true\njudge_provider: {max_calls: 4}", JudgeAccess(max_calls=4)),
        ("use_judge_provider: true\njudge_provider: {}", JudgeAccess()),
        ("judge: {max_calls: 5}\nuse_judge_provider: true", JudgeAccess(max_calls=5)),
        ("judge: true\nuse_judge_provider: true", JudgeAccess()),
        ("judge: false\nuse_judge_provider: false", None),
        ("judge: {max_calls: 5}\nuse_judge_provider: true\njudge_provider: {max_calls: 5}", JudgeAccess(max_calls=5)),
        ("target: {max_calls: 6}", JudgeAccess(max_calls=6)),
        ("target: {}", JudgeAccess()),
    ],
)
def test_judge_access_is_read_the_same_in_every_spelling(
    tmp_path: Path, written: str, access: JudgeAccess | None
) -> None:
    judge = read(tmp_path, f"{SCRIPT}\n{written}")
    assert judge.judge == access
    assert judge.needs == ({Need.SCRIPTS, Need.JUDGE_ACCESS} if access else {Need.SCRIPTS})


def test_judge_access_defaults_to_50_calls_and_60_seconds() -> None:
    assert (JudgeAccess().max_calls, JudgeAccess().timeout_seconds) == (50, 60)


@pytest.mark.parametrize(
    ("written", "line", "words"),
    [
        ("judge:", 6, ["empty", "`judge: {}`"]),
        ("judge: yes please", 6, ["true, false or options"]),
        ("judge: 5", 6, ["true, false or options"]),
        ("judge: [strict]", 6, ["true, false or options"]),
        ("target: strict", 6, ["true, false or options"]),
        ("use_judge_provider: 'yes'", 6, ["true or false", "'yes'"]),
        ("use_judge_provider: 1", 6, ["true or false", "1"]),
        ("use_judge_provider:", 6, ["true or false"]),
        ("use_judge_provider: {max_calls: 1}", 6, ["true or false"]),
        ("judge_provider: {max_calls: 5}", 6, ["`use_judge_provider: true`"]),
        ("use_judge_provider: false\njudge_provider: {max_calls: 5}", 7, ["`use_judge_provider: true`"]),
        ("judge: {}\nuse_judge_provider: false", 7, ["contradicts"]),
        ("judge: false\nuse_judge_provider: true", 7, ["contradicts"]),
        ("use_judge_provider: true\njudge_provider: 5", 7, ["options like"]),
        ("judge: {max_calls: 5}\nuse_judge_provider: true\njudge_provider: {max_calls: 6}", 8, ["different options"]),
        ("judge: {}\ntarget: {max_calls: 3}", 7, ["keep `judge`"]),
        ("judge: {target: 5.5.5, allowed_targets: strict}", 6, ["`allowed_targets`", "a list"]),
        ("judge: {timeout_seconds: 0}", 6, ["`timeout_seconds`"]),
        ("judge: {target: ''}", 6, ["`target`", "empty"]),
    ],
)
def test_invalid_judge_access_is_reported_at_its_position(
    tmp_path: Path, written: str, line: int, words: list[str]
) -> None:
    problem = only_problem(tmp_path, f"{SCRIPT}\n{written}")
    assert problem.line == line
    for word in words:
        assert word in problem.message


@pytest.mark.parametrize("value", ["1.5", '"10"', "true", ".nan", ".inf", "-1", "", "[1]", "many"])
@pytest.mark.parametrize("spelling", ["judge", "target", "use_judge_provider: true\njudge_provider"])
def test_max_calls_must_be_a_non_negative_integer(tmp_path: Path, value: str, spelling: str) -> None:
    options = f"{SCRIPT}\n{spelling}:\n  max_calls: {value}"
    problem = only_problem(tmp_path, options)
    assert "`max_calls`" in problem.message
    assert problem.line == 5 + options.count("\n")


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("max_call", "`max_calls`"),
        ("maxCalls", "`max_calls`"),
        ("timeout", "`timeout_seconds`"),
        ("nonsense", "the nearest of the 9 known keys are"),
    ],
)
def test_unknown_keys_inside_judge_are_errors(tmp_path: Path, key: str, hint: str) -> None:
    problem = only_problem(tmp_path, f"{SCRIPT}\njudge:\n  {key}: 3")
    assert f"unknown key `{key}`" in problem.message
    assert hint in problem.message
    assert (problem.line, problem.column) == (7, 11)


# -- keys for the script


def test_other_keys_are_passed_to_config_unchanged(tmp_path: Path) -> None:
    judge = read(
        tmp_path,
        f"{SCRIPT}\nminScore: 0.5\nconfig: {{deepKey: {{innerKey: [1, 'x']}}}}\ntargets: [a]\n1: one\nlist-of: []",
    )
    assert judge.config == {
        "deepKey": {"innerKey": [1, "x"]},
        "minScore": 0.5,
        "targets": ["a"],
        "1": "one",
        "list-of": [],
    }
    assert judge.judge is None


def test_key_set_in_config_and_on_the_evaluator_is_an_error(tmp_path: Path) -> None:
    problem = only_problem(tmp_path, f"{SCRIPT}\nconfig: {{model: a}}\nmodel: b")
    assert "`model`" in problem.message
    assert problem.line == 7


@pytest.mark.parametrize("written", ["5", "[a]", "text"])
def test_config_must_be_a_mapping(tmp_path: Path, written: str) -> None:
    assert "`config`" in only_problem(tmp_path, f"{SCRIPT}\nconfig: {written}\nmodel: b").message


@pytest.mark.parametrize(
    ("key", "option"),
    [
        ("use_judge_provder", "use_judge_provider"),
        ("use_judge_provider_x1", None),
        ("judge_provide", "judge_provider"),
        ("jugde", None),
        ("judg", "judge"),
        ("timeout_second", "timeout_seconds"),
        ("timeoutseconds", "timeout_seconds"),
        ("treshold", "threshold"),
        ("wieght", "weight"),
        ("confg", "config"),
        ("Judge", "judge"),
        ("enf", "env"),
        ("requird", "required"),
    ],
)
def test_key_similar_to_an_option_is_reported_with_both_meanings(tmp_path: Path, key: str, option: str | None) -> None:
    if option is None:
        assert read(tmp_path, f"{SCRIPT}\n{key}: 1").config == {key: 1}
        return
    problem = only_problem(tmp_path, f"{SCRIPT}\n{key}: 1")
    assert f"`{key}`" in problem.message
    assert f"did you mean `{option}`?" in problem.message
    assert "put it in `config`" in problem.message
    assert (problem.line, problem.column) == (6, 9)
    assert read(tmp_path, f"{SCRIPT}\nconfig: {{{key}: 1}}").config == {key: 1}


def test_misspelled_script_option_is_reported(tmp_path: Path) -> None:
    found = problems(tmp_path, "scrpt: [python, judge.py]")
    assert any("did you mean `script`?" in problem.message for problem in found)


@pytest.mark.parametrize("key", ["targets", "scripts", "configs", "weights", "thresholds", "envs", "judges", "names"])
def test_plural_of_an_option_is_not_reported_as_a_typo(tmp_path: Path, key: str) -> None:
    assert read(tmp_path, f"{SCRIPT}\n{key}: [1]").config == {key: [1]}


def test_all_problems_are_reported_in_one_run(tmp_path: Path) -> None:
    found = problems(
        tmp_path, f"{SCRIPT}\njudge: {{max_call: 1}}\nuse_judge_provder: true\nweight: -1\ncwd: 5.5.5\nenv: 3"
    )
    assert sorted(problem.line for problem in found) == [6, 7, 8, 10]


# -- files and names


def test_long_command_argument_is_not_treated_as_a_file_name(tmp_path: Path) -> None:
    (tmp_path / "judge.py").write_text("")
    judge = read(tmp_path, f"script: [sh, -c, '{'echo; ' * 1000}', judge.py]")
    assert judge.depends_on(tmp_path) == [tmp_path / "judge.py"]


CONFIG = """\
targets: {assistant: {provider: mock, response: ok}, strict: {provider: mock, response: ok}}
defaults: {target: assistant}
"""


@pytest.mark.parametrize(
    "options", ["judge: {target: stict}", "judge: {allowed_targets: [strict, stict]}", "target: {target: stict}"]
)
def test_unknown_targets_are_rejected_before_any_call(project: Project, options: str) -> None:
    project.write("agentv.config.yaml", CONFIG)
    project.write("judge.py", "")
    project.write("suite.yaml", suite(f'script: [python, -c, \'open("started", "w")\']\n{options}'))
    for command in ("validate", "eval"):
        refused = project.run(command, "suite.yaml")
        assert refused.returncode == 2
        assert "suite.yaml:2:" in refused.stderr
        assert "'stict'" in refused.stderr
        assert "did you mean `strict`?" in refused.stderr
    assert not (project.root / "started").exists()
    project.write("suite.yaml", suite(f"{SCRIPT}\n{options}").replace("stict", "strict"))
    assert project.run("validate", "suite.yaml").returncode == 0


def test_judge_target_none_needs_no_configuration(project: Project) -> None:
    project.write("agentv.config.yaml", CONFIG)
    project.write("judge.py", "")
    project.write("suite.yaml", suite(f"{SCRIPT}\njudge: {{target: none}}"))
    assert project.run("validate", "suite.yaml").returncode == 0


def test_validate_reports_typos_with_their_position(project: Project) -> None:
    project.write("agentv.config.yaml", CONFIG)
    project.write("judge.py", "")
    project.write("suite.yaml", suite(f"{SCRIPT}\njudge: {{max_call: 3}}\nuse_judge_provder: true"))
    for command in ("validate", "eval"):
        refused = project.run(command, "suite.yaml")
        assert refused.returncode == 2
        assert "suite.yaml:6:" in refused.stderr
        assert "did you mean `max_calls`?" in refused.stderr
        assert "suite.yaml:7:9: unknown key `use_judge_provder`" in refused.stderr
    project.write("suite.yaml", suite(f"{SCRIPT}\njudge: {{max_calls: 3}}\nuse_judge_provider: true"))
    assert project.run("validate", "suite.yaml").returncode == 0


# -- the schema for editors


@pytest.mark.parametrize(
    ("options", "right"),
    [
        ({"script": "python judge.py"}, True),
        ({"script": ["python", "judge.py"], "judge": True}, True),
        ({"script": ["python"], "judge": {"max_calls": 0}, "use_judge_provider": True}, True),
        ({"script": ["python"], "use_judge_provider": True, "judge_provider": {"max_calls": 3}}, True),
        ({"script": ["python"], "target": {"max_calls": 3}, "minScore": 1}, True),
        ({"judge": True}, False),
        ({"script": []}, False),
        ({"script": ["python"], "judge": None}, False),
        ({"script": ["python"], "judge": {"max_calls": -1}}, False),
        ({"script": ["python"], "judge": {"max_call": 1}}, False),
        ({"script": ["python"], "use_judge_provider": "yes"}, False),
    ],
)
def test_editor_schema_accepts_the_same_spellings(options: dict[str, Any], right: bool) -> None:
    schema = suite_schema()
    case = {"id": "a", "input": "hi", "evaluators": [{"type": "code_judge", **options}]}
    assert jsonschema.Draft202012Validator(schema).is_valid({"evalcases": [case]}) is right
