"""The fields of a case, and how they are read."""

from __future__ import annotations

import json

import pytest

from agentv.messages import Message, ToolCall
from agentv.suite.loader import load_suite
from agentv.suite.suite import Rubric
from tests.suite.support import EVALUATORS, AnyType, load, one_case, only_problem, problems, write


def test_input_string_is_one_user_message(tmp_path):
    case = one_case(tmp_path, "id: a\ninput: What is the capital of France?")
    assert case.input_messages == (Message("user", "What is the capital of France?"),)
    assert case.question == "What is the capital of France?"


@pytest.mark.parametrize("key", ["input", "input_messages"])
def test_messages_may_be_under_input_or_input_messages(tmp_path, key):
    case = one_case(
        tmp_path,
        f"""
        id: a
        {key}:
          - {{role: system, content: Be brief. }}
          - role: user
            content: [{{type: text, value: One}}, {{type: image, url: x}}, {{type: text, value: " two "}}]
          - {{role: assistant, tool_calls: [{{tool: search, input: {{q: x}}, output: [1]}}]}}
          - {{role: tool, content: {{rows: 3}}, name: search}}
        """,
    )
    assert [message.role for message in case.input_messages] == ["system", "user", "assistant", "tool"]
    assert case.question == 'Be brief. One two {"rows": 3}'
    assert case.input_messages[2].tool_calls == (ToolCall("search", {"q": "x"}, [1]),)
    assert case.input_messages[3].content == {"rows": 3}


def test_input_and_input_messages_together_are_an_error(tmp_path):
    text = EVALUATORS + "evalcases:\n- id: a\n  input_messages: [{role: user, content: y}]\n  input: x\n"
    assert only_problem(tmp_path, text) == "5:3: `input` and `input_messages` mean the same: keep one"


def test_question_is_the_input_if_there_is_no_other(tmp_path):
    assert one_case(tmp_path, "id: a\nquestion: hi").question == "hi"
    assert one_case(tmp_path, "id: a\nquestion: a note\ninput: hi").question == "hi"


def test_outcome_is_an_alias_of_expected_outcome(tmp_path):
    assert one_case(tmp_path, "id: a\ninput: x\noutcome: Paris").expected_outcome == "Paris"
    text = EVALUATORS + "evalcases:\n- {id: a, input: x, outcome: y, expected_outcome: z}\n"
    assert only_problem(tmp_path, text) == "3:21: `outcome` and `expected_outcome` mean the same: keep one"


@pytest.mark.parametrize(
    ("fields", "position", "message"),
    [
        ("{id: a}", "3:3", "case 'a' has no input: add `input: ...`"),
        ("{id: a, input: }", "3:18", "case 'a' has no input: add `input: ...`"),
        ("{id: a, input: []}", "3:18", "case 'a' has no input: add `input: ...`"),
        ('{id: a, input: " "}', "3:18", "`input` must not be empty"),
        ("{id: a, question: [hi]}", "3:3", "has no input: add `input: ...`"),
        ("{id: a, input: [hi]}", "3:19", "an item of `input` must be a mapping like `{role: user, content: ...}`, got"),
        ("{id: a, input: {text: x}}", "3:18", "`input` must be a string or a list, got a mapping"),
        ("{id: a, input: [{role: user}]}", "3:19", "`content` is missing: a message needs `content` or"),
        ("{id: a, input: [{content: x}]}", "3:19", "`role` is missing"),
        ("{id: a, input: [{role: user, content: [x]}]}", "3:42", "a content part must be a mapping like `{type: text"),
        (
            "{id: a, input: [{role: user, content: [{type: text, vlue: x}]}]}",
            "3:42",
            "`value` of a text part is missing (did you mean `value` instead of `vlue`?)",
        ),
        ("{id: a, input: [{role: user, content: [{type: text, value: []}]}]}", "3:62", "must be a string, got a list"),
        ("{id: a, input: x, rubrics: ['']}", "3:31", "an item of `rubrics` must not be empty"),
        ("{id: a, input: x, rubrics: [[]]}", "3:31", "`rubrics` must be a string or a mapping, got a list"),
        ("{id: a, input: x, execution: {targe: t}}", "3:33", "unknown key `targe` (did you mean `target`?)"),
    ],
)
def test_problem_in_a_case_is_reported_with_its_position(tmp_path, fields, position, message):
    problem = only_problem(tmp_path, f"{EVALUATORS}evalcases:\n- {fields}\n")
    assert problem.startswith(position + ": ")
    assert message in problem


