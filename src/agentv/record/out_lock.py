"""Protects the file of `--out`: one run writes it at a time, and a resumed run replaces only its own rows."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agentv import jsonio
from agentv.errors import RecordError, RunLockedError
from agentv.record.files import LONGEST_LINE, open_private, open_recorded, write_all
from agentv.record.run_dir import ANOTHER, RunDirectory, is_alive

_SECONDS_FOR_THE_DEAD = 5.0
_NOTE_BYTES = 8192


@contextmanager
def lock_out(descriptor: int, out: Path, run: RunDirectory) -> Iterator[None]:
    """Lock the file for this run. The lock is released when the process exits, however it ends."""
    refuse_locked(descriptor, out, keep=True)
    note = _note_path(descriptor)
    # The note only serves the message of another run.
    with suppress(OSError):
        written = open_private(note, os.O_WRONLY | os.O_TRUNC)
        try:
            write_all(written, f"{os.getpid()}\n{run.path}\n".encode("utf-8", "surrogateescape"))
        finally:
            os.close(written)
    try:
        yield
    finally:
        with suppress(OSError):
            note.unlink()


def refuse_locked(descriptor: int, out: Path, *, keep: bool = False) -> None:
    """RunLockedError, with the name of the other run, if another run is writing the file. With `keep`, lock it."""
    deadline = time.monotonic() + _SECONDS_FOR_THE_DEAD
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass
        except OSError:
            return  # a file system without locks
        else:
            if not keep:
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            return
        process, directory = _holder(descriptor)
        # A child of a killed run may keep the lock for a moment longer.
        if time.monotonic() > deadline or (process is not None and is_alive(process)):
            writer = f"the run in {directory} (process {process})" if directory else "another run"
            raise RunLockedError(f"--out {out} is being written by {writer}", next_step=ANOTHER)
        time.sleep(0.01)


def refuse_other_rows(descriptor: int, out: Path, run: RunDirectory) -> None:
    """RecordError if the file contains anything but rows of this run: it would be lost."""
    run_id = run.read_manifest().get("run_id")
    start = jsonio.dump_line({"run_id": run_id}).encode("utf-8")[:-1]
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        number = 0
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            torn = not line.endswith(b"\n") and start.startswith(line)
            if not line.startswith(start) and not torn:
                raise RecordError(
                    f"--out {out} of the recorded run is not its copy: line {number} is not a row of run {run_id}",
                    next_step=f"Nothing was changed. Choose the file: {run.resume_command} --out FILE",
                )


def _note_path(descriptor: int) -> Path:
    status = os.fstat(descriptor)
    return Path(tempfile.gettempdir()) / f"agentv-out-{os.getuid()}-{status.st_dev:x}-{status.st_ino:x}"


def _holder(descriptor: int) -> tuple[int | None, str]:
    """The process and the directory of the run that holds the lock, if it left a note."""
    with suppress(OSError, ValueError), open_recorded(_note_path(descriptor)) as file:
        if os.fstat(file.fileno()).st_uid == os.getuid():
            process, directory, _ = file.read(_NOTE_BYTES).decode("utf-8", "replace").split("\n", 2)
            return int(process), directory
    return None, ""
