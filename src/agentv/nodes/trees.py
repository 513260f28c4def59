"""The files of a suite that nodes need: which ones, with their digests, and their contents in pieces.

In a git repository these are the tracked files and the untracked files that are not ignored; elsewhere, all files
except those in directories that tools create (`TOOL_DIRECTORIES`, and virtual environments). These are never shipped:

- files and directories whose name starts with `.env`, and `.git` (`is_reserved`)
- run directories: `.agentv`, and directories with a `run.json` and a `results.jsonl`
- symbolic links that are absolute, leave the tree, or do not lead to a shipped file or directory
- pipes, sockets, devices, and names that are not UTF-8
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentv.errors import AgentVError
from agentv.git_state import GitListError, listed_files
from agentv.jsonio import strict_line
from agentv.regular_files import FileUnusableError, kind_of, open_regular
from agentv.suite.files import repository_root
from agentv.text import plural, without_controls

VERSION = 1
"""Of the manifest."""
MB = 10**6
PIECE = 4 * 2**20
MAX_FILES = 100_000
MAX_PATH_BYTES = 1_024
MAX_NAME_BYTES = 255
MAX_DEPTH = 64
"""Names in a path."""
RUN_DIRECTORY = ".agentv"
TOOL_DIRECTORIES = frozenset(
    {
        "__pycache__",
        ".venv",
        "node_modules",
        ".mypy_cache",
        ".ruff_cache",
        ".pytest_cache",
        ".hypothesis",
        ".tox",
        ".nox",
        ".ipynb_checkpoints",
        ".hg",
        ".svn",
    }
)
"""Left out where git does not say which files are ignored, like directories with a `pyvenv.cfg`."""
_RUN_FILES = frozenset({"run.json", "results.jsonl"})
_RECORD_FILES = _RUN_FILES | {
    "results.corrupt.jsonl",
    "superseded.jsonl",
    "judge_calls.jsonl",
    "cases.jsonl",
    "answers.jsonl",
    "labels.jsonl",
}
_NAMED = 10
"""The largest files in a message."""
_RUN = "a run directory"


@dataclass(frozen=True, slots=True)
class TreeFile:
    """A file of a tree, or a symbolic link."""

    path: str
    """Relative to the root, with `/`."""
    size: int
    sha256: str
    """Empty for a link."""
    executable: bool
    link: str | None = None
    """The target of a symbolic link, relative to its directory."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file or directory that is not shipped."""

    path: str
    reason: str

    @property
    def expected(self) -> bool:
        """Whether it is one of the files that are never shipped, such as `.env` and run directories."""
        return self.reason == _RUN or any(is_reserved(name) for name in self.path.split("/"))


@dataclass(frozen=True, slots=True)
class Tree:
    """The files of a directory, as they were when they were read."""

    root: Path
    files: tuple[TreeFile, ...]
    """Sorted by path."""
    hash: str
    """The SHA-256 of the manifest."""
    left_out: tuple[LeftOut, ...] = ()
    _names: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Digest -> path of a file with these contents."""

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def manifest(self) -> bytes:
        """The files as canonical JSON: equal trees have equal manifests, wherever they are."""
        return manifest_of(self.files)

    def blob(self, sha256: str) -> Path:
        """A file with these contents. AgentVError if the tree contains none."""
        try:
            return self.root / self._names[sha256]
        except KeyError:
            raise AgentVError(f"the files of {self.root} do not include {sha256[:64]!r}") from None


def manifest_of(files: Iterable[TreeFile]) -> bytes:
    """The canonical manifest of files that are sorted by path."""
    listed: list[dict[str, Any]] = [
        {"path": file.path, "size": file.size, "sha256": file.sha256, "executable": file.executable}
        if file.link is None
        else {"path": file.path, "link": file.link}
        for file in files
    ]
    line = strict_line({"agentv_tree": VERSION, "files": listed})
    if line is None:
        raise AgentVError("the names of files must be UTF-8")
    return line.encode()


# -- rules that the driver and the node share


def is_reserved(name: str) -> bool:
    """Whether files and directories with this name are never shipped."""
    name = name.casefold()
    return name.startswith(".env") or name in (".git", RUN_DIRECTORY)


def path_problem(path: str) -> str | None:
    """Why a path cannot be shipped; None if it can."""
    names = path.split("/")
    if "\0" in path or any(name in ("", ".", "..") for name in names):
        return "its path is not relative to the tree"
    try:
        if len(path.encode()) > MAX_PATH_BYTES or any(len(name.encode()) > MAX_NAME_BYTES for name in names):
            return f"its path is longer than {MAX_PATH_BYTES:,} bytes, or a name than {MAX_NAME_BYTES}"
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    if len(names) > MAX_DEPTH:
        return f"it is more than {MAX_DEPTH} levels deep"
    reserved = next((name for name in names if is_reserved(name)), None)
    return None if reserved is None else f"`{reserved}` is never shipped"


def link_problem(path: str, target: str) -> str | None:
    """Why a link cannot be shipped; None if it stays inside the tree, whatever the other links are.

    `..` may only be at the start of a target: there it leads to the parents of a real directory. After the name of
    another link, it would lead to the parent of that link's target.
    """
    if target.startswith("/"):
        return "it is an absolute link; a link must be relative"
    names = target.split("/")
    ups = next((n for n, name in enumerate(names) if name != ".."), len(names))
    if ups > path.count("/"):
        return "it is a link that leaves the tree"
    rest = "/".join(names[ups:])
    if (rest or not ups) and (problem := path_problem(rest)) is not None:
        return f"it is a link to {without_controls(target)!r}, where {problem}"
    return None


def parents_of(path: str) -> Iterator[str]:
    """The directories above a path, the nearest first, without the root."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


