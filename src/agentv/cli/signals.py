"""Cancel asynchronous work cleanly on a signal."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Collection, Coroutine
from typing import Any, TypeVar

from agentv.report.terminal import abandon_status_lines

T = TypeVar("T")
EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
"""As used by shells."""
TO_STOP = (signal.SIGINT, signal.SIGTERM)


async def until_stopped(
    work: Coroutine[Any, Any, T],
    signals: Collection[signal.Signals] = TO_STOP,
    *,
    even_if_ignored: Collection[signal.Signals] = (),
) -> tuple[T | None, signal.Signals | None]:
    """The result of the work, and the signal that cancelled it. A second signal ends the process immediately.

    Signals that were ignored when agentv was started (by `nohup`, or for a background job) stay ignored, except those
    in `even_if_ignored`.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    received: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        if received:
            abandon_status_lines()
            os._exit(EXIT_CODES[number])
        received.append(number)
        task.cancel()

    for number in signals:
        if number in even_if_ignored or signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, stop, number)
    try:
        return await task, received[0] if received else None
    except asyncio.CancelledError:
        if not received:
            raise
        return None, received[0]
