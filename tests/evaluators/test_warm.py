"""`warm: true`: scripts are not restarted for each case, and results are the same as without it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Project
from tests.spec.support import run, write, write_suite

JUDGE = """\
import os
import shared
from agentv_eval import code_judge

@code_judge
def judge(input, judge):
    reply = judge.invoke(question=input.question)
    shared.SEEN.append(os.environ["AGENTV_JUDGE_PROXY_TOKEN"])
    return {"score": 1, "hits": [reply.raw_text], "details": {"seen": shared.SEEN, "pid": os.getppid()}}
"""
SHARED = "from pathlib import Path\nSEEN = []\nwith Path('imports').open('a') as file: file.write('x')\n"


def project_with(project: Project, options: dict[str, Any], *, cases: int, **execution: Any) -> None:
    write(project, "", {"judge": {"max_calls": 2}, **options}, cases=cases, execution=execution)
    Path(project.root, "judge.py").write_text(JUDGE)
    Path(project.root, "shared.py").write_text(SHARED)


def imports(project: Project) -> int:
    return len(Path(project.root, "imports").read_text())


@pytest.mark.parametrize(
    ("options", "execution", "expected"),
    [
        ({}, {}, 6),
        ({"warm": True}, {}, 1),
        ({}, {"warm": True}, 1),
        ({"warm": False}, {"warm": True}, 6),
        ({"warm": True}, {"warm": False}, 1),
    ],
    ids=["neither", "evaluator", "suite", "evaluator says no", "evaluator says yes"],
)
@pytest.mark.skipif(sys.platform != "linux", reason="scripts are warm on Linux only")
def test_modules_are_imported_once_when_warm_is_set_on_evaluator_or_suite(
    project: Project, options: dict[str, Any], execution: dict[str, Any], expected: int
) -> None:
    project_with(project, options, cases=6, **execution)
    ran = run(project)
    assert ran.process.returncode == 0, ran.words
    results = [row["evaluator_results"][0] for row in ran.rows]
    assert [result["warnings"] for result in results] == [[]] * 6
    assert [result["hits"] for result in results] == [["strict says yes"]] * 6
    assert [result["judge_proxy"]["call_count"] for result in results] == [1] * 6
    seen = [result["details"]["seen"] for result in results]
    assert [len(tokens) for tokens in seen] == [1] * 6
    assert imports(project) == expected


def test_case_evaluators_inherit_warm_from_the_suite(project: Project) -> None:
    project_with(project, {}, cases=1)
    evaluator = {"name": "own", "type": "code_judge", "script": ["python", "judge.py"], "judge": True}
    cases = [{"id": f"case-{n}", "input": "?", "evaluators": [evaluator]} for n in range(4)]
    write_suite(project, cases, execution={"warm": True})
    ran = run(project)
    assert ran.process.returncode == 0, ran.words
    assert imports(project) == 1


def test_script_that_cannot_be_kept_warm_still_runs_with_one_warning(project: Project) -> None:
    write(project, "done()", {"warm": True, "judge": True}, cases=4)  # the SDK reads the token on import
    ran = run(project, "--workers", "1")
    assert ran.process.returncode == 0, ran.words
    warnings = [warning for row in ran.rows for warning in row["evaluator_results"][0]["warnings"]]
    assert len(warnings) == 1
    assert "'checker' cannot be kept warm" in warnings[0]
    assert "AGENTV_JUDGE_PROXY_URL" in warnings[0] or "AGENTV_JUDGE_PROXY_TOKEN" in warnings[0]


def test_warm_program_in_another_language_gets_a_warning(project: Project) -> None:
    options = {"script": ["sh", "-c", "echo '{\"score\": 1}'"], "warm": True}
    write(project, "", options, cases=2)
    ran = run(project)
    warnings = [warning for row in ran.rows for warning in row["evaluator_results"][0]["warnings"]]
    assert len(warnings) == 1
    assert "not a Python file" in warnings[0]


def test_warm_failures_are_reported_like_other_failures(project: Project) -> None:
    write(project, "", {"warm": True})
    Path(project.root, "judge.py").write_text("import json\nraise RuntimeError('the reason')\n")
    warm = run(project).failure
    write(project, "", {})
    Path(project.root, "judge.py").write_text("import json\nraise RuntimeError('the reason')\n")
    assert warm == run(project).failure
    assert "RuntimeError: the reason" in warm


@pytest.mark.parametrize("value", ["yes", 1, None])
def test_warm_must_be_a_boolean(project: Project, value: object) -> None:
    write(project, "", {"warm": value})
    done = project.run("validate", "suite.yaml")
    assert done.returncode == 2
    assert "warm" in done.stderr
    write(project, "", {}, execution={"warm": value})
    done = project.run("validate", "suite.yaml")
    assert (done.returncode == 2, "warm" in done.stderr) == (True, True)


def test_misspelled_warm_is_reported_with_a_suggestion(project: Project) -> None:
    write(project, "", {"wram": True, "warn": True})
    done = project.run("validate", "suite.yaml")
    assert done.returncode == 2
    assert "did you mean `warm`" in done.stderr


def test_editor_schema_includes_warm(project: Project) -> None:
    schema = json.loads(project.run("schema").stdout)
    assert json.dumps(schema["suite"]).count('"warm"') == 3
