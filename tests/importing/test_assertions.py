"""Assertions of promptfoo that become code, models or metrics here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentv.importing.http_provider import response_path
from agentv.importing.promptfoo import Imported, import_promptfoo
from agentv.suite.edit import yaml_lines
from tests.conftest import Project


def imported(tmp_path: Path, assertion: str, **parts: str) -> Imported:
    lines = ["prompts: ['{{x}}']", "providers: [echo]", f"tests: [{{vars: {{x: a}}, assert: [{assertion}]}}]"]
    path = tmp_path / "promptfooconfig.yaml"
    path.write_text("\n".join([*lines, *(f"{key}: {value}" for key, value in parts.items())]))
    return import_promptfoo(path, tmp_path)


@pytest.mark.parametrize(
    ("assertion", "evaluator"),
    [
        (
            "{type: javascript, value: output.length < 5}",
            {"name": "javascript", "type": "javascript", "value": "output.length < 5", "threshold": 0.001},
        ),
        (
            "{type: python, value: 'file://check.py:good', config: {a: 1}, threshold: 0.5}",
            {"name": "python", "type": "python", "value": "check.py:good", "threshold": 0.5, "config": {"a": 1}},
        ),
        (
            "{type: python, value: 'file://check.py'}",
            {"name": "python", "type": "python", "value": "check.py:get_assert", "threshold": 0.001},
        ),
        (
            "{type: not-similar, value: '{{x}}', threshold: 0.8}",
            {
                "name": "similarity",
                "type": "similarity",
                "metric": "embedding",
                "value": "{{x}}",
                "threshold": 0.2,
                "negate": True,
            },
        ),
        (
            "{type: context-faithfulness, threshold: 0.7}",
            {"name": "faithfulness", "type": "metric", "threshold": 0.7},
        ),
        (
            "{type: answer-relevance, metric: relevant}",
            {"name": "relevant", "type": "metric", "metric": "answer_relevancy", "threshold": 0.0},
        ),
        (
            "{type: word-count, value: {min: 2, max: 5}}",
            {"name": "python", "type": "python", "value": "2 <= len(answer.split()) <= 5"},
        ),
        (
            "{type: factuality, value: The sky is blue}",
            {"name": "rubric", "type": "rubric", "rubrics": ["does not contradict these facts: The sky is blue"]},
        ),
    ],
)
def test_assertions_become_evaluators(tmp_path: Path, assertion: str, evaluator: dict[str, Any]) -> None:
    (tmp_path / "check.py").write_text("def good(output, context): return True\n")
    result = imported(tmp_path, assertion)
    assert [note for note in result.notes if note.left_out] == []
    (case,) = result.suites[""]["evalcases"]
    (written,) = case["evaluators"]
    is_graded = written.pop("required", False)
    assert written == evaluator
    assert case["threshold"] == (0.0 if is_graded else 1.0)
    assert is_graded == (evaluator["type"] != "rubric")


def test_prompt_of_a_rubric_is_kept(tmp_path: Path) -> None:
    options = "{options: {provider: 'openai:gpt-4o', rubricPrompt: 'Grade {{ output }} by {{ rubric }}'}}"
    result = imported(tmp_path, "{type: llm-rubric, value: is kind}", defaultTest=options)
    assert result.suites[""]["evalcases"][0]["evaluators"] == [
        {
            "name": "llm_judge",
            "type": "llm_judge",
            "prompt": "Grade {{ candidate_answer }} by is kind",
            "threshold": 0.5,
            "required": True,
        }
    ]
    assert result.config["defaults"] == {"target": "echo", "judge_target": "gpt-4o"}


@pytest.mark.parametrize(
    "assertion",
    [
        '{type: python, value: "a = 1\\nb = 2"}',
        "{type: javascript, value: 'file://missing.js'}",
        "{type: contains, value: 'file://value.py'}",
        "{type: similar, value: ''}",
        "{type: llm-rubric, value: a, threshold: 2}",
        "{type: regex, value: '('}",
        "{value: x}",
        "{type: assert-set, assert: [{type: moderation}]}",
    ],
)
def test_unusable_assertions_are_left_out(tmp_path: Path, assertion: str) -> None:
    result = imported(tmp_path, assertion)
    assert len([note for note in result.notes if note.left_out]) >= 2
    (case,) = result.suites[""]["evalcases"]
    assert [evaluator["name"] for evaluator in case["evaluators"]] == ["not-imported"]


@pytest.mark.parametrize(
    ("program", "path"),
    [
        ("json.choices[0].message.content", "choices[0].message.content"),
        ("(json, text) => json?.a?.['b-c'];", 'a."b-c"'),
        ("json", ""),
        ("text", ""),
        ("json.a || json.b", None),
        ("file://parser.js", None),
    ],
)
def test_paths_in_javascript_become_jmespath(program: str, path: str | None) -> None:
    assert response_path(program) == path


def test_images_in_messages_are_kept_with_a_note(tmp_path: Path) -> None:
    parts = '[{"type": "text", "text": "{{q}}"}, {"type": "image_url", "image_url": {"url": "{{url}}"}}]'
    (tmp_path / "prompt.json").write_text(f'[{{"role": "user", "content": {parts}}}]')
    path = tmp_path / "promptfooconfig.yaml"
    path.write_text("prompts: ['file://prompt.json']\nproviders: [echo]\ntests: [{vars: {q: a, url: b}}]\n")
    result = import_promptfoo(path, tmp_path)
    (prompt,) = result.suites[""]["prompts"]
    assert prompt["messages"][0]["content"][1] == {"type": "image_url", "image_url": {"url": "{{url}}"}}
    assert [(note.line, note.left_out) for note in result.notes] == [(1, False)]


HTTP = """\
prompts: ["{{x}}"]
providers:
  - id: https://127.0.0.1/{{ x }}
    config:
      headers: {Authorization: "Bearer abcdefghijklmnop", X-Team: a}
      body: {q: "{{prompt}}", lang: "{{ lang }}"}
      transformResponse: json.text
      signatureAuth: {}
