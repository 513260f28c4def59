"""Encode a row as one line of `results.jsonl`, and decode it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import Field, fields, is_dataclass, replace
from enum import Enum
from typing import Any

from agentv.codec import DecodeError, decode
from agentv.jsonio import dump_line, load, storable, strict_line
from agentv.record.files import LONGEST_LINE
from agentv.redact import NO_SECRETS, Redactor
from agentv.results import CaseError, CaseResult, RowKey, Verdict

LARGE = 64 * 1024
SCALARS = frozenset({type(None), bool, int, float})
VALUE = 32
"""What a value counts in addition to its characters."""


def record_row(
    row: CaseResult,
    redactor: Redactor = NO_SECRETS,
    *,
    content: dict[str, Any] | None = None,
    in_pieces: bool = False,
) -> tuple[CaseResult, bytes]:
    """The row as it is recorded, with secrets masked, and its encoding as one line of strict JSON.

    `content` is `row.to_dict()`, if it is already known. Never fails, whatever the row contains. Returns the same row
    object when nothing was masked or replaced.
    """
    line = strict_line(row.to_dict() if content is None else content, in_pieces=in_pieces)
    if line is None or redactor.finds_in_json(line):
        # Field names and verdicts are never masked, even if a secret has the same spelling.
        row = map_contents(_scored(row), lambda value: redactor.value(storable(value)))
        line = dump_line(row.to_dict(), in_pieces=in_pieces)
    encoded = line.encode("utf-8") + b"\n"
    if len(encoded) > LONGEST_LINE:
        return record_row(_too_long(row, len(encoded)), redactor, in_pieces=in_pieces)
    return row, encoded


def _too_long(row: CaseResult, size: int) -> CaseResult:
    """An error instead of a row that no command could read again."""
    error = CaseError("run", f"the result is {size >> 20:,} MiB; a row may have at most {LONGEST_LINE >> 20} MiB")
    return replace(
        row,
        score=0.0,
        verdict=Verdict.FAIL,
        error=error,
        candidate_answer="",
        output_messages=(),
        hits=(),
        misses=(),
        reasoning="",
        evaluator_results=(),
        trace_summary=None,
        metadata={},
        turns=(),
    )


def is_large(content: Any) -> bool:
    """Whether masking and encoding this content of a row may take longer than a few milliseconds."""
    left = LARGE
    waiting: list[Any] = [(content,)]
    while waiting:
        values = waiting.pop()
        kind = type(values)
        left -= VALUE * len(values)
        if left <= 0:
            return True
        for value in values if kind is list or kind is tuple else values.values():
            kind = type(value)
            if kind is str:
                left -= len(value)
            elif kind is dict or kind is list or kind is tuple:
                if value:
                    waiting.append(value)
            elif kind not in SCALARS and isinstance(value, Mapping):
                waiting.append(value)
    return left <= 0


class RowEncoder:
    """Encodes rows for an `AppendedFile`."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def small(self, row: CaseResult) -> tuple[CaseResult, bytes] | None:
        content = row.to_dict()
        return None if is_large(content) else record_row(row, self._redactor, content=content)

    def large(self, row: CaseResult) -> tuple[CaseResult, bytes]:
        return record_row(row, self._redactor, in_pieces=True)


def encode_row(row: CaseResult, redactor: Redactor = NO_SECRETS) -> bytes:
    """The row as one line of `results.jsonl`."""
    return record_row(row, redactor)[1]


def recorded_key(key: RowKey, redactor: Redactor) -> RowKey:
    """The key that the row has in the results file, where secrets are masked."""
    return RowKey(redactor.text(key.suite), redactor.text(key.eval_id), redactor.text(key.target), key.attempt)


def _scored(row: CaseResult) -> CaseResult:
    """The row with an error instead of a score that is NaN or infinite."""
    if math.isfinite(row.score):
        return row
    error = row.error or CaseError("run", f"the score must be a number from 0 to 1, got {row.score}")
    return replace(row, score=0.0, verdict=Verdict.FAIL, error=error)


def map_contents(value: Any, change: Callable[[Any], Any]) -> Any:
    """Apply `change` to all contents of nested dataclasses; their number fields stay numbers."""
    if is_dataclass(value) and not isinstance(value, type):
        changed = {f.name: _map_field(f, getattr(value, f.name), change) for f in fields(value)}
        return replace(value, **changed)
    if isinstance(value, Enum):
        return value
    if isinstance(value, tuple):
        return tuple(map_contents(item, change) for item in value)
    return change(value)


def _map_field(field: Field[Any], value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None if field.default is None else 0.0
    return map_contents(value, change)


def decode_row(line: bytes) -> CaseResult:
    """The row of a line of `results.jsonl`. ValueError, with the reason, when the line is not a valid row."""
    data = load(line)
    try:
        return decode(CaseResult, data)
    except DecodeError as error:
        raise error if error.path else ValueError(f"a row {error}") from None
