"""`judge_calls.jsonl`: a line for every judge call of a run, written soon after the call has ended.

Lines are written in groups: before the rows whose calls they are, else a moment later. A run that makes a thousand
calls a second would otherwise spend its time on a thousand small writes.
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
"""Seconds that a line may wait for others."""


class JudgeCallLog:
    """Appends call records. The file is made with the first one; secrets are masked before they come here.

    The rows are what a run promises to keep; this log is synced once, at the end. A line that cannot be written is
    no reason to fail a judge call that was made: the log stops there, and says so when it is closed.
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
            hint = "The rows are safe; calls after that are not in the log."
            incomplete = failure("write", self._path, self._error, hint)
            incomplete.exit_code = EXECUTION_ERROR
            raise incomplete

    def append(self, record: Mapping[str, Any]) -> None:
        """One line, written by the next `flush`; within a running loop there is one soon."""
        self._waiting.append(record)
        if self._timer is None:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                self.flush()
            else:
                self._timer = loop.call_later(SOON, self._in_time)

    def flush(self) -> None:
        """Write what waits. Any thread may ask for it; when it returns, every line handed over before is written."""
        with self._writing:
            lines: list[str] = []
            while self._waiting:  # one by one: the loop may hand over another at any moment
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
