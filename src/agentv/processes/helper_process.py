"""The runtime's end of the helper process: start it, send it requests, notice its death."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from agentv.processes.run import OWN_CHILDREN, resolve
from agentv.processes.start import ProcessStartError
from agentv.processes.starter import Starter

if TYPE_CHECKING:
    from agentv.processes.execution import Script

HELPER = Path(__file__).with_name("helper.py")
EXIT_SECONDS = 12.0
"""How long a helper may take to end what is below it before it is killed itself."""
PASSED_ON = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Without these some interpreters do not start."""


class HelperProcess(Starter):
    """One helper. It is started at once, and joins an event loop with the first request."""

    def __init__(self) -> None:
        super().__init__()
        theirs = self._connect()
        try:
            self._popen = _start(theirs.fileno())
        except OSError as error:
            self._socket.close()
            raise ProcessStartError(
                f"the helper process that starts scripts could not be started with {sys.executable!r}: {error}",
                next_step="Check that this Python interpreter can be run, and that the system allows more processes.",
            ) from error
        finally:
            theirs.close()
        OWN_CHILDREN.add(self._popen.pid)
        self._pidfd = -1

    @property
    def pid(self) -> int:
        return self._popen.pid

    def attach(self) -> None:
        """Watch it from the running loop."""
        if self._loop is not None or self.dead:
            return
        self._loop = asyncio.get_running_loop()
        self._ended = self._loop.create_future()
        self._pidfd = os.pidfd_open(self._popen.pid)
        self._loop.add_reader(self._pidfd, self._on_death)
        self._loop.add_reader(self._socket.fileno(), self._read)

    async def death(self, timeout: float) -> None:
        """Wait until it is dead, for a time."""
        if self._ended is not None:
            await asyncio.wait({self._ended}, timeout=timeout)

    def encoded(self, script: Script) -> bytes:
        return script.encoded()

    def wake(self) -> None:
        if not self.dead:
            self._popen.send_signal(signal.SIGCONT)

    def _on_death(self) -> None:
        self._read()
        self._release()

    def _release(self) -> None:
        """It is dead: reap it and let go of everything."""
        self._popen.wait()
        OWN_CHILDREN.discard(self._popen.pid)
        self.dead = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._pidfd)
            self._loop.remove_reader(self._socket.fileno())
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
        self._socket.close()
        if self._ended is not None and not self._ended.get_loop().is_closed():
            resolve(self._ended)

    async def end(self) -> None:
        """Hang up, and wait until it has ended everything below it and itself."""
        self.attach()
        if self.dead or self._ended is None:
            return
        self.wake()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        try:
            await self.death(EXIT_SECONDS)
        finally:
            self.stop()

    def stop(self) -> None:
        """The same without a loop, for a helper that nothing was asked of."""
        if self.dead:
            return
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        try:
            self._popen.wait(timeout=1)
        except subprocess.TimeoutExpired:
            self._popen.kill()
        self._release()


def _start(control: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(HELPER), str(control), str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={name: os.environ[name] for name in PASSED_ON if name in os.environ},
        pass_fds=(control,),
        start_new_session=True,
    )
