"""Frames and streams, also of peers that send anything."""

from __future__ import annotations

import asyncio
import json
import math
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.errors import PlaceLostError
from agentv.nodes.connection import _HANDLERS, MOST_SURPLUS
from agentv.nodes.frames import LARGEST_NUMBER, MOST_BYTES, MOST_HEADER, Frame, FrameError, Message, decode_frame
from agentv.nodes.hello import PACKAGE
from agentv.nodes.remote import RemotePlace
from agentv.nodes.stream import FULL, MOST_EARLY_BYTES, Stream
from agentv.processes.job import Job
from tests.judge.support import Judge, make_session
from tests.nodes import virtual_time
from tests.nodes.memory import MemoryChannel, StubNode
from tests.nodes.test_faults import SETTINGS

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ("job", "call", "batch", "count", "first", "reason", "kind", "returncode", "signal", "lengths", "duration_ms")
messages = st.lists(
    st.tuples(
        st.sampled_from([*_HANDLERS, "hello", "missing", "refused", "run", "other"]),
        st.dictionaries(st.sampled_from(FIELDS), json_values | st.integers(0, 3), max_size=len(FIELDS)),
        st.sampled_from([b"", b"{}", b'["why", null]', b'{"question": "q"}', b"[" * 9000, b"\xff", b"null"]),
    ),
    max_size=6,
)


def packed(header: object, blobs: bytes = b"") -> bytes:
    content = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack(">I", len(content)) + content + blobs


def head(**changes: Any) -> dict[str, Any]:
    return {"v": 1, "driver": "d", "epoch": 1, "node": "n", "ack": 0, "sent": 0, "messages": [], **changes}


@given(st.binary(max_size=60) | json_values.map(packed) | st.dictionaries(st.sampled_from(sorted(head())), json_values)
       .map(lambda changes: packed(head(**changes))))  # fmt: skip
def test_anything_is_a_frame_or_a_frame_error(data: bytes) -> None:
    try:
        frame = decode_frame(data)
    except FrameError:
        return
    assert all(0 <= number <= LARGEST_NUMBER for number in (frame.epoch, frame.ack, frame.sent))


@pytest.mark.parametrize(
    "data",
    [
        "text",
        b"\0\0",
        struct.pack(">I", 2**32 - 1),
        packed(b"[" * 100_000),
        packed(b'{"v": 1, "epoch": ' + b"9" * 5000 + b"}"),
        packed(json.dumps(head()).replace('"ack": 0', '"ack": NaN').encode()),
        packed(head(ack=2**60)),
        packed(head(ack=True)),
        packed(head(messages=[[1, "run", {}, 5]]), b"four"),
        packed(head(messages=[[1, "run", {}, 3]]), b"four"),
        packed(head(messages=[[0, "run", {}, 0]])),
        packed(head(messages=[[1, "run", {}, -1]])),
        packed(head(messages=[[1, "x", {}, 0]] * 513)),
    ],
    ids=range(13),
)
def test_invalid_frame_is_refused_in_little_time(data: Any) -> None:
    started = time.process_time()
    with pytest.raises(FrameError):
        decode_frame(data)
    assert time.process_time() - started < 0.5


texts = st.text(st.characters(), max_size=3)


@given(st.lists(st.tuples(texts, st.dictionaries(texts, texts, max_size=2), st.binary(max_size=9)), max_size=4))
def test_frame_is_decoded_as_it_was_encoded(listed: list[tuple[str, dict[str, str], bytes]]) -> None:
    numbered = tuple((number, Message(*each)) for number, each in enumerate(listed, 1))
    frame = Frame("driver", 3, "node", 1, 2, again=True, stale=True, messages=numbered)
    assert decode_frame(frame.encoded()) == frame


# -- streams


@given(st.lists(st.sampled_from(["send", "take", "deliver", "late", "lose", "repeat", "ack"]), max_size=150))
def test_stream_delivers_every_message_once_and_in_order(steps: list[str]) -> None:
    ours, theirs = Stream(), Stream()
    sent = 0
    arrived: list[int] = []
    flying: list[list[tuple[int, Message]]] = []

    def deliver(taken: Sequence[tuple[int, Message]]) -> None:
        arrived.extend(int(message.kind) for message in theirs.accept(taken, ours.sent))

    for step in steps:
        if step == "send":
            sent += 1
            ours.send(Message(str(sent)))
        elif step == "take":
            flying.append(ours.take())
        elif step == "ack":
            ours.acknowledged(theirs.received)
        elif flying and step == "lose":
            flying.pop(0)
            ours.rewind()
        elif flying and step == "repeat":
            deliver(flying[0])
        elif flying:
            deliver(flying.pop(0 if step == "deliver" else -1))
        assert arrived == list(range(1, len(arrived) + 1))
    ours.rewind()
    while ours.pending:
        deliver(ours.take())
    assert arrived == list(range(1, sent + 1))
    ours.acknowledged(theirs.received)
    assert ours.backlog == 0
    assert not theirs.gap


