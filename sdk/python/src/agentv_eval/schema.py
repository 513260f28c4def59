"""The subset of JSON Schema that verdicts support. Other keywords are rejected."""

from __future__ import annotations

import json
from collections.abc import Mapping

from .errors import did_you_mean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
_SHOWN = 60


def check_schema(schema: Any, where: str = "schema") -> str | None:
    """The first problem of a schema, or `None` if every keyword is supported and has a valid value."""
    if not isinstance(schema, Mapping):
        return f"{where} must be a mapping like {{'type': 'object'}}, got {_shown(schema)}"
    for keyword, value in schema.items():
        check = _KEYWORDS.get(keyword)
        if check is None:
            return f"{where} has an unknown keyword {keyword!r}{_hint(keyword)} supported: {', '.join(_KEYWORDS)}"
        expected = check(value)
        if expected is not None:
            return f"{where}.{keyword} must be {expected}, got {_shown(value)}"
    inner = {f"{where}.properties.{name}": part for name, part in schema.get("properties", {}).items()}
    if "items" in schema:
        inner[f"{where}.items"] = schema["items"]
    return next((problem for name, part in inner.items() if (problem := check_schema(part, name))), None)


def misfit(value: Any, schema: Mapping[str, Any], where: str = "") -> str | None:
    """Where and why a JSON value does not match a valid schema, or `None` if it matches."""
    named = where or "the value"
    problem = _kind_misfit(value, schema) or _size_misfit(value, schema)
    if problem is not None:
        return f"{named} {problem}"
    if isinstance(value, dict):
        for name in schema.get("required", ()):
            if name not in value:
                return f"{named} has no {name!r}"
        inner = {f"{where}.{name}" if where else name: (value[name], part) for name, part in _present(value, schema)}
    elif isinstance(value, list) and "items" in schema:
        inner = {f"{where}[{index}]": (item, schema["items"]) for index, item in enumerate(value)}
    else:
        return None
    return next((problem for name, (item, part) in inner.items() if (problem := misfit(item, part, name))), None)


def _present(value: dict[str, Any], schema: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(name, part) for name, part in schema.get("properties", {}).items() if name in value]


def _kind_misfit(value: Any, schema: Mapping[str, Any]) -> str | None:
    types = schema.get("type")
    if types is not None:
        names = [types] if isinstance(types, str) else types
        if not any(_is_a(value, name) for name in names):
            return f"is {_shown(value)}, expected {' or '.join(names)}"
    if "enum" in schema and not any(_same(value, one) for one in schema["enum"]):
        return f"is {_shown(value)}, expected one of {', '.join(map(_shown, schema['enum']))}"
    if "const" in schema and not _same(value, schema["const"]):
        return f"is {_shown(value)}, expected {_shown(schema['const'])}"
    return None


def _size_misfit(value: Any, schema: Mapping[str, Any]) -> str | None:
    if _is_a(value, "number"):
        if "minimum" in schema and value < schema["minimum"]:
            return f"is {_shown(value)}, less than the minimum {_shown(schema['minimum'])}"
        if "maximum" in schema and value > schema["maximum"]:
            return f"is {_shown(value)}, greater than the maximum {_shown(schema['maximum'])}"
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            return f"has {len(value)} items, expected at least {schema['minItems']}"
        if "maxItems" in schema and len(value) > schema["maxItems"]:
            return f"has {len(value)} items, expected at most {schema['maxItems']}"
    return None


def _is_a(value: Any, name: str) -> bool:
    if name == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if name == "integer":
        return _is_a(value, "number") and value == int(value)
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
    return isinstance(value, kinds[name])


def _same(one: Any, other: Any) -> bool:
    """JSON equality: 1 equals 1.0, but true does not equal 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(item, other[name]) for name, item in one.items())
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


def _type_names(value: Any) -> str | None:
    names = [value] if isinstance(value, str) else value
    known = isinstance(names, (list, tuple)) and names and all(name in _TYPES for name in names)
    return None if known else f"one of {', '.join(_TYPES)}, or a list of them"


def _is_mapping(value: Any) -> str | None:
    return None if isinstance(value, Mapping) else "a mapping"


def _names(value: Any) -> str | None:
    fine = isinstance(value, (list, tuple)) and all(isinstance(name, str) for name in value)
    return None if fine else "a list of strings"


def _some_values(value: Any) -> str | None:
    return None if isinstance(value, (list, tuple)) and value else "a non-empty list"


def _number(value: Any) -> str | None:
    return None if _is_a(value, "number") else "a number"


def _count(value: Any) -> str | None:
    return None if _is_a(value, "integer") and value >= 0 else "an integer of at least 0"


def _anything(value: Any) -> str | None:
    del value
    return None


_KEYWORDS = {
    "type": _type_names,
    "properties": _is_mapping,
    "required": _names,
    "items": _is_mapping,
    "enum": _some_values,
    "const": _anything,
    "minimum": _number,
    "maximum": _number,
    "minItems": _count,
    "maxItems": _count,
}


def _hint(keyword: object) -> str:
    return did_you_mean(keyword, tuple(_KEYWORDS))


def _shown(value: Any) -> str:
    """A value as JSON, truncated for error messages."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
