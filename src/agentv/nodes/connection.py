"""The driver's side of one node, from its handshake until it is lost: frames, files and jobs."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agentv import __version__
from agentv.codec import DecodeError, decode
from agentv.nodes.channel import Channel, NodeEndedError, NodeRefusedError
from agentv.nodes.frames import Frame, FrameError, Message, decode_frame
from agentv.nodes.hello import PACKAGE, Hello
from agentv.nodes.jobs import job_message, outcome_of, take
from agentv.nodes.stream import Stream
from agentv.places.place import PlaceLostError
from agentv.processes.job import Job
from agentv.processes.run import ProcessOutcome, ProcessStartError
from agentv.targets.nodes_section import NodesModel

if TYPE_CHECKING:
    from agentv.judge.session import JudgeSession
    from agentv.nodes.trees import Tree

LONGEST_HOLD = 10.0
RETRY_SECONDS = (0.05, 1.0)
"""Shortest and longest pause after a failed exchange."""
CHECK_SECONDS = 5.0
END_SECONDS = 60.0
"""A node must report the end of a job at most this long after it, and after twice its timeout."""
MOST_SLOTS = 4_096
MOST_SURPLUS = 1_000
MOST_CALL_BYTES = 64 * 1024 * 1024
"""Size of the judge calls of a job that are answered at the same time."""
LONGEST_FAILURE = 256 * 1024
LONGEST_TEXT = 8_000
LONGEST_STEP = 1.0
"""If the event loop is this late, the process was stopped, or it was blocked."""
MOST_ANSWERS = 8
_TOO_LARGE = {"status": 413, "code": "too_large"}
MOST_SHOWN = 500
SPARE_CALLS = 2_000
"""Messages of a job besides one for each judge call that it may make."""


@dataclass(frozen=True, slots=True)
class Work:
    """What all nodes of a run need to know."""

    driver: str
    settings: NodesModel
    trees: Sequence[Tree] = ()
    """The files to send. With `files: shared`, those to compare."""
    secret_names: Collection[str] = ()
    clean: Callable[[str], str] = str
    """Masks secrets in text, before it is shown."""


class NodeLost(Exception):  # noqa: N818 - not an error of its own
    """The connection has ended. The reason is a clause."""


@dataclass(slots=True)
class RemoteJob:
    """One job on the node."""

    number: int
    job: Job
    judge: JudgeSession | None
    outcome: asyncio.Future[ProcessOutcome]
    on_cold: Callable[[str], None] | None
    calls: dict[int, asyncio.Task[None]] = field(default_factory=dict)
    messages: int = 0
    call_bytes: int = 0
    abandoned: bool = False
    """Whether its caller is gone. It occupies a slot until the node confirms its end."""
    latest_end: float = math.inf
    """When the node must have reported its end, apart from the time that its judge calls wait."""

    def is_late(self, now: float) -> bool:
        waited = 0.0 if self.judge is None else self.judge.waiting.seconds
        return now > self.latest_end + waited

    def fail(self, error: BaseException) -> None:
        for task in self.calls.values():
            task.cancel()
        if self.judge is not None:
            self.judge.close()
            self.judge.waiting.on_change = None
        if not self.outcome.done():
            self.outcome.set_exception(error)
            self.outcome.exception()  # its caller may be gone


class Connection:
    """One epoch of one node. `handshake` makes it usable, and `until_lost` returns when it has ended."""

    def __init__(
        self, channel: Channel, node: str, epoch: int, work: Work, on_free: Callable[[Connection], None]
    ) -> None:
        self.name = node
        self.hello: Hello | None = None
        self.slots = 0
        self.held = 0
        """Slots that are given out."""
        self.is_open = False
        """Whether it is among the nodes that may have free slots."""
        self.refused = False
        """Whether the node must not be used again."""
        self.lost_jobs = 0
        """How many jobs were running when it was lost."""
        self._channel, self._epoch, self._work, self._on_free = channel, epoch, work, on_free
        self._loop = asyncio.get_running_loop()
        self._stream = Stream()
        self._process: str | None = None
        self._jobs: dict[int, RemoteJob] = {}
        self._abandoned = 0
        self._numbers = itertools.count(1)
        self._wake = asyncio.Event()
        self._progress = asyncio.Event()
        """Set when the node has acknowledged messages, and at the end."""
        self._lost: asyncio.Future[str] = self._loop.create_future()
        self._heard = self._loop.time()
        self._answers: asyncio.Queue[Message] = asyncio.Queue()
        """Replies to what `handshake` asks."""
        self._again = False
        self._last_error = ""
        self._roots: list[tuple[str, str]] = []
        """Directories of the driver, and where they are on the node; the longest first."""
        self._under_way: set[asyncio.Task[None]] = set()
        """Exchanges. At most two: one waits for the node, and one brings messages."""
        self._idle = 0
        """How many exchanges in a row have brought nothing, although the node could have waited."""
        self._checked = self._heard
        self._pump = self._loop.create_task(self._pumping())
        self.surplus = 0
        """Messages that belong to no job, such as those of a node that was lost and came back."""

    # -- slots

    @property
    def free(self) -> int:
        """How many more jobs it can run. A job whose caller is gone counts until the node confirms its end."""
        return 0 if self._lost.done() else self.slots - self.held - self._abandoned

    @property
    def running(self) -> int:
        return len(self._jobs)

    # -- the beginning

    async def handshake(self) -> Hello:
        """Make the node ready for jobs. Raises NodeRefusedError with the reason if it cannot be used."""
        try:
            return await self._handshake()
        except (NodeLost, NodeRefusedError):
            raise
        except Exception as error:
            reason = f"its handshake failed: {type(error).__name__}: {error}"
            raise NodeRefusedError(self._work.clean(reason)[:MOST_SHOWN]) from error

    async def _handshake(self) -> Hello:
        names = json.dumps(sorted(self._work.secret_names)).encode("ascii")
        self._send(Message("hello", {"dead_man": self._work.settings.dead_man_seconds}, names))
        message = await self._answer("hello")
        try:
            hello = decode(Hello, message.data)
        except DecodeError as error:
            raise NodeRefusedError(f"its handshake is invalid: {error}") from None
        self.hello = hello
        self._check(hello)
        self._roots = [(PACKAGE, hello.package)]
        if self._work.settings.files == "ship":
            for number, tree in enumerate(self._work.trees):
                self._roots.append((str(tree.root), await self._ship(number, tree)))
        else:
            await self._compare()
        self._roots.sort(key=lambda pair: -len(pair[0]))
        self.slots = min(self._work.settings.slots or max(1, 2 * hello.cpus), MOST_SLOTS)
        return hello

    def _check(self, hello: Hello) -> None:
        if hello.version != __version__:
            raise NodeRefusedError(
                f"it has agentv {hello.version[:40]}, and the driver has {__version__}",
                next_step=f"Install the driver's version on the node: pip install 'agentv=={__version__}'",
            )
        if not hello.supervised and not self._work.settings.allow_unsupervised:
            raise NodeRefusedError(
                f"it cannot supervise scripts ({hello.platform}): processes could survive them",
                next_step="Use Linux 5.4 or newer, or accept that with `nodes: {allow_unsupervised: true}`.",
            )

    async def _ship(self, number: int, tree: Tree) -> str:
        manifest = tree.manifest()
        self._send(Message("need", {"tree": number}, manifest))
        reply = (await self._answer("missing")).blob
        missing = json.loads(reply) if len(reply) <= 100 * (1 + len(tree.files)) else None
        if not isinstance(missing, list) or not set(missing) <= {file.sha256 for file in tree.files}:
            raise NodeRefusedError("it asks for files that are not part of the suite's repository")
        for sha256 in dict.fromkeys(missing):
            previous: bytes | None = None
            for piece in await asyncio.to_thread(_pieces, tree, sha256):
                if previous is not None:
                    self._send(Message("blob", {"sha256": sha256, "last": False}, previous))
                previous = piece
            self._send(Message("blob", {"sha256": sha256, "last": True}, previous or b""))
            await self._sent(8)  # the next pieces wait on disk, not in memory
        self._send(Message("build", {"tree": number}, manifest))
        return str(take((await self._answer("built")).data, "path", str))

    async def _sent(self, most: int) -> None:
        """Wait until at most `most` messages are not acknowledged."""
        while self._stream.backlog > most and not self._lost.done():
            self._progress.clear()
            await self._progress.wait()

    async def _compare(self) -> None:
        listed = [[str(tree.root / file.path), file.sha256] for tree in self._work.trees for file in tree.files]
        self._send(Message("compare", {}, json.dumps(listed).encode("ascii")))
        data = (await self._answer("compared")).data
        if count := take(data, "count", int):
            names = ", ".join(str(path)[:200] for path in data.get("first", ()))
            raise NodeRefusedError(
                f"{count} files of the suite's repository are missing or different there: {names}",
                next_step="With `files: shared`, all nodes must see the same files; `files: ship` sends them.",
            )

    async def _answer(self, kind: str) -> Message:
        getting = self._loop.create_task(self._answers.get())
        ends: set[asyncio.Future[Any]] = {getting, self._lost}
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if not getting.done():
                raise NodeLost(self._lost.result())
            message = getting.result()
        finally:
            getting.cancel()
        if message.kind == "refused":
            raise NodeRefusedError(self._work.clean(message.blob.decode("utf-8", "replace"))[:MOST_SHOWN])
        if message.kind != kind:
            raise NodeRefusedError(f"it answered '{message.kind[:40]}' instead of '{kind}'")
        return message

    # -- jobs

    def path(self, path: str) -> str:
        """A path of the driver as it is on the node."""
        for ours, theirs in self._roots:
            if path == ours or path.startswith(ours + "/"):
                return theirs + path[len(ours) :]
        return path

    def has(self, path: str) -> bool:
        """Whether a directory of the node is one that was sent or, with shared files, may exist there."""
        if self._work.settings.files == "shared":
            return True
        return any(path == theirs or path.startswith(theirs + "/") for _, theirs in self._roots)

    async def run(
        self, job: Job, *, judge: JudgeSession | None, on_cold: Callable[[str], None] | None
    ) -> ProcessOutcome:
        """Run a job to its end. Raises PlaceLostError if the node is lost meanwhile."""
        if self._lost.done():
            raise PlaceLostError(self.name, self._lost.result())
        number = next(self._numbers)
        access = None if judge is None else {"max_calls": judge.max_calls, "available": list(judge.available)}
        message = job_message(number, job, access)
        if not message.fits:
            raise ProcessStartError(
                "its command, variables and input are too long to be sent to a node",
                next_step="Put long values into files of the repository, or set `on: driver`.",
            )
        running = RemoteJob(number, job, judge, self._loop.create_future(), on_cold)
        if job.timeout is not None:
            running.latest_end = self._loop.time() + 2 * job.timeout + END_SECONDS
        self._jobs[number] = running
        if judge is not None:
            judge.waiting.on_change = lambda: self._send(
                Message("waits", {"job": number, "waits": judge.waiting.calls > 0})
            )
        self._send(message)
        try:
            return await running.outcome
        except asyncio.CancelledError:
            running.fail(asyncio.CancelledError())
            if number in self._jobs:  # it may have ended in the same step
                running.abandoned, running.latest_end = True, self._loop.time() + END_SECONDS
                self._abandoned += 1
                self._send(Message("kill", {"job": number}))
            raise

    def _job(self, message: Message) -> RemoteJob | None:
        """The job of a message; None if it is not running here (any more)."""
        running = self._jobs.get(take(message.data, "job", int))
        if running is None:
            self.surplus += 1
            if self.surplus > MOST_SURPLUS:
                raise FrameError(f"it has sent more than {MOST_SURPLUS:,} messages for jobs that are not running")
            return None
        running.messages += 1
        most = SPARE_CALLS + (running.judge.max_calls if running.judge is not None else 0)
        if running.messages > 4 * most:
            raise FrameError(f"a job has sent more than {4 * most:,} messages")
        return running

    def _on_call(self, message: Message) -> None:
        running = self._job(message)
        if running is None or running.judge is None or running.outcome.done():
            return
        number = take(message.data, "call", int)
        if number in running.calls:
            return
        reply = {"job": running.number, "call": number}
        if running.call_bytes + len(message.blob) > MOST_CALL_BYTES:
            self._send(Message("reply", {**reply, **_TOO_LARGE}, b"too many bytes in judge calls at the same time"))
            return
        from agentv.nodes.answering import answered  # noqa: PLC0415 - jobs without judge access need no judge

        async def answer(judge: JudgeSession) -> None:
            running.call_bytes += len(message.blob)
            try:
                data, body = await answered(judge, message)
            finally:
                running.call_bytes -= len(message.blob)
                running.calls.pop(number, None)
            answer = Message("reply", {**reply, **data}, body)
            if not answer.fits:
                answer = Message("reply", {**reply, **_TOO_LARGE}, b"the reply of the judge is too large for a node")
            self._send(answer)

        running.calls[number] = self._loop.create_task(answer(running.judge))

    def _on_drop(self, message: Message) -> None:
        running = self._job(message)
        task = None if running is None else running.calls.get(take(message.data, "call", int))
        if task is not None:
            task.cancel()

    def _on_overuse(self, message: Message) -> None:
        running = self._job(message)
        if running is not None and running.judge is not None:
            running.judge.end_for_overuse(self._work.clean(take(message.data, "reason", str)[:LONGEST_TEXT]))

    def _on_exit(self, message: Message) -> None:
        running = self._job(message)
        if running is not None and running.judge is not None:
            running.judge.close()

    def _on_cold(self, message: Message) -> None:
        running = self._job(message)
        if running is not None and running.on_cold is not None and not running.outcome.done():
            on_cold, running.on_cold = running.on_cold, None  # once is enough
            on_cold(self._work.clean(message.blob[:LONGEST_TEXT].decode("utf-8", "replace")))

    def _on_done(self, message: Message) -> None:
        running = self._job(message)
        if running is None:
            return
        outcome = outcome_of(message, running.job.outputs)
        self._end_job(running)
        if not running.outcome.done():
            running.outcome.set_result(outcome)

    def _on_failed(self, message: Message) -> None:
        running = self._job(message)
        if running is None:
            return
        text, next_step = _failure(message.blob)
        starts = take(message.data, "kind", str) == "start"
        self._end_job(running)
        running.fail(
            ProcessStartError(f"{self._work.clean(text)} (on the node {self.name})", next_step=next_step)
            if starts
            else PlaceLostError(self.name, self._work.clean(text)[:MOST_SHOWN])
        )

    def _on_killed(self, message: Message) -> None:
        running = self._job(message)
        if running is not None:
            self._end_job(running)
            running.fail(PlaceLostError(self.name, "the node ended the job"))

    def _end_job(self, running: RemoteJob) -> None:
        self._jobs.pop(running.number, None)
        if running.judge is not None:
            running.judge.close()
            running.judge.waiting.on_change = None
        for task in running.calls.values():
            task.cancel()
        if running.abandoned:
            self._abandoned -= 1
            self._on_free(self)

    # -- frames

    def _send(self, message: Message) -> None:
        self._stream.send(message)
        self._wake.set()

    async def _pumping(self) -> None:
        """Exchange frames until the node is lost."""
        under_way = self._under_way
        silence = self._work.settings.silence_seconds
        hold = min(LONGEST_HOLD, silence / 5)
        waiting: asyncio.Task[bool] | None = None
        try:
            while not self._lost.done():
                self._wake.clear()
                if not under_way or (self._stream.pending and len(under_way) < 2):
                    under_way.add(self._loop.create_task(self._exchange(hold, alone=not under_way)))
                    continue
                waiting = self._loop.create_task(self._wake.wait())
                started = self._loop.time()
                left = max(0.0, self._heard + silence - started)
                ends: set[asyncio.Future[Any]] = {*under_way, waiting, self._lost}
                done, _ = await asyncio.wait(ends, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                for task in under_way & done:
                    under_way.discard(task)
                    task.result()
                now = self._loop.time()
                if (stopped := now - started - left) > LONGEST_STEP:  # this process was stopped, not the node
                    self._heard += stopped
                if now - self._checked > CHECK_SECONDS:
                    self._check_jobs(now)
                if now >= self._heard + silence:
                    why = f" ({self._last_error})" if self._last_error else ""
                    self._lose(f"it was silent for {silence:g} s{why}")
        except NodeRefusedError as error:
            self._lose(self._work.clean(str(error)), refused=True)
        except FrameError as error:
            self._lose(f"it sent an invalid frame: {error}", refused=True)
        except Exception as error:
            self._lose(self._work.clean(f"{type(error).__name__}: {error}")[:MOST_SHOWN], refused=True)
        finally:
            for task in (*under_way, *(() if waiting is None else (waiting,))):
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    async def _exchange(self, hold: float, *, alone: bool) -> None:
        stream = self._stream
        again, self._again = self._again, False
        messages = stream.take()
        sent, started = stream.sent, self._loop.time()
        frame = Frame(self._work.driver, self._epoch, "", stream.received, stream.sent, again=again, messages=messages)
        try:
            # Without a limit, an engine that silently loses frames would make the node seem silent.
            async with asyncio.timeout(_limit(self._work.settings.silence_seconds)):
                data = await self._channel.exchange(
                    self.name, frame.encoded(), 0.0 if stream.pending or again else hold
                )
        except (NodeRefusedError, FrameError):
            raise
        except NodeEndedError as error:
            self._lose(self._work.clean(error.message))
            return
        except Exception as error:
            self._last_error = self._work.clean(f"{type(error).__name__}: {error}")[:MOST_SHOWN]
            stream.rewind()
            self._again = True
            now = self._loop.time()
            pause = min(RETRY_SECONDS[1], max(RETRY_SECONDS[0], (now - self._heard) / 4))
            await asyncio.sleep(started + pause - now)
            return
        reply = decode_frame(data)
        if self._accept(reply, alone=alone):
            self._idle = 0
        elif len(self._under_way) == 1 and self._loop.time() - started < hold / 2:
            self._idle += 1
            await asyncio.sleep(min(RETRY_SECONDS[1], RETRY_SECONDS[0] * self._idle))
        if alone and reply.ack < sent and len(self._under_way) == 1:
            stream.rewind()  # all earlier exchanges have ended, so these messages are lost

    def _accept(self, frame: Frame, *, alone: bool) -> bool:
        """Take the messages of a frame. Returns whether it has brought any, or has received any."""
        if self._lost.done():
            return True
        if frame.driver != self._work.driver or frame.epoch != self._epoch:
            raise FrameError("it answers another driver")
        if self._process is None:
            self._process = frame.node
        if frame.stale or frame.node != self._process:
            self._lose("its process was replaced" if frame.node != self._process else "it had given up this run")
            return True
        self._heard = self._loop.time()
        self._last_error = ""
        backlog = self._stream.backlog
        self._stream.acknowledged(frame.ack)
        self._progress.set()
        messages = self._stream.accept(frame.messages, frame.sent)
        for message in messages:
            handler = _HANDLERS.get(message.kind)
            if handler is not None:
                handler(self, message)
            elif message.kind in ("hello", "missing", "built", "compared", "refused"):
                if self._answers.qsize() >= MOST_ANSWERS:
                    raise FrameError("it answers what it was not asked")
                self._answers.put_nowait(message)
            else:
                raise FrameError(f"unknown message '{message.kind[:40]}'")
        if alone and self._stream.gap:
            self._again = True
        return bool(messages) or self._stream.backlog < backlog

    def _check_jobs(self, now: float) -> None:
        """Give up a node that answers and does not report how its jobs have ended."""
        self._checked = now
        if any(running.is_late(now) for running in self._jobs.values()):
            self._lose("it did not report the end of a job in time")

    # -- the end

    @property
    def lost(self) -> str | None:
        """Why the connection has ended; None while it has not."""
        return self._lost.result() if self._lost.done() else None

    async def until_lost(self) -> str:
        return await asyncio.shield(self._lost)

    def _lose(self, reason: str, *, refused: bool = False) -> None:
        """The node is gone, silent or not to be trusted. Its jobs fail with PlaceLostError."""
        if self._lost.done():
            return
        self.refused = refused
        self._lost.set_result(reason)
        self._progress.set()
        jobs, self._jobs = list(self._jobs.values()), {}
        self.lost_jobs = sum(not running.abandoned for running in jobs)
        for running in jobs:
            running.fail(PlaceLostError(self.name, reason))

    async def leave(self, reason: str) -> None:
        """The node is gone."""
        self._lose(reason)
        await self._stopped()

    async def say_goodbye(self, seconds: float) -> None:
        """Let the node end all jobs, and wait for that, but not for long."""
        if not self._lost.done():
            self._send(Message("bye"))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._sent(0)
        await self.leave("the run has ended")

    async def _stopped(self) -> None:
        self._pump.cancel()
        await asyncio.wait({self._pump})


def _limit(silence: float) -> float:
    """How long an exchange may take: so that two can be lost before a node seems silent, but not less than 5 s."""
    return max(silence / 3, min(5.0, 0.8 * silence))


def _failure(content: bytes) -> tuple[str, str | None]:
    """Why a job failed, and what to do."""
    try:
        text, next_step = json.loads(content) if len(content) <= LONGEST_FAILURE else (None, None)
    except (ValueError, TypeError, RecursionError):
        text = next_step = None
    if not isinstance(text, str) or not isinstance(next_step, str | None):
        raise FrameError("a failure must have a short text")
    return text, next_step


def _pieces(tree: Tree, sha256: str) -> list[bytes]:
    from agentv.nodes.trees import read_pieces  # noqa: PLC0415 - not needed with shared files

    return list(read_pieces(tree, sha256))


_HANDLERS: Mapping[str, Callable[[Connection, Message], None]] = {
    "call": Connection._on_call,  # noqa: SLF001
    "api": Connection._on_call,  # noqa: SLF001
    "info": Connection._on_call,  # noqa: SLF001
    "refuse": Connection._on_call,  # noqa: SLF001
    "drop": Connection._on_drop,  # noqa: SLF001
    "overuse": Connection._on_overuse,  # noqa: SLF001
    "exit": Connection._on_exit,  # noqa: SLF001
    "cold": Connection._on_cold,  # noqa: SLF001
    "done": Connection._on_done,  # noqa: SLF001
    "failed": Connection._on_failed,  # noqa: SLF001
    "killed": Connection._on_killed,  # noqa: SLF001
}
