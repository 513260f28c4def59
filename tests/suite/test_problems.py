"""Error messages for invalid suites: every problem, with its position, its key and what was expected."""

from __future__ import annotations

import pytest

from agentv.errors import SuiteError
from agentv.evaluators.registry import evaluator_types
from agentv.text import all_of
from tests.suite.support import EVALUATORS, load, only_problem, problems

BROKEN = """\
descripton: everything is wrong here
execution:
  targt: scripted
  threshold: 1.5
  evaluators:
    - name: has
      type: contains
      value: x
      wieght: 2
evalcases:
  - id: a
    input: hi
    expected_outcom: Paris
  - id: b
    input_messages:
      - role: usr
        content: hello
      - role: user
        contents: hello
      - role: assistant
        tool_calls:
          - {tol: search, input: {}}
  - input: hello
  - id: ~
    input: [1, 2
      ]
  - id: c
    input: hi
    metadata: [1]
    evaluators:
      - {name: n, type: contians, value: x}
      - {name: m, type: equals, value: x, weight: -1}
  - only text
"""


def test_all_problems_of_a_file_are_reported_with_positions(tmp_path):
    assert problems(tmp_path, BROKEN) == [
        "1:1: unknown key `descripton` (did you mean `description`?)",
        "3:3: unknown key `targt` (did you mean `target`?)",
        "4:14: `threshold` must be a number <= 1, got 1.5",
        "9:7: unknown key `wieght` (did you mean `weight`?)",
        "13:5: unknown key `expected_outcom` (did you mean `expected_outcome`?)",
        "16:15: `role` must be `system`, `user`, `assistant` or `tool`, got 'usr' (did you mean `user`?)",
        "19:9: unknown key `contents` (did you mean `content`?)",
        "22:14: unknown key `tol` (did you mean `tool`?)",
        "23:5: `id` is missing",
        "24:9: `id` must be a string, got null",
        "25:13: an item of `input` must be a mapping like `{role: user, content: ...}`, got 1",
        "25:16: an item of `input` must be a mapping like `{role: user, content: ...}`, got 2",
        "29:15: `metadata` must be a mapping, got a list",
        f"31:25: unknown evaluator type 'contians' (did you mean `contains`?); available: {all_of(evaluator_types())}",
        "32:51: `weight` must be a number >= 0, got -1",
        "33:5: a case must be a mapping with `id` and `input`, got 'only text'",
    ]


def test_message_without_content_is_reported_next_to_an_invalid_message(tmp_path):
    text = f"""{EVALUATORS}evalcases:
  - id: a
    input_messages:
      - {{role: usr, content: x}}
      - {{role: user}}
      - {{role: assistant, tool_calls: [{{tool: search}}]}}
"""
    assert [line.split("; ")[0] for line in problems(tmp_path, text)] == [
        "5:16: `role` must be `system`, `user`, `assistant` or `tool`, got 'usr' (did you mean `user`?)",
        "6:9: `content` is missing: a message needs `content` or `tool_calls`",
    ]


def test_invalid_field_does_not_hide_other_problems_of_the_case(tmp_path):
    text = f"""{EVALUATORS}evalcases:
  - id: a
    inptu: typo
    input_messages:
      - {{role: user, contnt: typo, content: [{{type: file, value: missing.md}}]}}
    evaluators:
      - {{type: json_schema, schema: nowhere.json, weight: heavy}}
  - id: a
    input: again
"""
    messages = problems(tmp_path, text)
    assert [line.split(": ", 1)[0] for line in messages] == ["4:5", "6:22", "6:66", "8:37", "8:59", "9:9"]


def test_typo_in_a_key_is_not_also_reported_as_a_missing_key(tmp_path):
    text = EVALUATORS + "evalcases:\n- idd: a\n  inputt: hi\n"
    assert problems(tmp_path, text) == [
        "3:3: unknown key `idd` (did you mean `id`?)",
        "4:3: unknown key `inputt` (did you mean `input`?)",
    ]


