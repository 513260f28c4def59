"""`python -m agentv.nodes.engines.ray_bridge FD ADDRESS NAMESPACE`: the process that is connected to Ray.

Ray unpickles what nodes send, ends its process if it loses its cluster, and installs signal handlers. In a process of
its own, without the keys and the work of the driver, none of that reaches the driver.

    request   number (8 bytes), hold in ms (4), length of the node's name (2), length of the frame (4), name, frame
    reply     number, kind (1), length (4), frame or text; the number of an event is 0
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
import struct
import sys
import threading
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

from agentv import __version__
from agentv.nodes.engines.ray_actor import FAILED, REFUSED, REPLY, NodeActor
from agentv.nodes.frames import MOST_BYTES
from agentv.text import without_controls

REQUEST = struct.Struct(">QIHI")
RESULT = struct.Struct(">QcI")
CHANGE, READY, UNUSABLE = b"\3", b"\4", b"\5"
LOOK_SECONDS = 1.0
"""How often the nodes of Ray are read. Ray has no events for them."""
START_SECONDS = 60.0
"""How long the first nodes, and each later one, may take to start an actor."""
LONGEST_PAUSE = 60.0
"""Longest time until another actor is started on a node whose actors die."""
HELD_AT_ONCE = 32
"""Exchanges that an actor takes at a time. Two are under way, and those of a lost connection end soon."""
CONNECT_ATTEMPTS = 3
GOODBYE_SECONDS = 5.0
LONGEST_ERROR = 2_000


@dataclass(slots=True)
class Member:
    """A node with an actor that is ready, or that cannot start."""

    name: str
    node_id: str
    actor: Any
    refused: str | None = None


class Bridge:
    """Passes requests of the driver to actors, and reports nodes that join and leave."""

    def __init__(self, ray: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._ray, self._reader, self._writer = ray, reader, writer
        self._members: dict[str, Member] = {}
        self._joining: dict[str, asyncio.Task[None]] = {}
        self._attempts: dict[str, int] = {}
        """How many actors were started on a node."""
        self._next: dict[str, float] = {}
        """The time before which no other actor is started on a node."""
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Work until the driver closes the connection."""
        watching = self._loop.create_task(self._watch())
        try:
            while True:
                number, hold, name_length, length = REQUEST.unpack(await self._reader.readexactly(REQUEST.size))
                if length > MOST_BYTES:
                    break
                name = (await self._reader.readexactly(name_length)).decode("utf-8")
                frame = await self._reader.readexactly(length)
                task = self._loop.create_task(self._answer(number, name, frame, hold / 1000))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            watching.cancel()
            await self._close()

    async def _close(self) -> None:
        closing = [asyncio.ensure_future(member.actor.aclose.remote()) for member in self._members.values()]
        if closing:
            await asyncio.wait(closing, timeout=GOODBYE_SECONDS)

    # -- frames

    async def _answer(self, number: int, name: str, frame: bytes, hold: float) -> None:
        member = self._members.get(name)
        if member is None:
            result = FAILED + b"the node has left"
        elif member.refused is not None:
            result = REFUSED + member.refused.encode("utf-8", "replace")
        else:
            try:
                result = bytes(await member.actor.exchange.remote(frame, hold))
            except self._ray.exceptions.ActorDiedError as error:
                self._leave(member, _why_died(error))
                result = FAILED + b"its actor has died"
            except Exception as error:  # such as ActorUnavailableError: the frame may have arrived or not
                result = FAILED + _short(error).encode("utf-8", "replace")
        kind = result[:1] if result[:1] in (REPLY, FAILED, REFUSED) else FAILED
        await self._send(number, kind, result[1:])

    async def _send(self, number: int, kind: bytes, content: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            self._writer.write(RESULT.pack(number, kind, len(content)) + content)
            await self._writer.drain()

    def _report(self, **change: str) -> None:
        content = json.dumps(change).encode("ascii")
        self._writer.write(RESULT.pack(0, CHANGE, len(content)) + content)

    # -- nodes

    async def _watch(self) -> None:
        """Start an actor on each node that joins, and report those that have died."""
        is_first = True
        while True:
            with contextlib.suppress(Exception):  # the cluster may be back later; else Ray ends this process
                rows = await asyncio.to_thread(self._ray.nodes)
                alive = {row["NodeID"]: row for row in rows if row["Alive"]}
                for member in list(self._members.values()):
                    if member.node_id not in alive:
                        self._leave(member, "its Ray node has died")
                self._start(alive)
            if is_first:
                is_first = False
                if self._joining:
                    await asyncio.wait(self._joining.values(), timeout=START_SECONDS)
                await self._send(0, READY, b"")
            await asyncio.sleep(LOOK_SECONDS)

    def _start(self, alive: dict[str, dict[str, Any]]) -> None:
        used = {member.node_id for member in self._members.values()}
        for node_id, row in alive.items():
            has_cpus = row.get("Resources", {}).get("CPU", 0) > 0
            waits = self._loop.time() < self._next.get(node_id, 0.0)
            if node_id in used or node_id in self._joining or waits or not has_cpus:
                continue
            task = self._joining[node_id] = self._loop.create_task(self._join(node_id, row))
            task.add_done_callback(partial(self._joined, node_id))

    def _joined(self, node_id: str, _: object) -> None:
        self._joining.pop(node_id, None)

    async def _join(self, node_id: str, row: dict[str, Any]) -> None:
        attempt = self._attempts[node_id] = self._attempts.get(node_id, 0) + 1
        self._next[node_id] = self._loop.time() + min(LONGEST_PAUSE, 2.0**attempt / 2)
        host = _line(str(row.get("NodeManagerHostname") or row.get("NodeManagerAddress") or "ray"), 60)
        name = f"{host}-{node_id[:8]}" + (f"-{attempt}" if attempt > 1 else "")
        actor = await asyncio.to_thread(self._new_actor, node_id)
        refused: str | None = None
        try:
            async with asyncio.timeout(START_SECONDS):
                await actor.ready.remote()
        except self._ray.exceptions.RayTaskError as error:
            refused = _why_not(error)
        except self._ray.exceptions.RayActorError as error:
            if not error.actor_init_failed:
                return  # the node is about to leave, or another actor is started later
            refused = _why_not(error)
        except (self._ray.exceptions.RayError, TimeoutError, ConnectionError):
            with contextlib.suppress(Exception):
                await asyncio.to_thread(self._ray.kill, actor)
            return
        self._members[name] = Member(name, node_id, actor, refused)
        self._report(joined=name)

    def _new_actor(self, node_id: str) -> Any:
        strategy = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node_id=node_id, soft=False)
        options = {
            "num_cpus": 0,
            "max_restarts": 0,
            "max_task_retries": 0,
            "max_concurrency": HELD_AT_ONCE,
            "scheduling_strategy": strategy,
        }
        return self._ray.remote(NodeActor).options(**options).remote()

    def _leave(self, member: Member, reason: str) -> None:
        if self._members.pop(member.name, None) is not None:
            self._report(left=member.name, reason=reason)


