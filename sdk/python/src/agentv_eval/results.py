"""What a handler returns -> the one JSON object on stdout."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite

from .values import CodeJudgeResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_EXPECTED = "return a mapping with 'score', a CodeJudgeResult or a number"


class InvalidResultError(ValueError):
    """A handler returned something that is not a result."""


def encode_result(value: Any) -> bytes:
    """One line of UTF-8 JSON, or `InvalidResultError`. agentv itself clamps a score outside [0, 1]."""
    fields = _fields(value)
    if "score" not in fields:
        raise InvalidResultError(f"the result has no 'score', only {sorted(map(str, fields))}; {_EXPECTED}")
    _check_score(fields["score"])
    for name in ("hits", "misses"):
        fields[name] = _texts(name, fields.get(name))
    reasoning, details = fields.get("reasoning"), fields.get("details")
    if reasoning is not None and not isinstance(reasoning, str):
        raise InvalidResultError(f"'reasoning' must be text, got {reasoning!r}")
    if details is not None and not isinstance(details, Mapping):
        raise InvalidResultError(f"'details' must be a mapping, got {details!r}")
    fields["reasoning"] = reasoning or ""
    fields["details"] = None if details is None else dict(details)
    try:
        text = json.dumps(fields, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidResultError(
            f"the result cannot be written as JSON: {error}; use lists, mappings, text and finite numbers"
        ) from error
    # Half of a surrogate pair has no UTF-8; the score must not be lost because of one broken character.
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
        raise InvalidResultError(
            "'score' must be a finite number, got one that is infinite or NaN; check for a division by zero"
        )


def _texts(name: str, value: Any) -> list[str]:
    texts = [] if value is None else value
    if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) for text in texts):
        raise InvalidResultError(f"{name!r} must be a list of texts, got {value!r}")
    return list(texts)
