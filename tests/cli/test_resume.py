"""Interrupted runs and `--resume`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Project

SLOW = """\
targets:
  scripted:
    provider: mock
    rules:
      - {match: hang, response: late, delay_ms: 600000}
    response: ok
"""
OK = "evaluators: [{type: equals, value: ok}]"
QUICK = "targets: {scripted: {provider: mock, response: ok}}\n"
FIVE_DONE_FIVE_HANGING = "evalcases:\n" + "".join(
    f"  - {{id: case-{n}, input: {'hang' if n >= 5 else 'go'} {n}, evaluators: [{{type: equals, value: ok}}]}}\n"
    for n in range(10)
)


def wait_until(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "gave up waiting"
        time.sleep(0.01)


@pytest.fixture
def stuck(project: Project) -> Project:
    """Ten cases: five are answered immediately, five never."""
    project.write("agentv.config.yaml", SLOW)
    project.write("suite.yaml", FIVE_DONE_FIVE_HANGING)
    return project


def stop_when_half_done(
    project: Project, number: signal.Signals, *options: str
) -> tuple[subprocess.Popen[str], str, str]:
    process = project.start("eval", "suite.yaml", "--run-dir", "run", *options)
    results = project.root / "run" / "results.jsonl"
    wait_until(lambda: results.exists() and results.read_bytes().count(b"\n") == 5)
    process.send_signal(number)
    started = time.monotonic()
    out, err = process.communicate(timeout=30)
    assert time.monotonic() - started < 25
    return process, out, err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_stops_the_run_keeps_rows_and_prints_resume_command(
    stuck: Project, number: signal.Signals, code: int
) -> None:
    process, out, _ = stop_when_half_done(stuck, number)
    assert process.returncode == code
    assert "agentv eval --resume run" in out
    assert len(stuck.rows(stuck.root / "run")) == 5
    assert stuck.manifest(stuck.root / "run")["status"] == "interrupted"


def test_interrupted_run_prints_its_json_summary(stuck: Project) -> None:
    _, out, _ = stop_when_half_done(stuck, signal.SIGINT, "--json")
    summary = json.loads(out)
    assert (summary["total"], summary["exit_code"], summary["interrupted"]) == (5, 130, True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_resume_runs_only_missing_cases_and_keeps_recorded_rows(stuck: Project, number: signal.Signals) -> None:
    stop_when_half_done(stuck, number, "--out", "rows.jsonl")
    results = stuck.root / "run" / "results.jsonl"
    before = results.read_bytes()
    stuck.write("agentv.config.yaml", QUICK)
    done = stuck.run("eval", "--resume", "run", "--json")
    assert done.returncode == 0, done.stderr
    assert results.read_bytes().startswith(before)
    assert sorted(row["eval_id"] for row in stuck.rows(stuck.root / "run")) == [f"case-{n}" for n in range(10)]
    assert json.loads(done.stdout)["total"] == 10
    assert (stuck.root / "rows.jsonl").read_bytes() == results.read_bytes()


def test_resume_reports_a_changed_configuration(stuck: Project) -> None:
    stop_when_half_done(stuck, signal.SIGINT)
    stuck.write("agentv.config.yaml", QUICK)
    done = stuck.run("eval", "--resume", "run")
    assert "agentv.config.yaml has changed" in done.stderr


def test_resume_of_a_finished_run_runs_nothing(capitals: Project) -> None:
    capitals.run("eval", "capitals.yaml")
    run = capitals.run_dirs()[-1]
    before = (run / "results.jsonl").read_bytes()
    done = capitals.run("eval", "--resume", run.name, "--json")
    assert done.returncode == 1
    assert (run / "results.jsonl").read_bytes() == before
    assert json.loads(done.stdout)["total"] == 3


def test_resume_rejects_a_changed_suite_unless_allowed(stuck: Project) -> None:
    stop_when_half_done(stuck, signal.SIGKILL)
    before = (stuck.root / "run" / "results.jsonl").read_bytes()
    stuck.write("agentv.config.yaml", QUICK)
    stuck.write("suite.yaml", FIVE_DONE_FIVE_HANGING.replace("hang 9", "hang nine"))
    refused = stuck.run("eval", "--resume", "run")
    assert refused.returncode == 2
    assert "suite.yaml has changed" in refused.stderr
    assert "--allow-changed" in refused.stderr
    assert (stuck.root / "run" / "results.jsonl").read_bytes() == before
    assert stuck.run("eval", "--resume", "run", "--allow-changed").returncode == 0
    assert len(stuck.rows(stuck.root / "run")) == 10


def test_resume_works_from_another_directory(stuck: Project, tmp_path: Path) -> None:
    stop_when_half_done(stuck, signal.SIGKILL)
    stuck.write("agentv.config.yaml", QUICK)
    done = stuck.run("eval", "--resume", str(stuck.root / "run"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(stuck.rows(stuck.root / "run")) == 10


def test_corrupt_line_is_reported_and_only_its_case_reruns(capitals: Project) -> None:
    capitals.run("eval", "capitals.yaml", "--run-dir", "run")
    results = capitals.root / "run" / "results.jsonl"
    lines = results.read_bytes().splitlines(keepends=True)
    lost = json.loads(lines[1])["eval_id"]
    results.write_bytes(lines[0] + b'{"half": \n' + lines[2])
    done = capitals.run("eval", "--resume", "run")
    assert "line 2" in done.stderr
    after = results.read_bytes().splitlines(keepends=True)
    assert after[:2] == [lines[0], lines[2]]
    assert [json.loads(line)["eval_id"] for line in after[2:]] == [lost]


def test_running_run_cannot_be_resumed(stuck: Project) -> None:
    process = stuck.start("eval", "suite.yaml", "--run-dir", "run")
    results = stuck.root / "run" / "results.jsonl"
    wait_until(lambda: results.exists() and results.read_bytes().count(b"\n") == 5)
    done = stuck.run("eval", "--resume", "run")
    process.kill()
    process.communicate()
    assert done.returncode == 2
    assert str(process.pid) in done.stderr


@pytest.mark.parametrize("extra", [["suite.yaml"], ["--workers", "3"], ["--target", "scripted"]])
def test_resume_uses_the_recorded_options(capitals: Project, extra: list[str]) -> None:
    capitals.run("eval", "capitals.yaml", "--run-dir", "run")
    done = capitals.run("eval", "--resume", "run", *extra)
    assert done.returncode == 2
    assert "; remove " in done.stderr


def test_unknown_run_lists_the_latest_runs(capitals: Project) -> None:
    capitals.run("eval", "capitals.yaml")
    done = capitals.run("eval", "--resume", "nope")
    assert done.returncode == 2
    assert capitals.run_dirs()[-1].name in done.stderr


def test_resume_rejects_changed_outputs(project: Project) -> None:
    project.write("suite.yaml", FIVE_DONE_FIVE_HANGING)
    line = '{{"eval_id": "case-{}", "candidate_answer": "ok"}}\n'
    answers = project.write("answers.jsonl", "".join(line.format(n) for n in range(10)))
    assert project.run("eval", "suite.yaml", "--outputs", "answers.jsonl", "--run-dir", "run").returncode == 0
    results = project.root / "run" / "results.jsonl"
    results.write_bytes(b"".join(results.read_bytes().splitlines(keepends=True)[:5]))
    before = answers.read_text()
    answers.write_text(before.replace("ok", "other"))
    refused = project.run("eval", "--resume", "run")
    assert refused.returncode == 2
    assert f"{answers} has changed" in refused.stderr
    answers.write_text(before)
    assert project.run("eval", "--resume", "run").returncode == 0
    assert len(project.rows(project.root / "run")) == 10


def test_resume_counts_rows_of_removed_cases_separately(project: Project) -> None:
    project.write("agentv.config.yaml", QUICK)
    project.write("suite.yaml", "evalcases:\n" + "".join(f"- {{id: c{n}, input: Q, {OK}}}\n" for n in range(3)))
    assert project.run("eval", "suite.yaml", "--run-dir", "run").returncode == 0
    project.write("suite.yaml", "evalcases:\n" + "".join(f"- {{id: c{n}, input: Q, {OK}}}\n" for n in range(2, 5)))
    done = project.run("eval", "--resume", "run", "--allow-changed")
    assert done.returncode == 0
    assert "3 of 5 rows already recorded, 2 to run" in done.stderr
    assert "[5/5]" in done.stderr
    assert project.manifest(project.root / "run")["total"] == 5
    results = project.root / "run" / "results.jsonl"
    results.write_bytes(b"".join(results.read_bytes().splitlines(keepends=True)[:4]))
    assert "1 of 5 results missing" in project.run("report", "run").stdout
    again = project.run("eval", "--resume", "run", "--json")
    assert (again.returncode, json.loads(again.stdout)["total"]) == (0, 5)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_before_the_run_has_the_same_exit_code(stuck: Project, number: signal.Signals, code: int) -> None:
    waiting = stuck.root / "answers"
    os.mkfifo(waiting)
    process = stuck.start("eval", "suite.yaml", "--outputs", "answers")
    with waiting.open("wb"):  # opens when the other end does: it is reading its files
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Traceback" not in said


@pytest.mark.parametrize("option", ["--quiet", "--json"])
def test_resume_command_is_printed_without_a_summary(stuck: Project, option: str) -> None:
    process, out, err = stop_when_half_done(stuck, signal.SIGINT, option)
    assert process.returncode == 130
    assert "agentv eval --resume run" in err
    if option == "--json":
        assert json.loads(out)["interrupted"] is True
    else:
        assert out == ""


def test_failed_out_file_is_reported_even_if_quiet(project: Project) -> None:
    project.write("agentv.config.yaml", QUICK)
    project.write("suite.yaml", f"evalcases: [{{id: one, input: Q, {OK}}}]\n")
    done = project.run("eval", "suite.yaml", "--quiet", "--out", "/dev/full")
    assert (done.returncode, done.stdout) == (3, "")
    assert "could not write --out /dev/full: ENOSPC" in done.stderr


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"cwd": None}, "`cwd` is missing or is not a string"),
        ({"run_id": 5}, "`run_id` is missing or is not a string"),
        ({"options": []}, "`options` is missing or is not an object"),
        ({"scripted": None}, "`scripted` is missing or is not true or false"),
        ({"options": {"paths": 5}}, "in `options`, `paths` must be a list of strings, got 5."),
        (
            {"options": {"paths": ["suite.yaml"], "repeat": 0}},
            "in `options`, `repeat` must be a whole number from 1, got 0.",
        ),
        ({"options": {"paths": ["suite.yaml"], "out": 3}}, "in `options`, `out` must be a string, got 3."),
        ({"digests": []}, "`digests` must be an object"),
        ({"configuration": {"a": 1}}, "all values of `configuration` must be objects"),
        ({"budget": "much"}, "`budget` must be an object"),
        ({"budget": {"spent_usd": -1}}, "`budget.spent_usd` must be a finite number from 0"),
        ({"budget": {"judge_calls": "2"}}, "`budget.judge_calls` must be a finite number from 0"),
    ],
)
def test_unusable_run_json_is_reported_with_its_field(project: Project, changes: dict[str, object], said: str) -> None:
    run_json = {"run_id": "r", "cwd": str(project.root), "options": {"paths": ["suite.yaml"]}, "scripted": True}
    project.write("run/run.json", json.dumps({**run_json, **changes}))
    done = project.run("eval", "--resume", "run")
    assert done.returncode == 2
    assert f"the run cannot be resumed from {project.root / 'run' / 'run.json'}: {said}" in done.stderr
    assert "Restore the file, or start a new run." in done.stderr
