"""`agentv trend` shows mean scores over runs, breaks where the measure changed, and fails on a degrading latest run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agentv.cli.program import program
from agentv.errors import AgentVError
from agentv.record.run_dir import RunDirectory
from tests.conftest import Project

GOOD, BAD = [1.0] * 18 + [0.0] * 2, [1.0] * 8 + [0.0] * 12


def record(
    root: Path,
    day: int,
    scores: Sequence[float | None],
    *,
    hashes: Mapping[str, str] | None = None,
    suite: str = "s",
    target: str = "t",
    cwd: str = "/work",
    digests: Mapping[str, str] | None = None,
    judges: Sequence[str] = ("judge",),
    targets: Mapping[str, Any] | None = None,
    **more: Any,
) -> str:
    """Record a run of a January day with one case per score; None is an error."""
    run_id = f"202601{day:02}-000000-aaaaaaaaa"
    digests = {f"{cwd}/s.yaml": "1", f"{cwd}/judge.py": "1", **{f"{cwd}/{k}": v for k, v in (digests or {}).items()}}
    manifest = {
        "run_id": run_id,
        "status": "finished",
        "started_at": f"2026-01-{day:02}T00:00:00+00:00",
        "cwd": cwd,
        "digests": digests,
        "suites": [{"name": suite, "path": "s.yaml", "targets": {target: list(judges)}, "config": f"{cwd}/c.yaml",
                    "files": list(digests), "all_cases": len(scores)}],
        "configuration": {f"{cwd}/c.yaml": {"targets": {
            target: {"model": "a"}, "judge": {"model": "j"}, **(targets or {})}}},
        **more,
    }  # fmt: skip
    run = RunDirectory.create(root / ".agentv" / "runs" / run_id, manifest)
    with run.results.open("w") as file:
        for number, score in enumerate(scores):
            error = {"stage": "target", "message": "down"} if score is None else None
            verdict = "pass" if score == 1 else "fail"
            row = {"run_id": run_id, "eval_id": f"c{number}", "suite": suite, "target": target, "attempt": 1,
                   "score": score or 0.0, "verdict": verdict, "error": error}  # fmt: skip
            file.write(json.dumps(row, separators=(",", ":")) + "\n")
    if hashes is not None:
        with run.cases.open("w") as file:
            for number in range(len(scores)):
                case = {
                    "suite": suite,
                    "eval_id": f"c{number}",
                    "sha256": hashes.get(f"c{number}", "0"),
                    "file": "s.yaml",
                }
                file.write(json.dumps(case) + "\n")
    return run_id


def trend(root: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[int, Any]:
    monkeypatch.chdir(root)
    result = CliRunner().invoke(program, ["trend", "--json", *arguments], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.return_value, json.loads(result.stdout)


def text(root: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    monkeypatch.chdir(root)
    return CliRunner(env={"NO_COLOR": "1", "COLUMNS": "80"}).invoke(program, ["trend", *arguments]).output


def test_means_are_of_shared_cases_and_the_latest_run_is_tested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path, 1, [*GOOD, 1.0, 1.0], hashes={})
    record(tmp_path, 2, GOOD, hashes={}, name="before")
    record(tmp_path, 3, GOOD, hashes={}, digests={"s.yaml": "a case was added"})
    code, found = trend(tmp_path, monkeypatch, "--fail-on-degrading")
    assert code == 0
    keys = ("mean_score", "shared_cases", "scored_cases", "changed")
    points = [tuple(point[key] for key in keys) for point in found["lines"][0]["points"]]
    assert points == [(0.9, 20, 22, []), (0.9, 20, 20, []), (0.9, 20, 20, [])]
    assert [test["conclusion"] for test in found["lines"][0]["tests"]] == ["same", "same"]

    record(tmp_path, 4, BAD, hashes={})
    code, found = trend(tmp_path, monkeypatch, "--fail-on-degrading")
    assert (code, found["degrading"]) == (1, True)
    tests = found["lines"][0]["tests"]
    assert [(test["against"], test["conclusion"], test["confidence"]) for test in tests] == [
        ("the run before", "worse", 0.975),
        ("the mean of the 3 runs before", "worse", 0.975),
    ]
    assert tests[0]["mean_delta"] == -0.5
    assert trend(tmp_path, monkeypatch)[0] == 0, "without the option, the exit code is 0"
    assert text(tmp_path, monkeypatch).splitlines() == [
        "s, target t",
        "  ███▁",
        "  WHEN        RUN              MEAN        CASES     COMMIT",
        "  2026-01-01  20260101-000000  0.90 ±0.15  20 of 22",
        "  2026-01-02  before           0.90 ±0.15  20",
        "  2026-01-03  20260103-000000  0.90 ±0.15  20",
        "  2026-01-04  20260104-000000  0.40 ±0.24  20",
        "",
        "  latest against the run before: -0.500 (-0.750 to -0.250), significantly worse",
        "  latest against the mean of the 3 runs before: -0.500 (-0.750 to -0.250),",
        "  significantly worse",
    ]


@pytest.mark.parametrize(
    ("hashed", "change", "message"),
    [
        (True, {"hashes": {"c3": "1", "c4": "1"}}, "cases changed: c3, c4"),
        (True, {"hashes": {"c0": "1"}}, "case changed: c0"),
        (False, {"digests": {"s.yaml": "2"}}, "s.yaml changed"),
        (True, {"digests": {"judge.py": "2"}}, "judge.py changed"),
        (True, {"digests": {"judge.py": "2"}, "cwd": "/elsewhere"}, "judge.py changed"),
        (True, {"judges": ["strict"]}, "judge changed: judge -> strict"),
        (True, {"targets": {"judge": {"model": "k"}}}, "configuration of judge 'judge' changed: model"),
        (True, {"targets": {"t": {"model": "a", "top_p": 1}}}, "configuration of target 't' changed: top_p"),
    ],
    ids=["cases", "case", "suite", "script", "checkout", "judge", "judge settings", "target settings"],
)
def test_the_line_breaks_where_the_measure_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hashed: bool, change: dict[str, Any], message: str
) -> None:
    same: dict[str, Any] = {"hashes": {}} if hashed else {}
    record(tmp_path, 1, GOOD, **same)
    record(tmp_path, 2, BAD, **{**same, **change})
    code, found = trend(tmp_path, monkeypatch, "--fail-on-degrading")
    assert code == 0, "never across a break"
    line = found["lines"][0]
    assert line["points"][1]["changed"] == [message]
    assert line["note"] == f"the latest run is the first one since the line broke ({message})"
    assert "▁" in (shown := text(tmp_path, monkeypatch))
    assert f"── {message}" in shown


def test_changes_that_do_not_matter_do_not_break_the_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(tmp_path, 1, GOOD, hashes={})
    record(tmp_path, 2, GOOD, hashes={"c20": "1"}, cwd="/ci/2", targets={"unused": {"model": "b"}},
           digests={"s.yaml": "2", "new.py": "1"})  # fmt: skip
    _, found = trend(tmp_path, monkeypatch)
    assert [point["changed"] for point in found["lines"][0]["points"]] == [[], []]


def test_runs_that_would_distort_the_line_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(tmp_path, 1, GOOD)
    record(tmp_path, 2, BAD, status="interrupted")
    record(tmp_path, 3, [None] * 15 + [1.0] * 5)
    record(tmp_path, 4, BAD)
    few = [{"name": "s", "path": "s.yaml", "targets": {"t": ["judge"]}, "all_cases": 20, "files": []}]
    record(tmp_path, 5, [0.0] * 3, suites=few)
    record(tmp_path, 6, GOOD, replayed={"run_id": "x"})
    code, found = trend(tmp_path, monkeypatch, "--fail-on-degrading")
    assert code == 1, "a run of a few selected cases, or of recorded answers, does not hide the one before it"
    line = found["lines"][0]
    assert [point["run_id"][:8] for point in line["points"]] == ["20260101", "20260104"]
    assert [(run["run_id"][:8], run["reason"]) for run in line["left_out"]] == [
        ("20260106", "it replays run x and measures nothing new"),
        ("20260105", "only 3 of 20 cases scored"),
        ("20260103", "only 5 of 20 cases scored"),
        ("20260102", "it is not finished (interrupted)"),
    ]
    failed = record(tmp_path, 7, [None] * 20)
    code, found = trend(tmp_path, monkeypatch, "--fail-on-degrading")
    assert (code, found["lines"][0]["note"], found["lines"][0]["tests"]) == (0, f"{failed} is left out", [])


def test_too_little_data_is_not_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert trend(tmp_path, monkeypatch, "--fail-on-degrading") == (0, {"lines": [], "degrading": False})
    assert text(tmp_path, monkeypatch) == "There are no finished runs in .agentv/runs.\n"
    record(tmp_path, 1, [1.0] * 3)
    assert "the latest run was not tested: there is only one run" in text(tmp_path, monkeypatch)
    record(tmp_path, 2, [0.0] * 3)
    output = text(tmp_path, monkeypatch, "--fail-on-degrading")
    assert "3 cases in common, at least 6 needed" in output
    assert "exit code 0: too little data to test the latest run" in output


def test_runs_are_selected_by_suite_target_experiment_and_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for day in range(1, 14):
        record(tmp_path, day, GOOD, suite="a" if day % 2 else "b", target="x", experiment="e" if day > 10 else None)
    record(tmp_path, 14, GOOD, suite="a", target="y")

    def lines(*arguments: str) -> list[tuple[str, str, int]]:
        _, found = trend(tmp_path, monkeypatch, *arguments)
        return [(line["suite"], line["target"], len(line["points"])) for line in found["lines"]]

    assert lines() == [("a", "x", 7), ("a", "y", 1), ("b", "x", 6)]
    assert lines("--last", "2") == [("a", "x", 2), ("a", "y", 1), ("b", "x", 2)]
    assert lines("--suite", "b") == [("b", "x", 6)]
    assert lines("--target", "y") == [("a", "y", 1)]
    assert lines("--experiment", "e") == [("a", "x", 2), ("b", "x", 1)]
    assert lines("20260101", "20260103") == [("a", "x", 2)]
    with pytest.raises(AgentVError, match=r"No run has the suite 'c'"):
        lines("--suite", "c")


def test_a_damaged_run_is_left_out_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(tmp_path, 1, GOOD)
    run = tmp_path / ".agentv" / "runs" / record(tmp_path, 2, GOOD)
    (run / "results.jsonl").unlink()
    (run / "results.jsonl").symlink_to("/dev/zero")
    _, found = trend(tmp_path, monkeypatch)
    assert "must be a regular file, got a symbolic link" in found["lines"][0]["left_out"][0]["reason"]


def test_real_runs_of_a_judge_script_that_changes(project: Project) -> None:
    project.write("agentv.config.yaml", "targets: {bot: {provider: cli, command: [cat, answer.txt]}}\n")
    project.write("check.py", "import json\nprint(json.dumps({'score': 1}))\n")
    cases = "".join(f"  - {{id: c{i}, input: x}}\n" for i in range(7))
    project.write(
        "s.yaml",
        f"execution:\n  evaluators:\n    - {{type: contains, value: good}}\n"
        f"    - {{name: check, type: code_judge, script: [python, check.py]}}\nevalcases:\n{cases}",
    )
    for script, answer, code in (("", "good", 0), ("", "bad", 1), ("# stricter", "bad", 1)):
        project.write("answer.txt", answer)
        if script:
            project.write("check.py", "import json\nprint(json.dumps({'score': 1}))\n# stricter\n")
            degrading = project.run("trend", "--fail-on-degrading")
            assert (degrading.returncode, "s is degrading with target bot" in degrading.stderr) == (1, True)
        assert project.run("eval", "s.yaml", "-q").returncode == code
    done = project.run("trend", "--suite", "s.yaml", "--fail-on-degrading")
    assert done.returncode == 0, done.stderr
    assert "check.py changed" in done.stdout
