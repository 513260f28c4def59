"""YAML -> plain values, by walking the C parser's events.

The walk streams (one top-level key's list can be taken item by item), reads scalars by the YAML 1.2 core schema (so `no`,
`12:30`, `0755` and dates stay text), refuses duplicate keys, foreign tags and alias bombs, and records where every node
stands only when asked: positions are needed when there is a mistake to show, and cost a third of the time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Any, NamedTuple

import yaml
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
    StreamStartEvent,
)

Path = tuple[str | int, ...]

MAX_ALIASED_NODES = 100_000
MAX_DEPTH = 100

_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)\Z")
_HEX_OR_OCTAL = re.compile(r"0x[0-9a-fA-F]+\Z|0o[0-7]+\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_MAYBE_TYPED = frozenset("0123456789+-.~tTfFnN")
_CORE_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq")}
_MAX_INT_DIGITS = 400


class WrittenInt(int):
    """A whole number that remembers how it was written (`0x1F`, `+5`)."""

    raw: str


class WrittenFloat(float):
    """A number that remembers how it was written (`1.10`, `1e3`)."""

    raw: str


class Mark(NamedTuple):
    """Where a node stands, from 1: its key (for an entry of a mapping) and its value; and the scalar as written."""

    line: int
    column: int
    key_line: int
    key_column: int
    raw: str | None


STREAM_BEGINS: Any = object()


class YamlProblem(Exception):  # noqa: N818 - a mistake in a user's file, turned into a Problem by the reader
    """The text is not YAML that agentv reads."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.message, self.line, self.column = message, line, column


@dataclass(slots=True)
class StreamItem:
    """One item of the streamed list, or one entry of the root mapping (`index` is None).

    The streamed list announces itself with an entry whose value is `STREAM_BEGINS`.
    """

    key: str
    value: Any
    index: int | None = None
    line: int = 0


@dataclass(slots=True)
class YamlWalk:
    """One pass over a YAML text."""

    stream: bytes | str | IO[bytes]
    record: bool = False
    marks: dict[Path, Mark] = field(default_factory=dict)
    duplicates: list[tuple[str, int, int, int]] = field(default_factory=list)
    """Keys that occur twice: the key, where it stands again, and the line of the first."""
    _parser: Any = None
    _anchors: dict[str, tuple[Any, int]] = field(default_factory=dict)
    _nodes: int = 0
    _aliased: int = 0

    def document(self) -> Any:
        """The whole document as one value."""
        event = self._open()
        value = None if event is None else self._value(event, (), 0)
        self._close()
        return value

    def entries(self, streamed: str) -> Iterator[StreamItem]:
        """The entries of the root mapping in order; the list under the key `streamed` comes item by item."""
        event = self._open()
        if event is None:
            return
        if type(event) is not MappingStartEvent:
            mark = event.start_mark
            raise YamlProblem(
                "expected a mapping of keys to values at the top of the file", mark.line + 1, mark.column + 1
            )
        self._mark((), event, None)
        seen: dict[str, int] = {}
        while type(key_event := self._next()) is not MappingEndEvent:
            key = self._key(key_event, seen)
            value_event = self._next()
            if key == streamed and type(value_event) is SequenceStartEvent:
                self._mark((key,), value_event, key_event)
                yield StreamItem(key, STREAM_BEGINS, None, key_event.start_mark.line + 1)
                yield from self._stream_items(key)
            else:
                yield StreamItem(key, self._value(value_event, (key,), 1, key_event), None, key_event.start_mark.line + 1)
        self._close()

    def _stream_items(self, key: str) -> Iterator[StreamItem]:
        index = 0
        while type(event := self._next()) is not SequenceEndEvent:
            line = event.start_mark.line + 1
            yield StreamItem(key, self._value(event, (key, index), 2), index, line)
            index += 1

    # -- events

    def _open(self) -> Any:
        try:
            self._parser = _Parser(self.stream)
            event = self._parser.get_event()
            while type(event) in (StreamStartEvent, DocumentStartEvent):
                event = self._parser.get_event()
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise _as_problem(error) from None
        return None if type(event) is StreamEndEvent else event

    def _next(self) -> Any:
        try:
            return self._parser.get_event()
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise _as_problem(error) from None

    def _close(self) -> None:
        event = self._next()
        while type(event) is DocumentEndEvent:
            event = self._next()
        if type(event) is DocumentStartEvent:
            mark = event.start_mark
            raise YamlProblem(
                "a second YAML document starts here (`---`); a file holds one", mark.line + 1, mark.column + 1
            )

    # -- nodes

    def _value(self, event: Any, path: Path, depth: int, key_event: Any = None) -> Any:
        kind = type(event)
        self._nodes += 1
        if self.record:
            self._mark(path, event, key_event)
        if kind is ScalarEvent:
            value: Any = _scalar(event)
            if event.anchor:
                self._anchors[event.anchor] = (value, 1)
            return value
        if kind is AliasEvent:
            return self._alias(event)
        if depth > MAX_DEPTH:
            raise _problem_at(event, f"nested more than {MAX_DEPTH} levels deep")
        _check_tag(event)
        before = self._nodes
        value = self._mapping(path, depth) if kind is MappingStartEvent else self._sequence(path, depth)
        if event.anchor:
            self._anchors[event.anchor] = (value, self._nodes - before + 1)
        return value

    def _sequence(self, path: Path, depth: int) -> list[Any]:
        items: list[Any] = []
        while type(event := self._next()) is not SequenceEndEvent:
            items.append(self._value(event, (*path, len(items)) if self.record else path, depth + 1))
        return items

    def _mapping(self, path: Path, depth: int) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        merged: list[Any] = []
        seen: dict[str, int] = {}
        while type(key_event := self._next()) is not MappingEndEvent:
            key = self._key(key_event, seen)
            where = (*path, key) if self.record else path
            value = self._value(self._next(), where, depth + 1, key_event)
            if key == "<<" and key_event.implicit[0]:
                merged.extend(_merge_sources(value, key_event))
            else:
                mapping[key] = value
        for source in merged:
            for key, value in source.items():
                mapping.setdefault(key, value)
        return mapping

    def _key(self, event: Any, seen: dict[str, int]) -> str:
        if type(event) is AliasEvent:
            value = self._alias(event)
            key = value if isinstance(value, str) else None
        else:
            key = event.value if type(event) is ScalarEvent else None
        if key is None:
            raise _problem_at(event, "a key must be plain text, not a list or a mapping")
        mark = event.start_mark
        if key in seen:
            self.duplicates.append((key, mark.line + 1, mark.column + 1, seen[key]))
        seen[key] = mark.line + 1
        return str(key)

    def _alias(self, event: Any) -> Any:
        if event.anchor not in self._anchors:
            raise _problem_at(event, f"alias *{event.anchor} has no anchor &{event.anchor} before it")
        value, size = self._anchors[event.anchor]
        self._nodes += size
        self._aliased += size
        if self._aliased > MAX_ALIASED_NODES:
            raise _problem_at(
                event,
                f"aliases expand to more than {MAX_ALIASED_NODES:,} nodes here; write the values out or use fewer aliases",
            )
        return value

    def _mark(self, path: Path, event: Any, key_event: Any) -> None:
        if not self.record:
            return
        start = event.start_mark
        key = key_event.start_mark if key_event is not None else start
        raw = event.value if type(event) is ScalarEvent else None
        self.marks[path] = Mark(start.line + 1, start.column + 1, key.line + 1, key.column + 1, raw)


