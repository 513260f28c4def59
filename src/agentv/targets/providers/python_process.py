"""The runtime's side of the process that runs a Python function: starts it, sends calls, and ends it."""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

from agentv.processes.run import ProcessOutcome

MOST_BYTES = 16 * 2**20
"""Largest frame of the process. It refuses larger answers itself."""
END_SECONDS = 2.0
"""How long a cancelled call may take to end, before the process is killed."""
START_SECONDS = 600.0
"""How long the module may take to import."""
LONGEST_SOCKET_PATH = 90
ACCEPT_TURNS = 20
"""More turns of the event loop than it takes to accept a connection."""


class Frame(NamedTuple):
    """What the process sent: `ready`, `failed`, `text`, `json` or `error`, and the content."""

    kind: str
    data: bytes


class ProcessEndedError(Exception):
    """The process ended before it answered. `outcome` is None if the runtime killed it because of another call."""

    def __init__(self, outcome: ProcessOutcome | None, calls: int) -> None:
        super().__init__()
        self.outcome = outcome
        self.calls = calls
        """Number of calls that were in flight."""


class PythonProcess:
    """One process with any number of calls in flight."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._calls: dict[int, asyncio.Future[Frame]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._receiving: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._ready: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self._life: asyncio.Task[None] | None = None
        self.dead = False
        self._killed = False

    async def start(self, run: Callable[[str], Awaitable[ProcessOutcome]]) -> Frame:
        """Start it with `run`, which gets the path of the socket. Returns its first frame: `ready` or `failed`."""
        self._life = asyncio.create_task(self._live(run))
        await asyncio.wait({self._ready}, timeout=START_SECONDS)
        if not self._ready.done():
            raise TimeoutError
        return self._ready.result()

    async def _live(self, run: Callable[[str], Awaitable[ProcessOutcome]]) -> None:
        problem: Exception | None = None
        outcome: ProcessOutcome | None = None
        folder = _private_folder()
        server = await asyncio.start_unix_server(self._connected, folder / "socket")
        try:
            outcome = await run(str(folder / "socket"))
        except Exception as error:
            problem = error
        finally:
            self.dead = True
            try:
                for _ in range(ACCEPT_TURNS):  # it may have connected and ended before the loop accepted it
                    if self._receiving is None:
                        await asyncio.sleep(0)
                if self._receiving is not None:
                    await asyncio.wait({self._receiving}, timeout=END_SECONDS)  # frames that it sent before it ended
            finally:  # even if the loop is being closed
                server.close()
                if self._writer is not None:
                    self._writer.transport.abort()
                shutil.rmtree(folder, ignore_errors=True)
                waiting = [call for call in (self._ready, *self._calls.values()) if not call.done()]
                for call in waiting:
                    call.set_exception(problem or ProcessEndedError(outcome, len(waiting)))
                    call.exception()  # retrieved, because its caller may be gone
            await asyncio.sleep(0)  # the connection is closed

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._writer is not None:
            writer.close()
            return
        self._writer = writer
        self._receiving = asyncio.create_task(self._receive(reader))

    async def _receive(self, reader: asyncio.StreamReader) -> None:
        try:
            while header := await reader.readline():
                kind, number, size = header.decode("ascii").split()
                if int(size) > MOST_BYTES:
                    break
                frame = Frame(kind, await reader.readexactly(int(size)))
                call = self._ready if number == "0" else self._calls.get(int(number))
                if call is not None and not call.done():
                    call.set_result(frame)
        except (OSError, ValueError, EOFError):
            pass
        # It is ending, and the way it ends is the error of its calls. If it does not end, it cannot be used any more.
        self.dead = True
        asyncio.get_running_loop().call_later(END_SECONDS, self.kill)

    async def call(self, values: dict[str, Any], timeout: float | None) -> Frame:
        """The answer to one call. Raises `TimeoutError`, and `ProcessEndedError` if the process ends first."""
        number = next(self._numbers)
        answer: asyncio.Future[Frame]
        answer = self._calls[number] = asyncio.get_running_loop().create_future()
        finished = False
        try:
            self._send("call", number, json.dumps(values, default=str).encode())
            await asyncio.wait({answer}, timeout=timeout)
            finished = answer.done()
            if not finished:
                raise TimeoutError
            return answer.result()
        finally:
            if finished:
                del self._calls[number]
            else:
                task = asyncio.create_task(self._end_call(number, answer))
                self._ending.add(task)
                task.add_done_callback(self._ending.discard)

    async def _end_call(self, number: int, answer: asyncio.Future[Frame]) -> None:
        """Cancel a call. If it does not end, kill the process, because a thread cannot be stopped."""
        self._send("cancel", number, b"")
        await asyncio.wait({answer}, timeout=END_SECONDS)
        self._calls.pop(number, None)
        if not answer.done():
            self.kill()

    def _send(self, kind: str, number: int, data: bytes) -> None:
        if self._writer is not None and not self.dead:
            self._writer.write(b"%b %d %d\n%b" % (kind.encode(), number, len(data), data))

    def kill(self) -> None:
        """Kill the process and everything it started."""
        self.dead = True
        if self._life is not None and not self._killed:
            self._killed = True  # a second cancellation would interrupt the cleaning up
            self._life.cancel()

    async def ended(self) -> None:
        """Wait until the process has ended and its calls have failed."""
        if self._life is not None:
            await asyncio.wait({self._life, *self._ending})

    async def aclose(self) -> None:
        self.kill()
        await self.ended()


def _private_folder() -> Path:
    """A new directory for a socket, for this user only. The path of a socket must be short."""
    folder = Path(tempfile.mkdtemp(prefix="agentv-"))
    if len(str(folder)) <= LONGEST_SOCKET_PATH:
        return folder
    folder.rmdir()
    return Path(tempfile.mkdtemp(prefix="agentv-", dir="/tmp"))
