"""Guidelines: attached files that hold instructions rather than material, found by the patterns of a project.

`.agentv/config.yaml`, the nearest from the suite up to its repository, lists `guideline_patterns`: globs over the path
below the repository. Other keys of that file are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agentv.suite.files import FileUnusableError, open_regular, upward
from agentv.suite.yaml import YamlProblem, YamlWalk
from agentv.text import did_you_mean

FILE_NAMES = (".agentv/config.yaml", ".agentv/config.yml")
PATTERNS = "guideline_patterns"
_GLOB_PART = re.compile(r"\*\*/|\*\*|\*|\?|\[[!^]?[^\]/]+\]|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Guidelines:
    """The patterns of a project. `problem` is (line, column, message) when the file cannot be understood."""

    path: Path | None = None
    patterns: tuple[re.Pattern[str], ...] = ()
    problem: tuple[int, int, str] | None = None

    def cover(self, path: Path, root: Path) -> bool:
        """Whether this file is a guideline."""
        if not self.patterns or not path.is_relative_to(root):
            return False
        below = path.relative_to(root).as_posix()
        return any(pattern.fullmatch(below) for pattern in self.patterns)


NO_GUIDELINES = Guidelines()


def find_guidelines(directory: Path, root: Path) -> Guidelines:
    """What the nearest project file says."""
    for folder in upward(directory, root):
        for name in FILE_NAMES:
            if (folder / name).is_file():
                return read_guidelines(folder / name)
    return NO_GUIDELINES


def read_guidelines(path: Path) -> Guidelines:
    """The patterns that a project file lists."""
    try:
        with open_regular(path) as file:
            walk = YamlWalk(file.read(), record=True)
        data = walk.document()
    except (OSError, FileUnusableError) as error:
        return Guidelines(path, problem=(1, 1, f"the project file cannot be read: {error}"))
    except YamlProblem as problem:
        return Guidelines(path, problem=(problem.line, problem.column, problem.message))
    if data is None:
        return Guidelines(path)
    listed = data.get(PATTERNS) if isinstance(data, dict) else None
    if not isinstance(data, dict):
        return Guidelines(
            path, problem=(1, 1, "expected a mapping like `guideline_patterns: ['**/*.instructions.md']`")
        )
    if listed is None or walk.duplicates:
        return Guidelines(path, problem=_problem_of_keys(walk, data))
    if not isinstance(listed, list) or not all(isinstance(item, str) and item.strip() for item in listed):
        mark = walk.marks.get(("guideline_patterns",))
        place = (mark.line, mark.column) if mark is not None else (1, 1)
        return Guidelines(path, problem=(*place, "`guideline_patterns`: expected a list of patterns like '**/*.md'"))
    patterns = []
    for number, item in enumerate(listed):
        try:
            patterns.append(glob_pattern(item))
        except ValueError as error:
            mark = walk.marks.get(("guideline_patterns", number))
            place = (mark.line, mark.column) if mark is not None else (1, 1)
            return Guidelines(path, problem=(*place, f"`guideline_patterns`: {error}"))
    return Guidelines(path, tuple(patterns))


def _problem_of_keys(walk: YamlWalk, data: dict[str, object]) -> tuple[int, int, str] | None:
    """A key that is here twice, or that was meant to be the one that is read."""
    for key, line, column, first in walk.duplicates:
        return line, column, f"the key `{key[:60]}` is here twice; first at line {first}"
    for key in data:
        if key != PATTERNS and (meant := did_you_mean(key, [PATTERNS])):
            mark = walk.marks[key,]
            return mark.key_line, mark.key_column, f"unknown key `{key}`{meant}"
    return None


def glob_pattern(glob: str) -> re.Pattern[str]:
    """`*` and `?` stay within a directory, `**` crosses them, `[abc]` and `{a,b}` choose. ValueError for no pattern."""
    try:
        return re.compile("".join(_translated(glob.removeprefix("./"))))
    except re.error as error:
        raise ValueError(f"{glob!r} is no pattern: {error.msg}") from None


def _translated(glob: str) -> Iterator[str]:
    at = 0
    while part := _GLOB_PART.match(glob, at):
        if part[0] == "{" and (chosen := _choices(glob, at)):
            yield f"(?:{'|'.join(''.join(_translated(item)) for item in chosen)})"
            at += sum(map(len, chosen)) + len(chosen) + 1
        else:
            yield _translated_part(part[0])
            at = part.end()


def _choices(glob: str, at: int) -> list[str]:
    """What stands between the commas of the `{...}` that begins here; nothing when it is not closed."""
    choices, depth, start = list[str](), 0, at + 1
    for index in range(at, len(glob)):
        depth += {"{": 1, "}": -1}.get(glob[index], 0)
        if not depth or (depth == 1 and glob[index] == ","):
            choices.append(glob[start:index])
            start = index + 1
        if not depth:
            return choices
    return []


def _translated_part(part: str) -> str:
    if len(part) > 2 and part[0] == "[":
        inside = part[1:-1]
        negated = inside[0] in "!^" and len(inside) > 1
        # `/` is never chosen by a set, and `--`, `&&` and their like are no operators.
        listed = re.sub(r"([\\\[^&~|])", r"\\\1", re.sub("-+", "-", inside[negated:]))
        return f"[^/{listed}]" if negated else f"[{listed}]"
    fixed = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return fixed.get(part) or re.escape(part)
