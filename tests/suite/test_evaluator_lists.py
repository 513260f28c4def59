"""Which evaluators a case uses: its own list, the list it adds, or the suite's."""

from __future__ import annotations

import pytest

from agentv.evaluators.registry import evaluator_types
from agentv.suite.evaluator import Need
from agentv.suite.loader import load_suite
from agentv.text import all_of, one_of
from tests.suite.support import AnyType, cases, names, only_problem, options, problems, write

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
def test_case_list_replaces_or_extends_the_suite_list(tmp_path, fields, expected):
    (case,) = cases(tmp_path, DEFAULTS + fields)
    assert names(case) == expected


def test_lists_on_the_case_and_under_execution_are_an_error(tmp_path):
    text = DEFAULTS + f"    evaluators+: {OWN}\n    execution: {{evaluators: {OWN}}}\n"
    assert only_problem(tmp_path, text) == (
        "8:5: `evaluators+` conflicts with the evaluators under `execution`: keep one of them"
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
def test_one_default_evaluator_is_used_without_any_list(tmp_path, head, fields, expected):
    path = write(tmp_path, f"{head}evalcases:\n- id: a\n  input: x\n  {fields}\n- id: b\n  input: x\n  {fields}\n")
    for case in load_suite(path, AnyType()).cases():
        assert [evaluator.type for evaluator in case.evaluators] == [expected]


def test_rubrics_of_a_case_come_before_its_evaluators(tmp_path):
    path = write(tmp_path, DEFAULTS + "    rubrics: [Be kind]\n")
    (case,) = load_suite(path, AnyType()).cases()
    assert names(case) == ["rubric", "one", "two"]


def test_added_evaluators_apply_to_every_case(tmp_path):
    (extra,) = cases(tmp_path, f"evalcases: [{{id: a, input: x, evaluators: {OWN}}}]\n")[0].evaluators
    suite = load_suite(write(tmp_path, DEFAULTS), AnyType(), added=[extra])
    assert [names(case) for case in suite.cases()] == [["one", "two", "own"]]
    listed = load_suite(write(tmp_path, DEFAULTS + "    evaluators: [{type: is_json}]\n"), AnyType(), added=[extra])
    assert [names(case) for case in listed.cases()] == [["is_json", "own"]]


def test_evaluator_without_a_name_is_named_after_its_type(tmp_path):
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
def test_duplicate_names_within_a_case_are_an_error(tmp_path, fields, expected):
    assert only_problem(tmp_path, DEFAULTS + fields) == expected


def test_duplicate_name_is_reported_even_if_the_first_entry_is_invalid(tmp_path):
    entries = "{name: a, type: is_json, weight: -1}, {name: a, type: is_json}, 5, {type: is_jsn}, {type: 1}, {type: 1}"
    messages = problems(tmp_path, DEFAULTS + f"    evaluators: [{entries}]\n")
    assert [line for line in messages if "two evaluators" in line] == [
        "8:63: the case has two evaluators named 'a': give each its own `name`"
    ]
    assert messages[0] == "8:51: `weight` must be a number >= 0, got -1"
    text = DEFAULTS.replace("name: one, type: contains, value: x", "name: two, type: contains, value: ''")
    assert problems(tmp_path, text)[1:] == [
        "4:14: the suite has two evaluators named 'two': give each its own `name`",
    ]


def test_duplicate_name_in_the_suite_list_is_reported_once(tmp_path):
    text = DEFAULTS.replace("name: two", "name: one") + "  - {id: b, input: x}\n"
    assert only_problem(tmp_path, text) == "4:14: the suite has two evaluators named 'one': give each its own `name`"


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("{name: x}", "8:18: `type` is missing; it must be {one of types}"),
        (
            "{tpye: is_json}",
            "8:18: `type` is missing (did you mean `type` by `tpye`?); it must be {one of types}",
        ),
        ("{type: is_jsn}", "8:25: unknown evaluator type 'is_jsn' (did you mean `is_json`?); available: {types}"),
        ("{type: 5}", "8:25: unknown evaluator type 5; available: {types}"),
        ("{type: }", "8:25: unknown evaluator type null; available: {types}"),
        (
            "contains",
            "8:18: an evaluator must be a mapping with `type`, or a criterion in several words, got 'contains'",
        ),
        ("{type: contains, value: x, negte: true}", "8:45: unknown key `negte` (did you mean `negate`?)"),
        (
            "{type: contains}",
            "6:5: 'contains' has nothing to compare the answer with: set `value` of the evaluator, or "
            "`reference_answer` of the case",
        ),
        ("{type: contains, value: x, weight: .inf}", "8:53: `weight` must be a finite number, got .inf"),
        ("{type: contains, value: x, name: ''}", "8:51: `name` must not be empty"),
    ],
)
def test_invalid_entry_is_reported_with_what_is_expected(tmp_path, entry, expected):
    message = only_problem(tmp_path, DEFAULTS + f"    evaluators: [{entry}]\n")
    types = evaluator_types()
    assert message == expected.replace("{types}", all_of(types)).replace("{one of types}", one_of(types))


def test_unknown_default_type_is_reported_at_its_value(tmp_path):
    text = "evaluator: is_jsn\nevalcases:\n- {id: a, input: x}\n- {id: b, input: x, evaluator: regx}\n"
    messages = problems(tmp_path, text)
    assert [line.split("; ")[0] for line in messages] == [
        "1:12: unknown evaluator type 'is_jsn' (did you mean `is_json`?)",
        "4:32: unknown evaluator type 'regx' (did you mean `regex`?)",
    ]


@pytest.mark.parametrize("below", ["", "dataset: below\n"])
def test_suite_collects_needs_and_named_targets_of_its_evaluators(tmp_path, below):
    text = DEFAULTS + f"  - {{id: b, input: x, evaluators: {OWN}}}\n  - {{id: c, input: x}}\n{below}"
    suite = load_suite(write(tmp_path, text), AnyType())
    assert suite.evaluator_needs == set(Need)
    assert [(named.target, named.line) for named in suite.judge_names] == [
        ("judge-of-one", 6),
        ("judge-of-two", 6),
        ("judge-of-own", 8),
    ]


def test_strings_in_a_list_of_evaluators_are_the_criteria_of_a_rubric(tmp_path):
    text = """\
        execution: {evaluators: [{type: is_json}, Is polite]}
        evalcases:
          - {id: a, input: x}
          - {id: b, input: x, vars: {place: Paris}, evaluators: ["Names {{ place }}", {type: is_json}, Is short]}
          - {id: c, input: x, rubrics: [Is long], evaluators+: [Is kind]}
        """
    first, second, third = cases(tmp_path, text)
    assert [(each["name"], each["type"], each.get("rubrics")) for each in options(first)] == [
        ("is_json", "is_json", None),
        ("criteria", "rubric", ["Is polite"]),
    ]
    assert [each.get("rubrics") for each in options(second)] == [["Names Paris", "Is short"], None]
    assert names(third) == ["rubric", "is_json", "criteria", "more_criteria"]


def test_assert_of_other_tools_is_reported_as_evaluators(tmp_path):
    message = only_problem(
        tmp_path, "evalcases: [{id: a, input: x, assert: [it is polite], evaluators: [{type: is_json}]}]\n"
    )
    assert message == "1:31: unknown key `assert` (did you mean `evaluators`?)"
