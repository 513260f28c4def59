"""What a JSON Lines script prints during one execution, and which of its lines are results."""

from __future__ import annotations

import asyncio
import re
import time

from agentv.wire.output import LineKind, late_error, line_kind

PAUSE_SECONDS = 0.005
"""How long lines are parsed before other tasks of the event loop run."""
PARSE_SECONDS = 10.0
WINDOW = 256 * 1024
MOST_MISLEADING = 20_000
"""Lines that look like a result but are not, before the output is refused."""
_MAY_BE_RESULT = re.compile(rb"""^(?:\xef\xbb\xbf)?[ \t]*\{[^\S\n]*["}]""", re.MULTILINE)


class LineOutput:
    """The output of one execution. Add chunks as they arrive, then `scan` them."""

    def __init__(self, execution_id: str, *, cap: int) -> None:
        self._execution_id = execution_id
        self._cap = cap
        self._unscanned = bytearray()
        self._looked = 0
        self._lines = bytearray()
        self._misleading = 0
        self.results = 0
        """Number of results of this execution. Invalid output, which is an error in any case, counts as two."""
        self.late = False
        """Whether a result of another execution was printed; it is not part of `text`."""
        self.late_error: str | None = None
        """Its `late_error`: agentv's own runner of checks reports an error of an earlier check this way."""

    @property
    def text(self) -> bytes:
        """Everything printed, except for results of other executions."""
        return bytes(self._lines + self._unscanned)

    @property
    def incomplete(self) -> bool:
        """Whether the last line has no end yet."""
        return bool(self._unscanned.strip())

    @property
    def too_long(self) -> bool:
        return len(self._lines) + len(self._unscanned) > self._cap

    def add(self, chunk: bytes) -> None:
        self._unscanned += chunk

    async def scan(self) -> int:
        """Look at the lines added since the last scan. Returns the number of results so far."""
        pause_at = time.monotonic() + PAUSE_SECONDS
        while self.results < 2 and (end := self._end_of_lines()):
            match = _MAY_BE_RESULT.search(self._unscanned, 0, end)
            self._keep(match.start() if match else end)
            if match:
                line = bytes(self._unscanned[: self._unscanned.index(b"\n") + 1])
                if await self._belongs(line):
                    self._lines += line
                del self._unscanned[: len(line)]
            if time.monotonic() > pause_at:
                await asyncio.sleep(0)
                pause_at = time.monotonic() + PAUSE_SECONDS
        return self.results

    def _end_of_lines(self) -> int:
        """The end of the last complete line in the next few hundred kilobytes, or of the first one; 0 without one."""
        end = self._unscanned.rfind(b"\n", 0, WINDOW) + 1
        if not end:
            end = self._unscanned.find(b"\n", max(WINDOW, self._looked)) + 1
            self._looked = 0 if end else len(self._unscanned)
        return end

    def _keep(self, size: int) -> None:
        self._lines += self._unscanned[:size]
        del self._unscanned[:size]

    async def _belongs(self, line: bytes) -> bool:
        kind = await self._kind(line)
        self._misleading += kind == "log"
        if self._misleading > MOST_MISLEADING:
            kind = "invalid"
        self.results += 2 if kind == "invalid" else kind == "own"
        if kind == "other" and not self.late:
            self.late, self.late_error = True, late_error(line)
        return kind != "other"

    async def _kind(self, line: bytes) -> LineKind:
        from agentv import workers  # noqa: PLC0415 - only long lines need it

        if len(line) <= workers.IN_LINE_BYTES:
            return line_kind(line, self._execution_id)
        try:
            return await workers.call(line_kind, line, self._execution_id, seconds=PARSE_SECONDS)
        except workers.WorkerError:
            return "invalid"
