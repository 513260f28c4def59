"""Problems in a user's files: collected by node, reported by file:line:column.

Checks name the node (`("evalcases", 3, "weight")`). Its position is looked up once, at the end, by walking the text
again with positions, so a file without problems pays nothing for positions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from agentv.errors import Problem
from agentv.jsonio import find_problems
from agentv.regular_files import FileUnusableError, open_regular
from agentv.suite.json_lines import bounded_lines
from agentv.suite.origins import Origins
from agentv.suite.yaml import Mark, NodePath, YamlProblem, YamlWalk
from agentv.suite.yaml_scalars import as_written, not_finite

Place = Callable[[NodePath], tuple[Mark, bool]]
"""Returns the position of a node and True, or the position of its nearest parent and False."""
LONGEST_SOURCE = 20_000
MAX_SHOWN = 200
_BLOCK = re.compile(r"(?:[&!]\S*\s+)*\|")
"""How a string begins whose lines are written one below the other: `|` in YAML."""


class Form(NamedTuple):
    """The form of a file: how the positions of its nodes are found."""

    places: Callable[[Path, Iterable[NodePath]], Place]
    has_lines: bool = True
    """Whether lines of the file can be shown."""
    columns: Mapping[str, str] = {}
    """For files with rows: the column of each field of a case, if it has another name."""


class Finding(NamedTuple):
    """A problem at a node; `at_key` points at the key. `line` is the line of the text of the node, from 1, if known."""

    node: NodePath
    message: str
    at_key: bool = False
    line: int | None = None


@dataclass(slots=True)
class Findings:
    """The problems of one file. In JSON Lines and CSV, the first step of a node's path is its line number, from 1."""

    path: Path
    form: Form | None = None
    """None for YAML."""
    written: Mapping[NodePath, str] = field(default_factory=dict)
    """The spelling of booleans in the part being checked that are not written `true` or `false`."""
    read_as_text: set[NodePath] = field(default_factory=set)
    """Non-finite numbers that were read as text, and so are allowed."""
    origins: Origins | None = None
    """Where nodes are written, in a file of another dialect that was normalised."""
    _by_node: list[Finding] = field(default_factory=list)
    _placed: list[tuple[int, int, str]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._by_node) + len(self._placed)

    def clear(self) -> None:
        self._by_node.clear()
        self._placed.clear()

    def add(self, node: NodePath, message: str, *, at_key: bool = False, line: int | None = None) -> None:
        """Add a problem at a node; `at_key` points at the key instead of the value, `line` at a line of its text."""
        if self.form is not None and self.form.columns and len(node) > 1:
            node = _in_columns(node, self.form.columns)
        if self.origins is not None:
            message, node = self.origins.in_words(message, node), self.origins.written(node)
        self._by_node.append(Finding(node, message, at_key, line))

    def add_at(self, line: int, column: int, message: str) -> None:
        """Add a problem whose position is already known."""
        self._placed.append((line, column, message))

    def by_node(self) -> list[Finding]:
        """The problems added by node."""
        return list(self._by_node)

    def latest_nodes(self, at: NodePath) -> set[NodePath]:
        """The nodes of the latest problems at or below `at`, and the non-finite numbers that were read as text."""
        latest = takewhile(lambda node: node[: len(at)] == at, (each.node for each in reversed(self._by_node)))
        return {*latest, *self.read_as_text}

    def as_written(self, node: NodePath, value: Any) -> Any:
        """A scalar as it is spelled in the file; any other value unchanged."""
        if self.origins is not None:
            node = self.origins.written(node)
        if not_finite(value):
            self.read_as_text.add(node)
        return self.written.get(node) or as_written(value)

    def problems(self) -> list[Problem]:
        """Every problem with its position and source line, in file order."""
        places: dict[tuple[int, int, str], NodePath] = dict.fromkeys(self._placed, ())
        if self._by_node:
            find = yaml_places if self.form is None else self.form.places
            place = find(self.path, [each.node for each in self._by_node])
            in_text: list[tuple[Finding, Mark]] = []
            for each in self._by_node:
                mark, exact = place(each.node)
                if each.line is not None and exact and self.form is None:
                    in_text.append((each, mark))
                    continue
                line, column = (mark.key_line, mark.key_column) if each.at_key and exact else (mark.line, mark.column)
                places.setdefault((line, column, each.message), each.node)
            for each, (line, column) in _in_blocks(self.path, in_text):
                places.setdefault((line, column, each.message), each.node)
        shown = sorted(places)
        has_lines = self.form is None or self.form.has_lines
        sources = source_lines(self.path, {line for line, _, _ in shown[:MAX_SHOWN]}) if has_lines else {}
        return [
            Problem(
                self.path,
                line,
                column,
                text,
                source if column <= len(source := sources.get(line, "")) + 1 else "",
                places[line, column, text],
            )
            for line, column, text in shown
        ]


