"""The copy of a run's rows in the file of `--out`."""

from __future__ import annotations

import errno
import os
import re
import select
import stat
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from agentv.errors import RecordError
from agentv.record.files import failure, open_private, write_all
from agentv.record.out_lock import lock_out, refuse_locked, refuse_other_rows
from agentv.record.run_dir import ANOTHER, RunDirectory
from agentv.regular_files import NotRegularError, kind_of

_COPY_BYTES = 1 << 20
_STREAM_BYTES = select.PIPE_BUF
"""Number of bytes that a writable pipe accepts without blocking."""
_STALLED_SECONDS = 10.0
_HURRIED_SECONDS = 1.0
"""The same, for a run that is being stopped."""
_STANDARD_STREAMS = {"-": 1, "/dev/stdout": 1, "/dev/stderr": 2}
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")


def check_out(out: Path, run: RunDirectory | None = None) -> None:
    """RecordError if `out` is being written by another run or, with `run`, contains anything but rows of that run.

    `Mirror` checks this again. Checked here, it is reported before anything is written.
    """
    if str(out) in _STANDARD_STREAMS:
        return
    try:
        if run is not None and _stream_number(out) is not None:
            raise NotRegularError("an open descriptor")
        if not os.path.lexists(out):
            return
        if run is not None and (kind := kind_of(out.stat().st_mode)) is not None:
            raise NotRegularError(kind)
        if not out.is_file():
            return
        descriptor = os.open(out, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            refuse_locked(descriptor, out)
            if run is not None:
                refuse_other_rows(descriptor, out, run)
        finally:
            os.close(descriptor)
    except PermissionError:
        return  # the file may still be writable
    except OSError as error:
        raise failure("write --out", out, error, ANOTHER) from error


def _stream_number(out: Path) -> int | None:
    listed = _DESCRIPTOR.fullmatch(str(out))
    return int(listed[1]) if listed else _STANDARD_STREAMS.get(str(out))


class Mirror:
    """Copies `source` to `out` in a background thread, up to the offset that `follow` reported as durable."""

    def __init__(self, run: RunDirectory, out: Path, safe: int, *, is_ours: bool = False) -> None:
        """With `is_ours`, a file that contains anything but rows of this run is refused."""
        self.error: RecordError | None = None
        self._run, self._out, self._is_ours = run, out, is_ours
        self._fifo = False
        self._opened = ExitStack()
        self._changed = threading.Condition()
        self._safe = safe
        self._closing_since: float | None = None
        self._patience = _STALLED_SECONDS
        self._descriptor, self._stream = self._open()
        self._source = os.open(run.results, os.O_RDONLY | os.O_CLOEXEC)
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
        """Wait only briefly for a reader that has stopped reading."""
        self._patience = _HURRIED_SECONDS

    def close(self) -> None:
        self.finish()
        self._opened.close()
        for descriptor in (self._source, self._descriptor):
            if descriptor >= 0:
                os.close(descriptor)

    def _open(self) -> tuple[int, bool]:
        """The descriptor (-1 for a FIFO, which is opened once it has a reader), and whether it is a stream."""
        number = _stream_number(self._out)
        try:
            if number is not None:
                return os.dup(number), True
            if self._out.exists() and not self._out.is_file():
                self._fifo = stat.S_ISFIFO(self._out.stat().st_mode)
                return (-1 if self._fifo else os.open(self._out, os.O_WRONLY | os.O_CLOEXEC)), True
            if self._out.exists() and self._out.samefile(self._run.results):
                raise RecordError(f"--out {self._out} is the run's own results file", next_step=ANOTHER)
            self._out.parent.mkdir(parents=True, exist_ok=True)
            return self._open_file(), False
        except OSError as error:
            raise failure("write --out", self._out, error, ANOTHER) from error

    def _open_file(self) -> int:
        descriptor = open_private(self._out, os.O_RDWR if self._is_ours else os.O_WRONLY, follow_links=True)
        try:
            self._opened.enter_context(lock_out(descriptor, self._out, self._run))
            if self._is_ours:
                refuse_other_rows(descriptor, self._out, self._run)
                os.lseek(descriptor, 0, os.SEEK_SET)
            os.ftruncate(descriptor, 0)
        except BaseException:
            self._opened.close()
            os.close(descriptor)
            raise
        return descriptor

    def _work(self) -> None:
        try:
            if self._fifo:
                self._descriptor = self._open_fifo()
            while (goal := self._next_goal()) is not None:
                self._copy_to(goal)
            if not self._stream:
                os.fsync(self._descriptor)
        except OSError as error:
            hint = "The results are complete in the run directory: copy its results.jsonl instead."
            self.error = failure("write --out", self._out, error, hint)

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
        """Write without blocking, so that closing can give up on a stalled reader."""
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
                has_no_reader_yet = error.errno == errno.ENXIO
                if not has_no_reader_yet:
                    raise
            self._give_up_if_stalled(started)
            with self._changed:
                self._changed.wait(0.05)

    def _give_up_if_stalled(self, since: float) -> None:
        closing = self._closing_since
        if closing is not None and time.monotonic() - max(closing, since) > self._patience:
            raise TimeoutError(errno.ETIMEDOUT, "no process is reading it")
