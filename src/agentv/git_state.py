"""The git commit that a run starts from, and the files of a repository, without running anything that it configures.

Commit and branch are read from the files in `.git`. Whether tracked files have changed is asked from `git status`, in a
process that works beside the run: with a git directory of our own that refers to the repository's objects and index. So
its hooks, filters, monitors and aliases are unknown to git and cannot run. The same
holds for `git ls-files`.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentv.regular_files import FileUnusableError, read_regular

if TYPE_CHECKING:
    import subprocess

SECONDS = 10.0
"""How long `git status` may take while the run works."""
LIST_SECONDS = 60.0
"""How long `git ls-files` may take."""
PATIENCE = 0.25
"""How long a run that is finished waits for `git status`."""
_SMALL, _PACKED = 64 << 10, 64 << 20
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_SAFE_SETTINGS = ("filemode", "autocrlf", "eol", "ignorecase", "symlinks", "precomposeunicode")
_SETTING = re.compile(r"\s*(\w+)\s*=\s*(\S.*?)\s*")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Checkout:
    """A working tree and its commit."""

    root: Path
    folder: Path
    """The git directory of this working tree."""
    common: Path
    """The git directory with the objects, shared by all working trees of a repository."""
    commit: str
    branch: str | None

    @classmethod
    def near(cls, start: Path) -> Checkout | None:
        """The checkout that contains the directory; None if there is none, it has no commit, or it cannot be read."""
        root = next((folder for folder in (start, *start.parents) if os.path.lexists(folder / ".git")), None)
        if root is None:
            return None
        try:
            folder, common = _folders(root)
            head = _line(folder / "HEAD")
            if not head.startswith("ref: "):
                return cls(root, folder, common, head, None) if _COMMIT.fullmatch(head) else None
            ref = head.removeprefix("ref: ").strip()
            commit = _resolved(ref, folder, common)
        except (FileUnusableError, OSError, ValueError):
            return None
        return cls(root, folder, common, commit, ref.removeprefix("refs/heads/")) if commit else None


class GitListError(ValueError):
    """`git ls-files` failed. The message is the reason."""


def listed_files(directory: Path) -> list[bytes] | None:
    """The tracked files and the untracked files that are not ignored, at or below the directory and relative to it.

    A tracked file may no longer exist. A submodule is one name, and another repository is a name with a slash at its
    end. None outside a repository and without git. GitListError says why git could not list the files.
    """
    import shutil  # noqa: PLC0415 - few commands list files
    import tempfile  # noqa: PLC0415

    root = next((folder for folder in (directory, *directory.parents) if os.path.lexists(folder / ".git")), None)
    program = shutil.which("git")
    if root is None or program is None or not Path(program).is_absolute():
        return None
    try:
        checkout = Checkout(root, *_folders(root), "", None)
        with tempfile.TemporaryDirectory(prefix="agentv-git-") as folder:
            return _list(program, checkout, directory, Path(folder))
    except (FileUnusableError, OSError, ValueError) as error:
        raise error if isinstance(error, GitListError) else GitListError(str(error)) from None


def _list(program: str, checkout: Checkout, directory: Path, folder: Path) -> list[bytes]:
    import subprocess  # noqa: PLC0415

    for name in ("refs", "objects", "info"):
        (folder / name).mkdir()
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "config").write_text(_config(checkout))
    with suppress(FileUnusableError):
        (folder / "info" / "exclude").write_bytes(read_regular(checkout.common / "info" / "exclude", _SMALL))
    for shared in checkout.folder.glob("sharedindex.*"):  # where git keeps most of a split index
        (folder / shared.name).symlink_to(shared.absolute())
    environment = _environment(checkout, folder)
    if not (checkout.common / "objects").is_dir():
        del environment["GIT_OBJECT_DIRECTORY"]
    if (ignored := _ignore_file(checkout)) is not None:
        environment |= {"GIT_CONFIG_COUNT": "3", "GIT_CONFIG_KEY_2": "core.excludesFile", "GIT_CONFIG_VALUE_2": ignored}
    try:
        done = subprocess.run(
            [program, "--no-pager", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIST_SECONDS,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        raise GitListError(f"`git ls-files` took longer than {LIST_SECONDS:g} seconds") from None
    if done.returncode != 0:
        reason = done.stderr.decode("utf-8", "replace").strip()
        raise GitListError(f"`git ls-files` failed: {reason[:500] or f'exit code {done.returncode}'}")
    return [name for name in done.stdout.split(b"\0") if name]


class GitState:
    """The commit, the branch and, as soon as it is known, whether tracked files have changed."""

    def __init__(self, checkout: Checkout | None, *, seconds: float = SECONDS) -> None:
        self._checkout = checkout
        self._dirty: bool | None = None
        self._end = time.monotonic() + seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start `git status` in a thread. Does nothing without a checkout."""
        if self._checkout is not None:
            self._thread = threading.Thread(target=self._ask, args=(self._checkout,), name="git-status", daemon=True)
            self._thread.start()

    def to_dict(self) -> dict[str, Any] | None:
        if self._checkout is None:
            return None
        return {"commit": self._checkout.commit, "branch": self._checkout.branch, "dirty": self._dirty}

    def close(self) -> None:
        """Wait a moment for the answer, then end the process."""
        if self._thread is not None:
            self._thread.join(PATIENCE)
            self._stopped = True
            with suppress(OSError, AttributeError):
                self._process.kill()  # type: ignore[union-attr]
            self._thread.join(PATIENCE)

    def _ask(self, checkout: Checkout) -> None:
        import shutil  # noqa: PLC0415 - in this thread, so that the run does not wait for it
        import subprocess  # noqa: PLC0415
        import tempfile  # noqa: PLC0415

        with suppress(OSError, FileUnusableError, subprocess.SubprocessError):
            folder = Path(tempfile.mkdtemp(prefix="agentv-git-"))
            try:
                self._dirty = self._status(checkout, folder)
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    def _status(self, checkout: Checkout, folder: Path) -> bool | None:
        import shutil  # noqa: PLC0415
        import subprocess  # noqa: PLC0415

        (folder / "refs").mkdir()
        (folder / "HEAD").write_text(f"{checkout.commit}\n")
        (folder / "config").write_text(_config(checkout))
        program = shutil.which("git")
        if self._stopped or program is None or not Path(program).is_absolute():  # never a `git` of this directory
            return None
        self._process = subprocess.Popen(
            # Submodules are ignored: git would run in them, with their configuration.
            [program, "--no-pager", "status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all"],
            cwd=checkout.root,
            env=_environment(checkout, folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            output, _ = self._process.communicate(timeout=max(0.1, self._end - time.monotonic()))
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise
        return bool(output.strip()) if self._process.returncode == 0 else None


def _environment(checkout: Checkout, folder: Path) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "XDG_CONFIG_HOME") if name in os.environ}
    return {
        **inherited,
        "LC_ALL": "C",
        "GIT_DIR": str(folder),
        "GIT_WORK_TREE": str(checkout.root),
        "GIT_OBJECT_DIRECTORY": str(checkout.common / "objects"),
        "GIT_INDEX_FILE": str(checkout.folder / "index"),
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        # These win over the configuration of the user, too.
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": "false",
        "GIT_CONFIG_KEY_1": "core.hooksPath",
        "GIT_CONFIG_VALUE_1": os.devnull,
    }


