"""The directory of a run: `run.json`, `results.jsonl`, `judge_calls.jsonl`, and a lock for its one writer."""

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
from agentv.record.files import (
    PRIVATE_DIRECTORY,
    failure,
    open_private,
    replaced,
    sync_directory,
    write_all,
)
from agentv.redact import NO_SECRETS, Redactor

HOME = ".agentv"
RUNS = Path(HOME) / "runs"
MANIFEST = "run.json"
RESULTS = "results.jsonl"
CORRUPT = "results.corrupt.jsonl"
JUDGE_CALLS = "judge_calls.jsonl"
LOCK = "run.lock"

ANOTHER = "Name another file for --out."

_RECORD = {MANIFEST, RESULTS, CORRUPT, JUDGE_CALLS, LOCK}
_LEFT_BY_A_KILLED_START = {LOCK, f".{MANIFEST}.tmp"}
_SECONDS_FOR_THE_DEAD = 5.0
_SHOWN_RUNS = 5


def new_run_id() -> str:
    """An id that sorts by time: `20261115-204455-2a19c4e07` (UTC; three digits of it are milliseconds)."""
    now = datetime.now(UTC)
    return f"{now:%Y%m%d-%H%M%S}-{now.microsecond // 1000:03x}{secrets.token_hex(3)}"


class RunDirectory:
    """One run on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest = path / MANIFEST
        self.results = path / RESULTS
        self.corrupt = path / CORRUPT
        self.judge_calls = path / JUDGE_CALLS
        self._lock: int | None = None
        self._holders = 0

    @classmethod
    def create(cls, path: Path, manifest: Mapping[str, Any], *, redactor: Redactor = NO_SECRETS) -> RunDirectory:
        """Start a run in a new or empty directory, for this user's eyes only."""
        run = cls(path.absolute())
        try:
            make_private(run.path)
            run._refuse_if_used()
            with run.lock():
                run._refuse_if_used()
                with suppress(PermissionError):
                    run.path.chmod(PRIVATE_DIRECTORY)
                # run.json comes first: with it alone a run can be resumed, with results alone it could not.
                run.write_manifest(manifest, redactor=redactor)
                os.close(open_private(run.results, os.O_WRONLY))
                sync_directory(run.path)
        except OSError as error:
            raise failure("create the run directory", run.path, error, "Choose another --run-dir.") from error
        return run

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """A run that exists."""
        run = cls(path.absolute())
        if not run.manifest.is_file():
            raise RecordError(
                f"{path} is not a run: it has no {MANIFEST}",
                next_step="Name a run id, or a directory that `agentv eval` wrote.",
            )
        return run

    @property
    def resume_command(self) -> str:
        """What a user types to go on with this run."""
        with suppress(ValueError):
            inside = self.path.relative_to(Path.cwd())
            return f"agentv eval --resume {quote(inside.name if inside.parent == RUNS else str(inside))}"
        return f"agentv eval --resume {quote(str(self.path))}"

    def _refuse_if_used(self) -> None:
        names = set(os.listdir(self.path)) - _LEFT_BY_A_KILLED_START  # noqa: PTH208 - names, not paths
        if names & {MANIFEST, RESULTS}:
            raise RecordError(
                f"{self.path} holds another run",
                next_step=f"Go on with it: {self.resume_command}\nOr choose another --run-dir.",
            )
        if names:
            raise RecordError(
                f"{self.path} is not empty and is not a run (it holds {min(names)!r})",
                next_step="Choose a new or an empty directory for --run-dir.",
            )

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep every other writer out. Nests within one process; free as soon as the holder is gone."""
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
        """What `run.json` says."""
        try:
            data = jsonio.load(self.manifest.read_bytes())
        except OSError as error:
            raise failure("read", self.manifest, error) from error
        except ValueError as error:
            raise RecordError(
                f"{self.manifest} cannot be read: {error}", next_step="Restore it, or start a new run."
            ) from None
        if not isinstance(data, dict):
            raise RecordError(f"{self.manifest} is not a JSON object", next_step="Restore it, or start a new run.")
        return data

    def write_manifest(self, data: Mapping[str, Any], *, redactor: Redactor = NO_SECRETS) -> None:
        """Replace `run.json`. At any moment, and after any kill, the file is the old one or the new one."""
        contents = jsonio.dump_pretty(redactor.value(jsonio.storable(data)))
        try:
            with replaced(self.manifest) as descriptor:
                write_all(descriptor, contents.encode("utf-8") + b"\n")
        except OSError as error:
            raise failure("write", self.manifest, error, f"Then resume with: {self.resume_command}") from error


def find_run(run: str, root: Path) -> RunDirectory:
    """A run by its id, by the unique beginning of its id, or by the path of its directory.

    `root` is the working directory: ids are looked up in its `.agentv/runs`, paths start from it.
    """
    runs = root / RUNS
    if run and (root / run / MANIFEST).is_file():
        return RunDirectory.open(root / run)
    known = sorted((p.parent.name for p in runs.glob(f"*/{MANIFEST}")), reverse=True)
    if run in known:
        return RunDirectory.open(runs / run)
    matches = [name for name in known if run and name.startswith(run)]
    if len(matches) == 1:
        return RunDirectory.open(runs / matches[0])
    if matches:
        shown = ", ".join(matches[:_SHOWN_RUNS])
        raise RecordError(f"'{run}' is the beginning of {len(matches)} runs", next_step=f"Write more of it: {shown}.")
    if not known:
        hint = f"There are no runs in {runs}; name the path of a run directory instead."
    else:
        hint = f"The latest runs in {runs}: {', '.join(known[:_SHOWN_RUNS])}."
    raise RecordError(f"there is no run '{run}'", next_step=hint)


def refuse_recorded(out: Path, own: Path | None = None) -> None:
    """RecordError when a file to be written is part of the record of a run: of `own`, or of any that exists."""
    home = out.resolve().parent
    if out.resolve().name in _RECORD and ((home / MANIFEST).is_file() or (own is not None and home == own.resolve())):
        raise RecordError(f"--out {out} belongs to the record of a run, which nothing replaces", next_step=ANOTHER)


def make_private(path: Path) -> None:
    """Make a directory and those above it that are missing, for this user's eyes only."""
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
    """Open and lock the lock file, and write our process id in it."""
    try:
        descriptor = open_private(path, os.O_RDWR)
    except OSError as error:
        raise failure("lock", path, error) from error
    deadline = time.monotonic() + _SECONDS_FOR_THE_DEAD
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
                # A child that a killed run had just forked may hold the lock for an instant longer.
                if time.monotonic() > deadline or not holder.isdigit() or _is_alive(int(holder)):
                    raise _locked(path, holder) from None
                time.sleep(0.01)
        # The name of the holder is a courtesy: on a full disk the lock must still be had.
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
    who = f"process {holder}" if holder.isdigit() else "another process"
    return RunLockedError(
        f"the run in {path.parent} is being written by {who}",
        next_step="Wait until it has finished, or stop it, then try again.",
    )


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


