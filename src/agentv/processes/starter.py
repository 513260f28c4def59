"""The runtime's connection to a process that starts scripts: the helper or a zygote."""

from __future__ import annotations

import asyncio
import errno
import socket
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentv.processes.execution import Script


MOST_BYTES = 1 << 17
"""Largest datagram."""


class HelperGoneError(Exception):
    """The helper or zygote died; the request may or may not have reached it."""


class Starter(ABC):
    """Sends requests over a socket, and receives a message when the orphans of a lost supervisor have been killed."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Future[None] | None = None
        self._gone: dict[int, asyncio.Future[tuple[int, ...]]] = {}
        self.dead = False

    def _connect(self) -> socket.socket:
        """Create the socket pair and return the other process's end."""
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
        return theirs

    @abstractmethod
    def encoded(self, script: Script) -> bytes:
        """The request that starts the script."""

    @abstractmethod
    def wake(self) -> None:
        """Send SIGCONT, in case the process was stopped."""

    @property
    def ended(self) -> asyncio.Future[None]:
        """A future that is done when the process is dead."""
        assert self._ended is not None  # noqa: S101  set by `attach`
        return self._ended

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
            while text := self._socket.recv(MOST_BYTES):
                self._take(text)
        except BlockingIOError:
            return
        except OSError:
            pass
        if self._loop is not None:
            self._loop.remove_reader(self._socket.fileno())

    def _take(self, text: bytes) -> None:
        number, *left = text.split()
        future = self._future(int(number))
        if not future.done():
            future.set_result(tuple(int(pid) for pid in left))

    def _future(self, number: int) -> asyncio.Future[tuple[int, ...]]:
        return self._gone.setdefault(number, asyncio.get_running_loop().create_future())

    async def orphans_dead(self, number: int, timeout: float) -> tuple[int, ...] | None:
        """Wait until a lost supervisor's orphans are dead. Returns pids that could not be killed; None if unknown."""
        future = self._future(number)
        if self._ended is not None and not self.dead:
            either: set[asyncio.Future[Any]] = {future, self._ended}
            await asyncio.wait(either, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        self._gone.pop(number, None)
        return future.result() if future.done() else None