def _config(checkout: Checkout) -> str:
    """A configuration with the settings of the repository that decide whether a file has changed."""
    lines = ["[core]", "bare = false"]
    new_hash = len(checkout.commit) == 64
    for section, name, value in _settings(checkout):
        if section == "[core]" and name in _SAFE_SETTINGS and _WORD.fullmatch(value):
            lines.append(f"{name} = {value}")
        new_hash |= (section, name, value) == ("[extensions]", "objectformat", "sha256")
    lines.append(f"repositoryformatversion = {int(new_hash)}")
    if new_hash:
        lines += ["[extensions]", "objectformat = sha256"]
    return "\n".join(lines) + "\n"


def _settings(checkout: Checkout) -> Iterator[tuple[str, str, str]]:
    """Section, name and value of the simple settings of a repository; names are in lower case."""
    section = ""
    with suppress(FileUnusableError):
        for line in read_regular(checkout.common / "config", _SMALL).decode("utf-8", "replace").splitlines():
            if line.lstrip().startswith("["):
                section = line.strip().lower()
            elif match := _SETTING.fullmatch(line):
                yield section, match[1].lower(), match[2]


def _ignore_file(checkout: Checkout) -> str | None:
    """The repository's `core.excludesFile`, with more patterns of ignored files."""
    for section, name, value in _settings(checkout):
        if (section, name) == ("[core]", "excludesfile"):
            path = value.strip('"')
            return path if path.startswith("~") else str(checkout.root / path)
    return None


def _folders(root: Path) -> tuple[Path, Path]:
    """The git directory of a working tree, and the one that all working trees of the repository share."""
    folder = _folder(root)
    if (folder / "commondir").is_file():
        return folder, (folder / _line(folder / "commondir")).resolve()
    return folder, folder


def _folder(root: Path) -> Path:
    git = root / ".git"
    if git.is_dir():
        return git
    return (root / _line(git).removeprefix("gitdir: ")).resolve()


def _resolved(ref: str, folder: Path, common: Path) -> str | None:
    if not ref.startswith("refs/") or ".." in ref:
        return None
    for place in (folder, common):
        with suppress(FileUnusableError):
            commit = _line(place / ref)
            return commit if _COMMIT.fullmatch(commit) else None
    for line in read_regular(common / "packed-refs", _PACKED).splitlines():
        if line.endswith(b" " + ref.encode()):
            commit = line.split(b" ", 1)[0].decode("ascii", "replace")
            return commit if _COMMIT.fullmatch(commit) else None
    return None


def _line(path: Path) -> str:
    return read_regular(path, _SMALL).decode("utf-8").strip()
