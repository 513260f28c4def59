"""Which evaluators judge a case: its own list, what it adds, or the suite's."""

from __future__ import annotations

import pytest

from agentv.evaluators.registry import evaluator_types
from agentv.suite.evaluator import Need
from agentv.suite.loader import load_suite
from agentv.text import all_of, one_of
from tests.suite.support import AnyType, cases, mistakes, names, the_mistake, write

DEFAULTS = """\
execution:
  evaluators:
    - {name: one, type: contains, value: x}
    - {name: two, type: is_json}
evalcases:
  - id: a
    input: x
"""
OWN = "[{name: own, type: regex, pattern: x}]"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("", ["one", "two"]),
        (f"    evaluators: {OWN}\n", ["own"]),
        (f"    evaluators+: {OWN}\n", ["one", "two", "own"]),
        (f"    execution: {{evaluators: {OWN}}}\n", ["own"]),
        (f"    execution: {{evaluators+: {OWN}}}\n", ["one", "two", "own"]),
        ("    execution: {target: t}\n", ["one", "two"]),
        ("    execution: {}\n", ["one", "two"]),
        (f"    execution: {{target: t}}\n    evaluators: {OWN}\n", ["own"]),
        (f"    evaluators: {OWN}\n    evaluators+: [{{name: more, type: is_json}}]\n", ["own", "more"]),
        ("    evaluators:\n", ["one", "two"]),
    ],
)
def test_a_list_replaces_a_plus_adds_and_otherwise_the_suite_counts(tmp_path, fields, expected):
    (case,) = cases(tmp_path, DEFAULTS + fields)
    assert names(case) == expected


def test_lists_on_the_case_and_under_its_execution_are_a_mistake(tmp_path):
    text = DEFAULTS + f"    evaluators+: {OWN}\n    execution: {{evaluators: {OWN}}}\n"
    assert the_mistake(tmp_path, text) == (
        "8:5: `evaluators+` is here, and evaluators are under `execution` too: keep one"
    )


@pytest.mark.parametrize(
    ("head", "fields", "expected"),
    [
        ("", "", "any default"),
        ("", "evaluators: []", "any default"),
        ("execution: {evaluators: []}\n", "", "any default"),
        ("evaluator: rubric\n", "", "rubric"),
        ("evaluator: rubric\n", "evaluator: composite", "composite"),
    ],
)
def test_without_any_list_there_is_one_evaluator(tmp_path, head, fields, expected):
    path = write(tmp_path, f"{head}evalcases:\n- id: a\n  input: x\n  {fields}\n- id: b\n  input: x\n  {fields}\n")
    for case in load_suite(path, AnyType()).cases():
        assert [evaluator.type for evaluator in case.evaluators] == [expected]


def test_rubrics_of_a_case_come_before_its_evaluators(tmp_path):
    path = write(tmp_path, DEFAULTS + "    rubrics: [Be kind]\n")
    (case,) = load_suite(path, AnyType()).cases()
    assert names(case) == ["rubric", "one", "two"]


def test_added_evaluators_join_the_defaults(tmp_path):
    (extra,) = cases(tmp_path, f"evalcases: [{{id: a, input: x, evaluators: {OWN}}}]\n")[0].evaluators
    suite = load_suite(write(tmp_path, DEFAULTS), AnyType(), added=[extra])
    assert [names(case) for case in suite.cases()] == [["one", "two", "own"]]


def test_an_evaluator_without_a_name_is_called_by_its_type(tmp_path):
    (case,) = cases(tmp_path, DEFAULTS + "    evaluators: [{type: is_json}]\n")
    assert names(case) == ["is_json"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            "    evaluators:\n    - {type: is_json}\n    - {type: is_json}\n",
            "10:7: the case has two evaluators named 'is_json': give each its own `name`",
        ),
        (
            "    evaluators+:\n    - {type: regex, pattern: x, name: two}\n",
            "9:39: the case has two evaluators named 'two': give each its own `name`",
        ),
    ],
)
def test_names_are_unique_within_a_case(tmp_path, fields, expected):
    assert the_mistake(tmp_path, DEFAULTS + fields) == expected


