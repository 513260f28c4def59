"""Helpers to search all output of a run for a secret, and to inspect the processes of this machine."""

from __future__ import annotations

import base64
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from tests.spec.support import KEY, Ran

PIECES = [KEY[at : at + 8] for at in range(len(KEY) - 7)]
SPELLINGS = [KEY, quote(KEY, safe=""), base64.b64encode(KEY.encode()).decode(), KEY[::-1]]


def assert_no_key(text: str) -> None:
    """Assert that the text contains neither the key, nor eight consecutive characters of it, nor its base64."""
    assert not [piece for piece in PIECES if piece in text]
    for skipped in range(3):
        encoded = base64.b64encode(b"x" * skipped + KEY.encode()).decode()
        assert encoded[4:-4] not in text


def assert_clean(ran: Ran) -> None:
    """Assert that nothing the run wrote or printed contains the key."""
    assert_no_key(ran.files)
    assert_no_key(ran.words)


def wait_for(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "timed out waiting"
        time.sleep(0.005)


def processes() -> dict[int, str]:
    """The command line of every process by pid; empty for zombies."""
    found: dict[int, str] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208 - a hundred times a second
        if entry.isdigit():
            try:
                found[int(entry)] = Path("/proc", entry, "cmdline").read_bytes().replace(b"\0", b" ").decode("latin-1")
            except OSError:
                continue
    return found


def alive_with(marker: str) -> list[int]:
    """Pids of the processes whose command line contains the marker."""
    return [pid for pid, line in processes().items() if marker in line]


class Watch:
    """Context manager that records the command lines of all processes every few milliseconds."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def saw(self, word: str) -> bool:
        return any(word in line for line in set(self.seen))

    def _look(self) -> None:
        while not self._stop.wait(0.005):
            self.seen.update(processes().values())

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()


def listening_ports(pid: int) -> set[int]:
    """The TCP ports that a process listens on."""
    inodes = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            inodes.add(str(descriptor.readlink()))
        except OSError:
            continue
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in inodes}
