"""Joining the records of shards: which row counts, judge calls of several executions, memory, and kills."""

from __future__ import annotations

import json
import os
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentv.cli import merge as merging
from agentv.errors import RecordError
from agentv.evidence import JudgeCallRecord
from agentv.record.catalog import read_entry
from agentv.record.judge_calls import encode_call
from agentv.record.merging import MergedPart, RecordMerge
from agentv.record.reading import RunReader
from agentv.record.rows import encode_row
from agentv.record.run_dir import RunDirectory
from agentv.results import CaseError, CaseResult, Verdict
from tests.record.kill_moves import killed_at
from tests.record.rows import make_row


def run_of(path: Path, *rows: CaseResult, superseded: tuple[CaseResult, ...] = ()) -> RunDirectory:
    run = RunDirectory.create(path, {"run_id": path.name})
    for file, own in ((run.results, rows), (run.superseded, superseded)):
        file.write_bytes(b"".join(encode_row(replace(row, run_id=path.name)) for row in own))
    return run


def errored(eval_id: str, **changes: Any) -> CaseResult:
    return make_row(eval_id, score=0.0, verdict=Verdict.FAIL, error=CaseError("target", "down"), **changes)


def merged(tmp_path: Path, *parts: MergedPart) -> tuple[RunDirectory, list[CaseResult], RecordMerge]:
    run = RunDirectory.create(tmp_path / "merged", {"run_id": "merged"})
    rows: list[CaseResult] = []
    with RecordMerge(parts) as merge:
        merge.survey()
        merge.write(run, "merged", rows.append)
    return run, rows, merge


def part(run: RunDirectory, shard: int = 1) -> MergedPart:
    return MergedPart(run, run.path.name, shard)


def test_first_row_without_an_error_counts_else_the_last(tmp_path: Path) -> None:
    def row(eval_id: str, answer: str) -> CaseResult:
        return make_row(eval_id, answer)

    one = run_of(tmp_path / "one", row("a", "1"), errored("b", answer="1"), errored("c", answer="1"))
    two = run_of(tmp_path / "two", row("a", "2"), row("b", "2"), errored("c", answer="2"))
    three = run_of(tmp_path / "three", errored("a", answer="3"), row("b", "3"), errored("c", answer="3"), row("d", "3"))
    run, rows, merge = merged(tmp_path, part(one), part(two), part(three))
    assert {row.eval_id: row.candidate_answer for row in rows} == {"a": "1", "b": "2", "c": "3", "d": "3"}
    assert merge.duplicates == 6
    assert [row for _, row in sorted((row.key, row) for row in RunReader(run).rows())] == sorted(
        rows, key=lambda row: row.key
    )
    aside = [json.loads(line) for line in run.superseded.read_bytes().splitlines()]
    assert sorted((row["eval_id"], row["candidate_answer"]) for row in aside) == [
        ("a", "2"), ("a", "3"), ("b", "1"), ("b", "3"), ("c", "1"), ("c", "2"),
    ]  # fmt: skip
    assert {row["run_id"] for row in aside} == {"merged"}


def test_attempts_targets_prompts_and_suites_are_different_rows(tmp_path: Path) -> None:
    variants: list[dict[str, Any]] = [{}, {"attempt": 2}, {"target": "other"}, {"prompt": "p"}, {"suite": "more"}]
    one = run_of(tmp_path / "one", *(make_row("a", **each) for each in variants))
    two = run_of(tmp_path / "two", make_row("a", attempt=3), make_row("a", attempt=2))
    _, rows, merge = merged(tmp_path, part(one), part(two))
    assert (len(rows), merge.duplicates) == (6, 1)


def call(eval_id: str, question: str, execution: int | None = None) -> bytes:
    key = ("suite", eval_id, "target", 1)
    return encode_call(JudgeCallRecord(*key, "says", 1, "judge", "ok", execution, question=question))


def test_judge_calls_of_the_row_that_counts_are_those_of_its_execution(tmp_path: Path) -> None:
    """The first part ran `a` twice and lost it, the second has it; the third was killed while it was judged."""
    one = run_of(tmp_path / "one", errored("a"), make_row("b"), superseded=(errored("a"),))
    one.judge_calls.write_bytes(call("a", "1.1") + call("a", "1.2", 2) + call("b", "b1"))
    two = run_of(tmp_path / "two", make_row("a", "two"))
    two.judge_calls.write_bytes(call("a", "2.1") + call("b", "b2, killed"))
    three = run_of(tmp_path / "three")
    three.judge_calls.write_bytes(call("a", "3.1, killed"))
    run, rows, _ = merged(tmp_path, part(one), part(two), part(three))
    reader = RunReader(run)
    for row in rows:
        execution = reader.execution(row.key)
        questions = [each.question for each in reader.judge_calls(row.key) if (each.execution or 1) == execution]
        assert questions == {"a": ["2.1"], "b": ["b1"]}[row.eval_id]
    everything = [json.loads(line) for line in run.judge_calls.read_bytes().splitlines()]
    assert len({(each["eval_id"], each.get("execution", 1)) for each in everything}) == len(everything) == 6


