"""Converts what a one-line check returns into the result of a judge: True, a number, or a mapping with a score."""

from __future__ import annotations

from collections.abc import Mapping

from .results import InvalidResultError, encode_result
from .values import CodeJudgeResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

EXPECTED = (
    "return True or False (for example with `bool(...)`), a number from 0 to 1, or a mapping with 'score' or 'pass'"
)


def encode_check(value: Any, label: str, threshold: float) -> bytes:
    """The result as one line of JSON. `label` names the check in hits and misses, split at `threshold`."""
    value = _plain(value)
    if isinstance(value, bool):
        return _counted(float(value), f"{label} is {str(value).lower()}", passed=value)
    if isinstance(value, (int, float)):
        return _counted(value, f"{label} is {value:.6g}", passed=value >= threshold)
    if isinstance(value, CodeJudgeResult):
        return encode_result(value)
    if isinstance(value, Mapping):
        return encode_result(_from_mapping(dict(value), threshold))
    raise InvalidResultError(f"the check returned {_shown(value)}; {EXPECTED}")


def _plain(value: Any) -> Any:
    """A number or bool of numpy as one of Python."""
    return value.item() if type(value).__module__ == "numpy" and hasattr(value, "item") else value


def _counted(score: float, text: str, *, passed: bool) -> bytes:
    found = {"hits": [text]} if passed else {"misses": [text]}
    return encode_result({"score": score, **found})


def _from_mapping(fields: dict[str, Any], threshold: float) -> dict[str, Any]:
    """The fields of a judge's result, with `pass` and `reason` as `score` and `reasoning`."""
    passed, reason = fields.pop("pass", None), fields.pop("reason", None)
    if passed is not None and not isinstance(passed, bool):
        raise InvalidResultError(f"'pass' must be True or False, got {passed!r:.80}")
    if reason is not None and not isinstance(reason, str):
        raise InvalidResultError(f"'reason' must be a string, got {reason!r:.80}")
    score = _plain(fields.get("score"))
    if score is None and passed is None:
        raise InvalidResultError(f"the mapping has neither 'score' nor 'pass', only {sorted(map(str, fields))}")
    if score is None:
        score = float(bool(passed))
    elif isinstance(score, bool):
        score = float(score)
    fields["score"] = score
    if passed is not None and isinstance(score, (int, float)) and passed != (score >= threshold):
        side = "below" if score < threshold else "not below"
        raise InvalidResultError(
            f"'pass' is {passed}, but the score {score:.6g} is {side} the threshold {threshold:g}; "
            "return only one of them, or set `threshold` of the evaluator"
        )
    if reason:
        fields["reasoning"] = fields.get("reasoning") or reason
        if not fields.get("hits") and not fields.get("misses"):
            at_least = isinstance(score, (int, float)) and score >= threshold
            fields["hits" if at_least else "misses"] = [reason]
    return fields


def _shown(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, str):
        return f"the string {value[:60]!r}"
    return f"a value of type {type(value).__name__}"
