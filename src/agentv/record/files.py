"""The few file operations that durability hangs on, and the words for when they fail."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agentv.errors import RecordError

PRIVATE_DIRECTORY = 0o700
EXECUTION_ERROR = 3
"""The exit code of a run whose record could not be written: something ran, so it is not 2."""
PRIVATE_FILE = 0o600
_CHUNK = 1 << 16

sync_data = getattr(os, "fdatasync", os.fsync)
"""Make the contents of a file durable. macOS has no fdatasync."""


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte: a disk that fills up gives a short write first, and the error with the next one."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def open_private(path: Path, flags: int) -> int:
    """Open a file that nobody else may read, whatever the umask; an existing file keeps its mode."""
    try:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
    except FileExistsError:
        return os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
    os.fchmod(descriptor, PRIVATE_FILE)
    return descriptor


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def replaced(path: Path) -> Iterator[int]:
    """A descriptor for the new contents of a file. Readers see the old file or the new one, never less.

    The temporary name is fixed, so that a killed writer leaves one such file at most; one writer at a time.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    descriptor = open_private(temporary, os.O_WRONLY | os.O_TRUNC)
    try:
        try:
            yield descriptor
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    sync_directory(path.parent)


def whole_lines_end(descriptor: int) -> int:
    """The offset after the last newline of a file."""
    end = os.fstat(descriptor).st_size
    while end > 0:
        start = max(0, end - _CHUNK)
        found = os.pread(descriptor, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def cut_torn_line(descriptor: int) -> int:
    """Cut a file after its last newline: what follows was never acknowledged. Returns how many bytes went."""
    end, size = whole_lines_end(descriptor), os.fstat(descriptor).st_size
    if end < size:
        os.ftruncate(descriptor, end)
        sync_data(descriptor)
    return size - end


def failure(doing: str, path: Path, error: OSError, next_step: str | None = None) -> RecordError:
    """A `RecordError` that names the system's word for what went wrong."""
    word = errno.errorcode.get(error.errno or 0, "error")
    reason = (error.strerror or str(error)).lower()
    return RecordError(f"could not {doing} {path}: {word}: {reason}", next_step=next_step)
