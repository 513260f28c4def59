"""Read YAML into plain values by walking the events of the C parser.

The walk can stream the list under one top-level key item by item. It reads scalars by the YAML 1.2 core schema (so
`no`, `12:30`, `0755` and dates are text), rejects custom tags and alias bombs, and collects duplicate keys. Positions
of nodes are recorded only on request: they are needed only to report problems, and cost a third of the time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
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

from agentv.jsonio import MAX_DEPTH
from agentv.suite.yaml_scalars import MAYBE_TYPED, WrittenBool, not_finite, resolve_plain

NodePath = tuple[str | int, ...]

_TAG = "tag:yaml.org,2002:"
_SCALAR_TYPES: dict[str, Any] = {"int": int, "float": (int, float), "bool": bool, "null": type(None)}

MAX_ALIASED_NODES = 100_000
"""How many values the aliases of one item may expand to."""
MAX_ALIASED_TOTAL = 300_000
"""How many values all aliases may expand to, plus `ALIASED_PER_NODE` for every node that is written out."""
ALIASED_PER_NODE = 20

_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_ODD_BOOLEANS = {"True": True, "TRUE": True, "False": False, "FALSE": False}
_HINTS = {
    "mapping values are not allowed in this context": "quote text that contains `: `, or fix the indentation",
    "found character that cannot start any token": "indent with spaces, not tabs; quote text that starts with % @ or `",
    "did not find expected key": "check the indentation of this line, and for quotes that end too early",
    "did not find expected '-' indicator": "the items of a list must start in the same column",
    "could not find expected ':'": "a key must be followed by `: `",
    "did not find expected ',' or ']'": "a `[` list is not closed, or a comma is missing",
    "did not find expected ',' or '}'": "a `{` mapping is not closed, or a comma is missing",
    "did not find expected <document start>": "check the indentation; top-level keys must start in the first column",
    "found unexpected end of stream": "a quote is never closed",
    "found unknown escape character": "write \\\\ for a backslash, or use single quotes",
}


class YamlProblem(Exception):  # noqa: N818 - a problem in a user's file, turned into a Problem by the reader
    """The text is not YAML that agentv can read."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.message, self.line, self.column = message, line, column


class Mark(NamedTuple):
    """The position of a node, counted from 1: of its value, and of its key if it is an entry of a mapping."""

    line: int
    column: int
    key_line: int
    key_column: int


class _Anchor(NamedTuple):
    """The value of an anchor, and what its aliases count towards the limits."""

    value: Any
    size: int
    height: int
    odd: bool
    path: NodePath


STREAM_BEGINS: Any = object()
ROOT = ""
"""The key of the items of a root that is a list."""


@dataclass(slots=True)
class StreamItem:
    """One item of the streamed list, or one entry of the root mapping (`index` is None).

    Before the items of the streamed list comes an entry with the value `STREAM_BEGINS`.
    """

    key: str
    value: Any
    index: int | None = None
    line: int = 0
    written: dict[NodePath, str] = field(default_factory=dict)
    """How booleans that are not written `true` or `false` are spelled, by node."""
    not_finite: list[NodePath] = field(default_factory=list)
    """Nodes in the value that are infinite or NaN, which JSON cannot express."""


