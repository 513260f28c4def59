"""Parse a judge's reply: one JSON object, read strictly, as a verdict or as checks of rubrics.

A malformed object is repaired only where its meaning is unambiguous.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from agentv.jsonio import MAX_DEPTH, JsonError, Span, braced, read
from agentv.results import CUT_OFF
from agentv.text import kind_of

T = TypeVar("T")

TRUNCATED = "it was truncated; write a shorter reply"
LONGEST_REPLY = 1024 * 1024
PLAIN_LENGTH = 8_000
LONGEST_REPAIR = 32 * 1024
MOST_REPAIR = 8_000_000
"""Limit on quotation marks times characters: the time to repair an object is proportional to this product."""
MOST_KEYS = 50
MOST_OBJECTS = 100
MOST_BRACES = 5_000
REFUSED = ("refusal", "content_filter")
"""Finish reasons of refused or filtered replies, which are never verdicts, whatever they quote."""

_LIKE_AN_OBJECT = re.compile(r"""\{\s*(?:["']|\w+\s*:)""")
_OPEN_LIST = re.compile(r"\[\s*\Z")
_THOUGHTS_END = re.compile(r"</think(?:ing)?>")
_QUOTES = re.compile("[\"'\u2018-\u201f]")
_WHITE_SPACE = re.compile(r"\s+")
_SCORE = re.compile(
    r"""["']?\bscore["']?\s*:\s*(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?)\s*(?:[}\n]|,\s*(?:["'}\n]|[A-Za-z_])|"|\Z)"""
)


class ReplyError(ValueError):
    """A reply cannot be used. The message is sent back to the model, so that it can correct its reply."""


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
    """A judge's verdict on one rubric."""

    id: str
    satisfied: bool
    reasoning: str = ""
    points: int | None = None
    """The score from 0 to 10, if the criteria are scored."""


@dataclass(frozen=True, slots=True)
class JudgeChecks:
    """A reply with rubrics: the checks exactly as the judge returned them."""

    checks: tuple[Check, ...]
    reasoning: str = ""
    repaired: bool = False


def read_verdict(text: str, finish_reason: str | None = None) -> JudgeVerdict:
    """Parse `{"score", "hits", "misses", "reasoning"}`. Only the score is required."""
    data, repaired = read_object(text, finish_reason)
    if repaired:
        _refuse_missing(data, ("score", "hits", "misses", "reasoning"))
        _refuse_doubtful_score(data, text)
    return JudgeVerdict(
        _score(data), _texts(data, "hits"), _texts(data, "misses"), _text(data, "reasoning"), repaired=repaired
    )


def read_checks(text: str, finish_reason: str | None = None) -> JudgeChecks:
    """Parse `{"checks": ..., "overall_reasoning"}`, with the checks as `{ID: {"satisfied", "reasoning"}}` or as a list
    `[{"id", "satisfied", "reasoning"}]`.
    """
    return _read_checks(text, finish_reason, _check)


def read_points(text: str, finish_reason: str | None = None) -> JudgeChecks:
    """Parse the same with `score`, a whole number from 0 to 10, in place of `satisfied`."""
    return _read_checks(text, finish_reason, _points)


def _read_checks(text: str, finish_reason: str | None, read_one: Callable[[Any, str], Check]) -> JudgeChecks:
    data, repaired = read_object(text, finish_reason)
    if repaired:
        _refuse_missing(data, ("checks", "overall_reasoning"))
    return JudgeChecks(
        tuple(read_one(item, where) for item, where in _checks(data)),
        _text(data, "overall_reasoning"),
        repaired=repaired,
    )


def _checks(data: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    """The checks as objects with an `id`, each with its place in the reply."""
    checks = data.get("checks")
    if isinstance(checks, list):
        yield from ((item, f"checks[{number}]") for number, item in enumerate(checks))
    elif isinstance(checks, dict):
        for name, item in checks.items():
            where = f"checks.{clean(name)[:60]}"
            if not isinstance(item, dict):
                raise ReplyError(f"`{where}` must be an object with `satisfied`, got {_kind(item)}")
            yield {**item, "id": name}, where
    else:
        actual = "nothing" if "checks" not in data else _kind(checks)
        raise ReplyError(f"`checks` must be an object with one entry per criterion, got {actual}")


def _named(item: Any, where: str, key: str) -> tuple[str, Any]:
    """The id of a check, and its value under a key."""
    if not isinstance(item, dict):
        raise ReplyError(f"`{where}` must be an object with `id` and `{key}`, got {_kind(item)}")
    name = item.get("id")
    if not isinstance(name, str):
        raise ReplyError(f"`{where}.id` must be the id of a criterion, got {_kind(name)}")
    return name, item.get(key)


def _check(item: Any, where: str) -> Check:
    name, satisfied = _named(item, where, "satisfied")
    if not isinstance(satisfied, bool):
        raise ReplyError(f"`{where}.satisfied` must be true or false, got {_kind(satisfied)}")
    return Check(clean(name.strip()), satisfied, _text(item, "reasoning", where))


def _points(item: Any, where: str) -> Check:
    name, points = _named(item, where, "score")
    if isinstance(points, bool) or not isinstance(points, int | float) or points not in range(11):
        raise ReplyError(f"`{where}.score` must be a whole number from 0 to 10, got {_kind(points)}")
    return Check(clean(name.strip()), points >= 7, _text(item, "reasoning", where), int(points))


def _score(data: Mapping[str, Any]) -> float:
    if "score" not in data:
        raise ReplyError("`score` is missing; it must be a number from 0 to 1")
    score = data["score"]
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise ReplyError(f"`score` must be a number from 0 to 1, got {_kind(score)}")
    try:
        number = float(score)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or not 0.0 <= number <= 1.0:
        raise ReplyError(f"`score` must be from 0 to 1, got {number:.12g}")
    return number + 0.0  # never -0.0


def _texts(data: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = data.get(key)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ReplyError(f"`{key}` must be a list of strings")
    return tuple(clean(item) for item in value)


def _text(data: Mapping[str, Any], key: str, where: str = "") -> str:
    value = data.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ReplyError(f"`{where + '.' if where else ''}{key}` must be a string, got {_kind(value)}")
    return clean(value)


def _kind(value: Any) -> str:
    return "nothing" if value is None else kind_of(value)


def _refuse_doubtful_score(data: Mapping[str, Any], text: str) -> None:
    """Reject a repaired score that differs from the number in the text, such as `0,9` or `9/10`."""
    match = _SCORE.search(text)
    if match is None or data["score"] != json.loads(match[1]):
        raise ReplyError("it is not valid JSON, and its `score` is ambiguous")


def _refuse_missing(data: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    missing = [key for key in keys if key not in data]
    if missing:
        raise ReplyError(f"it is not valid JSON, and `{missing[0]}` is missing")


# -- finding the object


def clean(text: str) -> str:
    """Replace characters that cannot be encoded as UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def read_object(text: str, finish_reason: str | None = None) -> tuple[dict[str, Any], bool]:
    """Return the only JSON object of a reply, and whether it was repaired. Text around it is ignored."""
    if finish_reason in REFUSED:
        raise ReplyError(f"it was refused or filtered ({finish_reason})")
    whole, broken = _objects(_after_thoughts(text))
    if not whole and not broken:
        raise ReplyError("it does not contain a JSON object")
    values = [value for value, _ in whole]
    if whole and not broken and all(value == values[0] for value in values):
        return values[0], False
    if len(whole) + len(broken) > 1:
        raise ReplyError("it contains more than one JSON object, so it is unclear which one is the verdict")
    return _repaired(broken[0], finish_reason), True


def _objects(text: str) -> tuple[list[tuple[dict[str, Any], Span]], list[Span]]:
    """The JSON objects in a text, and the spans that look like one but are malformed."""
    whole: list[tuple[dict[str, Any], Span]] = []
    broken: list[Span] = []
    for span in _spoken(text):
        value = _strict(span.text)
        if value:
            whole.append((value, span))
        elif value is None and _LIKE_AN_OBJECT.match(span.text):
            broken.append(span)
        else:
            continue  # braces in prose, or an empty object
        if _OPEN_LIST.search(text, max(0, span.start - 100), span.start):
            raise ReplyError("its JSON object is inside a list")
        if len(whole) + len(broken) > MOST_OBJECTS:
            raise ReplyError(f"it contains more than {MOST_OBJECTS} JSON objects, too many for a verdict")
    return whole, broken


def refuse_copy(text: str, answer: str) -> None:
    """Raise ReplyError when the verdict is copied from the graded answer, as in a prompt injection.

    One exception: a model that replies with the same JSON object to everything, such as a scripted one, can judge
    itself. Its whole answer is then its whole reply.
    """
    if "{" not in answer:
        return
    text, bare = _after_thoughts(text), _WHITE_SPACE.sub("", answer)
    whole, broken = _objects(text)
    # Several objects are a verdict only if they are equal, so most of them are the same.
    spans = {_WHITE_SPACE.sub("", span.text): span for span in [*(span for _, span in whole), *broken]}
    for quoted, span in spans.items():
        alone = text.removeprefix("```json").strip("`\n\r\t ") == span.text
        # A bare `{"score": 1}` can be both the answer and the verdict; identical reasons are not a coincidence.
        by_chance = alone and (quoted == bare or _says_little(span.text)) and _strict(span.text) is not None
        if quoted in bare and not by_chance:
            raise ReplyError(
                "its JSON object is copied from the graded answer, which is not a verdict; "
                "give your own verdict, in your own words"
            )


def is_plain(text: str) -> bool:
    """Whether a reply is short and nothing but a JSON object, so that it is parsed without searching or repairing."""
    if len(text) > PLAIN_LENGTH:
        return False
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def read_and_compare(read: Callable[[str, str | None], T], text: str, finish_reason: str | None, graded: str) -> T:
    """Parse a reply with `read`, and raise ReplyError if it is copied from the graded text. Can take seconds."""
    value = read(text, finish_reason)
    refuse_copy(text, graded)
    return value


def _says_little(text: str) -> bool:
    """Whether an object contains no text besides its keys."""
    value = _strict(text)
    return value is not None and not any(isinstance(item, str | list) and item for item in value.values())


def _after_thoughts(text: str) -> str:
    """Return the reply without the thinking block that some models put before it."""
    if len(text) > LONGEST_REPLY:
        raise ReplyError(f"it has {len(text):,} characters, too many for a verdict")
    text = text.strip()
    if text.startswith(("<think>", "<thinking>")):
        end = _THOUGHTS_END.search(text)
        if end is None:
            raise ReplyError("its thinking block is not closed, and no verdict follows")
        text = text[end.end() :].strip()
    if not text:
        raise ReplyError("it is empty")
    return text


def _spoken(text: str) -> list[Span]:
    """Return the spans between braces outside of thinking blocks, including blocks whose start tag was cut off."""
    spans: list[Span] = []
    at = 0
    try:
        for span in braced(text, max_depth=MAX_DEPTH):
            if _THOUGHTS_END.search(text, at, span.start):
                spans.clear()
            spans.append(span)
            at = span.start + len(span.text)
            if len(spans) > MOST_BRACES:
                raise ReplyError("it contains thousands of braces, too many for a verdict")
    except JsonError as error:
        raise ReplyError(f"it is {error.problem}") from None
    return [] if _THOUGHTS_END.search(text, at) else spans


def _strict(text: str) -> dict[str, Any] | None:
    """Return the object, or None on a syntax error. Other violations, such as duplicate keys, raise ReplyError."""
    try:
        value: dict[str, Any] = read(text, infinite=True, surrogates=True)
    except JsonError as error:
        if error.kind == "syntax":
            return None
        raise ReplyError(error.problem) from None
    return value


# -- repairing


def _repaired(span: Span, finish_reason: str | None) -> dict[str, Any]:
    """Repair a malformed object whose meaning is unambiguous."""
    if finish_reason in CUT_OFF:
        raise ReplyError(TRUNCATED)
    if len(span.text) > LONGEST_REPAIR or len(span.text) * len(_QUOTES.findall(span.text)) > MOST_REPAIR:
        raise ReplyError("it is not valid JSON, and too long to repair")
    if not span.closed and (span.in_string or span.text.rstrip()[-1:] not in ('"', "]", "}")):
        raise ReplyError("its JSON object is incomplete")
    from json_repair import repair_json  # noqa: PLC0415 - few replies need it

    try:
        value: Any = repair_json(span.text, return_objects=True, skip_json_loads=True)
    except (ValueError, RecursionError):
        value = None
    # Parse the repaired object again strictly: it must not contain NaN or anything else outside of JSON.
    try:
        data = _strict(json.dumps(value, allow_nan=False)) if isinstance(value, dict) else None
    except (TypeError, ValueError):
        data = None
    if not data:
        raise ReplyError("it is not valid JSON")
    _refuse_doubtful_keys(data, span.text)
    return data


def _refuse_doubtful_keys(data: Mapping[str, Any], text: str) -> None:
    """Reject an object in which a key occurs more often in the text, because the repair dropped a duplicate."""
    keys = Counter(_keys(data))
    if len(keys) > MOST_KEYS:
        raise ReplyError("it is not valid JSON, and has too many keys to repair")
    for key, count in keys.items():
        written = len(re.findall(rf"""(?<!\w)["']?{re.escape(key)}["']?\s*:""", text))
        if written != count:
            raise ReplyError("it is not valid JSON, and its meaning is ambiguous")


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from value
        for item in value.values():
            yield from _keys(item)
    elif isinstance(value, list):
        for item in value:
            yield from _keys(item)
