"""The lines of a growing file of a run: reads what was appended, and notices that the file was replaced."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentv import jsonio
from agentv.record.files import failure, open_recorded
from agentv.record.reading import lines_from

EMPTY = "empty"
_TAIL = 256
_FIRST = 1 << 16

Identity = tuple[int, int, int]
"""Inode, size and time of the last change. Two files with the same have the same contents."""

_scan = json.JSONDecoder().raw_decode
_SPACES = b" \t\r\n"


def parsed(line: bytes) -> Any:
    """The JSON value of a line. ValueError if it is damaged, RecursionError if it is nested too deeply.

    Faster than `jsonio.load`: it does not look for duplicate keys and for numbers that are too large.
    """
    if b"\\ud" in line or b"\\uD" in line:  # perhaps a lone surrogate, which is not text
        return jsonio.load(line, unique=False)
    text = line.decode("utf-8")
    value, end = _scan(text)
    if end != len(text) and text[end:].strip(" \t\r\n"):
        raise ValueError("more than one JSON value")
    return value


class LedgerLines:
    """Reads a JSON Lines file of a run from where the last call stopped. A missing file is empty."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.end = 0
        """The offset after the last complete line that was read."""
        self.torn = 0
        """Bytes after it: a line that is being written, or was when the writer was killed."""
        self.identity: Identity | None = None
        """The file as it was when it was last read to its end."""
        self.first_line = b""
        self._tail = b""
        self._inode = 0

    def current_identity(self) -> Identity | None:
        """The identity that the file has now; None if there is none."""
        try:
            return identity_of(self.path)
        except OSError as error:
            raise failure("read", self.path, error) from error

    def was_replaced(self) -> bool:
        """Whether the lines that were read are no longer the beginning of the file."""
        if not self.end:
            return False
        try:
            with open_recorded(self.path) as file:
                return self._is_other(file.fileno())
        except FileNotFoundError:
            return True
        except OSError as error:
            raise failure("read", self.path, error) from error

    def _is_other(self, descriptor: int) -> bool:
        status = os.fstat(descriptor)
        if status.st_ino != self._inode or status.st_size < self.end:
            return True
        return os.pread(descriptor, len(self._tail), self.end - len(self._tail)) != self._tail

    def read(self) -> Iterator[tuple[int, bytes]]:
        """The complete lines that were appended, with their offsets. Blank lines are skipped.

        Nothing is read if the file was replaced after `was_replaced` said that it was not: the next call says so.
        """
        try:
            with open_recorded(self.path) as file:
                if self.end and self._is_other(file.fileno()):
                    return
                status = os.fstat(file.fileno())
                self._inode = status.st_ino
                file.seek(self.end)
                for offset, line in lines_from(file, self.end):
                    if not self.first_line:
                        self.first_line = line[:_FIRST]
                    # A line that is too long is read in part.
                    self.end = offset + len(line) if line.endswith(b"\n") else file.tell()
                    if line.strip(_SPACES):
                        yield offset, line
                self._tail = os.pread(file.fileno(), min(_TAIL, self.end), max(0, self.end - _TAIL))
                self.torn = max(0, os.fstat(file.fileno()).st_size - self.end)
                self.identity = _identity(status)
        except FileNotFoundError:
            self.identity = None
        except OSError as error:
            raise failure("read", self.path, error) from error

    def at(self, offset: int, length: int) -> bytes:
        """The bytes of a line."""
        try:
            with open_recorded(self.path) as file:
                return os.pread(file.fileno(), length, offset)
        except OSError as error:
            raise failure("read", self.path, error) from error

    def fingerprint(self) -> str:
        """Names the file and its first line: the same for all that is appended to it, different if it was replaced."""
        start = f"{self._inode:x}".encode("ascii") + b"\n" + self.first_line
        return hashlib.sha256(start).hexdigest()[:16] if self.first_line else EMPTY


def identity_of(path: Path) -> Identity | None:
    """The identity of a file; None if there is none."""
    try:
        return _identity(path.stat(follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return None


def _identity(status: os.stat_result) -> Identity:
    return status.st_ino, status.st_size, status.st_mtime_ns
