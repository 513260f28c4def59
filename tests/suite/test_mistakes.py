"""What a person reads when a suite is wrong: every mistake, its exact place, its key, what was expected."""

from __future__ import annotations

import pytest

from agentv.errors import SuiteError
from agentv.evaluators.registry import evaluator_types
from agentv.text import all_of
from tests.suite.support import EVALUATORS, load, mistakes, the_mistake

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


def test_all_mistakes_of_a_file_are_told_at_once_each_at_its_place(tmp_path):
    assert mistakes(tmp_path, BROKEN) == [
        "1:1: unknown key `descripton` (did you mean `description`?)",
        "3:3: unknown key `targt` (did you mean `target`?)",
        "4:14: `threshold`: expected a number <= 1, got 1.5",
        "9:7: unknown key `wieght` (did you mean `weight`?)",
        "13:5: unknown key `expected_outcom` (did you mean `expected_outcome`?)",
        "16:15: `role`: expected `system`, `user`, `assistant` or `tool`, got 'usr' (did you mean `user`?)",
        "19:9: unknown key `contents` (did you mean `content`?)",
        "22:14: unknown key `tol` (did you mean `tool`?)",
        "23:5: `id` is missing",
        "24:9: `id`: expected text, got nothing",
        "25:13: `input`: expected a mapping, got 1",
        "25:16: `input`: expected a mapping, got 2",
        "29:15: `metadata`: expected a mapping, got a list",
        f"31:25: unknown evaluator type 'contians' (did you mean `contains`?); there are {all_of(evaluator_types())}",
        "32:51: `weight`: expected a number >= 0, got -1",
        "33:5: a case is a mapping with `id` and `input`, got 'only text'",
    ]


def test_a_wrong_message_does_not_hide_that_another_says_nothing(tmp_path):
    text = f"""{EVALUATORS}evalcases:
  - id: a
    input_messages:
      - {{role: usr, content: x}}
      - {{role: user}}
      - {{role: assistant, tool_calls: [{{tool: search}}]}}
"""
    assert [line.split("; ")[0] for line in mistakes(tmp_path, text)] == [
        "5:16: `role`: expected `system`, `user`, `assistant` or `tool`, got 'usr' (did you mean `user`?)",
        "6:9: `content` is missing: a message has text, or an assistant's `tool_calls`",
    ]


def test_a_wrong_field_does_not_hide_the_other_mistakes_of_its_case(tmp_path):
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
    found = mistakes(tmp_path, text)
    assert [line.split(": ", 1)[0] for line in found] == ["4:5", "6:22", "6:66", "8:37", "8:59", "9:9"]


def test_a_typo_is_told_once_and_not_as_a_missing_key_too(tmp_path):
    text = EVALUATORS + "evalcases:\n- idd: a\n  inputt: hi\n"
    assert mistakes(tmp_path, text) == [
        "3:3: unknown key `idd` (did you mean `id`?)",
        "4:3: unknown key `inputt` (did you mean `input`?)",
    ]


def test_an_unknown_key_without_a_near_one_lists_the_keys_there_are(tmp_path):
    text = "execution: {zzz: 1}\nevalcases:\n- {id: a, input: x, evaluators: [{type: is_json}]}\n"
    assert the_mistake(tmp_path, text) == (
        "1:13: unknown key `zzz`; expected `target`, `judge_target`, `evaluators`, `threshold`, `allow_outside_files` "
        "or `warm`"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("evalcase:\n- {id: a, input: x}\n", "1:1: unknown key `evalcase` (did you mean `evalcases`?)"),
        ("evalCases:\n- {id: a, input: x}\n", "1:1: unknown key `evalCases` (did you mean `evalcases`?)"),
        ("cases:\n- {id: a, input: x}\n", "1:1: unknown key `cases` (did you mean `evalcases`?)"),
        ("description: d\n", "1:1: `evalcases` is missing: a suite lists its cases under `evalcases:`"),
        ("", "1:1: the file is empty: a suite lists its cases under `evalcases:`"),
        ("# nothing\n\n# here\n", "1:1: the file is empty: a suite lists its cases under `evalcases:`"),
        ("evalcases: []\n", "1:1: the suite has no cases; add them under `evalcases:`"),
        (
            "evalcases:\n",
            "1:11: `evalcases`: expected a list of cases, or the path of a .jsonl file with one JSON case a line, "
            "got nothing",
        ),
        (
            "# note\n- {id: a, input: x}\n",
            "2:1: expected a mapping with `evalcases:` at the top of the file, got a list",
        ),
        ("hello\n", "1:1: expected a mapping with `evalcases:` at the top of the file, got a single value"),
    ],
)
def test_a_file_without_cases_says_what_a_suite_needs(tmp_path, text, expected):
    assert the_mistake(tmp_path, text) == expected