@dataclass(slots=True)
class YamlWalk:
    """One pass over a YAML text."""

    stream: bytes | str | IO[bytes]
    record: bool = False
    wanted: Collection[NodePath] | None = None
    """With `record`: the only nodes whose marks are kept, besides those inside anchors."""
    marks: dict[NodePath, Mark] = field(default_factory=dict)
    links: dict[NodePath, NodePath] = field(default_factory=dict)
    """With `record`: nodes that are written elsewhere, because of an alias or a merge."""
    duplicates: list[tuple[str, int, int, int]] = field(default_factory=list)
    """Duplicate keys: the key, the line and column of the duplicate, and the line of the first."""
    _next: Any = None
    _anchors: dict[str, _Anchor] = field(default_factory=dict)
    _open_anchors: int = 0
    _nodes: int = 0
    _peak: int = 0
    _odd: bool = False
    _aliased: int = 0
    _aliased_total: int = 0

    def document(self) -> Any:
        """The whole document as one value."""
        try:
            event = self._open()
            value = None if event is None else self._item("", event, (), 0).value
            self._close()
        except (yaml.YAMLError, UnicodeError) as error:
            raise _as_problem(error, self.stream) from None
        return value

    def entries(self, *streamed: str) -> Iterator[StreamItem]:
        """The entries of the root mapping in order, with the list under a key in `streamed` item by item.

        With `ROOT` in `streamed`, the root may also be a list, whose items then have the key `ROOT`.
        """
        try:
            yield from self._entries(streamed)
        except (yaml.YAMLError, UnicodeError) as error:
            raise _as_problem(error, self.stream) from None

    def _entries(self, streamed: tuple[str, ...]) -> Iterator[StreamItem]:
        event = self._open()
        if event is None:
            return
        self._mark((), event, None)
        if ROOT in streamed and type(event) is SequenceStartEvent and not event.anchor:
            yield StreamItem(ROOT, STREAM_BEGINS)
            yield from self._stream_items(ROOT)
            self._close()
            return
        if type(event) is not MappingStartEvent:
            what = "a list" if type(event) is SequenceStartEvent else "a single value"
            raise _problem_at(event, f"the top level of the file must be a mapping with `{streamed[0]}:`, got {what}")
        _check_tag(event, "map")
        seen: dict[str, int] = {}
        merged: list[tuple[dict[str, Any], NodePath]] = []
        while type(key_event := self._next()) is not MappingEndEvent:
            key = self._key(key_event, seen)
            value_event = self._next()
            if key in streamed and type(value_event) is SequenceStartEvent and not value_event.anchor:
                _check_tag(value_event, "seq")
                self._mark((key,), value_event, key_event)
                yield StreamItem(key, STREAM_BEGINS, None, key_event.start_mark.line + 1)
                yield from self._stream_items(key)
                continue
            item = self._item(key, value_event, (key,), 1, key_event)
            if key == "<<" and _is_merge(key_event):
                merged.extend(_merge_sources(item.value, key_event, (key,)))
            else:
                yield from _entry(item, streamed)
        for key, value in self._merge(dict.fromkeys(seen), merged, ()).items():
            if key not in seen:
                yield from _entry(_settled(StreamItem(key, value, None, 1)), streamed)
        self._close()

    def place(self, node: NodePath) -> tuple[Mark, bool]:
        """With `record`: the position of a node and True, or the position of its nearest parent and False."""
        found: NodePath = ()
        rest = list(reversed(node))
        mark, exact = self.marks.get((), Mark(1, 1, 1, 1)), not rest
        for _ in range(10_000):
            if not rest:
                break
            found = (*found, rest.pop())
            if found in self.marks:
                mark, exact = self.marks[found], not rest
            if found in self.links and (rest or found not in self.marks):
                rest.extend(reversed(self.links[found]))
                found = ()
        return mark, exact

    def _stream_items(self, key: str) -> Iterator[StreamItem]:
        index = 0
        while type(event := self._next()) is not SequenceEndEvent:
            item = self._item(key, event, (key, index), 2)
            item.index = index
            yield item
            index += 1

    def _item(self, key: str, event: Any, path: NodePath, depth: int, key_event: Any = None) -> StreamItem:
        self._aliased, self._odd = 0, False
        value = self._value(event, path, depth, key_event)
        item = StreamItem(key, value, None, (key_event or event).start_mark.line + 1)
        return _settled(item) if self._odd else item

    # -- events

    def _open(self) -> Any:
        self._next = _Parser(self.stream).get_event
        event = self._next()
        if (event.encoding or "").startswith("utf-16"):
            raise YamlProblem("the file is UTF-16; save it as UTF-8", 1, 1)
        while type(event) in (StreamStartEvent, DocumentStartEvent):
            event = self._next()
        return None if type(event) is StreamEndEvent else event

    def _close(self) -> None:
        event = self._next()
        while type(event) is DocumentEndEvent:
            event = self._next()
        if type(event) is DocumentStartEvent:
            raise _problem_at(event, "a second YAML document starts here (`---`); only one per file is allowed")

    # -- nodes

    def _value(self, event: Any, path: NodePath, depth: int, key_event: Any = None) -> Any:
        kind = type(event)
        self._nodes += 1
        if self.record:
            self._mark(path, event, key_event)
        if kind is ScalarEvent:
            value = self._scalar(event)
            if event.anchor:
                self._anchors[event.anchor] = _Anchor(value, 1, 0, _is_odd(value), path)
            return value
        if kind is AliasEvent:
            return self._alias(event, path, depth)
        if depth > self._peak:
            self._peak = depth
            if depth > MAX_DEPTH:
                raise _too_deep(event)
        if event.anchor:
            return self._anchored(event, path, depth)
        return self._collection(event, path, depth)

    def _collection(self, event: Any, path: NodePath, depth: int) -> Any:
        if type(event) is MappingStartEvent:
            _check_tag(event, "map")
            return self._mapping(path, depth)
        _check_tag(event, "seq")
        return self._sequence(path, depth)

    def _anchored(self, event: Any, path: NodePath, depth: int) -> Any:
        """A collection with an anchor: the size that an alias of it adds is measured while it is read."""
        nodes, peak, odd = self._nodes, self._peak, self._odd
        self._peak, self._odd = depth, False
        self._open_anchors += 1
        value = self._collection(event, path, depth)
        self._open_anchors -= 1
        anchor = _Anchor(value, self._nodes - nodes + 1, self._peak - depth, self._odd, path)
        self._anchors[event.anchor] = anchor
        self._peak, self._odd = max(peak, self._peak), odd or self._odd
        return value

    def _sequence(self, path: NodePath, depth: int) -> list[Any]:
        items: list[Any] = []
        while type(event := self._next()) is not SequenceEndEvent:
            items.append(self._value(event, (*path, len(items)) if self.record else path, depth + 1))
        return items

    def _mapping(self, path: NodePath, depth: int) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        merged: list[tuple[dict[str, Any], NodePath]] = []
        seen: dict[str, int] = {}
        while type(key_event := self._next()) is not MappingEndEvent:
            key = self._key(key_event, seen)
            where = (*path, key) if self.record else path
            value = self._value(self._next(), where, depth + 1, key_event)
            if key == "<<" and _is_merge(key_event):
                merged.extend(_merge_sources(value, key_event, where))
            else:
                mapping[key] = value
        return self._merge(mapping, merged, path) if merged else mapping

    def _merge(
        self, mapping: dict[str, Any], merged: list[tuple[dict[str, Any], NodePath]], path: NodePath
    ) -> dict[str, Any]:
        for source, where in merged:
            for key, value in source.items():
                if key not in mapping:
                    mapping[key] = value
                    if self.record:
                        self.links[(*path, key)] = (*where, key)
        return mapping

    def _key(self, event: Any, seen: dict[str, int]) -> str:
        key = event.value if type(event) is ScalarEvent else None
        if type(event) is AliasEvent:
            key = self._alias(event, None, 0)
        elif key is not None and (event.tag is not None or event.anchor):
            _check_tag(event, "str", *_SCALAR_TYPES)
            if event.anchor:
                self._anchors[event.anchor] = _Anchor(key, 1, 0, False, ())
        if not isinstance(key, str):
            raise _problem_at(event, "a key must be a plain string")
        mark = event.start_mark
        if key in seen:
            self.duplicates.append((key, mark.line + 1, mark.column + 1, seen[key]))
        seen[key] = mark.line + 1
        return key

    def _scalar(self, event: Any) -> Any:
        text: str = event.value
        if event.tag is not None:
            value = _tagged(event, text)
        elif not event.implicit[0] or (text and text[0] not in MAYBE_TYPED):
            return text
        else:
            value = resolve_plain(text)
        if value.__class__ is bool and text in _ODD_BOOLEANS:
            value = WrittenBool(value, text)
        if not self._odd:
            self._odd = _is_odd(value)
        return value

    def _alias(self, event: Any, path: NodePath | None, depth: int) -> Any:
        anchor = self._anchors.get(event.anchor)
        if anchor is None:
            raise _problem_at(event, f"alias *{event.anchor} has no matching anchor &{event.anchor} before it")
        self._nodes += anchor.size - 1
        self._aliased += anchor.size
        self._aliased_total += anchor.size
        most = MAX_ALIASED_TOTAL + ALIASED_PER_NODE * (self._nodes - self._aliased_total)
        if self._aliased > MAX_ALIASED_NODES or self._aliased_total > most:
            limit = MAX_ALIASED_NODES if self._aliased > MAX_ALIASED_NODES else most
            raise _problem_at(
                event, f"aliases expand to more than {limit:,} values here; use fewer aliases or write the values out"
            )
        self._peak = max(self._peak, depth + anchor.height)
        if self._peak > MAX_DEPTH:
            raise _too_deep(event)
        self._odd = self._odd or anchor.odd
        if self.record and path is not None:
            self.links[path] = anchor.path
        return anchor.value

    def _mark(self, path: NodePath, event: Any, key_event: Any) -> None:
        if self.record and (self.wanted is None or self._open_anchors or event.anchor or path in self.wanted):
            start = event.start_mark
            key = key_event.start_mark if key_event is not None else start
            self.marks[path] = Mark(start.line + 1, start.column + 1, key.line + 1, key.column + 1)


