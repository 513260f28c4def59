"""The git commit that a run starts from, without running anything that the repository configures.

Commit and branch are read from the files in `.git`. Whether tracked files have changed is asked from `git status`, in a
process that works beside the run: with a git directory of our own that refers to the repository's objects and index. So
its hooks, filters, monitors and aliases are unknown to git and cannot run.
"""

from __future__ import annotations

import os
import re
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentv.regular_files import FileUnusableError, read_regular

if TYPE_CHECKING:
    import subprocess

SECONDS = 10.0
"""How long `git status` may take while the run works."""
PATIENCE = 0.25
"""How long a run that is finished waits for `git status`."""
_SMALL, _PACKED = 64 << 10, 64 << 20
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_SAFE_SETTINGS = ("filemode", "autocrlf", "eol", "ignorecase", "symlinks", "precomposeunicode")
_SETTING = re.compile(r"\s*(\w+)\s*=\s*(\w+)\s*")


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
            folder = _folder(root)
            common = folder
            if (folder / "commondir").is_file():
                common = (folder / _line(folder / "commondir")).resolve()
            head = _line(folder / "HEAD")
            if not head.startswith("ref: "):
                return cls(root, folder, common, head, None) if _COMMIT.fullmatch(head) else None
            ref = head.removeprefix("ref: ").strip()
            commit = _resolved(ref, folder, common)
        except (FileUnusableError, OSError, ValueError):
            return None
        return cls(root, folder, common, commit, ref.removeprefix("refs/heads/")) if commit else None


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
    section = ""
    with suppress(FileUnusableError):
        for line in read_regular(checkout.common / "config", _SMALL).decode("utf-8", "replace").splitlines():
            if line.lstrip().startswith("["):
                section = line.strip().lower()
            elif section == "[core]" and (match := _SETTING.fullmatch(line)) and match[1].lower() in _SAFE_SETTINGS:
                lines.append(f"{match[1]} = {match[2]}")
    new_hash = len(checkout.commit) == 64
    lines.append(f"repositoryformatversion = {int(new_hash)}")
    if new_hash:
        lines += ["[extensions]", "objectformat = sha256"]
    return "\n".join(lines) + "\n"


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