def test_a_key_that_is_here_twice_is_told_wherever_it_is(tmp_path):
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
    assert mistakes(tmp_path, text) == [
        "1:26: the key `a` is here twice; first at line 1",
        "3:43: the key `value` is here twice; first at line 3",
        "4:1: the key `execution` is here twice; first at line 2",
        "8:5: the key `input` is here twice; first at line 7",
        "9:30: the key `k` is here twice; first at line 9",
    ]


def test_keys_that_differ_only_in_quotes_are_the_same_key(tmp_path):
    text = EVALUATORS + 'evalcases:\n- id: a\n  input: x\n  metadata: {1: x, "1": y}\n'
    assert the_mistake(tmp_path, text) == "5:20: the key `1` is here twice; first at line 5"


def test_an_id_that_is_used_twice_is_told_with_its_first_place(tmp_path):
    text = EVALUATORS + "evalcases:\n- {id: 7, input: x}\n- {id: b, input: x}\n- {id: '7', input: x}\n"
    assert the_mistake(tmp_path, text) == "5:8: the id '7' is used twice; first at suite.yaml:3"


def test_a_mistake_in_a_shared_part_is_told_once_where_the_part_is_written(tmp_path):
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
    assert mistakes(tmp_path, text) == [
        "2:32: unknown key `wieght` (did you mean `weight`?)",
        "4:14: `threshold`: expected a number, got 'high'",
    ]


def test_an_alias_of_the_wrong_kind_is_told_where_it_is_used(tmp_path):
    text = EVALUATORS + "x-list: &list [1]\nevalcases:\n- id: a\n  input: x\n  metadata: *list\n"
    assert the_mistake(tmp_path, text) == "6:13: `metadata`: expected a mapping, got a list"


def test_an_option_spelled_in_its_other_way_is_told_as_it_is_spelled(tmp_path):
    text = 'evalcases:\n- id: a\n  input: x\n  evaluators: [{type: regex, value: "("}]\n'
    found = the_mistake(tmp_path, text)
    assert found.startswith("4:37: `value`: not a valid regular expression")


def test_head_mistakes_do_not_turn_the_cases_into_mistakes(tmp_path):
    text = """\
execution:
  threshold: high
  allow_outside_files: true
  evaluators: [{type: contains, value: x}]
evalcases:
  - id: a
    input: [{role: user, content: [{type: file, value: /etc/hostname}]}]
"""
    assert the_mistake(tmp_path, text) == "2:14: `threshold`: expected a number, got 'high'"


def test_head_keys_may_stand_below_the_cases(tmp_path):
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


def test_mistakes_in_head_and_cases_are_told_when_the_head_is_below(tmp_path):
    text = "evalcases:\n- {id: a, inputt: x}\n- {id: a, input: x}\nexecutoin: {}\n"
    text += "execution: {evaluators: [{type: is_json}]}\n"
    assert mistakes(tmp_path, text) == [
        "2:11: unknown key `inputt` (did you mean `input`?)",
        "3:8: the id 'a' is used twice; first at suite.yaml:2",
        "4:1: unknown key `executoin` (did you mean `execution`?)",
    ]


def test_mistakes_before_broken_yaml_are_told_with_it(tmp_path):
    text = EVALUATORS + "evalcases:\n- {id: a, inputt: x, inputt: y}\n- id: b\n  input: [x\n"
    assert [line.split(": ", 2)[1] for line in mistakes(tmp_path, text)] == [
        "the key `inputt` is here twice; first at line 3",
        "unknown key `inputt` (did you mean `input`?)",
        "not valid YAML",
    ]


def test_numbers_that_json_cannot_hold_are_refused_everywhere(tmp_path):
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
    assert mistakes(tmp_path, text) == [
        "1:24: `threshold`: expected a finite number, got .nan",
        "5:26: `deep`: expected a finite number; to pass it on as text, put it in quotes",
        "6:16: `threshold`: expected a finite number, got .NaN",
        "8:65: `x`: expected a finite number; to pass it on as text, put it in quotes",
        "9:22: `huge`: expected a finite number; to pass it on as text, put it in quotes",
    ]


def test_a_boolean_in_the_manner_of_old_yaml_is_refused_with_the_right_word(tmp_path):
    text = "evalcases:\n- {id: a, input: x, evaluators: [{type: is_json, required: yes}]}\n"
    assert the_mistake(tmp_path, text) == "2:60: `required`: expected true or false, got 'yes'; write `true`"


def test_a_mistake_shows_its_source_line(tmp_path):
    with pytest.raises(SuiteError) as caught:
        load(tmp_path, EVALUATORS + "evalcases:\n- {id: a, inputt: x}\n")
    (problem,) = caught.value.problems
    assert problem.excerpt() == "    3 | - {id: a, inputt: x}\n      |           ^"


def test_a_mistake_far_out_on_a_long_line_has_no_excerpt(tmp_path):
    with pytest.raises(SuiteError) as caught:
        load(tmp_path, EVALUATORS + f"evalcases:\n- {{id: a, input: {'x' * 100_000}, inputt: x}}\n")
    (problem,) = caught.value.problems
    assert (problem.line, problem.column > 100_000, problem.excerpt()) == (3, True, "")
