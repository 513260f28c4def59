"""A row as one line of `results.jsonl`, and back."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import Field, fields, is_dataclass, replace
from enum import Enum
from typing import Any, cast

from agentv.record import strict_json
from agentv.redact import NO_SECRETS, Redactor
from agentv.results import CaseError, CaseResult, RowKey, Verdict


def record_row(row: CaseResult, redactor: Redactor = NO_SECRETS) -> tuple[CaseResult, bytes]:
    """The row as it is recorded, and its line: one physical line of strict JSON, secrets masked.

    No answer can make it fail. The row is the same object when nothing in it had to be masked or replaced.
    """
    line = strict_json.strict_line(row.to_dict())
    if line is None or redactor.finds(line):
        # Only contents are changed: field names and verdicts are ours, whatever a secret is spelled like.
        row = _map_contents(_scored(row), lambda value: redactor.value(strict_json.storable(value)))
        line = strict_json.dump_line(row.to_dict())
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
    data = strict_json.load(line)
    _check(data, _ROW, "row")
    if data["attempt"] < 1 or not 0.0 <= data["score"] <= 1.0:
        raise ValueError("`attempt` counts from 1 and `score` is from 0 to 1")
    if data.get("error") is not None:
        _check(data["error"], _ERROR, "error")
    if data.get("token_usage") is not None:
        _check(data["token_usage"], _USAGE, "token_usage")
    _check_each(data.get("output_messages"), _check_message, "output_messages")
    _check_each(data.get("evaluator_results"), _check_evaluator_result, "evaluator_results")
    try:
        return CaseResult.from_dict(data)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not a row: {error}") from None


_TEXT, _NUMBER, _LIST, _OBJECT = (str,), (int, float), (list,), (dict,)
_NONE = (type(None),)
_Fields = Mapping[str, tuple[tuple[type, ...], bool]]
"""Field -> its types, and whether it must be there."""

_ROW: _Fields = {
    "run_id": (_TEXT, True),
    "eval_id": (_TEXT, True),
    "suite": (_TEXT, True),
    "target": (_TEXT, True),
    "attempt": ((int,), True),
    "score": (_NUMBER, True),
    "verdict": (_TEXT, True),
    "error": (_OBJECT + _NONE, False),
    "candidate_answer": (_TEXT + _NONE, False),
    "output_messages": (_LIST + _NONE, False),
    "hits": (_LIST + _NONE, False),
    "misses": (_LIST + _NONE, False),
    "reasoning": (_TEXT + _NONE, False),
    "evaluator_results": (_LIST + _NONE, False),
    "trace_summary": (_OBJECT + _NONE, False),
    "token_usage": (_OBJECT + _NONE, False),
    "cost_usd": (_NUMBER + _NONE, False),
    "duration_ms": (_NUMBER + _NONE, False),
    "started_at": (_TEXT + _NONE, False),
    "metadata": (_OBJECT + _NONE, False),
    "conversation_id": (_TEXT + _NONE, False),
}
_ERROR: _Fields = {"stage": (_TEXT, True), "message": (_TEXT, True)}
_USAGE: _Fields = {"input": (_NUMBER, False), "output": (_NUMBER, False), "cached": (_NUMBER + _NONE, False)}
_MESSAGE: _Fields = {"role": (_TEXT, True), "tool_calls": (_LIST + _NONE, False)}
_TOOL_CALL: _Fields = {"tool": (_TEXT, True)}
_EVALUATOR_RESULT: _Fields = {
    "name": (_TEXT, True),
    "type": (_TEXT, True),
    "score": (_NUMBER, True),
    "weight": (_NUMBER, True),
    "verdict": (_TEXT, True),
    "error": (_TEXT + _NONE, False),
    "hits": (_LIST + _NONE, False),
    "misses": (_LIST + _NONE, False),
    "warnings": (_LIST + _NONE, False),
    "reasoning": (_TEXT + _NONE, False),
    "details": (_OBJECT + _NONE, False),
    "duration_ms": (_NUMBER + _NONE, False),
    "judge_proxy": (_OBJECT + _NONE, False),
    "evaluator_results": (_LIST + _NONE, False),
}


def _check(data: Any, expected: _Fields, where: str) -> None:
    if type(data) is not dict:
        raise ValueError(f"`{where}` is not an object")
    for name, (types, needed) in expected.items():
        value = data.get(name, data)
        if value is data:
            if needed:
                raise ValueError(f"`{name}` of `{where}` is missing")
        elif type(value) not in types:
            raise ValueError(f"`{name}` of `{where}` is {_kind(value)}")


def _check_each(items: list[Any] | None, check: Callable[[Any, str], None], where: str) -> None:
    for index, item in enumerate(items or ()):
        check(item, f"{where}[{index}]")


def _check_message(data: Any, where: str) -> None:
    _check(data, _MESSAGE, where)
    _check_each(data.get("tool_calls"), lambda call, at: _check(call, _TOOL_CALL, at), f"{where}.tool_calls")


def _check_evaluator_result(data: Any, where: str) -> None:
    _check(data, _EVALUATOR_RESULT, where)
    _check_each(data.get("evaluator_results"), _check_evaluator_result, f"{where}.evaluator_results")


def _kind(value: Any) -> str:
    return "null" if value is None else f"a {cast('type', type(value)).__name__}"
