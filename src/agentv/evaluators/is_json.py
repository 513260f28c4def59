"""`is_json`: the whole answer is one strict JSON value. Also the strict reader other evaluators share."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Literal, NamedTuple

from agentv.evaluators.base import EvaluationContext, Evaluator
from agentv.evaluators.text import LONGEST_QUOTE, quoted
from agentv.results import Score

MAX_DEPTH = 500
"""Deeper than any data. Fixed, so that the verdict does not depend on how full the stack happens to be."""
MAX_DIGITS = 4_000

# An unclosed string runs to the end instead of failing, so that one pass is enough for any text.
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_TOKEN = re.compile(rf"{_STRING.pattern}|[][{{}}]|NaN|-?Infinity", re.DOTALL)
_BRACKET = re.compile(r"[][{}]")
_STEP = {"[": 1, "{": 1, "]": -1, "}": -1}
_COLON = re.compile(r"[ \t\r\n]*:")


class NotJsonError(ValueError):
    """A text is not one strict JSON value: what is wrong, and where."""


class IsJson(Evaluator):
    """The whole answer is one strict JSON value; white space around it is fine."""

    WAITS = False

    type: Literal["is_json"] = "is_json"

    async def evaluate(self, context: EvaluationContext) -> Score:
        try:
            read_json(context.candidate.answer)
        except NotJsonError as error:
            return Score(0.0, (), (f"is not JSON: {error}",), f"the answer is not JSON: {error}")
        return Score(1.0, ("is JSON",), (), "the whole answer is one JSON value")


def read_json(text: str) -> Any:
    """The value of a text that is one JSON value and nothing else; `NotJsonError` says where it is not.

    Refused besides bad syntax: NaN, Infinity, a key twice in one object, bottomless nesting, endless digits.
    """
    if not text.strip():
        raise NotJsonError("it is empty")
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
        deepest = next(trouble for trouble in _troubles(text) if trouble.too_deep)
        raise NotJsonError(deepest.at(text))
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise NotJsonError(_syntax(text, error)) from None
    except _RefusedError as error:
        found = next(_troubles(text), None)
        raise NotJsonError(found.at(text) if found else str(error)) from None
    except RecursionError:
        raise NotJsonError("it is nested too deeply") from None


class _RefusedError(Exception):
    """Raised by the decoder's hooks, which do not know where they are."""


class _Trouble(NamedTuple):
    offset: int
    message: str
    too_deep: bool = False

    def at(self, text: str) -> str:
        line = text.count("\n", 0, self.offset) + 1
        column = self.offset - text.rfind("\n", 0, self.offset)
        return f"{self.message} at line {line}, column {column}"


def _syntax(text: str, error: json.JSONDecodeError) -> str:
    if error.msg == "Extra data":
        problem = "more text after the JSON value"
    else:
        problem = f"{error.msg[:1].lower()}{error.msg[1:]}"
    fence = "; the answer is wrapped in a code fence (```)" if text.lstrip().startswith("```") else ""
    return f"{_Trouble(error.pos, problem).at(text)}{fence}"


def _depth(text: str) -> int:
    return max(accumulate(map(_STEP.__getitem__, _BRACKET.findall(_STRING.sub("", text)))), default=0)


def _troubles(text: str) -> Iterator[_Trouble]:
    """What a lenient reader lets through and a strict one refuses, in the order of the text."""
    open_objects: list[set[str] | None] = []
    for token in _TOKEN.finditer(text):
        start, written = token.start(), token.group()
        if written in ("{", "["):
            open_objects.append(set() if written == "{" else None)
            if len(open_objects) > MAX_DEPTH:
                yield _Trouble(start, f"nested more than {MAX_DEPTH} levels deep", too_deep=True)
                return
        elif written in ("}", "]"):
            del open_objects[-1:]
        elif written[0] != '"':
            yield _Trouble(start, f"{written} is not a JSON number")
        elif open_objects and (keys := open_objects[-1]) is not None and _COLON.match(text, token.end()):
            key = _key(written)
            if key in keys:
                shown = f"the key {quoted(key)}" if len(key) <= LONGEST_QUOTE else "a key"
                yield _Trouble(start, f"{shown} occurs twice in one object")
            keys.add(key)


def _key(written: str) -> str:
    try:
        return str(json.loads(written))
    except ValueError:
        return written


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        raise _RefusedError("a key occurs twice in one object")
    return data


def _constant(name: str) -> Any:
    raise _RefusedError(f"{name} is not a JSON number")


def _whole_number(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise _RefusedError(f"a number has more than {MAX_DIGITS:,} digits")
    return int(digits)


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant, parse_int=_whole_number)
