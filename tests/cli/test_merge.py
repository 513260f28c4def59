"""`agentv merge`: the runs of shards become one run that every command reads."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agentv.cli import merge
from agentv.plan.shards import Shard
from agentv.record.merging import RecordMerge
from tests.cli.test_resume import wait_until
from tests.conftest import Project

CONFIG = """\
targets:
  bot:
    provider: mock
    judge_target: strict
    rules:
      - {match: "Q[04]", response: Rome, cost_usd: 0.5}
      - {match: Q7, error: it is down}
      - {match: ".", response: Paris, cost_usd: 0.25, token_usage: {input: 5, output: 1}}
    response: ""
  rival: {provider: mock, response: Paris, judge_target: strict, max_retries: 0}
  strict: {provider: mock, response: '{"score": 1, "reasoning": "fine"}', cost_usd: 0.125}
"""
TIMES = {"run_id", "started_at", "duration_ms", "duration_seconds", "finished_at", "run_dir"}


def cases(count: int) -> str:
    return "evalcases:\n" + "".join(
        f"  - {{id: case-{n}, input: Q{n}, evaluators: [{{type: contains, value: Paris}}, {{type: llm_judge}}]}}\n"
        for n in range(count)
    )


@pytest.fixture
def divided(project: Project) -> Project:
    """Two suites: one with prompts, one with several attempts; some cases fail, some error."""
    project.write("agentv.config.yaml", CONFIG)
    project.write("one.yaml", "prompts: ['Say {{ input }}', 'Tell {{ input }}']\n" + cases(9))
    project.write("two.yaml", "execution: {trials: {count: 3}}\n" + cases(4))
    return project


def shard(project: Project, which: str, run_dir: str, *options: str) -> int:
    targets = ["--target", "bot", "--target", "rival"]
    done = project.run("eval", "one.yaml", "two.yaml", "--shard", which, "--run-dir", run_dir, *targets, *options)
    assert done.returncode in (0, 1, 3), done.stderr
    return done.returncode


def without_times(value: Any) -> Any:
    """The value without ids and times, at any depth."""
    if isinstance(value, dict):
        return {name: without_times(item) for name, item in value.items() if name not in TIMES}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def lines(path: Path) -> list[str]:
    data = [without_times(json.loads(line)) for line in path.read_text("utf-8").splitlines()]
    return sorted(json.dumps(each, sort_keys=True) for each in data)


@pytest.mark.parametrize("count", [2, 4])
def test_merged_shards_equal_the_run_without_shards(divided: Project, count: int) -> None:
    names = [f"s{i}" for i in range(1, count + 1)]
    codes = {shard(divided, f"{i}/{count}", f"s{i}") for i in range(1, count + 1)}
    whole = divided.run(
        "eval", "one.yaml", "two.yaml", "--run-dir", "whole", "--target", "bot", "--target", "rival", "--json"
    )
    merged = divided.run("merge", *reversed(names), "--run-dir", "merged", "--json")
    assert merged.returncode == whole.returncode == max(codes), merged.stderr
    a, b = divided.root / "whole", divided.root / "merged"
    assert len(divided.rows(a)) == (9 * 2 + 4 * 3) * 2
    for name in ("results.jsonl", "cases.jsonl", "judge_calls.jsonl"):
        assert lines(a / name) == lines(b / name), name
    assert {row["run_id"] for row in divided.rows(b)} == {divided.manifest(b)["run_id"]}
    assert not (b / "superseded.jsonl").exists()

    one, two = (without_times(json.loads(done.stdout)) for done in (whole, merged))
    assert two["notes"] == [f"merged from {count} complete shards"]
    for summary in (one, two):
        summary.pop("notes", None)
        summary.pop("interrupted", None)
    assert one == two
    one, two = (without_times(divided.manifest(each)) for each in (a, b))
    assert {name for name in one if one[name] != two[name]} == {"summary_notes", "summary"}
    assert two.keys() - one.keys() == {"merged"}


def test_every_command_reads_a_merged_run(divided: Project) -> None:
    for i in (1, 2):
        shard(divided, f"{i}/2", f".agentv/runs/s{i}", "--name", "nightly")
    assert divided.run("merge", "latest", "s1", "--name", "all").returncode == 3
    assert divided.run("eval", "one.yaml", "two.yaml", "--target", "bot", "--name", "other").returncode == 3
    for words in (
        ["show", "all", "one/case-3", "--target", "rival [prompt-1]"],
        ["report", "all", "--format", "junit"],
        ["compare", "all", "all"],
        ["convert", "all", "-o", "rows.csv"],
        ["runs", "--json"],
        ["trend", "--suite", "one"],
        ["view", "--help"],
        ["report", "all", "--format", "html", "-o", "all.html"],
    ):
        done = divided.run(*words)
        assert done.returncode in (0, 1), (words, done.stdout, done.stderr)
        assert "incomplete" not in done.stderr
    failed = divided.run("eval", "--last-failed", "all", "--run-dir", "again")
    assert failed.returncode == 3, failed.stderr
    pairs = {(row["suite"], row["eval_id"]) for row in divided.rows(divided.root / "again")}
    assert pairs == {("one", "case-0"), ("one", "case-4"), ("one", "case-7"), ("two", "case-0")}


@pytest.mark.parametrize("flag", ["--resume", "--retry-errors"])
def test_merged_run_is_not_resumed_but_its_shards_are(divided: Project, flag: str) -> None:
    for i in (1, 2):
        shard(divided, f"{i}/2", f"s{i}")
    divided.run("merge", "s1", "s2", "--run-dir", "merged")
    done = divided.run("eval", flag, "merged")
    assert done.returncode == 2
    assert f"{flag} cannot be used with merged: it is merged from shards (s1, s2)." in done.stderr
    assert f"Use {flag} with those, then merge again." in done.stderr
    assert divided.run("merge", "merged", "s2").stderr.startswith("agentv: The run merged is already merged.")


def test_of_several_rows_of_an_attempt_the_first_without_an_error_counts(divided: Project) -> None:
    """Shard 1/2 runs twice: first with a target that errors for most cases."""
    config = (divided.root / "agentv.config.yaml").read_text()
    divided.write("agentv.config.yaml", config.replace("{match: Q7", "{match: 'Q[1-8]'"))
    shard(divided, "1/2", "first")
    divided.write("agentv.config.yaml", config)
    shard(divided, "1/2", "again")
    shard(divided, "2/2", "other")
    first, again = divided.root / "first", divided.root / "again"
    refused = divided.run("merge", "first", "again", "other")
    assert refused.returncode == 2
    assert "agentv.config.yaml of again differs from that of first" in refused.stderr
    done = divided.run("merge", "again", "other", "first", "--allow-changed", "--run-dir", "merged")
    count = len(divided.rows(first))
    assert f"note: {count} duplicate rows were set aside in superseded.jsonl" in done.stderr
    assert "note: merged despite a difference: agentv.config.yaml of again" in done.stderr

    def by_key(run: Path, name: str = "results.jsonl") -> dict[Any, Any]:
        rows = [json.loads(line) for line in (run / name).read_text().splitlines()]
        found = {(r["suite"], r["eval_id"], r["target"], r.get("prompt"), r["attempt"]): r for r in rows}
        assert len(found) == len(rows)
        return found

    earlier, later, merged = by_key(first), by_key(again), by_key(divided.root / "merged")
    assert len(merged) == (9 * 2 + 4 * 3) * 2
    for key, old in earlier.items():
        expected = old if old["error"] is None else later[key]
        assert without_times(merged[key]) == without_times(expected), key
        assert merged[key]["started_at"] == expected["started_at"]
    assert any(row["error"] for row in earlier.values())
    aside = by_key(divided.root / "merged", "superseded.jsonl")
    assert aside.keys() == earlier.keys()
    assert all(aside[key]["started_at"] != merged[key]["started_at"] for key in aside)


def test_missing_shards_are_refused_and_never_look_complete(divided: Project) -> None:
    for i in (1, 3):
        shard(divided, f"{i}/3", f"s{i}", "--case", "case-[1-3]")
    done = divided.run("merge", "s3", "s1", "--run-dir", "merged")
    assert done.returncode == 2
    assert done.stderr.startswith(
        "agentv: 1 of 3 shards is missing or incomplete:\n  shard 2/3: no run of it was named\n"
    )
    assert not (divided.root / "merged").exists()
    done = divided.run("merge", "s3", "s1", "--partial", "--run-dir", "merged", "--json")
    summary = json.loads(done.stdout)
    assert (done.returncode, summary["exit_code"], summary["missing_shards"]) == (3, 3, ["2/3"])
    assert (summary["failed"], summary["errors"]) == (0, 0)
    assert divided.manifest(divided.root / "merged")["status"] == "partial"
    assert "1 shard missing or incomplete" in divided.run("report", "merged").stdout
    assert "! 1 shard missing or incomplete" in divided.run("merge", "s1", "s3", "--partial").stdout


SLOW = """\
targets:
  scripted:
    provider: mock
    rules: [{match: hang, response: late, delay_ms: 600000}]
    response: ok
