"""`cases.jsonl`: what was asked and expected, recorded before the first call."""

from __future__ import annotations

import hashlib
import json
import stat
from pathlib import Path
from typing import Any

import pytest

import agentv
from agentv.codec import decode
from agentv.evidence import CaseRecord
from agentv.plan.build import build_plan
from agentv.plan.cases import IN_MEMORY
from agentv.plan.options import RunOptions
from tests.conftest import Project

SECRET = "sk-not-a-real-key-0042"

CONFIG = """\
targets:
  # Answers with the number of recorded cases at the time of the call.
  watcher: {provider: cli, command: [python, count.py, run/cases.jsonl], env: {API_KEY: "${{ API_KEY }}"}}
"""
SUITE = """\
dataset: capitals
tags: geo
execution:
  threshold: 0.7
  evaluators:
    - {type: regex, pattern: '3', weight: 2, required: true}
    - name: polite
      type: composite
      threshold: 0.1
      evaluators:
        - {name: short, type: regex, pattern: '^.$'}
        - {name: script, type: code_judge, script: [python, judge.py], limit: 5, env: {TOKEN: abc, MODE: x}}
      aggregator: {type: weighted_average, weights: {short: 3}}
evalcases:
  - id: france
    input:
      - {role: system, content: Be brief.}
      - {role: user, content: [{type: text, value: Capital?}, {type: file, value: map.txt}]}
    expected_outcome: Paris
    reference_answer: It is Paris.
    metadata: {z: 1, a: {lang: fr}}
    tags: [easy]
    conversation_id: c1
  - file: more.jsonl
"""
CHECK = {"type": "regex", "pattern": "3"}
MORE: list[dict[str, Any]] = [
    {
        "id": "italy",
        "input": f"Use {SECRET} to log in.",
        "threshold": 0.5,
        "evaluators": [{"type": "regex", "pattern": "3"}],
    },
    {
        "id": "spain",
        "input": "Capital of Spain? \u2028",
        "rubrics": ["names Madrid", {"id": "s", "description": "short"}],
    },
]


def recorded(run: Path) -> list[CaseRecord]:
    return [decode(CaseRecord, json.loads(line)) for line in (run / "cases.jsonl").read_bytes().splitlines()]


@pytest.fixture
def capitals(project: Project) -> Project:
    project.write("agentv.config.yaml", CONFIG)
    project.write("suite.yaml", SUITE)
    project.write("more.jsonl", "".join(json.dumps(case) + "\n" for case in MORE))
    project.write(".env", f"API_KEY={SECRET}\n")
    project.write("map.txt", "a map")
    project.write("judge.py", "print('{\"score\": 1}')\n")
    project.write("count.py", "import sys\nprint(len(open(sys.argv[1], 'rb').readlines()))\n")
    return project


