"""Looking for a secret in everything a run leaves, and at the processes of this machine."""

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
    """Neither the key nor eight characters in a row of it, nor its base64."""
    assert not [piece for piece in PIECES if piece in text]
    for skipped in range(3):
        encoded = base64.b64encode(b"x" * skipped + KEY.encode()).decode()
        assert encoded[4:-4] not in text


def assert_clean(ran: Ran) -> None:
    """Nothing that a run wrote or printed holds the key."""
    assert_no_key(ran.files)
    assert_no_key(ran.words)


def wait_for(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "gave up waiting"
        time.sleep(0.005)


def processes() -> dict[int, str]:
    """Every process and its command line; zombies have none."""
    found: dict[int, str] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208 - a hundred times a second
        if entry.isdigit():
            try:
                found[int(entry)] = Path("/proc", entry, "cmdline").read_bytes().replace(b"\0", b" ").decode("latin-1")
            except OSError:
                continue
    return found


def alive_with(marker: str) -> list[int]:
    """The processes whose command line holds a word that nothing else uses."""
    return [pid for pid, line in processes().items() if marker in line]


class Watch:
    """Collects the command lines of all processes, every few milliseconds, while it is entered."""

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
    """The TCP ports a process listens on."""
    inodes = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            inodes.add(str(descriptor.readlink()))
        except OSError:
            continue
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in inodes}
