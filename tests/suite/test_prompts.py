"""Prompts: each case is asked once with every prompt."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentv.evaluators.reader import EvaluatorReader
from agentv.suite.loader import load_suite
from tests.suite.support import cases, load, only_problem, problems, write

HEAD = "execution: {evaluators: [{type: is_json}]}\n"


def asked(folder: Path, text: str) -> list[tuple[str, str | None, list[tuple[str, object]]]]:
    return [
        (case.id, case.prompt, [(message.role, message.content) for message in case.input_messages])
        for case in cases(folder, HEAD + text)
    ]


def test_every_form_of_prompt_is_a_variant(tmp_path):
    write(tmp_path, "From a file: {{ q }}\n", "prompts/long.txt")
    write(
        tmp_path,
        '[{"role": "system", "content": "Be {{ tone }}."}, {"role": "user", "content": "{{ q }}"}]',
        "chat.json",
    )
    text = """\
vars: {tone: kind}
prompts:
  - "Plain: {{ q }}"
  - {id: terse, template: "Briefly: {{ q }}"}
  - [{role: user, content: "Listed: {{ q }}"}]
  - {id: own, messages: [{role: user, content: [{type: text, value: "Part: {{ q }}"}]}]}
  - {file: prompts/long.txt}
  - {id: chat, file: chat.json}
evalcases:
  - {id: a, vars: {q: Why?}}
"""
    assert asked(tmp_path, text) == [
        ("a", "prompt-1", [("user", "Plain: Why?")]),
        ("a", "terse", [("user", "Briefly: Why?")]),
        ("a", "prompt-3", [("user", "Listed: Why?")]),
        ("a", "own", [("user", [{"type": "text", "value": "Part: Why?"}])]),
        ("a", "long", [("user", "From a file: Why?\n")]),
        ("a", "chat", [("system", "Be kind."), ("user", "Why?")]),
    ]
    suite = load(tmp_path, HEAD + text)
    assert suite.ids == ("a",)
    assert suite.prompts == ("prompt-1", "terse", "prompt-3", "own", "long", "chat")


def test_input_of_a_case_follows_a_prompt_without_a_user_message_or_is_used_by_name(tmp_path):
    text = """\
prompts:
  - {id: kind, system_prompt: Be kind.}
  - {id: twice, template: "{{ input }} {{ input }}"}
evalcases:
  - {id: a, input: Why?}
"""
    assert asked(tmp_path, text) == [
        ("a", "kind", [("system", "Be kind."), ("user", "Why?")]),
        ("a", "twice", [("user", "Why? Why?")]),
    ]


def test_input_that_a_prompt_would_drop_is_an_error(tmp_path):
    text = f"{HEAD}prompts: [Hello]\nevalcases: [{{id: a, input: Why?}}]\n"
    assert only_problem(tmp_path, text) == (
        "3:28: prompt 'prompt-1' (suite.yaml, prompt 1) does not use the input of the case: write `{{ input }}` in it, "
        "or remove `input`"
    )


@pytest.mark.parametrize(
    ("prompts", "expected"),
    [
        ("[5]", "2:11: a prompt must be a string, a list of messages or a mapping, got 5"),
        ("[{id: a}]", "2:11: a prompt needs `template`, `messages`, `file` or `system_prompt`"),
        ("[{id: 'a[b]', template: x}]", "2:16: the id of a prompt must not contain brackets, got 'a[b]'"),
        ("[{template: x, file: y}]", "2:31: `template` and `file` exclude each other: keep one"),
        ("[{template: x, temlate: y}]", "2:25: unknown key `temlate`; a prompt has id, template, messages, file, "),
        ("[{id: a, template: x}, {id: a, template: y}]", "2:33: duplicate id 'a': give each prompt its own `id`"),
        ("['{{ a']", "2:11: prompt 'prompt-1': not a valid template: "),
        ("['file://x.txt']", "2:11: a prompt in a file is written `{file: x.txt}`"),
        ("[{file: x.txt}]", "2:18: there is no file 'x.txt' in "),
        ("[[{role: boss, content: x}]]", "2:11: `role` must be `system`, "),
    ],
)
def test_invalid_prompts_are_reported(tmp_path, prompts, expected):
    assert only_problem(tmp_path, f"{HEAD}prompts: {prompts}\nevalcases: [{{id: a}}]\n").startswith(expected)


def test_variable_that_a_case_lacks_is_reported_for_each_prompt(tmp_path):
    text = f"{HEAD}prompts: ['{{{{ q }}}}', '{{{{ q }}}}!']\nevalcases:\n  - {{id: a, vars: {{q: x}}}}\n  - {{id: b}}\n"
    messages = problems(tmp_path, f"{text}  - {{id: c}}\n")
    assert len(messages) == 2  # once for each prompt, not for each case
    assert messages[0].startswith("2:11: prompt 'prompt-1', for case 'b': `{{ q }}` is not defined; add it to `vars`")
    assert messages[1].startswith("2:22: prompt 'prompt-2', for case 'b': `{{ q }}` is not defined; add it to `vars`")


def test_undefined_names_are_reported_where_the_prompt_is_written(tmp_path):
    write(tmp_path, "Hello\n\n{{ first }} {{ name }}", "text.txt")
    write(tmp_path, "- {role: system, content: Hello}\n- role: user\n  content: '{{ second }}'\n", "list.yaml")
    write(tmp_path, '{"messages": [\n  {"role": "user",\n   "content": "{{ third }}"}]}', "mapping.json")
    text = f"""\
{HEAD}prompts:
  - file: text.txt
  - {{file: list.yaml, system_prompt: "{{{{ fourth }}}}"}}
  - file: mapping.json
  - - {{role: system, content: Hello}}
    - {{role: user, content: "{{{{ fifth }}}}"}}
