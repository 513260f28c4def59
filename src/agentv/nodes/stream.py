"""Numbered messages in both directions, which are repeated until the other side has acknowledged them.

An engine may fail to deliver a frame, deliver it twice, or lose the reply to it. So a failed call says nothing about
the node: only silence does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from agentv.nodes.frames import MOST_BYTES, MOST_HEADER, FrameError, Message, Numbered

MOST_EARLY = 4096
"""Messages that may be kept because an earlier one is missing."""
MOST_EARLY_BYTES = 2 * MOST_BYTES
FULL = MOST_BYTES // 8
FULL_HEADER = MOST_HEADER // 4
"""A frame with a header or parts of this size gets no further messages."""
MOST_AT_ONCE = 256


class Stream:
    """One side of a connection: what it has sent and received."""

    def __init__(self) -> None:
        self._unacked: deque[Numbered] = deque()
        self._last = 0
        self._next = 1
        """The first message that `take` returns."""
        self.sent = 0
        self.received = 0
        """All messages up to this number have been returned by `accept`."""
        self.gap = False
        """Whether the other side must send again what was not received."""
        self._early: dict[int, Message] = {}
        self._early_bytes = 0

    def send(self, message: Message) -> None:
        """Queue a message. `take` returns it until it is acknowledged."""
        self._last += 1
        self._unacked.append((self._last, message))

    @property
    def pending(self) -> bool:
        """Whether there are messages that `take` has not returned."""
        return self._next <= self._last

    @property
    def backlog(self) -> int:
        """How many messages are not acknowledged."""
        return len(self._unacked)

    def take(self) -> list[Numbered]:
        """The next messages to send: as many as fit into a frame."""
        taken: list[Numbered] = []
        size = header = 0
        first = self._unacked[0][0] if self._unacked else self._next
        for number, message in _from(self._unacked, self._next - first):
            size, header = size + len(message.blob), header + len(message.head)
            if taken and (size > FULL or header > FULL_HEADER or len(taken) >= MOST_AT_ONCE):
                break
            taken.append((number, message))
        if taken:
            self._next = taken[-1][0] + 1
            self.sent = max(self.sent, taken[-1][0])
        return taken

    def rewind(self) -> None:
        """Send everything again that is not acknowledged."""
        self._next = self._unacked[0][0] if self._unacked else self._last + 1

    def acknowledged(self, number: int) -> None:
        """The other side has received all messages up to this number. Raises FrameError if they were not sent."""
        if number > self.sent:
            raise FrameError(f"it acknowledges message {number:,}, and {self.sent:,} were sent")
        while self._unacked and self._unacked[0][0] <= number:
            self._unacked.popleft()
        self._next = max(self._next, self._unacked[0][0] if self._unacked else self._last + 1)

    def accept(self, messages: Iterable[Numbered], sent: int) -> list[Message]:
        """The messages that are next in order, each of them once. `sent` is the last number that was sent."""
        ready: list[Message] = []
        for number, message in messages:
            if number == self.received + 1:
                self.received = number
                ready.append(message)
                while self._early and (message_ := self._early.pop(self.received + 1, None)) is not None:
                    self.received += 1
                    self._early_bytes -= len(message_.blob)
                    ready.append(message_)
            elif self._may_keep(number, message):
                self._early[number] = message
                self._early_bytes += len(message.blob)
        self.gap = bool(self._early) or self.received < sent
        return ready

    def _may_keep(self, number: int, message: Message) -> bool:
        """Whether a message is new and may wait for earlier ones. One that may not is sent again."""
        near = self.received < number <= self.received + MOST_EARLY and number not in self._early
        return near and self._early_bytes + len(message.blob) <= MOST_EARLY_BYTES


def _from(items: deque[Numbered], start: int) -> Iterable[Numbered]:
    for index in range(max(0, start), len(items)):
        yield items[index]
