"""One script, from the runtime's side: its pipes, and the lifeline to its supervisor."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentv.processes.run import (
    STDERR_KEEP,
    STDOUT_CAP,
    OnBytes,
    Pipes,
    ProcessOutcome,
    ProcessStartError,
    resolve,
    start_error,
)
from agentv.processes.starter import HelperGoneError, Starter

WAKE_SECONDS = 1.0
"""When a supervisor takes longer than this, somebody may have stopped it."""
END_SECONDS = 6.0
"""How long a supervisor may take to end everything: a little more than it gives itself."""


@dataclass(frozen=True, slots=True)
class Script:
    """What to start, and its bounds."""

    argv: Sequence[str]
    cwd: Path | str
    env: Mapping[str, str]
    """All of it; nothing is inherited."""
    stdin: bytes | None = b""
    """None for the null device."""
    timeout: float | None = None
    stdout_cap: int = STDOUT_CAP
    stderr_keep: int = STDERR_KEEP
    isolate: bool = False
    """Where the kernel has Landlock: it cannot look into the memory or environment of any process it did not start,
    and gains no privilege from programs that would give one (`sudo`)."""
    on_stderr: OnBytes | None = None
    """Hears what it writes to stderr, as it comes."""
    warm: bool = False
    """Fork it from a process that has imported its modules already, where that is possible."""
    lines: bool = False
    """It reads a payload a line and writes a result a line, and serves one execution after the other."""
    execution_id: str = ""
    """With `lines`: a result that names another one is a late word of an execution before, and not read."""
    own_variables: frozenset[str] = frozenset()
    """Names in `env` whose values belong to this execution alone, like a token."""

    def encoded(self) -> bytes:
        """For the helper. Raises `ValueError` for what cannot be passed to a program."""
        return self._words(self.argv, self.env)

    def encoded_for_zygote(self) -> bytes:
        """What its zygote does not know."""
        sent = {*self.own_variables, "PYTHONPATH"}
        return self._words((), {name: value for name, value in self.env.items() if name in sent})

    def _words(self, argv: Sequence[str], env: Mapping[str, str]) -> bytes:
        if any(not name or "=" in name for name in env):
            raise ValueError("illegal environment variable name")
        head = ("1" if self.isolate else "0", str(Path(self.cwd).absolute()), str(len(argv)))
        words = [*head, *argv, *(f"{name}={value}" for name, value in env.items())]
        text = "\0".join(words)
        if text.count("\0") != len(words) - 1:
            raise ValueError("embedded null byte")
        return os.fsencode(text)


class NeverStartedError(Exception):
    """The helper was lost before it did anything about the script."""


class Execution:
    """A script on its way. `over` is called when its end is known or decided, and may be called more than once."""

    def __init__(self, script: Script, number: int, over: Callable[[], None]) -> None:
        self._script = script
        self._number = number
        self._call_over = over
        self._loop = asyncio.get_running_loop()
        self._lifeline, self._theirs = socket.socketpair()
        self._lifeline.setblocking(False)
        try:
            self._pipes = Pipes(script.stdin, script.stdout_cap, script.stderr_keep, script.on_stderr)
        except OSError:
            self._lifeline.close()
            self._theirs.close()
            raise
        self._unread = b""
        self._problem: tuple[str, int] | None = None
        self._status: int | None = None
        self._survivors: tuple[int, ...] = ()
        self._duration_ms = 0.0
        self._sent = self._clean = False
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._settled: asyncio.Future[None] = self._loop.create_future()
        self._killed: asyncio.Future[None] = self._loop.create_future()
        self.supervisor: int | None = None

    async def run(self, helper: Starter) -> ProcessOutcome:
        """Raises `ProcessStartError`, and `NeverStartedError` when it may be tried again."""
        self._started = time.monotonic()
        try:
            await self._request(helper)
            in_time = await self._wait(helper)
        except BaseException as error:
            if not isinstance(error, NeverStartedError):
                self._report_over()
            await self._end(helper)
            raise
        if not in_time:
            helper.wake()  # it may be late because somebody stopped the helper
        self._report_over()
        await self._end(helper)
        if self._problem is not None:
            raise self._start_error(*self._problem)
        return self._pipes.outcome(
            self._status,
            timed_out=not in_time,
            duration_ms=self._duration_ms or (time.monotonic() - self._started) * 1000,
            supervisor_lost=not self._clean and self.supervisor is not None,
            survivors=self._survivors,
        )

    async def _request(self, helper: Starter) -> None:
        memory = -1
        try:
            content = helper.encoded(self._script)
            memory = os.memfd_create("script", os.MFD_CLOEXEC)
            os.pwrite(memory, content, 0)
            request = b"%d %d" % (self._number, len(content))
            await helper.send(request, [*self._pipes.theirs, self._theirs.fileno(), memory])
        except HelperGoneError:
            raise NeverStartedError from None
        finally:
            if memory >= 0:
                os.close(memory)
            self._theirs.close()
        self._sent = True
        self._loop.add_reader(self._lifeline.fileno(), self.read)
        self._pipes.watch()

    @property
    def _never_started(self) -> bool:
        """The helper was lost before it, or a supervisor, did anything: then it can be tried again."""
        return self._over.done() and self.supervisor is None and self._problem is None

    async def _wait(self, helper: Starter) -> bool:
        """Until the script ended, wrote too much or was killed by us; False when the time was up first."""
        over = {self._over, self._pipes.overflowed}
        death = helper.ended if self.supervisor is None else self._over
        deadline = None if self._script.timeout is None else self._started + self._script.timeout
        while not any(future.done() for future in over):
            timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
            ends = {*over, death, self._killed}
            done, _ = await asyncio.wait(ends, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                return False
            if death.done() and death is not self._over:
                death = self._over
                self._withdraw()
            if self._killed.done():  # the supervisor says when that is done, unless somebody stopped it
                await asyncio.wait(over, timeout=WAKE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                break
        if self._never_started:
            raise NeverStartedError
        return True

    def _withdraw(self) -> None:
        """Without the helper a request that nobody took may wait for ever; once withdrawn it is not started."""
        self.read()
        if self.supervisor is None:
            self.kill()
            self.read()
        if self.supervisor is None:
            self._sent = False
            raise NeverStartedError

    # -- the lifeline

    def read(self) -> None:
        """Take in what the supervisor said."""
        try:
            while text := self._lifeline.recv(4096):
                *lines, self._unread = (self._unread + text).split(b"\n")
                for line in lines:
                    self._take(*line.decode().split())
        except BlockingIOError:
            return
        except OSError:
            pass
        self._loop.remove_reader(self._lifeline.fileno())
        self._known()
        resolve(self._settled)

    def _take(self, kind: str, *words: str) -> None:
        if kind == "P":
            self.supervisor = int(words[0])
        elif kind == "F":
            self._problem = (words[0], int(words[1]))
        elif kind == "S":
            self._status = int(words[0])
            self._known()
        else:
            self._clean = True
            self._survivors = tuple(int(pid) for pid in words)
            resolve(self._settled)

    def _known(self) -> None:
        """How the script ended is known, or never will be."""
        if not self._over.done():
            self._duration_ms = (time.monotonic() - self._started) * 1000
            resolve(self._over)
            if not self._never_started:
                self._report_over()

    def _report_over(self) -> None:
        try:
            self._call_over()
        except Exception as error:
            self._loop.call_exception_handler({"message": "on_exit failed", "exception": error})

    # -- the end

    def kill(self) -> None:
        resolve(self._killed)
        with contextlib.suppress(OSError):
            self._lifeline.shutdown(socket.SHUT_WR)

    async def _end(self, helper: Starter) -> None:
        """Everything of the script is dead when this returns, or is named among the survivors."""
        try:
            self.kill()
            if self._sent:
                await self._settle(helper)
                if not self._clean and self.supervisor is not None:
                    self._survivors = await helper.orphans_dead(self._number, END_SECONDS) or ()
                await self._pipes.drain()
        finally:
            self._close()

    async def _settle(self, helper: Starter) -> None:
        for pause, number in ((WAKE_SECONDS, signal.SIGCONT), (END_SECONDS, signal.SIGKILL), (WAKE_SECONDS, None)):
            if self._settled.done():
                return
            await asyncio.wait({self._settled}, timeout=pause)
            if not self._settled.done() and number is not None:
                helper.wake()
                self._signal_supervisor(number)

    def _signal_supervisor(self, number: signal.Signals) -> None:
        # Its end of the lifeline is open, so it lives, and the number is its own.
        if self.supervisor is not None:
            with contextlib.suppress(OSError):
                os.kill(self.supervisor, number)

    def _close(self) -> None:
        if self._lifeline.fileno() >= 0:
            self._loop.remove_reader(self._lifeline.fileno())
        self._lifeline.close()
        self._theirs.close()
        self._pipes.close()

    def _start_error(self, stage: str, number: int) -> ProcessStartError:
        program, cwd = self._script.argv[0], Path(self._script.cwd)
        if stage == "isolate":
            return ProcessStartError(
                f"could not start `{program}`: it could not be kept apart from other processes ({os.strerror(number)})",
                next_step="Scripts started inside scripts can be kept apart 16 times at most; start fewer of them.",
            )
        return start_error(program, cwd, self._script.env, OSError(number, os.strerror(number)))
