"""Sends the spans of a run while it runs: a thread follows the record of the run and sends what is new.

The record on disk is the queue, so nothing is held in memory for a slow collector, and the run never waits. The thread
uses only a small share of the time of one processor. What could not be sent when the run ends is still in the record.
"""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agentv.errors import AgentVError
from agentv.http.otlp import OtlpEndpoint
from agentv.record.files import LONGEST_LINE, open_recorded
from agentv.record.line_index import CaseIndex, JudgeCallIndex
from agentv.record.rows import decode_row
from agentv.record.run_dir import RunDirectory
from agentv.redact import Redactor
from agentv.report.otlp import OtlpError, OtlpSender, batches
from agentv.report.spans import RunSpans, Span
from agentv.results import CaseResult

SOON = 0.2
"""Seconds between two looks at the record."""
REST = 12
"""While the run continues, how much longer the thread rests than it works."""
ROWS_AT_A_TIME = 100
CHARACTERS_AT_A_TIME = 4 * 1024 * 1024
PATIENCE, LAST_SECONDS = 8.0, 60.0
"""After the run has ended: how long agentv waits for a collector that accepts nothing, and at most for the rest."""
MOST_FAILURES = 3
"""Requests that may fail in a row before sending stops."""
CALLS_OF_EARLIER_PARTS = 64 * 1024 * 1024
"""A larger file of judge calls is not read from its beginning when a run is resumed."""


@dataclass(frozen=True, slots=True)
class LiveOutcome:
    """What was sent: the number of traces, the rows without one, and the first problem."""

    sent: int
    not_sent: int
    problem: str | None = None


class LiveSpans:
    """Sends spans in the background. Call `start` when the first row can come, and `finish` after the last."""

    def __init__(self, directory: RunDirectory, spans: RunSpans, endpoint: OtlpEndpoint, redactor: Redactor) -> None:
        self._directory, self._spans, self._endpoint, self._redactor = directory, spans, endpoint, redactor
        self._cases, self._calls = CaseIndex(directory), JudgeCallIndex(directory)
        self._ended, self._late = threading.Event(), threading.Event()
        self._offset = 0
        self._sent = self._failures = 0
        self._problem: str | None = None
        self._thread: threading.Thread | None = None

    @property
    def run_name(self) -> str:
        """The shortest name of the run from the working directory."""
        return self._directory.name

    def start(self) -> None:
        """Send the rows that are written from now on."""
        self._offset = _size(self._directory.results)
        if self._offset and _size(self._directory.judge_calls) > CALLS_OF_EARLIER_PARTS:
            self._calls.skip_to_end()
        self._thread = threading.Thread(target=self._work, name="agentv-otel", daemon=True)
        self._thread.start()

    def finish(self, patience: float = PATIENCE, at_most: float = LAST_SECONDS) -> LiveOutcome:
        """Wait until the rest is sent, as long as the collector accepts something."""
        if self._thread is None:
            return LiveOutcome(0, 0)
        self._ended.set()
        deadline, sent = time.monotonic() + at_most, -1
        with suppress(KeyboardInterrupt):
            while self._thread.is_alive() and time.monotonic() < deadline and self._sent != sent:
                sent = self._sent
                self._thread.join(patience)
        late = self._thread.is_alive()
        self._late.set()
        problem = self._problem or ("the collector did not accept all spans in time" if late else None)
        not_sent = self._rows_left()
        return LiveOutcome(self._sent, not_sent, problem if not_sent else None)

    # -- in the thread

    def _work(self) -> None:
        try:
            asyncio.run(self._follow())
        except Exception as error:  # spans never fail a run
            self._stop(error)

    async def _follow(self) -> None:
        async with OtlpSender(self._endpoint, self._redactor, attempts=3) as sender:
            while not self._late.is_set():
                started, last_look = time.thread_time(), self._ended.is_set()
                rows, end = self._new_rows()
                if rows and await self._send(sender, rows):
                    self._sent, self._offset, self._failures = self._sent + len(rows), end, 0
                elif rows:
                    self._failures += 1
                    if self._ended.is_set() or self._failures >= MOST_FAILURES:
                        return
                elif last_look:
                    return
                # Nothing else runs in this thread. The wait ends when the run ends.
                self._ended.wait(max(0.0 if rows else SOON, REST * (time.thread_time() - started)))

    async def _send(self, sender: OtlpSender, rows: list[CaseResult]) -> bool:
        """Whether all rows were sent. If not, they can be sent again: their ids are the same."""
        self._cases.refresh()
        self._calls.refresh()
        try:
            for body, _ in batches(self._spans, map(self._trace, rows)):
                await sender.send(body)
        except OtlpError as error:
            self._problem = self._problem or error.message
            return False
        for row in rows:
            self._calls.forget(*row.key)
        return True

    def _trace(self, row: CaseResult) -> list[Span]:
        calls = self._calls.calls(row.key)
        latest = max((call.execution or 1 for call in calls), default=1)
        return self._spans.of_row(
            row,
            self._cases.case(row.key),
            [call for call in calls if (call.execution or 1) == latest],
        )

    def _new_rows(self) -> tuple[list[CaseResult], int]:
        """The next complete rows of the record, and the offset after them."""
        rows: list[CaseResult] = []
        offset = self._offset
        with open_recorded(self._directory.results) as file:
            file.seek(offset)
            while len(rows) < ROWS_AT_A_TIME and offset - self._offset < CHARACTERS_AT_A_TIME:
                line = file.readline(LONGEST_LINE + 1)
                if not line.endswith(b"\n"):
                    break
                offset += len(line)
                rows.append(decode_row(line))
        return rows, offset

    def _stop(self, error: Exception) -> None:
        message = error.message if isinstance(error, AgentVError) else f"{type(error).__name__}: {error}"
        self._problem = self._problem or self._redactor.head(message, 300)

    def _rows_left(self) -> int:
        """The number of rows after the last one that was sent."""
        left = 0
        try:
            with open_recorded(self._directory.results) as file:
                file.seek(self._offset)
                while piece := file.read(1 << 20):
                    left += piece.count(b"\n")
        except OSError:
            return 0
        return left


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
