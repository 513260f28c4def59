"""Suites in the spelling of AgentV 2.5 to 5: how they are recognised, what they become, and where problems are."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from agentv.evaluators.reader import EvaluatorReader
from agentv.evaluators.registry import evaluator_types
from agentv.suite.dialects.tables import BUILT_IN, OPTIONS, TYPES
from agentv.suite.loader import load_suite
from tests.suite.support import cases, load, names, options, problems, write

TESTS = "tests:\n  - id: a\n    input: x\n    criteria: y\n"


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        (TESTS, "AgentV 4"),
        ("evalcases: [{id: a, input: x, criteria: y}]", "AgentV 4"),
        ("assertions: [{type: is-json}]\nevalcases: [{id: a, input: x}]", "AgentV 4"),
        ("tests: [{id: a, input: x, assert: [{type: is-json}]}]", "AgentV 4"),
        ("eval_cases: [{id: a, input: x}]", "AgentV 4"),
        ("tests: [{id: b, input: x}, {id: a, input: x, criteria: y}]", "AgentV 4"),
        ("prompts: ['{{ input }}']\ntests: [{id: a, vars: {input: x}, assert: [Is kind]}]", "AgentV 5"),
        ("providers: [llm]\ntests: [{id: a, vars: {input: x}}]", "AgentV 5"),
        ("tests: [{id: a, input: x}]", ""),
        ("prompts: ['Say {{ x }}']\ntests: [{id: a, vars: {x: y}}]", ""),
        ("dataset: d\nevalcases: [{id: a, input: x, evaluators: [{type: is_json}]}]", ""),
    ],
)
def test_dialect_is_recognised_by_its_keys(tmp_path, text, dialect):
    assert load(tmp_path, text).dialect == dialect


def test_keys_below_the_cases_decide_too(tmp_path):
    suite = load(tmp_path, f"{TESTS}name: late\nassertions: [{{type: is-json}}]\n")
    assert (suite.dialect, suite.name) == ("AgentV 4", "late")
    assert names(next(suite.cases())) == ["is-json"]


PROBLEMS = """\
name: shop
execution:
  workers: many
assertions:
  - type: contains
    valu: x
tests:
  - id: a
    criteria: [1]
    input:
      - role: usr
        content: hi
    assertions:
      - Is kind to everybody
      - type: contains
        value: ""
      - Is short
      - {include: nothing}
      - type: rubrics
        criteria: [{outcome: x, weigth: 2}]
  - id: b
    critera: y
    input: x
  - id: c
    criteria: x
    expected_outcome: y
    input: x
    assert: [{type: contains, value: x}]
    assertions: []
