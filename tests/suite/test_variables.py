"""Variables: `{{ name }}` in cases and evaluators."""

from __future__ import annotations

import json

import pytest

from tests.suite.support import EVALUATORS, cases, one_case, only_problem, options, problems, write


def test_variables_are_inserted_into_input_expectations_and_evaluators(tmp_path):
    text = """\
        vars: {city: Paris, country: nowhere}
        execution:
          evaluators: [{type: contains, value: "{{ city }}"}]
        evalcases:
          - id: a
            vars: {country: France, facts: {river: Seine}, keys: [x, y], n: 3}
            input: "Capital of {{ country }}?{% if n > 2 %} Be brief.{% endif %}"
            expected_outcome: "Names {{ city }} and the {{ facts.river }}"
            reference_answer: "{{ city }} {{ keys }}"
            evaluators+: [{type: regex, pattern: "{{ keys | join('|') }}", flags: ["{{ 'i' }}"]}]
        """
    (case,) = cases(tmp_path, text)
    assert case.question == "Capital of France? Be brief."
    assert case.expected_outcome == "Names Paris and the Seine"
    assert case.reference_answer == 'Paris ["x", "y"]'
    assert case.vars == {"city": "Paris", "country": "France", "facts": {"river": "Seine"}, "keys": ["x", "y"], "n": 3}
    contains, regex = options(case)
    assert (contains["value"], regex["pattern"]) == ("Paris", "x|y")


def test_values_are_inserted_once(tmp_path):
    fields = """
        id: a
        vars: {name: "{{ secret }} {% raw %}", secret: x}
        input: "Hello {{ name }}"
        evaluators: [{type: equals, value: "{{ name }}"}]
    """
    case = one_case(tmp_path, fields)
    assert case.question == "Hello {{ secret }} {% raw %}"
    assert options(case)[0]["value"] == "{{ secret }} {% raw %}"


def test_strings_of_cases_without_variables_are_not_templates(tmp_path):
    fields = """
        id: a
        input: "Explain {{ name }} and {% if %}"
        evaluators: [{type: contains, value: "{{ name }}"}, {type: equals, name: e, value: "{{ reference_answer }}"}]
        reference_answer: 42
    """
    case = one_case(tmp_path, fields)
    assert case.question == "Explain {{ name }} and {% if %}"
    assert [each["value"] for each in options(case)] == ["{{ name }}", "42"]


def test_only_expression_keeps_the_type_of_its_value(tmp_path):
    fields = """
        id: a
        vars: {words: [one, two], line: 0.3}
        input: x
        evaluators: [{type: contains, value: "{{ words }}", threshold: "{{ line }}"}]
    """
    assert {"value": ["one", "two"], "threshold": 0.3}.items() <= options(one_case(tmp_path, fields))[0].items()


def test_unknown_variables_are_reported_at_their_position(tmp_path):
    text = """\
        vars: {city: Paris}
        execution:
          evaluators:
            - {type: contains, value: "{{ citi }}"}
        evalcases:
          - id: a
            input: |
              Where is
              {{ contry }}?
            vars: {country: France}
          - id: b
            input: "{{ unclosed"
        """
    assert problems(tmp_path, text) == [
        "4:31: for case 'a': `{{ citi }}` is not defined (did you mean `city`?); add it to `vars`",
        "9:7: `{{ contry }}` is not defined (did you mean `country`?); add it to `vars`",
        "12:12: not a valid template: unexpected end of template, expected 'end of print statement'",
    ]


def test_name_like_a_field_is_an_error_even_without_variables(tmp_path):
    text = "evalcases: [{id: a, input: x, evaluators: [{type: contains, value: '{{ reference_anser }}'}]}]\n"
    assert "`{{ reference_anser }}` is not defined" in only_problem(tmp_path, text)


def test_field_without_a_value_is_an_error(tmp_path):
    text = "evalcases: [{id: a, input: x, evaluators: [{type: contains, value: '{{ reference_answer }}'}]}]\n"
    message = "1:68: `{{ reference_answer }}` has no value: the case has no `reference_answer`"
    assert only_problem(tmp_path, text) == message


def test_judge_prompt_can_use_variables_and_needs_them(tmp_path):
    text = """\
        execution:
          evaluators: [{type: llm_judge, prompt: "Is {{ candidate_answer }} {{ tone }}?"}]
        evalcases:
          - {id: a, input: x, vars: {tone: kind}}
          - {id: b, input: x, vars: {other: kind}}
        """
    assert only_problem(tmp_path, text).startswith("5:5: the prompt of 'llm_judge': `{{ tone }}` is not defined")


def test_variables_can_come_from_a_file(tmp_path):
    write(tmp_path, "city: Paris\n", "shared.yaml")
    (case,) = cases(tmp_path, f"vars: shared.yaml\n{EVALUATORS}evalcases: [{{id: a, input: 'In {{{{ city }}}}?'}}]\n")
    assert case.question == "In Paris?"
    assert (
        "must contain a mapping"
        in only_problem(tmp_path, f"vars: suite.jsonl\n{EVALUATORS}evalcases: [{{id: a, input: x}}]\n")
        if write(tmp_path, "[1]\n", "suite.jsonl")
        else None
    )


@pytest.mark.parametrize("kind", ["contains", "icontains", "equals", "starts_with", "ends_with", "regex", "similarity"])
def test_checks_compare_with_the_reference_answer_by_default(tmp_path, kind):
    entries = f"{{id: a, input: x, reference_answer: Paris, evaluators: [{{type: {kind}}}]}}, {{id: b, input: x}}"
    suite = f"execution: {{evaluators: [{{type: {kind}}}]}}\nevalcases: [{entries}]\n"
    message = f"'{kind}' has nothing to compare the answer with: set `value` of the evaluator, or `reference_answer`"
    assert only_problem(tmp_path, suite).endswith(f"{message} of the case")


def test_missing_part_of_a_value_is_not_reported_as_a_missing_variable(tmp_path):
    text = f"{EVALUATORS}evalcases: [{{id: a, vars: {{user: {{name: Ada}}}}, input: 'Hello {{{{ user.nme }}}}'}}]\n"
    assert only_problem(tmp_path, text).endswith("there is no `nme` in the value (did you mean `name`?)")


def test_output_that_is_too_long_is_not_reported_as_an_invalid_template(tmp_path):
    write(
        tmp_path, json.dumps([{"id": "a", "input": "{{ doc }}{{ doc }}", "vars": {"doc": "x" * 9_000_000}}]), "c.json"
    )
    text = "execution: {evaluators: [{type: is_json}]}\nevalcases: c.json\n"
    message = "the template cannot be rendered: the output is longer than 16,777,216 characters"
    assert only_problem(tmp_path, text).endswith(message)
