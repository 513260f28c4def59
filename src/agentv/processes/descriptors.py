"""File descriptors: a higher limit for agentv than for the programs it starts, and waiting while none are free."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

if sys.platform != "win32":
    import resource

MOST = 65_536
"""More than agentv ever needs: some systems slow down with the limit, or refuse higher ones."""
USUAL = 1024
WAIT_SECONDS = 10.0
PAUSE_SECONDS = 0.05
_OUT = (errno.EMFILE, errno.ENFILE)

T = TypeVar("T")

_started_with: tuple[int, int] | None = None
"""The limit of this process before agentv raised it; None if it did not."""


def limit() -> int:
    """How many descriptors this process may have open."""
    if sys.platform == "win32":
        return USUAL
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if soft == resource.RLIM_INFINITY else soft


@contextlib.contextmanager
def raised_limit() -> Iterator[None]:
    """Raise the limit as far as the system allows. The usual 1,024 are too few for hundreds of concurrent calls."""
    global _started_with  # noqa: PLW0603  the limit belongs to the process
    if sys.platform == "win32" or _started_with is not None:
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST if before[1] == resource.RLIM_INFINITY else min(before[1], MOST)
    if before[0] == resource.RLIM_INFINITY or before[0] >= most or not _set((most, before[1])):
        yield
        return
    _started_with = before
    try:
        yield
    finally:
        _started_with = None
        _set(before)


def start(argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a program with the original limit: some programs close every descriptor up to the limit, or cannot handle
    numbers above 1,023. `options` are those of `subprocess.Popen`."""
    if _started_with is None or sys.platform == "win32":
        return subprocess.Popen(argv, **options)
    current = resource.getrlimit(resource.RLIMIT_NOFILE)
    _set(_started_with)
    try:
        return subprocess.Popen(argv, **options)
    except OSError as error:
        if not ran_out(error):
            raise
    finally:
        _set(current)
    # agentv itself has more descriptors open than the original limit allows.
    popen = subprocess.Popen(argv, **options)
    if sys.platform == "linux":
        with contextlib.suppress(OSError, ValueError):
            resource.prlimit(popen.pid, resource.RLIMIT_NOFILE, _started_with)
    return popen


def _set(limits: tuple[int, int]) -> bool:
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    except (OSError, ValueError):
        return False
    return True


def ran_out(error: BaseException | None) -> bool:
    """Whether the error means that the process or the system is out of file descriptors."""
    return isinstance(error, OSError) and error.errno in _OUT


def explain(error: OSError) -> tuple[str, str]:
    """What happened, and the next step."""
    whose = "this machine" if error.errno == errno.ENFILE else "agentv"
    return (
        f"{whose} is out of file descriptors (limit {limit():,})",
        "Raise the limit (`ulimit -n 8192`), or lower `--workers` or `max_concurrency`.",
    )


async def when_free(action: Callable[[], T]) -> T:
    """Call the action, and retry while there are no free file descriptors, for up to `WAIT_SECONDS`."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            return action()
        except OSError as error:
            if not ran_out(error) or time.monotonic() > deadline:
                raise
        await asyncio.sleep(PAUSE_SECONDS)
