"""Helpers to build scripts and to inspect processes from outside."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import secrets
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.kill_runtime import marked

from agentv.processes.launcher import Launcher, Script

ENV = dict(os.environ)
PYTHON = (sys.executable, "-I", "-S")


def sh(code: str, *args: str, cwd: Path | str = "/", **options: Any) -> Script:
    return Script(["/bin/sh", "-c", code, "sh", *args], **{"cwd": cwd, "env": ENV, "timeout": 60.0, **options})


def python(code: str, *args: str, cwd: Path | str = "/", **options: Any) -> Script:
    return Script([*PYTHON, "-c", code, *args], **{"cwd": cwd, "env": ENV, "timeout": 60.0, **options})


def alive(pid: int) -> bool:
    """Whether a process is running; zombies do not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def until(condition: Callable[[], bool], seconds: float = 30) -> bool:
    for _ in range(int(seconds / 0.005)):
        if condition():
            return True
        await asyncio.sleep(0.005)
    return condition()


@contextlib.contextmanager
def marker() -> Iterator[str]:
    """An argument that identifies processes (also valid for `sleep`); processes left at the end are killed."""
    text = f"60.{secrets.randbelow(10**18):018}"
    try:
        yield text
    finally:
        for pid in marked(text):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def open_files(pid: int | str = "self") -> int:
    gc.collect()  # garbage of other tests must not be freed between two counts
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def helper_pid(launcher: Launcher) -> int:
    (helper,) = launcher._helpers.values()
    return helper.pid


def children() -> list[int]:
    found: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            found += map(int, (task / "children").read_text().split())
    return found


def zombies_of(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            state, parent = (path / "stat").read_text().rpartition(")")[2].split()[:2]
            if int(path.name) and state == "Z" and int(parent) == pid:
                found.append(int(path.name))
    return found


ANCESTORS = """
import os
def parent(pid): return int(open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[1])
supervisor = os.getppid()
helper = parent(supervisor)
"""
"""For scripts that attack the processes that started them."""
