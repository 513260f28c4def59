"""Encoded columns on disk, so that a large run that is not being written opens without reading its rows again.

A file is named after its run and keyed by the identity of the files it was made from. It can be deleted at any time;
one that is damaged or out of date is ignored.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import struct
import sys
import time
import zlib
from array import array
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agentv.codec import DecodeError, decode
from agentv.record.files import open_private, write_all
from agentv.record.manifest import HOME, RUNS
from agentv.record.run_dir import make_private
from agentv.regular_files import FileUnusableError, read_regular

SUFFIX = ".columns"
MOST_BYTES = 256 << 20
"""Size of all files together. The ones that were used longest ago are removed."""
LONGEST_FILE = 128 << 20
_LARGEST = 1 << 30
"""Bytes of the columns in a file."""
_MAGIC = b"agentv columns 2\n"
_UNFINISHED_SECONDS = 3600
_DIGEST = hashlib.sha256().digest_size
_COLUMNS = ("q", "i", "q", "i")


@dataclass(frozen=True, slots=True)
class CachedHead:
    """What is known about the rows besides the columns."""

    generation: str
    rows: int
    errors: int
    cost_usd: float
    judge_cost_usd: float
    judge_calls: int
    unpriced_judges: int
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CachedColumns:
    """The columns of a run as they are sent to the page, and where its rows and cases are."""

    head: CachedHead
    packed: bytes
    offset: array[int]
    length: array[int]
    case_offset: array[int]
    """Where the case of each row is in `cases.jsonl`; -1 if it is not recorded."""
    case_length: array[int]


def cache_of(run: Path) -> Path:
    """The directory of the cache for a run: that of its project, or else of the working directory."""
    home = run.parent.parent if run.parent.parts[-2:] == RUNS.parts else Path.cwd() / HOME
    return home / "cache" / "view"


class ColumnCache:
    """The file of one run. Failures are ignored: without a cache, the rows are read."""

    def __init__(self, run: Path) -> None:
        self._directory = cache_of(run)
        self._name = hashlib.sha256(os.fsencode(run.absolute())).hexdigest()[:16]

    def load(self, key: Any) -> CachedColumns | None:
        """The columns that were saved with this key."""
        path = self._path(key)
        try:
            data = read_regular(path, LONGEST_FILE)
        except FileUnusableError:
            return None
        body = data[len(_MAGIC) + _DIGEST :]
        if data[: len(_MAGIC) + _DIGEST] != _MAGIC + hashlib.sha256(body).digest():
            return None
        try:
            columns = _unpacked(body)
        except (ValueError, DecodeError, zlib.error, struct.error, RecursionError):
            return None
        with suppress(OSError):
            os.utime(path)
        return columns

    def save(self, key: Any, columns: CachedColumns) -> None:
        body = _packed(columns)
        if len(body) > LONGEST_FILE // 2 or not self._directory.parent.parent.is_dir():
            return
        temporary = self._directory / f".{self._name}.{secrets.token_hex(4)}.tmp"
        with suppress(OSError):
            make_private(self._directory)
            try:
                descriptor = open_private(temporary, os.O_WRONLY | os.O_EXCL)
                try:
                    write_all(descriptor, _MAGIC + hashlib.sha256(body).digest() + body)
                finally:
                    os.close(descriptor)
                temporary.replace(self._path(key))
            finally:
                with suppress(FileNotFoundError):
                    temporary.unlink()
            self._clean(self._path(key))

    def _path(self, key: Any) -> Path:
        digest = hashlib.sha256(json.dumps([sys.byteorder, key]).encode("ascii")).hexdigest()[:16]
        return self._directory / f"{self._name}-{digest}{SUFFIX}"

    def _clean(self, newest: Path) -> None:
        """Remove older versions of this file, and what exceeds the limit."""
        files, outdated_at = [], time.time() - _UNFINISHED_SECONDS
        with os.scandir(self._directory) as found:
            for entry in found:
                if entry.name.endswith(".tmp") and entry.stat(follow_symlinks=False).st_mtime < outdated_at:
                    Path(entry.path).unlink(missing_ok=True)  # its writer was killed
                if entry.name.endswith(SUFFIX) and entry.is_file(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    files.append((status.st_mtime_ns, status.st_size, Path(entry.path)))
        room = MOST_BYTES
        for _, size, path in sorted(files, reverse=True):
            outdated = path != newest and path.name.startswith(f"{self._name}-")
            room -= 0 if outdated else size
            if outdated or (room < 0 and path != newest):
                path.unlink(missing_ok=True)


def _packed(columns: CachedColumns) -> bytes:
    places = (columns.offset, columns.length, columns.case_offset, columns.case_length)
    parts = [
        json.dumps(asdict(columns.head)).encode("ascii"),
        zlib.compress(columns.packed, 1),
        *(zlib.compress(place.tobytes(), 1) for place in places),
    ]
    return b"".join(struct.pack("<Q", len(part)) + part for part in parts)


def _unpacked(body: bytes) -> CachedColumns:
    parts, place = [], 0
    for _ in range(2 + len(_COLUMNS)):
        (length,) = struct.unpack_from("<Q", body, place)
        part = body[place + 8 : place + 8 + length]
        if len(part) != length:
            raise ValueError("a part is incomplete")
        parts.append(part)
        place += 8 + length
    head = decode(CachedHead, json.loads(parts[0]))
    places = []
    for kind, part in zip(_COLUMNS, parts[2:], strict=True):
        values = array(kind)
        wanted = head.rows * values.itemsize
        contents = zlib.decompressobj().decompress(part, wanted + 1)
        if len(contents) != wanted:
            raise ValueError("an array has another length")
        values.frombytes(contents)
        places.append(values)
    return CachedColumns(head, zlib.decompressobj().decompress(parts[1], _LARGEST), *places)
