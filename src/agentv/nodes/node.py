"""The node's side: runs the jobs of drivers with the launcher of this machine, and answers their frames.

A node trusts its drivers and nothing else. It keeps no key, starts nothing on its own, and ends everything of a driver
that has been silent for too long.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

from agentv.errors import AgentVError
from agentv.nodes.far_session import FarSession
from agentv.nodes.frames import Frame, FrameError, Message, decode_frame
from agentv.nodes.hello import describe
from agentv.nodes.jobs import job_of, outcome_message, take
from agentv.nodes.stream import Stream
from agentv.nodes.tree_store import TreeStore
from agentv.places.local import LocalPlace
from agentv.processes.job import Job
from agentv.processes.launcher import Launcher
from agentv.processes.run import ProcessStartError
from agentv.regular_files import FileUnusableError, open_regular
from agentv.targets.config import looks_secret, may_be_secret

LONGEST_HOLD = 60.0
LONGEST_DEAD_MAN = 24 * 3600.0
MOST_DRIVERS = 16
"""Drivers that a node works for at the same time."""
LONGEST_REASON = 2_000


class Node:
    """One node process. `handle` takes a frame of any driver and returns the reply to it."""

    def __init__(self, store: Path) -> None:
        self.id = secrets.token_hex(8)
        self.store = store
        self._drivers: dict[str, DriverWork] = {}
        self._ending: set[DriverWork] = set()
        self._ended: dict[str, int] = {}
        """The last epoch of each driver that has ended here."""

    @property
    def has_drivers(self) -> bool:
        """Whether it works for any driver."""
        return bool(self._drivers)

    async def handle(self, data: bytes, hold: float) -> bytes:
        """Take the messages of a frame, wait up to `hold` seconds for messages to the driver, and return them."""
        frame = decode_frame(data)
        work = self._work(frame)
        if work is None:
            stale = Frame(frame.driver, frame.epoch, self.id, stale=True)
            return stale.encoded()
        return await work.exchange(frame, min(hold, LONGEST_HOLD))

    def _work(self, frame: Frame) -> DriverWork | None:
        """The work for the driver of a frame; None if the frame belongs to an epoch that has ended."""
        work = self._drivers.get(frame.driver)
        if work is not None and work.epoch == frame.epoch:
            return work
        if frame.ack:  # it is for a process that this one has replaced
            return None
        if frame.epoch <= max(self._ended.get(frame.driver, 0), 0 if work is None else work.epoch):
            return None
        if work is not None:
            work.end()
        elif len(self._drivers) >= MOST_DRIVERS:
            raise FrameError(f"this node already works for {MOST_DRIVERS} runs")
        work = self._drivers[frame.driver] = DriverWork(self, frame.driver, frame.epoch)
        return work

    def forget(self, work: DriverWork) -> None:
        """No further frames are for this work, which is about to end."""
        self._ending.add(work)
        self._ended[work.driver] = max(work.epoch, self._ended.get(work.driver, 0))
        while len(self._ended) > 1000:
            del self._ended[next(iter(self._ended))]
        if self._drivers.get(work.driver) is work:
            del self._drivers[work.driver]

    def gone(self, work: DriverWork) -> None:
        """Nothing is left of the work."""
        self._ending.discard(work)

    async def open_place(self, stack: contextlib.AsyncExitStack, variables: NodeVariables) -> LocalPlace:
        """Where the jobs of a driver run, until the stack is closed."""
        return LocalPlace(await stack.enter_async_context(Launcher(isolate=True)), variables)

    async def aclose(self) -> None:
        """End all work. Returns when no process is left."""
        for work in list(self._drivers.values()):
            work.end()
        await asyncio.gather(*(work.ended() for work in self._ending), return_exceptions=True)


class NodeVariables:
    """The variables of the node. Those that look secret, or that a driver calls secret, are not for scripts."""

    def __init__(self) -> None:
        self.secret_names: frozenset[str] = frozenset()

    def all(self) -> Mapping[str, str]:
        return os.environ

    def without_secrets(self) -> Mapping[str, str]:
        return {
            name: value
            for name, value in os.environ.items()
            if name not in self.secret_names and not (looks_secret(name) and may_be_secret(name))
        }


class DriverWork:
    """The work for one epoch of one driver: its jobs, its launcher and its files."""

    def __init__(self, node: Node, driver: str, epoch: int) -> None:
        self.driver, self.epoch = driver, epoch
        self._node = node
        self._loop = asyncio.get_running_loop()
        self._stream = Stream()
        self._variables = NodeVariables()
        self._jobs: dict[int, RunningJob] = {}
        self._holder: asyncio.Future[None] | None = None
        """Done when the exchange that waits for messages must return."""
        self._orders: asyncio.Queue[Message] = asyncio.Queue()
        """Orders about files, which are carried out one after the other."""
        self._dead_man = 60.0
        self._timer: asyncio.TimerHandle | None = None
        self._stack = contextlib.AsyncExitStack()
        self._place: LocalPlace | None = None
        self._opening = asyncio.Lock()
        self._store: TreeStore | None = None
        self._filing = self._loop.create_task(self._carry_out())
        self._ending: asyncio.Task[None] | None = None
        self._handlers: Mapping[str, Callable[[Message], None]] = {
            "hello": self._on_hello,
            "need": self._orders.put_nowait,
            "blob": self._orders.put_nowait,
            "build": self._orders.put_nowait,
            "compare": self._orders.put_nowait,
            "run": self._on_run,
            "reply": self._on_reply,
            "waits": self._on_waits,
            "kill": self._on_kill,
            "bye": self._on_bye,
        }

    # -- frames

    async def exchange(self, frame: Frame, hold: float) -> bytes:
        self._set_timer()
        self._stream.acknowledged(frame.ack)
        for message in self._stream.accept(frame.messages, frame.sent):
            handler = self._handlers.get(message.kind)
            if handler is None:
                raise FrameError(f"unknown message '{message.kind[:40]}'")
            handler(message)
        if frame.again:
            self._stream.rewind()
        if not self._stream.pending and hold > 0 and self._ending is None:
            await self._wait(hold)
        messages = self._stream.take()
        stream = self._stream
        reply = Frame(self.driver, self.epoch, self._node.id, stream.received, stream.sent, messages=messages)
        return reply.encoded()

    async def _wait(self, hold: float) -> None:
        """Wait for messages to the driver. Only one exchange waits: an earlier one returns immediately."""
        if self._holder is not None and not self._holder.done():
            self._holder.set_result(None)
        holder = self._holder = self._loop.create_future()
        timer = self._loop.call_later(hold, _finish, holder)
        try:
            await holder
        finally:
            timer.cancel()

    def send(self, message: Message) -> None:
        self._stream.send(message)
        if self._holder is not None:
            _finish(self._holder)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._ending is None:
            self._timer = self._loop.call_later(self._dead_man, self.end)

    # -- the beginning and the end

    def _on_hello(self, message: Message) -> None:
        seconds = take(message.data, "dead_man", float, int)
        self._dead_man = min(max(1.0, float(seconds)), LONGEST_DEAD_MAN)
        names = json.loads(message.blob)
        self._variables.secret_names = frozenset(name for name in names if type(name) is str)
        self._set_timer()
        self.send(Message("hello", asdict(describe(self._node.store))))

    def _on_bye(self, _: Message) -> None:
        self.end()

    def end(self) -> None:
        """Kill all jobs of the driver and forget it. `ended` waits for that."""
        if self._ending is None:
            self._node.forget(self)
            if self._timer is not None:
                self._timer.cancel()
            if self._holder is not None:
                _finish(self._holder)
            self._ending = self._loop.create_task(self._end())

    async def _end(self) -> None:
        self._filing.cancel()
        for job in self._jobs.values():
            job.kill()
        try:
            await asyncio.gather(self._filing, *(job.task for job in self._jobs.values()), return_exceptions=True)
            await self._stack.aclose()
        finally:
            self._node.gone(self)

    async def ended(self) -> None:
        if self._ending is not None:
            await asyncio.wait({self._ending})

    async def place(self) -> LocalPlace:
        async with self._opening:
            if self._place is None:
                self._place = await self._node.open_place(self._stack, self._variables)
        return self._place

    # -- files

    async def _carry_out(self) -> None:
        steps: Mapping[str, Callable[[Message], Message | None]] = {
            "need": self._missing,
            "blob": self._add,
            "build": self._build,
            "compare": self._compare,
        }
        while True:
            message = await self._orders.get()
            try:
                reply = await asyncio.to_thread(steps[message.kind], message)
            except (AgentVError, OSError, ValueError) as error:
                reply = Message("refused", {}, str(error)[:LONGEST_REASON].encode("utf-8", "replace"))
            if reply is not None:
                self.send(reply)

    def _trees(self) -> TreeStore:
        if self._store is None:
            self._store = TreeStore(self._node.store)
        return self._store

    def _missing(self, message: Message) -> Message:
        missing = self._trees().missing(message.blob)
        return Message("missing", {"tree": take(message.data, "tree", int)}, json.dumps(missing).encode("ascii"))

    def _add(self, message: Message) -> None:
        sha256, last = take(message.data, "sha256", str), take(message.data, "last", bool)
        self._trees().add(sha256, message.blob, last=last)

    def _build(self, message: Message) -> Message:
        path = self._stack.enter_context(self._trees().using(message.blob))
        self._trees().prune()
        return Message("built", {"tree": take(message.data, "tree", int), "path": str(path)})

    def _compare(self, message: Message) -> Message:
        """With `files: shared`: files of the driver that are missing or different here."""
        listed = json.loads(message.blob)
        different = [path for path, sha256 in listed if _sha256(Path(path)) != sha256]
        return Message("compared", {"count": len(different), "first": [path[:500] for path in different[:3]]})

    # -- jobs

    def _on_run(self, message: Message) -> None:
        number = take(message.data, "job", int)
        access = take(message.data, "judge", dict, type(None))
        session = None if access is None else FarSession(number, access, self.send)
        self._jobs[number] = RunningJob(self, number, job_of(message), session)

    def _on_reply(self, message: Message) -> None:
        job = self._jobs.get(take(message.data, "job", int))
        if job is not None and job.session is not None:
            job.session.replied(message)

    def _on_waits(self, message: Message) -> None:
        job = self._jobs.get(take(message.data, "job", int))
        if job is not None and job.session is not None:
            job.session.waits(take(message.data, "waits", bool))

    def _on_kill(self, message: Message) -> None:
        job = self._jobs.get(take(message.data, "job", int))
        if job is not None:
            job.kill()

    def finished(self, job: RunningJob, message: Message) -> None:
        """A job has ended; the message says how."""
        self._jobs.pop(job.number, None)
        self.send(message)


class RunningJob:
    """One job."""

    def __init__(self, work: DriverWork, number: int, job: Job, session: FarSession | None) -> None:
        self._work, self.number, self._job, self.session = work, number, job, session
        self._killed = False
        self.task = asyncio.get_running_loop().create_task(self._outcome())
        self.task.add_done_callback(self._ended)  # also if it is killed before its first step

    def kill(self) -> None:
        if not self._killed:  # cancelling it twice would interrupt the end of its processes
            self._killed = True
            self.task.cancel()

    def _ended(self, task: asyncio.Task[Message]) -> None:
        if self.session is not None:
            self.session.close()
        if task.cancelled():
            message = Message("killed", {"job": self.number})
        elif (error := task.exception()) is not None:
            message = _failure(self.number, "place", f"the node could not run it: {_described(error)}", None)
        else:
            message = task.result()
        self._work.finished(self, message)

    async def _outcome(self) -> Message:
        try:
            place = await self._work.place()
            outcome = await place.run(
                self._job, judge=self.session, on_cold=self._report_cold, repeatable=self._is_repeatable
            )
        except ProcessStartError as error:
            return _failure(self.number, "start", error.message, error.next_step)
        except AgentVError as error:
            return _failure(self.number, "place", error.message, error.next_step)
        message = outcome_message(self.number, outcome)
        if not message.fits:
            return _failure(self.number, "start", f"its output of {len(message.blob):,} bytes cannot be sent", None)
        return message

    def _is_repeatable(self) -> bool:
        return self._job.inline and (self.session is None or self.session.calls == 0)

    def _report_cold(self, why: str) -> None:
        self._work.send(Message("cold", {"job": self.number}, why[:LONGEST_REASON].encode("utf-8", "replace")))


def _failure(number: int, kind: str, message: str, next_step: str | None) -> Message:
    text = json.dumps([message[: 8 * LONGEST_REASON], next_step]).encode("ascii")
    return Message("failed", {"job": number, "kind": kind}, text)


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _sha256(path: Path) -> str | None:
    """The digest of a file; None if it cannot be read."""
    try:
        with open_regular(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, FileUnusableError):
        return None


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
