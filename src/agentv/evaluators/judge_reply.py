"""What a judge replied: one JSON object, read strictly, mended only where nothing can be misread.

`ReplyError` says what is wrong with a reply, in words that a judge can act on when it is asked again.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

LONGEST_REPLY = 1024 * 1024
LONGEST_REPAIR = 64 * 1024
DEEPEST = 50
MOST_OBJECTS = 100
CUT = ("length", "max_tokens", "content_filter")
"""Finish reasons of replies that end before their end."""

_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?P<closed>")?|[][{}]', re.DOTALL)
_LIKE_AN_OBJECT = re.compile(r"""\{\s*(?:["']|\w+\s*:)""")
_OPEN_LIST = re.compile(r"\[\s*\Z")
_THOUGHTS = re.compile(r"\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_SCORE = re.compile(
    r"""["']?\bscore["']?\s*:\s*(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?)\s*(?:[}\n]|,\s*(?:["'}\n]|[A-Za-z_])|"|\Z)"""
)


class ReplyError(ValueError):
    """A reply that is no verdict."""


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
    return Check(_clean(name.strip()), satisfied, _text(item, "reasoning", where))


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
        raise ReplyError(f"`score` is {number:g}, which is outside 0 to 1")
    return number


def _texts(data: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = data.get(key)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ReplyError(f"`{key}` is not a list of texts")
    return tuple(_clean(item) for item in value)


def _text(data: Mapping[str, Any], key: str, where: str = "") -> str:
    value = data.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ReplyError(f"`{where + '.' if where else ''}{key}` is {_kind(value)}, not text")
    return _clean(value)


def _clean(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _kind(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "missing", True: "true", False: "false"}[value]
    kinds: tuple[tuple[type, str], ...] = ((str, "text"), (list, "a list"), (dict, "an object"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "a number")


# -- the object


def read_object(text: str, finish_reason: str | None = None) -> tuple[dict[str, Any], bool]:
    """The one JSON object of a reply, and whether it had to be mended. Text and a code fence around it are fine."""
    text = _THOUGHTS.sub("", text, count=1) if text.lstrip()[:6] == "<think" else text
    if not text.strip():
        raise ReplyError("it is empty")
    if len(text) > LONGEST_REPLY:
        raise ReplyError(f"it has {len(text):,} characters, too many for a verdict")
    whole: list[dict[str, Any]] = []
    broken: list[_Span] = []
    for span in _objects(text):
        value = _strict(span.text)
        if value:
            whole.append(value)
        elif value is None and _LIKE_AN_OBJECT.match(span.text):
            broken.append(span)
        else:
            continue  # braces in prose, or an empty object
        if span.in_list:
            raise ReplyError("its JSON object is inside a list")
        if len(whole) + len(broken) > MOST_OBJECTS:
            break
    if not whole and not broken:
        raise ReplyError("there is no JSON object in it")
    if whole and not broken and all(value == whole[0] for value in whole):
        return whole[0], False
    if len(whole) + len(broken) > 1:
        raise ReplyError("there is more than one JSON object in it, and which is the verdict cannot be told")
    return _repaired(broken[0], finish_reason), True


@dataclass(frozen=True, slots=True)
class _Span:
    """From a brace to the brace that closes it, or to the end."""

    text: str
    closed: bool
    in_text: bool = False
    """It ends inside of a text."""
    in_list: bool = False


def _objects(text: str) -> Iterator[_Span]:
    """What stands between braces at the top level. Quotation marks count inside of braces only."""
    at = 0
    while (start := text.find("{", at)) >= 0:
        depth, end, in_text = 0, None, False
        for token in _TOKEN.finditer(text, start):
            mark = token[0]
            if mark[0] == '"':
                in_text = token["closed"] is None
            elif mark in "{[":
                depth += 1
                if depth > DEEPEST:
                    raise ReplyError(f"it is nested more than {DEEPEST} levels deep")
            else:
                depth -= 1
                if depth == 0:
                    end = token.end()
                    break
        yield _Span(
            text[start:end], end is not None, in_text, _OPEN_LIST.search(text, max(0, start - 100), start) is not None
        )
        if end is None:
            return
        at = end


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ReplyError(f"the key `{_clean(twice[:60])}` stands twice in one object")
    return data


def _constant(name: str) -> Any:
    raise ReplyError(f"{name} is not a JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant)


def _strict(text: str) -> dict[str, Any] | None:
    """The object, or None when it is not strict JSON; what is refused whatever else holds raises."""
    try:
        value: dict[str, Any] = _DECODER.decode(text)
    except json.JSONDecodeError:
        return None
    except ReplyError:
        raise
    except ValueError:
        raise ReplyError("it holds a number with thousands of digits") from None
    return value


# -- mending


def _repaired(span: _Span, finish_reason: str | None) -> dict[str, Any]:
    """A broken object, put right when what it says cannot be in doubt."""
    if finish_reason in CUT:
        raise ReplyError("it was cut off before its end; be shorter")
    if len(span.text) > LONGEST_REPAIR:
        raise ReplyError("it is not valid JSON, and too long to be put right")
    if not span.closed and (span.in_text or span.text.rstrip()[-1:] not in ('"', "]", "}")):
        raise ReplyError("its JSON object is not finished")
    from json_repair import repair_json  # noqa: PLC0415 - few replies need it

    try:
        value: Any = repair_json(span.text, return_objects=True, skip_json_loads=True)
    except (ValueError, RecursionError):
        value = None
    # What was mended is read again by the strict rules: no NaN, and nothing that JSON does not have.
    try:
        data = _strict(json.dumps(value, allow_nan=False)) if isinstance(value, dict) else None
    except (TypeError, ValueError):
        data = None
    if not data:
        raise ReplyError("it is not valid JSON")
    _refuse_doubtful_keys(data, span.text)
    return data


def _refuse_doubtful_keys(data: Mapping[str, Any], text: str) -> None:
    """Every key stands as often in the text as in the object: none was dropped because it came twice."""
    for key, count in Counter(_keys(data)).items():
        written = len(re.findall(rf"""(?<!\w)["']?{re.escape(key)}["']?\s*:""", text))
        if written != count:
            raise ReplyError("it is not valid JSON, and what it means is in doubt")


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from value
        for item in value.values():
            yield from _keys(item)
    elif isinstance(value, list):
        for item in value:
            yield from _keys(item)


def _refuse_doubtful_score(data: Mapping[str, Any], text: str) -> None:
    """The number stands in the text as it was read: not `0,9`, not `9/10`."""
    found = _SCORE.search(text)
    if found is None or data["score"] != json.loads(found[1]):
        raise ReplyError("it is not valid JSON, and its `score` is in doubt")


def _refuse_missing(data: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    missing = [key for key in keys if key not in data]
    if missing:
        raise ReplyError(f"it is not valid JSON, and it has no `{missing[0]}`")
