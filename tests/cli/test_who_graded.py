"""The summary says when a target grades its own answers, and which part of the results is scripted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import Project

VERDICT = '{"score": 1, "hits": [], "misses": [], "reasoning": "right"}'
MOCK = {"provider": "mock", "response": VERDICT}
REAL = {"provider": "cli", "command": ["echo", VERDICT]}
NOTE = "no evaluators and are graded by their own target `bot`; set `judge_target`"


def _run(project: Project, targets: dict[str, Any], *, cases: str = "", defaults: dict[str, Any] | None = None) -> str:
    config = {"targets": targets, "defaults": {"target": "bot", **(defaults or {})}}
    project.write("agentv.config.yaml", json.dumps(config))
    graded = "".join(f"- {{id: c{n}, input: x, expected_outcome: y{cases}}}\n" for n in range(3))
    check = "- {id: checked, input: x, evaluators: [{type: contains, value: score}]}\n"
    project.write("suite.yaml", f"evalcases:\n{graded}{check}")
    done = project.run("eval", "suite.yaml", "--run-dir", "run")
    assert done.returncode == 0, done.stdout + done.stderr
    return " ".join(done.stdout.split())


def test_summary_notes_once_that_cases_are_graded_by_their_own_target(project: Project) -> None:
    printed = _run(project, {"bot": REAL})
    assert printed.count(f"3 cases have {NOTE}") == 1
    for options in ((), ("--format", "markdown")):
        report = project.run("report", "run", *options)
        assert "3 cases have no evaluators and are graded by their own target" in " ".join(report.stdout.split())
    summary = json.loads((project.root / "run" / "run.json").read_text())["summary"]
    assert summary["notes"] == [
        f"3 cases have {NOTE} in the configuration, or add evaluators",
    ]


@pytest.mark.parametrize(
    ("cases", "defaults"), [("", {"judge_target": "strict"}), (", evaluators: [{type: llm_judge}]", {})]
)
def test_no_note_with_another_judge_or_with_evaluators(project: Project, cases: str, defaults: dict[str, Any]) -> None:
    assert "graded by" not in _run(project, {"bot": REAL, "strict": REAL}, cases=cases, defaults=defaults)


@pytest.mark.parametrize(
    ("bot", "strict", "label"),
    [
        (MOCK, REAL, "scripted target: the answers come from the mock provider"),
        (REAL, MOCK, "scripted judge: the grades come from the mock provider"),
        (MOCK, MOCK, "scripted model: these results come from the mock provider"),
    ],
    ids=["target", "judge", "both"],
)
def test_label_names_the_scripted_part(
    project: Project, bot: dict[str, Any], strict: dict[str, Any], label: str
) -> None:
    printed = _run(project, {"bot": bot, "strict": strict}, defaults={"judge_target": "strict"})
    assert label in printed
    assert label in " ".join(project.run("report", "run").stdout.split())
