"""The parts of a result as AgentV 4 and 5 spell them: lists of checks, each passed or not, and `pass` and `reason`.

AgentV 4 prints `assertions: [{text, passed, evidence?}]`, AgentV 5 prints `checks: [{text, pass, reason, score?,
evidence?}]`, `pass` and `reason`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentv.errors import ScoreError
from agentv.results import valid_score
from agentv.text import kind_of

PASSED = {"checks": "pass", "assertions": "passed"}
"""The lists, in the order in which they are preferred -> the key that says whether an item passed."""


class CheckError(ValueError):
    """A list of checks, or one of them, is not valid. The message names it."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check of a script."""

    text: str
    passed: bool
    score: float
    reason: str = ""
    evidence: str = ""

    @property
    def line(self) -> str:
        """The text, and why: the reason of a failed check, and the evidence."""
        reason = "" if self.passed or self.reason == self.text else self.reason
        return ": ".join(filter(None, (self.text, reason, self.evidence)))


def checks_of(data: Mapping[str, Any]) -> tuple[Check, ...] | None:
    """The checks of a result; None if it has none. Raises CheckError."""
    for key, passed in PASSED.items():
        if (items := data.get(key)) is not None:
            if not isinstance(items, list):
                raise CheckError(f"`{key}` must be a list of objects, got {kind_of(items)}")
            return tuple(_check(item, f"{key}[{at}]", passed) for at, item in enumerate(items))
    return None


def score_of(data: Mapping[str, Any], checks: Sequence[Check] | None) -> float | None:
    """The score that follows from the checks, or else from `pass`; None if there is neither. Raises CheckError."""
    if checks:
        return sum(check.score for check in checks) / len(checks)
    passed = data.get("pass")
    if passed is not None and not isinstance(passed, bool):
        raise CheckError(f"`pass` must be true or false, got {kind_of(passed)}")
    return None if passed is None else float(passed)


def assertions_of(hits: Sequence[str], misses: Sequence[str]) -> list[dict[str, Any]]:
    """A result's hits and misses, as the aggregators of AgentV 4 read them."""
    return [{"text": text, "passed": passed} for items, passed in ((hits, True), (misses, False)) for text in items]


def failures_in(data: Mapping[str, Any]) -> list[str]:
    """Why the checks of a script failed, whatever else the lists contain."""
    said: list[str] = []
    for key, passed in PASSED.items():
        items = data.get(key)
        for item in items if isinstance(items, list) else ():
            if isinstance(item, Mapping) and item.get(passed) is False:
                said += [text for text in (item.get("reason"), item.get("text")) if isinstance(text, str) and text][:1]
    return said


def _check(item: Any, where: str, passed: str) -> Check:
    if not isinstance(item, dict):
        raise CheckError(f"`{where}` must be an object, got {kind_of(item)}")
    text, ok = item.get("text"), item.get(passed)
    if not isinstance(text, str):
        raise CheckError(f"`{where}.text` must be a string, got {kind_of(text)}")
    if not isinstance(ok, bool):
        raise CheckError(f"`{where}.{passed}` must be true or false, got {kind_of(ok)}")
    return Check(text, ok, _score(item, ok, where), _string(item, "reason", where), _string(item, "evidence", where))


def _score(item: Mapping[str, Any], passed: bool, where: str) -> float:
    if item.get("score") is None:
        return float(passed)
    try:
        return valid_score(item["score"])
    except ScoreError as error:
        raise CheckError(f"`{where}`: {error}") from None


def _string(item: Mapping[str, Any], key: str, where: str) -> str:
    value = item.get(key)
    if value is not None and not isinstance(value, str):
        raise CheckError(f"`{where}.{key}` must be a string, got {kind_of(value)}")
    return value or ""