def test_cases_are_recorded_before_the_first_call_and_changed_ones_are_appended(capitals: Project) -> None:
    run = capitals.root / "run"
    done = capitals.run(
        "eval", "suite.yaml", "--run-dir", "run", "--judge-target", "none", "--quiet", "--case", "[!x]*"
    )
    rows = {row["eval_id"]: row for row in capitals.rows(run)}
    assert {row["candidate_answer"] for row in rows.values()} == {"3"}, done.stderr
    assert stat.S_IMODE((run / "cases.jsonl").stat().st_mode) == 0o600
    first = recorded(run)
    france, italy, spain = first
    assert (france.suite, france.eval_id, france.file, france.line) == ("capitals", "france", "suite.yaml", 15)
    assert [message.role for message in france.input_messages] == ["system", "user"]
    assert (france.expected_outcome, france.reference_answer, france.threshold) == ("Paris", "It is Paris.", 0.7)
    assert (france.metadata, france.tags, france.conversation_id) == (
        {"z": 1, "a": {"lang": "fr"}},
        ("geo", "easy"),
        "c1",
    )
    assert france.files == {"map.txt": hashlib.sha256(b"a map").hexdigest()}
    pattern, polite = france.evaluators
    assert (pattern.name, pattern.type, pattern.weight, pattern.required, pattern.threshold) == (
        "regex",
        "regex",
        2,
        True,
        0.8,
    )
    assert pattern.options == {"pattern": "3"}
    assert polite.options == {"aggregator": {"type": "weighted_average", "weights": {"short": 3.0}}}
    script = polite.members[1]
    assert (script.name, script.options["script"], script.options["config"]) == (
        "script",
        ["python", "judge.py"],
        {"limit": 5},
    )
    assert script.options["env"] == {"TOKEN": "[redacted]", "MODE": "x"}
    assert [(rubric["id"], rubric["description"]) for rubric in spain.evaluators[0].options["rubrics"]] == [
        ("rubric-1", "names Madrid"),
        ("s", "short"),
    ]
    assert (italy.threshold, italy.tags, italy.file, italy.line) == (0.5, ("geo",), "more.jsonl", 1)
    assert italy.input_messages[0].content == "Use [redacted] to log in."
    for name in ("cases.jsonl", "results.jsonl"):
        assert SECRET not in (run / name).read_text()
    assert {case.eval_id: case.sha256 for case in first} == {i: row["case_sha256"] for i, row in rows.items()}
    for line in (run / "cases.jsonl").read_text().splitlines():
        assert json.loads(line)["sha256"] == hashlib.sha256(line.rpartition(',"sha256":')[0].encode()).hexdigest()

    # A killed run whose suite changes: the case that is edited and the new case are added, and the others are kept.
    results = run / "results.jsonl"
    results.write_text(next(line for line in results.read_text().splitlines(keepends=True) if '"italy"' in line))
    (run / "cases.jsonl").write_bytes((run / "cases.jsonl").read_bytes() + b'{"suite":"torn')
    more = [MORE[0], {**MORE[1], "input": "Another question"}, {"id": "greece", "input": "Q"}]
    capitals.write("more.jsonl", "".join(json.dumps(case) + "\n" for case in more))
    resumed = capitals.run("eval", "--resume", "run", "--allow-changed", "--quiet")
    later = recorded(run)
    assert later[:3] == first, resumed.stderr
    assert [case.eval_id for case in later[3:]] == ["spain", "greece"]
    newest = {case.eval_id: case.sha256 for case in later}
    assert newest == {row["eval_id"]: row["case_sha256"] for row in capitals.rows(run)}
    capitals.run("eval", "--resume", "run", "--quiet")
    assert recorded(run) == later

    (run / "cases.jsonl").unlink()  # as in a run of an older version
    capitals.run("eval", "--resume", "run", "--quiet")
    assert {case.eval_id: case.sha256 for case in recorded(run)} == newest


def test_cases_in_python_are_recorded(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.root)

    def is_long(answer: str) -> bool:
        return len(answer) > 3

    cases: list[dict[str, Any]] = [
        {"id": "a", "input": "Q", "tags": ["smoke"], "metadata": {"lang": "fr"}},
        {"id": "b", "input": "Q", "tags": "slow"},
    ]
    run = agentv.evaluate(
        cases=cases, target=lambda question: question * 5, evaluators=[is_long], tag="smoke", where="metadata.lang=fr"
    )
    (case,) = recorded(run.run_dir)
    assert (case.eval_id, case.tags, case.suite) == ("a", ("smoke",), "evaluate")
    assert case.evaluators[0].options["function"].endswith("is_long")
    assert case.sha256 == run.results[0].case_sha256


def test_many_cases_go_to_a_temporary_file_and_unselected_ones_are_left_out(project: Project) -> None:
    project.write("agentv.config.yaml", "targets: {bot: {provider: mock, response: Paris}}\n")
    text = "word " * 2_000
    lines = [json.dumps({"id": f"c{n}", "input": f"{n} {text}", "tags": str(n % 7)}) + "\n" for n in range(700)]
    project.write("s.jsonl", "".join(lines))
    project.write(
        "t.yaml", "evalcases:\n  - {id: x, input: Q}\ndataset: late\ntags: '3'\n"
    )  # read twice: the head ends it
    assert sum(map(len, lines)) > IN_MEMORY
    options = RunOptions(paths=("s.jsonl", "t.yaml"), tags=("3",), threshold=0.3)
    plan = build_plan(options, project.root, record_cases=True)
    records = [decode(CaseRecord, json.loads(line)) for _, _, line in plan.case_lines()]
    assert [record.eval_id for record in records] == [f"c{n}" for n in range(3, 700, 7)] + ["x"]
    assert [item.case_sha256 for lane in plan.lanes for item in lane.items_of(plan.suites[0])] == [
        record.sha256 for record in records[:-1]
    ]
    assert (records[-1].suite, records[-1].threshold) == ("late", 0.3)
    plain = build_plan(RunOptions(paths=("t.yaml",)), project.root, record_cases=True)
    (line,) = plain.case_lines()
    assert json.loads(line[2])["sha256"] == records[-1].sha256, "--threshold is not part of the case"
