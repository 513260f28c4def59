"""Frames between a driver and a node: a small JSON header with numbered messages, then their binary parts.

    4 bytes       length of the header
    header        {"v", "driver", "epoch", "node", "ack", "sent", "again", "messages": [[number, kind, data, length]]}
    binary parts  one after the other

Both sides treat frames as hostile input: nothing in them is code, and every size is limited.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentv.errors import AgentVError
from agentv.text import kind_of

PROTOCOL = 1
MOST_BYTES = 64 * 1024 * 1024
"""Largest frame. One message contains at most the output of a process and its output files."""
MOST_HEADER = 512 * 1024
MOST_MESSAGES = 512
MOST_OF_ONE = MOST_HEADER // 2
"""Largest part of the header for one message."""
LARGEST_NUMBER = 2**53
_LENGTH = struct.Struct(">I")
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class FrameError(AgentVError):
    """Bytes are not a valid frame."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message: its kind, a small JSON object, and bytes."""

    kind: str
    data: Mapping[str, Any] = field(default_factory=dict)
    blob: bytes = b""
    _head: str | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def head(self) -> str:
        """Its part of the header, after its number."""
        head = self._head
        if head is None:
            head = _encode([self.kind, self.data, len(self.blob)])[1:]
            object.__setattr__(self, "_head", head)
        return head

    @property
    def fits(self) -> bool:
        """Whether it can be sent."""
        return len(self.head) <= MOST_OF_ONE and len(self.blob) <= MOST_BYTES - MOST_HEADER - _LENGTH.size


Numbered = tuple[int, Message]


@dataclass(frozen=True, slots=True)
class Frame:
    """Messages of one side, and what it has received from the other."""

    driver: str
    """The id of the run that a node works for."""
    epoch: int
    """Counts the times that the driver has connected to the node. A node forgets everything of earlier ones."""
    node: str = ""
    """The id of the node's process, in frames from nodes."""
    ack: int = 0
    """All messages up to this number were received."""
    sent: int = 0
    """The number of the last message that was sent so far."""
    again: bool = False
    """Whether the other side must send everything again that has not been acknowledged."""
    stale: bool = False
    """From a node: this epoch has ended here."""
    messages: Sequence[Numbered] = ()

    def encoded(self) -> bytes:
        messages = ",".join(f"[{number},{each.head}" for number, each in self.messages)
        head: dict[str, Any] = {"v": PROTOCOL, "driver": self.driver, "epoch": self.epoch, "node": self.node}
        head |= {"ack": self.ack, "sent": self.sent, "again": self.again, "stale": self.stale}
        header = f'{_encode(head)[:-1]},"messages":[{messages}]}}'.encode("ascii")
        return b"".join((_LENGTH.pack(len(header)), header, *(each.blob for _, each in self.messages)))


def decode_frame(data: object) -> Frame:
    """The frame in these bytes. Raises FrameError if they are not one."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise FrameError(f"a frame must be bytes, got {kind_of(data)}")
    view = memoryview(data)
    if not 4 <= len(view) <= MOST_BYTES:
        raise FrameError(f"a frame must have 4 to {MOST_BYTES:,} bytes, got {len(view):,}")
    (length,) = _LENGTH.unpack(view[:4])
    if length > min(MOST_HEADER, len(view) - 4):
        raise FrameError(f"the header of a frame must have at most {MOST_HEADER:,} bytes, got {length:,}")
    try:
        head = _decode(str(view[4 : 4 + length], "ascii"))
    except (ValueError, RecursionError) as error:
        raise FrameError("the header of a frame is not JSON") from error
    if not isinstance(head, dict) or head.get("v") != PROTOCOL:
        version = head.get("v") if isinstance(head, dict) else None
        raise FrameError(f"frames must have version {PROTOCOL}, got {kind_of(version)} {version!r:.20}")
    messages = _messages(head.get("messages"), view[4 + length :])
    return Frame(
        driver=_text(head, "driver"),
        epoch=_number(head, "epoch"),
        node=_text(head, "node"),
        ack=_number(head, "ack"),
        sent=_number(head, "sent"),
        again=head.get("again") is True,
        stale=head.get("stale") is True,
        messages=messages,
    )


def _messages(listed: object, blobs: memoryview) -> tuple[Numbered, ...]:
    if not isinstance(listed, list) or len(listed) > MOST_MESSAGES:
        raise FrameError(f"a frame must have a list of at most {MOST_MESSAGES} messages")
    messages: list[Numbered] = []
    at = 0
    for item in listed:
        match item:
            case [int(number), str(kind), dict(data), int(length)] if 0 < number <= LARGEST_NUMBER and length >= 0:
                if at + length > len(blobs):
                    raise FrameError("a frame ends before its last message")
                messages.append((number, Message(kind, data, bytes(blobs[at : at + length]))))
                at += length
            case _:
                raise FrameError("a message must be [number, kind, data, length]")
    if at != len(blobs):
        raise FrameError(f"a frame has {len(blobs) - at:,} surplus bytes")
    return tuple(messages)


def _text(head: dict[str, Any], name: str) -> str:
    value = head.get(name)
    if not isinstance(value, str) or len(value) > 200:
        raise FrameError(f"`{name}` of a frame must be a short string")
    return value


def _number(head: dict[str, Any], name: str) -> int:
    value = head.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST_NUMBER:
        raise FrameError(f"`{name}` of a frame must be a whole number from 0")
    return value


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_decode = json.JSONDecoder(parse_constant=_refuse).decode
