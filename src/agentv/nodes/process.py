"""The node process: `python -m agentv.nodes.process`, and the parent's end of it.

An engine's worker starts one and passes frames on. So jobs are not affected by the worker's event loop, and every
engine runs the same code. The process ends when its parent does.

A request is `number (8 bytes), hold in ms (4), length (4), frame`; a reply is `number, 0 or 1 for an error, length,
frame or text`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import socket
import struct
import sys
from collections.abc import Mapping
from pathlib import Path

from agentv.nodes.channel import NodeEndedError, NodeRefusedError
from agentv.nodes.frames import MOST_BYTES

_REQUEST = struct.Struct(">QII")
_REPLY = struct.Struct(">QII")
LONGEST_ERROR = 2_000
GOODBYE_SECONDS = 15.0
"""How long the process may take to end its jobs."""
IDLE_SECONDS = 120.0
"""Without a driver for this time, the process ends. The next frame starts another one."""


class NodeProcessEndedError(NodeEndedError):
    """The node process has ended."""


class NodeProcess:
    """Starts a node process when it is first needed, and again after it has ended."""

    def __init__(self, store: Path | None = None, *, env: Mapping[str, str] | None = None) -> None:
        self._store, self._env = store, env
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._numbers = itertools.count(1)
        self._open: dict[int, asyncio.Future[bytes]] = {}
        self._starting = asyncio.Lock()
        self._closed = False

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def exchange(self, frame: bytes, hold: float) -> bytes:
        """Pass a frame to the process and return its reply. Raises `NodeProcessEndedError` if it ends before."""
        writer = await self._started()
        number = next(self._numbers)
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._open[number] = future
        try:
            writer.write(_REQUEST.pack(number, round(hold * 1000), len(frame)) + frame)
            await writer.drain()
            return await future
        except ConnectionError as error:
            raise NodeProcessEndedError(f"the node process has ended: {error}") from None
        finally:
            self._open.pop(number, None)

    async def _started(self) -> asyncio.StreamWriter:
        async with self._starting:
            if self._closed:
                raise NodeProcessEndedError("the node process was closed")
            if self._writer is None or self._reading is None or self._reading.done():
                await self._start()
            assert self._writer is not None  # noqa: S101 - it was just started
            return self._writer

    async def _start(self) -> None:
        await self._reap()
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "agentv.nodes.process", str(theirs.fileno())]
        if self._store is not None:
            command.append(str(self._store))
        try:
            self._process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=None if self._env is None else dict(self._env),
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise NodeRefusedError(f"the node process cannot be started with {sys.executable}: {error}") from error
        finally:
            theirs.close()
        self._reader, self._writer = await asyncio.open_connection(sock=ours)
        self._reading = asyncio.get_running_loop().create_task(self._read(self._reader, self._writer))

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        why = "it was killed or has crashed"
        try:
            while True:
                number, failed, length = _REPLY.unpack(await reader.readexactly(_REPLY.size))
                if length > MOST_BYTES:
                    why = f"it sent {length:,} bytes in one frame"
                    break
                content = await reader.readexactly(length)
                future = self._open.pop(number, None)
                if future is None or future.done():
                    continue
                if failed:
                    future.set_exception(NodeRefusedError(content.decode("utf-8", "replace")))
                else:
                    future.set_result(content)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()
            for future in self._open.values():
                if not future.done():
                    future.set_exception(NodeProcessEndedError(f"the node process has ended: {why}"))

    async def _reap(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GOODBYE_SECONDS):
                    await process.wait()
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()

    async def aclose(self) -> None:
        """End the process and everything that it runs."""
        self._closed = True
        if self._writer is not None:
            self._writer.close()
        if self._reading is not None:
            await asyncio.wait({self._reading})
        await self._reap()


# -- in the process itself


async def serve(connection: socket.socket, store: Path, idle_seconds: float = IDLE_SECONDS) -> None:
    """Answer frames until the parent closes the connection, or there has been no driver for `idle_seconds`."""
    from agentv.nodes.node import Node  # noqa: PLC0415 - the parent does not need it

    reader, writer = await asyncio.open_connection(sock=connection)
    node = Node(store)
    tasks: set[asyncio.Task[None]] = set()
    used = asyncio.get_running_loop().time()

    async def end_when_idle() -> None:
        nonlocal used
        while (left := used + idle_seconds - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(min(left, idle_seconds / 4))
            if node.has_drivers or tasks:
                used = asyncio.get_running_loop().time()
        writer.close()

    async def answer(number: int, frame: bytes, hold: float) -> None:
        failed = 0
        try:
            content = await node.handle(frame, hold)
        except Exception as error:
            failed, content = 1, f"{type(error).__name__}: {error}"[:LONGEST_ERROR].encode("utf-8", "replace")
        with contextlib.suppress(ConnectionError):
            writer.write(_REPLY.pack(number, failed, len(content)) + content)
            await writer.drain()

    watching = asyncio.create_task(end_when_idle())
    try:
        while True:
            number, hold, length = _REQUEST.unpack(await reader.readexactly(_REQUEST.size))
            if length > MOST_BYTES:
                break
            task = asyncio.create_task(answer(number, await reader.readexactly(length), hold / 1000))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        for task in (watching, *tasks):
            task.cancel()
        writer.close()
        await node.aclose()


def main() -> None:
    from agentv.nodes.tree_store import default_directory  # noqa: PLC0415 - the parent does not need it
    from agentv.processes.descriptors import raised_limit  # noqa: PLC0415
    from agentv.processes.protection import protect_runtime  # noqa: PLC0415

    descriptor = int(sys.argv[1])
    store = Path(sys.argv[2]) if len(sys.argv) > 2 else default_directory()
    os.set_inheritable(descriptor, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    with raised_limit(), protect_runtime():
        asyncio.run(serve(socket.socket(fileno=descriptor), store))


if __name__ == "__main__":
    main()
