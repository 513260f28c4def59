"""Work that a signal ends in order."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
EXIT = {signal.SIGINT: 130, signal.SIGTERM: 143}


async def until_stopped(work: Coroutine[Any, Any, T]) -> tuple[T | None, signal.Signals | None]:
    """What the work returns, or the signal that ended it. A second signal ends the process at once."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    received: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        if received:
            os._exit(EXIT[number])
        received.append(number)
        task.cancel()

    for number in EXIT:
        # Ignored on purpose by whoever started this, like a shell for what it puts into the background.
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, stop, number)
    try:
        return await task, None
    except asyncio.CancelledError:
        if not received:
            raise
        return None, received[0]
