"""`--out` replaces existing files, except files that the run reads and files of recorded runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Project

CONFIG = "targets: {scripted: {provider: mock, response: ok}}\n"
SUITE = """\
execution: {evaluators: [{name: judge, type: code_judge, script: [python, judge.py]}]}
evalcases: cases.jsonl
"""
CASES = '{"id": "one", "input": "Where?"}\n'
SCRIPT = "import sys\nsys.stdin.read()\nprint('{\"score\": 1}')\n"
ANSWERS = '{"eval_id": "one", "candidate_answer": "ok"}\n'


@pytest.fixture
def judged(project: Project) -> Project:
    project.write("agentv.config.yaml", CONFIG)
    project.write("suite.yaml", SUITE)
    project.write("cases.jsonl", CASES)
    project.write("judge.py", SCRIPT)
    project.write("answers.jsonl", ANSWERS)
    return project


@pytest.mark.parametrize("name", ["suite.yaml", "cases.jsonl", "judge.py", "agentv.config.yaml", "answers.jsonl"])
def test_out_rejects_a_file_that_the_run_reads(judged: Project, name: str) -> None:
    before = (judged.root / name).read_bytes()
    (judged.root / "alias").symlink_to(name)
    for out in (name, "alias"):
        done = judged.run("eval", "suite.yaml", "--outputs", "answers.jsonl", "--run-dir", "run", "--out", out)
        assert done.returncode == 2
        assert f"--out {out} would overwrite a file that the run reads." in done.stderr
        assert "Choose another file" in done.stderr
        assert (judged.root / name).read_bytes() == before
    assert not (judged.root / "run").exists()


def test_out_replaces_any_other_file(judged: Project) -> None:
    old = judged.write("old.jsonl", "an older file\n")
    assert judged.run("eval", "suite.yaml", "--run-dir", "run", "--out", "old.jsonl").returncode == 0
    assert old.read_bytes() == (judged.root / "run" / "results.jsonl").read_bytes()


@pytest.mark.parametrize("name", ["results.jsonl", "run.json", "judge_calls.jsonl"])
def test_out_rejects_files_of_a_recorded_run(judged: Project, name: str) -> None:
    assert judged.run("eval", "suite.yaml", "--run-dir", "first").returncode == 0
    kept = contents(judged.root / "first")
    out = f"first/{name}"
    for done in (
        judged.run("eval", "suite.yaml", "--run-dir", "second", "--out", out),
        judged.run("eval", "suite.yaml", "--run-dir", "third", "--out", f"third/{name}"),
        judged.run("report", "first", "--out", out),
        judged.run("convert", "first", "--to", "csv", "--force", "--out", out),
    ):
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
    assert contents(judged.root / "first") == kept
    assert not (judged.root / "second").exists()
    assert not (judged.root / "third").exists()


def test_report_rejects_its_input_as_out(judged: Project) -> None:
    assert judged.run("eval", "suite.yaml", "--run-dir", "run", "--out", "rows.jsonl").returncode == 0
    before = (judged.root / "rows.jsonl").read_bytes()
    done = judged.run("report", "rows.jsonl", "--out", "rows.jsonl")
    assert (done.returncode, done.stderr) == (
        2,
        "agentv: --out rows.jsonl is the file to report on.\nChoose another file for --out.\n",
    )
    assert (judged.root / "rows.jsonl").read_bytes() == before


def contents(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in run.iterdir()}
