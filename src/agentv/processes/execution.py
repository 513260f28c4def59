"""The runtime's side of one running script: its pipes, and the lifeline socket to its supervisor."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentv.processes import descriptors
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
from agentv.processes.script_time import ScriptTime, WaitingTime
from agentv.processes.starter import HelperGoneError, Starter

WAKE_SECONDS = 1.0
"""A supervisor that takes longer than this may have been stopped (SIGSTOP), so it gets a SIGCONT."""
FAR_AWAY = 1e12
END_SECONDS = 6.0
"""How long to wait for a supervisor to kill everything: slightly longer than its own limit."""


@dataclass(frozen=True, slots=True)
class Script:
    """A command to run: arguments, directory, environment, input and limits."""

    argv: Sequence[str]
    cwd: Path | str
    env: Mapping[str, str]
    """The complete environment; nothing is inherited."""
    stdin: bytes | None = b""
    """Bytes to send; None connects stdin to `/dev/null`."""
    timeout: float | None = None
    waiting: WaitingTime | None = None
    """Time in which the script's judge calls wait for a place at the judge, which does not count."""
    stdout_cap: int = STDOUT_CAP
    stderr_keep: int = STDERR_KEEP
    isolate: bool = False
    """Put the script in a Landlock domain, where the kernel supports it: the script cannot read the memory or
    environment of processes it did not start, and cannot gain privileges through setuid programs (`sudo`)."""
    on_stderr: OnBytes | None = None
    """Called with each chunk of stderr as it arrives."""
    warm: bool = False
    """Fork the script from a process that has already imported its modules, where possible."""
    lines: bool = False
    """The process stays alive between executions: it reads one payload per line and writes one result per line."""
    execution_id: str = ""
    """With `lines`: results with a different id are late output of an earlier execution and are ignored."""
    repeatable: Callable[[], bool] = lambda: False
    """With `lines`: whether the execution can be repeated in a new process, if a reused process ended without a result.
    Something that an earlier execution started may have ended it."""
    inline: bool = False
    """With `lines`: the process is agentv's runner of checks. `timeout` begins when it first reads its stdin: on a busy
    machine, an interpreter may take seconds to start."""
    own_variables: frozenset[str] = frozenset()
    """Names in `env` whose values differ for every execution, such as a token."""

    def encoded(self) -> bytes:
        """The request for the helper. ValueError when an argument or variable cannot be passed to a program."""
        return self._words(self.argv, self.env)

    def encoded_for_zygote(self) -> bytes:
        """The request for a zygote: only the values that differ between executions."""
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


def _milliseconds(deadline: float) -> int:
    """A time of the monotonic clock as sent to supervisors; 0 (none) for one that is too far away."""
    return math.ceil(deadline * 1000) if deadline < FAR_AWAY else 0


class NeverStartedError(Exception):
    """The helper died before it started the script, so the script can be started again."""


