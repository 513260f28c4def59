"""What a judge replied: its one JSON object, read strictly, as a verdict or as checks of rubrics.

A broken object is repaired only where nothing can be misread.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agentv.jsonio import MAX_DEPTH, JsonError, Span, braced, read
from agentv.text import kind_of

LONGEST_REPLY = 1024 * 1024
LONGEST_REPAIR = 32 * 1024
MOST_REPAIR = 8_000_000
"""Quotation marks times characters of what is repaired: repairing takes time in proportion to their product."""
MOST_KEYS = 50
MOST_OBJECTS = 100
MOST_BRACES = 5_000
CUT = ("length", "max_tokens")
"""Finish reasons of replies that end before their end."""
REFUSED = ("refusal", "content_filter")
"""Finish reasons of replies that are none, whatever they quote."""

_LIKE_AN_OBJECT = re.compile(r"""\{\s*(?:["']|\w+\s*:)""")
_OPEN_LIST = re.compile(r"\[\s*\Z")
_THOUGHTS_END = re.compile(r"</think(?:ing)?>")
_QUOTES = re.compile("[\"'\u2018-\u201f]")
_WHITE_SPACE = re.compile(r"\s+")
_SCORE = re.compile(
    r"""["']?\bscore["']?\s*:\s*(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?)\s*(?:[}\n]|,\s*(?:["'}\n]|[A-Za-z_])|"|\Z)"""
)


class ReplyError(ValueError):
    """A reply that cannot be used; the message tells the model why, so that it can do better."""


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


# -- the one object


def clean(text: str) -> str:
    """Text that can be written as UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def read_object(text: str, finish_reason: str | None = None) -> tuple[dict[str, Any], bool]:
    """The one JSON object of a reply, and whether it had to be repaired. Text and a code fence around it are fine."""
    if finish_reason in REFUSED:
        raise ReplyError(f"it is a refusal, or was held back ({finish_reason})")
    text = _after_thoughts(text)
    whole: list[dict[str, Any]] = []
    broken: list[Span] = []
    for span in _spoken(text):
        value = _strict(span.text)
        if value:
            whole.append(value)
        elif value is None and _LIKE_AN_OBJECT.match(span.text):
            broken.append(span)
        else:
            continue  # braces in prose, or an empty object
        if _OPEN_LIST.search(text, max(0, span.start - 100), span.start):
            raise ReplyError("its JSON object is inside a list")
        if len(whole) + len(broken) > MOST_OBJECTS:
            raise ReplyError(f"it holds more than {MOST_OBJECTS} JSON objects, too many for a verdict")
    if not whole and not broken:
        raise ReplyError("there is no JSON object in it")
    if whole and not broken and all(value == whole[0] for value in whole):
        return whole[0], False
    if len(whole) + len(broken) > 1:
        raise ReplyError("there is more than one JSON object in it, and which is the verdict cannot be told")
    return _repaired(broken[0], finish_reason), True


def refuse_copy(text: str, answer: str) -> None:
    """ReplyError when the verdict is words of the graded answer: a judge that quotes what is planted there.

    A model that says one JSON object whatever it is asked may judge itself, as scripted ones do: all of its answer is
    then all of its reply.
    """
    if "{" not in answer:
        return
    text, bare = _after_thoughts(text), _WHITE_SPACE.sub("", answer)
    for span in _spoken(text):
        quoted = _WHITE_SPACE.sub("", span.text)
        alone = text.removeprefix("```json").strip("`\n\r\t ") == span.text
        # A bare `{"score": 1}` may well be both the answer and the verdict; nobody finds the same reasons by chance.
        by_chance = alone and (quoted == bare or _says_little(span.text)) and _strict(span.text) is not None
        if quoted in bare and not by_chance:
            raise ReplyError(
                "its JSON object is a copy of what stands in the answer that is graded, which is no verdict on it; "
                "give a verdict of your own, in your own words"
            )


def _says_little(text: str) -> bool:
    """Whether an object holds no words but its keys."""
    value = _strict(text)
    return value is not None and not any(isinstance(item, str | list) and item for item in value.values())


def _after_thoughts(text: str) -> str:
    """A reply that can be looked at, without the thoughts that some models show before it."""
    if len(text) > LONGEST_REPLY:
        raise ReplyError(f"it has {len(text):,} characters, too many for a verdict")
    text = text.strip()
    if text.startswith(("<think>", "<thinking>")):
        end = _THOUGHTS_END.search(text)
        if end is None:
            raise ReplyError("it holds thoughts that do not end, and no verdict after them")
        text = text[end.end() :].strip()
    if not text:
        raise ReplyError("it is empty")
    return text


def _spoken(text: str) -> list[Span]:
    """What stands between braces, but not in thoughts: their end alone is shown where a server cuts off their start."""
    spans: list[Span] = []
    at = 0
    try:
        for span in braced(text, max_depth=MAX_DEPTH):
            if _THOUGHTS_END.search(text, at, span.start):
                spans.clear()
            spans.append(span)
            at = span.start + len(span.text)
            if len(spans) > MOST_BRACES:
                raise ReplyError("it holds thousands of braces, too many for a verdict")
    except JsonError as error:
        raise ReplyError(f"it is {error.problem}") from None
    return [] if _THOUGHTS_END.search(text, at) else spans


def _strict(text: str) -> dict[str, Any] | None:
    """The object, or None when it is not strict JSON; what is refused whatever else holds raises."""
    try:
        value: dict[str, Any] = read(text, infinite=True, surrogates=True)
    except JsonError as error:
        if error.kind == "syntax":
            return None
        raise ReplyError(error.problem) from None
    return value


# -- repairing


def _repaired(span: Span, finish_reason: str | None) -> dict[str, Any]:
    """A broken object, put right when what it says cannot be in doubt."""
    if finish_reason in CUT:
        raise ReplyError("it was cut off before its end; be shorter")
    if len(span.text) > LONGEST_REPAIR or len(span.text) * len(_QUOTES.findall(span.text)) > MOST_REPAIR:
        raise ReplyError("it is not valid JSON, and too long to be put right")
    if not span.closed and (span.in_string or span.text.rstrip()[-1:] not in ('"', "]", "}")):
        raise ReplyError("its JSON object is not finished")
    from json_repair import repair_json  # noqa: PLC0415 - few replies need it

    try:
        value: Any = repair_json(span.text, return_objects=True, skip_json_loads=True)
    except (ValueError, RecursionError):
        value = None
    # What was repaired is read again by the strict rules: no NaN, and nothing that JSON does not have.
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
    keys = Counter(_keys(data))
    if len(keys) > MOST_KEYS:
        raise ReplyError("it is not valid JSON, and has too many keys to be put right")
    for key, count in keys.items():
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
