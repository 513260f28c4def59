"""The runtime's side of one worker: starting it, talking to it, and killing it."""

from __future__ import annotations

import os
import pickle
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from agentv.errors import AgentVError
from agentv.processes.run import OWN_CHILDREN

CHILD = Path(__file__).with_name("child.py")
CONNECTION_LOST = (ConnectionError, EOFError)
START_SECONDS = 30.0
"""How long a worker may take to read a request and to import its function, on a machine under load."""
PASSED_ON = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "SYSTEMROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""All that a worker gets of the environment: it needs no secret."""


class WorkerError(AgentVError):
    """Work on foreign input was stopped."""


class TookTooLongError(WorkerError):
    """The work did not finish in time; its worker was killed."""

    def __init__(self, job: str, seconds: float) -> None:
        super().__init__(f"`{job}` took longer than {seconds:g} s and was stopped")
        self.seconds = seconds


class WorkerDiedError(WorkerError):
    """The worker crashed or was killed by the system, each time it was tried."""

    def __init__(self, job: str) -> None:
        super().__init__(f"the process that ran `{job}` died, probably because it ran out of memory")


@dataclass(frozen=True, slots=True)
class Job:
    """One call of a function, ready to be sent."""

    name: str
    seconds: float
    request: bytes

    @classmethod
    def of(cls, function: Callable[..., Any], args: tuple[Any, ...], seconds: float) -> Self:
        body = pickle.dumps((function.__module__, function.__qualname__, args, seconds), protocol=5)
        return cls(function.__qualname__, seconds, len(body).to_bytes(8, "big") + body)


def outcome_of(reply: bytes) -> Any:
    """The result in a worker's reply. Raises the exception if there is one."""
    done, value = pickle.loads(reply)  # noqa: S301  the worker runs agentv's code alone
    if done:
        return value
    kind, args, state = value
    error = kind.__new__(kind, *args)  # not called: an exception's __init__ may take other arguments
    error.__dict__.update(state)
    raise error


class Worker:
    """One child process and the socket to it. It ends when the socket is closed."""

    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair()
        env = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        command = [sys.executable, "-I", "-S", str(CHILD), str(os.getpid()), str(theirs.fileno())]
        with theirs:
            try:
                self._popen = subprocess.Popen(
                    [*command, *(folder or os.getcwd() for folder in sys.path)],  # noqa: PTH109
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    env=env,
                    cwd="/",
                    start_new_session=True,  # Ctrl-C in a terminal is for the runtime alone
                )
            except BaseException:
                self.socket.close()
                raise
        OWN_CHILDREN.add(self._popen.pid)
        threading.Thread(target=self._reap, name="agentv-worker", daemon=True).start()
        self.socket.setblocking(False)

    def alive(self) -> bool:
        """Whether it waits for a job. A worker ends after it has been idle for some time."""
        poll = select.poll()  # `select` cannot handle descriptors from 1024
        poll.register(self.socket, select.POLLIN)
        return not poll.poll(0)

    def exchange(self, request: bytes, seconds: float) -> bytes:
        """Send a request and wait for the reply. Raises TimeoutError."""
        try:
            self.socket.settimeout(START_SECONDS)
            self.socket.sendall(request)
            self._received(1, time.monotonic() + START_SECONDS)
            deadline = time.monotonic() + seconds
            size = int.from_bytes(self._received(8, deadline), "big")
            return self._received(size, deadline)
        finally:
            self.socket.setblocking(False)

    def _received(self, size: int, deadline: float) -> bytes:
        content = bytearray()
        while len(content) < size:
            self.socket.settimeout(max(0.001, deadline - time.monotonic()))
            chunk = self.socket.recv(min(size - len(content), 1 << 20))
            if not chunk:
                raise EOFError
            content += chunk
        return bytes(content)

    def end(self) -> None:
        """Kill it, whatever it is doing."""
        self.socket.close()
        self._popen.kill()

    def _reap(self) -> None:
        """Wait for its end in a thread: it can end at any time, and must not remain as a zombie."""
        self._popen.wait()
        OWN_CHILDREN.discard(self._popen.pid)