"""


def test_http_provider_becomes_an_http_target(tmp_path: Path) -> None:
    path = tmp_path / "promptfooconfig.yaml"
    path.write_text(HTTP)
    result = import_promptfoo(path, tmp_path)
    (target,) = result.config["targets"].values()
    assert target["headers"] == {"Authorization": "${{ AUTHORIZATION }}", "X-Team": "a"}
    assert target["body"] == {"q": "{{prompt}}", "lang": "{{ vars.lang }}"}
    assert (target["provider"], target["method"], target["response"]) == ("http", "POST", "text")
    assert [note.line for note in result.notes if note.left_out] == [5, 8]
    assert "abcdefghijklmnop" not in "\n".join(yaml_lines(result.config)) + "".join(map(str, result.notes))


CHECKS = """\
prompts: ["The answer is {{number}}"]
providers: [echo]
tests:
  - vars: {number: 4}
    assert:
      - {type: python, value: "file://check.py:is_even"}
      - {type: python, value: "'answer' in output and context['vars']['number'] == 4"}
      - {type: javascript, value: "output.includes(context.vars.number) ? 0.2 : 0"}
  - vars: {number: 5}
    assert:
      - {type: python, value: "file://check.py:is_even"}
"""


def test_code_gives_the_verdicts_of_promptfoo(project: Project) -> None:
    project.write("old/promptfooconfig.yaml", CHECKS)
    project.write("old/check.py", "def is_even(output, context):\n    return int(output.split()[-1]) % 2 == 0\n")
    done = project.run("import", "promptfoo", "old/promptfooconfig.yaml", "--out", "evals/suite.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    assert project.run("eval", "evals/suite.yaml").returncode == 1
    verdicts = {row["eval_id"]: (row["verdict"], row["error"]) for row in project.rows()}
    assert verdicts == {"test-1": ("pass", None), "test-2": ("fail", None)}
