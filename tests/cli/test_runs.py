"""`agentv runs` lists, annotates and removes runs; runs are found by name and as `latest~N` everywhere."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agentv.cli.program import program
from agentv.cli.runs import format_bytes
from agentv.errors import AgentVError, UsageError
from agentv.record.run_dir import RunDirectory
from tests.conftest import AGENTV, Project


def manifest(run_id: str, **more: Any) -> dict[str, Any]:
    summary = {
        "total": 12, "passed": 9, "borderline": 1, "failed": 1, "errors": 1, "mean_score": 0.8123,
        "mean_interval": [0.7, 0.95], "cost_usd": 0.01, "judge_cost_usd": 0.0023, "duration_seconds": 95.2,
        "by_target": {"assistant": {}},
    }  # fmt: skip
    return {
        "run_id": run_id,
        "status": "finished",
        "started_at": f"{run_id[:4]}-{run_id[4:6]}-{run_id[6:8]}T{run_id[9:11]}:{run_id[11:13]}:{run_id[13:15]}+00:00",
        "suites": [{"name": "capitals", "path": "capitals.yaml"}],
        "git": {"commit": "8e67b4a0" * 5, "branch": "main", "dirty": True},
        "summary": summary,
        **more,
    }


def record(root: Path, run_id: str, **more: Any) -> RunDirectory:
    return RunDirectory.create(root / ".agentv" / "runs" / run_id, manifest(run_id, **more))


def call(root: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str, env: Mapping[str, str] | None = None) -> str:
    """The output of a command, run in this process."""
    monkeypatch.chdir(root)
    result = CliRunner(env={"NO_COLOR": "1", "COLUMNS": "80", **(env or {})}).invoke(program, ["runs", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def test_runs_are_named_listed_and_found_by_name_everywhere(capitals: Project) -> None:
    first = capitals.run("eval", "capitals.yaml", "-q", "--name", "baseline", "--experiment", "prompts")
    again = capitals.run("eval", "capitals.yaml", "-q", "--case", "france", "--note", "only France")
    assert (first.returncode, again.returncode) == (1, 0), first.stderr + again.stderr
    third = capitals.run("eval", "capitals.yaml", "--name", "baseline")
    older = capitals.run_dirs()[0].name
    assert f"note: 'baseline' now refers to this run. It was also the name of run {older}" in third.stderr

    listed = json.loads(capitals.run("runs", "--json").stdout)
    assert [(run["name"], run["experiment"], run["note"]) for run in listed] == [
        ("baseline", None, None),
        (None, None, "only France"),
        ("baseline", "prompts", None),
    ]
    assert [(run["passed"], run["total"], run["status"]) for run in listed] == [(1, 3, "finished"), (1, 1, "finished"),
                                                                               (1, 3, "finished")]  # fmt: skip
    assert listed[0]["suites"] == ["capitals"]
    assert listed[0]["targets"] == ["scripted"]
    assert listed[0]["mean_interval"][0] < listed[0]["mean_score"] < listed[0]["mean_interval"][1]

    compared = capitals.run("compare", "latest~1", "latest", "--json")
    sides = json.loads(compared.stdout)
    assert [sides[side]["run_id"] for side in ("baseline", "candidate")] == [listed[1]["run_id"], listed[0]["run_id"]]
    for arguments in (["report", "base"], ["convert", "latest~2", "--to", "csv", "--out", "-"],
                      ["eval", "--resume", "latest"], ["eval", "capitals.yaml", "--outputs", "baseline"],
                      ["eval", "--retry-errors", "baseline"]):  # fmt: skip
        done = capitals.run(*arguments)
        assert done.returncode in (0, 1), (arguments, done.stderr)
        assert done.stdout, arguments
    lost = capitals.run("eval", "capitals.yaml", "--outputs", "latest~9")
    assert lost.returncode == 2
    assert "run 'latest~9' not found: there are 4 runs in" in lost.stderr
    elsewhere = capitals.run("eval", "capitals.yaml", "--run-dir", "mine", "--name", "mine")
    assert "the run is not in .agentv/runs: find it by its directory, not by its name" in elsewhere.stderr
    refused = capitals.run("eval", "--resume", "latest", "--name", "other")
    assert refused.returncode == 2
    assert "remove name" in refused.stderr


def test_the_table_fits_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(tmp_path, "20260101-000000-aaaaaaaaa", name="baseline", note="before the new prompt " * 5)
    record(tmp_path, "20260101-000000-bbbbbbbbb", status="interrupted", summary=None, total=12)
    record(tmp_path, "20260102-000000-ccccccccc", name="baseline", git=None)
    narrow = call(tmp_path, monkeypatch)
    assert narrow.splitlines() == [
        "suite capitals",
        "",
        "WHEN        RUN                PASSED  MEAN           COST   TIME  COMMIT",
        "2026-01-02  baseline             9/12  0.81 ±0.14  $0.0123  2 min",
        "    assistant · 1 error",
        "2026-01-01  20260101-000000-b    -/12                              8e67b4a*",
        "    interrupted",
        "2026-01-01  20260101-000000-a    9/12  0.81 ±0.14  $0.0123  2 min  8e67b4a*",
        "    assistant · 1 error; an older 'baseline'; before the new prompt before the",
        "    new prompt before the new prompt before the new prompt before the new prompt",
    ]
    for width in (40, 60, 100, 200):
        output = call(tmp_path, monkeypatch, env={"COLUMNS": str(width)})
        assert max(map(len, output.splitlines())) <= width, width
    assert len(output.splitlines()) == 4, "on a wide terminal, a run is one line"
    assert "1 older run not shown (--limit 3)" in call(tmp_path, monkeypatch, "--limit", "2")


def test_filters_name_what_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(tmp_path, "20260101-000000-aaaaaaaaa", experiment="prompts", cwd=str(tmp_path))
    record(tmp_path, "20260102-000000-bbbbbbbbb", suites=[{"name": "other", "path": "evals/other.yaml"}], cwd="/")
    for arguments, ids in (
        (["--suite", "capitals"], ["20260101"]),
        (["--suite", "./capitals.yaml"], ["20260101"]),
        (["--suite", "evals/other.yaml"], ["20260102"]),
        (["--experiment", "prompts"], ["20260101"]),
        (["--limit", "1"], ["20260102"]),
        ([], ["20260102", "20260101"]),
    ):
        listed = json.loads(call(tmp_path, monkeypatch, "--json", *arguments))
        assert [run["run_id"][:8] for run in listed] == ids, arguments
    with pytest.raises(AgentVError, match=r"No run has the experiment 'promts' \(did you mean 'prompts'\?\)"):
        call(tmp_path, monkeypatch, "--experiment", "promts")


def test_broken_directories_and_hostile_manifests_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call(tmp_path, monkeypatch) == "There are no runs in .agentv/runs. `agentv eval` records one.\n"
    runs = tmp_path / ".agentv" / "runs"
    (runs / "empty").mkdir(parents=True)
    for number, text in enumerate([
        "{", "[]", "nul", '{"summary": 5, "suites": {"a": 1}, "git": [], "total": "x", "status": "finished"}',
        '{"summary": {"mean_score": 1e999, "mean_interval": [1], "by_target": 3, "total": true}, "status": 1}',
        '{"name": "\\u001b[31mx", "note": "::set-output", "suites": [{"name": "\\u001b]0;x\\u0007a",'
        ' "path": "\\u0000"}], "started_at": "9999-12-31T23:59:59+00:00", "status": "finished"}',
    ]):  # fmt: skip
        (runs / f"2026010{number}-000000-aaaaaaaaa").mkdir()
        (runs / f"2026010{number}-000000-aaaaaaaaa" / "run.json").write_text(text)
    output = call(tmp_path, monkeypatch)
    assert "it has no run.json" in output
    assert "\x1b" not in output
    assert not re.search(r"(?m)(^|\s)::", output)
    assert len(json.loads(call(tmp_path, monkeypatch, "--json"))) == 7
    with pytest.raises(UsageError, match="No run has the suite 'x'"):
        call(tmp_path, monkeypatch, "--suite", "x")


def test_notes_are_replaced_unless_the_run_is_being_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = record(tmp_path, "20260101-000000-aaaaaaaaa", name="baseline")
    before = run.read_manifest()
    assert call(tmp_path, monkeypatch, "note", "baseline", "good one") == "noted 20260101-000000-aaaaaaaaa\n"
    assert run.read_manifest() == {**before, "note": "good one"}
    with run.lock(), pytest.raises(AgentVError, match="is being written by process"):
        call(tmp_path, monkeypatch, "note", "baseline", "late")
    call(tmp_path, monkeypatch, "note", "baseline", "")
    assert run.read_manifest()["note"] is None


def test_removing_keeps_foreign_files_and_never_follows_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    treasure = tmp_path / "treasure"
    treasure.mkdir()
    (treasure / "gold").write_text("x")
    inside = record(tmp_path, "20260101-000000-aaaaaaaaa")
    (inside.path / "link").symlink_to(treasure)
    (tmp_path / ".agentv" / "runs" / "linked").symlink_to(treasure)
    (tmp_path / ".agentv" / "runs" / "20260102-000000-bbbbbbbbb").mkdir()
    outside = RunDirectory.create(tmp_path / "mine", manifest("20260103-000000-ccccccccc"))
    (outside.path / "suite.yaml").write_text("evalcases: []")

    with pytest.raises(AgentVError, match=r"1 run, .* nothing was removed"):
        call(tmp_path, monkeypatch, "rm", "20260101")
    output = call(tmp_path, monkeypatch, "rm", "-y", "20260101", "20260102-000000-bbbbbbbbb", "mine")
    assert re.search(r"removed 3 runs, [\d.]+ kB", output)
    assert "because it is not part of the run: `suite.yaml`" in output
    assert not inside.path.exists()
    assert [path.name for path in outside.path.iterdir()] == ["suite.yaml"]
    assert (treasure / "gold").read_text() == "x"
    for wrong, message in (
        ("linked", "is a symbolic link"),
        ("treasure", "run 'treasure' not found"),
        ("..", "not found"),
    ):
        with pytest.raises(AgentVError, match=message):
            call(tmp_path, monkeypatch, "rm", "-y", wrong)
    busy = record(tmp_path, "20260104-000000-ddddddddd")
    with busy.lock():
        assert "removed 0 runs" in call(tmp_path, monkeypatch, "rm", "-y", "latest")
    assert busy.manifest.exists()


def test_prune_keeps_named_noted_new_and_running_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for day in range(1, 8):
        more = {2: {"name": "baseline"}, 3: {"note": "x"}}.get(day, {})
        record(tmp_path, f"2026010{day}-000000-aaaaaaaaa", **more)
    record(tmp_path, "29990101-000000-aaaaaaaaa")
    running = record(tmp_path, "20250101-000000-aaaaaaaaa", status="running")

    def left() -> list[str]:
        return sorted(path.name[:8] for path in (tmp_path / ".agentv" / "runs").iterdir())

    before = left()
    with running.lock():
        dry = call(tmp_path, monkeypatch, "prune", "--older-than", "30d", "--keep", "4", "--dry-run")
        assert left() == before
        assert "kept 2 runs with a name or a note" in dry
        assert "20260104-" in dry
        assert "2 runs, " in dry
        call(tmp_path, monkeypatch, "prune", "--older-than", "30d", "--keep", "4", "--yes")
        assert left() == [day for day in before if day not in ("20260101", "20260104")]
        call(tmp_path, monkeypatch, "prune", "--older-than", "52w", "--yes")
        call(tmp_path, monkeypatch, "prune", "--keep", "1", "--all", "-y")
        assert left() == ["20250101", "29990101"]
    for arguments, message in (
        (["prune"], "--keep or --older-than is needed"),
        (["prune", "--older-than", "soon"], "must be a number of hours, days or weeks"),
    ):
        with pytest.raises(AgentVError, match=message):
            call(tmp_path, monkeypatch, *arguments)


def test_sizes_are_readable() -> None:
    assert [format_bytes(n) for n in (1, 999, 1000, 9_949, 10_000, 999_600, 5 * 10**15)] == [
        "1 byte", "999 bytes", "1.0 kB", "9.9 kB", "10 kB", "1.0 MB", "5000 TB"]  # fmt: skip


def test_a_killed_run_is_interrupted_and_a_running_one_is_not_removed(project: Project) -> None:
    project.write("agentv.config.yaml", "targets: {slow: {provider: mock, response: x, delay_ms: 60000}}\n")
    project.write("s.yaml", "evalcases: [{id: a, input: x, evaluators: [{type: contains, value: x}]}]\n")
    process = project.start("eval", "s.yaml", "--verbose", "--name", "slow")
    try:
        assert process.stderr is not None
        while "run " not in (line := process.stderr.readline()):
            assert line, "the run did not start"
        assert json.loads(project.run("runs", "--json").stdout)[0]["status"] == "running"
        shown = terminal(project, "runs")
        assert "running" in shown
        assert terminal(project, "runs", "rm", "slow", answer="y\n").count("being written by process") == 1
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert json.loads(project.run("runs", "--json").stdout)[0]["status"] == "interrupted"
    assert "removed 1 run, " in terminal(project, "runs", "rm", "slow", answer="y\n")
    assert project.run_dirs() == []


def terminal(project: Project, *arguments: str, answer: str = "") -> str:
    """The output of a command on a terminal of 80 columns."""
    leader, follower = pty.openpty()
    env = {**project.environment(), "COLUMNS": "80", "TERM": "xterm"}
    process = subprocess.Popen(
        [*AGENTV, *arguments], cwd=project.root, env=env, stdin=follower, stdout=follower, stderr=follower
    )
    os.close(follower)
    output = b""
    if answer:
        os.write(leader, answer.encode())
    while True:
        try:
            piece = os.read(leader, 4096)
        except OSError:
            break
        if not piece:
            break
        output += piece
    process.wait(60)
    os.close(leader)
    return output.decode()
