"""A node stores exactly the files of a manifest, and refuses everything else that arrives."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.nodes import tree_store
from agentv.nodes.tree_store import TreeRefusedError, TreeStore, default_directory, read_manifest
from agentv.nodes.trees import MB, Tree, TreeFile, is_reserved, manifest_of, read_pieces, read_tree

EMPTY = hashlib.sha256(b"").hexdigest()


def sample(root: Path, text: str = "one") -> Tree:
    (root / "lib" / "deep").mkdir(parents=True, exist_ok=True)
    (root / "run.py").write_text(text)
    (root / "run.py").chmod(0o755)
    (root / "lib" / "deep" / "ä ö.txt").write_text("two")
    (root / "lib" / "same.txt").write_text("two")
    (root / "empty").write_text("")
    if not (root / "lib" / "link").is_symlink():
        (root / "lib" / "link").symlink_to("../run.py")
    return read_tree(root, max_bytes=100 * MB)


def ship(tree: Tree, store: TreeStore, size: int = 2) -> None:
    for sha256 in store.missing(tree.manifest()):
        pieces = list(read_pieces(tree, sha256, size))
        for n, piece in enumerate(pieces, 1):
            store.add(sha256, piece, last=n == len(pieces))


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return sample(tmp_path / "driver")


@pytest.fixture
def store(tmp_path: Path) -> TreeStore:
    return TreeStore(tmp_path / "cache" / "nodes")


def contents(root: Path) -> dict[str, tuple[int, bytes | str]]:
    """Mode, and contents or target, of everything below a directory."""
    return {
        str(path.relative_to(root)): (
            (0, str(path.readlink()))
            if path.is_symlink()
            else (stat.S_IMODE(path.stat().st_mode), b"" if path.is_dir() else path.read_bytes())
        )
        for path in root.rglob("*")
    }


def test_built_tree_has_exactly_the_files_and_is_read_only(tree: Tree, store: TreeStore) -> None:
    ship(tree, store)
    path = store.build(tree.manifest())
    assert path == store.directory / "trees" / tree.hash
    assert contents(path) == {
        "run.py": (0o555, b"one"),
        "empty": (0o444, b""),
        "lib": (0o555, b""),
        "lib/deep": (0o555, b""),
        "lib/deep/ä ö.txt": (0o444, b"two"),
        "lib/same.txt": (0o444, b"two"),
        "lib/link": (0, "../run.py"),
    }
    assert stat.S_IMODE(path.stat().st_mode) == 0o555
    assert list(store._trees.iterdir()) == [path]
    assert list(store._partial.iterdir()) == []
    assert read_tree(path, max_bytes=MB).hash == tree.hash


def test_only_missing_contents_are_requested(tree: Tree, store: TreeStore, tmp_path: Path) -> None:
    digests = [hashlib.sha256(data).hexdigest() for data in (b"", b"two", b"one")]
    assert store.missing(tree.manifest()) == digests
    ship(tree, store)
    assert store.missing(tree.manifest()) == []
    changed = sample(tmp_path / "driver", "changed")
    assert TreeStore(store.directory).missing(changed.manifest()) == [hashlib.sha256(b"changed").hexdigest()]


def test_files_of_a_tree_are_copies(tree: Tree, store: TreeStore) -> None:
    ship(tree, store)
    script = store.build(tree.manifest()) / "run.py"
    script.chmod(0o755)
    script.write_text("damaged")
    assert store._blob(hashlib.sha256(b"one").hexdigest()).read_bytes() == b"one"


def test_tree_with_missing_or_damaged_contents_is_not_built(tree: Tree, store: TreeStore) -> None:
    with pytest.raises(TreeRefusedError, match="contents of 3 files are missing") as caught:
        store.build(tree.manifest())
    assert sorted(caught.value.missing) == sorted(store.missing(tree.manifest()))
    ship(tree, store)
    one = hashlib.sha256(b"one").hexdigest()
    store._blob(one).chmod(0o600)
    store._blob(one).write_bytes(b"ONE")
    with pytest.raises(TreeRefusedError) as caught:
        store.build(tree.manifest())
    assert caught.value.missing == (one,)
    assert store.missing(tree.manifest()) == [one]
    assert list(store._trees.iterdir()) == []
    ship(tree, store)
    assert (store.build(tree.manifest()) / "run.py").read_text() == "one"


@pytest.mark.parametrize(
    ("pieces", "message"),
    [([b"on", b"E"], "not those that were announced"), ([b"o"], "1 byte instead of 3"), ([b"on", b"es"], "larger")],
)
def test_wrong_contents_are_refused_and_can_be_sent_again(
    tree: Tree, store: TreeStore, pieces: list[bytes], message: str
) -> None:
    store.missing(tree.manifest())
    one = hashlib.sha256(b"one").hexdigest()
    for piece in pieces[:-1]:
        store.add(one, piece, last=False)
    with pytest.raises(TreeRefusedError, match=message):
        store.add(one, pieces[-1], last=True)
    assert list(store._partial.iterdir()) == []
    assert one in store.missing(tree.manifest())
    store.add(one, b"one", last=True)
    assert one not in store.missing(tree.manifest())


def test_contents_that_were_not_requested_are_refused(tree: Tree, store: TreeStore) -> None:
    for sha256 in ("0" * 64, "../../x", ""):
        with pytest.raises(TreeRefusedError, match="not requested"):
            store.add(sha256, b"x", last=True)
    ship(tree, store)
    with pytest.raises(TreeRefusedError, match="not requested"):
        store.add(hashlib.sha256(b"one").hexdigest(), b"one", last=True)


def test_interrupted_contents_start_again_after_missing_or_close(tree: Tree, store: TreeStore) -> None:
    one = hashlib.sha256(b"one").hexdigest()
    store.missing(tree.manifest())
    store.add(one, b"o", last=False)
    ship(tree, store)
    assert (store.build(tree.manifest()) / "run.py").read_text() == "one"
    store._blob(one).unlink()
    store.missing(tree.manifest())
    store.add(one, b"o", last=False)
    store.close()
    assert list(store._partial.iterdir()) == []


def test_only_some_contents_may_arrive_at_the_same_time(store: TreeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_store, "MAX_ARRIVING", 1)
    digests = [hashlib.sha256(name.encode()).hexdigest() for name in "ab"]
    files = [TreeFile(name, 1, sha256, executable=False) for name, sha256 in zip("ab", digests, strict=True)]
    store.missing(manifest_of(files))
    store.add(digests[0], b"", last=False)
    with pytest.raises(TreeRefusedError, match="at most 1 files may arrive"):
        store.add(digests[1], b"b", last=True)
    store.add(digests[0], b"a", last=True)
    store.add(digests[1], b"b", last=True)


def test_full_disk_is_reported(tmp_path: Path) -> None:
    code = f"""
