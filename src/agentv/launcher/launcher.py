"""Start scripts through a helper process, so that whatever they leave behind ends with them.

The helper is started with the launcher and replaced when a script kills it. Where the system cannot do this, scripts
are run directly and only their process group ends with them.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from agentv.launcher.execution import END_SECONDS, Execution, NeverStartedError, Script
from agentv.launcher.helper_process import HelperProcess
from agentv.launcher.protection import Capabilities, adopt_orphans, capabilities, strangers, supervision_works
from agentv.process import ProcessOutcome, run_process
from agentv.process_start import ProcessStartError, refuse_unstartable, start_error

__all__ = ["Launcher", "Script"]

ATTEMPTS = 3
SOON_SECONDS = 1.0
"""How long to wait for a helper that seems dead to be seen dead."""


class Launcher:
    """Runs scripts. One for a run; any number of scripts at once.

    `adopt_orphans` is for a process that is ours alone, like the command line: then even what is left by a script that
    killed both its supervisor and the helper is found and killed. `supervise=False` runs scripts directly.
    """

    def __init__(self, *, adopt_orphans: bool = False, supervise: bool | None = None) -> None:
        self._supervise = supervise is not False and supervision_works()
        self._adopt = adopt_orphans and self._supervise
        self._helper: HelperProcess | None = None
        self._numbers = itertools.count(1)
        self._running: set[Execution] = set()

    @property
    def capabilities(self) -> Capabilities:
        return capabilities() if self._supervise else Capabilities(supervised=False, landlock=None)

    def start(self) -> None:
        """Start the helper, in a millisecond or two; needs no event loop, and reads nothing of the environment."""
        if not self._supervise or (self._helper is not None and not self._helper.dead):
            return
        self._helper = HelperProcess()
        if self._adopt:
            adopt_orphans()

    def stop(self) -> None:
        """End a helper that was started and never used; after use, leave the `async with` instead."""
        if self._helper is not None:
            self._helper.stop()
            self._helper = None

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for execution in self._running:
            execution.kill()
        if self._helper is not None:
            helper, self._helper = self._helper, None
            await helper.end()

    async def run(self, script: Script, *, on_exit: Callable[[], None] | None = None) -> ProcessOutcome:
        """Run a script to its end, its deadline or its output cap, and everything it started with it.

        `on_exit` is called once, however this ends, as soon as the script's own end is known or decided, which is
        before its last output is read. Raises `ProcessStartError` when it cannot be started.
        """
        over = _Once(on_exit)
        try:
            refuse_unstartable(script.argv)
            if not self._supervise:
                return await _run_directly(script, over)
            for _ in range(ATTEMPTS):
                try:
                    return await self._run(script, over)
                except NeverStartedError:
                    continue
        finally:
            over()
        raise ProcessStartError(
            f"could not start `{script.argv[0]}`: the helper process that starts scripts ended {ATTEMPTS} times",
            next_step="See whether another script kills processes it did not start, or whether memory runs out.",
        )

    async def _run(self, script: Script, over: Callable[[], None]) -> ProcessOutcome:
        helper = self._live_helper()
        try:
            execution = Execution(script, next(self._numbers), over)
        except OSError as error:
            raise start_error(script.argv[0], Path(script.cwd), script.env, error) from error
        self._running.add(execution)
        try:
            return await execution.run(helper)
        except NeverStartedError:
            await helper.death(SOON_SECONDS)
            raise
        except (OSError, ValueError) as error:
            raise start_error(script.argv[0], Path(script.cwd), script.env, error) from error
        finally:
            self._running.discard(execution)
            if self._adopt and helper.dead:
                await self._end_strangers()

    def _live_helper(self) -> HelperProcess:
        self.start()
        assert self._helper is not None  # noqa: S101
        self._helper.attach()
        return self._helper

    async def _end_strangers(self) -> None:
        """Without its helper, what a lost supervisor left behind is ours."""
        deadline = time.monotonic() + END_SECONDS
        while time.monotonic() < deadline:
            for execution in self._running:
                execution.read()
            found = strangers({execution.supervisor for execution in self._running if execution.supervisor})
            if not found:
                return
            for pid in found:
                _kill_and_reap(pid)
            await asyncio.sleep(0.001)


def _kill_and_reap(pid: int) -> None:
    with contextlib.suppress(OSError):  # gone meanwhile, or not ours to kill
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, os.WNOHANG)


class _Once:
    """A callback that is called the first time only."""

    def __init__(self, callback: Callable[[], None] | None) -> None:
        self._callback = callback

    def __call__(self) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


async def _run_directly(script: Script, over: Callable[[], None]) -> ProcessOutcome:
    return await run_process(
        script.argv,
        stdin=script.stdin,
        cwd=script.cwd,
        env=script.env,
        timeout=script.timeout,
        stdout_cap=script.stdout_cap,
        stderr_keep=script.stderr_keep,
        on_exit=over,
        on_stderr=script.on_stderr,
    )
