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
import select
import sys
import termios
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from agentv.processes.execution import Execution, Script
from agentv.processes.line_output import LineOutput
from agentv.processes.run import CHUNK, ProcessOutcome, resolve
from agentv.processes.script_time import ScriptTime

if TYPE_CHECKING:
    from agentv.processes.launcher import HelperProcess

MOST_IDLE = 2 * (os.cpu_count() or 1) + 4
"""Most idle processes kept for later executions; the least recently used one is ended first."""

PIPE_BYTES = 65536
"""Capacity of a pipe unless it is changed."""

UNREAD_SECONDS = 0.001
"""Pause before looking again at a process that has something to do before it reads on."""

START_SECONDS = 60.0
"""How long a process may take until it reads its first payload, if that time does not count. Then it counts."""

SURPLUS = (
    "printed a result after its execution had ended; the recorded result is the first one, and the process was "
    "replaced. Print one JSON object per payload, before reading the next one."
)
SURPLUS_OF_CHECK = (
    "a check returned again after its result had been recorded; the first result counts, and the process was replaced. "
    "If it forks, end the child with os._exit(0)."
)

Stamp = tuple[int, int, int] | None


class AskAnotherError(Exception):
    """A reused process ended, and another one can serve the execution: nothing of it was read, or it is repeatable."""


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
    """One process that serves executions one after the other.

    An execution ends when the process reads its stdin again, or exits. So everything it prints for one payload is seen
    before the next payload is sent.
    """

    def __init__(self, script: Script, number: int, helper: HelperProcess) -> None:
        self._loop = asyncio.get_running_loop()
        self._execution = LineExecution(replace(script, stdin=b"", timeout=None, waiting=None), number)
        self._output = LineOutput("", cap=0)
        self._script = script
        self.inline = script.inline
        self.command = " ".join((Path(script.argv[0]).name, *script.argv[1:]))
        self._changed: asyncio.Future[None] = self._loop.create_future()
        self._files = [path for path in (Path(script.cwd, word) for word in script.argv) if _stamp(path) is not None]
        self._stamps = [_stamp(path) for path in self._files]
        self._outcome: ProcessOutcome | None = None
        self.problem: Exception | None = None
        self.usable = True
        self.surplus = False
        """Whether it printed a result after the execution that the result belongs to had ended."""
        self.late_error: str | None = None
        """The `late_error` of that result, if it has one: a sentence for the user."""
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
        return self.usable and not self.task.done() and unchanged

    async def _live(self, helper: HelperProcess) -> None:
        try:
            self._outcome = await self._execution.run(helper)
        except Exception as error:
            self.problem = error
        finally:
            if self._asked:
                self._read_everything()
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

        Raises what starting the process raised, and `AskAnotherError` when another process can serve it instead.
        """
        started = time.monotonic()
        self._execution.last_words()
        self._output = output = LineOutput(script.execution_id, cap=script.stdout_cap)
        self._script, self._asked, self._sent = script, True, 0
        try:
            if script.inline and not self._served:
                await self._starts()
            async with asyncio.timeout(None) as limit:
                with self._time(script, limit) as script_time:
                    self._execution.set_deadline(script_time.ordered)
                    await self._send(script.stdin or b"")
                    if not await self._printed_result():
                        return await self._ended(started)
                    if output.results == 1 and not await self._reads_on():
                        return await self._ended(started)
        except TimeoutError:
            return await self._ended(started, timed_out=True)
        except BaseException:
            self.stop()
            raise
        finally:
            self._asked = False
            self.surplus = self.surplus or output.late
            self.late_error = output.late_error or self.late_error
        self._execution.set_deadline(0.0)
        self._served += 1
        if output.late or output.results > 1 or output.incomplete or not self.usable:
            self.stop()  # it is out of step: what it prints next could be taken for the next result
        return ProcessOutcome(0, None, output.text, self._execution.last_words(), duration_ms=_since(started))

    def _time(self, script: Script, limit: asyncio.Timeout) -> ScriptTime:
        def expire() -> None:
            limit.reschedule(self._loop.time())

        return ScriptTime(script.timeout, script.waiting, on_late=expire, order=self._execution.set_deadline)

    async def _ended(self, started: float, *, timed_out: bool = False) -> ProcessOutcome:
        """The outcome of an execution whose process exited, or is killed here."""
        self.stop()
        await asyncio.wait({self.task})
        if self.problem is not None:
            raise self.problem
        outcome, overflow = self._outcome, self._output.too_long
        assert outcome is not None  # noqa: S101 - it ended without a problem
        timed_out = timed_out or outcome.timed_out
        answered = self._output.results or timed_out or overflow
        if self._served and not answered and (self._unread >= self._sent or self._script.repeatable()):
            raise AskAnotherError
        if not overflow:
            # Without a result, what the script wrote instead is reported where results are parsed.
            await self._output.scan()
            outcome = replace(outcome, stdout=self._output.text)
        return replace(outcome, timed_out=timed_out, stdout_overflow=overflow, duration_ms=_since(started))

    async def _send(self, data: bytes) -> None:
        unsent = memoryview(data)
        while unsent and self._execution.into >= 0:
            try:
                written = os.write(self._execution.into, unsent[:CHUNK])
                self._sent += written
                unsent = unsent[written:]
            except BlockingIOError:
                await self._change(writable=True)
            except OSError:  # it closed its stdin; its output or exit status will show why
                return

    async def _printed_result(self) -> bool:
        """Wait for a result. False when the process ends or exceeds the output cap first."""
        while True:
            if await self._output.scan():
                return True
            if self._output.too_long or self.task.done():
                return False
            await self._change()

    async def _starts(self) -> None:
        """Wait until a new process reads its stdin, ends, or has taken too long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_SECONDS):
                await self._reads_on()

    async def _reads_on(self) -> bool:
        """Wait until the process reads its stdin again, or prints a second result. False when it ends first.

        It is sent the beginning of its next payload: a space, which JSON ignores. With a pipe of one page, the pipe is
        writable again only when the space has been read.
        """
        self._resize(1)
        try:
            with contextlib.suppress(OSError):
                os.write(self._execution.into, b" ")
            while not self.task.done() and not self._output.too_long:
                read_on = _waiting(self._execution.into) == 0 and not _closed(self._execution.into)
                self._read()
                if await self._output.scan() > 1 or read_on:
                    return True
                if self.task.done():
                    break
                await self._change(writable=not _closed(self._execution.into))
                if not self.task.done() and _waiting(self._execution.into):
                    await asyncio.sleep(UNREAD_SECONDS)
            return False
        finally:
            self._resize(PIPE_BYTES)

    def _resize(self, size: int) -> None:
        if self._execution.into >= 0:
            with contextlib.suppress(OSError):  # it still holds data, or the user's limit is reached
                fcntl.fcntl(self._execution.into, fcntl.F_SETPIPE_SZ, size)

    async def _change(self, *, writable: bool = False) -> None:
        """Wait until there is more output, the process has ended or, with `writable`, its stdin takes more data."""
        self._changed = self._loop.create_future()
        if self.task.done():
            return
        into = self._execution.into
        if writable:
            self._loop.add_writer(into, resolve, self._changed)
        try:
            await self._changed
        finally:
            if writable and self._execution.into >= 0:
                self._loop.remove_writer(into)

    def _read(self) -> bool:
        """Take one chunk of output. False when there is none."""
        if self._execution.out_of < 0:
            return False
        try:
            chunk = os.read(self._execution.out_of, CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            chunk = b""
        self._output.add(chunk)
        if not chunk:
            self._loop.remove_reader(self._execution.out_of)
            self.usable = False
        if not self._asked:
            self.surplus = self.surplus or b"{" in chunk
            if not chunk or chunk.strip():
                self.stop()
        elif self._output.too_long:
            self.stop()
        resolve(self._changed)
        return bool(chunk)

    def _read_everything(self) -> None:
        while not self._output.too_long and self._read():
            pass

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

    def __init__(
        self,
        start: Callable[[Script], LineServer],
        *,
        most_idle: int,
        idle_seconds: float,
        on_note: Callable[[str], None],
    ) -> None:
        self._start, self._most_idle, self._idle_seconds = start, most_idle, idle_seconds
        self._on_note = on_note
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
            except AskAnotherError:
                if script.timeout is not None:
                    left = replace(script, timeout=max(0.0, started + script.timeout - time.monotonic()))
            finally:
                self._note_surplus(server)
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
            self._note_surplus(idle.server)
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
        self._note_surplus(idle.server)
        idle.server.stop()

    def _note_surplus(self, server: LineServer) -> None:
        if server.surplus:
            server.surplus = False
            self._on_note(server.late_error or (SURPLUS_OF_CHECK if server.inline else f"`{server.command}` {SURPLUS}"))

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


def _closed(pipe: int) -> bool:
    """Whether no process has the reading end of the pipe open."""
    poll = select.poll()
    poll.register(pipe, 0)  # POLLERR is always reported
    return bool(poll.poll(0))


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