import hashlib, pathlib, resource
from agentv.nodes.tree_store import TreeRefusedError, TreeStore
from agentv.nodes.trees import TreeFile, manifest_of
data = bytes(100_000)
sha256 = hashlib.sha256(data).hexdigest()
store = TreeStore(pathlib.Path({str(tmp_path / "cache")!r}))
store.missing(manifest_of([TreeFile("a", len(data), sha256, executable=False)]))
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, resource.RLIM_INFINITY))
store.add(sha256, data[:40_000], last=False)
try:
    store.add(sha256, data[40_000:], last=True)
except TreeRefusedError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert f"the disk is full: the files of the suite cannot be stored in {tmp_path / 'cache'}" in done.stdout
    assert "Free space on this node" in done.stdout
    assert list((tmp_path / "cache" / "partial").iterdir()) == []


BUILD = """
import sys, pathlib
from agentv.nodes.tree_store import TreeStore
store = TreeStore(pathlib.Path(sys.argv[1]))
print("ready", flush=True)
manifest = sys.stdin.buffer.read()
print(store.build(manifest))
"""


def test_processes_that_build_the_same_tree_get_the_same_directory(tmp_path: Path, store: TreeStore) -> None:
    source = tmp_path / "driver"
    source.mkdir()
    for n in range(300):
        (source / f"{n}.txt").write_text(str(n))
    tree = read_tree(source, max_bytes=MB)
    ship(tree, store)
    command = [sys.executable, "-c", BUILD, str(store.directory)]
    builders = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(4)
    ]
    for builder in builders:
        assert builder.stdout is not None
        assert builder.stdout.readline() == b"ready\n"
    for builder in builders:
        assert builder.stdin is not None
        builder.stdin.write(tree.manifest())
        builder.stdin.close()
        builder.stdin = None
    path = store.directory / "trees" / tree.hash
    assert [builder.communicate(timeout=60) for builder in builders] == [(f"{path}\n".encode(), b"")] * 4
    assert {name: int(text) for name, (_, text) in contents(path).items()} == {f"{n}.txt": n for n in range(300)}
    assert list(store._trees.iterdir()) == [path]