def _why_died(error: Exception) -> str:
    return "its Ray node has died" if "node has died" in str(error) else "its actor on the Ray node has died"


def _why_not(error: Exception) -> str:
    """Why an actor cannot start, from the error that Ray reports with a traceback of the node."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = next((line for line in reversed(lines) if "Error: " in line), lines[-1] if lines else "unknown error")
    advice = f"Install agentv on the node: pip install 'agentv[ray]=={__version__}'"
    return f"its actor cannot start: {_line(reason, 400)}" + (f"\n{advice}" if "agentv" in reason else "")


def _line(text: str, most: int) -> str:
    return " ".join(without_controls(text).split())[:most]


def _short(error: BaseException) -> str:
    return _line(f"{type(error).__name__}: {error}", LONGEST_ERROR)


def _connect(address: str, namespace: str) -> Any:
    ray = import_module("ray")  # here, as the driver reads the numbers of this module without Ray
    import_module("ray.util.scheduling_strategies")
    for attempt in range(1, CONNECT_ATTEMPTS + 1):
        try:
            ray.init(address, namespace=namespace, log_to_driver=False, logging_level=logging.CRITICAL)
            break
        except ConnectionError:  # the head starts a process for each client of Ray Client, which fails at times
            if not address.startswith("ray://") or attempt == CONNECT_ATTEMPTS:
                raise
            ray.shutdown()
    return ray


async def _main(connection: socket.socket, address: str, namespace: str) -> None:
    reader, writer = await asyncio.open_connection(sock=connection)
    try:
        ray = _connect(address, namespace)
    except BaseException as error:
        content = _short(error).encode("utf-8", "replace")
        writer.write(RESULT.pack(0, UNUSABLE, len(content)) + content)
        await writer.drain()
        return
    await Bridge(ray, reader, writer).serve()
    with contextlib.suppress(Exception):
        await asyncio.wait_for(asyncio.to_thread(ray.shutdown), GOODBYE_SECONDS)


def main() -> None:
    descriptor, address, namespace = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    os.set_inheritable(descriptor, False)
    try:
        asyncio.run(_main(socket.socket(fileno=descriptor), address, namespace))
    finally:
        if threading.active_count() > 1:
            os._exit(0)  # threads of Ray may never end


if __name__ == "__main__":
    main()
