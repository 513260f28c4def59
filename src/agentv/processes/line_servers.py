"""JSON Lines scripts: processes that serve many executions, one JSON payload per line in, one result per line out.

A process serves one execution at a time. It is killed, with everything it started, when an execution fails, times out
or exceeds its output cap, when it has been idle for too long, when a file in its command changed, and when the launcher
closes.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import sys
import termios
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from agentv.processes.execution import Execution, Script
from agentv.processes.run import CHUNK, ProcessOutcome, resolve
from agentv.wire.output import is_result_line

if TYPE_CHECKING:
    from agentv.processes.launcher import HelperProcess

MOST_IDLE = 2 * (os.cpu_count() or 1) + 4
"""Most idle processes kept for later executions; the least recently used one is ended first."""

Stamp = tuple[int, int, int] | None


class NotReadError(Exception):
    """A reused process ended before it read any of the payload, so another process can take it."""


class LineExecution(Execution):
    """An execution whose stdin and stdout stay open for many requests: `into` and `out_of`."""

    def __init__(self, script: Script, number: int) -> None:
        super().__init__(script, number, lambda: None)
        reader, self.into = os.pipe()
        self.out_of, writer = os.pipe()
        for place, theirs in ((0, reader), (1, writer)):
            os.close(self._pipes.theirs[place])
            self._pipes.theirs[place] = theirs
        os.set_blocking(self.into, False)
        os.set_blocking(self.out_of, False)

    def last_words(self) -> bytes:
        return self._pipes.take_stderr()


class LineServer:
    """One process that serves executions one after the other."""

    def __init__(self, script: Script, number: int, helper: HelperProcess) -> None:
        self._loop = asyncio.get_running_loop()
        self._execution = LineExecution(replace(script, stdin=b"", timeout=None), number)
        self._buffer = bytearray()
        self._changed: asyncio.Future[None] = self._loop.create_future()
        self._files = [path for path in (Path(script.cwd, word) for word in script.argv) if _stamp(path) is not None]
        self._stamps = [_stamp(path) for path in self._files]
        self._outcome: ProcessOutcome | None = None
        self.problem: Exception | None = None
        self.usable = True
        self._asked = False
        self._served = 0
        self._sent = self._unread = 0
        self._loop.add_reader(self._execution.out_of, self._read)
        self.task = self._loop.create_task(self._live(helper))

    @property
    def supervisor(self) -> int | None:
        self._execution.read()
        return self._execution.supervisor

    @property
    def fresh(self) -> bool:
        """Whether it can serve again: it is alive, has no unexpected output, and its files are unchanged."""
        self._read()
        unchanged = all(_stamp(path) == stamp for path, stamp in zip(self._files, self._stamps, strict=True))
        return self.usable and not self.task.done() and not self._buffer.strip() and unchanged

    async def _live(self, helper: HelperProcess) -> None:
        try:
            self._outcome = await self._execution.run(helper)
        except Exception as error:
            self.problem = error
        finally:
            self.usable = False
            self._unread = _waiting(self._execution.into)
            for descriptor in (self._execution.into, self._execution.out_of):
                self._loop.remove_reader(descriptor)
                self._loop.remove_writer(descriptor)
                os.close(descriptor)
            self._execution.into = self._execution.out_of = -1
            resolve(self._changed)

    async def ask(self, script: Script) -> ProcessOutcome:
        """Serve one execution; the outcome is as if the process had been started for it.

        Raises what starting the process raised, and `NotReadError` when another process can serve it instead.
        """
        started = time.monotonic()
        deadline = None if script.timeout is None else started + script.timeout
        self._execution.last_words()
        self._buffer.clear()
        self._asked, self._sent = True, 0
        line: bytes | None = None
        try:
            async with asyncio.timeout(None if deadline is None else deadline - time.monotonic()):
                await self._send(script.stdin or b"")
                line = await self._result(script.stdout_cap, script.execution_id)
        except TimeoutError:
            return await self._ended(started, timed_out=True)
        except BaseException:
            self.stop()
            raise
        finally:
            self._asked = False
        if line is None:
            return await self._ended(started, overflow=len(self._buffer) > script.stdout_cap)
        self._served += 1
        if not self.usable:  # it closed its stdout after the result
            self.stop()
        return ProcessOutcome(0, None, line, self._execution.last_words(), duration_ms=_since(started))

    async def _ended(self, started: float, *, timed_out: bool = False, overflow: bool = False) -> ProcessOutcome:
        self.stop()
        await asyncio.wait({self.task})
        if self.problem is not None:
            raise self.problem
        outcome = self._outcome
        assert outcome is not None  # noqa: S101 - it ended without a problem
        if self._served and not (timed_out or overflow) and self._unread == self._sent:
            raise NotReadError
        if not overflow:
            # There is no result: what the script wrote instead is reported where results are parsed.
            outcome = replace(outcome, stdout=bytes(self._buffer))
        return replace(outcome, timed_out=timed_out, stdout_overflow=overflow, duration_ms=_since(started))

    async def _send(self, data: bytes) -> None:
        unsent = memoryview(data)
        while unsent and self._execution.into >= 0:
            try:
                written = os.write(self._execution.into, unsent[:CHUNK])
                self._sent += written
                unsent = unsent[written:]
            except BlockingIOError:
                writable: asyncio.Future[None] = self._loop.create_future()
                self._loop.add_writer(self._execution.into, resolve, writable)
                try:
                    await asyncio.wait({writable, self.task}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    if self._execution.into >= 0:
                        self._loop.remove_writer(self._execution.into)
            except OSError:  # it closed its stdin; its output or exit status will show why
                return

    async def _result(self, cap: int, execution_id: str) -> bytes | None:
        """The first line that is a result; earlier lines are log output. None when it ends or exceeds the cap first."""
        looked = 0
        while True:
            while (end := self._buffer.find(b"\n", looked)) >= 0:
                line, looked = bytes(self._buffer[looked:end]), end + 1
                if is_result_line(line, execution_id):
                    del self._buffer[:looked]
                    return line
            if len(self._buffer) > cap or self.task.done():
                return None
            self._changed = self._loop.create_future()
            await self._changed

    def _read(self) -> None:
        if self._execution.out_of < 0:
            return
        try:
            chunk = os.read(self._execution.out_of, CHUNK)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        self._buffer += chunk
        if not chunk:
            self._loop.remove_reader(self._execution.out_of)
            self.usable = False
            if not self._asked:  # during an execution, its exit or the timeout decides the outcome
                self.stop()
        resolve(self._changed)

    def stop(self) -> None:
        """Kill the process and everything it started."""
        self.usable = False
        self._execution.kill()


@dataclass(slots=True)
class _Idle:
    server: LineServer
    key: object
    timer: asyncio.TimerHandle | None = None

    def stay(self) -> None:
        if self.timer is not None:
            self.timer.cancel()


class LineServers:
    """The pool of JSON Lines processes of a launcher."""

    def __init__(self, start: Callable[[Script], LineServer], *, most_idle: int, idle_seconds: float) -> None:
        self._start, self._most_idle, self._idle_seconds = start, most_idle, idle_seconds
        self._idle: list[_Idle] = []
        self._all: set[LineServer] = set()

    @property
    def supervisors(self) -> set[int]:
        return {server.supervisor for server in self._all if not server.task.done() and server.supervisor}

    async def run(self, script: Script) -> ProcessOutcome:
        """Serve one execution with an idle process, or start a new one."""
        key = _key(script)
        started = time.monotonic()
        left = script
        while True:
            server = self._take(key) or self._new(script)
            try:
                return await server.ask(left)
            except NotReadError:
                if script.timeout is not None:
                    left = replace(script, timeout=max(0.0, started + script.timeout - time.monotonic()))
            finally:
                if server.usable:
                    self._keep(server, key)
                elif server.task.done():
                    self._all.discard(server)

    def _new(self, script: Script) -> LineServer:
        server = self._start(script)
        self._all = {each for each in self._all if not each.task.done()} | {server}
        return server

    def _take(self, key: object) -> LineServer | None:
        for idle in reversed([each for each in self._idle if each.key == key]):
            self._idle.remove(idle)
            idle.stay()
            if idle.server.fresh:
                return idle.server
            idle.server.stop()
        return None

    def _keep(self, server: LineServer, key: object) -> None:
        while len(self._idle) >= self._most_idle:
            self._end(self._idle[0])
        idle = _Idle(server, key)
        idle.timer = asyncio.get_running_loop().call_later(self._idle_seconds, self._end, idle)
        self._idle.append(idle)

    def _end(self, idle: _Idle) -> None:
        with contextlib.suppress(ValueError):
            self._idle.remove(idle)
        idle.stay()
        idle.server.stop()

    async def close(self) -> None:
        """Kill all processes."""
        for idle in list(self._idle):
            self._end(idle)
        for server in self._all:
            server.stop()
        left = [server.task for server in self._all if not server.task.done()]
        if left:
            await asyncio.wait(left)


def _waiting(pipe: int) -> int:
    """Number of unread bytes in a pipe."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def _key(script: Script) -> object:
    return (tuple(script.argv), str(script.cwd), script.isolate, frozenset(script.env.items()))


def _stamp(path: Path) -> Stamp:
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return (status.st_mtime_ns, status.st_size, status.st_ino) if path.is_file() else None


def _since(started: float) -> float:
    return (time.monotonic() - started) * 1000