def test_frame_has_no_more_than_it_may_contain() -> None:
    stream = Stream()
    long = {f"env {number}": number for number in range(2_000)}
    for _ in range(100):
        stream.send(Message("run", long, b"x"))
    for _ in range(10):
        stream.send(Message("blob", {}, b"x" * (FULL // 2)))
    count = 0
    while stream.pending:
        data = Frame("d", 1, messages=stream.take()).encoded()
        count += len(decode_frame(data).messages)
        assert len(data) <= FULL + MOST_HEADER
    assert count == 110


def test_message_that_is_too_large_for_a_frame_does_not_fit() -> None:
    assert Message("run", {"a": "x" * 1000}, b"x").fits
    assert not Message("run", {"a": "x" * MOST_HEADER}).fits
    assert not Message("run", {}, bytes(MOST_BYTES)).fits


def test_stream_keeps_few_bytes_while_an_earlier_message_is_missing() -> None:
    stream = Stream()
    piece = bytes(MOST_EARLY_BYTES // 4)
    for number in range(2, 20):
        assert stream.accept([(number, Message("blob", {}, piece))], 0) == []
    assert len(stream._early) <= 4
    assert stream.gap
    assert len(stream.accept([(1, Message("first"))], 0)) == 5


def test_acknowledging_what_was_not_sent_is_an_error() -> None:
    stream = Stream()
    stream.send(Message("run"))
    with pytest.raises(FrameError, match="acknowledges message 1"):
        stream.acknowledged(1)
    assert stream.pending


# -- hostile nodes


class Hostile(StubNode):
    """A node that behaves until it has a job; then it sends these messages, in frames with these fields."""

    messages: Sequence[tuple[str, dict[str, Any], bytes]] = ()
    fields: Mapping[str, Any] = MappingProxyType({})

    async def handle(self, data: bytes, hold: float) -> bytes:
        for work in self._drivers.values() if self.started else ():
            for kind, values, blob in self.messages:
                message = Message(kind, values, blob)
                object.__setattr__(message, "_head", json.dumps([kind, values, len(blob)])[1:])  # also NaN
                work.send(message)
        reply = decode_frame(await super().handle(data, 0.0))
        return replace(reply, **self.fields).encoded() if self.started else reply.encoded()


async def hostile_run(
    messages: Sequence[tuple[str, dict[str, Any], bytes]] = (), seconds: float = 1000.0, **fields: Any
) -> tuple[BaseException | None, RemotePlace, MemoryChannel]:
    """How a job on a hostile node ends."""
    make = type("Made", (Hostile,), {"messages": messages, "fields": fields})
    judge = Judge()
    session = make_session(judge, max_calls=3)
    channel = MemoryChannel(1, make=make)
    async with RemotePlace(channel, SETTINGS) as place:
        error: BaseException | None = None
        try:
            async with asyncio.timeout(4000), place.slot() as slot:
                await slot.run(Job(["job", "1", str(seconds)], PACKAGE, timeout=600.0), judge=session)
        except Exception as caught:
            error = caught
        assert not isinstance(error, TimeoutError), "the job never ended"
        assert session.ledger.call_count <= 3
        assert judge.calls == session.ledger.call_count
        session.close()
        return error, place, channel


@given(messages, st.sampled_from([{}, {"ack": 2**53}, {"sent": 2**53}, {"node": ""}, {"ack": 0}]))
def test_hostile_node_ends_its_job_and_nothing_else(
    messages: list[tuple[str, dict[str, Any], bytes]], fields: dict[str, Any]
) -> None:
    error, _, _ = virtual_time.run(hostile_run(messages, **fields))
    assert error is None or type(error).__name__ in ("PlaceLostError", "ProcessStartError", "EvaluatorError"), error


@pytest.mark.parametrize(
    "message",
    [
        ("done", {"job": 1, "lengths": {}, "returncode": 0, "duration_ms": math.inf}, b""),
        ("done", {"job": 1, "lengths": {"stdout": 2**60}}, b""),
        ("failed", {"job": 1, "kind": "start"}, b"[" * 200_000),
        ("failed", {"job": 1, "kind": "start"}, b'"' + b"x" * 2_000_000 + b'"'),
        ("exit", {"job": []}, b""),
        ("unknown", {}, b""),
    ],
    ids=range(6),
)
def test_node_with_invalid_messages_is_not_used_again(message: tuple[str, dict[str, Any], bytes]) -> None:
    error, place, _ = virtual_time.run(hostile_run([message]))
    assert isinstance(error, PlaceLostError)
    assert "invalid frame" in error.reason
    assert place.members["node-0"].refused is not None


def test_node_that_floods_with_unknown_jobs_is_not_used_again() -> None:
    error, _, channel = virtual_time.run(hostile_run([("exit", {"job": 99}, b"")] * 100))
    assert isinstance(error, PlaceLostError)
    assert f"more than {MOST_SURPLUS:,} messages" in error.reason
    assert channel.exchanges < 100


def test_job_ends_although_its_node_never_reports_that() -> None:
    error, _, _ = virtual_time.run(hostile_run(seconds=1e6))
    assert isinstance(error, PlaceLostError)
    assert error.reason == "it did not report the end of a job in time"


@pytest.mark.parametrize("fields", [{}, {"sent": 2**53}], ids=["empty", "gap"])
def test_node_that_answers_immediately_without_messages_is_not_asked_all_the_time(fields: dict[str, Any]) -> None:
    _, _, channel = virtual_time.run(hostile_run(seconds=1e6, **fields))
    assert channel.exchanges < 3_000  # in 1260 s: about one per second