NEEDED: Mapping[str, tuple[type, str]] = {
    "run_id": (str, "text"),
    "cwd": (str, "text"),
    "options": (dict, "an object"),
    "scripted": (bool, "true or false"),
}
OPTIONAL = ("digests", "configuration", "budget")
"""Objects that a run of an older version may lack."""
SPENT = ("spent_usd", "judge_calls")


def check_manifest(data: Mapping[str, Any], path: Path) -> None:
    """RecordError, with the field, when a run cannot go on from this."""
    for name, (kind, word) in NEEDED.items():
        if type(data.get(name)) is not kind:
            raise unusable(path, f"`{name}` is missing, or is not {word}")
    for name in OPTIONAL:
        if not isinstance(data.get(name), dict | None):
            raise unusable(path, f"`{name}` is not an object")
    if not all(isinstance(shown, dict) for shown in (data.get("configuration") or {}).values()):
        raise unusable(path, "`configuration` holds something that is not an object")
    for name in SPENT:
        amount = (data.get("budget") or {}).get(name, 0)
        if type(amount) not in (int, float) or not math.isfinite(amount) or amount < 0:
            raise unusable(path, f"`budget.{name}` is not a number from 0")


def unusable(path: Path, why: str) -> RecordError:
    return RecordError(f"the run cannot go on from {path}: {why}", next_step="Restore it, or start a new run.")