@pytest.mark.parametrize(
    ("expected", "answer"),
    [
        ("[{role: user, content: no}, {role: assistant, content: Paris}]", "Paris"),
        ("[{role: assistant, content: {city: Paris}}]", {"city": "Paris"}),
        ("[{role: assistant, content: [{type: text, value: Paris}]}]", [{"type": "text", "value": "Paris"}]),
        ("[{role: assistant, tool_calls: [{tool: find, input: {x: 1}}]}]", [{"tool": "find", "input": {"x": 1}}]),
        ("[]", None),
        ("null", None),
    ],
)
def test_reference_answer_defaults_to_the_last_expected_message(tmp_path, expected, answer):
    case = one_case(tmp_path, f"id: a\ninput: x\nexpected_messages: {expected}")
    if answer is None or isinstance(answer, str):
        assert case.reference_answer == answer
    else:
        assert json.loads(case.reference_answer or "") == answer
        assert "\n" in (case.reference_answer or "")


def test_explicit_reference_answer_overrides_expected_messages(tmp_path):
    fields = "id: a\ninput: x\nreference_answer: Rome\nexpected_messages: [{role: assistant, content: Paris}]"
    assert one_case(tmp_path, fields).reference_answer == "Rome"


def test_other_fields_are_read_into_the_case(tmp_path):
    case = one_case(
        tmp_path,
        """
        id: a
        input: x
        threshold: 0.5
        conversation_id: thread-1
        metadata: {topic: geo, nested: {deep: [1, 2]}}
        execution: {target: other}
        note: ignored
        description: {also: ignored}
        """,
    )
    assert (case.threshold, case.conversation_id, case.target) == (0.5, "thread-1", "other")
    assert case.metadata == {"topic": "geo", "nested": {"deep": [1, 2]}}


def test_null_value_is_the_same_as_a_missing_key(tmp_path):
    suite = load(
        tmp_path,
        """\
        description:
        dataset:
        execution:
        evalcases:
          - id: a
            input: x
            expected_messages:
            metadata:
            rubrics:
            execution:
            evaluators: [{type: is_json}]
        """,
    )
    assert suite.name == "suite"
    (case,) = suite.cases()
    assert (case.metadata, case.expected_messages, case.rubrics) == ({}, (), ())


def test_rubrics_are_strings_or_mappings(tmp_path):
    text = "evalcases:\n- id: a\n  input: x\n  rubrics:\n  - Be kind\n  - {id: r, description: Be brief, weight: 2}\n"
    (case,) = load_suite(write(tmp_path, text), AnyType()).cases()
    assert case.rubrics == (Rubric("rubric-1", "Be kind"), Rubric("r", "Be brief", 2.0))
    assert [evaluator.type for evaluator in case.evaluators] == ["any rubric"]


def test_head_of_a_suite_is_read(tmp_path):
    suite = load(
        tmp_path,
        """\
        $schema: agentv-eval-v2
        description: About France
        dataset: france
        target: legacy
        execution: {judge_target: none, threshold: 0.7, evaluators: [{type: is_json}]}
        evalcases: [{id: a, input: x}, {id: b, input: x, execution: {target: other}}]
        """,
    )
    assert (suite.name, suite.description, suite.target) == ("france", "About France", "legacy")
    assert (suite.judge_target, suite.threshold, suite.ids) == ("none", 0.7, ("a", "b"))
    assert suite.case_targets == {"b": ("other", suite.path, None, ("evalcases", 1))}


def test_cases_can_be_iterated_more_than_once(tmp_path):
    suite = load(tmp_path, EVALUATORS + "evalcases: [{id: a, input: x}, {id: b, input: y}]\n")
    assert [case.id for case in suite.cases()] == [case.id for case in suite.cases()] == ["a", "b"]


def test_invalid_tool_call_is_reported_inside_its_message(tmp_path):
    text = EVALUATORS + (
        "evalcases:\n- id: a\n  input:\n  - role: assistant\n    tool_calls:\n    - {tool: '', inputs: {}}\n"
        "    - {input: 1}\n    - 5\n"
    )
    assert problems(tmp_path, text) == [
        "7:14: `tool` must not be empty",
        "7:18: unknown key `inputs` (did you mean `input`?)",
        "8:7: `tool` is missing",
        "9:7: an item of `tool_calls` must be a mapping, got 5",
    ]
