"""Errors of scripts and commands start with their cause: in the row, in the summary and in progress lines."""

from __future__ import annotations

import json

from tests.conftest import Project
from tests.spec.support import run, scripted, write

CRASH = "def f(chunks):\n    return chunks['nope']\n\nf({})\n"


def test_exception_in_a_script_is_shown_by_its_last_line(project: Project) -> None:
    write(project, CRASH)
    ran = run(project)
    cause = "KeyError: 'nope' at judge.py:3 (the script exited with code 1)"
    assert ran.failure.startswith(cause)
    assert "Traceback" in ran.failure
    assert ran.row["error"]["message"].startswith(f"checker: {cause}")
    for printed in (ran.process.stdout, ran.process.stderr):
        assert "KeyError: 'nope' at judge.py:3" in " ".join(printed.split())
        assert "Traceback" not in printed


def test_exceeded_call_limit_is_shown_without_a_traceback(project: Project) -> None:
    script = (
        "from agentv_eval import create_judge_proxy_client as c\nj = c()\nfor n in range(3): j.invoke(question='?')\n"
    )
    write(project, script, {"judge": {"max_calls": 1}})
    ran = run(project)
    assert ran.failure.startswith("the script exceeded its judge call limit of 1 (1 refused).")
    assert "Traceback" not in ran.words + ran.failure


def test_exception_in_a_command_is_shown_by_its_last_line(project: Project) -> None:
    project.write("app.py", CRASH)
    config = {"targets": {"app": {"provider": "cli", "command": ["python", "app.py", "{PROMPT}"], "max_retries": 0}}}
    project.write("agentv.config.yaml", json.dumps(config))
    project.write("suite.yaml", "evalcases: [{id: a, input: x, evaluators: [{type: contains, value: y}]}]\n")
    ran = run(project)
    cause = "target 'app': the command exited with code 1: KeyError: 'nope' at app.py:2"
    assert ran.row["error"]["message"].startswith(cause)
    assert "Traceback" in ran.row["error"]["message"]
    for printed in (ran.process.stdout, ran.process.stderr):
        assert cause in " ".join(printed.split())
        assert "Traceback" not in printed


def test_unusable_reply_of_a_judge_is_quoted(project: Project) -> None:
    reply = "I think that this answer is really quite good, all things considered, and I would recommend it."
    project.write("agentv.config.yaml", json.dumps(scripted(judge={"provider": "mock", "response": reply})))
    project.write("suite.yaml", "evalcases: [{id: a, input: x, evaluators: [{type: llm_judge}]}]\n")
    message = run(project).row["error"]["message"]
    assert (
        "problem with the last reply ('I think that this answer is really quite good, all things co'...): " in message
    )
