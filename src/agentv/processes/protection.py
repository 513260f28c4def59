"""Detect which kernel features isolate scripts from the runtime, and protect the runtime process itself."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agentv.processes.run import OWN_CHILDREN

PR_GET_DUMPABLE = 3


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Which guarantees a launcher can give on this machine."""

    supervised: bool
    """Whether every descendant of a script ends with it. Otherwise only its process group does."""
    landlock: int | None
    """Landlock version. None without Landlock: scripts can then read the environment of the runtime's parent
    processes, such as `make` or `sh -c`."""
    reads_everything: bool = False
    """Whether this process and its scripts have privileges that bypass all protection, such as root's."""


def capabilities() -> Capabilities:
    if not supervision_works():
        return Capabilities(supervised=False, landlock=None)
    from agentv.processes.helper import landlock_abi  # noqa: PLC0415  loads ctypes

    return Capabilities(supervised=True, landlock=landlock_abi(), reads_everything=_reads_everything())


def _reads_everything() -> bool:
    """Whether this process can read any other: CAP_SYS_PTRACE, CAP_SYS_ADMIN or CAP_PERFMON."""
    with contextlib.suppress(OSError, ValueError), Path("/proc/self/status").open(encoding="ascii") as status:
        for line in status:
            if line.startswith("CapEff:"):
                return bool(int(line.split()[1], 16) & (1 << 19 | 1 << 21 | 1 << 38))
    return False


def supervision_works() -> bool:
    """Whether scripts can be supervised: Linux 5.3 or later, with pidfds permitted."""
    if sys.platform != "linux" or not hasattr(os, "pidfd_open") or not hasattr(os, "memfd_create"):
        return False
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:
        return False
    return True


_lock = threading.Lock()
_protections = 0
_dumpable_before = 0


@contextlib.contextmanager
def protect_runtime() -> Iterator[None]:
    """Prevent other processes of the same user from reading this process's memory and environment.

    Can be nested and used from several threads; the previous state is restored when the last one leaves.
    """
    if sys.platform != "linux":
        yield
        return
    _protect(1)
    try:
        yield
    finally:
        _protect(-1)


def _protect(change: int) -> None:
    from agentv.processes.helper import PR_SET_DUMPABLE, prctl  # noqa: PLC0415  loads ctypes

    global _protections, _dumpable_before  # noqa: PLW0603  the protection belongs to the process
    with _lock:
        if _protections == 0:
            _dumpable_before = prctl(PR_GET_DUMPABLE, 0)
            prctl(PR_SET_DUMPABLE, 0)
        _protections += change
        if _protections == 0 and _dumpable_before == 1:
            prctl(PR_SET_DUMPABLE, 1)


def adopt_orphans() -> None:
    """Make this process the parent of orphaned descendants."""
    from agentv.processes.helper import PR_SET_CHILD_SUBREAPER, prctl  # noqa: PLC0415  loads ctypes

    prctl(PR_SET_CHILD_SUBREAPER, 1)


def strangers(known: set[int]) -> list[int]:
    """Pids of adopted children: those that neither agentv nor a library in this process started.

    Scripts run in their own sessions, and their descendants can never rejoin ours. So a child in our session was
    started by a library.
    """
    from agentv.processes.helper import children  # noqa: PLC0415  loads ctypes

    ours = os.getsid(0)
    return [pid for pid in children() if pid not in OWN_CHILDREN and pid not in known and _session(pid) != ours]


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None
