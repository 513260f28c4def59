"""Guidelines: attached files that hold instructions rather than material, found by the patterns of a project.

`.agentv/config.yaml`, the nearest from the suite up to its repository, lists `guideline_patterns`: globs over the path
below the repository. Other keys of that file are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from agentv.suite.files import FileUnusableError, open_regular, upward
from agentv.suite.yaml_events import YamlProblem, YamlWalk

FILE_NAMES = (".agentv/config.yaml", ".agentv/config.yml")
_GLOB_PART = re.compile(r"\*\*/|\*\*|\*|\?|\[!?[^\]/]*\]|\{[^{}]*\}|.", re.DOTALL)


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
    listed = data.get("guideline_patterns") if isinstance(data, dict) else None
    if not isinstance(data, dict):
        return Guidelines(
            path, problem=(1, 1, "expected a mapping like `guideline_patterns: ['**/*.instructions.md']`")
        )
    if listed is None:
        return Guidelines(path)
    if not isinstance(listed, list) or not all(isinstance(item, str) and item.strip() for item in listed):
        mark = walk.marks.get(("guideline_patterns",))
        place = (mark.line, mark.column) if mark is not None else (1, 1)
        return Guidelines(path, problem=(*place, "`guideline_patterns`: expected a list of patterns like '**/*.md'"))
    return Guidelines(path, tuple(glob_pattern(item) for item in listed))


def glob_pattern(glob: str) -> re.Pattern[str]:
    """`*` and `?` stay within a directory, `**` crosses them, `[abc]` and `{a,b}` choose."""
    return re.compile("".join(_translated(_GLOB_PART.findall(glob.removeprefix("./")))))


def _translated(parts: Iterable[str]) -> Iterable[str]:
    for part in parts:
        if part == "**/":
            yield "(?:[^/]+/)*"
        elif part == "**":
            yield ".*"
        elif part == "*":
            yield "[^/]*"
        elif part == "?":
            yield "[^/]"
        elif part.startswith("[") and len(part) > 2:
            inside = part[1:-1].replace("\\", "\\\\").replace("[", "\\[")
            yield f"[^{inside[1:]}]" if inside.startswith("!") else f"[{inside.replace('^', chr(92) + '^')}]"
        elif part.startswith("{") and part.endswith("}"):
            chosen = ("".join(_translated(_GLOB_PART.findall(item))) for item in part[1:-1].split(","))
            yield f"(?:{'|'.join(chosen)})"
        else:
            yield re.escape(part)
