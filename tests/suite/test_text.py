"""Strings are kept as written, even if YAML or JSON would read them as another type."""

from __future__ import annotations

import json

import pytest

from tests.suite.support import EVALUATORS, cases, load, one_case, only_problem, options, problems

WRITTEN = """
010 yes no on off y 1:30 12:30:45 2024-01-01 2024-01-01T10:00:00Z 1.10 1e3 1E3 0x1F 0o17 017 +5 -0 007 1_000 .5 5.
true false True FALSE .inf .nan 1e999 123456789012345678901234567890 0.1 = null_ <<
"""


@pytest.mark.parametrize("word", WRITTEN.split())
def test_id_is_kept_as_written(tmp_path, word):
    assert load(tmp_path, f"{EVALUATORS}evalcases:\n- id: {word}\n  input: x\n").ids == (word,)


@pytest.mark.parametrize("word", WRITTEN.split())
def test_every_string_field_is_kept_as_written(tmp_path, word):
    case = one_case(
        tmp_path,
        f"""
        id: a
        input_messages:
          - {{role: user, content: {word}, name: {word}}}
          - {{role: user, content: [{{type: text, value: {word}}}]}}
          - {{role: assistant, tool_calls: [{{tool: {word}, id: {word}}}]}}
        expected_outcome: {word}
        expected_messages: [{{role: assistant, content: {word}}}]
        conversation_id: {word}
        evaluators: [{{name: {word}, type: equals, value: {word}}}]
        rubrics: null
        """,
    )
    first, second, third = case.input_messages
    assert (first.content, first.name, second.text) == (word, word, word)
    assert (third.tool_calls[0].tool, third.tool_calls[0].id) == (word, word)
    assert (case.expected_outcome, case.reference_answer, case.conversation_id) == (word, word, word)
    (evaluator,) = options(case)
    assert (evaluator["name"], evaluator["value"]) == (word, word)


def test_string_in_an_aliased_part_is_kept_as_written_everywhere(tmp_path):
    suite = """\
    x-base: &base {expected_outcome: True, metadata: {flag: True}}
    x-judges: &judges [{type: equals, value: TRUE}]
    dataset: False
    evalcases:
      - {<<: *base, id: a, input: TRUE, evaluators: *judges}
      - {<<: *base, id: b, input: true, evaluators: *judges}
    """
    assert load(tmp_path, suite).name == "False"
    first, second = cases(tmp_path, suite)
    assert (first.expected_outcome, first.question, options(first)[0]["value"]) == ("True", "TRUE", "TRUE")
    assert (second.expected_outcome, second.question, options(second)[0]["value"]) == ("True", "true", "TRUE")
    assert first.metadata == second.metadata == {"flag": True}
    assert first.metadata["flag"] is True


@pytest.mark.parametrize("null", ["~", "null", "Null", "NULL", ""])
def test_null_id_is_an_error(tmp_path, null):
    message = only_problem(tmp_path, f"{EVALUATORS}evalcases:\n- id: {null}\n  input: x\n")
    assert message.endswith("`id` must be a string, got null")


@pytest.mark.parametrize("empty", ['""', '"  "'])
def test_empty_id_is_an_error(tmp_path, empty):
    message = only_problem(tmp_path, f"{EVALUATORS}evalcases:\n- id: {empty}\n  input: x\n")
    assert message.startswith("3:7: `id` must not be")


def test_numbers_and_booleans_are_typed_where_they_are_expected(tmp_path):
    case = one_case(
        tmp_path,
        """
        id: a
        input: x
        threshold: 0.50
        metadata: {int: 0x1F, float: 1.10, yes: yes, true: True, nothing: ~, date: 2024-01-01, list: [1, 1e3]}
        evaluators: [{type: contains, value: x, weight: 1e1, required: TRUE}]
        """,
    )
    assert case.threshold == 0.5
    assert json.loads(json.dumps(case.metadata)) == {
        "int": 31,
        "float": 1.1,
        "yes": "yes",
        "true": True,
        "nothing": None,
        "date": "2024-01-01",
        "list": [1, 1000.0],
    }
    assert (options(case)[0]["weight"], options(case)[0]["required"]) == (10.0, True)


def test_boolean_and_string_are_rejected_as_numbers(tmp_path):
    text = EVALUATORS + 'evalcases:\n- {id: a, input: x, threshold: True}\n- {id: b, input: x, threshold: "1"}\n'
    assert problems(tmp_path, text) == [
        "3:32: `threshold` must be a number, got true",
        "4:32: `threshold` must be a number, got '1'",
    ]


def test_json_numbers_and_booleans_are_kept_as_written_in_ids(tmp_path):
    ids = ["1", "1.10", "1E5", "-7", "true", "123456789012345678901234567890", '"010"']
    lines = "".join(f'{{"id": {i}, "input": {i}, "evaluators": [{{"type": "is_json"}}]}}\n' for i in ids)
    suite = load(tmp_path, lines, "cases.jsonl")
    assert suite.ids == tuple(i.strip('"') for i in ids)
    assert [case.question for case in suite.cases()] == list(suite.ids)


def test_unicode_is_preserved(tmp_path):
    words = "naïve 日本語 🎉 עברית e\u0301"
    case = one_case(tmp_path, f"id: {words}\ninput: {words}")
    assert (case.id, case.question) == (words, words)
