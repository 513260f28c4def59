"""What a judge replied: the object in it as a verdict, or as checks of rubrics, each value of the right kind."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentv.evaluators.llm.reply_object import ReplyError, clean, read_object
from agentv.text import kind_of

_SCORE = re.compile(
    r"""["']?\bscore["']?\s*:\s*(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?)\s*(?:[}\n]|,\s*(?:["'}\n]|[A-Za-z_])|"|\Z)"""
)


@dataclass(frozen=True, slots=True)
class JudgeVerdict:
    """A reply without rubrics."""

    score: float
    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    reasoning: str = ""
    repaired: bool = False


@dataclass(frozen=True, slots=True)
class Check:
    """What a judge says about one rubric."""

    id: str
    satisfied: bool
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class JudgeChecks:
    """A reply with rubrics: the checks as they were given."""

    checks: tuple[Check, ...]
    reasoning: str = ""
    repaired: bool = False


def read_verdict(text: str, finish_reason: str | None = None) -> JudgeVerdict:
    """`{"score", "hits", "misses", "reasoning"}`; only the score must be there."""
    data, repaired = read_object(text, finish_reason)
    if repaired:
        _refuse_missing(data, ("score", "hits", "misses", "reasoning"))
        _refuse_doubtful_score(data, text)
    return JudgeVerdict(
        _score(data), _texts(data, "hits"), _texts(data, "misses"), _text(data, "reasoning"), repaired=repaired
    )


def read_checks(text: str, finish_reason: str | None = None) -> JudgeChecks:
    """`{"checks": [{"id", "satisfied", "reasoning"}], "overall_reasoning"}`."""
    data, repaired = read_object(text, finish_reason)
    if repaired:
        _refuse_missing(data, ("checks", "overall_reasoning"))
    checks = data.get("checks")
    if not isinstance(checks, list):
        said = "has no `checks`" if "checks" not in data else f"has `checks` that are {_kind(checks)}"
        raise ReplyError(f"it {said}; `checks` must be a list with one object for every criterion")
    return JudgeChecks(
        tuple(_check(item, f"checks[{number}]") for number, item in enumerate(checks)),
        _text(data, "overall_reasoning"),
        repaired=repaired,
    )


def _check(item: Any, where: str) -> Check:
    if not isinstance(item, dict):
        raise ReplyError(f"`{where}` is {_kind(item)}, not an object with `id` and `satisfied`")
    name, satisfied = item.get("id"), item.get("satisfied")
    if not isinstance(name, str):
        raise ReplyError(f"`{where}.id` is {_kind(name)}, not the id of a criterion")
    if not isinstance(satisfied, bool):
        raise ReplyError(f"`{where}.satisfied` is {_kind(satisfied)}, not true or false")
    return Check(clean(name.strip()), satisfied, _text(item, "reasoning", where))


def _score(data: Mapping[str, Any]) -> float:
    if "score" not in data:
        raise ReplyError("it has no `score`; give a number from 0 to 1")
    score = data["score"]
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise ReplyError(f"`score` is {_kind(score)}, not a number from 0 to 1")
    try:
        number = float(score)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or not 0.0 <= number <= 1.0:
        raise ReplyError(f"`score` is {number:.12g}, which is outside 0 to 1")
    return number + 0.0  # never -0.0


def _texts(data: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = data.get(key)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ReplyError(f"`{key}` is not a list of texts")
    return tuple(clean(item) for item in value)


def _text(data: Mapping[str, Any], key: str, where: str = "") -> str:
    value = data.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ReplyError(f"`{where + '.' if where else ''}{key}` is {_kind(value)}, not text")
    return clean(value)


def _kind(value: Any) -> str:
    return "missing" if value is None else kind_of(value)


def _refuse_doubtful_score(data: Mapping[str, Any], text: str) -> None:
    """The number stands in the text as it was read: not `0,9`, not `9/10`."""
    found = _SCORE.search(text)
    if found is None or data["score"] != json.loads(found[1]):
        raise ReplyError("it is not valid JSON, and its `score` is in doubt")


def _refuse_missing(data: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    missing = [key for key in keys if key not in data]
    if missing:
        raise ReplyError(f"it is not valid JSON, and it has no `{missing[0]}`")
