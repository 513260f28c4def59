"""Convert dataclasses to JSON objects and back, based on their annotated fields.

    score: Annotated[float, Between(0, 1)]
    judge: Annotated[Mapping[str, Any] | None, OMIT_DEFAULT, JudgeSpend] = None

A field whose name is a keyword of Python has an underscore at its end, which is not part of its name in JSON.

Decoding validates types and ranges. For compatibility between versions, a field with a default may be missing or
`null`, and unknown keys are ignored.

Like `dataclasses`, this module generates and compiles one function per class when the class is first used. Every row
of a run is encoded here, and a loop over the fields would take three times as long.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache, partial
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

T = TypeVar("T")


class Between(NamedTuple):
    """Smallest and largest allowed value of a number field."""

    low: float
    high: float


OMIT_DEFAULT = object()
"""Marks a field that is omitted from the JSON object when it has its default value."""

_INTEGERS = Between(-(2**63), 2**63 - 1)
_FLOATS = Between(-sys.float_info.max, sys.float_info.max)


class DecodeError(ValueError):
    """A value is not allowed for its field: `path` is its location, `problem` what is wrong."""

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(f"`{path}` {problem}" if path else problem)
        self.problem = problem
        self.path = path

    def inside(self, outer: str) -> DecodeError:
        separator = "." if self.path and not self.path.startswith("[") else ""
        return DecodeError(self.problem, f"{outer}{separator}{self.path}")


def encode(value: Any) -> dict[str, Any]:
    """Convert a dataclass to a JSON object that `decode` can read."""
    cls: Any = type(value)
    return _encoder(cls)(value)


def decode(cls: type[T], data: Any) -> T:
    """Convert a JSON object to a dataclass. DecodeError when a field is missing or has the wrong type or range."""
    wanted: Any = cls
    try:
        value: T = _decoder(wanted)(data)
    except RecursionError:
        raise DecodeError("is nested too deeply") from None
    return value


# -- writing


@cache
def _encoder(cls: Any) -> Callable[[Any], dict[str, Any]]:
    hints = get_type_hints(cls, include_extras=True)
    names: dict[str, Any] = {}
    always, maybe = [], []
    for field in fields(cls):
        kind, notes = _bare(hints[field.name])
        write = _writer(kind)
        names[f"write_{field.name}"] = write
        item = "item" if write is None else f"None if item is None else write_{field.name}(item)"
        if OMIT_DEFAULT in notes:
            omitted = "not item" if field.default == () or field.default is False else "item is None"
            maybe += [
                f"    item = value.{field.name}",
                f"    if not ({omitted}): data[{_in_json(field.name)!r}] = {item}",
            ]
        else:
            always.append(f"{_in_json(field.name)!r}: {item.replace('item', f'value.{field.name}')}")
    source = ["def encoder(value):", f"    data = {{{', '.join(always)}}}", *maybe, "    return data"]
    return _compiled(source, "encoder", names)


def _writer(kind: Any) -> Callable[[Any], Any] | None:
    """The function that encodes values of this type; None when they are written unchanged."""
    origin = get_origin(kind) or kind
    if origin is tuple:
        write = _writer(_bare(get_args(kind)[0])[0])
        return list if write is None else lambda items: [write(item) for item in items]
    if origin is Mapping:
        write_value = _writer(_bare(get_args(kind)[1])[0]) if get_args(kind) else None
        return dict if write_value is None else lambda items: {key: write_value(item) for key, item in items.items()}
    if is_dataclass(origin):
        return encode
    if isinstance(origin, type) and issubclass(origin, Enum):
        return {member: member.value for member in origin}.__getitem__
    return None


# -- reading


class _Reader(NamedTuple):
    """How a value is decoded: a condition on `item`, a description of what it expects, and a conversion."""

    condition: str
    expected: str
    read: Callable[[Any], Any] | None = None


@cache
def _decoder(cls: Any) -> Callable[[Any], Any]:
    """A function that converts a JSON object to a dataclass; for a TypedDict, it validates and returns the object."""
    hints = get_type_hints(cls, include_extras=True)
    if is_typeddict(cls):
        defaults: dict[str, Any] = dict.fromkeys(hints, lambda: None)
    else:
        defaults = {field.name: _default(field) for field in fields(cls)}
    names: dict[str, Any] = {"cls": cls, "not_an_object": _not_an_object}
    source = ["def decoder(data):", "    if type(data) is not dict: raise not_an_object(data)", "    get = data.get"]
    for name, default in defaults.items():
        reader, item = _reader(hints[name]), f"item_{name}"
        names[f"read_{name}"] = None if reader.read is None else _located(reader.read, _in_json(name))
        names[f"odd_{name}"] = _odd(_in_json(name), reader.expected)
        names[f"default_{name}"] = default
        value = item if reader.read is None else f"read_{name}({item})"
        checked = f"{value} if {reader.condition.replace('item', item)} else odd_{name}({item}, data)"
        absent = "" if default is None else f"default_{name}() if {item} is None else "
        source += [f"    {item} = get({_in_json(name)!r})", f"    {item} = {absent}{checked}"]
    values = ", ".join(f"item_{name}" for name in defaults)
    source.append("    return data" if is_typeddict(cls) else f"    return cls({values})")
    return _compiled(source, "decoder", names)


def _in_json(name: str) -> str:
    return name.rstrip("_")


def _default(field: Any) -> Callable[[], Any] | None:
    """A factory for the value of a missing or `null` field; None when the field is required."""
    if field.default_factory is not MISSING:
        factory: Callable[[], Any] = field.default_factory
        return factory
    return None if field.default is MISSING else lambda: field.default


def _odd(name: str, expected: str) -> Callable[[Any, Any], Any]:
    def odd(value: Any, data: Mapping[str, Any]) -> Any:
        raise DecodeError(f"must be {expected}, got {_described(value)}" if name in data else "is missing", name)

    return odd


def _located(read: Callable[[Any], Any], name: str) -> Callable[[Any], Any]:
    def located(value: Any) -> Any:
        try:
            return read(value)
        except DecodeError as error:
            raise error.inside(name) from None

    return located


def _reader(hint: Any) -> _Reader:
    kind, notes = _bare(hint)
    origin = get_origin(kind) or kind
    bounds = next((note for note in notes if isinstance(note, Between)), None)
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind in (int, float):
        types = "type(item) is int" if kind is int else "(type(item) is float or type(item) is int)"
        low, high = bounds or (_INTEGERS if kind is int else _FLOATS)
        noun = "a whole number" if kind is int else "a finite number"
        upper = "" if high in (_INTEGERS.high, _FLOATS.high) else f" to {high}"
        expected = f"{noun} from {low}{upper}" if bounds else noun
        return _Reader(f"{types} and {low!r} <= item <= {high!r}", expected)
    if isinstance(kind, type) and issubclass(kind, Enum):
        members = {member.value: member for member in kind}
        expected = " or ".join(f"`{value}`" for value in members)
        return _Reader(f"type(item) is str and item in {set(members)}", expected, members.__getitem__)
    if origin is Mapping:
        checked = next((note for note in notes if is_typeddict(note)), None)
        return _Reader("type(item) is dict", "an object", None if checked is None else _decoder(checked))
    if origin is tuple:
        return _Reader("type(item) is list", "a list", _items(_reader(get_args(kind)[0])))
    if is_dataclass(kind):
        return _Reader("type(item) is dict", "an object", partial(decode, origin))
    raise TypeError(f"the codec does not support fields of type {hint}")


_PLAIN = {
    Any: _Reader("item is not None", "anything"),
    str: _Reader("type(item) is str", "a string"),
    bool: _Reader("type(item) is bool", "true or false"),
}


def _items(reader: _Reader) -> Callable[[list[Any]], tuple[Any, ...]]:
    fits = _compiled(["def fits(values):", f"    return all([{reader.condition} for item in values])"], "fits", {})
    read = reader.read

    def read_items(values: list[Any]) -> tuple[Any, ...]:
        if not fits(values):
            index, value = next((index, value) for index, value in enumerate(values) if not fits([value]))
            raise DecodeError(f"must be {reader.expected}, got {_described(value)}", f"[{index}]")
        if read is None:
            return tuple(values)
        items: list[Any] = []
        try:
            items.extend(map(read, values))
        except DecodeError as error:
            raise error.inside(f"[{len(items)}]") from None
        return tuple(items)

    return read_items


def _bare(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """A type without `| None`, and its `Annotated` metadata."""
    notes: tuple[Any, ...] = ()
    if get_origin(hint) is Annotated:
        hint, *more = get_args(hint)
        notes = tuple(more)
    if get_origin(hint) in (Union, UnionType):
        options = [option for option in get_args(hint) if option is not NoneType]
        if len(options) != 1:
            raise TypeError(f"the codec does not support fields of type {hint}")
        hint, inner_notes = _bare(options[0])
        notes += inner_notes
    return hint, notes


def _compiled(source: list[str], name: str, names: dict[str, Any]) -> Callable[[Any], Any]:
    exec("\n".join(source), names)  # noqa: S102 - only field names and constants of our own classes
    function: Callable[[Any], Any] = names[name]
    return function


def _not_an_object(data: Any) -> DecodeError:
    return DecodeError(f"must be an object, got {_described(data)}")


def _described(value: Any) -> str:
    """A JSON value for a message: short values verbatim, others by their type."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, str):
        return repr(value) if len(value) <= 60 else f"a string of {len(value):,} characters"
    return repr(value) if isinstance(value, float) or abs(value) < 10**20 else "a number with more than 20 digits"