def test_unknown_key_without_a_similar_one_lists_the_nearest_keys(tmp_path):
    text = "execution: {keep_it_warm: 1}\nevalcases:\n- {id: a, input: x, evaluators: [{type: is_json}]}\n"
    assert only_problem(tmp_path, text) == (
        "1:13: unknown key `keep_it_warm`; the nearest of the 11 known keys are `warm`, `judge_target`, "
        "`target`, `targets` and `workers`"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("evalcase:\n- {id: a, input: x}\n", "1:1: unknown key `evalcase` (did you mean `evalcases`?)"),
        ("evalCases:\n- {id: a, input: x}\n", "1:1: unknown key `evalCases` (did you mean `evalcases`?)"),
        ("cases:\n- {id: a, input: x}\n", "1:1: unknown key `cases` (did you mean `evalcases`?)"),
        ("description: d\n", "1:1: `evalcases` is missing: list the cases under `evalcases:`"),
        ("", "1:1: the file is empty: list the cases under `evalcases:`"),
        ("# nothing\n\n# here\n", "1:1: the file is empty: list the cases under `evalcases:`"),
        ("evalcases: []\n", "1:1: the suite has no cases; add them under `evalcases:`"),
        (
            "evalcases:\n",
            "1:11: `evalcases` must be a list of cases, the path of a file with cases, or a mapping with `file` or "
            "`hf`, got null",
        ),
        (
            "# note\n- {id: a, input: x}\n",
            "2:1: the top level of the file must be a mapping with `evalcases:`, got a list",
        ),
        ("hello\n", "1:1: the top level of the file must be a mapping with `evalcases:`, got a single value"),
    ],
)
def test_file_without_cases_is_reported_with_what_a_suite_needs(tmp_path, text, expected):
    assert only_problem(tmp_path, text) == expected


def test_duplicate_keys_are_reported_at_every_level(tmp_path):
    text = """\
x-shared: &shared {a: 1, a: 2}
execution:
  evaluators: [{type: contains, value: x, value: y}]
execution: {evaluators: [{type: is_json}]}
evalcases:
  - id: a
    input: one
    input: two
    metadata: {deep: [{k: 1, k: 2}], shared: *shared}
"""
    assert problems(tmp_path, text) == [
        "1:26: duplicate key `a` (first at line 1)",
        "3:43: duplicate key `value` (first at line 3)",
        "4:1: duplicate key `execution` (first at line 2)",
        "8:5: duplicate key `input` (first at line 7)",
        "9:30: duplicate key `k` (first at line 9)",
    ]


def test_quoted_and_plain_spelling_of_a_key_are_duplicates(tmp_path):
    text = EVALUATORS + 'evalcases:\n- id: a\n  input: x\n  metadata: {1: x, "1": y}\n'
    assert only_problem(tmp_path, text) == "5:20: duplicate key `1` (first at line 5)"


def test_duplicate_id_is_reported_with_its_first_position(tmp_path):
    text = EVALUATORS + "evalcases:\n- {id: 7, input: x}\n- {id: b, input: x}\n- {id: '7', input: x}\n"
    assert only_problem(tmp_path, text) == "5:8: duplicate id '7' (first at suite.yaml:3)"


def test_problem_in_an_aliased_part_is_reported_once_at_its_anchor(tmp_path):
    text = """\
x-judges: &judges
  - {type: contains, value: x, wieght: 1}
x-base: &base
  threshold: high
evalcases:
  - {id: a, input: x, evaluators: *judges}
  - {id: b, input: x, evaluators: *judges}
  - <<: *base
    id: c
    input: x
    evaluators: [{type: is_json}]
"""
    assert problems(tmp_path, text) == [
        "2:32: unknown key `wieght` (did you mean `weight`?)",
        "4:14: `threshold` must be a number, got 'high'",
    ]


def test_alias_of_the_wrong_type_is_reported_where_it_is_used(tmp_path):
    text = EVALUATORS + "x-list: &list [1]\nevalcases:\n- id: a\n  input: x\n  metadata: *list\n"
    assert only_problem(tmp_path, text) == "6:13: `metadata` must be a mapping, got a list"


