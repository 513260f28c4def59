"""Notice that files were saved, by looking at them again and again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

POLL_SECONDS = 0.2
SETTLE_SECONDS = 0.1
"""Files must be unchanged for this long: editors write twice, or replace a file by another."""
LONGEST_ABSENCE = 1.0
"""Seconds after which a file that an editor might be replacing counts as deleted."""

Stamp = tuple[int, int, int] | None
"""What changes when a file is saved; None if there is no file."""


def stamp(path: Path) -> Stamp:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def stamps(paths: Iterable[Path]) -> dict[Path, Stamp]:
    return {path: stamp(path) for path in paths}


async def until_saved(before: Mapping[Path, Stamp]) -> dict[Path, Stamp]:
    """Wait until a file is saved and no longer being written, and return what the files are then."""
    now = stamps(before)
    while now == before:
        await asyncio.sleep(POLL_SECONDS)
        now = stamps(before)
    started = time.monotonic()
    while True:
        await asyncio.sleep(SETTLE_SECONDS)
        later = stamps(before)
        replaced = any(each is None and before[path] is not None for path, each in later.items())
        if later == now and (not replaced or time.monotonic() - started > LONGEST_ABSENCE):
            return later
        now = later
