"""The directory of a run: `run.json`, `results.jsonl`, `judge_calls.jsonl`, and the writer's lock file."""

from __future__ import annotations

import fcntl
import math
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import Any

from agentv import jsonio
from agentv.errors import RecordError, RunLockedError
from agentv.record import manifest as manifests
from agentv.record.catalog import Catalog
from agentv.record.files import (
    PRIVATE_DIRECTORY,
    failure,
    open_private,
    replaced,
    sync_directory,
    write_all,
)
from agentv.redact import NO_SECRETS, Redactor
from agentv.regular_files import NotRegularError, kind_of

HOME, RUNS, MANIFEST, LOCK = manifests.HOME, manifests.RUNS, manifests.MANIFEST, manifests.LOCK
is_alive = manifests.is_alive
RESULTS = "results.jsonl"
CORRUPT = "results.corrupt.jsonl"
SUPERSEDED = "superseded.jsonl"
JUDGE_CALLS = "judge_calls.jsonl"
CASES = "cases.jsonl"
ANSWERS = "answers.jsonl"
LABELS = "labels.jsonl"

ANOTHER = "Choose another file for --out."

_RECORD = {MANIFEST, RESULTS, CORRUPT, SUPERSEDED, JUDGE_CALLS, CASES, ANSWERS, LABELS, LOCK}
_LEFT_BY_A_KILLED_START = {LOCK, f".{MANIFEST}.tmp"}
_SECONDS_FOR_THE_DEAD = 5.0
_SECONDS_FOR_A_GLANCE = 0.2


def new_run_id() -> str:
    """A run id that sorts by time (UTC), such as `20261115-204455-2a19c4e07`."""
    now = datetime.now(UTC)
    return f"{now:%Y%m%d-%H%M%S}-{now.microsecond // 1000:03x}{secrets.token_hex(3)}"


class RunDirectory:
    """One run on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest = path / MANIFEST
        self.results = path / RESULTS
        self.corrupt = path / CORRUPT
        self.superseded = path / SUPERSEDED
        self.judge_calls = path / JUDGE_CALLS
        self.cases = path / CASES
        """What was asked and expected, one line for each case."""
        self.answers = path / ANSWERS
        """Answers whose rows are not written yet. Removed when the run finishes."""
        self.labels = path / LABELS
        """What people say about the answers. Written by the viewer."""
        self._lock: int | None = None
        self._holders = 0

    @classmethod
    def create(cls, path: Path, manifest: Mapping[str, Any], *, redactor: Redactor = NO_SECRETS) -> RunDirectory:
        """Create a run in a new or empty directory that only this user can read."""
        run = cls(path.absolute())
        try:
            make_private(run.path)
            run._refuse_if_used()
            with run.lock():
                run._refuse_if_used()
                with suppress(PermissionError):
                    run.path.chmod(PRIVATE_DIRECTORY)
                # run.json comes first: a run can be resumed with run.json alone, but not with results alone.
                run.write_manifest(manifest, redactor=redactor)
                os.close(open_private(run.results, os.O_WRONLY))
                sync_directory(run.path)
        except OSError as error:
            raise failure("create the run directory", run.path, error, "Choose another --run-dir.") from error
        return run

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """Open an existing run. Raises RecordError if one of its files is a link, a pipe or a device."""
        run = cls(path.absolute())
        run.refuse_special_files()
        if not run.manifest.is_file():
            raise RecordError(
                f"{path} is not a run: it has no {MANIFEST}",
                next_step="Specify a run id, or a run directory written by `agentv eval`.",
            )
        return run

    def refuse_special_files(self) -> None:
        """A run directory may come from another machine: a link in it could lead to any file."""
        for name in _RECORD:
            with suppress(FileNotFoundError, NotADirectoryError):
                if (kind := kind_of((self.path / name).lstat().st_mode)) is not None:
                    raise failure("open", self.path / name, NotRegularError(kind), "The run was not opened.")

    @property
    def resume_command(self) -> str:
        """The command that resumes this run."""
        return f"agentv eval --resume {quote(self.name)}"

    @property
    def retry_command(self) -> str:
        """The command that runs the errored cases of this run again."""
        return f"agentv eval --retry-errors {quote(self.name)}"

    @property
    def show_command(self) -> str:
        """The command that shows a case of this run, without the name of the case."""
        return f"agentv show {quote(self.name)}"

    @property
    def name(self) -> str:
        """The shortest name by which `find_run` finds this run from the working directory."""
        with suppress(ValueError):
            inside = self.path.relative_to(Path.cwd())
            return inside.name if inside.parent == RUNS else str(inside)
        return str(self.path)

    def _refuse_if_used(self) -> None:
        names = set(os.listdir(self.path)) - _LEFT_BY_A_KILLED_START  # noqa: PTH208 - names, not paths
        if names & {MANIFEST, RESULTS}:
            raise RecordError(
                f"{self.path} already contains a run",
                next_step=f"Resume it: {self.resume_command}\nOr choose another --run-dir.",
            )
        if names:
            raise RecordError(
                f"{self.path} is not empty and is not a run (it contains {min(names)!r})",
                next_step="Choose a new or empty directory for --run-dir.",
            )

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the run for writing. Can be nested; the lock is released when the process exits."""
        if self._lock is None:
            self._lock = _acquire(self.path / LOCK)
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            if not self._holders:
                descriptor, self._lock = self._lock, None
                os.close(descriptor)

    def read_manifest(self) -> dict[str, Any]:
        """The contents of `run.json`."""
        return manifests.read_manifest(self.manifest)

    def write_manifest(self, data: Mapping[str, Any], *, redactor: Redactor = NO_SECRETS) -> None:
        """Replace `run.json` atomically: even after a kill, it is either the old file or the new one."""
        contents = jsonio.dump_pretty(redactor.value(jsonio.storable(data)))
        try:
            with replaced(self.manifest) as descriptor:
                write_all(descriptor, contents.encode("utf-8") + b"\n")
        except OSError as error:
            raise failure("write", self.manifest, error, f"Then resume with: {self.resume_command}") from error


