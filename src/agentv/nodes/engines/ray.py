"""`ray:auto`, `ray:HOST:PORT` and `ray://HOST:PORT`: an actor on each node of a Ray cluster.

An address is what `ray.init` takes: `auto` or `HOST:PORT` on a machine of the cluster, `ray://HOST:PORT` for Ray Client
from anywhere else. Another process is connected to Ray (`ray_bridge.py`), and the driver only talks to that.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import itertools
import json
import os
import re
import secrets
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from agentv.errors import AgentVError, NodesLostError, UsageError
from agentv.nodes.channel import Change, Joined, Left, NodeRefusedError
from agentv.nodes.engines import EngineAddress
from agentv.nodes.engines.local import KEPT
from agentv.nodes.engines.ray_actor import REFUSED, REPLY
from agentv.nodes.engines.ray_bridge import CHANGE, READY, REQUEST, RESULT, UNUSABLE
from agentv.nodes.frames import MOST_BYTES

TLS = ("RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT")
NOT_KEPT = frozenset({"RAY_RUNTIME_ENV_HOOK", "RAY_JOB_CONFIG_JSON_ENV_VAR", "RAY_JOB_SUBMISSION_ID"})
"""Variables with which Ray would send files or variables of the driver to the nodes."""
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"}
"""Under `uv run`, Ray would send the working directory to the nodes."""
HOST = re.compile(r"[^\s/:\[\]]+|\[[0-9A-Fa-f:.]+\]")
REACH_SECONDS = 10.0
CONNECT_SECONDS = 150.0
"""How long Ray may take to connect and to start the first actors."""
GOODBYE_SECONDS = 15.0
ENDED = "the connection to Ray has ended"


class RayCallError(AgentVError):
    """An exchange has failed; the frame may have arrived or not."""

    exit_code = 3


class RayEngine:
    """The nodes of a Ray cluster. It runs the process that is connected to Ray."""

    def __init__(self, address: EngineAddress) -> None:
        rest = address.text.partition(":")[2]
        if rest != "auto" and not _is_host_and_port(rest.removeprefix("//")):
            raise UsageError(
                f"--on must be ray:auto, ray:HOST:PORT or ray://HOST:PORT for Ray, got '{address.text}'",
                next_step="On a machine of the cluster, use ray:auto. Elsewhere, use ray://HEAD:10001 (Ray Client).",
            )
        if importlib.util.find_spec("ray") is None:
            raise UsageError(f"{address.text} needs Ray.", next_step="Install it: pip install 'agentv[ray]'")
        self._address = f"ray:{rest}" if rest.startswith("//") else rest
        self.encrypted = os.environ.get("RAY_USE_TLS", "").lower() in ("1", "true")
        self._process: asyncio.subprocess.Process | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[None] | None = None
        self._numbers = itertools.count(1)
        self._open: dict[int, asyncio.Future[bytes]] = {}
        self._nodes: dict[str, None] = {}
        self._changes: asyncio.Queue[Change | None] = asyncio.Queue()

    @property
    def pid(self) -> int | None:
        """The process that is connected to Ray."""
        return None if self._process is None else self._process.pid

    async def __aenter__(self) -> Self:
        await self._check_reachable()
        ours, theirs = socket.socketpair()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "agentv.nodes.engines.ray_bridge"),
                *(str(theirs.fileno()), self._address, f"agentv-{secrets.token_hex(8)}"),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=bridge_variables(os.environ),
                cwd="/",  # Ray lets nodes import from the working directory, if they have it
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        reader, self._writer = await asyncio.open_connection(sock=ours)
        loop = asyncio.get_running_loop()
        self._ready = loop.create_future()
        self._reading = loop.create_task(self._read(reader))
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._ready
        except BaseException as error:
            self._kill()  # it may be waiting for Ray
            await self.__aexit__(None, None, None)
            if isinstance(error, TimeoutError):
                raise self._unreachable(f"no answer in {CONNECT_SECONDS:g} s") from None
            raise
        return self

    async def _check_reachable(self) -> None:
        """Ray itself tries for minutes."""
        host, _, port = self._address.removeprefix("ray://").rpartition(":")
        if not host:
            return
        try:
            async with asyncio.timeout(REACH_SECONDS):
                _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        except OSError as error:  # TimeoutError is one
            raise self._unreachable(str(error) or f"no answer in {REACH_SECONDS:g} s") from None
        writer.close()

    def _unreachable(self, reason: str) -> NodesLostError:
        return NodesLostError(
            f"cannot connect to Ray at {self._address}: {reason}",
            next_step="Check the address with `ray status` on the head. Nothing was called.",
        )

    def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.close()
        if self._process is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GOODBYE_SECONDS):
                    await self._process.wait()
            self._kill()
            await self._process.wait()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})

    async def changes(self) -> AsyncIterator[Change]:
        while (change := await self._changes.get()) is not None:
            yield change

    async def exchange(self, node: str, frame: bytes, hold: float) -> bytes:
        if self._writer is None or self._reading is None or self._reading.done():
            raise RayCallError(ENDED)
        number, name = next(self._numbers), node.encode()
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._open[number] = future
        try:
            self._writer.write(REQUEST.pack(number, round(hold * 1000), len(name), len(frame)) + name + frame)
            await self._writer.drain()
            return await future
        except ConnectionError as error:
            raise RayCallError(f"{ENDED}: {error}") from None
        finally:
            self._open.pop(number, None)

    # -- what the other process sends

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                number, kind, length = RESULT.unpack(await reader.readexactly(RESULT.size))
                if length > MOST_BYTES:
                    break
                content = await reader.readexactly(length)
                if number == 0:
                    self._event(kind, content)
                elif (future := self._open.pop(number, None)) is not None and not future.done():
                    _settle(future, kind, content)
        except (asyncio.IncompleteReadError, OSError, ValueError):
            pass
        finally:
            self._end()

    def _event(self, kind: bytes, content: bytes) -> None:
        assert self._ready is not None  # noqa: S101 - set before this task
        if kind == READY and not self._ready.done():
            self._ready.set_result(None)
        elif kind == UNUSABLE and not self._ready.done():
            self._ready.set_exception(self._unreachable(content.decode("utf-8", "replace")))
        elif kind == CHANGE:
            change = json.loads(content)
            if joined := change.get("joined"):
                self._nodes[str(joined)] = None
                self._changes.put_nowait(Joined(str(joined)))
            elif left := change.get("left"):
                self._nodes.pop(str(left), None)
                self._changes.put_nowait(Left(str(left), str(change.get("reason"))))

    def _end(self) -> None:
        """The other process has ended: it was closed, or Ray has lost its cluster."""
        for future in self._open.values():
            if not future.done():
                future.set_exception(RayCallError(ENDED))
        for node in self._nodes:
            self._changes.put_nowait(Left(node, ENDED))
        self._changes.put_nowait(None)
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(self._unreachable("Ray has ended its process"))


def bridge_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables of the process that is connected to Ray: the settings of Ray, and no keys."""
    settings = {
        name: str(Path(value).absolute()) if name in TLS else value
        for name, value in variables.items()
        if name in KEPT or name.startswith("XDG_") or (name.startswith("RAY_") and name not in NOT_KEPT)
    }
    return settings | QUIET


def _settle(future: asyncio.Future[bytes], kind: bytes, content: bytes) -> None:
    if kind == REPLY:
        future.set_result(content)
    elif kind == REFUSED:
        future.set_exception(NodeRefusedError(content.decode("utf-8", "replace")))
    else:
        future.set_exception(RayCallError(content.decode("utf-8", "replace")))


def _is_host_and_port(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return HOST.fullmatch(host) is not None and port.isdecimal() and 0 < int(port) < 65536