"""


def test_problems_have_the_position_and_the_words_of_the_file(tmp_path):
    assert problems(tmp_path, PROBLEMS) == [
        "3:12: `workers` must be a whole number, got 'many'",
        "6:5: unknown key `valu` (did you mean `value`?)",
        "9:15: `criteria` must be a string, got a list",
        "11:15: `role` must be `system`, `user`, `assistant` or `tool`, got 'usr' (did you mean `user`?)",
        "16:16: `value` must not be empty, because an empty string is part of every answer and would always pass",
        f"18:19: there is no template 'nothing' in .agentv/templates of {tmp_path} or a directory above it",
        "20:33: unknown key `weigth` (did you mean `weight`?)",
        "22:5: unknown key `critera` (did you mean `criteria`?)",
        "26:5: `expected_outcome` is another name of what a good answer does: keep one",
        "28:5: `assert` and `assertions` mean the same: keep one",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"workspace: {{template: x}}\n{TESTS}", "1:1: AgentV's `workspace` is not supported; prepare files"),
        (f"{TESTS}    depends_on: [b]\n", "5:5: AgentV's `depends_on` is not supported; write the steps"),
        (f"{TESTS}    mode: conversation\n    turns: [{{input: x}}]\n", "5:5: AgentV's `mode` is not supported"),
        (f"{TESTS}    assert: [{{type: agent-rubric}}]\n", "5:21: AgentV's `agent-rubric` is not supported; use"),
        (
            f"{TESTS}    assert: [{{type: llm-grader, preprocessors: []}}]\n",
            "5:33: AgentV's `preprocessors` is not supported; convert",
        ),
        (f"execution: {{trials: {{strategy: vote}}}}\n{TESTS}", "1:22: AgentV's `strategy: vote` is not supported"),
    ],
)
def test_feature_that_does_not_exist_here_is_named(tmp_path, text, expected):
    (problem,) = problems(tmp_path, text)
    assert problem.startswith(expected)


def assertion(tmp_path: Path, written: str, **files: str) -> dict[str, Any]:
    """The options, as recorded, of the evaluator that an assertion becomes."""
    for name, text in files.items():
        write(tmp_path, text, name.replace("__", "/") + ".ts")
    (case,) = cases(tmp_path, f"{TESTS}    assertions: [{written}]\n")
    (evaluator,) = case.evaluators
    record = evaluator.record()
    common = {"weight": record.weight, "required": record.required, "threshold": record.threshold}
    changed = {key: value for key, value in common.items() if value != _COMMON[key]}
    return {"name": record.name, "type": record.type, **changed, **record.options}


_COMMON = {"weight": 1.0, "required": False, "threshold": 0.8}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("{type: contains, value: Paris}", {"name": "contains-Paris", "type": "contains", "value": "Paris"}),
        (
            "{type: icontains-any, value: [a, b], required: 0.5}",
            {
                "name": "icontains-any-2",
                "type": "icontains",
                "required": True,
                "threshold": 0.5,
                "value": ["a", "b"],
                "match": "any",
            },
        ),
        (
            "{type: not-equals, metric: m, value: x, min_score: 0.3}",
            {"name": "m", "type": "equals", "threshold": 0.3, "negate": True, "value": "x", "trim": True},
        ),
        (
            "{type: regex, value: 'a$', flags: gi}",
            {"name": "regex-a$", "type": "regex", "flags": "i", "dialect": "javascript", "pattern": "a$"},
        ),
        ("{type: latency, threshold: 50}", {"name": "latency", "type": "latency", "threshold_ms": 50.0}),
        ("{type: cost, budget: 0.5}", {"name": "cost", "type": "cost", "budget_usd": 0.5}),
        (
            "{type: code-grader, command: 'exit 0 | cat', target: true, threshold: 3, deep: {a: 1}}",
            {
                "name": "code-grader",
                "type": "code_judge",
                "score_from_exit_code": True,
                "script": ["sh", "-c", "exit 0 | cat"],
                "judge": {},
                "config": {"threshold": 3, "deep": {"a": 1}},
            },
        ),
        (
            "{type: llm-grader, prompt: 'Is {{ output }} right?', target: strict, max_steps: 3}",
            {
                "name": "llm-grader",
                "type": "llm_judge",
                "judge_target": "strict",
                "prompt": "Is {{ output }} right?",
            },
        ),
        (
            "{type: llm-rubric, value: Is kind}",
            {
                "name": "llm-rubric",
                "type": "llm_judge",
                "rubrics": [{"id": "rubric-1", "description": "Is kind", "weight": 1.0, "required": False}],
            },
        ),
        (
            "{type: skill-trigger, skill: pay, should_trigger: false}",
            {"name": "skill-trigger-pay", "type": "skill_used", "negate": True, "value": "pay"},
        ),
        (
            "{type: 'trajectory:tool-used', value: [a, {name: b, max: 0}]}",
            {
                "name": "trajectory:tool-used",
                "type": "tool_trajectory",
                "mode": "any_order",
                "minimums": {"a": 1, "b": 0},
                "maximums": {"b": 0},
                "all_or_nothing": True,
            },
        ),
    ],
)
def test_assertion_becomes_an_evaluator(tmp_path, written, expected):
    actual = assertion(tmp_path, written)
    if "judge" in expected:
        actual["judge"] = {}  # the options of the access, with their defaults
    assert actual == expected


def test_type_of_the_project_runs_its_script_with_the_options(tmp_path):
    found = assertion(tmp_path, "{type: word-count, most: 3}", **{".agentv__assertions__word-count": ""})
    script = tmp_path / ".agentv" / "assertions" / "word-count.ts"
    assert found == {
        "name": "word-count",
        "type": "code_judge",
        "score_from_exit_code": True,
        "script": ["bun", "run", str(script)],
        "config": {"most": 3},
    }


def test_strings_are_one_rubric_and_names_are_numbered(tmp_path):
    text = f"""\
assertions: [{{type: contains, value: x}}, Of the suite]
{TESTS}    assertions: [{{type: contains, value: x}}, One, {{type: contains, value: x}}, Two]
"""
    (case,) = cases(tmp_path, text)
    assert names(case) == ["contains-x-2", "rubrics-2", "contains-x-3", "contains-x", "rubrics"]
    own = options(case)[1]
    assert (own["rubrics"], own["weight"]) == (["One", "Two"], 2.0)


def test_case_gets_the_parts_of_the_suite_unless_it_skips_them(tmp_path):
    write(tmp_path, "of the file", "note.txt")
    text = """\
input: [{role: system, content: "Speak {{ language }}."}]
input_files: [note.txt]
metadata: {team: [a], level: {x: 1}}
governance: {owner: me}
assertions: [{type: is-json}]
tests:
  - id: a
    criteria: Is {{ language }} and {{ unknown }}.
    vars: {language: French, deep: {list: [1]}}
    input: "{{ language }}?"
    expected_output: "{{ deep }}"
    metadata: {team: [b, a], level: {y: 2}}
  - id: b
    criteria: x
    input: {plain: object}
    input_files: []
    execution: {skip_defaults: true}
