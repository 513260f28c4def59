"""A worker process: `python -I -S child.py RUNTIME_PID SOCKET SYS_PATH...`. Runs the jobs that arrive on its socket.

It has a memory limit, and the kernel ends it when a job takes longer than its deadline or the runtime dies, even while
C code runs. Only the standard library is imported until the first job arrives.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import pickle
import resource
import signal
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

IDLE_SECONDS = 60.0
MEMORY_BYTES = 1 << 30
GRACE_SECONDS = 1.0
"""How long after its deadline the kernel ends a job, in case the runtime is gone or stopped."""
PR_SET_PDEATHSIG = 1


def main(connection: socket.socket, runtime: int) -> None:
    _limit()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != runtime:
            return
    while (request := _received(connection)) is not None:
        connection.sendall(_done(request, connection))


def _limit() -> None:
    try:
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(MEMORY_BYTES, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    except (OSError, ValueError):  # not supported on this system
        pass
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _received(connection: socket.socket) -> bytes | None:
    """The next request; None when the runtime closed the socket or was silent for too long."""
    connection.settimeout(IDLE_SECONDS)
    size: int | None = None
    content = bytearray()
    while size is None or len(content) < size:
        try:
            chunk = connection.recv(1 << 20)
        except TimeoutError:
            return None
        if not chunk:
            return None
        content += chunk
        if size is None and len(content) >= 8:
            size = int.from_bytes(content[:8], "big")
            del content[:8]
    return bytes(content)


def _done(request: bytes, connection: socket.socket) -> bytes:
    """Run a job: one byte is sent when its function starts, then the size and the outcome are returned."""
    started = False
    try:
        module, name, args, seconds = pickle.loads(request)  # noqa: S301  sent by the runtime
        function: Any = importlib.import_module(module)
        for part in name.split("."):
            function = getattr(function, part)
        # SIGALRM is not handled, so the kernel ends this process even while C code runs.
        signal.setitimer(signal.ITIMER_REAL, seconds + GRACE_SECONDS)
        connection.sendall(b"S")
        started = True
        try:
            outcome = (True, function(*args))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        reply = pickle.dumps(outcome, protocol=5)
    except MemoryError:
        os._exit(1)  # the heap is full: nothing else is certain to work
    except Exception as error:
        reply = pickle.dumps((False, (type(error), error.args, error.__dict__)), protocol=5)
    return (b"" if started else b"S") + len(reply).to_bytes(8, "big") + reply


if __name__ == "__main__":
    sys.path[:] = sys.argv[3:]
    with socket.socket(fileno=int(sys.argv[2])) as own_end:
        main(own_end, int(sys.argv[1]))
