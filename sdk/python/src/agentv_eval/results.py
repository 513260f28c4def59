"""Converts the return value of a handler into the JSON object printed to stdout."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite

from .values import CodeJudgeResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_EXPECTED = "return a mapping with 'score', a CodeJudgeResult, or a number"


class InvalidResultError(ValueError):
    """A handler returned an invalid result."""


def encode_result(value: Any) -> bytes:
    """The result as one line of UTF-8 JSON. Scores outside [0, 1] are clamped by agentv, not here."""
    fields = _fields(value)
    if "score" not in fields:
        raise InvalidResultError(f"the result has no 'score', only {sorted(map(str, fields))}; {_EXPECTED}")
    _check_score(fields["score"])
    for name in ("hits", "misses"):
        fields[name] = _strings(name, fields.get(name))
    reasoning, details = fields.get("reasoning"), fields.get("details")
    if reasoning is not None and not isinstance(reasoning, str):
        raise InvalidResultError(f"'reasoning' must be a string, got {reasoning!r}")
    if details is not None and not isinstance(details, Mapping):
        raise InvalidResultError(f"'details' must be a mapping, got {details!r}")
    fields["reasoning"] = reasoning or ""
    fields["details"] = None if details is None else dict(details)
    try:
        text = json.dumps(fields, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidResultError(
            f"the result cannot be serialized as JSON: {error}; use lists, mappings, strings and finite numbers"
        ) from error
    # An unpaired surrogate cannot be encoded as UTF-8; one broken character must not lose the score.
    return (text + "\n").encode("utf-8", "replace")


def _fields(value: Any) -> dict[str, Any]:
    if isinstance(value, CodeJudgeResult):
        return {name: getattr(value, name) for name in ("score", "hits", "misses", "reasoning", "details")}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (int, float)):
        return {"score": value}
    got = "nothing" if value is None else f"{value!r}"
    raise InvalidResultError(f"the handler returned {got}; {_EXPECTED}")


def _check_score(score: Any) -> None:
    if isinstance(score, bool) or not isinstance(score, (int, float)):
        raise InvalidResultError(f"'score' must be a number, got {score!r} ({type(score).__name__})")
    try:
        finite = isfinite(score)
    except OverflowError:
        finite = False
    if not finite:
        raise InvalidResultError("'score' must be a finite number, got infinity or NaN; check for a division by zero")


def _strings(name: str, value: Any) -> list[str]:
    strings = [] if value is None else value
    if not isinstance(strings, (list, tuple)) or not all(isinstance(item, str) for item in strings):
        raise InvalidResultError(f"{name!r} must be a list of strings, got {value!r}")
    return list(strings)