def _too_deep(event: Any) -> YamlProblem:
    return _problem_at(event, f"nested more than {MAX_DEPTH} levels deep")


# -- nodes


def _entry(item: StreamItem, streamed: tuple[str, ...]) -> Iterator[StreamItem]:
    """The entry itself; but a streamed list that was read as a whole (an alias, or anchored) item by item."""
    if item.key not in streamed or not isinstance(item.value, list):
        yield item
        return
    yield StreamItem(item.key, STREAM_BEGINS, None, item.line)
    for index, value in enumerate(item.value):
        single = StreamItem(item.key, value, index, item.line)
        single.written = {node[1:]: raw for node, raw in item.written.items() if node[0] == index}
        single.not_finite = [node[1:] for node in item.not_finite if node[0] == index]
        yield single


def _settled(item: StreamItem) -> StreamItem:
    """The item with plain values; `written` and `not_finite` are filled for the odd ones."""
    item.value = _settle(item.value, (), item)
    return item


def _settle(value: Any, path: NodePath, item: StreamItem) -> Any:
    if isinstance(value, dict):
        return {key: _settle(each, (*path, key), item) for key, each in value.items()}
    if isinstance(value, list):
        return [_settle(each, (*path, index), item) for index, each in enumerate(value)]
    if isinstance(value, WrittenBool):
        item.written[path] = value.raw
        return value.value
    if not_finite(value):
        item.not_finite.append(path)
    return value