# -- reading


def root_of(directory: Path) -> Path:
    """The root of the repository that contains the directory, otherwise the directory."""
    directory = directory.resolve()
    return repository_root(directory) or directory


def read_tree(root: Path, *, max_bytes: int, leave_out: Collection[Path] = ()) -> Tree:
    """The files below the root that nodes need, without `leave_out` (paths of files and directories).

    AgentVError when there are more than `max_bytes`, with the largest files, and when a file cannot be read.
    """
    root = root.resolve()
    selection = _Selection(root, {Path(os.path.normpath(root / path)) for path in leave_out})
    try:
        names = listed_files(root)
        in_git = names is not None
        selection.take(names if names is not None else _walked(root, selection))
    except GitListError as error:
        raise AgentVError(
            f"git cannot list the files of {root}: {error}",
            next_step="Repair the repository, or set `files: shared` if all nodes can read the files.",
        ) from None
    _check_size(root, selection.sizes, max_bytes, in_git=in_git)
    files = [_read(root, name) for name in selection.sizes]
    _check_size(root, {file.path: file.size for file in files}, max_bytes, in_git=in_git)  # they may have grown
    files += selection.usable_links()
    files.sort(key=lambda file: file.path)
    left_out = tuple(LeftOut(path, reason) for path, reason in sorted(selection.left_out.items()))
    digest = hashlib.sha256(manifest_of(files)).hexdigest()
    names_of = {file.sha256: file.path for file in files if file.link is None}
    return Tree(root, tuple(files), digest, left_out, names_of)


def read_pieces(tree: Tree, sha256: str, size: int = PIECE) -> Iterator[bytes]:
    """The contents of a file in pieces; one empty piece for an empty file.

    AgentVError if the contents have changed since. The last piece is read only after the digest of the
    file was compared, so the pieces of a changed file are never complete.
    """
    path = tree.blob(sha256)
    total = hashlib.sha256()
    try:
        with open_regular(path, follow_links=False) as file:
            piece = file.read(size)
            while True:
                total.update(piece)
                following = file.read(size)
                if not following:
                    break
                yield piece
                piece = following
    except FileUnusableError as error:
        raise _changed(path, f"it {error}") from None
    except OSError as error:
        raise _changed(path, f"it cannot be read: {error.strerror}") from None
    if total.hexdigest() != sha256:
        raise _changed(path, "its contents differ")
    yield piece


def _changed(path: Path, reason: str) -> AgentVError:
    return AgentVError(
        f"{path} has changed since the run started: {reason}",
        next_step="Resume the run, and do not change the files of the suite while nodes fetch them.",
    )


