"""Run scripts through a helper process, so that every process a script starts ends with the script.

There are two kinds of helpers, for isolated and for other scripts (see `helper.py`). One is started with the launcher,
the other when it is first needed, and each is replaced if a script kills it. On systems without the required kernel
features, scripts are run directly and only their process group is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from agentv.processes import descriptors
from agentv.processes.execution import END_SECONDS, Execution, NeverStartedError, Script
from agentv.processes.line_servers import MOST_IDLE, LineServer, LineServers
from agentv.processes.protection import (
    HELPER,
    Capabilities,
    adopt_orphans,
    capabilities,
    helper_environment,
    strangers,
    supervision_works,
)
from agentv.processes.run import (
    OWN_CHILDREN,
    ProcessOutcome,
    ProcessStartError,
    refuse_unstartable,
    resolve,
    run_process,
    start_error,
)
from agentv.processes.starter import Starter
from agentv.processes.zygotes import IDLE_SECONDS, MOST_ZYGOTES, Zygote, Zygotes, script_file

__all__ = ["Launcher", "Script"]

ATTEMPTS = 3
SOON_SECONDS = 1.0
"""How long to wait for confirmation that a helper which accepts no requests is dead."""


class Launcher:
    """Runs scripts, any number of them concurrently. One launcher per run.

    `adopt_orphans` makes this process the parent of orphaned descendants, so that they are killed even after a script
    killed both its supervisor and the helper. Use it only when agentv owns the process, as the command line does.
    `isolate` is the kind of script to expect first. `supervise=False` runs scripts directly, and `namespaces=False`
    starts isolated scripts without their own PID namespace, as on systems without either. At most `most_zygotes`
    processes are kept for warm scripts, each for `idle_seconds` after its last use. `on_note` is called once per script
    that cannot be kept warm, with the reason.
    """

    def __init__(
        self,
        *,
        adopt_orphans: bool = False,
        isolate: bool = False,
        supervise: bool | None = None,
        namespaces: bool = True,
        most_zygotes: int = MOST_ZYGOTES,
        idle_seconds: float = IDLE_SECONDS,
        on_note: Callable[[str], None] | None = None,
    ) -> None:
        self._supervise = supervise is not False and supervision_works()
        self._adopt = adopt_orphans and self._supervise
        self._expects_isolated = isolate
        self._namespaces = namespaces
        self._helpers: dict[bool, HelperProcess] = {}
        """The helper for isolated scripts (True) and for others (False)."""
        self._numbers = itertools.count(1)
        self._running: set[Execution] = set()
        self._on_note = on_note or _ignore
        self._zygotes = Zygotes(self._start_zygote, most=most_zygotes, idle_seconds=idle_seconds)
        self._servers = LineServers(
            self._start_server, most_idle=MOST_IDLE, idle_seconds=idle_seconds, on_note=self._on_note
        )
        self._noted_cold: set[tuple[str, ...]] = set()

    @property
    def capabilities(self) -> Capabilities:
        return capabilities() if self._supervise else Capabilities(supervised=False, landlock=None)

    def start(self) -> None:
        """Start a helper (1-2 ms). Needs no event loop."""
        if self._supervise:
            self._start_helper(self._expects_isolated)

    def _start_helper(self, isolate: bool) -> HelperProcess:
        helper = self._helpers.get(isolate)
        if helper is None or helper.dead:
            helper = self._helpers[isolate] = HelperProcess(namespaces=isolate and self._namespaces)
            if self._adopt:
                adopt_orphans()
        return helper

    def stop(self) -> None:
        """Stop a helper that was started but never used; after use, leave the `async with` block instead."""
        while self._helpers:
            self._helpers.popitem()[1].stop()

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for execution in self._running:
            execution.kill()
        await self._servers.close()
        await self._zygotes.close()
        helpers = list(self._helpers.values())
        self._helpers.clear()
        await asyncio.gather(*(helper.end() for helper in helpers))

    async def run(
        self,
        script: Script,
        *,
        on_exit: Callable[[], None] | None = None,
        on_cold: Callable[[str], None] | None = None,
    ) -> ProcessOutcome:
        """Run a script until it exits, times out or exceeds its output cap, then kill every process it started.

        `on_exit` is called exactly once, as soon as the script itself has exited or is about to be killed; its last
        output is read after that. `on_cold` is called with the reason the first time a script cannot be kept warm.
        Raises `ProcessStartError` when the script cannot be started.
        """
        over = _Once(on_exit)
        try:
            refuse_unstartable(script.argv)

            def report_cold(why: str) -> None:
                name = script_file(script.argv) or " ".join(script.argv[:2])
                self._on_note(f"`{name}` cannot be kept warm and is started from scratch each time: {why}")
                (on_cold or _ignore)(why)

            if script.warm and (reason := self._never_warm(script)) is not None:
                self._report_once(script, reason, report_cold)
                script = replace(script, warm=False)
            if not self._supervise:
                return await _run_directly(script, over)
            for _ in range(ATTEMPTS):
                try:
                    if script.lines:
                        return await self._serve(script)
                    return await self._run(script, over, report_cold)
                except NeverStartedError:
                    continue
        finally:
            over()
        raise ProcessStartError(
            f"could not start `{script.argv[0]}`: the helper process that starts scripts ended {ATTEMPTS} times",
            next_step="Check whether a script kills processes it did not start, or whether memory runs out.",
        )

    async def _run(self, script: Script, over: Callable[[], None], on_cold: Callable[[str], None]) -> ProcessOutcome:
        try:
            zygote = await self._zygotes.take(script, on_cold) if script.warm else None
        except OSError as error:
            raise start_error(script.argv[0], Path(script.cwd), script.env, error) from error
        try:
            helper = self._live_helper(script)
            outcome = await self._execute(script, over, zygote or helper, helper)
        finally:
            if zygote is not None:
                self._zygotes.give_back(zygote)
        if outcome.supervisor_lost and zygote is not None and zygote.dead:
            raise ProcessStartError(
                f"`{script_file(script.argv)}` was stopped: the process it was forked from was killed while it ran",
                next_step="Check whether a script kills processes it did not start, or set `warm: false`.",
            )
        return outcome

    async def _execute(
        self, script: Script, over: Callable[[], None], starter: Starter, helper: HelperProcess
    ) -> ProcessOutcome:
        number = next(self._numbers)
        try:
            execution = await descriptors.when_free(lambda: Execution(script, number, over))
        except OSError as error:
            raise start_error(script.argv[0], Path(script.cwd), script.env, error) from error
        self._running.add(execution)
        try:
            return await execution.run(starter)
        except NeverStartedError:
            if starter is helper:
                await helper.death(SOON_SECONDS)
            else:  # a zygote that accepts no request is exiting; wait for it, or the retry would pick it again
                await asyncio.wait({starter.ended}, timeout=SOON_SECONDS)
            raise
        except (OSError, ValueError) as error:
            raise start_error(script.argv[0], Path(script.cwd), script.env, error) from error
        finally:
            self._running.discard(execution)
            if self._adopt and helper.dead:
                await self._end_strangers()

    async def _serve(self, script: Script) -> ProcessOutcome:
        try:
            return await self._servers.run(script)
        except NeverStartedError:
            await self._live_helper(script).death(SOON_SECONDS)
            raise
        except (OSError, ValueError) as error:
            raise start_error(script.argv[0], Path(script.cwd), script.env, error) from error
        finally:
            helper = self._helpers.get(script.isolate)
            if self._adopt and helper is not None and helper.dead:
                await self._end_strangers()

    def _start_server(self, script: Script) -> LineServer:
        return LineServer(script, next(self._numbers), self._live_helper(script))

    def _start_zygote(self, script: Script) -> Zygote:
        return Zygote(script, next(self._numbers), self._live_helper(script))

    def _never_warm(self, script: Script) -> str | None:
        if not self._supervise:
            return "this system cannot supervise scripts"
        if script_file(script.argv) is None:
            return "it is not a Python file run by a Python interpreter"
        return None

    def _report_once(self, script: Script, reason: str, on_cold: Callable[[str], None]) -> None:
        if tuple(script.argv) not in self._noted_cold:
            self._noted_cold.add(tuple(script.argv))
            on_cold(reason)

    def _live_helper(self, script: Script) -> HelperProcess:
        helper = self._start_helper(script.isolate)
        helper.attach()
        return helper

    async def _end_strangers(self) -> None:
        """Kill orphans that this process adopted because both their supervisor and the helper were killed."""
        deadline = time.monotonic() + END_SECONDS
        while time.monotonic() < deadline:
            for execution in self._running:
                execution.read()
            known = {execution.supervisor for execution in self._running if execution.supervisor}
            known |= self._zygotes.supervisors | self._servers.supervisors
            orphans = strangers(known) or strangers(known)  # one pass may miss a process while others exit
            if not orphans:
                return
            for pid in orphans:
                _kill_and_reap(pid)
            await asyncio.sleep(0.001)


def _kill_and_reap(pid: int) -> None:
    with contextlib.suppress(OSError):  # already dead, or not ours to kill
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, os.WNOHANG)


def _ignore(text: str) -> None:
    del text


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
        waiting=script.waiting,
        stdout_cap=script.stdout_cap,
        stderr_keep=script.stderr_keep,
        on_exit=over,
        on_stderr=script.on_stderr,
    )


EXIT_SECONDS = 12.0
"""How long the helper may take to kill its descendants before it is killed itself."""


class HelperProcess(Starter):
    """One helper process. It starts immediately and is attached to an event loop with the first request."""

    def __init__(self, *, namespaces: bool) -> None:
        super().__init__()
        theirs = self._connect()
        try:
            self._popen = _start(theirs.fileno(), "namespaces" if namespaces else "plain")
        except OSError as error:
            self._socket.close()
            raise ProcessStartError(
                f"the helper process that starts scripts could not be started with {sys.executable!r}: {error}",
                next_step="Check that this Python interpreter can be run, and that the system allows more processes.",
            ) from error
        finally:
            theirs.close()
        OWN_CHILDREN.add(self._popen.pid)
        self._pidfd = -1

    @property
    def pid(self) -> int:
        return self._popen.pid

    def attach(self) -> None:
        """Watch the helper from the running event loop."""
        if self._loop is not None or self.dead:
            return
        self._loop = asyncio.get_running_loop()
        self._ended = self._loop.create_future()
        self._pidfd = os.pidfd_open(self._popen.pid)
        self._loop.add_reader(self._pidfd, self._on_death)
        self._loop.add_reader(self._socket.fileno(), self._read)

    async def death(self, timeout: float) -> None:
        """Wait until the helper is dead, or until the timeout."""
        if self._ended is not None:
            await asyncio.wait({self._ended}, timeout=timeout)

    def encoded(self, script: Script) -> bytes:
        return script.encoded()

    def wake(self) -> None:
        if not self.dead:
            self._popen.send_signal(signal.SIGCONT)

    def _on_death(self) -> None:
        self._read()
        self._release()

    def _release(self) -> None:
        """Reap the dead helper and release its resources."""
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
        """Disconnect, and wait until the helper has killed its descendants and exited."""
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
        """Like `end`, without an event loop, for a helper that received no request."""
        if self.dead:
            return
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        try:
            self._popen.wait(timeout=1)
        except subprocess.TimeoutExpired:
            self._popen.kill()
        self._release()


def _start(control: int, kind: str) -> subprocess.Popen[bytes]:
    return descriptors.start(
        [sys.executable, "-I", "-S", str(HELPER), str(control), str(os.getpid()), kind],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env=helper_environment(),
        pass_fds=(control,),
        start_new_session=True,
    )