def _is_odd(value: Any) -> bool:
    return isinstance(value, WrittenBool) or not_finite(value)


def _tagged(event: Any, text: str) -> Any:
    _check_tag(event, "str", *_SCALAR_TYPES)
    name = event.tag.removeprefix(_TAG)
    if name in ("!", "str"):
        return text
    value = resolve_plain(text)
    if not isinstance(value, _SCALAR_TYPES[name]) or (name == "int" and isinstance(value, bool)):
        raise _problem_at(event, f"{text[:40]!r} is not a valid value for the tag !!{name}")
    return value


def _check_tag(event: Any, *allowed: str) -> None:
    if event.tag not in (None, "!") and event.tag.removeprefix(_TAG) not in allowed:
        tag = event.tag.replace(_TAG, "!!")[:80]
        raise _problem_at(event, f"the tag `{tag}` is not allowed here; use plain YAML values")


def _is_merge(key_event: Any) -> bool:
    return type(key_event) is ScalarEvent and key_event.implicit[0]


def _merge_sources(value: Any, event: Any, path: NodePath) -> list[tuple[dict[str, Any], NodePath]]:
    sources = [(each, (*path, i)) for i, each in enumerate(value)] if isinstance(value, list) else [(value, path)]
    if not all(isinstance(source, dict) for source, _ in sources):
        raise _problem_at(event, "`<<` must be a mapping (usually an alias) or a list of mappings")
    return sources


# -- problems


def _problem_at(event: Any, message: str) -> YamlProblem:
    return YamlProblem(message, event.start_mark.line + 1, event.start_mark.column + 1)


def _as_problem(error: Exception, stream: Any) -> YamlProblem:
    """An error of the parser with its position. The parser is done with the stream, so it may be read again."""
    if isinstance(error, yaml.MarkedYAMLError):
        return _syntax(error)
    if isinstance(error, yaml.reader.ReaderError):
        line, column = _place_of(error.position, stream)
        if "control" in error.reason:
            code = error.character if isinstance(error.character, int) else ord(error.character)
            what = f"the character #x{code:02x} is not allowed in YAML; remove it"
        else:
            what = f"the file is not UTF-8 ({error.reason}); save it as UTF-8"
        return YamlProblem(what, line, column)
    return YamlProblem(f"not valid YAML: {' '.join(str(error).split())[:200]}", 1, 1)


def _syntax(error: yaml.MarkedYAMLError) -> YamlProblem:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    reason = error.problem or "cannot be parsed"
    where = ""
    if error.context and error.context_mark and error.context_mark.line + 1 != line:
        where = f" ({error.context}, which starts at line {error.context_mark.line + 1})"
    elif error.context:
        where = f" ({error.context})"
    hint = f"; {_HINTS[reason]}" if reason in _HINTS else ""
    return YamlProblem(f"not valid YAML: {reason}{where}{hint}", line, column)


def _place_of(offset: int, stream: Any) -> tuple[int, int]:
    """The line and column of a byte offset, counted from 1."""
    if isinstance(stream, str):
        return 1, 1
    if isinstance(stream, bytes):
        before = stream[:offset]
    else:
        stream.seek(0)
        before = stream.read(offset)
    last = before[before.rfind(b"\n") + 1 :]
    return before.count(b"\n") + 1, len(last.decode("utf-8", "replace").lstrip("\ufeff")) + 1
