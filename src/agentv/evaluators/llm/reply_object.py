"""The one JSON object of a judge's reply, read strictly, mended only where nothing can be misread.

`ReplyError` says what is wrong with a reply, in words that a judge can act on when it is asked again.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from agentv.jsonio import MAX_DEPTH, JsonError, Span, braced, read

LONGEST_REPLY = 1024 * 1024
LONGEST_REPAIR = 32 * 1024
MOST_REPAIR = 8_000_000
"""Quotation marks times characters of what is mended: mending takes time by their product."""
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


class ReplyError(ValueError):
    """A reply that is no verdict."""


def clean(text: str) -> str:
    """Text that can be written as UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def read_object(text: str, finish_reason: str | None = None) -> tuple[dict[str, Any], bool]:
    """The one JSON object of a reply, and whether it had to be mended. Text and a code fence around it are fine."""
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


# -- mending


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
