"""Whatever a network does to frames and nodes: each job has one outcome, and judge calls are counted exactly."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentv.errors import EvaluatorError, NodesLostError
from agentv.judge.session import JudgeSession
from agentv.nodes.hello import PACKAGE
from agentv.nodes.remote import RemotePlace
from agentv.scripts import Runtime, ScriptSpec, run_script
from agentv.targets.budget import Budget
from agentv.targets.nodes_section import NodesModel
from agentv.targets.provider import Provider, Reply, Request
from agentv.wire.payload import EMPTY
from tests.judge.support import make_session
from tests.nodes import virtual_time
from tests.nodes.memory import EVENTS, FAULTS, Event, Fault, MemoryChannel, StubNode

MAX_CALLS = 4
PAYLOAD = dict(EMPTY)
SETTINGS = NodesModel(silence_seconds=15, dead_man_seconds=30, reruns=30, slots=3)


@dataclass(frozen=True)
class Case:
    """One execution of a script."""

    calls: int = 0
    seconds: float = 0.0
    batch: bool = False
    cancelled_after: float | None = None


@dataclass
class Judge(Provider):
    """Takes some time for each call, and counts them."""

    calls: int = 0

    async def invoke(self, request: Request) -> Reply:
        self.calls += 1
        await asyncio.sleep(0.3)
        return Reply.of_text("yes")


@dataclass
class Run:
    """A run with some cases, and what must be true of it."""

    channel: MemoryChannel
    judge: Judge = field(default_factory=Judge)
    budget: Budget = field(default_factory=lambda: Budget(max_judge_calls=10_000))
    sessions: list[JudgeSession] = field(default_factory=list)
    outcomes: dict[int, list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    async def __call__(self, cases: Sequence[Case], events: Sequence[Event]) -> None:
        place = RemotePlace(self.channel, SETTINGS, on_note=self.notes.append)
        runtime = Runtime(nodes=place)
        async with place:
            self.channel.faulty = True
            self.channel.schedule(events)
            await asyncio.gather(*(self._case(number, case, runtime) for number, case in enumerate(cases)))
            self.channel.faulty = False
            await self._check_idle(place)
        self._check_calls()

    async def _case(self, number: int, case: Case, runtime: Runtime) -> None:
        sessions: list[JudgeSession] = []

        def lend() -> JudgeSession:
            assert all(session.closed for session in sessions), "a session of a lost attempt is still open"
            session = make_session(self.judge, max_calls=MAX_CALLS, budget=self.budget)
            sessions.append(session)
            return session

        words = (f"case-{number}", str(case.calls), str(case.seconds), *(["batch"] if case.batch else []))
        spec = ScriptSpec("script", words, Path(PACKAGE), timeout=60.0)
        task = asyncio.ensure_future(run_script(spec, PAYLOAD, runtime, lend=lend))
        task.add_done_callback(lambda _: self.outcomes.setdefault(number, []).append("ended"))
        if case.cancelled_after is not None:
            await asyncio.sleep(case.cancelled_after)
            task.cancel()
        await asyncio.wait({task})
        self.sessions += sessions
        if task.cancelled():
            assert case.cancelled_after is not None
        elif (error := task.exception()) is not None:
            over_the_limit = isinstance(error, EvaluatorError) and "exceeded its judge call limit" in str(error)
            assert isinstance(error, NodesLostError) or (over_the_limit and case.calls > MAX_CALLS), error
        else:
            score = task.result()
            assert score.score == 1.0
            assert case.calls <= MAX_CALLS
            assert score.judge_proxy is not None
            assert score.judge_proxy["call_count"] == case.calls
        assert all(session.closed or session.ledger.call_count == 0 for session in sessions)

    async def _check_idle(self, place: RemotePlace) -> None:
        """After some time without faults, all nodes are used, all slots are free, and nothing runs."""
        if place._failed is not None:
            return
        await asyncio.sleep(200)
        connections = [member.connection for member in place.members.values()]
        assert len(connections) == len(self.channel.nodes)
        for connection in connections:
            assert connection is not None, self.notes
            assert connection.free == connection.slots == SETTINGS.slots
            assert not connection.running
            assert connection._stream.backlog == 0
        for node in (*self.channel.nodes.values(), *self.channel.dead):
            assert isinstance(node, StubNode)
            assert node.started == node.ended

    def _check_calls(self) -> None:
        assert all(len(ended) == 1 for ended in self.outcomes.values())
        counted = sum(session.ledger.call_count for session in self.sessions)
        assert counted == self.judge.calls == self.budget.judge_calls
        assert all(session.ledger.call_count <= MAX_CALLS for session in self.sessions)


async def check(nodes: int, cases: Sequence[Case], faults: Sequence[Fault], events: Sequence[Event]) -> Run:
    run = Run(MemoryChannel(nodes, faults=faults))
    await run(cases, events)
    assert sorted(run.outcomes) == list(range(len(cases)))
    return run


cases = st.lists(
    st.builds(
        Case,
        st.integers(0, MAX_CALLS + 1),
        st.sampled_from([0.0, 0.5, 4.0]),
        st.booleans(),
        st.none() | st.sampled_from([0.0, 0.002, 0.3, 2.0]),
    ),
    min_size=1,
    max_size=12,
)
faults = st.lists(st.sampled_from(FAULTS), max_size=60)
events = st.lists(
    st.builds(Event, st.sampled_from([0.0, 0.1, 1.0, 3.0, 7.0]), st.sampled_from(EVENTS), st.integers(0, 2),
              st.sampled_from([1.0, 4.0, 40.0])),
    max_size=4,
)  # fmt: skip


@given(st.integers(1, 3), cases, faults, events)
def test_each_job_has_one_outcome_and_calls_are_exact_whatever_happens(
    nodes: int, cases: list[Case], faults: list[Fault], events: list[Event]
) -> None:
    virtual_time.run(check(nodes, cases, faults, events))


@pytest.mark.soak
@pytest.mark.timeout(900)
@settings(max_examples=3_000, derandomize=False)
@given(st.integers(1, 4), cases, faults, events)
def test_each_job_has_one_outcome_and_calls_are_exact_whatever_happens_for_long(
    nodes: int, cases: list[Case], faults: list[Fault], events: list[Event]
) -> None:
    virtual_time.run(check(nodes, cases, faults, events))


@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_runs_twice_when_frames_are_lost_repeated_or_late(fault: Fault) -> None:
    many = [Case(calls=2, seconds=0.5)] * 12
    run = virtual_time.run(check(1, many, [fault, *NONE] * 8, []))
    starts = sum((node.started for node in run.channel.nodes.values() if isinstance(node, StubNode)), start=_NONE)
    assert len(starts) == len(many)
    assert set(starts.values()) == {1}
    assert run.judge.calls == 2 * len(many)
    assert not any("lost" in note for note in run.notes)


@pytest.mark.parametrize("kind", ["kill", "replace"])
def test_jobs_of_a_killed_node_run_again(kind: str) -> None:
    many = [Case(calls=2, seconds=4.0)] * 6
    event = Event(2.0, "kill" if kind == "kill" else "replace", 0)
    run = virtual_time.run(check(2, many, [], [event]))
    (dead,) = run.channel.dead
    assert isinstance(dead, StubNode)
    assert len(dead.started) == 3
    assert len(run.sessions) == len(many) + 3
    assert run.judge.calls == 2 * len(run.sessions)


def test_short_cut_loses_nothing_and_a_long_one_moves_the_jobs() -> None:
    many = [Case(calls=2, seconds=4.0)] * 6
    short = virtual_time.run(check(2, many, [], [Event(1.0, "cut", 0, 3.0)]))
    assert len(short.sessions) == len(many)
    assert not any("lost" in note for note in short.notes)
    long = virtual_time.run(check(2, many, [], [Event(1.0, "cut", 0, 40.0)]))
    assert len(long.sessions) == len(many) + 3
    assert any("was silent for 15 s" in note for note in long.notes), long.notes
    assert any("is used again" in note for note in long.notes), long.notes


def test_frozen_node_is_fenced_when_it_continues() -> None:
    many = [Case(calls=4, seconds=0.0)] * 6
    run = virtual_time.run(check(2, many, [], [Event(0.5, "freeze", 0, 40.0)]))
    assert len(run.sessions) == len(many) + 3
    assert all(session.ledger.call_count <= MAX_CALLS for session in run.sessions)
    assert run.judge.calls < 4 * len(run.sessions), "calls of the frozen node were answered after it was lost"


_NONE: Counter[str] = Counter()
NONE: tuple[Fault, ...] = ("none",) * 4
