"""Runs are listed newest first, and found by id, name, prefix or `latest`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agentv.errors import RecordError, UsageError
from agentv.record.catalog import Catalog, read_entry
from agentv.record.labels import RunLabels
from agentv.record.run_dir import RunDirectory, find_run

IDS = [
    "20260101-000000-aaaaaaaaa",
    "20260102-000000-bbbbbbbbb",
    "20260102-000001-ccccccccc",
    "20260103-000000-ddddddddd",
]


def create(root: Path, run_id: str, **manifest: Any) -> RunDirectory:
    return RunDirectory.create(root / ".agentv" / "runs" / run_id, {"run_id": run_id, "status": "finished", **manifest})


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for run, name in zip(IDS, ["baseline", None, "baseline", "candidate"], strict=True):
        create(tmp_path, run, name=name)
    return tmp_path


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ("latest", 3),
        ("latest~0", 3),
        ("latest~1", 2),
        ("latest~3", 0),
        ("20260101", 0),
        (IDS[1], 1),
        ("baseline", 2),
        ("base", 2),
        ("cand", 3),
        (".agentv/runs/" + IDS[1], 1),
    ],
)
def test_a_run_is_found_by_every_kind_of_reference(runs: Path, run: str, expected: int) -> None:
    assert find_run(run, runs).path.name == IDS[expected]


@pytest.mark.parametrize(
    ("run", "message", "hint"),
    [
        ("latest~4", "run 'latest~4' not found: there are 4 runs in", "20260103-000000-ddddddddd (candidate)"),
        ("basline", "run 'basline' not found (did you mean 'baseline'?)", "20260102-000001-ccccccccc (baseline)"),
        ("lates", "run 'lates' not found (did you mean 'latest'?)", "Latest runs"),
        ("2026", "'2026' is ambiguous: 4 runs begin with it", "Use a longer prefix: 20260103-"),
    ],
)
def test_a_run_that_is_not_found_lists_what_exists(runs: Path, run: str, message: str, hint: str) -> None:
    with pytest.raises(RecordError) as caught:
        find_run(run, runs)
    assert message in caught.value.message
    assert hint in (caught.value.next_step or "")


def test_prefixes_of_two_names_are_ambiguous_but_an_exact_name_is_not(runs: Path) -> None:
    create(runs, "20260104-000000-eeeeeeeee", name="base")
    assert find_run("base", runs).path.name == "20260104-000000-eeeeeeeee"
    with pytest.raises(RecordError, match="'bas' is ambiguous: 2 runs begin with it"):
        find_run("bas", runs)


def test_directories_with_other_names_are_sorted_by_their_start(runs: Path) -> None:
    create(runs, "renamed", started_at="2026-01-02T12:00:00+00:00")
    create(runs, "undated")
    assert Catalog(runs).ids() == [IDS[3], "renamed", IDS[2], IDS[1], IDS[0], "undated"]
    assert find_run("latest~1", runs).path.name == "renamed"


def test_a_directory_without_a_readable_manifest_is_listed_as_broken(runs: Path) -> None:
    home = runs / ".agentv" / "runs"
    (home / "20260105-000000-fffffffff").mkdir()
    (home / IDS[0] / "run.json").write_text("{")
    (home / IDS[1] / "run.json").unlink()
    os.mkfifo(home / IDS[1] / "run.json")
    (home / IDS[2] / "run.json").write_text('{"status": 5, "name": ["x"], "started_at": {}}')
    (home / "file").write_text("x")
    states = {entry.id: (entry.status(), entry.problem) for entry in Catalog(runs).entries()}
    assert states["20260105-000000-fffffffff"] == ("broken", "it has no run.json")
    assert states[IDS[0]][0] == states[IDS[1]][0] == states[IDS[2]][0] == "broken"
    assert "must be a regular file, got a named pipe" in (states[IDS[1]][1] or "")
    assert states[IDS[3]] == ("finished", None)
    assert len(states) == 5
    assert find_run("latest", runs).path.name == IDS[3], "a directory without run.json is not a run"


def test_the_lock_tells_a_running_run_from_a_killed_one(tmp_path: Path) -> None:
    run = create(tmp_path, IDS[0], status="running", started_at="2026-01-01T00:00:00+00:00")
    entry = Catalog(tmp_path).entry(IDS[0])
    with run.lock():
        assert entry.status() == "running"
    assert entry.status() == "interrupted"
    (run.path / "run.lock").unlink()
    assert entry.status() == "interrupted"
    assert not (run.path / "run.lock").exists(), "looking creates no file"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a/b", "must not contain slashes"),
        ("a\\b", "must not contain slashes"),
        ("..", "nor begin with"),
        ("--yes", "nor begin with"),
        ("latest", "must not begin with `latest`"),
        ("latest~1", "must not begin with `latest`"),
        ("20261115", "must not look like the id of a run"),
        ("20261115-204455-2a19c4e07", "must not look like the id of a run"),
        ("rows.jsonl", "must not look like a results file"),
        ("x" * 81, "must have 1 to 80 characters, got 81"),
        ("", "must have 1 to 80 characters, got 0"),
        (" x", "must not begin or end with a space"),
        ("a\x1b[31m", "control characters"),
    ],
)
def test_a_name_that_could_mean_something_else_is_refused(name: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        RunLabels(name=name)
    assert message in caught.value.message


def test_names_with_dates_and_other_alphabets_are_accepted() -> None:
    for name in ("20261115-baseline", "v1.2", "größer", "gpt 5 mini"):
        assert RunLabels(name=name, experiment=name).name == name


def test_entries_have_everything_but_the_large_parts_however_run_json_is_written(tmp_path: Path) -> None:
    run = create(
        tmp_path,
        IDS[0],
        note='x\n  "digests": {\n',
        digests={"a": "1", "b": {"c": "2"}},
        configuration={"c.yaml": {"targets": {"t": {}}}},
        summary={"digests": {"kept": 1}, "configuration": {"kept": 1}, "last": 1},
        budget={"configuration": {"kept": 1}, "last": {"x": 1}},
    )
    whole = run.read_manifest()
    small = {key: value for key, value in whole.items() if key not in ("digests", "configuration")}
    assert read_entry(run.path).manifest == small
    assert len(small) == len(whole) - 2
    for indent in (None, 1, 4):
        run.manifest.write_text(json.dumps(whole, indent=indent))
        assert read_entry(run.path).manifest == small
    run.manifest.write_text(json.dumps({"note": "n", "digests": {"a": "1"}}, indent=2))
    assert read_entry(run.path).manifest == {"note": "n"}