evalcases: [{{id: a, vars: {{name: x}}}}]
"""
    expected = {
        "text.txt:3:1": "prompt 'text', for case 'a': `{{ first }}` is not defined",
        "list.yaml:3:12": "prompt 'list', for case 'a': `{{ second }}` is not defined",
        "mapping.json:3:15": "prompt 'mapping', for case 'a': `{{ third }}` is not defined",
        "4:38": "prompt 'list', for case 'a': `{{ fourth }}` is not defined",
        "7:29": "prompt 'prompt-4', for case 'a': `{{ fifth }}` is not defined",
    }
    found = dict(message.split(": ", 1) for message in problems(tmp_path, text))
    assert found.keys() == expected.keys()
    for place, problem in expected.items():
        assert found[place].startswith(problem)


def test_syntax_error_in_a_prompt_file_has_its_line(tmp_path):
    write(tmp_path, "Hello\n{{ name", "broken.txt")
    text = f"{HEAD}prompts: [{{file: broken.txt}}]\nevalcases: [{{id: a}}]\n"
    assert only_problem(tmp_path, text).startswith("broken.txt:2:1: prompt 'broken': not a valid template: ")


def test_problem_in_a_block_has_the_line_of_the_block(tmp_path):
    text = """\
        prompts:
          - |
            One
            two {{ first }}
          - id: list
            messages:
              - role: user
                content: &shared |2-

                    indented
                  {{ second }}
          - id: folded
            template: >
              not below
              each other {{ third }}
          - {id: escaped, template: "a\\n{{ fourth }}"}
          - id: syntax
            template: |
              {% if x %}
              {% endfor %}
        evalcases: [{id: a, vars: {q: 1}, evaluators: [{type: contains, value: x}]}]
        """
    found = [message.split(": ") for message in problems(tmp_path, text)]
    assert {parts[1].split("'")[1]: parts[0] for parts in found} == {
        "prompt-1": "4:5",
        "list": "11:11",
        "folded": "13:15",
        "escaped": "16:29",
        "syntax": "20:7",
    }


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("short.txt", "a prompt in a file is written `{file: short.txt}`; to send the name itself, write `{template: "),
        ("file:short.txt", "a prompt in a file is written `{file: short.txt}`"),
        ("file://other.txt", "a prompt in a file is written `{file: other.txt}`"),
    ],
)
def test_string_that_names_a_file_is_not_sent_as_a_prompt(tmp_path, prompt, expected):
    write(tmp_path, "Why?", "short.txt")
    text = f"{HEAD}prompts: [{prompt}]\nevalcases: [{{id: a}}]\n"
    assert only_problem(tmp_path, text).startswith(f"2:11: {expected}")
    assert asked(tmp_path, "prompts: [missing.txt]\nevalcases: [{id: a}]\n")[0][2] == [("user", "missing.txt")]


def test_prompts_that_are_not_a_list_are_one_problem(tmp_path):
    text = f"{HEAD}prompts: 'Why {{{{ q }}}}?'\nevalcases: [{{id: a, vars: {{q: 1}}}}]\n"
    assert only_problem(tmp_path, text) == "2:10: `prompts` must be a list, got 'Why {{ q }}?'"


def test_files_of_the_command_line_replace_the_prompts_of_a_suite(tmp_path):
    path = write(tmp_path, f"{HEAD}prompts: [x]\nevalcases: [{{id: a, input: Why?}}]\n")
    file = write(tmp_path, "Please: {{ input }}", "polite.md")
    suite = load_suite(path, EvaluatorReader(), prompts=[file])
    assert [case.question for case in suite.cases()] == ["Please: Why?"]
    assert suite.prompts == ("polite",)
    assert str(file) in suite.digests
