"""Durable file operations, and the error they raise when they fail."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path

from agentv.errors import RecordError
from agentv.regular_files import NotRegularError, open_descriptor

PRIVATE_DIRECTORY = 0o700
EXECUTION_ERROR = 3
"""Exit code of a run whose results could not be written. Not 2, because cases have already run."""
PRIVATE_FILE = 0o600
LONGEST_LINE = 64 << 20
"""Bytes of the longest row, and of the largest `run.json`."""
_CHUNK = 1 << 16

sync_data = getattr(os, "fdatasync", os.fsync)
"""Flush the contents of a file to disk. macOS has no fdatasync."""


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes. A full disk causes a short write first, and the error on the next write."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def open_private(path: Path, flags: int, *, follow_links: bool = False) -> int:
    """Open a regular file, created readable by the owner only regardless of the umask; an existing file keeps its mode.

    Raises NotRegularError for a pipe, a device and, unless `follow_links` is set, a symbolic link.
    """
    try:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
    except FileExistsError:
        return open_descriptor(path, flags | os.O_CREAT, PRIVATE_FILE, follow_links=follow_links)
    os.fchmod(descriptor, PRIVATE_FILE)
    return descriptor


def open_recorded(path: Path, *, follow_links: bool = False) -> BufferedReader:
    """Open a file of a run for reading. Raises NotRegularError like `open_private`."""
    return os.fdopen(open_descriptor(path, os.O_RDONLY, follow_links=follow_links), "rb")


def sync_directory(path: Path) -> None:
    """Flush the entries of a directory to disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def replaced(path: Path) -> Iterator[int]:
    """Replace a file atomically: yields a descriptor for the new contents. Readers see the old file or the new one.

    The temporary name is fixed, so a killed writer leaves at most one temporary file. Allows one writer at a time.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    with suppress(FileNotFoundError):
        temporary.unlink()
    descriptor = open_private(temporary, os.O_WRONLY | os.O_EXCL)
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
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def cut_torn_line(descriptor: int) -> int:
    """Remove an incomplete last line, which was never acknowledged. Returns the number of bytes removed."""
    end, size = whole_lines_end(descriptor), os.fstat(descriptor).st_size
    if end < size:
        os.ftruncate(descriptor, end)
        sync_data(descriptor)
    return size - end


def failure(doing: str, path: Path, error: OSError, next_step: str | None = None) -> RecordError:
    """A `RecordError` with the name of the system error, such as `ENOSPC`."""
    if isinstance(error, NotRegularError):
        return RecordError(f"{path} must be a regular file, got {error.kind}", next_step=next_step)
    code = errno.errorcode.get(error.errno or 0, "error")
    reason = (error.strerror or str(error)).lower()
    return RecordError(f"could not {doing} {path}: {code}: {reason}", next_step=next_step)
