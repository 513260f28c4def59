"""`run.json`: where it is, and how it is read."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from agentv import jsonio
from agentv.errors import RecordError
from agentv.record.files import LONGEST_LINE, failure, open_recorded
from agentv.regular_files import open_descriptor

HOME = ".agentv"
RUNS = Path(HOME) / "runs"
MANIFEST = "run.json"
LOCK = "run.lock"


LARGE = ("digests", "configuration", "interpreters")


def read_manifest(path: Path, *, whole: bool = True) -> dict[str, Any]:
    """The contents of a `run.json`. Raises RecordError if it is not a regular file with a JSON object.

    Without `whole`, the large parts are left out, and duplicate keys are not looked for: several times as fast.
    """
    try:
        with open_recorded(path) as file:
            contents = file.read(LONGEST_LINE + 1)
        if not whole:
            contents = _without_large_parts(contents)
        data = jsonio.load(contents, unique=whole) if len(contents) <= LONGEST_LINE else None
    except OSError as error:
        raise failure("read", path, error) from error
    except ValueError as error:
        raise RecordError(
            f"could not read {path}: {error}", next_step="Restore the file, or start a new run."
        ) from None
    if not isinstance(data, dict):
        raise RecordError(f"{path} must contain a JSON object", next_step="Restore the file, or start a new run.")
    return data if whole else {key: value for key, value in data.items() if key not in LARGE}


def _without_large_parts(contents: bytes) -> bytes:
    """The text without them, if it is indented as `agentv eval` writes it.

    Strings contain no line ends, so only a key of the outermost object can follow a line end and two spaces.
    """
    if not contents.startswith(b'{\n  "'):
        return contents
    for name in LARGE:
        start = contents.find(b'\n  "%s": {\n' % name.encode("ascii"))
        end = contents.find(b"\n  },\n", start) if start >= 0 else -1
        if end >= 0:
            contents = contents[:start] + contents[end + len(b"\n  },") :]
    return contents


def writer_of(directory: Path) -> int | None:
    """The process that locked this run last, whether or not it still exists."""
    with suppress(OSError):
        descriptor = open_descriptor(directory / LOCK, os.O_RDONLY, follow_links=False)
        try:
            holder = os.pread(descriptor, 32, 0).strip()
        finally:
            os.close(descriptor)
        return int(holder) if holder.isdigit() else None
    return None


def is_being_written(directory: Path) -> bool:
    """Whether a process holds the lock of this run. Looking does not create the lock file."""
    with suppress(OSError):
        descriptor = open_descriptor(directory / LOCK, os.O_RDONLY, follow_links=False)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
    return False


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
