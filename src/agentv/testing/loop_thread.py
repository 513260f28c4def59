"""An event loop in its own thread, so that synchronous and asynchronous tests can both use asynchronous helpers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class RunThere(Protocol):
    """Runs a coroutine in the thread and returns its result."""

    def __call__(self, coroutine: Coroutine[Any, Any, T], /) -> T: ...


@contextmanager
def loop_thread() -> Iterator[RunThere]:
    """Run an event loop in a thread. On exit, remaining tasks are cancelled."""
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def main() -> None:
        finished = asyncio.Event()
        started.set_result((asyncio.get_running_loop(), finished))
        await finished.wait()

    thread = threading.Thread(target=asyncio.run, args=(main(),), name="agentv-testing", daemon=True)
    thread.start()
    loop, finished = started.result()

    def run(coroutine: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        try:
            return future.result()
        except BaseException:  # Ctrl-C is raised in this thread only
            future.cancel()
            raise

    try:
        yield run
    finally:
        loop.call_soon_threadsafe(finished.set)
        thread.join()
