"""Waiting for files to be saved: their stamps are looked at a few times a second."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path

PAUSE_SECONDS = 0.15
Stamp = tuple[int, int, int] | None


def stamps(files: Iterable[Path]) -> dict[Path, Stamp]:
    """What changes when a file is saved, also by an editor that replaces it; None for a file that is not there."""
    return {path: _stamp(path) for path in files}


def _stamp(path: Path) -> Stamp:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


async def changed_since(before: Mapping[Path, Stamp]) -> list[Path]:
    """The files that were saved, once whoever saves them is done with it."""
    while (now := stamps(before)) == before:  # noqa: ASYNC110 - nobody tells us of a save
        await asyncio.sleep(PAUSE_SECONDS)
    while True:
        await asyncio.sleep(PAUSE_SECONDS)
        again = stamps(before)
        if again == now and (changed := sorted(path for path in now if now[path] != before[path])):
            return changed
        now = again
