"""An event loop whose time passes only while nothing else happens, so that hours of silence take milliseconds."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

Outcome = TypeVar("Outcome")
LONGEST = 24 * 3600.0


class HangError(AssertionError):
    """Nothing will ever happen again."""


class _Selector(selectors.SelectSelector):
    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise HangError("all tasks wait, and no timer is set")
        self.now += max(1e-9, timeout)  # time passes while the loop turns, as it really does
        if self.now > LONGEST:
            raise HangError("a day has passed")
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


def run(main: Coroutine[Any, Any, Outcome]) -> Outcome:
    """The result of a coroutine. No thread and no process may be involved. All tasks must have ended with it."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(_alone(main))


async def _alone(main: Coroutine[Any, Any, Outcome]) -> Outcome:
    failures: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    outcome = await main
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, f"tasks are left: {left}"
    assert not failures, f"errors that no caller has seen: {failures}"
    return outcome
