"""Mistakes found in a user's files: collected by path into the data, shown by file:line:column.

Checks name the node (`("evalcases", 3, "weight")`); where that node stands is looked up once, at the end, by walking the
text again with positions. So a file without mistakes pays nothing for positions.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentv.errors import Problem
from agentv.suite.yaml_events import Mark, YamlProblem, YamlWalk
from agentv.suite.yaml_events import Path as NodePath

MAX_SHOWN = 200


@dataclass(slots=True)
class Findings:
    """The mistakes of one file. For JSON Lines the first step of a path is the line's number, from 1."""

    path: Path
    json_lines: bool = False
    _by_node: list[tuple[NodePath, str, bool]] = field(default_factory=list)
    _placed: list[tuple[int, int, str]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self._by_node or self._placed)

    def add(self, node: NodePath, message: str, *, at_key: bool = False) -> None:
        """A mistake at a node; `at_key` points at the key instead of the value."""
        self._by_node.append((node, message, at_key))

    def add_at(self, line: int, column: int, message: str) -> None:
        """A mistake whose place is already known."""
        self._placed.append((line, column, message))

    def by_node(self) -> list[tuple[NodePath, str, bool]]:
        """The mistakes that name a node: the node, the message, whether it is about the key."""
        return list(self._by_node)

    def problems(self) -> list[Problem]:
        """Every mistake with its place and source line, in file order."""
        places = list(self._placed)
        marks = self._marks() if self._by_node else {}
        for node, message, at_key in self._by_node:
            mark, exact = _nearest(marks, node)
            line, column = (mark.key_line, mark.key_column) if at_key and exact else (mark.line, mark.column)
            places.append((line, column, message))
        shown = sorted(set(places))
        sources = _source_lines(self.path, {line for line, _, _ in shown[:MAX_SHOWN]})
        return [Problem(self.path, line, column, text, sources.get(line, "")) for line, column, text in shown]

    def _marks(self) -> dict[NodePath, Mark]:
        if self.json_lines:
            return self._json_line_marks({node[0] for node, _, _ in self._by_node if node})
        walk = YamlWalk(self.path.read_bytes(), record=True)
        try:
            walk.document()
        except YamlProblem:
            pass
        return walk.marks

    def _json_line_marks(self, numbers: set[str | int]) -> dict[NodePath, Mark]:
        marks: dict[NodePath, Mark] = {}
        with self.path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if number not in numbers:
                    continue
                marks[(number,)] = Mark(number, 1, number, 1, None)
                walk = YamlWalk(line, record=True)
                try:
                    walk.document()
                except YamlProblem:
                    continue
                for path, mark in walk.marks.items():
                    marks[(number, *path)] = Mark(number, mark.column, number, mark.key_column, mark.raw)
        return marks


def _nearest(marks: dict[NodePath, Mark], node: NodePath) -> tuple[Mark, bool]:
    for length in range(len(node), -1, -1):
        if mark := marks.get(node[:length]):
            return mark, length == len(node)
    return Mark(1, 1, 1, 1, None), False


def _source_lines(path: Path, numbers: set[int]) -> dict[int, str]:
    found: dict[int, str] = {}
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if number in numbers:
                    found[number] = line[:20_000].decode("utf-8", "replace").rstrip("\r\n")
                    if len(found) == len(numbers):
                        break
    except OSError:
        return found
    return found


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean `x`?)`, or nothing when no known word is close."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f" (did you mean `{close[0]}`?)" if close else ""


def one_of(words: Sequence[str]) -> str:
    """`a`, `b` or `c`."""
    quoted = [f"`{word}`" for word in words]
    return " or ".join([", ".join(quoted[:-1]), quoted[-1]]) if len(quoted) > 1 else "".join(quoted)