def find_run(run: str, root: Path) -> RunDirectory:
    """Find a run by its path, its id, its name, a unique prefix of these, or as `latest` or `latest~N`.

    `root` is the working directory: relative paths start there, and everything else is looked up in its `.agentv/runs`.
    Of several runs with the same name, the newest is found. `latest` is the newest run, even if it is not finished.
    """
    if run and os.path.lexists(root / run / MANIFEST):
        return RunDirectory.open(root / run)
    return RunDirectory.open(Catalog(root).find(run))


def is_record_file(name: str) -> bool:
    """Whether a file with this name in the directory of a run is part of its record."""
    return name in _RECORD or name in {f".{known}.tmp" for known in _RECORD}


def refuse_recorded(out: Path, own: Path | None = None) -> None:
    """RecordError when `out` is one of the files of a run, either `own` or any existing run."""
    home = out.resolve().parent
    if out.resolve().name in _RECORD and ((home / MANIFEST).is_file() or (own is not None and home == own.resolve())):
        raise RecordError(f"--out {out} would overwrite a file of a recorded run", next_step=ANOTHER)


def make_private(path: Path) -> None:
    """Create a directory and its missing parents, readable by this user only."""
    missing = [directory for directory in (path, *path.parents) if not directory.exists()]
    for directory in reversed(missing):
        with suppress(FileExistsError):
            directory.mkdir(PRIVATE_DIRECTORY)
            directory.chmod(PRIVATE_DIRECTORY)
            if directory.name == HOME:
                _write_gitignore(directory)
            sync_directory(directory.parent)


def _write_gitignore(home: Path) -> None:
    descriptor = open_private(home / ".gitignore", os.O_WRONLY)
    try:
        write_all(descriptor, b"runs/\ncache/\ninline/\n")
    finally:
        os.close(descriptor)


def _acquire(path: Path) -> int:
    """Open and lock the lock file, and write our process id to it."""
    try:
        descriptor = open_private(path, os.O_RDWR)
    except OSError as error:
        raise failure("lock", path, error) from error
    start = time.monotonic()
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
                # A child forked by a killed run may keep the lock for a moment longer; and a process that lists runs
                # takes it for an instant, to see whether the run is being written.
                alive = not holder.isdigit() or is_alive(int(holder))
                if time.monotonic() > start + (_SECONDS_FOR_A_GLANCE if alive else _SECONDS_FOR_THE_DEAD):
                    raise _locked(path, holder) from None
                time.sleep(0.01)
        # The process id is informational: on a full disk, locking must still succeed.
        with suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
    except OSError as error:
        os.close(descriptor)
        raise failure("lock", path, error) from error
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _locked(path: Path, holder: str) -> RunLockedError:
    writer = f"process {holder}" if holder.isdigit() else "another process"
    return RunLockedError(
        f"the run in {path.parent} is being written by {writer}",
        next_step="Wait until it has finished, or stop it, then retry.",
    )


NEEDED: Mapping[str, tuple[type, str]] = {
    "run_id": (str, "a string"),
    "cwd": (str, "a string"),
    "options": (dict, "an object"),
    "scripted": (bool, "true or false"),
}
OPTIONAL = ("digests", "configuration", "interpreters", "budget")
"""Objects that may be missing in runs of older versions."""
SPENT = ("spent_usd", "judge_calls")


def check_manifest(data: Mapping[str, Any], path: Path) -> None:
    """RecordError, naming the field, when a run cannot be resumed from this manifest."""
    for name, (kind, word) in NEEDED.items():
        if type(data.get(name)) is not kind:
            raise unusable(path, f"`{name}` is missing or is not {word}")
    for name in OPTIONAL:
        if not isinstance(data.get(name), dict | None):
            raise unusable(path, f"`{name}` must be an object")
    if not all(isinstance(settings, dict) for settings in (data.get("configuration") or {}).values()):
        raise unusable(path, "all values of `configuration` must be objects")
    for name in SPENT:
        amount = (data.get("budget") or {}).get(name, 0)
        if type(amount) not in (int, float) or not math.isfinite(amount) or amount < 0:
            raise unusable(path, f"`budget.{name}` must be a finite number from 0")


def unusable(path: Path, why: str) -> RecordError:
    return RecordError(
        f"the run cannot be resumed from {path}: {why}", next_step="Restore the file, or start a new run."
    )
