"""Cases are paired by id when suites have different names: `--outputs`, `compare`, imported prompts."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conftest import Project


def rows_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


ECHO = "targets: {a: {provider: mock, response: Paris}}\n"
CASES = "evalcases: [{id: fr, input: Q, evaluators: [{type: contains, value: Paris}]}]\n"


def test_outputs_takes_a_run_and_pairs_cases_by_id_if_the_suite_has_another_name(project: Project) -> None:
    project.write("agentv.config.yaml", ECHO)
    project.write("fl.yaml", CASES)
    project.write("fl2.yaml", CASES)
    assert project.run("eval", "fl.yaml").returncode == 0
    run_id = project.run_dirs()[-1].name
    for name in (run_id, run_id[:-3], f".agentv/runs/{run_id}", f".agentv/runs/{run_id}/results.jsonl"):
        done = project.run("eval", "fl2.yaml", "--outputs", name, "--run-dir", f"graded-{len(name)}")
        assert done.returncode == 0, done.stderr
        assert "answers of suite 'fl' are used for suite 'fl2'; paired by case id" in done.stderr
    assert rows_of(project.root / f"graded-{len(run_id)}" / "results.jsonl")[0]["suite"] == "fl2"
    missing = project.run("eval", "fl2.yaml", "--outputs", "20990101")
    assert (missing.returncode, "20990101: No such file" in missing.stderr) == (2, True)


def test_repeat_grades_each_answer_of_a_run_several_times(project: Project) -> None:
    project.write("agentv.config.yaml", ECHO)
    project.write("fl.yaml", CASES)
    project.run("eval", "fl.yaml", "--run-dir", "run")
    done = project.run("eval", "fl.yaml", "--outputs", "run", "--repeat", "3", "--run-dir", "graded")
    assert done.returncode == 0, done.stderr
    rows = rows_of(project.root / "graded" / "results.jsonl")
    assert [(row["target"], row["attempt"], row["candidate_answer"]) for row in rows] == [
        ("a", attempt, "Paris") for attempt in (1, 2, 3)
    ]
    # Recorded attempts stay what they are.
    done = project.run("eval", "fl.yaml", "--outputs", "graded", "--repeat", "2", "--run-dir", "again")
    assert "has several attempts per case, each graded once; --repeat is ignored" in done.stderr
    assert len(rows_of(project.root / "again" / "results.jsonl")) == 3


def test_outputs_with_an_ambiguous_suite_reports_the_true_reason(project: Project) -> None:
    project.write("agentv.config.yaml", ECHO)
    for name in ("one", "two", "three"):
        project.write(f"{name}.yaml", CASES)
    project.run("eval", "one.yaml", "two.yaml", "--run-dir", "run")
    done = project.run("eval", "three.yaml", "--outputs", "run", "--run-dir", "graded")
    assert done.returncode == 3
    message = rows_of(project.root / "graded" / "results.jsonl")[0]["error"]
    assert "are of suite 'one', 'two', not 'three'; pairing by id is ambiguous" in str(message)
    # One recorded suite, but two suites have the case.
    project.run("eval", "one.yaml", "--run-dir", "single")
    done = project.run("eval", "two.yaml", "three.yaml", "--outputs", "single", "--run-dir", "both")
    assert [row["error"] is not None for row in rows_of(project.root / "both" / "results.jsonl")] == [True, True]


def test_imported_prompts_can_be_compared(project: Project) -> None:
    project.write(
        "promptfoo.yaml",
        """\
        prompts: [{label: short, raw: "{{word}}"}, {label: long, raw: "Please say {{word}}"}]
        providers: [echo]
        tests:
          - {vars: {word: hello}, assert: [{type: contains, value: hello}]}
          - {vars: {word: bye}, assert: [{type: starts-with, value: bye}]}
        """,
    )
    done = project.run("import", "promptfoo", "promptfoo.yaml")
    assert "agentv compare latest --by prompt" in done.stdout
    assert project.run("eval", "suite.yaml").returncode == 1
    compared = project.run("compare", "latest", "--by", "prompt", "--prompt-a", "short", "--json")
    assert compared.returncode == 0, compared.stderr
    result = json.loads(compared.stdout)
    assert [(pair["eval_id"], pair["delta"]) for pair in result["matched"]] == [("test-1", 0.0), ("test-2", -1.0)]


def test_compare_reports_checks_and_cases_that_changed_between_the_runs(project: Project) -> None:
    project.write("agentv.config.yaml", ECHO)
    suite = "evalcases: [{id: fr, input: Q, evaluators: [{type: python, value: checks.py:ok}]}]\n"
    project.write("suite.yaml", suite)
    for run, value in (("one", True), ("two", True), ("three", False)):
        project.write("checks.py", f"def ok(answer):\n    return {value}\n")
        project.run("eval", "suite.yaml", "--run-dir", run, "--quiet")
    assert "between the runs" not in project.run("compare", "one", "two").stdout
    assert "note: between the runs, checks.py changed\n" in project.run("compare", "two", "three").stdout
    project.write("suite.yaml", suite.replace("Q", "Why?"))
    project.run("eval", "suite.yaml", "--run-dir", "four", "--quiet")
    compared = json.loads(project.run("compare", "two", "four", "--json").stdout)
    assert "between the runs, case changed: fr; checks.py changed" in compared["notes"]
    (project.root / "rows.jsonl").write_bytes((project.root / "one" / "results.jsonl").read_bytes())
    assert project.run("compare", "rows.jsonl", "two").returncode == 0