"""


@pytest.fixture
def stuck(project: Project) -> tuple[Project, str]:
    """Ten cases, of which only one is never answered; and the shard with it."""
    project.write("agentv.config.yaml", SLOW)
    listed = "".join(
        f"  - {{id: case-{n}, input: {'hang' if n == 4 else 'go'}, evaluators: [{{type: equals, value: ok}}]}}\n"
        for n in range(10)
    )
    project.write("suite.yaml", "evalcases:\n" + listed)
    index = next(i for i in (1, 2) if Shard(i, 2).has("suite", "case-4"))
    project.run("eval", "suite.yaml", "--shard", f"{3 - index}/2", "--run-dir", "quick")
    return project, f"{index}/2"


def start_slow(project: Project, which: str) -> subprocess.Popen[str]:
    process = project.start("eval", "suite.yaml", "--shard", which, "--run-dir", "slow", "--quiet")
    results = project.root / "slow" / "results.jsonl"
    own = sum(Shard(int(which[0]), 2).has("suite", f"case-{n}") for n in range(10))
    wait_until(lambda: results.exists() and results.read_bytes().count(b"\n") == own - 1)
    return process


def test_part_that_is_being_written_or_unfinished_is_refused(stuck: tuple[Project, str]) -> None:
    project, which = stuck
    process = start_slow(project, which)
    try:
        done = project.run("merge", "quick", "slow", "--partial")
        assert done.returncode == 2
        assert f"the run slow (shard {which}) is being written by process {process.pid}" in done.stderr
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    done = project.run("merge", "quick", "slow", "--run-dir", "merged")
    assert done.returncode == 2
    assert f"shard {which}: slow is not finished (interrupted, " in done.stderr
    assert "resume it: agentv eval --resume slow" in done.stderr
    partial = project.run("merge", "quick", "slow", "--partial", "--run-dir", "merged", "--json")
    assert (partial.returncode, json.loads(partial.stdout)["total"]) == (3, 9)
    assert json.loads(partial.stdout)["missing_shards"] == [which]


def test_killed_part_is_replaced_by_another_run_of_its_shard(stuck: tuple[Project, str]) -> None:
    project, which = stuck
    process = start_slow(project, which)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    rows = len(project.rows(project.root / "slow"))
    config = (project.root / "agentv.config.yaml").read_text()
    project.write("agentv.config.yaml", config.replace("600000", "0").replace("late", "ok"))
    project.run("eval", "suite.yaml", "--shard", which, "--run-dir", "requeued")
    done = project.run("merge", "quick", "slow", "requeued", "--allow-changed", "--run-dir", "merged", "--json")
    summary = json.loads(done.stdout)
    assert (done.returncode, summary["total"], summary["passed"]) == (0, 10, 10)
    assert len((project.root / "merged" / "superseded.jsonl").read_bytes().splitlines()) == rows
    assert project.manifest(project.root / "merged")["merged"]["duplicates"] == rows


def test_damaged_row_makes_its_shard_incomplete(stuck: tuple[Project, str]) -> None:
    project, which = stuck
    project.write("agentv.config.yaml", SLOW.replace("600000", "0"))
    quick = project.root / "quick" / "results.jsonl"
    project.run("eval", "suite.yaml", "--shard", which, "--run-dir", "slow")
    first, *others = quick.read_bytes().splitlines(keepends=True)
    quick.write_bytes(first[:-9] + b"\n" + b"".join(others))
    done = project.run("merge", "quick", "slow", "--allow-changed")
    assert done.returncode == 2
    count = len(others)
    assert f"quick has {count} of {count + 1} rows; the others are missing or damaged" in done.stderr
    done = project.run("merge", "quick", "slow", "--allow-changed", "--partial", "--run-dir", "merged")
    assert done.returncode == 3
    assert f"note: {quick}: 1 damaged line set aside in results.corrupt.jsonl (the first is line 1)" in done.stderr
    assert (project.root / "merged" / "results.corrupt.jsonl").read_bytes() == first[:-9] + b"\n"


def test_shards_of_other_suites_options_or_divisions_are_refused(divided: Project) -> None:
    options = ("--case", "case-2")
    shard(divided, "1/2", "s1", *options)
    shard(divided, "2/2", "s2", "--case", "case-2", "--threshold", "0.5")
    done = divided.run("merge", "s1", "s2", "--run-dir", "merged")
    assert done.returncode == 2
    assert "the runs are not shards of the same run:\n  `--threshold` of s2 differs from that of s1" in done.stderr
    divided.write("two.yaml", "execution: {trials: {count: 2}}\n" + cases(4))
    shard(divided, "2/2", "changed", *options)
    done = divided.run("merge", "s1", "changed")
    assert "two.yaml of changed differs from that of s1" in done.stderr
    assert divided.run("merge", "s1", "changed", "--allow-changed").returncode in (0, 1)
    shard(divided, "2/3", "third", *options)
    done = divided.run("merge", "s1", "third")
    assert "different divisions: s1 is shard 1/2, third is shard 2/3" in done.stderr
    divided.run("eval", "one.yaml", "--target", "rival", "--run-dir", "whole", *options)
    done = divided.run("merge", "s1", "whole")
    assert "The run whole is not a shard." in done.stderr
    assert not (divided.root / "merged").exists()


def test_shards_of_other_directories_are_merged(divided: Project, tmp_path: Path) -> None:
    shard(divided, "1/2", "s1", "--case", "case-2")
    elsewhere = tmp_path / "elsewhere"
    divided.root.rename(elsewhere)
    moved = Project(elsewhere)
    shard(moved, "2/2", "s2", "--case", "case-2")
    done = moved.run("merge", "s1", "s2", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["total"] == 2 * 2 + 2


def test_budget_of_a_shard_that_was_used_up_is_part_of_the_merged_run(divided: Project) -> None:
    for i in (1, 2):
        shard(divided, f"{i}/2", f"s{i}", "--max-judge-calls", "9")
    done = divided.run("merge", "s1", "s2", "--run-dir", "merged", "--json")
    summary, parts = json.loads(done.stdout), [divided.manifest(divided.root / name) for name in ("s1", "s2")]
    assert done.returncode == 3
    assert summary["not_run"] == sum(part["summary"]["not_run"] for part in parts) > 0
    assert "for shard" in summary["why_not_run"]
    manifest = divided.manifest(divided.root / "merged")
    assert manifest["status"] == "out of budget"
    assert manifest["budget"]["max_judge_calls"] == 9
    assert manifest["budget"]["judge_calls"] == sum(part["budget"]["judge_calls"] for part in parts) <= 9


def test_directory_of_an_interrupted_merge_is_removed(divided: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in (1, 2):
        shard(divided, f"{i}/2", f"s{i}", "--case", "case-2")
    monkeypatch.chdir(divided.root)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(RecordMerge, "_write_cases", interrupted)
    with pytest.raises(KeyboardInterrupt):
        merge.command.callback(  # type: ignore[misc]
            runs=("s1", "s2"), run_dir="merged", name=None, allow_changed=False, partial=False, quiet=True,
            as_json=False,
        )  # fmt: skip
    assert not Path("merged").exists()
