"""`judge_calls.jsonl`: one line for every judge call of a run.

A reply is returned to the script or the evaluator only after its line was written, so a killed run can be resumed
without calling the judge again. The file is synced about once per second.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Set
from dataclasses import replace
from typing import Any

from agentv.codec import decode
from agentv.errors import RecordError
from agentv.evidence import JudgeCallRecord, request_sha256
from agentv.jsonio import dump_line, load, storable, strict_line
from agentv.record.appender import AppendedFile, Appender
from agentv.record.files import EXECUTION_ERROR, LONGEST_LINE, failure, open_recorded, replaced, write_all
from agentv.record.rows import is_large, map_contents
from agentv.record.run_dir import RunDirectory
from agentv.redact import NO_SECRETS, Redactor
from agentv.results import RowKey, Verdict

_NO_HASH = '"request_sha256":""'


class JudgeCallLog:
    """Appends the judge calls of a run. The file is created with the first call.

    A failed write does not fail the judge call: logging stops, and `check` raises the error at the end.
    """

    def __init__(self, run: RunDirectory, appender: Appender, redactor: Redactor) -> None:
        self._run, self._path = run, run.judge_calls
        self._file = appender.add(AppendedFile(self._path, CallEncoder(redactor), self._refusal, synced=False))

    def append(self, record: JudgeCallRecord) -> asyncio.Future[JudgeCallRecord] | None:
        """Queue a call. The future is done when the line is written; None if logging has stopped."""
        if self._file.failure is not None:
            return None
        written = self._file.submit(record)
        written.add_done_callback(_ignore_error)
        return written

    async def finish(self, only_failures: bool, execution: Callable[[RowKey], int]) -> None:
        """Call this after the writer was closed. Raises RecordError if calls could not be written.

        With `only_failures`, the prompts and replies of rows that passed are removed: see `drop_io_of_passed`.
        """
        if only_failures:
            await asyncio.to_thread(drop_io_of_passed, self._run, execution)
        self.check()

    def check(self) -> None:
        """Raise RecordError if calls could not be written. Call it after the writer was closed."""
        if self._file.failure is not None:
            raise self._refusal(self._file.failure)

    def _refusal(self, problem: OSError) -> RecordError:
        hint = "Result rows are not affected, but later judge calls are missing from the log."
        incomplete = failure("write", self._path, problem, hint)
        incomplete.exit_code = EXECUTION_ERROR
        return incomplete


def _ignore_error(written: asyncio.Future[JudgeCallRecord]) -> None:
    if not written.cancelled():
        written.exception()  # reported by `check`


class CallEncoder:
    """Encodes judge calls for an `AppendedFile`."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def small(self, record: JudgeCallRecord) -> tuple[JudgeCallRecord, bytes] | None:
        content = record.to_dict()
        return None if is_large(content) else (record, encode_call(record, self._redactor, content=content))

    def large(self, record: JudgeCallRecord) -> tuple[JudgeCallRecord, bytes]:
        return record, encode_call(record, self._redactor, in_pieces=True)


def encode_call(
    record: JudgeCallRecord,
    redactor: Redactor = NO_SECRETS,
    *,
    content: dict[str, Any] | None = None,
    in_pieces: bool = False,
) -> bytes:
    """The line of a call, with secrets masked and its request hashed.

    `content` is `record.to_dict()`, if it is already known. Never fails, whatever the prompts and replies contain.
    """
    line = strict_line(record.to_dict() if content is None else content, in_pieces=in_pieces)
    found = line is None or redactor.finds_in_json(line)
    sha256 = ""
    if record.conversation:
        masking = redactor if found else NO_SECRETS
        sha256 = request_sha256(record.target, record.conversation, record.options, masking, in_pieces=in_pieces)
    if line is None or found:
        # Field names are never masked, even if a secret has the same spelling.
        record = map_contents(record, lambda value: redactor.value(storable(value)))
        line = dump_line(record.to_dict(), in_pieces=in_pieces)
    # The first match is the field of the record: its quotation marks would be escaped in a string.
    encoded = line.replace(_NO_HASH, f'"request_sha256":"{sha256}"', 1).encode("utf-8") + b"\n"
    if len(encoded) > LONGEST_LINE:  # no command could read it again
        return encode_call(without_io(record), redactor)
    return encoded


_IO = ("question", "system_prompt", "messages", "options", "reply", "error")
_BUFFER = 1 << 20


def without_io(record: JudgeCallRecord) -> JudgeCallRecord:
    """The record without its prompt and its reply."""
    fields: dict[str, Any] = {**dict.fromkeys(_IO), "messages": ()}
    return replace(record, **fields)


def drop_io_of_passed(run: RunDirectory, execution: Callable[[RowKey], int]) -> None:
    """Remove the prompts and replies of all rows that passed, except those of failed calls, and keep all lines.

    `execution` is the execution that a row comes from; calls of superseded rows are not changed. Raises RecordError.
    """
    from agentv.record.reading import RunReader  # noqa: PLC0415 - most runs keep everything

    passed = {head.key for head in RunReader(run).heads() if head.verdict is Verdict.PASS and not head.errored}
    path = run.judge_calls
    if not passed or not os.path.lexists(path):
        return
    try:
        with open_recorded(path) as calls, replaced(path) as descriptor:
            waiting = bytearray()
            for line in calls:
                waiting += _reduced(line, passed, execution)
                if len(waiting) > _BUFFER:
                    write_all(descriptor, bytes(waiting))
                    waiting.clear()
            write_all(descriptor, bytes(waiting))
    except OSError as error:
        problem = failure("remove prompts and replies from", path, error, "Result rows are not affected.")
        problem.exit_code = EXECUTION_ERROR
        raise problem from error


def _reduced(line: bytes, passed: Set[RowKey], execution: Callable[[RowKey], int]) -> bytes:
    try:
        data = load(line)
        record = decode(JudgeCallRecord, data)
    except ValueError:
        return line
    key = record.row_key
    if record.status != "ok" or key not in passed or (record.execution or 1) != execution(key):
        return line
    return dump_line({name: value for name, value in data.items() if name not in _IO}).encode("utf-8") + b"\n"
