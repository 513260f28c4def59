"""The runtime's end of the helper process: start it, send it requests, notice its death."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentv.process import OWN_CHILDREN, resolve
from agentv.process_start import ProcessStartError

HELPER = Path(__file__).with_name("helper.py")
EXIT_SECONDS = 12.0
"""How long a helper may take to end what is below it before it is killed itself."""
PASSED_ON = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Without these some interpreters do not start."""


class HelperGoneError(Exception):
    """The helper died; a request may or may not have reached it."""


class HelperProcess:
    """One helper. It is started at once, and joins an event loop with the first request."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
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
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pidfd = -1
        self._ended: asyncio.Future[None] | None = None
        self._gone: dict[int, asyncio.Future[tuple[int, ...]]] = {}
        self.dead = False

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def ended(self) -> asyncio.Future[None]:
        """Done when it is dead."""
        assert self._ended is not None  # noqa: S101  there after `attach`
        return self._ended

    def attach(self) -> None:
        """Watch it from the running loop."""
        if self._loop is not None or self.dead:
            return
        self._loop = asyncio.get_running_loop()
        self._ended = self._loop.create_future()
        self._pidfd = os.pidfd_open(self._popen.pid)
        self._loop.add_reader(self._pidfd, self._on_death)
        self._loop.add_reader(self._socket.fileno(), self._read)

    async def send(self, text: bytes, descriptors: Sequence[int]) -> None:
        rights = b"".join(descriptor.to_bytes(4, sys.byteorder) for descriptor in descriptors)
        while not self.dead:
            try:
                self._socket.sendmsg([text], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)], socket.MSG_NOSIGNAL)
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.ETOOMANYREFS):
                    raise HelperGoneError from error
                await asyncio.sleep(0.002)  # hundreds of requests are waiting
            else:
                return
        raise HelperGoneError

    def _read(self) -> None:
        try:
            while text := self._socket.recv(4096):
                number, *left = text.split()
                future = self._future(int(number))
                if not future.done():
                    future.set_result(tuple(int(pid) for pid in left))
        except BlockingIOError:
            return
        except OSError:
            pass
        if self._loop is not None:
            self._loop.remove_reader(self._socket.fileno())

    def _future(self, number: int) -> asyncio.Future[tuple[int, ...]]:
        return self._gone.setdefault(number, asyncio.get_running_loop().create_future())

    async def orphans_dead(self, number: int, timeout: float) -> tuple[int, ...] | None:
        """Wait until it has killed what a lost supervisor left; the pids that would not die, None if it cannot tell."""
        future = self._future(number)
        if self._ended is not None and not self.dead:
            either: set[asyncio.Future[Any]] = {future, self._ended}
            await asyncio.wait(either, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        self._gone.pop(number, None)
        return future.result() if future.done() else None

    async def death(self, timeout: float) -> None:
        """Wait until it is dead, for a time."""
        if self._ended is not None:
            await asyncio.wait({self._ended}, timeout=timeout)

    def wake(self) -> None:
        """In case somebody stopped it."""
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
