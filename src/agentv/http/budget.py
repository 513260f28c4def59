"""What the clients of one server may use together: connections, memory for request bodies, refused requests, CPU time.

The server checks the budget when it accepts a connection and when it reads. Bodies wait for memory instead of being
refused, each until there is room for all of it, so that a body whose reading has started can always be completed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

SMALL_BODY = 64 * 1024
"""Bodies up to this size need no reservation: the number of connections limits their memory."""


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """The limits of one server; None for no limit."""

    connections: int = 1024
    """Connections with valid credentials."""
    strangers: int = 1024
    """Connections that have not sent a request with valid credentials. Over the limit, the oldest one is closed."""
    body_bytes: int | None = None
    """Bytes of large bodies that are being received, or whose requests are being served."""
    refused: int | None = None
    """Requests with valid credentials that were answered with a 4xx status."""
    cpu_seconds: float | None = None
    """Time for reading and checking requests, without the time to serve them."""


class ClientBudget:
    """The use of one server. `on_exceeded` is called once, with the reason, when its clients exceed a limit."""

    def __init__(self, limits: ClientLimits, on_exceeded: Callable[[str], None] | None = None) -> None:
        self.limits = limits
        self.exceeded: str | None = None
        """What the clients did to exceed the first limit that they exceeded."""
        self.body_bytes = 0
        self.refused = 0
        self.cpu_seconds = 0.0
        self._on_exceeded = on_exceeded
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    @property
    def full(self) -> bool:
        """Whether a body waits for memory."""
        return bool(self._waiting)

    def reserve(self, size: int, granted: Callable[[], None]) -> bool:
        """Reserve memory for a large body. False if there is none yet: `granted` is called when it is reserved."""
        if self._waiting or not self._fits(size):
            self._waiting.append((size, granted))
            return False
        self.body_bytes += size
        return True

    def release(self, size: int) -> None:
        """Return memory, and reserve it for the bodies that have waited longest."""
        self.body_bytes -= size
        while self._waiting and self._fits(self._waiting[0][0]):
            reserved, granted = self._waiting.popleft()
            self.body_bytes += reserved
            granted()

    def withdraw(self, granted: Callable[[], None]) -> None:
        """Stop waiting, because the connection is closed."""
        self._waiting = deque(entry for entry in self._waiting if entry[1] != granted)
        self.release(0)

    def _fits(self, size: int) -> bool:
        most = self.limits.body_bytes
        return most is None or not self.body_bytes or self.body_bytes + size <= most

    def count_refused(self, status: int, message: str) -> None:
        """Count a request that was refused although its client has the credentials."""
        self.refused += 1
        most = self.limits.refused
        if most is not None and self.refused > most:
            self.exceed(f"more than {most:,} of its requests were refused, the last one with {status}: {message}")

    def charge(self, seconds: float) -> None:
        self.cpu_seconds += seconds
        most = self.limits.cpu_seconds
        if most is not None and self.cpu_seconds > most:
            self.exceed(f"reading and checking its requests took more than {most:g} s; send fewer or smaller ones")

    def exceed(self, reason: str) -> None:
        if self.exceeded is None:
            self.exceeded = reason
            if self._on_exceeded is not None:
                self._on_exceeded(reason)