def test_answers_without_a_row_and_labels_are_kept(tmp_path: Path) -> None:
    one, two = run_of(tmp_path / "one", make_row("a")), run_of(tmp_path / "two")
    two.answers.write_bytes(encode_row(make_row("a", run_id="two")) + encode_row(make_row("b", run_id="two")))
    one.labels.write_bytes(b'{"suite":"one"}\n')
    two.labels.write_bytes(b'{"suite":"two"}\n')
    run, _, _ = merged(tmp_path, part(one), part(two))
    assert [json.loads(line)["eval_id"] for line in run.answers.read_bytes().splitlines()] == ["b"]
    assert run.labels.read_bytes() == b'{"suite":"one"}\n{"suite":"two"}\n'


def test_cases_of_two_runs_of_a_shard_are_written_once(tmp_path: Path) -> None:
    runs = [run_of(tmp_path / name) for name in ("one", "two", "other")]
    lines = [
        f'{{"suite":"s","eval_id":"{name}","sha256":"{sha}"}}\n'.encode() for name, sha in ("a1", "b1", "a2", "c1")
    ]
    runs[0].cases.write_bytes(lines[0] + lines[1])
    runs[1].cases.write_bytes(lines[2] + lines[1])
    runs[2].cases.write_bytes(lines[3])
    run, _, _ = merged(tmp_path, part(runs[0]), part(runs[1]), part(runs[2], 2))
    assert run.cases.read_bytes() == lines[0] + lines[1] + lines[2] + lines[3]


def test_part_that_changes_while_it_is_merged_is_an_error(tmp_path: Path) -> None:
    one = run_of(tmp_path / "one", make_row("a"))
    run = RunDirectory.create(tmp_path / "merged", {"run_id": "merged"})
    with RecordMerge([part(one)]) as merge:
        merge.survey()
        with one.results.open("ab") as file:
            file.write(encode_row(make_row("b")))
        with pytest.raises(RecordError, match="was changed while it was merged"):
            merge.write(run, "merged", lambda _: None)


def test_rows_written_by_other_tools_keep_their_contents(tmp_path: Path) -> None:
    one = run_of(tmp_path / "one")
    spaced = json.dumps({"eval_id": "a", **json.loads(encode_row(make_row("a")))}).encode() + b"\n"
    one.results.write_bytes(spaced)
    run, rows, _ = merged(tmp_path, part(one))
    assert json.loads(run.results.read_bytes()) == {**json.loads(spaced), "run_id": "merged"}
    assert rows[0].run_id == "merged"


def test_memory_does_not_grow_with_the_number_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentv.record.merging._GROUP", 1 << 10)

    def peak(count: int) -> int:
        run = run_of(tmp_path / str(count), *(make_row(f"case-{n}") for n in range(count)))
        target = RunDirectory.create(tmp_path / f"merged-{count}", {"run_id": "merged"})
        tracemalloc.start()
        try:
            with RecordMerge([part(run)]) as merge:
                merge.survey()
                merge.write(target, "merged", lambda _: None)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(20)  # imports and caches
    assert peak(340) - peak(40) < 300 * 80, "a key of a row alone has more than 80 bytes"


def shards(root: Path) -> None:
    """Two finished shards of a run with eight cases."""
    for index in (1, 2):
        run = run_of(root / f"s{index}", *(make_row(f"case-{index}-{n}") for n in range(4)))
        manifest = {"run_id": f"s{index}", "cwd": str(root), "status": "finished", "total": 4}
        options = {"shard": f"{index}/2"}
        run.write_manifest({**manifest, "started_at": "2026-01-01T00:00:00+00:00", "options": options})
        run.judge_calls.write_bytes(call(f"case-{index}-0", "Q"))


def test_killed_merge_never_looks_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shards(tmp_path)
    monkeypatch.chdir(tmp_path)

    def work() -> None:
        arguments = {"run_dir": "merged", "name": None, "allow_changed": False, "partial": False, "as_json": False}
        assert merging.command.callback is not None
        assert merging.command.callback(runs=("s1", "s2"), quiet=True, **arguments) == 0

    states: dict[str, int] = {}
    point, moment = 0, "halfway"
    while killed_at(point, moment, work):
        directory = tmp_path / "merged"
        entry = read_entry(directory)
        if entry.problem is None and entry.manifest.get("status") == "finished":
            state = "complete"
            assert len(RunReader(RunDirectory.open(directory)).heads()) == 8
            assert (directory / "judge_calls.jsonl").read_bytes().count(b"\n") == 2
        else:
            state = "none" if not (directory / "run.json").exists() else "unfinished"
            assert entry.problem is not None or entry.manifest.get("summary") is None
        states[state] = states.get(state, 0) + 1
        if directory.exists():
            for path in directory.iterdir():
                path.unlink()
            directory.rmdir()
        point += 1
    assert states["unfinished"] > 10
    assert point > 30
    assert len(RunReader(RunDirectory.open(tmp_path / "merged")).heads()) == 8
    assert {name for name in os.listdir(tmp_path) if name.startswith("s")} == {"s1", "s2"}  # noqa: PTH208
