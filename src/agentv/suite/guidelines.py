"""Guidelines: attached files that contain instructions rather than material, selected by the project's patterns.

The nearest `.agentv/config.yaml`, from the suite's directory up to its repository, lists `guideline_patterns`: globs
that are matched against paths relative to the repository. Other keys of that file are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agentv.regular_files import FileUnusableError, open_regular
from agentv.suite.files import upward
from agentv.suite.yaml import YamlProblem, YamlWalk
from agentv.text import did_you_mean

FILE_NAMES = (".agentv/config.yaml", ".agentv/config.yml")
PATTERNS = "guideline_patterns"
AGENTV_KEYS = frozenset(
    {"$schema", "required_version", "eval_patterns", "execution", "results", "hooks", "projects", "dashboard", "studio"}
    | {"results_by_project", "providers", "targets", "defaults", "tests", "default_test", "evaluate_options", "refs"}
    | {"env", "tags", "git_backed", "features"}
)
"""Keys of AgentV (npm) that have no effect on a suite: they say how it runs and stores results."""
_GLOB_PART = re.compile(r"\*\*/|\*\*|\*|\?|\[[!^]?[^\]/]+\]|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Guidelines:
    """The patterns of a project. `problem` is (line, column, message) if the file is invalid."""

    path: Path | None = None
    patterns: tuple[re.Pattern[str], ...] = ()
    problem: tuple[int, int, str] | None = None
    unknown: tuple[str, ...] = ()
    """Keys that are not known, for a warning."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know about the file."""
        names = ", ".join(f"`{name}`" for name in self.unknown)
        return (f"{self.path}: unknown keys are ignored: {names}",) if names else ()

    def cover(self, path: Path, root: Path) -> bool:
        """Whether this file is a guideline."""
        if not self.patterns or not path.is_relative_to(root):
            return False
        below = path.relative_to(root).as_posix()
        return any(pattern.fullmatch(below) for pattern in self.patterns)


NO_GUIDELINES = Guidelines()


def find_guidelines(directory: Path, root: Path) -> Guidelines:
    """The guidelines of the nearest project file."""
    for folder in upward(directory, root):
        for name in FILE_NAMES:
            if (folder / name).is_file():
                return read_guidelines(folder / name)
    return NO_GUIDELINES


def read_guidelines(path: Path) -> Guidelines:
    """The guidelines that a project file lists."""
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
            path, problem=(1, 1, "the file must be a mapping like `guideline_patterns: ['**/*.instructions.md']`")
        )
    unknown = tuple(key for key in data if key not in (*AGENTV_KEYS, PATTERNS))
    if listed is None or walk.duplicates:
        return Guidelines(path, problem=_problem_of_keys(walk, data), unknown=unknown)
    if not isinstance(listed, list) or not all(isinstance(item, str) and item.strip() for item in listed):
        mark = walk.marks.get(("guideline_patterns",))
        place = (mark.line, mark.column) if mark is not None else (1, 1)
        return Guidelines(path, problem=(*place, "`guideline_patterns` must be a list of patterns like '**/*.md'"))
    patterns = []
    for number, item in enumerate(listed):
        try:
            patterns.append(glob_pattern(item))
        except ValueError as error:
            mark = walk.marks.get(("guideline_patterns", number))
            place = (mark.line, mark.column) if mark is not None else (1, 1)
            return Guidelines(path, problem=(*place, f"`guideline_patterns`: {error}"))
    return Guidelines(path, tuple(patterns), unknown=unknown)


def _problem_of_keys(walk: YamlWalk, data: dict[str, object]) -> tuple[int, int, str] | None:
    """The problem with the first duplicate key, or with a key that looks like a typo of `guideline_patterns`."""
    for key, line, column, first in walk.duplicates:
        return line, column, f"duplicate key `{key[:60]}` (first at line {first})"
    for key in data.keys() - AGENTV_KEYS:
        if key != PATTERNS and (meant := did_you_mean(key, [PATTERNS])):
            mark = walk.marks[key,]
            return mark.key_line, mark.key_column, f"unknown key `{key}`{meant}"
    return None


def glob_pattern(glob: str) -> re.Pattern[str]:
    """`*` and `?` stay within a directory, `**` crosses them, `[abc]` and `{a,b}` offer choices; else ValueError."""
    try:
        return re.compile("".join(_translated(glob.removeprefix("./"))))
    except re.error as error:
        raise ValueError(f"{glob!r} is not a valid pattern: {error.msg}") from None


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
    """The alternatives of the `{...}` that starts at `at`; empty if it is not closed."""
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
        # A set never matches `/`, and `--`, `&&` and the like are not operators.
        listed = re.sub(r"([\\\[^&~|])", r"\\\1", re.sub("-+", "-", inside[negated:]))
        return f"[^/{listed}]" if negated else f"[{listed}]"
    fixed = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return fixed.get(part) or re.escape(part)
