"""An event loop in a thread of its own, so that a test of any kind, also one inside a loop, can use what needs one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class RunThere(Protocol):
    """Runs a coroutine in the thread and waits for what it returns."""

    def __call__(self, coroutine: Coroutine[Any, Any, T], /) -> T: ...


@contextmanager
def loop_thread() -> Iterator[RunThere]:
    """A loop that runs as long as this is entered; what is left in it then is cancelled."""
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def main() -> None:
        over = asyncio.Event()
        started.set_result((asyncio.get_running_loop(), over))
        await over.wait()

    thread = threading.Thread(target=asyncio.run, args=(main(),), name="agentv-testing", daemon=True)
    thread.start()
    loop, over = started.result()

    def run(coroutine: Coroutine[Any, Any, T]) -> T:
        there = asyncio.run_coroutine_threadsafe(coroutine, loop)
        try:
            return there.result()
        except BaseException:  # Ctrl-C comes here and not there
            there.cancel()
            raise

    try:
        yield run
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
