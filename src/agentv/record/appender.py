"""Append lines to the files of a run: one thread writes them in groups, and each is acknowledged once it is written.

Lines that arrive during a sync are written and synced together as the next group, so concurrent cases share the cost
of one sync.
"""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

from agentv.errors import RecordError
from agentv.record.files import cut_torn_line, open_private, sync_data, sync_directory, write_all

T = TypeVar("T")

GROUP_BYTES = 8 << 20
SYNC_SECONDS = 1.0
"""How long lines of a file that is synced later stay unsynced, at most."""


class Encoder(Protocol[T]):
    """Encodes a record of type T as one line, with secrets masked. Returns the record as written, and the line."""

    def small(self, record: T) -> tuple[T, bytes] | None:
        """Called in the event loop. None for a record that is too large to be encoded there."""

    def large(self, record: T) -> tuple[T, bytes]:
        """Called in the writer thread, for records for which `small` returned None."""


@dataclass(slots=True)
class _Waiting(Generic[T]):
    file: AppendedFile[T]
    record: T
    line: bytes | None
    """None for a large record until the writer thread encodes it, which would block the event loop."""
    written: asyncio.Future[T]


@dataclass(eq=False, slots=True)
class AppendedFile(Generic[T]):
    """A file of a run to which lines are appended. Create it with `Appender.add`.

    After a failed write it accepts no more lines; acknowledged lines are safe.
    """

    path: Path
    encoder: Encoder[T]
    refusal: Callable[[OSError], RecordError]
    """The error of lines that could not be written."""
    synced: bool = True
    """Whether lines are acknowledged only after a sync. If not, they are synced within `SYNC_SECONDS`."""
    on_safe: Callable[[int], None] = lambda _: None
    """Called in the writer thread with the size of the file after each group."""
    failure: OSError | None = None
    safe: int = 0
    """The size of the file without lines that have not been acknowledged."""
    _appender: Appender = field(init=False)
    _descriptor: int = field(default=-1, init=False)
    _unsynced_since: float | None = field(default=None, init=False)

    def submit(self, record: T) -> asyncio.Future[T]:
        """Queue a record. The future has the record as written; cancelling it does not remove the line.

        Raises RecordError if an earlier line could not be written.
        """
        if self.failure is not None:
            raise self.refusal(self.failure)
        return self._appender.submit(self, record)

    def open(self) -> None:
        """Open the file and remove an incomplete last line. Happens with the first line if it is not called before."""
        if self._descriptor >= 0:
            return
        self._descriptor = open_private(self.path, os.O_RDWR | os.O_APPEND)
        cut_torn_line(self._descriptor)
        sync_directory(self.path.parent)
        self.safe = os.fstat(self._descriptor).st_size

    def write(self, lines: bytes) -> None:
        """Append whole lines, in the writer thread. After an error, none of them is in the file."""
        try:
            self.open()
            write_all(self._descriptor, lines)
            if self.synced:
                sync_data(self._descriptor)
            elif self._unsynced_since is None:
                self._unsynced_since = time.monotonic()
            self.safe += len(lines)
            self.on_safe(self.safe)
        except Exception as error:
            self.fail(error)
            self._cut_back()

    def fail(self, error: Exception) -> None:
        """Accept no more lines because of this error, in the writer thread."""
        if self.failure is None:
            self.failure = error if isinstance(error, OSError) else OSError(errno.EIO, str(error))

    def sync_seconds(self) -> float | None:
        """Seconds until the file must be synced, or None if everything is."""
        if self._unsynced_since is None:
            return None
        return max(0.0, self._unsynced_since + SYNC_SECONDS - time.monotonic())

    def sync(self) -> None:
        """Sync what is not synced yet, in the writer thread."""
        if self._unsynced_since is not None:
            self._unsynced_since = None
            try:
                sync_data(self._descriptor)
            except OSError as error:
                self.fail(error)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _cut_back(self) -> None:
        """Remove unacknowledged bytes. If even that fails, the next start removes the incomplete line."""
        with suppress(OSError):
            if self._descriptor >= 0:
                os.ftruncate(self._descriptor, self.safe)
                sync_data(self._descriptor)


