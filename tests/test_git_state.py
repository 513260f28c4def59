"""The commit of a run is recorded without running programs that the repository configures."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from agentv import git_state
from agentv.git_state import Checkout, GitState
from tests.conftest import Project

CLEAN = {**{name: value for name, value in os.environ.items() if not name.startswith("GIT_")}, "LC_ALL": "C"}


def git(root: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"]
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=root, env=CLEAN, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    (root / "evals").mkdir(parents=True)
    (root / "a.txt").write_text("one\n")
    (root / "evals" / "b.txt").write_text("one\n")
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    return root


def state_of(start: Path) -> dict[str, object] | None:
    state = GitState(Checkout.near(start))
    state.start()
    if state._thread is not None:
        state._thread.join(30)
    state.close()
    return state.to_dict()


def test_commit_branch_and_changes_are_found(repository: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    assert state_of(repository / "evals") == {"commit": commit, "branch": "main", "dirty": False}
    (repository / "new.txt").write_text("untracked files are not changes")
    assert state_of(repository)["dirty"] is False  # type: ignore[index]
    (repository / "a.txt").write_text("two\n")
    assert state_of(repository)["dirty"] is True  # type: ignore[index]
    git(repository, "add", "a.txt")
    assert state_of(repository)["dirty"] is True  # type: ignore[index]
    git(repository, "commit", "-qm", "second")
    git(repository, "pack-refs", "--all")
    git(repository, "gc", "-q")
    assert state_of(repository) == {"commit": git(repository, "rev-parse", "HEAD"), "branch": "main", "dirty": False}

    git(repository, "checkout", "-q", "--detach", commit)
    assert state_of(repository) == {"commit": commit, "branch": None, "dirty": False}
    git(repository, "worktree", "add", "-q", "../tree", "-b", "feature/x", "main")
    tree = repository.parent / "tree"
    assert state_of(tree) == {"commit": git(repository, "rev-parse", "main"), "branch": "feature/x", "dirty": False}


def test_programs_of_the_repository_are_not_run(repository: Path) -> None:
    marker = repository.parent / "marker"
    program = repository / "program.sh"
    program.write_text(f"#!/bin/sh\necho ran >> {marker}\ncat\n")
    program.chmod(0o755)
    (repository / ".gitattributes").write_text("* filter=evil diff=evil\n")
    (repository / ".git" / "info" / "attributes").write_text("* filter=evil\n")
    for setting in ("core.fsmonitor", "core.pager", "core.sshCommand", "filter.evil.clean", "filter.evil.process",
                    "diff.external", "alias.status", "core.editor"):  # fmt: skip
        git(repository, "config", setting, f"!{program}" if setting.startswith("alias") else str(program))
    (repository / ".git" / "hooks").mkdir(exist_ok=True)
    for hook in ("post-index-change", "fsmonitor-watchman"):
        (repository / ".git" / "hooks" / hook).write_bytes(program.read_bytes())
        (repository / ".git" / "hooks" / hook).chmod(0o755)
    (repository / "git").write_bytes(program.read_bytes())
    (repository / "git").chmod(0o755)
    os.utime(repository / "a.txt", (1, 1))  # git has to read the file
    index = (repository / ".git" / "index").read_bytes()

    assert state_of(repository)["dirty"] is False  # type: ignore[index]
    assert not marker.exists()
    assert (repository / ".git" / "index").read_bytes() == index
    git(repository, "status", "--porcelain")
    assert marker.exists(), "a plain `git status` runs the program, so this test can fail"


def test_without_a_commit_or_with_odd_files_there_is_no_state(tmp_path: Path, repository: Path) -> None:
    (tmp_path / "none").mkdir()
    git(tmp_path / "none", "init", "-q")
    assert state_of(tmp_path / "none") is None
    for content in (b"ref: refs/../../x\n", b"ref: elsewhere\n", b"\xff\xfe", b"", b"x" * 100_000):
        (repository / ".git" / "HEAD").write_bytes(content)
        assert state_of(repository) is None
    (repository / ".git" / "HEAD").unlink()
    os.mkfifo(repository / ".git" / "HEAD")
    assert state_of(repository) is None


def test_a_slow_or_missing_git_does_not_hold_up_the_run(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setattr(git_state, "PATIENCE", 0.05)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
    state = GitState(Checkout.near(repository))
    state.start()
    state.close()
    assert state.to_dict() == {"commit": commit, "branch": "main", "dirty": None}
    assert state._thread is not None
    state._thread.join(10)
    assert not state._thread.is_alive(), "the process was ended"

    monkeypatch.setenv("PATH", str(tmp_path))
    assert state_of(repository) == {"commit": commit, "branch": "main", "dirty": None}


def test_a_run_records_the_commit_it_started_from(capitals: Project) -> None:
    (capitals.root / ".git").rmdir()
    git(capitals.root, "init", "-q")
    git(capitals.root, "add", "-A")
    git(capitals.root, "commit", "-qm", "first")
    done = capitals.run("eval", "capitals.yaml", "--name", "baseline", "--experiment", "prompts", "--note", "as it was")
    assert done.returncode == 1, done.stderr
    manifest = capitals.manifest()
    labels = {key: manifest[key] for key in ("name", "experiment", "note")}
    assert labels == {"name": "baseline", "experiment": "prompts", "note": "as it was"}
    assert manifest["git"] == {"commit": git(capitals.root, "rev-parse", "HEAD"), "branch": "main", "dirty": False}
