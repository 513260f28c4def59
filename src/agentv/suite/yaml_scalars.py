"""Plain scalars of the YAML 1.2 core schema. Numbers and booleans remember how they were written."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

_MAX_DIGITS = 400
"""A number with more digits is read as text."""
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)\Z")
_HEX_OR_OCTAL = re.compile(r"0x[0-9a-fA-F]+\Z|0o[0-7]+\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}
_FIRST_OF_WORDS = frozenset("~tTfFnN")
MAYBE_TYPED = frozenset("0123456789+-.") | _FIRST_OF_WORDS
"""The first characters of plain scalars that may be something other than text."""


class WrittenInt(int):
    """A whole number that remembers how it was written (`0x1F`, `+5`)."""

    raw: str


class WrittenFloat(float):
    """A number that remembers how it was written (`1.10`, `1e3`)."""

    raw: str


@dataclass(frozen=True, slots=True)
class WrittenBool:
    """A boolean written as `True` or `FALSE`. Where text is expected, it is read as written."""

    value: bool
    raw: str


def resolve_plain(text: str) -> Any:
    """The value of a plain scalar in the YAML 1.2 core schema; numbers with a leading zero are text."""
    if not text or text[0] in _FIRST_OF_WORDS:
        return _WORDS.get(text, text)
    if len(text) > _MAX_DIGITS:
        return text
    if _INT.match(text) or _HEX_OR_OCTAL.match(text):
        number = WrittenInt(text, 0)
        number.raw = text
        return int(number) if str(int(number)) == text else number
    if _FLOAT.match(text):
        return written_float(text)
    return _written(_WORDS[text], text) if text in _WORDS else text


def written_float(text: str) -> float:
    """The number, as a `WrittenFloat` if Python would write it differently."""
    real = float(text)
    return real if repr(real) == text else _written(real, text)


def _written(real: float, text: str) -> WrittenFloat:
    written = WrittenFloat(real)
    written.raw = text
    return written


def as_written(value: Any) -> Any:
    """A scalar as it was written; any other value unchanged."""
    if isinstance(value, WrittenInt | WrittenFloat):
        return value.raw
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def not_finite(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
