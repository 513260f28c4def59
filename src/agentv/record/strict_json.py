"""JSON that every strict parser reads: UTF-8, finite numbers, one physical line, nesting within reason.

Values come from models, scripts and suites, so anything may be in them. What JSON cannot hold is replaced by
text that says what it was; a value is never the reason that a result is lost.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Set
from typing import Any

DEEPEST = 200
_HUGE_BITS = 14_000
"""Python refuses to print whole numbers of more than 4,300 digits."""
_NESTED = (dict, list, tuple)
_LINE_BREAKS = {"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")).encode


def dump_line(value: Any) -> str:
    """The value as one line of JSON without its newline; what JSON cannot hold is replaced, never refused."""
    line = strict_line(value)
    return _one_line(_encode(storable(value))) if line is None else line


def dump_pretty(value: Any) -> str:
    """The value as indented JSON, for a file that people read too."""
    return json.dumps(storable(value), ensure_ascii=False, allow_nan=False, indent=2)


def strict_line(value: Any) -> str | None:
    """The value as one line of JSON without its newline, or None when strict JSON cannot hold it as it is."""
    if not _well_formed(value, 0):
        return None
    try:
        line = _one_line(_encode(value))
        if not line.isascii():
            line.encode("utf-8")
    except (ValueError, TypeError):
        return None
    return line


def _one_line(text: str) -> str:
    if not text.isascii():
        for character, escape in _LINE_BREAKS.items():
            text = text.replace(character, escape)
    return text


def _well_formed(value: Any, depth: int) -> bool:
    """Whether nesting is within reason and keys are text: what the encoder would let pass."""
    if isinstance(value, dict):
        if depth >= DEEPEST:
            return False
        for key, item in value.items():
            if type(key) is not str:
                return False
            if isinstance(item, _NESTED) and item and not _well_formed(item, depth + 1):
                return False
    elif isinstance(value, list | tuple):
        if depth >= DEEPEST:
            return False
        for item in value:
            if isinstance(item, _NESTED) and item and not _well_formed(item, depth + 1):
                return False
    return True


def storable(value: Any, depth: int = 0, parents: tuple[int, ...] = ()) -> Any:
    """The value with whatever strict JSON cannot hold replaced by text."""
    if isinstance(value, str):
        return _without_surrogates(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, Mapping | list | tuple | Set):
        if id(value) in parents:
            return "(refers to itself)"
        if depth >= DEEPEST:
            return f"(nested more than {DEEPEST} deep, left out)"
        parents = (*parents, id(value))
        if isinstance(value, Mapping):
            return _mapping(value, depth + 1, parents)
        return [storable(item, depth + 1, parents) for item in value]
    return _without_surrogates(_shown(value))


def _mapping(value: Mapping[Any, Any], depth: int, parents: tuple[int, ...]) -> dict[str, Any]:
    """Text keys keep their names; others become text, numbered where that name is taken."""
    result: dict[str, Any] = {}
    for key, item in sorted(value.items(), key=lambda pair: not isinstance(pair[0], str)):
        wanted = _without_surrogates(key if isinstance(key, str) else _key_text(key))
        name, count = wanted, 1
        while name in result:
            count += 1
            name = f"{wanted} ({count})"
        result[name] = storable(item, depth, parents)
    return result


def _key_text(key: Any) -> str:
    if key is None or isinstance(key, bool | int | float):
        return json.dumps(_number(key) if isinstance(key, float) else key).strip('"')
    return _shown(key)


def _number(value: float) -> float | str:
    if isinstance(value, int):
        bits = value.bit_length()
        return int(value) if bits <= _HUGE_BITS else f"(a whole number of {bits} bits)"
    if math.isfinite(value):
        return float(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception:
        return f"(a {type(value).__name__} that cannot be shown)"


def _without_surrogates(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def load(data: bytes) -> Any:
    """One JSON document, or ValueError: strict UTF-8, no NaN, no duplicate keys, no lone surrogates."""
    try:
        text = data.decode("utf-8")
        value = _decoder.decode(text)
        if _ESCAPED_SURROGATE.search(text):
            _encode(value).encode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from None
    except UnicodeEncodeError:
        raise ValueError("a lone surrogate in a string") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise ValueError("nested too deep") from None
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return result


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_decoder = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse_constant)