def test_a_name_that_stands_twice_is_told_beside_the_other_mistakes_of_its_first_owner(tmp_path):
    entries = "{name: a, type: is_json, weight: -1}, {name: a, type: is_json}, 5, {type: is_jsn}, {type: 1}, {type: 1}"
    found = mistakes(tmp_path, DEFAULTS + f"    evaluators: [{entries}]\n")
    assert [line for line in found if "two evaluators" in line] == [
        "8:63: the case has two evaluators named 'a': give each its own `name`"
    ]
    assert found[0] == "8:51: `weight`: expected a number >= 0, got -1"
    text = DEFAULTS.replace("name: one, type: contains, value: x", "name: two, type: contains")
    assert mistakes(tmp_path, text) == [
        "3:7: `value` is missing",
        "4:14: the suite has two evaluators named 'two': give each its own `name`",
    ]


def test_names_are_unique_in_the_suites_list_and_that_is_told_once(tmp_path):
    text = DEFAULTS.replace("name: two", "name: one") + "  - {id: b, input: x}\n"
    assert the_mistake(tmp_path, text) == "4:14: the suite has two evaluators named 'one': give each its own `name`"


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("{name: x}", "8:18: `type` is missing: say which evaluator this is: {one of types}"),
        (
            "{tpye: is_json}",
            "8:18: `type` is missing (did you mean `type` by `tpye`?): say which evaluator this is: {one of types}",
        ),
        ("{type: is_jsn}", "8:25: unknown evaluator type 'is_jsn' (did you mean `is_json`?); there are {types}"),
        ("{type: 5}", "8:25: unknown evaluator type 5; there are {types}"),
        ("{type: }", "8:25: unknown evaluator type nothing; there are {types}"),
        ("contains", "8:18: an evaluator is a mapping with `type`, got 'contains'"),
        ("{type: contains, value: x, negte: true}", "8:45: unknown key `negte` (did you mean `negate`?)"),
        ("{type: contains}", "8:18: `value` is missing"),
        ("{type: contains, value: x, weight: .inf}", "8:53: `weight`: expected a finite number, got .inf"),
        ("{type: contains, value: x, name: ''}", "8:51: `name`: must not be empty"),
    ],
)
def test_a_wrong_entry_says_what_it_should_be(tmp_path, entry, expected):
    found = the_mistake(tmp_path, DEFAULTS + f"    evaluators: [{entry}]\n")
    types = evaluator_types()
    assert found == expected.replace("{types}", all_of(types)).replace("{one of types}", one_of(types))


def test_an_unknown_type_for_cases_without_a_list_is_told_at_its_key(tmp_path):
    text = "evaluator: is_jsn\nevalcases:\n- {id: a, input: x}\n- {id: b, input: x, evaluator: regx}\n"
    found = mistakes(tmp_path, text)
    assert [line.split("; there are")[0] for line in found] == [
        "1:12: unknown evaluator type 'is_jsn' (did you mean `is_json`?)",
        "4:32: unknown evaluator type 'regx' (did you mean `regex`?)",
    ]


@pytest.mark.parametrize("below", ["", "dataset: below\n"])
def test_the_suite_knows_what_its_evaluators_need_and_whom_they_name(tmp_path, below):
    text = DEFAULTS + f"  - {{id: b, input: x, evaluators: {OWN}}}\n  - {{id: c, input: x}}\n{below}"
    suite = load_suite(write(tmp_path, text), AnyType())
    assert suite.evaluator_needs == set(Need)
    assert [(named.target, named.line) for named in suite.judge_names] == [
        ("judge-of-one", 6),
        ("judge-of-two", 6),
        ("judge-of-own", 8),
    ]
