"""`--out`: a second copy of the rows, in a file or a stream of the user's choice.

The mirror follows `results.jsonl` in a thread of its own, so a full disk or a reader that does not read can
neither lose a row nor hold up the run. A file is rebuilt from its beginning, so that it is complete after a
resume as well; a stream (`-`, a FIFO, a device) gets each new row once.
"""

from __future__ import annotations

import errno
import os
import re
import select
import stat
import threading
import time
from contextlib import suppress
from pathlib import Path

from agentv.errors import RecordError
from agentv.record.files import failure, open_private, write_all
from agentv.record.run_dir import ANOTHER

_COPY_BYTES = 1 << 20
_STREAM_BYTES = select.PIPE_BUF
"""What a pipe that reports itself writable takes without blocking."""
_STALLED_SECONDS = 10.0
_HURRIED_SECONDS = 1.0
"""The same for a run that was told to stop."""
_STANDARD_STREAMS = {"-": 1, "/dev/stdout": 1, "/dev/stderr": 2}
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")


class Mirror:
    """Copies the first bytes of `source`, as many as `follow` said are safe, to `out`."""

    def __init__(self, source: Path, out: Path, safe: int) -> None:
        self.error: RecordError | None = None
        self._out = out
        self._fifo = False
        self._changed = threading.Condition()
        self._safe = safe
        self._closing_since: float | None = None
        self._patience = _STALLED_SECONDS
        self._descriptor, self._stream = self._open(source)
        self._source = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
        self._copied = safe if self._stream else 0
        self._thread = threading.Thread(target=self._work, name="agentv-out-writer", daemon=True)
        self._thread.start()

    def follow(self, safe: int) -> None:
        """The source is durable up to this offset."""
        with self._changed:
            self._safe = safe
            self._changed.notify()

    def finish(self) -> None:
        """Copy the rest and stop. Waits for a slow reader, but not for one that has stopped reading."""
        with self._changed:
            if self._closing_since is None:
                self._closing_since = time.monotonic()
            self._changed.notify()
        self._thread.join()

    def hurry(self) -> None:
        """Wait no longer than a moment for a reader that has stopped reading."""
        self._patience = _HURRIED_SECONDS

    def close(self) -> None:
        self.finish()
        for descriptor in (self._source, self._descriptor):
            if descriptor >= 0:
                os.close(descriptor)

    def _open(self, source: Path) -> tuple[int, bool]:
        """The descriptor (-1: a FIFO, opened once somebody reads it), and whether it is a stream."""
        name = str(self._out)
        listed = _DESCRIPTOR.fullmatch(name)
        number = int(listed[1]) if listed else _STANDARD_STREAMS.get(name)
        try:
            if number is not None:
                return os.dup(number), True
            if self._out.exists() and not self._out.is_file():
                self._fifo = stat.S_ISFIFO(self._out.stat().st_mode)
                return (-1 if self._fifo else os.open(self._out, os.O_WRONLY | os.O_CLOEXEC)), True
            if self._out.exists() and self._out.samefile(source):
                raise RecordError(f"--out {self._out} is the run's own results file", next_step=ANOTHER)
            self._out.parent.mkdir(parents=True, exist_ok=True)
            return open_private(self._out, os.O_WRONLY | os.O_TRUNC), False
        except OSError as error:
            raise failure("write --out", self._out, error, ANOTHER) from error

    def _work(self) -> None:
        try:
            if self._fifo:
                self._descriptor = self._open_fifo()
            while (goal := self._next_goal()) is not None:
                self._copy_to(goal)
            if not self._stream:
                os.fsync(self._descriptor)
        except OSError as error:
            kept = "The run's own copy is complete: copy results.jsonl of the run directory."
            self.error = failure("write --out", self._out, error, kept)

    def _next_goal(self) -> int | None:
        with self._changed:
            while self._copied == self._safe and self._closing_since is None:
                self._changed.wait()
            return None if self._copied == self._safe else self._safe

    def _copy_to(self, goal: int) -> None:
        while self._copied < goal:
            data = os.pread(self._source, min(_COPY_BYTES, goal - self._copied), self._copied)
            if self._stream:
                self._write_stream(data)
            else:
                write_all(self._descriptor, data)
            self._copied += len(data)

    def _write_stream(self, data: bytes) -> None:
        """Write without ever blocking in the write itself, so that closing can give up."""
        left, writable = memoryview(data), select.poll()
        writable.register(self._descriptor, select.POLLOUT)
        progress = time.monotonic()
        while left:
            if not writable.poll(100):
                self._give_up_if_stalled(progress)
                continue
            with suppress(BlockingIOError):
                left = left[os.write(self._descriptor, left[:_STREAM_BYTES]) :]
                progress = time.monotonic()

    def _open_fifo(self) -> int:
        started = time.monotonic()
        while True:
            try:
                return os.open(self._out, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError as error:
                nobody_reads_yet = error.errno == errno.ENXIO
                if not nobody_reads_yet:
                    raise
            self._give_up_if_stalled(started)
            with self._changed:
                self._changed.wait(0.05)

    def _give_up_if_stalled(self, since: float) -> None:
        closing = self._closing_since
        if closing is not None and time.monotonic() - max(closing, since) > self._patience:
            raise TimeoutError(errno.ETIMEDOUT, "nobody reads it")