class Appender:
    """The thread that appends lines to the files of one run.

    In a group, files that are synced later are written first: rows never precede the lines that they refer to.
    """

    def __init__(self) -> None:
        self._files: list[AppendedFile[Any]] = []
        self._queue: SimpleQueue[list[_Waiting[Any]] | None] = SimpleQueue()
        self._handed: list[_Waiting[Any]] = []
        """Lines submitted in this iteration of the event loop. Waking the thread for each would cost more than
        encoding it."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def add(self, file: AppendedFile[T]) -> AppendedFile[T]:
        """Register a file before its first line. It is created with its first line, or by its `open`."""
        file._appender = self  # noqa: SLF001 - one class in two parts
        self._files = sorted([*self._files, file], key=lambda file: file.synced)
        return file

    def start(self) -> None:
        """Start the thread. Call `stop`, and then `close`, when the last line has been submitted."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._work, name="agentv-writer", daemon=True)
        self._thread.start()

    def stop(self) -> threading.Thread | None:
        """Accept no more lines. Returns the thread, which ends when all lines are written; None if it was stopped."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._hand_over()
            self._queue.put(None)
        return thread

    def close(self) -> None:
        """Close the files, after the thread has ended."""
        for file in self._files:
            file.close()

    def submit(self, file: AppendedFile[T], record: T) -> asyncio.Future[T]:
        if self._loop is None or self._thread is None:
            raise RuntimeError("the writer is not open: use it in `async with`")
        written: asyncio.Future[T] = self._loop.create_future()
        encoded = file.encoder.small(record)
        waiting = _Waiting(file, record, None, written) if encoded is None else _Waiting(file, *encoded, written)
        if not self._handed:
            self._loop.call_soon(self._hand_over)
        self._handed.append(waiting)
        return written

    def _hand_over(self) -> None:
        handed, self._handed = self._handed, []
        if handed:
            self._queue.put(handed)

    def _work(self) -> None:
        open_ = True
        while open_:
            group, open_ = self._next_group()
            for file in self._files:
                lines = [self._line_of(item) for item in group if item.file is file]
                if lines and file.failure is None:
                    file.write(b"".join(lines))
            if group:
                self._acknowledge(group)
            for file in self._files:
                if file.sync_seconds() == 0 or not open_:
                    file.sync()

    def _next_group(self) -> tuple[list[_Waiting[Any]], bool]:
        """All queued lines, and whether more may follow. Waits for a line, or until a file must be synced."""
        group: list[_Waiting[Any]] = []
        size = 0
        due = [seconds for file in self._files if (seconds := file.sync_seconds()) is not None]
        with suppress(Empty):
            while size < GROUP_BYTES:
                item = self._queue.get(block=not group, timeout=min(due) if due and not group else None)
                if item is None:
                    return group, False
                group += item
                size += sum(map(len, map(self._line_of, item)))
        return group, True

    def _line_of(self, waiting: _Waiting[Any]) -> bytes:
        if waiting.line is None:
            try:
                waiting.record, waiting.line = waiting.file.encoder.large(waiting.record)
            except Exception as error:
                waiting.file.fail(error)
                waiting.line = b""
        return waiting.line

    def _acknowledge(self, group: list[_Waiting[Any]]) -> None:
        outcomes = [(item, item.file.failure) for item in group]

        def settle() -> None:
            for item, problem in outcomes:
                if item.written.done():
                    continue
                if problem is None:
                    item.written.set_result(item.record)
                else:
                    item.written.set_exception(item.file.refusal(problem))

        # If the event loop has been closed, nothing is waiting for the acknowledgement.
        with suppress(RuntimeError):
            assert self._loop is not None  # noqa: S101 - the thread starts after the loop is known
            self._loop.call_soon_threadsafe(settle)
