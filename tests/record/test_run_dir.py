"""A run directory is private, is written atomically, and has one writer."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentv.errors import RecordError, RunLockedError
from agentv.record.run_dir import RunDirectory, find_run, new_run_id
from agentv.redact import Redactor


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_run_ids_sort_by_time_and_are_unique():
    ids = [new_run_id() for _ in range(10)]  # a hundred ids in one millisecond would collide once in 3,000 runs
    assert len(set(ids)) == 10
    assert [i[:19] for i in ids] == sorted(i[:19] for i in ids)
    assert all(len(i) == 25 and i[8] == i[15] == "-" for i in ids)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277])
def test_only_the_owner_can_read_a_run_regardless_of_umask(tmp_path: Path, umask: int):
    before = os.umask(umask)
    try:
        run = RunDirectory.create(tmp_path / ".agentv" / "runs" / "one", {"a": 1})
        with run.lock():
            run.write_manifest({"a": 2})
    finally:
        os.umask(before)
    paths = list((tmp_path / ".agentv").rglob("*"))
    assert {p.name for p in paths} == {"runs", "one", "run.json", "results.jsonl", "run.lock", ".gitignore"}
    for path in [tmp_path / ".agentv", *paths]:
        assert mode(path) == (0o700 if path.is_dir() else 0o600), path


def test_existing_empty_directory_becomes_private(tmp_path: Path, open_umask: None):
    (tmp_path / "mine").mkdir()
    RunDirectory.create(tmp_path / "mine", {})
    assert mode(tmp_path / "mine") == 0o700


def test_gitignore_is_created_only_in_a_new_home(tmp_path: Path):
    RunDirectory.create(tmp_path / "a" / ".agentv" / "runs" / "one", {})
    assert (tmp_path / "a" / ".agentv" / ".gitignore").read_text() == "runs/\ncache/\ninline/\n"
    (tmp_path / "b" / ".agentv").mkdir(parents=True)
    RunDirectory.create(tmp_path / "b" / ".agentv" / "runs" / "one", {})
    assert not (tmp_path / "b" / ".agentv" / ".gitignore").exists()


def test_directory_with_another_run_is_refused(tmp_path: Path):
    run = RunDirectory.create(tmp_path / "run", {"which": "first"})
    with pytest.raises(RecordError, match=r"already contains a run.\n.*--resume"):
        RunDirectory.create(tmp_path / "run", {"which": "second"})
    assert run.read_manifest() == {"which": "first"}
    run.manifest.unlink()
    with pytest.raises(RecordError, match="already contains a run"):
        RunDirectory.create(tmp_path / "run", {})


def test_directory_with_other_files_is_refused_and_unchanged(tmp_path: Path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(RecordError, match=r"not empty and is not a run.*thesis\.txt"):
        RunDirectory.create(tmp_path, {})
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


def test_directory_of_a_start_killed_early_can_be_reused(tmp_path: Path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.lock").write_text("1\n")
    (tmp_path / "run" / ".run.json.tmp").write_text("{")
    assert RunDirectory.create(tmp_path / "run", {"a": 1}).read_manifest() == {"a": 1}


def test_file_in_place_of_the_directory_is_reported(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="ENOTDIR"):
        RunDirectory.create(tmp_path / "file", {})


def test_opening_a_directory_that_is_not_a_run_is_an_error(tmp_path: Path):
    with pytest.raises(RecordError, match=r"not a run: it has no run\.json"):
        RunDirectory.open(tmp_path)


def test_manifest_is_strict_json_without_secrets(tmp_path: Path):
    run = RunDirectory.create(tmp_path / "run", {})
    run.write_manifest({"k": "secret-value", "n": float("nan"), "é": "\u2028"}, redactor=Redactor(["secret-value"]))
    assert run.read_manifest() == {"k": "[redacted]", "n": "NaN", "é": "\u2028"}


@pytest.mark.parametrize("contents", ["", "{", "[]", '{"a": NaN}', '{"a": 1, "a": 2}'])
def test_unreadable_manifest_is_reported_with_its_path(tmp_path: Path, contents: str):
    run = RunDirectory.create(tmp_path / "run", {})
    run.manifest.write_text(contents)
    with pytest.raises(RecordError, match=r"run\.json"):
        run.read_manifest()


def test_failed_manifest_write_keeps_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run = RunDirectory.create(tmp_path / "run", {"old": True})

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(RecordError, match=r"ENOSPC: no space left on device") as caught:
        run.write_manifest({"new": True})
    monkeypatch.undo()
    assert "run.json" in caught.value.message
    assert run.read_manifest() == {"old": True}
    assert not list(run.path.glob("*.tmp*"))


def test_run_is_found_by_id_prefix_or_path(tmp_path: Path):
    for name in ("20260101-000000-aaaaaa", "20260102-000000-bbbbbb", "20260102-000001-cccccc"):
        RunDirectory.create(tmp_path / ".agentv" / "runs" / name, {"name": name})
    RunDirectory.create(tmp_path / "elsewhere", {"name": "elsewhere"})

    def name_of(run: str) -> object:
        return find_run(run, tmp_path).read_manifest()["name"]

    assert name_of("20260101-000000-aaaaaa") == "20260101-000000-aaaaaa"
    assert name_of("20260101") == "20260101-000000-aaaaaa"
    assert name_of("elsewhere") == name_of(str(tmp_path / "elsewhere")) == "elsewhere"
    with pytest.raises(RecordError, match=r"ambiguous: 2 runs begin with it.\n.*cccccc, .*bbbbbb"):
        name_of("20260102")


def test_unknown_run_lists_the_latest_runs(tmp_path: Path):
    with pytest.raises(RecordError, match=r"run 'x' not found.\nThere are no runs"):
        find_run("x", tmp_path)
    for day in range(1, 10):
        RunDirectory.create(tmp_path / ".agentv" / "runs" / f"2026010{day}-000000-aaaaaa", {})
    for unknown in ("x", ""):
        with pytest.raises(RecordError, match=f"run '{unknown}' not found") as caught:
            find_run(unknown, tmp_path)
        assert caught.value.next_step is not None
        assert "20260109" in caught.value.next_step
        assert "20260101" not in caught.value.next_step


def test_resume_command_is_as_short_as_possible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert RunDirectory(tmp_path / ".agentv/runs/a-1").resume_command == "agentv eval --resume a-1"
    assert RunDirectory(tmp_path / "my runs/b").resume_command == "agentv eval --resume 'my runs/b'"
    assert RunDirectory(Path("/elsewhere/c")).resume_command == "agentv eval --resume /elsewhere/c"


def test_run_is_locked_by_another_process_until_it_is_killed(tmp_path: Path):
    run = RunDirectory.create(tmp_path / "run", {})
    command = [sys.executable, "-m", "tests.record.children", "hold", str(run.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"locked\n"
        with pytest.raises(RunLockedError, match=rf"written by process {child.pid}.\n"), run.lock():
            pass
        with pytest.raises(RecordError, match="already contains a run"):
            RunDirectory.create(run.path, {})
        child.kill()
        child.wait()
        with run.lock():
            assert int((run.path / "run.lock").read_text()) == os.getpid()


def test_run_opened_twice_in_one_process_is_locked(tmp_path: Path):
    run = RunDirectory.create(tmp_path / "run", {})
    with run.lock():
        with run.lock():
            pass
        with pytest.raises(RunLockedError, match=str(os.getpid())), RunDirectory.open(run.path).lock():
            pass
    with RunDirectory.open(run.path).lock():
        pass


def test_lock_waits_for_a_child_of_a_dead_writer(tmp_path: Path):
    """A fork inherits the lock, which is released only when the fork has exited too."""
    run = RunDirectory.create(tmp_path / "run", {})
    script = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from agentv.record.run_dir import RunDirectory\n"
        "lock = RunDirectory.open(Path(sys.argv[1])).lock()\n"
        "lock.__enter__()\n"
        "if os.fork() == 0:\n"
        "    os.close(1)\n"
        "    time.sleep(0.3)\n"
        "os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(run.path)], check=True)
    with run.lock():
        pass
