"""Text is kept as it is written, whatever YAML or JSON would make of it."""

from __future__ import annotations

import json

import pytest

from tests.suite.support import EVALUATORS, cases, load, mistakes, one_case, options, the_mistake

WRITTEN = """
010 yes no on off y 1:30 12:30:45 2024-01-01 2024-01-01T10:00:00Z 1.10 1e3 1E3 0x1F 0o17 017 +5 -0 007 1_000 .5 5.
true false True FALSE .inf .nan 1e999 123456789012345678901234567890 0.1 = null_ <<
"""


@pytest.mark.parametrize("word", WRITTEN.split())
def test_an_id_is_kept_as_written(tmp_path, word):
    assert load(tmp_path, f"{EVALUATORS}evalcases:\n- id: {word}\n  input: x\n").ids == (word,)


@pytest.mark.parametrize("word", WRITTEN.split())
def test_every_text_field_is_kept_as_written(tmp_path, word):
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


def test_text_in_a_shared_part_is_kept_as_written_everywhere_it_is_used(tmp_path):
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


@pytest.mark.parametrize("nothing", ["~", "null", "Null", "NULL", ""])
def test_nothing_as_an_id_is_a_mistake(tmp_path, nothing):
    found = the_mistake(tmp_path, f"{EVALUATORS}evalcases:\n- id: {nothing}\n  input: x\n")
    assert found.endswith("`id`: expected text, got nothing")


@pytest.mark.parametrize("empty", ['""', '"  "'])
def test_an_empty_id_is_a_mistake(tmp_path, empty):
    found = the_mistake(tmp_path, f"{EVALUATORS}evalcases:\n- id: {empty}\n  input: x\n")
    assert found.startswith("3:7: `id`: must not be")


def test_numbers_and_booleans_where_they_are_meant_are_numbers_and_booleans(tmp_path):
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


def test_a_boolean_is_no_number_and_text_is_neither(tmp_path):
    text = EVALUATORS + 'evalcases:\n- {id: a, input: x, threshold: True}\n- {id: b, input: x, threshold: "1"}\n'
    assert mistakes(tmp_path, text) == [
        "3:32: `threshold`: expected a number, got true",
        "4:32: `threshold`: expected a number, got '1'",
    ]


def test_json_numbers_and_booleans_as_ids_are_kept_as_written(tmp_path):
    ids = ["1", "1.10", "1E5", "-7", "true", "123456789012345678901234567890", '"010"']
    lines = "".join(f'{{"id": {i}, "input": {i}, "evaluators": [{{"type": "is_json"}}]}}\n' for i in ids)
    suite = load(tmp_path, lines, "cases.jsonl")
    assert suite.ids == tuple(i.strip('"') for i in ids)
    assert [case.question for case in suite.cases()] == list(suite.ids)


def test_unicode_survives(tmp_path):
    words = "naïve 日本語 🎉 עברית e\u0301"
    case = one_case(tmp_path, f"id: {words}\ninput: {words}")
    assert (case.id, case.question) == (words, words)