class Execution:
    """One run of a script. `over` is called when the script has ended or is about to be killed, possibly repeatedly."""

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
        self._timed_out = False
        self._problem: tuple[str, int] | None = None
        self._status: int | None = None
        self._survivors: tuple[int, ...] = ()
        self._duration_ms = 0.0
        self._sent = self._clean = False
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._settled: asyncio.Future[None] = self._loop.create_future()
        self._killed: asyncio.Future[None] = self._loop.create_future()
        self._late: asyncio.Future[None] = self._loop.create_future()
        self._accepted = False
        """Whether a supervisor accepted the request."""
        self._supervisor = -1
        """The pidfd of the supervisor."""

    async def run(self, helper: Starter) -> ProcessOutcome:
        """Run the script to its end. Raises `ProcessStartError`, or `NeverStartedError` when it is safe to retry."""
        self._started = time.monotonic()
        try:
            with self._time() as script_time:
                await self._request(helper, script_time.ordered)
                in_time = await self._wait(helper)
        except BaseException as error:
            if not isinstance(error, NeverStartedError):
                self._report_over()
            await self._end(helper)
            raise
        if not in_time:
            helper.wake()  # the timeout may be due to a stopped helper (SIGSTOP)
        self._report_over()
        await self._end(helper)
        if self._problem is not None:
            raise self._start_error(*self._problem)
        return self._pipes.outcome(
            self._status,
            timed_out=self._timed_out or not in_time,
            duration_ms=self._duration_ms or (time.monotonic() - self._started) * 1000,
            supervisor_lost=not self._clean and self._accepted,
            survivors=self._survivors,
        )

    def _time(self) -> ScriptTime:
        limit, waiting = self._script.timeout, self._script.waiting
        return ScriptTime(limit, waiting, on_late=lambda: resolve(self._late), order=self.set_deadline)

    async def _request(self, helper: Starter, deadline: float) -> None:
        memory = -1
        try:
            content = helper.encoded(self._script)
            memory = await descriptors.when_free(lambda: os.memfd_create("script", os.MFD_CLOEXEC))
            os.pwrite(memory, content, 0)
            request = b"%d %d %d" % (self._number, len(content), _milliseconds(deadline))
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
        """Whether the helper died before it or a supervisor did anything, which makes a retry safe."""
        return self._over.done() and not self._accepted and self._problem is None

    async def _wait(self, helper: Starter) -> bool:
        """Wait until the script ended, exceeded its output cap or was killed by us. False on timeout."""
        over = {self._over, self._pipes.overflowed}
        death = self._over if self._accepted else helper.ended
        while not any(future.done() for future in over):
            ends = {*over, death, self._killed, self._late}
            done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if done == {self._late}:
                return False
            if death.done() and death is not self._over:
                death = self._over
                self._withdraw()
            if self._killed.done():  # the supervisor confirms this, unless it was stopped (SIGSTOP)
                await asyncio.wait(over, timeout=WAKE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                break
        if self._never_started:
            raise NeverStartedError
        return True

    def _withdraw(self) -> None:
        """Cancel a request that no supervisor accepted: without a helper it would wait forever."""
        self.read()
        if not self._accepted:
            self.kill()
            self.read()
        if not self._accepted:
            self._sent = False
            raise NeverStartedError

    # -- the lifeline

    def read(self) -> None:
        """Process the messages that the supervisor has sent."""
        try:
            while text := self._receive():
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

    def _receive(self) -> bytes:
        text, descriptors, _, _ = socket.recv_fds(self._lifeline, 4096, 1, socket.MSG_CMSG_CLOEXEC)
        for descriptor in descriptors:
            self._supervisor = descriptor
        return text

    def _take(self, kind: str, *words: str) -> None:
        if kind == "P":
            self._accepted = True
        elif kind == "T":
            self._timed_out = True
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
        """Record that the script's exit status has arrived, or can no longer arrive."""
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
        """Kill the script and its descendants. Processes that could not be killed are listed in `survivors`."""
        try:
            self.kill()
            if self._sent:
                await self._settle(helper)
                if not self._clean and self._accepted:
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
        if self._supervisor >= 0:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._supervisor, number)

    @property
    def supervisor(self) -> int | None:
        """The pid of the supervisor while it is alive; None before it accepted the request."""
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/self/fdinfo/{self._supervisor}").read_text(encoding="ascii").splitlines():
                if line.startswith("Pid:"):
                    return max(0, int(line.split()[1])) or None
        return None

    # -- orders to the supervisor

    def set_deadline(self, deadline: float) -> None:
        """Let the supervisor kill the script at this time of the monotonic clock, even while this process is stopped.

        0 removes the deadline.
        """
        self._order(b"T %d\n" % _milliseconds(deadline))

    def wake(self) -> None:
        """Send SIGCONT to the supervisor and to the script, in case they were stopped."""
        self._signal_supervisor(signal.SIGCONT)
        self._order(b"W\n")

    def _order(self, text: bytes) -> None:
        with contextlib.suppress(OSError):  # it has ended
            self._lifeline.send(text, socket.MSG_NOSIGNAL)

    def _close(self) -> None:
        if self._lifeline.fileno() >= 0:
            self._loop.remove_reader(self._lifeline.fileno())
        self._lifeline.close()
        self._theirs.close()
        if self._supervisor >= 0:
            os.close(self._supervisor)
            self._supervisor = -1
        self._pipes.close()

    def _start_error(self, stage: str, number: int) -> ProcessStartError:
        program, cwd = self._script.argv[0], Path(self._script.cwd)
        if stage == "isolate":
            return ProcessStartError(
                f"could not start `{program}`: it could not be isolated from other processes ({os.strerror(number)})",
                next_step="Landlock allows at most 16 nested domains: nest fewer scripts inside scripts.",
            )
        return start_error(program, cwd, self._script.env, OSError(number, os.strerror(number)))
