"""Converts the return value of a handler into the JSON object printed to stdout."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite

from .values import CodeJudgeResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ROUNDING_NOISE = 1e-6
_EXPECTED = "return a mapping with 'score', a CodeJudgeResult, or a number"


class InvalidResultError(ValueError):
    """A handler returned an invalid result."""


def encode_result(value: Any) -> bytes:
    """The result as one line of UTF-8 JSON. Raises InvalidResultError for a score outside 0 to 1."""
    fields = _fields(value)
    if "score" not in fields:
        raise InvalidResultError(f"the result has no 'score', only {sorted(map(str, fields))}; {_EXPECTED}")
    fields["score"] = _score(fields["score"])
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


def _score(score: Any) -> Any:
    """The score, without rounding noise. A score on another scale is an error, never clamped."""
    if isinstance(score, bool) or not isinstance(score, (int, float)):
        shown = json.dumps(score[:80], ensure_ascii=False) if isinstance(score, str) else f"{score!r:.80}"
        raise InvalidResultError(f"score must be a number from 0 to 1, got {shown}")
    try:
        finite = isfinite(score)
    except OverflowError:
        finite = False
    if not finite:
        raise InvalidResultError(
            "score must be a finite number from 0 to 1, got infinity or NaN; check for a division by zero"
        )
    if not -_ROUNDING_NOISE <= score <= 1 + _ROUNDING_NOISE:
        advice = "divide by the maximum of your scale" if score > 1 else "map your scale to 0 (worst) to 1 (best)"
        raise InvalidResultError(f"score must be between 0 and 1, got {score:.12g}; {advice}")
    return score if 0 <= score <= 1 else float(score > 1)


def _strings(name: str, value: Any) -> list[str]:
    strings = [] if value is None else value
    if not isinstance(strings, (list, tuple)) or not all(isinstance(item, str) for item in strings):
        raise InvalidResultError(f"{name!r} must be a list of strings, got {value!r}")
    return list(strings)
