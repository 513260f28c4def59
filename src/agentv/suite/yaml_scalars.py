"""Plain scalars by the YAML 1.2 core schema, each able to say how it was written."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

_MAX_DIGITS = 400
"""A longer run of digits is text: nobody counts that far."""
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
"""What a plain scalar that is not text can start with."""


class WrittenInt(int):
    """A whole number that remembers how it was written (`0x1F`, `+5`)."""

    raw: str


class WrittenFloat(float):
    """A number that remembers how it was written (`1.10`, `1e3`)."""

    raw: str


@dataclass(frozen=True, slots=True)
class WrittenBool:
    """`True`, `FALSE`: a boolean until text is wanted, and then what was written."""

    value: bool
    raw: str


def resolve_plain(text: str) -> Any:
    """A plain scalar by the YAML 1.2 core schema; numbers with a leading zero stay text."""
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
    """The number; one that Python would write in another way remembers its text."""
    real = float(text)
    return real if repr(real) == text else _written(real, text)


def _written(real: float, text: str) -> WrittenFloat:
    written = WrittenFloat(real)
    written.raw = text
    return written


def as_written(value: Any) -> Any:
    """A scalar as the text it was written as; anything else unchanged."""
    if isinstance(value, WrittenInt | WrittenFloat):
        return value.raw
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def not_finite(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
