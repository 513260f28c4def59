"""Where nodes of a file stand: looked up in the text again, for those nodes only."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import itemgetter
from pathlib import Path

from agentv.suite.files import FileUnusableError, open_regular
from agentv.suite.json_lines import bounded_lines
from agentv.suite.json_places import JsonPlaces
from agentv.suite.yaml_events import Mark, YamlProblem, YamlWalk
from agentv.suite.yaml_events import Path as NodePath

Place = Callable[[NodePath], tuple[Mark, bool]]
LONGEST_SOURCE = 20_000


def yaml_places(path: Path, nodes: Iterable[NodePath]) -> Place:
    """Finds the mark of a node (or of the nearest one around it), and whether it is the node's own."""
    wanted = {node[:length] for node in nodes for length in range(len(node) + 1)}
    walk = YamlWalk(b"", record=True, wanted=wanted)
    listed = {node[0]: node[1] for node in sorted(_list_items(wanted))}
    streamed, last = max(listed.items(), key=itemgetter(1), default=("", -1))
    missing = {node[0] for node in wanted if node} - {streamed}
    try:
        with open_regular(path) as walk.stream:
            for entry in walk.entries(streamed):
                missing.discard(entry.key)
                if not missing and entry.key == streamed and entry.index is not None and entry.index >= last:
                    break
    except (OSError, FileUnusableError, YamlProblem):
        pass  # the nodes before that are found; the problem itself has its own place
    return walk.place


def _list_items(nodes: Iterable[NodePath]) -> list[tuple[str, int]]:
    return [(str(node[0]), node[1]) for node in nodes if len(node) == 2 and isinstance(node[1], int)]


def json_line_places(path: Path, nodes: Iterable[NodePath]) -> Place:
    """The same for JSON Lines, where a path starts with the number of the line."""
    numbers = {node[0] for node in nodes if node}
    marks: dict[NodePath, Mark] = {}
    try:
        with open_regular(path) as stream:
            for number, raw in enumerate(bounded_lines(stream), 1):
                if number in numbers:
                    text = raw.decode("utf-8-sig" if number == 1 else "utf-8", "replace")
                    marks[number,] = Mark(number, 1, number, 1)
                    for node, (column, key_column) in JsonPlaces(text).columns.items():
                        marks[(number, *node)] = Mark(number, column, number, key_column)
    except (OSError, FileUnusableError):
        pass

    def place(node: NodePath) -> tuple[Mark, bool]:
        for length in range(len(node), 0, -1):
            if mark := marks.get(node[:length]):
                return mark, length == len(node)
        return Mark(1, 1, 1, 1), False

    return place


def source_lines(path: Path, numbers: set[int]) -> dict[int, str]:
    """The text of some lines, as far as it can be read."""
    found: dict[int, str] = {}
    try:
        with open_regular(path) as stream:
            for number, line in enumerate(bounded_lines(stream), 1):
                if number in numbers:
                    found[number] = line[:LONGEST_SOURCE].decode("utf-8", "replace").rstrip("\r\n").lstrip("\ufeff")
                    if len(found) == len(numbers):
                        break
    except (OSError, FileUnusableError):
        return found
    return found
