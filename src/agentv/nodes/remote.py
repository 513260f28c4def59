"""`RemotePlace`: runs jobs on the nodes of an engine. It knows which nodes there are, and gives out their slots."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shlex
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from agentv.errors import NodesLostError
from agentv.nodes.channel import Channel, Joined, Left, NodeRefusedError
from agentv.nodes.connection import Connection, NodeLost, Work
from agentv.nodes.frames import MOST_BYTES
from agentv.nodes.hello import Hello, python_minor
from agentv.places.place import PlaceLostError, Slot
from agentv.processes.job import PYTHON, Job, without_marks
from agentv.processes.run import OnBytes, ProcessOutcome, ProcessStartError
from agentv.targets.nodes_section import NodesModel
from agentv.text import plural

if TYPE_CHECKING:
    from agentv.judge.session import JudgeSession
    from agentv.nodes.trees import Tree

GOODBYE_SECONDS = 2.0
RECONNECT_SECONDS = 1.0
NOTHING_WAS_RUN = 2
"""The exit code of a run that has no node from the beginning."""
SOON_SECONDS = 1.0
"""How long a run waits for the other nodes when one is ready."""
MB = 10**6
LARGEST_JOB = MOST_BYTES - 4 * MB
"""Largest input of a job, in bytes."""
OnNote = Callable[[str], None]


@dataclass(slots=True)
class Member:
    """A node of the engine, used or not."""

    name: str
    connection: Connection | None = None
    hello: Hello | None = None
    """What it tells about itself, while it is used."""
    last_hello: Hello | None = None
    """The same, also if it was refused."""
    refused: str | None = None
    """Why it is not used."""
    epochs: int = 0
    task: asyncio.Task[None] | None = None


class RemotePlace:
    """The nodes of a run, while it is entered. Entering waits until a node is ready."""

    def __init__(
        self,
        channel: Channel,
        settings: NodesModel,
        *,
        trees: Sequence[Tree] = (),
        secret_names: Iterable[str] = (),
        clean: Callable[[str], str] = str,
        holds_secret: Callable[[str], bool] | None = None,
        on_note: OnNote | None = None,
        where: str = "",
        look: bool = False,
    ) -> None:
        """`clean` masks secrets in text of nodes, `holds_secret` finds them in jobs, and `where` is what the user calls
        the engine, for messages. With `look`, entering waits for all nodes, and no node is an error."""
        self.attempts = 1 + settings.reruns
        self.channel = channel
        self.members: dict[str, Member] = {}
        self._settings = settings
        self._where, self._look = where, look
        self._holds_secret = holds_secret
        self._on_note = on_note or _ignore
        self._work = Work(secrets.token_hex(16), settings, trees, tuple(secret_names), clean)
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._open: deque[Connection] = deque()
        """Nodes that may have free slots, the one that got no job for the longest time first."""
        self._watching: asyncio.Task[None] | None = None
        self._looked = asyncio.Event()
        """Set when something about the nodes has changed."""
        self._failed: NodesLostError | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._pythons: set[str] = set()
        self._gaps: set[str] = set()
        self._seen: dict[str, dict[str, Any]] = {}
        self._closed = False

    # -- the nodes

    async def __aenter__(self) -> Self:
        try:
            await self._enter()
        except NodesLostError as error:
            error.exit_code = NOTHING_WAS_RUN
            raise
        return self

    async def _enter(self) -> None:
        await self.channel.__aenter__()
        try:
            self._watching = asyncio.get_running_loop().create_task(self._watch())
            await self._first_node()
        except BaseException:
            await self.__aexit__(None, None, None)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        tasks = [member.task for member in self.members.values() if member.task is not None]
        if self._watching is not None:
            tasks.append(self._watching)
        try:
            connections = [member.connection for member in self.members.values() if member.connection is not None]
            await asyncio.gather(*(connection.say_goodbye(GOODBYE_SECONDS) for connection in connections))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.channel.__aexit__(kind, error, trace)

    async def _first_node(self) -> None:
        """Wait until a node is ready. Raises NodesLostError if none of them can be used, with the reasons."""
        until: float | None = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.silence_seconds + 2 * RECONNECT_SECONDS) as deadline:
                while True:
                    self._looked.clear()
                    if self._failed is not None:
                        raise self._failed
                    used = [member for member in self.members.values() if member.hello is not None]
                    refused = sum(member.refused is not None for member in self.members.values())
                    if self.members and len(used) + refused == len(self.members):
                        break
                    if used and not self._look and until is None:  # those that are there will be ready soon, too
                        until = asyncio.get_running_loop().time() + SOON_SECONDS
                        deadline.reschedule(until)
                    await self._looked.wait()
        if not self._look and not any(member.hello is not None for member in self.members.values()):
            raise self._no_node()

    def _no_node(self) -> NodesLostError:
        where = f" of {self._where}" if self._where else ""
        if not self.members:
            return NodesLostError(
                f"no node{where} has joined",
                next_step="Start nodes, for example with `dask worker`, and see them with `agentv nodes --on ...`.",
            )
        reasons = [f"  {each.name}: {each.refused or _silent(each)}" for each in self.members.values()]
        return NodesLostError(f"no node{where} can be used:\n" + "\n".join(reasons), next_step="Nothing was called.")

    async def _watch(self) -> None:
        try:
            async for change in self.channel.changes():
                if isinstance(change, Joined):
                    member = self.members.get(change.node)
                    if member is None or member.task is None or member.task.done():
                        member = self.members[change.node] = Member(change.node)
                        member.task = asyncio.get_running_loop().create_task(self._serve(member))
                elif isinstance(change, Left) and (gone := self.members.pop(change.node, None)) is not None:
                    await self._remove(gone, change.reason)
                self._looked.set()
            self._fail("the engine has ended")
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self._fail(self._work.clean(f"{type(error).__name__}: {error}"))

    async def _remove(self, member: Member, reason: str) -> None:
        if member.task is not None:
            member.task.cancel()
        if member.connection is not None:
            await member.connection.leave(reason)
            lost = member.connection.lost_jobs
            self._on_note(f"the node {member.name} was lost: {reason}{_elsewhere(lost)}")
        self._check_nodes()

    async def _serve(self, member: Member) -> None:
        """Connect to a node, and again after it was lost, until it is refused."""
        while True:
            member.epochs += 1
            connection = Connection(self.channel, member.name, member.epochs, self._work, self._freed)
            try:
                hello = await connection.handshake()
                member.last_hello = hello
                self._use(member, connection, hello)
                reason = await connection.until_lost()
            except (NodeLost, NodeRefusedError) as error:
                reason = str(error)
                member.last_hello = connection.hello or member.last_hello
                if isinstance(error, NodeRefusedError) or connection.refused:
                    member.refused = reason
            except BaseException:
                await connection.leave("the run has ended")
                raise
            if connection.refused:
                member.refused = reason
            was_used, member.connection, member.hello = member.connection is not None, None, None
            await connection.leave(reason)
            self._looked.set()
            if (was_used or member.refused is not None) and not self._closed:
                verb = "is not used" if member.refused is not None else "was lost"
                self._on_note(f"the node {member.name} {verb}: {reason}{_elsewhere(connection.lost_jobs)}")
            self._check_nodes()
            if member.refused is not None:
                return
            await asyncio.sleep(RECONNECT_SECONDS)

    def _use(self, member: Member, connection: Connection, hello: Hello) -> None:
        if member.name in self._seen:
            self._on_note(f"the node {member.name} is used again")
        if (minor := python_minor(hello.python)) not in self._pythons and self._pythons:
            self._on_note(f"the node {member.name} has Python {minor}, other nodes have {', '.join(self._pythons)}")
        self._pythons.add(minor)
        self._note_gap(hello)
        self._seen[member.name] = {"agentv": hello.version, "python": hello.python, "cpus": hello.cpus}
        member.connection, member.hello = connection, hello
        self._check_nodes()
        self._looked.set()
        for _ in range(connection.slots):
            self._freed(connection)

    def _note_gap(self, hello: Hello) -> None:
        """Note what a node cannot protect from scripts, once for each kind of node."""
        gap = hello.gap
        if gap is not None and gap not in self._gaps and not self._look:
            self._gaps.add(gap)
            self._on_note(f"note: {gap}")

    def _check_nodes(self) -> None:
        """Give up some time after the last node was lost."""
        loop = asyncio.get_running_loop()
        if any(member.hello is not None for member in self.members.values()):
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        elif self._timer is None and not self._closed:
            seconds = 2 * self._settings.silence_seconds
            self._timer = loop.call_later(seconds, self._fail, f"there has been no node for {seconds:g} s")

    def _fail(self, reason: str) -> None:
        if self._failed is None and not self._closed:
            self._failed = NodesLostError(
                f"the run has lost its nodes: {reason}",
                next_step="All finished rows are recorded. Continue with --resume, and with --on for other nodes.",
            )
            self._looked.set()
            while self._waiters:
                self._wake_one()

    def to_dict(self) -> dict[str, Any]:
        """The engine and the nodes that were used, for `run.json`."""
        return {"on": self._where, "seen": [{"node": name, **hello} for name, hello in self._seen.items()]}

    @property
    def nodes(self) -> list[Hello]:
        """The nodes in use."""
        return [member.hello for member in self.members.values() if member.hello is not None]

    @property
    def slots(self) -> int:
        """How many jobs can run at the same time, with the nodes that are in use."""
        return sum(member.connection.slots for member in self.members.values() if member.connection is not None)

    # -- slots

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[Slot]:
        connection = await self._free_connection()
        connection.held += 1
        if connection.free > 0:
            self._open.append(connection)
        else:
            connection.is_open = False
        try:
            yield RemoteSlot(connection, self._holds_secret)
        finally:
            connection.held -= 1
            self._freed(connection)

    async def _free_connection(self) -> Connection:
        """The next node with a free slot, in turn. Waits until there is one."""
        turn: asyncio.Future[None] | None = None
        try:
            while True:
                self._raise_if_failed()
                if turn is not None or not self._waiters:
                    while self._open:
                        connection = self._open.popleft()
                        if connection.free > 0:
                            return connection
                        connection.is_open = False
                turn = asyncio.get_running_loop().create_future()
                self._waiters.append(turn)
                await turn
        except BaseException:
            if turn is not None and turn.done() and not turn.cancelled():
                self._wake_one()  # another caller takes the turn
            raise

    def _raise_if_failed(self) -> None:
        if self._failed is not None:
            raise self._failed

    def _freed(self, connection: Connection) -> None:
        """A node may have a free slot."""
        if connection.free > 0:
            if not connection.is_open:
                connection.is_open = True
                self._open.append(connection)
            self._wake_one()

    def _wake_one(self) -> None:
        """Let the caller continue that has waited the longest."""
        while self._waiters:
            turn = self._waiters.popleft()
            if not turn.done():
                turn.set_result(None)
                return


class RemoteSlot:
    """Room for one job on a node."""

    def __init__(self, connection: Connection, holds_secret: Callable[[str], bool] | None) -> None:
        self._connection, self._holds_secret = connection, holds_secret

    @property
    def node(self) -> str:
        return self._connection.name

    def path(self, path: str) -> str:
        """A path or the interpreter of the driver, as it is on the node."""
        if path == sys.executable:
            return PYTHON
        own = shlex.quote(sys.executable) + " "
        if path.startswith(own):  # a command for a shell
            return f"{PYTHON} {path[len(own) :]}"
        return self._connection.path(path)

    async def run(
        self,
        job: Job,
        *,
        judge: JudgeSession | None = None,
        on_stderr: OnBytes | None = None,
        on_cold: Callable[[str], None] | None = None,
        repeatable: Callable[[], bool] = lambda: False,
    ) -> ProcessOutcome:
        del repeatable  # the node decides
        self._check(job)
        if job.on_start is not None:
            job.on_start(without_marks(job))
        outcome = await self._connection.run(job, judge=judge, on_cold=on_cold)
        if on_stderr is not None:
            on_stderr(outcome.stderr)
        return outcome

    def _check(self, job: Job) -> None:
        """ProcessStartError for a job that cannot or must not run on a node."""
        if not self._connection.has(job.cwd):
            raise ProcessStartError(
                f"its working directory {job.cwd} is not among the files that are sent to nodes",
                next_step="Move it into the repository of the suite, or set `on: driver`.",
            )
        size = len(job.stdin or b"") + sum(map(len, job.inputs.values())) + sum(map(len, job.argv))
        if size > LARGEST_JOB:
            raise ProcessStartError(
                f"its input has {size / MB:,.0f} MB, and nodes get at most {LARGEST_JOB / MB:,.0f} MB",
                next_step="Pass large files by their path, or set `on: driver`.",
            )
        finds = self._holds_secret
        if finds is not None and not job.may_hold_secrets and any(map(finds, (*job.argv, *job.env.values()))):
            raise ProcessStartError(
                "its command or its variables contain a key, which is not sent to nodes",
                next_step="Remove the key, or set `on: driver`.",
            )


def _silent(member: Member) -> str:
    return "it does not answer" if member.epochs < 2 else "it was lost"


def _elsewhere(count: int) -> str:
    return f"; its {plural(count, 'job')} run elsewhere" if count else ""


def _ignore(_: str) -> None:
    pass


__all__ = ["PlaceLostError", "RemotePlace", "RemoteSlot"]
