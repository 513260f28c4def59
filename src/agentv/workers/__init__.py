"""Killable processes for work on foreign input, so that nothing a script, a model or a file sends can block the event
loop or outlive its deadline.

    value = await workers.call(function, *args, seconds=5.0)

`function` is a module-level function of agentv. Arguments and result are plain data or dataclasses; keep the result
small, because it is decoded in the event loop. Put the function in a module with few imports: a worker imports it once.
A call takes about 0.2 ms, and the first one starts a process. So keep a fast path with a bound for small input.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from agentv.processes import descriptors
from agentv.workers.worker import (
    CONNECTION_LOST,
    START_SECONDS,
    Job,
    TookTooLongError,
    Worker,
    WorkerDiedError,
    WorkerError,
    outcome_of,
)

__all__ = [
    "IN_LINE_BYTES",
    "MOST_WORKERS",
    "TookTooLongError",
    "WorkerDiedError",
    "WorkerError",
    "call",
    "call_blocking",
    "close",
]

IN_LINE_BYTES = 256 * 1024
"""JSON above this size is not parsed in the event loop."""
MOST_WORKERS = max(2, min(4, os.cpu_count() or 2))
"""Most workers that one event loop uses concurrently; further calls wait."""
ATTEMPTS = 2
"""A worker can be killed by something other than its job, so a job whose worker died is run once more."""

P = ParamSpec("P")
R = TypeVar("R")


class _Pool:
    """The idle workers of this process."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.idle: list[Worker] = []
        self.slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def take(self) -> Worker:
        """An idle worker, or a new one."""
        with self._lock:
            while self.idle:
                worker = self.idle.pop()
                if worker.alive():
                    return worker
                worker.end()
        return Worker()

    @contextmanager
    def using(self, worker: Worker, job: Job) -> Iterator[None]:
        """Keep the worker for the next job, unless something went wrong, because its state is then unknown.

        The death of the worker is not raised; there is no reply then.
        """
        try:
            yield
        except CONNECTION_LOST:
            worker.end()
        except TimeoutError:
            worker.end()
            raise TookTooLongError(job.name, job.seconds) from None
        except BaseException:
            worker.end()
            raise
        else:
            self._keep(worker)

    def _keep(self, worker: Worker) -> None:
        with self._lock:
            if len(self.idle) < MOST_WORKERS:
                self.idle.append(worker)
                return
        worker.end()

    def slot(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        if loop not in self.slots:
            self.slots[loop] = asyncio.Semaphore(MOST_WORKERS)
        return self.slots[loop]

    def close(self) -> None:
        with self._lock:
            idle, self.idle = self.idle, []
        for worker in idle:
            worker.end()


_pool = _Pool()


def _current_pool() -> _Pool:
    global _pool  # noqa: PLW0603  the workers belong to the process
    if _pool.owner != os.getpid():  # a fork must not talk to the workers of its parent
        _pool = _Pool()
    return _pool


async def call(function: Callable[P, R], *args: Any, seconds: float) -> R:
    """Run the function in a worker, and return its result or raise its exception.

    The time counts from the moment the function starts. Raises TookTooLongError when it is over, and WorkerDiedError
    when the worker crashed or ran out of memory.
    """
    job = Job.of(function, args, seconds)
    pool = _current_pool()
    async with pool.slot():
        for _ in range(ATTEMPTS):
            worker, reply = await descriptors.when_free(pool.take), None
            with pool.using(worker, job):
                reply = await _exchange(worker.socket, job.request, seconds)
            if reply is not None:
                value: R = outcome_of(reply)
                return value
    raise WorkerDiedError(job.name)


async def _exchange(connection: socket.socket, request: bytes, seconds: float) -> bytes:
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(START_SECONDS):
        await loop.sock_sendall(connection, request)
        await _received(loop, connection, 1)
    async with asyncio.timeout(seconds):
        size = int.from_bytes(await _received(loop, connection, 8), "big")
        return await _received(loop, connection, size)


async def _received(loop: asyncio.AbstractEventLoop, connection: socket.socket, size: int) -> bytes:
    buffer = bytearray(size)
    view = memoryview(buffer)
    while view:
        count = await loop.sock_recv_into(connection, view)
        if not count:
            raise EOFError
        view = view[count:]
    return bytes(buffer)


def call_blocking(function: Callable[P, R], *args: Any, seconds: float) -> R:
    """Do the same as `call` where no event loop runs, such as while files are loaded."""
    job = Job.of(function, args, seconds)
    pool = _current_pool()
    for _ in range(ATTEMPTS):
        worker, reply = pool.take(), None
        with pool.using(worker, job):
            reply = worker.exchange(job.request, seconds)
        if reply is not None:
            value: R = outcome_of(reply)
            return value
    raise WorkerDiedError(job.name)


@atexit.register
def close() -> None:
    """End the idle workers. They also end when this process does."""
    _current_pool().close()
