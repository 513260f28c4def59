"""`judge_calls.jsonl`: one line for every judge call of a run, written shortly after the call ends.

Lines are written in groups, at the latest before the row that made the calls. Otherwise a run with a thousand calls
per second would spend its time on a thousand small writes.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from agentv.jsonio import dump_line
from agentv.record.files import EXECUTION_ERROR, cut_torn_line, failure, open_private, write_all

SOON = 0.25
"""Seconds that a line may wait to be written together with others."""


class JudgeCallLog:
    """Appends judge call records, whose secrets must already be masked. The file is created with the first record.

    Unlike rows, the log is synced only once, at the end. A failed write does not fail the judge call: logging stops,
    and the error is raised when the log is closed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._error: OSError | None = None
        self._waiting: deque[Mapping[str, Any]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._writing = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.flush()
        if self._descriptor is not None:
            with suppress(OSError):
                os.fsync(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None
        if self._error is not None and kind is None:
            hint = "Result rows are not affected, but later judge calls are missing from the log."
            incomplete = failure("write", self._path, self._error, hint)
            incomplete.exit_code = EXECUTION_ERROR
            raise incomplete

    def append(self, record: Mapping[str, Any]) -> None:
        """Queue a record for the next `flush`. In a running event loop, a flush is scheduled."""
        self._waiting.append(record)
        if self._timer is None:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                self.flush()
            else:
                self._timer = loop.call_later(SOON, self._in_time)

    def flush(self) -> None:
        """Write all queued records. Thread-safe; on return, every record appended before the call is written."""
        with self._writing:
            lines: list[str] = []
            while self._waiting:  # one by one: the event loop may append another at any moment
                lines.append(f"{dump_line(dict(self._waiting.popleft()))}\n")
            if not lines or self._error is not None:
                return
            try:
                if self._descriptor is None:
                    self._descriptor = open_private(self._path, os.O_RDWR | os.O_APPEND)
                    cut_torn_line(self._descriptor)
                write_all(self._descriptor, "".join(lines).encode("utf-8"))
            except OSError as error:
                self._error = error

    def _in_time(self) -> None:
        self._timer = None
        self.flush()
