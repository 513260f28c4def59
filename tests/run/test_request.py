"""The request that a target gets for a case contains everything from the suite."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import Project

ECHO = """\
targets:
  echo: {provider: cli, command: [cat]}
  object:
    provider: cli
    command: [echo, '{"output_messages": [{"role": "assistant", "content": {"total": 5}}]}']
"""


def answered(project: Project, messages: list[dict[str, Any]], **case: Any) -> dict[str, Any]:
    project.write("agentv.config.yaml", ECHO)
    entry = {"id": "a", "input_messages": messages, "evaluators": [{"type": "regex", "pattern": "^"}], **case}
    project.write("suite.yaml", json.dumps({"execution": {"target": "echo"}, "evalcases": [entry]}))
    done = project.run("eval", "suite.yaml")
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    (row,) = project.rows()
    return row


def test_structured_content_is_sent_as_json(project: Project):
    row = answered(project, [{"role": "user", "content": {"ask": {"city": "Zürich"}}}])
    assert json.loads(row["candidate_answer"]) == {"ask": {"city": "Zürich"}}


def test_tool_calls_and_structured_results_are_sent_as_turns(project: Project):
    row = answered(
        project,
        [
            {"role": "user", "content": "How warm is it?"},
            {"role": "assistant", "tool_calls": [{"tool": "weather", "input": {"city": "Bern"}}]},
            {"role": "tool", "content": {"celsius": 21}},
        ],
    )
    assert row["candidate_answer"] == (
        "@[User]:\nHow warm is it?\n\n"
        '@[Assistant]:\n{"tool": "weather", "input": {"city": "Bern"}}\n\n'
        '@[Tool]:\n{"celsius": 21}'
    )


def test_image_part_is_not_dropped(project: Project):
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    row = answered(project, [{"role": "user", "content": [{"type": "text", "value": "What is this?"}, image]}])
    question, _, part = row["candidate_answer"].partition("\n\n")
    assert (question, json.loads(part)) == ("What is this?", image)


@pytest.mark.parametrize(
    "check",
    [
        {"type": "is_json"},
        {"type": "equals", "value": '{"total": 5}'},
        {"type": "field_accuracy", "fields": [{"path": "total", "match": "exact"}]},
    ],
)
def test_evaluators_see_a_structured_answer_as_json(project: Project, check: dict[str, Any]):
    row = answered(
        project,
        [{"role": "user", "content": "How much?"}],
        expected_messages=[{"role": "assistant", "content": {"total": 5}}],
        execution={"target": "object"},
        evaluators=[check],
    )
    assert (row["candidate_answer"], row["score"]) == ('{"total": 5}', 1.0)


def test_script_gets_a_structured_question_as_json(project: Project):
    project.write(
        "judge.py",
        """\
        import json, sys
        print(json.dumps({"score": 1, "details": {"question": json.load(sys.stdin)["question"]}}))
        """,
    )
    judge = {"type": "code_judge", "script": ["python", "judge.py"]}
    row = answered(project, [{"role": "user", "content": {"ask": 1}}], evaluators=[judge])
    assert row["evaluator_results"][0]["details"] == {"question": '{"ask": 1}'}
