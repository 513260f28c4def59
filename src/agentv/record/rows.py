"""A row as one line of `results.jsonl`, and back."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import Field, fields, is_dataclass, replace
from enum import Enum
from typing import Any

from agentv.codec import DecodeError, decode
from agentv.jsonio import dump_line, load, storable, strict_line
from agentv.redact import NO_SECRETS, Redactor
from agentv.results import CaseError, CaseResult, RowKey, Verdict


def record_row(row: CaseResult, redactor: Redactor = NO_SECRETS) -> tuple[CaseResult, bytes]:
    """The row as it is recorded, and its line: one physical line of strict JSON, secrets masked.

    No answer can make it fail. The row is the same object when nothing in it had to be masked or replaced.
    """
    line = strict_line(row.to_dict())
    if line is None or redactor.finds(line):
        # Only contents are changed: field names and verdicts are ours, whatever a secret is spelled like.
        row = _map_contents(_scored(row), lambda value: redactor.value(storable(value)))
        line = dump_line(row.to_dict())
    return row, line.encode("utf-8") + b"\n"


def encode_row(row: CaseResult, redactor: Redactor = NO_SECRETS) -> bytes:
    """The line of a row."""
    return record_row(row, redactor)[1]


def recorded_key(key: RowKey, redactor: Redactor) -> RowKey:
    """The key under which a row with this key is found again in the file, where secrets are masked."""
    return RowKey(redactor.text(key.suite), redactor.text(key.eval_id), redactor.text(key.target), key.attempt)


def _scored(row: CaseResult) -> CaseResult:
    """A score that is not a number is an error, not a low score."""
    if math.isfinite(row.score):
        return row
    error = row.error or CaseError("run", f"the score was {row.score}, which is not a number from 0 to 1")
    return replace(row, score=0.0, verdict=Verdict.FAIL, error=error)


def _map_contents(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same dataclasses with their contents changed; their own numbers stay numbers."""
    if is_dataclass(value) and not isinstance(value, type):
        changed = {f.name: _map_field(f, getattr(value, f.name), change) for f in fields(value)}
        return replace(value, **changed)
    if isinstance(value, Enum):
        return value
    if isinstance(value, tuple):
        return tuple(_map_contents(item, change) for item in value)
    return change(value)


def _map_field(field: Field[Any], value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None if field.default is None else 0.0
    return _map_contents(value, change)


def decode_row(line: bytes) -> CaseResult:
    """A line of `results.jsonl` as a row. Strict: raises ValueError with the reason."""
    data = load(line)
    try:
        return decode(CaseResult, data)
    except DecodeError as error:
        raise error if error.path else ValueError(f"a row {error}") from None