class _Selection:
    """The names that are shipped, and those that are left out, with the reason."""

    def __init__(self, root: Path, excluded: Set[Path]) -> None:
        self.root = root
        self.sizes: dict[str, int] = {}
        self.left_out: dict[str, str] = {}
        self._links: dict[str, str] = {}
        self._excluded = excluded
        self._directories: dict[str, bool] = {}

    def take(self, names: Iterable[bytes], above: str = "") -> None:
        """Select from names that are relative to the directory `above`."""
        for raw in names:
            try:
                name = above + raw.decode("utf-8")
            except UnicodeDecodeError:
                shown = without_controls(above + raw.decode("utf-8", "backslashreplace"))
                self.left_out[shown] = "its name is not UTF-8"
                continue
            self._take_one(name.rstrip("/"))

    def _take_one(self, name: str) -> None:
        if not all(self.enters(directory) for directory in reversed(list(parents_of(name)))):
            return
        path = self.root / name
        if (problem := self._problem(name)) is not None:
            self.left_out[name] = problem
            return
        try:
            status = path.lstat()
        except OSError:
            return  # a tracked file that was deleted
        if stat.S_ISDIR(status.st_mode):
            self._take_repository(name)
        elif stat.S_ISLNK(status.st_mode):
            self._links[name] = str(path.readlink())
        elif (kind := kind_of(status.st_mode)) is not None:
            self.left_out[name] = f"it is {kind}"
        else:
            self.sizes[name] = status.st_size

    def _take_repository(self, name: str) -> None:
        """Another repository inside this one, such as a submodule. Git lists it without its files."""
        directory = self.root / name
        if not self.enters(name) or not os.path.lexists(directory / ".git"):
            return  # a submodule that was not fetched
        try:
            self.take(listed_files(directory) or (), f"{name}/")
        except GitListError as error:
            self.left_out[name] = f"git cannot list its files: {error}"

    def enters(self, name: str) -> bool:
        """Whether the files of a directory may be shipped."""
        known = self._directories.get(name)
        if known is None:
            known = self._directories[name] = self._may_enter(name)
        return known

    def _may_enter(self, name: str) -> bool:
        path = self.root / name
        if (problem := self._problem(name)) is None and _is_run(path):
            problem = _RUN
        if problem is None:
            try:  # behind a link, there are no files of this tree
                return stat.S_ISDIR(path.lstat().st_mode)
            except OSError:
                return False
        self.left_out[name] = problem
        return False

    def _problem(self, name: str) -> str | None:
        if self.root / name in self._excluded:
            return "this run does not need it on nodes"
        last = name.rpartition("/")[2]
        if last.casefold() == RUN_DIRECTORY:
            return _RUN
        if name in _RECORD_FILES and _is_run(self.root):
            return "it belongs to a run"
        return path_problem(name)

    def usable_links(self) -> Iterator[TreeFile]:
        """The links that lead to shipped files and directories."""
        shipped = {*self.sizes, *(directory for name in self.sizes for directory in parents_of(name)), "."}
        for name, raw in self._links.items():
            target = "/".join(part for part in raw.split("/") if part not in ("", ".")) or "."
            if (problem := link_problem(name, raw if raw.startswith("/") else target)) is None:
                real = os.path.realpath(self.root / name)
                if os.path.relpath(real, self.root) in shipped:
                    yield TreeFile(name, 0, "", executable=False, link=target)
                    continue
                problem = "it is a link to something that is not shipped"
            self.left_out[name] = problem


def _is_run(directory: Path) -> bool:
    return all((directory / name).is_file() for name in _RUN_FILES)


def _walked(root: Path, selection: _Selection) -> Iterator[bytes]:
    """The names of all files below the root, without directories of tools."""

    def failed(error: OSError) -> None:
        raise AgentVError(f"{error.filename} cannot be read: {error.strerror}", next_step="Make it readable.")

    top = os.fsencode(root)
    for folder, directories, files in os.walk(top, onerror=failed):
        inside = os.path.relpath(folder, top) + b"/" if folder != top else b""
        yield from (inside + name for name in files)
        entered = []
        for name in directories:
            path = Path(os.fsdecode(folder), os.fsdecode(name))
            if path.is_symlink():
                yield inside + name
            elif name.decode("ascii", "replace") in TOOL_DIRECTORIES or (path / "pyvenv.cfg").is_file():
                selection.left_out[(inside + name).decode("utf-8", "backslashreplace")] = "a tool created it"
            elif not _is_utf8(inside + name):
                yield inside + name
            elif selection.enters((inside + name).decode()):
                entered.append(name)
        directories[:] = entered


def _is_utf8(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


def _read(root: Path, name: str) -> TreeFile:
    path = root / name
    try:
        with open_regular(path, follow_links=False) as file:
            executable = bool(os.fstat(file.fileno()).st_mode & stat.S_IXUSR)
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return TreeFile(name, file.tell(), digest, executable)
    except FileUnusableError as error:
        reason = str(error)
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
    raise AgentVError(
        f"{path} {reason}, so it cannot be shipped to nodes",
        next_step="Make it readable, or list it in .gitignore if scripts do not need it.",
    )


def _check_size(root: Path, sizes: Mapping[str, int], max_bytes: int, *, in_git: bool) -> None:
    if len(sizes) > MAX_FILES:
        problem = f"{root} has {plural(len(sizes), 'file')} to ship to nodes; the limit is {MAX_FILES:,}"
        raise AgentVError(problem, next_step=_smaller(in_git=in_git, option=""))
    total = sum(sizes.values())
    if total <= max_bytes:
        return
    largest = sorted(sizes, key=lambda name: (-sizes[name], name))[:_NAMED]
    lines = "\n".join(f"  {_megabytes(sizes[name]):>12}  {without_controls(name)}" for name in largest)
    raise AgentVError(
        f"{root} has {_megabytes(total)} in {plural(len(sizes), 'file')} to ship to nodes; "
        f"the limit is {_megabytes(max_bytes)}. The largest files are:\n{lines}",
        next_step=_smaller(in_git=in_git, option="increase `nodes.max_ship_mb`, "),
    )


def _smaller(*, in_git: bool, option: str) -> str:
    ignore = (
        "list files that scripts do not need in .gitignore (which applies to untracked files only)"
        if in_git
        else "run `git init` and list files that scripts do not need in .gitignore"
    )
    step = f"{option}{ignore}, or set `files: shared` if all nodes can read the files."
    return step[0].upper() + step[1:]


def _megabytes(size: int) -> str:
    """Bytes in MB; exactly, if that would hide a small size."""
    return f"{size / MB:,.1f} MB" if size >= MB // 10 else plural(size, "byte")
