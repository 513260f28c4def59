"""Read the files of another tool with the line of every value, and collect notes about them."""

from __future__ import annotations

import csv
import glob
import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentv.errors import InvalidFilesError, Problem
from agentv.regular_files import FileUnusableError, open_regular
from agentv.suite.files import MAX_FILE_BYTES, repository_root
from agentv.suite.json_lines import message_of, read_lines
from agentv.suite.yaml import NodePath, YamlProblem, YamlWalk

FILE = "file://"


@dataclass(frozen=True, slots=True)
class Note:
    """A note about one value, for the user."""

    path: Path
    line: int
    message: str
    left_out: bool = True
    """True if something was not imported; False if it only needs a review."""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


@dataclass(slots=True)
class Notes:
    """All notes, without duplicates."""

    all: dict[Note, None] = field(default_factory=dict)

    def left_out(self, node: Node, message: str) -> None:
        self.all[Note(node.path, node.line, message)] = None

    def look_at(self, node: Node, message: str) -> None:
        self.all[Note(node.path, node.line, message, left_out=False)] = None


class UnreadableError(ValueError):
    """A file that cannot be used, with a complete message. `line` is where the file is referenced."""

    def __init__(self, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class Node:
    """A value with its file and line."""

    value: Any
    path: Path
    place: Callable[[NodePath], int] = field(repr=False, compare=False)
    at: NodePath = ()

    @property
    def line(self) -> int:
        return self.place(self.at)

    @property
    def is_mapping(self) -> bool:
        return isinstance(self.value, Mapping)

    @property
    def is_list(self) -> bool:
        return isinstance(self.value, list)

    def __getitem__(self, key: str | int) -> Node:
        return Node(self.value[key], self.path, self.place, (*self.at, key))

    def get(self, key: str) -> Node | None:
        """The node of a key; None if the key is missing or its value is null."""
        return self[key] if self.is_mapping and self.value.get(key) is not None else None

    def raw(self, key: str, default: Any = None) -> Any:
        node = self.get(key)
        return default if node is None else node.value

    def items(self) -> Iterator[Node]:
        """The nodes of a list. A single value is treated as a list of one."""
        if not self.is_list:
            yield self
            return
        for index in range(len(self.value)):
            yield self[index]

    def with_value(self, value: Any) -> Node:
        """A node with another value and the same line."""
        line = self.line
        return Node(value, self.path, lambda _: line)


def entries(node: Node | None) -> Iterator[tuple[str, Node]]:
    """The keys and nodes of a mapping; nothing for other values."""
    if node is not None and node.is_mapping:
        for key in node.value:
            yield key, node[key]


def read_bytes(path: Path) -> bytes:
    try:
        with open_regular(path) as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except (OSError, FileUnusableError) as error:
        raise UnreadableError(f"{path} {error}") from None
    if len(data) > MAX_FILE_BYTES:
        raise UnreadableError(f"{path} is larger than {MAX_FILE_BYTES // 2**20} MiB")
    return data


def read_text(path: Path) -> str:
    try:
        return read_bytes(path).decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise UnreadableError(f"{path} is not UTF-8 text (byte {error.start})") from None


def read_document(path: Path) -> Node:
    """Read a YAML or JSON file. Raises UnreadableError."""
    walk = YamlWalk(read_bytes(path), record=True)
    try:
        value = walk.document()
    except YamlProblem as problem:
        raise UnreadableError(f"{path}:{problem.line}:{problem.column}: {problem.message}") from None
    if walk.duplicates:
        key, line, column, first = walk.duplicates[0]
        raise UnreadableError(f"{path}:{line}:{column}: duplicate key `{key[:60]}` (first at line {first})")
    return Node(value, path, lambda node: walk.place(node)[0].key_line)


def read_tests(path: Path) -> Iterator[Node]:
    """The tests of a YAML, JSON, JSONL or CSV file. CSV rows are mappings from column to cell."""
    if path.suffix == ".jsonl":
        for line in read_lines(io.BytesIO(read_bytes(path))):
            if line.problems:
                raise UnreadableError(f"{path}:{line.number}: {message_of(line.problems[0])}")
            yield Node(line.value, path, lambda _, number=line.number: number)  # type: ignore[misc]
    elif path.suffix == ".csv":
        rows = csv.DictReader(io.StringIO(read_text(path)))
        for row in rows:
            cells = {key: value or "" for key, value in row.items() if key is not None}
            yield Node(cells, path, lambda _, number=rows.line_num: number)  # type: ignore[misc]
    else:
        yield from read_document(path).items()


def named_files(reference: str, directory: Path) -> list[Path]:
    """The files that a `file://...` reference matches, at least one. Globs are expanded.

    Raises UnreadableError for a file outside the repository of the configuration, or outside its directory if it is not
    in a repository: its content would be copied into the suite.
    """
    name, home = reference.removeprefix(FILE), directory.resolve()
    root = repository_root(home) or home
    _refuse_outside(directory / _without_magic(name), name, root)
    if glob.has_magic(name) and not (directory / name).exists():
        paths = [directory / match for match in sorted(glob.glob(name, root_dir=directory, recursive=True))]  # noqa: PTH207
        if not paths:
            raise UnreadableError(f"no file matches {name}")
    else:
        paths = [directory / name]
    for path in paths:
        _refuse_outside(path, name, root)
    return paths


def _without_magic(name: str) -> Path:
    """The part of a pattern before its first wildcard."""
    parts = Path(name).parts
    plain = next((number for number, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    return Path(*parts[:plain])


def _refuse_outside(path: Path, name: str, root: Path) -> None:
    try:
        inside = path.resolve().is_relative_to(root)
    except (OSError, RuntimeError, ValueError):  # a loop of links, a NUL
        inside = False
    if not inside:
        raise UnreadableError(f"{name} is outside {root}; copy it next to the configuration")


def unreadable(path: Path, message: str, line: int = 1) -> InvalidFilesError:
    """An error for a file that cannot be imported at all."""
    return InvalidFilesError([Problem(path, line, 1, message)])