"""
    first, second = cases(tmp_path, text)
    assert [message.role for message in first.input_messages] == ["system", "user"]
    assert first.question == "Speak French. French?"
    assert first.expected_outcome == "Is French and {{ unknown }}."
    assert first.expected_messages[0].content == {"list": [1]}
    assert [path.name for path in first.attachments] == ["note.txt"]
    assert first.metadata == {"team": ["a", "b"], "level": {"x": 1, "y": 2}, "governance": {"owner": "me"}}
    assert names(first) == ["is-json"]
    assert [message.content for message in second.input_messages] == [{"plain": "object"}]
    assert (names(second), second.attachments) == (["llm_judge"], ())


def test_variables_of_the_environment_are_inserted_and_unset_ones_are_noted(tmp_path):
    path = write(
        tmp_path, "tests: [{id: a, input: '${{ WORD }}!', criteria: 'x${{ GONE }}', metadata: {n: '${{ N }}'}}]"
    )
    suite = load_suite(path, EvaluatorReader(), variables={"WORD": "hello", "N": "3", "SECRET_KEY": "hidden"})
    (case,) = suite.cases()
    assert (case.question, case.expected_outcome, case.metadata) == ("hello!", "x", {"n": 3})
    assert suite.notes == (f"{path}: not set in the environment, so empty here: GONE",)
    assert b"hidden" not in pickle.dumps(suite)


def test_json_lines_have_their_settings_beside_them(tmp_path):
    lines = '{"id": "a", "input": "x", "criteria": "y"}\n{"id": "b", "input": "x", "assert": [{"type": "is-json"}]}\n'
    write(tmp_path, "description: d\nname: shop\nexecution: {target: desk}\nevaluator: llm-grader\n", "s.yaml")
    suite = load(tmp_path, lines, "s.jsonl")
    assert (suite.name, suite.target, suite.dialect) == ("shop", "desk", "AgentV 4")
    assert [names(case) for case in suite.cases()] == [["llm_judge"], ["is-json"]]
    write(tmp_path, "execution: {target: [1]}\n", "s.yaml")
    assert problems(tmp_path, lines, "s.jsonl") == ["s.yaml:1:21: `target` must be a string, got a list"]
    write(tmp_path, "targets: {a: {provider: mock}}\n", "s.yaml")
    assert load(tmp_path, lines, "s.jsonl").target is None


def test_settings_of_the_run(tmp_path):
    text = f"""\
execution:
  targets: [one, {{name: other, use_target: two}}]
  trials: {{count: 3, strategy: pass_at_k, cost_limit_usd: 2}}
  workers: 4
{TESTS}"""
    suite = load(tmp_path, text)
    assert (suite.targets, suite.workers, suite.max_cost) == (("one", "two"), 4, 2)
    trials = suite.trials.trials()
    assert (trials.count, trials.pass_if, trials.stop_early) == (3, "any", True)


SCENARIO = """\
- config:
    - {id: fr, vars: {language: French, hello: bonjour}}
    - {vars: {language: Spanish, hello: hola}, assert: [{type: is-json}]}
  tests:
    - vars: {phrase: hello}
      assert: [{type: equals, value: "{{ hello }}"}]
    - {id: bye, vars: {phrase: bye, hello: x}}
    - {id: wrong, vars: {phrase: y}, asert: []}
"""


def test_scenarios_are_rows_times_tests(tmp_path):
    write(tmp_path, SCENARIO.replace("    - {id: wrong, vars: {phrase: y}, asert: []}\n", ""), "rows/a.yaml")
    head = "prompts: ['Say {{ phrase }} in {{ language }}.']\nscenarios: ['file://rows/*.yaml']\n"
    assert problems(tmp_path, head) == ["a.yaml:7:12: duplicate id 'bye' (first at a.yaml:7)"]
    write(tmp_path, SCENARIO.replace("id: bye, ", "").partition("    - {id: wrong")[0], "rows/a.yaml")
    loaded = cases(tmp_path, head)
    assert [(case.id, case.question) for case in loaded] == [
        ("fr__scenario_test_1", "Say hello in French."),
        ("fr__scenario_test_2", "Say bye in French."),
        ("scenario-1-2-1", "Say hello in Spanish."),
        ("scenario-1-2-2", "Say bye in Spanish."),
    ]
    assert [options(case)[0].get("value") for case in loaded[:1]] == ["bonjour"]
    assert [names(case) for case in loaded[2:]] == [["equals-{{ hello }}", "is-json"], ["is-json"]]


def test_problem_in_a_scenario_has_its_file_and_position(tmp_path):
    write(tmp_path, SCENARIO.replace("id: fr, ", "").replace("id: bye, ", "").replace("id: wrong, ", ""), "a.yaml")
    assert problems(tmp_path, "prompts: [x]\nscenarios: ['file://a.yaml']\n") == [
        "a.yaml:8:27: unknown key `asert` (did you mean `assert`?)"
    ]


def test_every_name_in_the_tables_exists():
    known = {*evaluator_types(), *BUILT_IN}
    assert {*TYPES.values(), *OPTIONS} <= known