def aged(path: Path, seconds: float) -> None:
    os.utime(path, (time.time() - seconds,) * 2, follow_symlinks=False)


def test_least_recently_used_trees_are_pruned_but_not_held_ones(tmp_path: Path) -> None:
    store = TreeStore(tmp_path / "cache")
    built = []
    for age, name in ((300, "held"), (200, "old"), (100, "new")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_bytes(name.encode() * 1000)
        tree = read_tree(tmp_path / name, max_bytes=MB)
        ship(tree, store, 1000)
        built.append(store.build(tree.manifest()))
        for blob in store._blobs.glob("??/*"):
            aged(blob, 1000)
        aged(built[-1], age)
    held, old, new = built
    store.prune()
    assert all(path.is_dir() for path in built)
    small = TreeStore(tmp_path / "cache", max_bytes=8000)
    with store.hold(held):
        aged(held, 300)
        small.prune()
        assert list(store._blobs.glob("??/*")) == []
        assert (held.is_dir(), old.is_dir(), new.is_dir()) == (True, False, True)
        TreeStore(tmp_path / "cache", max_bytes=0).prune()
        assert (held.is_dir(), new.is_dir()) == (True, False)
    TreeStore(tmp_path / "cache", max_bytes=0).prune()
    assert not held.exists()
    assert list(store._trees.iterdir()) == list(store._locks.iterdir()) == []
    with (
        pytest.raises(TreeRefusedError, match="was removed from the cache"),
        store.hold(held),
    ):
        pass


def test_tree_held_by_another_process_is_not_pruned(tree: Tree, store: TreeStore) -> None:
    ship(tree, store)
    path = store.build(tree.manifest())
    code = (
        "import sys, pathlib; from agentv.nodes.tree_store import TreeStore\n"
        "with TreeStore(pathlib.Path(sys.argv[1])).hold(pathlib.Path(sys.argv[2])): print(1, flush=True); input()"
    )
    command = [sys.executable, "-c", code, str(store.directory), str(path)]
    pruning = TreeStore(store.directory, max_bytes=0)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        pruning.prune()
        assert path.is_dir()
        holder.kill()
    pruning.prune()
    assert not path.exists()


def test_remains_of_killed_processes_are_pruned_but_not_work_in_progress(tree: Tree, store: TreeStore) -> None:
    store.missing(tree.manifest())
    one = hashlib.sha256(b"one").hexdigest()
    store.add(one, b"o", last=False)
    left, young = store._partial / "left", store._partial / "young"
    for path in (left, young):
        path.write_text("x")
    for path in (left, next(store._partial.glob(f"{one}*"))):
        aged(path, 3600)
    building, unfinished = (store._trees / f".new-{digit * 64}-x" for digit in "01")
    for path in (building, unfinished):
        (path / "a").mkdir(parents=True)
        (path / "a").chmod(0o555)
    with store._locked("0" * 64):
        store.prune()
    assert not left.exists()
    assert young.exists()
    assert building.exists()
    assert not unfinished.exists()
    store.add(one, b"ne", last=True)


def test_using_keeps_the_tree_from_before_it_is_built(tree: Tree, store: TreeStore) -> None:
    ship(tree, store)
    with store.using(tree.manifest()) as path:
        TreeStore(store.directory, max_bytes=0).prune()
        assert (path / "run.py").read_text() == "one"


def test_only_built_trees_can_be_held(store: TreeStore, tmp_path: Path) -> None:
    for path in (tmp_path, store._trees / ".." / "x", store._trees / "x"):
        with pytest.raises(TreeRefusedError, match="that `build` returned"), store.hold(path):
            pass


def test_directory_is_private(store: TreeStore, tmp_path: Path) -> None:
    assert stat.S_IMODE(store.directory.stat().st_mode) == 0o700
    open_directory = tmp_path / "open"
    open_directory.mkdir()
    for mode in (0o777, 0o770, 0o1777):
        open_directory.chmod(mode)
        with pytest.raises(TreeRefusedError, match=f"can be written by other users .mode {mode:04o}."):
            TreeStore(open_directory)
    assert list(open_directory.iterdir()) == []
    (tmp_path / "link").symlink_to(store.directory)
    with pytest.raises(TreeRefusedError, match="is not a directory"):
        TreeStore(tmp_path / "link")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir(mode=0o700)
    os.chown(tmp_path / "other", 12345, -1)
    with pytest.raises(TreeRefusedError, match=r"belongs to another user \(12345\)"):
        TreeStore(tmp_path / "other")


def test_default_directory_is_in_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert default_directory() == tmp_path / ".cache" / "agentv" / "nodes"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert default_directory() == tmp_path / "x" / "agentv" / "nodes"
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/none")
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file" / "x"))
    assert default_directory() == Path(tempfile.gettempdir()) / f"agentv-nodes-{os.getuid()}"


def entry(path: Any = "a", **changes: Any) -> dict[str, Any]:
    return {"path": path, "size": 0, "sha256": EMPTY, "executable": False, **changes}


def encoded(*files: Any, **changes: Any) -> bytes:
    value = {"agentv_tree": 1, "files": list(files), **changes}
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def test_hand_written_manifest_is_accepted() -> None:
    files = read_manifest(encoded(entry("a"), entry("b/c"), {"path": "d", "link": "b/c"}))
    assert [file.path for file in files] == ["a", "b/c", "d"]


HOSTILE: dict[str, bytes] = {
    "empty": b"",
    "not JSON": b"{",
    "list": b"[]",
    "deep": b"[" * 5000,
    "no files": b'{"agentv_tree":1}',
    "files as an object": encoded(files={}),
    "unknown version": encoded(agentv_tree=2),
    "version as true": encoded(agentv_tree=True),
    "other field": encoded(x=1),
    "whitespace": encoded(entry()) + b" ",
    "other order": json.dumps({"files": [], "agentv_tree": 1}, separators=(",", ":")).encode(),
    "field of a file": encoded(entry(mode=0o4755)),
    "file as text": encoded("a"),
    "unsorted": encoded(entry("b"), entry("a")),
    "duplicate": encoded(entry("a"), entry("a")),
    "file and directory": encoded(entry("a"), entry("a.b"), entry("a/b")),
    "file behind a link": encoded({"path": "a", "link": "b"}, entry("a/x"), entry("b/y")),
    "number as a path": encoded(entry(1)),
    "surrogate": encoded(entry("\ud800")),
    "link as null": encoded({"path": "a", "link": None}),
    "two sizes": encoded(entry("a"), entry("b", size=1)),
    "too large": encoded(entry("a", size=6 * 1024**3)),
    **{f"path {path!r}": encoded(entry(path)) for path in (
        "", ".", "..", "/a", "../a", "a/../b", "a/./b", "a//b", "a/", "a\0", ".git/config", "x/.GIT", ".env",
        "x/.env.local", ".envrc", ".Env", ".agentv/x", "n" * 256, "d/" * 64 + "a", "/".join(["n" * 200] * 6),
    )},
    **{f"link {link!r}": encoded({"path": "d/a", "link": link}) for link in (
        "", "/", "/etc/passwd", "../..", "../../x", "x/..", "../x/../../y", ".", "./x", "x/", "x//y", "x\0",
        "../.env", ".git",
    )},
    **{f"size {size!r}": encoded(entry(size=size)) for size in (-1, 1.0, True, "1", None, 10**30)},
    **{f"digest {digest!r}": encoded(entry(sha256=digest)) for digest in (
        "", "A" * 64, EMPTY + "0", EMPTY + "\n", None, "../x",
    )},
    **{f"executable {value!r}": encoded(entry(executable=value)) for value in (0, 1, None, "true")},
}  # fmt: skip


@pytest.mark.parametrize("manifest", HOSTILE.values(), ids=HOSTILE)
def test_hostile_manifest_is_refused(store: TreeStore, manifest: bytes) -> None:
    for use in (store.missing, store.build):
        with pytest.raises(TreeRefusedError):
            use(manifest)
    assert list(store._trees.iterdir()) == []


def test_manifest_over_a_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = encoded(entry("a/b"), entry("c/d"), entry("e"))
    read_manifest(manifest)
    with pytest.raises(TreeRefusedError, match="have 7 bytes"):
        read_manifest(encoded(entry(size=7)), max_bytes=6)
    monkeypatch.setattr(tree_store, "MAX_FILES", 2)
    with pytest.raises(TreeRefusedError, match="at most 2 files, got 3"):
        read_manifest(manifest)
    with pytest.raises(TreeRefusedError, match="at most 2 directories"):
        read_manifest(encoded(entry("a/b/c/d")))
    monkeypatch.setattr(tree_store, "MAX_MANIFEST_BYTES", 10)
    with pytest.raises(TreeRefusedError, match="at most 10 bytes"):
        read_manifest(manifest)


WORDS = st.sampled_from(["a", "b", "..", ".", "", ".git", ".env", "ä", "\0", "a\n"])
PATHS = st.lists(WORDS, max_size=5).map("/".join)
ENTRIES = st.one_of(
    PATHS.map(entry),
    st.builds(lambda path, link: {"path": path, "link": link}, PATHS, PATHS),
    st.builds(lambda path, size: entry(path, size=size), PATHS, st.integers(-1, 5)),
)


@given(st.lists(ENTRIES, max_size=6, unique_by=lambda item: item["path"]))
def test_accepted_manifest_stays_inside_the_tree(entries: list[dict[str, Any]]) -> None:
    manifest = encoded(*sorted(entries, key=lambda item: item["path"]))
    try:
        files = read_manifest(manifest)
    except TreeRefusedError:
        return
    assert manifest_of(files) == manifest
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "root").resolve()
        root.mkdir()
        for file in files:
            assert not any(is_reserved(name) for name in file.path.split("/"))
            (root / file.path).parent.mkdir(parents=True, exist_ok=True)
            if file.link is not None:
                (root / file.path).symlink_to(file.link)
            else:
                (root / file.path).touch()
        for file in files:
            real = os.path.realpath(root / file.path)
            assert real == str(root) or real.startswith(f"{root}/")


NAMES = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=9)
FILES = st.dictionaries(NAMES.filter(lambda name: name not in (".", "..") and not is_reserved(name)), st.binary())


@given(FILES, st.integers(1, 50))
def test_any_files_arrive_unchanged(files: dict[str, bytes], size: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "root")
        root.mkdir()
        for name, data in files.items():
            (root / name).write_bytes(data)
        tree = read_tree(root, max_bytes=MB)
        store = TreeStore(Path(folder, "cache"))
        ship(tree, store, size)
        path = store.build(tree.manifest())
        assert {name: data for name, (_, data) in contents(path).items()} == files
        TreeStore(store.directory, max_bytes=0).prune()
        assert path.exists() == (not any(files.values()))  # an empty tree takes no space
