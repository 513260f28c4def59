"""A channel in memory that loses, repeats, delays and reorders frames, and nodes that run no processes."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol, Self, cast, get_args

from agentv.judge.call_error import JudgeCallError
from agentv.nodes.channel import Change, Joined, Left
from agentv.nodes.node import Node, NodeVariables
from agentv.places.local import LocalPlace
from agentv.processes.job import Job
from agentv.processes.run import ProcessOutcome
from agentv.wire.judge import parse_invoke

LATENCY = 0.001
SLOW = 1.0
SCORE = b'{"score": 1.0}'

Fault = Literal[
    "none",
    "request_lost",  # the driver gets an error
    "reply_lost",  # the same, after the node has handled the frame
    "request_lost_in_silence",
    "reply_lost_in_silence",
    "twice",  # the node handles it two times in parallel
    "twice_later",  # and again after some seconds
    "slow_request",
    "slow_reply",
]
FAULTS: tuple[Fault, ...] = get_args(Fault)
EventKind = Literal["cut", "freeze", "kill", "replace"]
EVENTS: tuple[EventKind, ...] = get_args(EventKind)


@dataclass(frozen=True)
class Event:
    """Something that happens to one of the nodes."""

    at: float
    kind: EventKind
    node: int
    seconds: float = 1.0


class Handler(Protocol):
    """A node, as the channel sees it."""

    async def handle(self, data: bytes, hold: float) -> bytes: ...

    def die(self) -> None:
        """End without a word to the driver."""


class StubPlace:
    """Runs jobs without processes. `stub CALLS SECONDS [batch]` makes judge calls, takes its time, and passes."""

    def __init__(self, node: StubNode) -> None:
        self._node = node

    async def run(self, job: Job, *, judge: Any = None, **_: Any) -> ProcessOutcome:
        node = self._node
        name, calls, seconds = job.argv[0], int(job.argv[1]), float(job.argv[2])
        node.started[name] += 1
        try:
            if judge is not None:
                with contextlib.suppress(JudgeCallError):
                    call = parse_invoke(b'{"question": "q"}')
                    if "batch" in job.argv:
                        await judge.answer_batch([call] * calls)
                    else:
                        for _number in range(calls):
                            await node.thawed.wait()
                            await judge.answer(call)
            await asyncio.sleep(seconds)
            await node.thawed.wait()
            if judge is not None:
                judge.close()
        finally:
            node.ended[name] += 1
        return ProcessOutcome(0, None, SCORE, job.stdin or b"", duration_ms=1000 * seconds)


class StubNode(Node):
    """The node's side with all of its frames and jobs, but without processes."""

    def __init__(self) -> None:
        super().__init__(Path("/nonexistent"))
        self.started: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.thawed = asyncio.Event()
        self.thawed.set()
        self._closing: asyncio.Task[None] | None = None

    async def open_place(self, stack: contextlib.AsyncExitStack, variables: NodeVariables) -> LocalPlace:
        return cast("LocalPlace", StubPlace(self))

    def die(self) -> None:
        self._closing = asyncio.get_running_loop().create_task(self.aclose())


class MemoryChannel:
    """Frames between a driver and nodes in the same process. Faults are used up, one for each exchange."""

    encrypted = True

    def __init__(self, nodes: int = 2, *, faults: Iterable[Fault] = (), make: type[Handler] = StubNode) -> None:
        self._make = make
        self.nodes: dict[str, Handler] = {f"node-{number}": make() for number in range(nodes)}
        self._names = list(self.nodes)
        """The name of the node in each place, which a replacement changes."""
        self.dead: list[Handler] = []
        self.faulty = False
        """Whether faults happen already."""
        self.exchanges = 0
        self._faults = iter(faults)
        self._changes: asyncio.Queue[Change] = asyncio.Queue()
        self._cut: set[str] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        for name in self.nodes:
            self._changes.put_nowait(Joined(name))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for handler in (*self.nodes.values(), *self.dead):
            if isinstance(handler, StubNode):
                await handler.aclose()

    async def changes(self) -> AsyncIterator[Change]:
        while True:
            yield await self._changes.get()

    # -- frames

    async def exchange(self, node: str, frame: bytes, hold: float) -> bytes:
        self.exchanges += 1
        fault = next(self._faults, "none") if self.faulty else "none"
        await asyncio.sleep(SLOW if fault == "slow_request" else LATENCY)
        if node in self._cut or fault == "request_lost":
            raise ConnectionResetError("the request was lost")
        if fault == "request_lost_in_silence":
            await asyncio.get_running_loop().create_future()
        first = self._deliver(node, frame, hold)
        if fault == "twice":
            await asyncio.wait({self._deliver(node, frame, hold)})
        elif fault == "twice_later":
            self._start(self._later(node, frame, hold))
        try:
            reply = await asyncio.shield(first)  # the node does not notice that its caller has given up
        except asyncio.CancelledError:
            if first.cancelled():
                raise ConnectionResetError("the node was killed") from None
            raise
        if node in self._cut or fault == "reply_lost":
            raise ConnectionResetError("the reply was lost")
        if fault == "reply_lost_in_silence":
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(SLOW if fault == "slow_reply" else LATENCY)
        return reply

    def _deliver(self, node: str, frame: bytes, hold: float) -> asyncio.Task[bytes]:
        handler = self.nodes.get(node)
        if handler is None:
            raise ConnectionRefusedError("there is no such node")
        task = self._start(self._handled(handler, frame, hold))
        task.set_name(f"{id(handler)}")
        return task

    async def _handled(self, handler: Handler, frame: bytes, hold: float) -> bytes:
        if isinstance(handler, StubNode):
            await handler.thawed.wait()
        reply = await handler.handle(frame, hold)
        if isinstance(handler, StubNode):
            await handler.thawed.wait()
        return reply

    async def _later(self, node: str, frame: bytes, hold: float) -> None:
        await asyncio.sleep(3.0)
        if node in self.nodes:
            await self._deliver(node, frame, hold)

    def _start(self, coroutine: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # -- events

    def schedule(self, events: Iterable[Event]) -> None:
        """Let these things happen, each after some seconds from now."""
        for event in events:
            self._start(self._happen(event))

    async def _happen(self, event: Event) -> None:
        await asyncio.sleep(event.at)
        place = event.node % len(self._names)
        name = self._names[place]
        if event.kind == "cut":
            self._cut.add(name)
            await asyncio.sleep(event.seconds)
            self._cut.discard(name)
        elif event.kind == "freeze":
            with self._frozen(self.nodes[name]):
                await asyncio.sleep(event.seconds)
        else:
            self._kill(name)
            if event.kind == "replace":
                del self.nodes[name]
                self._changes.put_nowait(Left(name))
                name = self._names[place] = f"{name}x"
                self._changes.put_nowait(Joined(name))
            self.nodes[name] = self._make()

    @contextlib.contextmanager
    def _frozen(self, node: Handler) -> Iterator[None]:
        if isinstance(node, StubNode):
            node.thawed.clear()
        try:
            yield
        finally:
            if isinstance(node, StubNode):
                node.thawed.set()

    def _kill(self, name: str) -> None:
        handler = self.nodes[name]
        for task in self._tasks:
            if task.get_name() == f"{id(handler)}":
                task.cancel()
        handler.die()
        self.dead.append(handler)