def test_problem_of_an_aliased_option_uses_the_name_in_the_file(tmp_path):
    text = 'evalcases:\n- id: a\n  input: x\n  evaluators: [{type: regex, value: "("}]\n'
    message = only_problem(tmp_path, text)
    assert message.startswith("4:37: `value`: not a valid regular expression")


def test_problem_in_the_head_does_not_cause_problems_in_cases(tmp_path):
    text = """\
execution:
  threshold: high
  allow_outside_files: true
  evaluators: [{type: contains, value: x}]
evalcases:
  - id: a
    input: [{role: user, content: [{type: file, value: /etc/hostname}]}]
"""
    assert only_problem(tmp_path, text) == "2:14: `threshold` must be a number, got 'high'"


def test_head_keys_may_be_below_the_cases(tmp_path):
    suite = load(
        tmp_path,
        """\
        evalcases:
          - {id: a, input: x}
          - {id: b, input: x}
        dataset: below
        execution:
          target: scripted
          evaluators: [{name: late, type: contains, value: x}]
        """,
    )
    assert (suite.name, suite.target, suite.ids) == ("below", "scripted", ("a", "b"))
    assert [case.evaluators[0].name for case in suite.cases()] == ["late", "late"]


def test_problems_of_head_and_cases_are_reported_if_the_head_is_below(tmp_path):
    text = "evalcases:\n- {id: a, inputt: x}\n- {id: a, input: x}\nexecutoin: {}\n"
    text += "execution: {evaluators: [{type: is_json}]}\n"
    assert problems(tmp_path, text) == [
        "2:11: unknown key `inputt` (did you mean `input`?)",
        "3:8: duplicate id 'a' (first at suite.yaml:2)",
        "4:1: unknown key `executoin` (did you mean `execution`?)",
    ]


def test_problems_before_invalid_yaml_are_reported_too(tmp_path):
    text = EVALUATORS + "evalcases:\n- {id: a, inputt: x, inputt: y}\n- id: b\n  input: [x\n"
    assert [line.split(": ", 2)[1] for line in problems(tmp_path, text)] == [
        "duplicate key `inputt` (first at line 3)",
        "unknown key `inputt` (did you mean `input`?)",
        "not valid YAML",
    ]


def test_infinite_and_nan_numbers_are_rejected_everywhere(tmp_path):
    text = """\
execution: {threshold: .nan, evaluators: [{type: contains, value: x}]}
evalcases:
  - id: a
    input: x
    metadata: {deep: [1, .inf]}
    threshold: .NaN
  - id: b
    input: [{role: assistant, tool_calls: [{tool: t, input: {x: -.inf}}]}]
    metadata: {huge: 1e999}
"""
    assert problems(tmp_path, text) == [
        "1:24: `threshold` must be a finite number, got .nan",
        "5:26: an item of `deep` must be a finite number; put it in quotes to pass it on as a string",
        "6:16: `threshold` must be a finite number, got .NaN",
        "8:65: `x` must be a finite number; put it in quotes to pass it on as a string",
        "9:22: `huge` must be a finite number; put it in quotes to pass it on as a string",
    ]


def test_yaml_1_1_boolean_is_rejected_with_the_right_spelling(tmp_path):
    text = "evalcases:\n- {id: a, input: x, evaluators: [{type: is_json, required: yes}]}\n"
    assert only_problem(tmp_path, text) == "2:60: `required` must be true or false, got 'yes'; write `true`"


def test_problem_shows_its_source_line(tmp_path):
    with pytest.raises(SuiteError) as caught:
        load(tmp_path, EVALUATORS + "evalcases:\n- {id: a, inputt: x}\n")
    (problem,) = caught.value.problems
    assert problem.excerpt() == "    3 | - {id: a, inputt: x}\n      |           ^"


def test_problem_far_right_in_a_long_line_has_no_excerpt(tmp_path):
    with pytest.raises(SuiteError) as caught:
        load(tmp_path, EVALUATORS + f"evalcases:\n- {{id: a, input: {'x' * 100_000}, inputt: x}}\n")
    (problem,) = caught.value.problems
    assert (problem.line, problem.column > 100_000, problem.excerpt()) == (3, True, "")
