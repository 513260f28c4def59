"""Writes data as YAML with the comments, the order and the styles of the file that it was made from."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.events import MappingStartEvent, ScalarEvent, SequenceStartEvent

from agentv.suite.edit import flow, yaml_lines
from agentv.suite.yaml import NodePath, YamlWalk

_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_COMMENT = re.compile(r"(?:(?<=\s)|^)#")
LONGEST_FLOW = 120
_FIRST = ("id", "name", "dataset")
_START, _LAST = (0, 0), (2**31, 0)
Written = Callable[[NodePath], NodePath]
"""The path in the file of a node of the data."""


@dataclass(slots=True)
class Source:
    """A YAML text: its comments, by the node that they belong to, and where its nodes are."""

    text: str
    above: dict[NodePath, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Lines of comments above a node."""
    beside: dict[NodePath, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Comments at the end of the line of a node."""
    last: list[str] = field(default_factory=list)
    """Comments after all nodes."""
    flows: set[NodePath] = field(default_factory=set)
    """Nodes that are written between braces or brackets."""
    places: dict[NodePath, tuple[int, int]] = field(default_factory=dict)
    """The line and the column of each node, or of its key."""

    @classmethod
    def of(cls, text: str) -> Source:
        source = cls(text)
        walk = YamlWalk(text, record=True)
        walk.document()
        source.places = {node: (mark.key_line, mark.key_column) for node, mark in walk.marks.items() if node}
        values = {(mark.line, mark.column): node for node, mark in walk.marks.items()}
        hidden: set[tuple[int, int]] = set()
        for event in yaml.parse(text, Loader=_Parser):
            if isinstance(event, MappingStartEvent | SequenceStartEvent) and event.flow_style:
                start = event.start_mark
                node = None if start is None else values.get((start.line + 1, start.column + 1))
                if node is not None:
                    source.flows.add(node)
            elif isinstance(event, ScalarEvent):
                hidden.update(_inside(event, text.split("\n") if event.style in ("|", ">") else ()))
        source._attach(hidden)
        return source

    def _attach(self, hidden: set[tuple[int, int]]) -> None:
        """Find the comments, which are not inside scalars, and the nodes that they belong to."""
        by_line: dict[int, list[tuple[int, NodePath]]] = defaultdict(list)
        for node, (line, column) in self.places.items():
            by_line[line].append((column, node))
        waiting: list[str] = []
        latest: NodePath = ()
        for number, written in enumerate(self.text.split("\n"), 1):
            here = sorted(by_line.get(number, ()), key=lambda each: (each[0], len(each[1])))
            if here:
                self.above[here[0][1]] += waiting
                waiting = []
                latest = here[-1][1]
                while latest[:-1] in self.flows and self.places.get(latest[:-1], (0, 0))[0] == number:
                    latest = latest[:-1]  # a comment after a closing brace is about all of it
            if not written.strip() and (number, 0) not in hidden:
                waiting.append("")
            for match in _COMMENT.finditer(written):
                if (number, match.start() + 1) in hidden or (number, 0) in hidden:
                    continue
                if written[: match.start()].strip():
                    self.beside[latest].append(written[match.start() :].rstrip())
                else:
                    waiting.append(written[match.start() :].rstrip())
                break
        self.last = waiting[:-1] if waiting and not waiting[-1] else waiting


def _inside(event: ScalarEvent, lines: tuple[str, ...] | list[str]) -> Iterator[tuple[int, int]]:
    """The places inside a scalar where no comment can begin: (line, column), or (line, 0) for a whole line."""
    start, end = event.start_mark, event.end_mark
    if start is None or end is None:
        return
    if event.style in ("|", ">"):
        width, blank = None, 0
        for number in range(start.line + 1, len(lines)):
            if not lines[number].strip():
                blank += 1
                continue
            indent = len(lines[number]) - len(lines[number].lstrip(" "))
            width = indent if width is None else width
            if indent < width or number > end.line:
                return
            yield from ((line + 1, 0) for line in range(number - blank, number + 1))
            blank = 0
        return
    for number in range(start.line, end.line + 1):
        if number < end.line:
            yield number + 1, 0
        first = start.column if number == start.line else 0
        last = end.column if number == end.line else 1000
        for column in range(first, last):
            yield number + 1, column + 1


@dataclass(slots=True)
class CommentedWriter:
    """Writes a mapping. A node that was written elsewhere in the file takes its comments along."""

    source: Source
    written: Written
    _above: dict[NodePath, list[str]] = field(default_factory=dict)
    _beside: dict[NodePath, list[str]] = field(default_factory=dict)

    def text(self, data: Any) -> str:
        """The text of a mapping or a list."""
        origins: dict[NodePath, NodePath] = {}
        for node in _nodes(data, ()):
            origins.setdefault(self.written(node), node)
        last = [*self._place_comments(origins), *self.source.last]
        lines = self._mapping(data, (), 0) if isinstance(data, Mapping) else self._list(data, (), 0)
        return "\n".join([*lines, *last]) + "\n"

    def _place_comments(self, origins: Mapping[NodePath, NodePath]) -> list[str]:
        """Give the comments to the nodes of the data. Those of a node that is gone move above the next one of the file.

        Returns those without a next node.
        """
        places = self.source.places
        left = sorted((places[origin], len(origin), node) for origin, node in origins.items() if origin in places)
        positions = [place for place, _, _ in left]
        last: list[str] = []
        for origin in sorted({*self.source.above, *self.source.beside}, key=self._place_of):
            above, beside = self.source.above.get(origin, []), self.source.beside.get(origin, [])
            if origin in origins:
                self._above.setdefault(origins[origin], []).extend(above)
                self._beside.setdefault(origins[origin], []).extend(beside)
                continue
            index = bisect_left(positions, self._place_of(origin))
            into = self._above.setdefault(left[index][2], []) if index < len(left) else last
            into += [comment for comment in (*above, *beside) if comment]
        return last

    def _place_of(self, origin: NodePath) -> tuple[int, int]:
        return self.source.places.get(origin, _LAST) if origin else _START

    def _mapping(self, data: Mapping[str, Any], at: NodePath, indent: int) -> list[str]:
        lines: list[str] = []
        for key in self._ordered(data, at):
            lines += self._entry(yaml_lines({key: None})[0].removesuffix(" null"), data[key], (*at, key), indent)
        return lines

    def _list(self, data: Sequence[Any], at: NodePath, indent: int) -> list[str]:
        return [line for number, item in enumerate(data) for line in self._entry("-", item, (*at, number), indent)]

    def _ordered(self, data: Mapping[str, Any], at: NodePath) -> list[str]:
        """The keys in the order of the file, between names, which may be new, and other new keys."""
        ranks = {key: _START if key in _FIRST else self._position((*at, key), value) for key, value in data.items()}
        return sorted(data, key=lambda key: ranks[key])

    def _position(self, node: NodePath, value: Any) -> tuple[int, int]:
        """The place of a key or, if it is new, of the first node in it."""
        places = self.source.places
        own = places.get(self.written(node))
        return own or min((places.get(self.written(each), _LAST) for each in _nodes(value, node)), default=_LAST)

    def _arranged(self, value: Any, at: NodePath) -> Any:
        """A value with the keys of its mappings in order."""
        if isinstance(value, Mapping):
            return {key: self._arranged(value[key], (*at, key)) for key in self._ordered(value, at)}
        return [self._arranged(item, (*at, n)) for n, item in enumerate(value)] if isinstance(value, list) else value

    def _entry(self, head: str, value: Any, at: NodePath, indent: int) -> list[str]:
        """The lines of an entry of a mapping or, with the head `-`, of a list."""
        pad = " " * indent
        lines = [f"{pad}{comment}".rstrip() for comment in self._above.get(at, ())]
        beside = self._beside.get(at, ())
        tail = f"  {' '.join(beside)}" if beside else ""
        if not isinstance(value, Mapping | list) or not value or self._is_flow(head, value, at, indent):
            only = (
                [f"{head} {flow(self._arranged(value, at))}"]
                if isinstance(value, Mapping | list)
                else _scalar(head, value)
            )
            return [*lines, f"{pad}{only[0]}{tail}", *(f"{pad}{line}" if line else "" for line in only[1:])]
        inner = indent + 2
        below = self._mapping(value, at, inner) if isinstance(value, Mapping) else self._list(value, at, inner)
        if head == "-" and not tail and not below[0].lstrip().startswith("#"):
            return [*lines, f"{pad}- {below[0][inner:]}", *below[1:]]
        return [*lines, f"{pad}{head}{tail}", *below]

    def _is_flow(self, head: str, value: Any, at: NodePath, indent: int) -> bool:
        """Whether a collection stays on one line: it is so in the file, short, and without comments inside."""
        if self.written(at) not in self.source.flows or "\n" in str(value):
            return False
        inside = any(self._above.get(node) or self._beside.get(node) for node in _nodes(value, at))
        return not inside and indent + len(head) + 1 + len(flow(value)) <= LONGEST_FLOW


def _scalar(head: str, value: Any) -> list[str]:
    """The lines of a scalar with its key, or of an item of a list."""
    if head == "-":
        return yaml_lines([value])
    lines = yaml_lines({"k": value})
    return [head + lines[0].removeprefix("k:"), *lines[1:]]


def _nodes(value: Any, at: NodePath) -> Iterator[NodePath]:
    """All nodes below a value."""
    if isinstance(value, Mapping):
        pairs: Any = value.items()
    elif isinstance(value, list):
        pairs = enumerate(value)
    else:
        return
    for key, item in pairs:
        yield (*at, key)
        yield from _nodes(item, (*at, key))
