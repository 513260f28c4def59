"""The rules for a judge script's stdout, as a simple reference implementation that checks the vectors."""

from __future__ import annotations

import json
import math
from typing import Any


class ResultError(Exception):
    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


def read_result(stdout: str) -> dict[str, Any]:
    found = list(_objects(stdout))
    if not found:
        raise ResultError("no_json")
    if len(found) > 1:
        raise ResultError("second_object")
    fields = found[0]
    checks = _checks(fields)
    score = fields.get("score", _score(fields, checks))
    if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
        raise ResultError("invalid_score")
    if not -1e-6 <= score <= 1 + 1e-6:
        raise ResultError("invalid_score")
    hits, misses = fields.get("hits") or [], fields.get("misses") or []
    reason = fields.get("reason")
    reasoning = fields.get("reasoning") or (reason if isinstance(reason, str) else "")
    details = fields.get("details")
    for strings in (hits, misses):
        if not isinstance(strings, list) or not all(isinstance(item, str) for item in strings):
            raise ResultError("invalid_type")
    if not isinstance(reasoning, str) or not (details is None or isinstance(details, dict)):
        raise ResultError("invalid_type")
    return {
        "score": min(1.0, max(0.0, score)),
        "hits": [*hits, *(line for line, passed, _ in checks if passed)],
        "misses": [*misses, *(line for line, passed, _ in checks if not passed)],
        "reasoning": reasoning,
        "details": details,
    }


def _checks(fields: dict[str, Any]) -> list[tuple[str, bool, float]]:
    """The line, whether it passed, and the score of each check. Beside a score, an invalid list is other data."""
    key, passed = ("checks", "pass") if fields.get("checks") is not None else ("assertions", "passed")
    checks = []
    found: Any = fields.get(key) or []
    items: list[Any] = found if isinstance(found, list) else [None]
    for item in items:
        if not _is_check(item, passed):
            if "score" in fields:
                return []
            raise ResultError("invalid_type")
        text, ok, score = item["text"], item[passed], item.get("score")
        why = item.get("reason") if not ok and item.get("reason") != text else ""
        line = ": ".join(filter(None, (text, why, item.get("evidence"))))
        checks.append((line, ok, float(ok) if score is None else score))
    return checks


def _is_check(item: Any, passed: str) -> bool:
    if not isinstance(item, dict) or not isinstance(item.get("text"), str) or not isinstance(item.get(passed), bool):
        return False
    return item.get("score") is None or 0 <= item["score"] <= 1


def _score(fields: dict[str, Any], checks: list[tuple[str, bool, float]]) -> Any:
    if checks:
        return sum(score for *_, score in checks) / len(checks)
    passed = fields.get("pass")
    if "score" not in fields and passed is not None and not isinstance(passed, bool):
        raise ResultError("invalid_type")
    return None if passed is None else float(passed)


def _objects(stdout: str) -> Any:
    """Objects that begin a line, with only white space or another object after them on their last line."""
    decoder = json.JSONDecoder(object_pairs_hook=_unique)
    position = 0
    while position < len(stdout):
        line_end = (stdout.find("\n", position) + 1) or len(stdout)
        if stdout[position] != "{":
            position = line_end
            continue
        try:
            value, end = decoder.raw_decode(stdout, position)
        except json.JSONDecodeError:
            position = line_end
            continue
        line_end = (stdout.find("\n", end) + 1) or len(stdout)
        rest = stdout[end:line_end].strip()
        if not rest or rest.startswith("{"):
            yield value
        position = end if rest.startswith("{") else line_end


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ResultError("duplicate_key")
    return fields
