"""Nodes get the files of a suite that they need, and no others."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv import git_state
from agentv.errors import AgentVError
from agentv.nodes import trees
from agentv.nodes.trees import MB, Tree, link_problem, read_pieces, read_tree, root_of
from tests.test_git_state import git

CANARY = "canary-5f1c"


def write(root: Path, *names: str, text: str = "x") -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def paths(tree: Tree) -> list[str]:
    return [file.path for file in tree.files]


def reasons(tree: Tree) -> dict[str, str]:
    return {item.path: item.reason for item in tree.left_out}


def tree_of(root: Path, **options: object) -> Tree:
    return read_tree(root, **{"max_bytes": 100 * MB, **options})  # type: ignore[arg-type]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    write(root, "a.py", "evals/suite.yaml", "evals/ä ö\n.txt")
    write(root, ".gitignore", text="ignored*\n")
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    return root


TRACKED = [".gitignore", "a.py", "evals/suite.yaml", "evals/ä ö\n.txt"]


def test_tracked_and_untracked_files_are_read_but_not_ignored_ones(repository: Path) -> None:
    write(repository, "new.py", "ignored.txt", "evals/ignored/x.py", "node_modules/tracked-by-choice.js")
    (repository / "a.py").unlink()
    tree = tree_of(repository)
    assert paths(tree) == sorted({*TRACKED, "new.py", "node_modules/tracked-by-choice.js"} - {"a.py"})
    assert tree.left_out == ()


def test_only_files_below_the_root_are_read(repository: Path) -> None:
    write(repository, "evals/ignored.txt")
    assert paths(tree_of(repository / "evals")) == ["suite.yaml", "ä ö\n.txt"]
    assert root_of(repository / "evals") == repository


def test_repository_without_commits_or_with_an_excludes_file_is_listed(tmp_path: Path) -> None:
    root = tmp_path / "empty"
    write(root, "a.py", "b.secret", "c.local")
    git(root, "init", "-q")
    (root / ".git" / "info" / "exclude").write_text("*.local\n")
    write(tmp_path, "ignore", text="*.secret\n")
    git(root, "config", "core.excludesFile", str(tmp_path / "ignore"))
    assert paths(tree_of(root)) == ["a.py"]


@pytest.mark.parametrize("arguments", [["update-index", "--split-index"], ["pack-refs", "--all"]])
def test_repository_in_another_format_is_listed(repository: Path, arguments: list[str]) -> None:
    git(repository, *arguments)
    assert paths(tree_of(repository)) == TRACKED
    git(repository, "worktree", "add", "-q", "../other")
    assert paths(tree_of(repository.parent / "other")) == TRACKED


def test_repository_with_sha256_is_listed(tmp_path: Path) -> None:
    write(tmp_path, "a.py", "ignored.py")
    write(tmp_path, ".gitignore", text="ignored*")
    git(tmp_path, "init", "-q", "--object-format=sha256")
    git(tmp_path, "add", "-A")
    assert paths(tree_of(tmp_path)) == [".gitignore", "a.py"]


def test_submodules_are_read_with_their_own_ignored_files(repository: Path) -> None:
    module = repository.parent / "module"
    write(module, "m.py")
    write(module, ".gitignore", text="private\n")
    git(module, "init", "-q")
    git(module, "add", "-A")
    git(module, "commit", "-qm", "first")
    git(repository, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(module), "lib/module")
    write(repository, "lib/module/private", "lib/module/.env", text=CANARY)
    names = ["lib/module/.gitignore", "lib/module/m.py"]
    tree = tree_of(repository)
    assert paths(tree) == sorted([*TRACKED, ".gitmodules", *names])
    assert list(reasons(tree)) == ["lib/module/.env"]


def test_programs_of_the_repository_are_not_run(repository: Path) -> None:
    marker = repository.parent / "marker"
    program = repository / "program.sh"
    program.write_text(f"#!/bin/sh\necho ran >> {marker}\ncat\n")
    program.chmod(0o755)
    write(repository, ".gitattributes", text="* filter=evil\n")
    for setting in ("core.fsmonitor", "core.pager", "filter.evil.clean", "filter.evil.process", "core.sshCommand"):
        git(repository, "config", setting, str(program))
    for hook in ("post-index-change", "fsmonitor-watchman"):
        (repository / ".git" / "hooks").mkdir(exist_ok=True)
        shutil.copy(program, repository / ".git" / "hooks" / hook)
    marker.unlink(missing_ok=True)
    index = (repository / ".git" / "index").read_bytes()
    assert "program.sh" in paths(tree_of(repository))
    assert not marker.exists()
    assert (repository / ".git" / "index").read_bytes() == index


def test_damaged_index_is_an_error_and_not_a_reason_to_ship_ignored_files(repository: Path) -> None:
    (repository / ".git" / "index").write_bytes(b"nonsense" * 10)
    with pytest.raises(AgentVError, match="git cannot list the files of") as caught:
        tree_of(repository)
    assert "Repair the repository" in str(caught.value)


def test_slow_git_is_an_error(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_state, "LIST_SECONDS", 0.0)
    with pytest.raises(AgentVError, match="took longer than 0 seconds"):
        tree_of(repository)


SECRET = [".env", ".env.local", ".envrc", ".ENV", "evals/.env", "evals/.env.d/key", "evals/.Env.prod"]


@pytest.mark.parametrize("in_git", [True, False])
def test_secrets_git_and_runs_are_never_shipped(repository: Path, *, in_git: bool) -> None:
    runs = [".agentv/runs/1/rows", "out/run.json", "out/results.jsonl", "out/deep/x", "nested/.git/config"]
    write(repository, *SECRET, *runs, text=CANARY)
    if in_git:
        git(repository, "rm", "-rq", "--cached", "-f", "a.py")
        git(repository, "add", "-A", "-f", *SECRET, *runs[:-1])
    else:
        shutil.rmtree(repository / ".git")
    tree = tree_of(repository)
    assert paths(tree) == TRACKED
    assert CANARY.encode() not in b"".join(b"".join(read_pieces(tree, file.sha256)) for file in tree.files)
    assert hashlib.sha256(CANARY.encode()).hexdigest().encode() not in tree.manifest()
    assert reasons(tree)[".env"] == "`.env` is never shipped"
    assert reasons(tree)["evals/.env.d"] == "`.env.d` is never shipped"
    assert reasons(tree)["out"] == reasons(tree)[".agentv"] == "a run directory"
    with pytest.raises(AgentVError, match="do not include"):
        tree.blob(hashlib.sha256(CANARY.encode()).hexdigest())


def test_run_in_the_root_is_left_out_without_the_other_files(tmp_path: Path) -> None:
    write(tmp_path, "suite.yaml", "sub/results.jsonl", "cases.jsonl")
    assert paths(tree_of(tmp_path)) == ["cases.jsonl", "sub/results.jsonl", "suite.yaml"]
    write(tmp_path, "run.json", "results.jsonl", "judge_calls.jsonl")
    assert paths(tree_of(tmp_path)) == ["sub/results.jsonl", "suite.yaml"]


def test_directories_of_tools_are_left_out_without_git(tmp_path: Path) -> None:
    write(tmp_path, "a.py", "__pycache__/a.pyc", "web/node_modules/x.js", "env/pyvenv.cfg", "env/bin/python")
    tree = tree_of(tmp_path)
    assert paths(tree) == ["a.py"]
    assert sorted(reasons(tree)) == ["__pycache__", "env", "web/node_modules"]


def test_all_files_are_read_if_git_is_not_installed(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(repository))
    write(repository, "ignored.txt", "__pycache__/x.pyc")
    assert paths(tree_of(repository)) == sorted([*TRACKED, "ignored.txt"])


def test_paths_to_leave_out_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, "a.py", "b.py", "out/x", "out2/x")
    tree = tree_of(tmp_path, leave_out=[tmp_path / "b.py", Path("out"), tmp_path / "sub" / ".." / "none"])
    assert paths(tree) == ["a.py", "out2/x"]
    assert sorted(reasons(tree)) == ["b.py", "out"]


def test_links_are_shipped_only_if_they_lead_to_shipped_files(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write(root, "a.py", "d/b.py", ".env")
    write(tmp_path, "secret", text=CANARY)
    links = {
        "good": "./a.py",
        "d/up": "../a.py",
        "dir": "d",
        "deep": "dir/b.py",
        "outside": "../secret",
        "absolute": str(root / "a.py"),
        "environment": ".env",
        "dangling": "none",
        "loop": "loop",
        "d/twice": "../dir/../a.py",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    tree = tree_of(root)
    assert {file.path: file.link for file in tree.files if file.link} == {
        "good": "a.py",
        "d/up": "../a.py",
        "dir": "d",
        "deep": "dir/b.py",
    }
    assert reasons(tree)["outside"] == "it is a link that leaves the tree"
    assert reasons(tree)["absolute"].startswith("it is an absolute link")
    assert reasons(tree)["environment"] == "it is a link to '.env', where `.env` is never shipped"
    assert reasons(tree)["dangling"] == reasons(tree)["loop"] == "it is a link to something that is not shipped"
    assert "not relative to the tree" in reasons(tree)["d/twice"]


def test_tracked_file_behind_a_link_is_not_read(repository: Path) -> None:
    outside = repository.parent / "outside"
    write(outside, "suite.yaml", text=CANARY)
    shutil.rmtree(repository / "evals")
    (repository / "evals").symlink_to(outside)
    tree = tree_of(repository)
    assert paths(tree) == [".gitignore", "a.py"]
    assert reasons(tree) == {"evals": "it is an absolute link; a link must be relative"}


def test_link_over_a_link_cannot_leave_the_tree() -> None:
    assert link_problem("m", "d/l/..") is not None  # with d/l -> .. this would be the parent of the root
    assert link_problem("d/l", "..") is None
    assert link_problem("d/l", "../..") is not None
    assert link_problem("l", "/etc/passwd") is not None
    assert link_problem("l", "") is not None


@pytest.mark.parametrize("in_git", [True, False])
def test_pipes_and_names_that_are_not_utf8_are_left_out(tmp_path: Path, *, in_git: bool) -> None:
    if in_git:
        git(tmp_path, "init", "-q")
    write(tmp_path, "a.py")
    os.mkfifo(tmp_path / "pipe")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.txt")).write_text("x")
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xfe"))
    folder.mkdir()
    (folder / "x").write_text("x")
    tree = tree_of(tmp_path)
    assert paths(tree) == ["a.py"]
    assert reasons(tree)["\\xff.txt"] == "its name is not UTF-8"
    assert in_git or reasons(tree)["pipe"] == "it is a named pipe"  # git does not list pipes


def test_hash_depends_on_names_contents_and_modes_but_not_on_the_place(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "elsewhere" / "other"
    write(one, "b.py", "a.py")
    write(other, "a.py", "b.py")
    same = tree_of(one)
    assert same.hash == tree_of(other).hash == hashlib.sha256(same.manifest()).hexdigest()
    assert same.manifest() == tree_of(other).manifest()
    assert str(one).encode() not in same.manifest()
    (other / "a.py").chmod(0o755)
    executable = tree_of(other)
    assert [file.executable for file in executable.files] == [True, False]
    write(one, "a.py", text="y")
    changed = tree_of(one)
    (one / "a.py").rename(one / "c.py")
    assert len({same.hash, executable.hash, changed.hash, tree_of(one).hash}) == 4


def test_pieces_are_the_contents_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(range(256)) * 10)
    write(tmp_path, "empty", text="")
    tree = tree_of(tmp_path)
    digests = {file.path: file.sha256 for file in tree.files}
    pieces = list(read_pieces(tree, digests["a"], 1000))
    assert [len(piece) for piece in pieces] == [1000, 1000, 560]
    assert b"".join(pieces) == (tmp_path / "a").read_bytes()
    assert list(read_pieces(tree, digests["empty"])) == [b""]
    assert tree.size == 2560


@pytest.mark.parametrize("change", ["same length", "longer", "deleted", "link", "pipe"])
def test_changed_file_is_an_error_before_its_last_piece(tmp_path: Path, change: str) -> None:
    path = tmp_path / "a"
    path.write_text("a" * 1000)
    tree = tree_of(tmp_path)
    if change in ("deleted", "link", "pipe"):
        path.unlink()
    if change == "link":
        (tmp_path / "b").write_text("a" * 1000)
        path.symlink_to("b")
    elif change == "pipe":
        os.mkfifo(path)
    elif change != "deleted":
        path.write_text("b" * (1000 if change == "same length" else 1001))
    pieces: list[bytes] = []  # also those before the error
    with pytest.raises(AgentVError, match="has changed since the run started") as caught:
        pieces.extend(read_pieces(tree, tree.files[0].sha256, 400))
    assert len(b"".join(pieces)) < 1000
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("in_git", [True, False])
def test_too_large_tree_is_an_error_with_the_ten_largest_files(tmp_path: Path, *, in_git: bool) -> None:
    if in_git:
        git(tmp_path, "init", "-q")
    for n in range(12):
        (tmp_path / f"f{n:02}.bin").write_bytes(b"x" * (n + 1) * 100_000)
    with pytest.raises(AgentVError) as caught:
        read_tree(tmp_path, max_bytes=2 * MB)
    text = str(caught.value)
    assert "has 7.8 MB in 12 files to ship to nodes; the limit is 2.0 MB" in text
    assert [line.split() for line in text.splitlines() if line.startswith("  ")] == [
        [f"{(n + 1) / 10:.1f}", "MB", f"f{n:02}.bin"] for n in range(11, 1, -1)
    ]
    assert "nodes.max_ship_mb" in text
    assert "`files: shared`" in text
    assert ("untracked files only" if in_git else "git init") in text
    assert read_tree(tmp_path, max_bytes=7_800_000).size == 7_800_000


def test_too_many_files_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "MAX_FILES", 2)
    write(tmp_path, "a", "b", "c")
    with pytest.raises(AgentVError, match="has 3 files to ship to nodes; the limit is 2"):
        tree_of(tmp_path)


def test_ten_megabytes_in_200_files_are_read_quickly(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    for n in range(200):
        (tmp_path / f"{n}.bin").write_bytes(os.urandom(50_000))
    spent = []
    for _ in range(3):
        before = time.process_time()
        assert len(tree_of(tmp_path).files) == 200
        spent.append(time.process_time() - before)
    assert min(spent) < 0.3


NAMES = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(st.dictionaries(NAMES.filter(lambda name: name not in (".", "..")), st.binary(max_size=50), max_size=5))
def test_any_names_are_read_or_left_out(files: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, data in files.items():
            (root / name).write_bytes(data)
        tree = tree_of(root)
        read = {file.path: b"".join(read_pieces(tree, file.sha256)) for file in tree.files}
        assert read == {name: data for name, data in files.items() if not trees.is_reserved(name)}
        assert {item.path for item in tree.left_out} == files.keys() - read.keys()
