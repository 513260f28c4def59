"""Open regular files only, without ever blocking on a pipe or a device."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class FileUnusableError(ValueError):
    """A file that cannot be read or has changed. The message is the rest of a sentence that starts with the file."""


class NotRegularError(OSError):
    """A file that is not a regular file; `kind` says what it is."""

    def __init__(self, kind: str) -> None:
        super().__init__(errno.EINVAL, f"it is {kind}, not a regular file")
        self.kind = kind


def kind_of(mode: int) -> str | None:
    """What a file is, such as "a directory", from its mode; None for a regular file."""
    return None if stat.S_ISREG(mode) else _KINDS.get(stat.S_IFMT(mode), "a special file")


def open_descriptor(path: Path, flags: int, mode: int = 0o600, *, follow_links: bool = True) -> int:
    """`os.open` that never blocks. Raises NotRegularError for anything but a regular file.

    Without `follow_links`, this includes a symbolic link to a regular file.
    """
    flags |= os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow_links else os.O_NOFOLLOW)
    try:
        # Looked at first: opening some devices has effects.
        if (kind := kind_of(path.stat(follow_symlinks=follow_links).st_mode)) is not None:
            raise NotRegularError(kind)
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    descriptor = os.open(path, flags, mode)
    if (kind := kind_of(os.fstat(descriptor).st_mode)) is not None:
        os.close(descriptor)
        raise NotRegularError(kind)
    return descriptor


def open_regular(path: Path, *, follow_links: bool = True) -> BufferedReader:
    """Open a regular file for reading. FileUnusableError explains why a file cannot be opened."""
    try:
        return os.fdopen(open_descriptor(path, os.O_RDONLY, follow_links=follow_links), "rb")
    except NotRegularError as error:
        named = error.kind in (_KINDS[stat.S_IFDIR], _KINDS[stat.S_IFLNK])
        raise FileUnusableError(f"is {error.kind}, not a file" if named else "is not a regular file") from None
    except FileNotFoundError:
        raise FileUnusableError("does not exist") from None
    except OSError as error:
        raise FileUnusableError(f"cannot be read: {error.strerror}") from None
    except ValueError:  # a NUL in the path
        raise FileUnusableError("does not exist") from None


def read_regular(path: Path, limit: int) -> bytes:
    """The bytes of a regular file that is not a link; FileUnusableError if that fails, or beyond `limit` bytes."""
    try:
        with open_regular(path, follow_links=False) as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise FileUnusableError(f"cannot be read: {error.strerror}") from None
    if len(data) > limit:
        raise FileUnusableError(f"is larger than {limit // 2**20} MiB")
    return data


def as_text(data: bytes) -> str:
    """The text of a file, with \\n as line ending. FileUnusableError if it is not UTF-8."""
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise FileUnusableError(f"is not UTF-8 text (byte {error.start})") from None
