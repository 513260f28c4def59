"""Threads that read runs for the server, so that its event loop never waits for a disk or for a long calculation."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class ThreadCrew:
    """A limited number of threads, started when they are needed. Further calls wait in line.

    The process does not wait for them when it exits, unlike for those of `concurrent.futures`: a comparison of large
    runs takes seconds, and Ctrl-C must not.
    """

    def __init__(self, size: int, name: str) -> None:
        self._size = size
        self._name = name
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._started = 0
        self._open = 0
        """Calls that were made and have not ended."""
        self._lock = threading.Lock()

    async def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of the function. If this is cancelled while the call waits in line, the call is not made."""
        future: Future[T] = Future()
        with self._lock:
            self._open += 1
            self._calls.put((future, lambda: function(*args, **kwargs)))
            if self._started < min(self._open, self._size):
                self._started += 1
                threading.Thread(target=self._work, name=f"agentv-{self._name}", daemon=True).start()
        return await asyncio.wrap_future(future)

    def _work(self) -> None:
        while True:
            future, function = self._calls.get()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function())
                except BaseException as error:
                    future.set_exception(error)
            del future, function  # the next call may come much later
            with self._lock:
                self._open -= 1