class AllFindings:
    """The problems of a suite and of the files that contain its cases."""

    def __init__(self) -> None:
        self._files: dict[Path, Findings] = {}

    def of(self, path: Path, form: Form | None = None) -> Findings:
        return self._files.setdefault(path, Findings(path, form))

    def __len__(self) -> int:
        return sum(map(len, self._files.values()))

    def clear(self) -> None:
        for findings in self._files.values():
            findings.clear()

    def problems(self) -> list[Problem]:
        return [problem for findings in self._files.values() if findings for problem in findings.problems()]


def _in_blocks(path: Path, found: list[tuple[Finding, Mark]]) -> Iterator[tuple[Finding, tuple[int, int]]]:
    """The line and column of each of these problems: of the line of the text if the text is a `|` block."""
    if not found:
        return
    sources = source_lines(path, {line for each, mark in found for line in (mark.line, mark.line + (each.line or 0))})
    for each, mark in found:
        line = mark.line + (each.line or 0)
        text = sources.get(line, "")
        if _BLOCK.match(sources.get(mark.line, "")[mark.column - 1 :]) and text.strip():
            yield each, (line, len(text) - len(text.lstrip()) + 1)
        else:
            yield each, (mark.line, mark.column)


def _in_columns(node: NodePath, columns: Mapping[str, str]) -> NodePath:
    """The node of a cell, for a node of the case that the row became."""
    line, name, *rest = node
    if name == "vars" and rest:
        return (line, *rest)
    return (line, columns.get(str(name), name), *rest)


# -- where nodes are


def yaml_places(path: Path, nodes: Iterable[NodePath]) -> Place:
    """A function that finds these nodes in a YAML file."""
    wanted = {node[:length] for node in nodes for length in range(len(node) + 1)}
    walk = YamlWalk(b"", record=True, wanted=wanted)
    listed = {node[0]: node[1] for node in sorted(_list_items(wanted))}
    streamed, last = max(listed.items(), key=itemgetter(1), default=("-", -1))
    missing = {node[0] for node in wanted if node} - {streamed}
    try:
        with open_regular(path) as walk.stream:
            if any(isinstance(node[0], int) for node in wanted if node):  # the file is a list
                walk.document()
                return walk.place
            for entry in walk.entries(streamed):
                missing.discard(entry.key)
                if not missing and entry.key == streamed and entry.index is not None and entry.index >= last:
                    break
    except (OSError, FileUnusableError, YamlProblem):
        pass  # positions before the error are known; the error itself is reported elsewhere
    return walk.place


def _list_items(nodes: Iterable[NodePath]) -> list[tuple[str, int]]:
    return [(str(node[0]), node[1]) for node in nodes if len(node) == 2 and isinstance(node[1], int)]


def json_line_places(path: Path, nodes: Iterable[NodePath]) -> Place:
    """A function that finds these nodes in a JSON Lines file, where a path starts with the line number."""
    numbers = {node[0] for node in nodes if node}
    marks: dict[NodePath, Mark] = {}
    try:
        with open_regular(path) as stream:
            for number, raw in enumerate(bounded_lines(stream), 1):
                if number in numbers:
                    text = raw.decode("utf-8-sig" if number == 1 else "utf-8", "replace")
                    marks[number,] = Mark(number, 1, number, 1)
                    offsets: dict[NodePath, tuple[int, int]] = {}
                    for _ in find_problems(text, offsets):
                        pass
                    for node, (value_at, key_at) in offsets.items():
                        marks[(number, *node)] = Mark(number, value_at + 1, number, key_at + 1)
    except (OSError, FileUnusableError):
        pass

    def place(node: NodePath) -> tuple[Mark, bool]:
        for length in range(len(node), 0, -1):
            if mark := marks.get(node[:length]):
                return mark, length == len(node)
        return Mark(1, 1, 1, 1), False

    return place


JSON_LINES = Form(json_line_places)
PLAIN_TEXT = Form(lambda _, __: lambda ___: (Mark(1, 1, 1, 1), False))
"""The form of files without nodes."""


def source_lines(path: Path, numbers: set[int]) -> dict[int, str]:
    """The text of these lines; lines that cannot be read are left out."""
    sources: dict[int, str] = {}
    try:
        with open_regular(path) as stream:
            for number, line in enumerate(bounded_lines(stream), 1):
                if number in numbers:
                    sources[number] = line[:LONGEST_SOURCE].decode("utf-8", "replace").rstrip("\r\n").lstrip("\ufeff")
                    if len(sources) == len(numbers):
                        break
    except (OSError, FileUnusableError):
        return sources
    return sources