def _scalar(event: Any) -> Any:
    text: str = event.value
    if event.tag is not None:
        return _tagged(event, text)
    if not event.implicit[0] or (text and text[0] not in _MAYBE_TYPED):
        return text
    return resolve_plain(text)


def resolve_plain(text: str) -> Any:
    """A plain scalar by the YAML 1.2 core schema; numbers with a leading zero stay text."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > _MAX_INT_DIGITS:
        return text
    if _INT.match(text) or _HEX_OR_OCTAL.match(text):
        number = WrittenInt(text, 0)
        number.raw = text
        return int(number) if str(int(number)) == text else number
    if _FLOAT.match(text):
        real = WrittenFloat(text)
        real.raw = text
        return float(real) if repr(float(real)) == text else real
    return text


def _tagged(event: Any, text: str) -> Any:
    _check_tag(event)
    if event.tag.endswith(":str"):
        return text
    value = resolve_plain(text)
    wanted = {"int": int, "float": (int, float), "bool": bool, "null": type(None)}[event.tag.rpartition(":")[2]]
    if not isinstance(value, wanted):
        raise _problem_at(event, f"{text!r} does not fit the tag {event.tag!r}")
    return value


def _check_tag(event: Any) -> None:
    if event.tag not in (None, "!") and event.tag not in _CORE_TAGS:
        raise _problem_at(event, f"the tag {event.tag!r} is not allowed; write plain YAML values")


def _merge_sources(value: Any, event: Any) -> list[dict[str, Any]]:
    sources = value if isinstance(value, list) else [value]
    if not all(isinstance(source, dict) for source in sources):
        raise _problem_at(event, "`<<` merges mappings: give it an alias of a mapping, or a list of them")
    return sources


def _problem_at(event: Any, message: str) -> YamlProblem:
    return YamlProblem(message, event.start_mark.line + 1, event.start_mark.column + 1)


def _as_problem(error: Exception) -> YamlProblem:
    if isinstance(error, UnicodeDecodeError):
        return YamlProblem(f"the file is not UTF-8 (byte {error.start}); save it as UTF-8", 1, 1)
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        parts = [part for part in (error.problem, error.context) if part]
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        return YamlProblem(f"not valid YAML: {', '.join(parts) or 'cannot be parsed'}", line, column)
    return YamlProblem(f"not valid YAML: {' '.join(str(error).split())}", 1, 1)
