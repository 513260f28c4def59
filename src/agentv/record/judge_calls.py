"""`judge_calls.jsonl`: a line for every judge call of a run, written when the call has ended."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from agentv.record.files import EXECUTION_ERROR, cut_torn_line, failure, open_private, write_all
from agentv.record.strict_json import dump_line


class JudgeCallLog:
    """Appends call records. The file is made with the first one; secrets are masked before they come here.

    The rows are what a run promises to keep; this log is synced once, at the end. A line that cannot be written is
    no reason to fail a judge call that was made: the log stops there, and says so when it is closed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._error: OSError | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
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
        """One line."""
        if self._error is not None:
            return
        try:
            if self._descriptor is None:
                self._descriptor = open_private(self._path, os.O_RDWR | os.O_APPEND)
                cut_torn_line(self._descriptor)
            write_all(self._descriptor, dump_line(dict(record)).encode("utf-8") + b"\n")
        except OSError as error:
            self._error = error
