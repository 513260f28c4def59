"""YAML -> plain values, by walking the C parser's events.

The walk streams (one top-level key's list can be taken item by item), reads scalars by the YAML 1.2 core
schema (so `no`, `12:30`, `0755` and dates stay text), refuses foreign tags and alias bombs, notes duplicate keys,
and records where nodes stand only when asked: positions are needed when there is a mistake to show, and cost a
third of the time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import IO, Any

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

from agentv.suite.scalars import MAYBE_TYPED, WrittenBool, resolve_plain
from agentv.suite.yaml_nodes import (
    SCALAR_TYPES,
    STREAM_BEGINS,
    Anchor,
    Mark,
    Path,
    StreamItem,
    check_tag,
    entry,
    is_merge,
    is_odd,
    merge_sources,
    settled,
    tagged,
)
from agentv.suite.yaml_problems import YamlProblem, as_problem, problem_at

__all__ = ["STREAM_BEGINS", "Mark", "Path", "StreamItem", "YamlProblem", "YamlWalk", "resolve_plain"]

MAX_DEPTH = 100
MAX_ALIASED_NODES = 100_000
"""What the aliases of one item may stand for."""
MAX_ALIASED_TOTAL = 300_000
"""What all aliases may stand for; `ALIASED_PER_NODE` more for every node that is written out."""
ALIASED_PER_NODE = 20

_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_ODD_BOOLEANS = {"True": True, "TRUE": True, "False": False, "FALSE": False}


@dataclass(slots=True)
class YamlWalk:
    """One pass over a YAML text."""

    stream: bytes | str | IO[bytes]
    record: bool = False
    wanted: Collection[Path] | None = None
    """With `record`: the only nodes whose marks are kept (what anchors hold is kept too)."""
    marks: dict[Path, Mark] = field(default_factory=dict)
    links: dict[Path, Path] = field(default_factory=dict)
    """With `record`: nodes that stand elsewhere, because of an alias or a merge."""
    duplicates: list[tuple[str, int, int, int]] = field(default_factory=list)
    """Keys that occur twice: the key, where it stands again, and the line of the first."""
    _next: Any = None
    _anchors: dict[str, Anchor] = field(default_factory=dict)
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
            raise as_problem(error, self.stream) from None
        return value

    def entries(self, streamed: str) -> Iterator[StreamItem]:
        """The entries of the root mapping in order; the list under the key `streamed` comes item by item."""
        try:
            yield from self._entries(streamed)
        except (yaml.YAMLError, UnicodeError) as error:
            raise as_problem(error, self.stream) from None

    def _entries(self, streamed: str) -> Iterator[StreamItem]:
        event = self._open()
        if event is None:
            return
        self._mark((), event, None)
        if type(event) is not MappingStartEvent:
            what = "a list" if type(event) is SequenceStartEvent else "a single value"
            raise problem_at(event, f"expected a mapping with `{streamed}:` at the top of the file, got {what}")
        check_tag(event, "map")
        seen: dict[str, int] = {}
        merged: list[tuple[dict[str, Any], Path]] = []
        while type(key_event := self._next()) is not MappingEndEvent:
            key = self._key(key_event, seen)
            value_event = self._next()
            if key == streamed and type(value_event) is SequenceStartEvent and not value_event.anchor:
                check_tag(value_event, "seq")
                self._mark((key,), value_event, key_event)
                yield StreamItem(key, STREAM_BEGINS, None, key_event.start_mark.line + 1)
                yield from self._stream_items(key)
                continue
            item = self._item(key, value_event, (key,), 1, key_event)
            if key == "<<" and is_merge(key_event):
                merged.extend(merge_sources(item.value, key_event, (key,)))
            else:
                yield from entry(item, streamed)
        for key, value in self._merge(dict.fromkeys(seen), merged, ()).items():
            if key not in seen:
                yield from entry(settled(StreamItem(key, value, None, 1)), streamed)
        self._close()

    def place(self, node: Path) -> tuple[Mark, bool]:
        """With `record`: where a node stands, or the nearest node around it, and whether it is the node itself."""
        found: Path = ()
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

    def _item(self, key: str, event: Any, path: Path, depth: int, key_event: Any = None) -> StreamItem:
        self._aliased, self._odd = 0, False
        value = self._value(event, path, depth, key_event)
        item = StreamItem(key, value, None, (key_event or event).start_mark.line + 1)
        return settled(item) if self._odd else item

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
            raise problem_at(event, "a second YAML document starts here (`---`); a file holds one")

    # -- nodes

    def _value(self, event: Any, path: Path, depth: int, key_event: Any = None) -> Any:
        kind = type(event)
        self._nodes += 1
        if self.record:
            self._mark(path, event, key_event)
        if kind is ScalarEvent:
            value = self._scalar(event)
            if event.anchor:
                self._anchors[event.anchor] = Anchor(value, 1, 0, is_odd(value), path)
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

    def _collection(self, event: Any, path: Path, depth: int) -> Any:
        if type(event) is MappingStartEvent:
            check_tag(event, "map")
            return self._mapping(path, depth)
        check_tag(event, "seq")
        return self._sequence(path, depth)

    def _anchored(self, event: Any, path: Path, depth: int) -> Any:
        """A collection that aliases can stand for: what they would cost is measured while it is read."""
        nodes, peak, odd = self._nodes, self._peak, self._odd
        self._peak, self._odd = depth, False
        self._open_anchors += 1
        value = self._collection(event, path, depth)
        self._open_anchors -= 1
        anchor = Anchor(value, self._nodes - nodes + 1, self._peak - depth, self._odd, path)
        self._anchors[event.anchor] = anchor
        self._peak, self._odd = max(peak, self._peak), odd or self._odd
        return value

    def _sequence(self, path: Path, depth: int) -> list[Any]:
        items: list[Any] = []
        while type(event := self._next()) is not SequenceEndEvent:
            items.append(self._value(event, (*path, len(items)) if self.record else path, depth + 1))
        return items

    def _mapping(self, path: Path, depth: int) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        merged: list[tuple[dict[str, Any], Path]] = []
        seen: dict[str, int] = {}
        while type(key_event := self._next()) is not MappingEndEvent:
            key = self._key(key_event, seen)
            where = (*path, key) if self.record else path
            value = self._value(self._next(), where, depth + 1, key_event)
            if key == "<<" and is_merge(key_event):
                merged.extend(merge_sources(value, key_event, where))
            else:
                mapping[key] = value
        return self._merge(mapping, merged, path) if merged else mapping

    def _merge(self, mapping: dict[str, Any], merged: list[tuple[dict[str, Any], Path]], path: Path) -> dict[str, Any]:
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
            check_tag(event, "str", *SCALAR_TYPES)
            if event.anchor:
                self._anchors[event.anchor] = Anchor(key, 1, 0, False, ())
        if not isinstance(key, str):
            raise problem_at(event, "a key must be plain text")
        mark = event.start_mark
        if key in seen:
            self.duplicates.append((key, mark.line + 1, mark.column + 1, seen[key]))
        seen[key] = mark.line + 1
        return key

    def _scalar(self, event: Any) -> Any:
        text: str = event.value
        if event.tag is not None:
            value = tagged(event, text)
        elif not event.implicit[0] or (text and text[0] not in MAYBE_TYPED):
            return text
        else:
            value = resolve_plain(text)
        if value.__class__ is bool and text in _ODD_BOOLEANS:
            value = WrittenBool(value, text)
        if not self._odd:
            self._odd = is_odd(value)
        return value

    def _alias(self, event: Any, path: Path | None, depth: int) -> Any:
        anchor = self._anchors.get(event.anchor)
        if anchor is None:
            raise problem_at(event, f"alias *{event.anchor} has no anchor &{event.anchor} before it")
        self._nodes += anchor.size - 1
        self._aliased += anchor.size
        self._aliased_total += anchor.size
        most = MAX_ALIASED_TOTAL + ALIASED_PER_NODE * (self._nodes - self._aliased_total)
        if self._aliased > MAX_ALIASED_NODES or self._aliased_total > most:
            limit = MAX_ALIASED_NODES if self._aliased > MAX_ALIASED_NODES else most
            raise problem_at(
                event, f"aliases stand for more than {limit:,} values here; write values out or use fewer aliases"
            )
        self._peak = max(self._peak, depth + anchor.height)
        if self._peak > MAX_DEPTH:
            raise _too_deep(event)
        self._odd = self._odd or anchor.odd
        if self.record and path is not None:
            self.links[path] = anchor.path
        return anchor.value

    def _mark(self, path: Path, event: Any, key_event: Any) -> None:
        if self.record and (self.wanted is None or self._open_anchors or event.anchor or path in self.wanted):
            start = event.start_mark
            key = key_event.start_mark if key_event is not None else start
            self.marks[path] = Mark(start.line + 1, start.column + 1, key.line + 1, key.column + 1)


def _too_deep(event: Any) -> YamlProblem:
    return problem_at(event, f"nested more than {MAX_DEPTH} levels deep")
