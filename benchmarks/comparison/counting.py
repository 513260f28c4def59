"""Count lines of code (not blank, not only a comment), and check that the page shows the code that is run."""

from __future__ import annotations

from pathlib import Path

from benchmarks.comparison.tools import SNIPPETS, Tool

BEGIN, END = "# scorer", "# end of scorer"


def scorer_lines(tool: Tool) -> int:
    """The number of lines of the scorer, including its imports."""
    return _count(_parts(tool)[0])


def other_lines(tool: Tool) -> int:
    """The number of lines of the cases, the configuration and the code that runs them."""
    files = [_lines(SNIPPETS / tool.folder / name) for name in tool.files]
    return _count(_parts(tool)[1]) + sum(map(_count, files))


def not_shown(tool: Tool, page: str) -> bool:
    """Whether the scorer on the page differs from the one that is run; ruff comments are ignored."""
    lines = (SNIPPETS / tool.folder / tool.scorer).read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith("# ruff:")) not in page


def _parts(tool: Tool) -> tuple[list[str], list[str]]:
    lines = _lines(SNIPPETS / tool.folder / tool.scorer)
    if BEGIN not in lines:
        return lines, []
    begin, end = lines.index(BEGIN), lines.index(END)
    return lines[begin:end], [*lines[:begin], *lines[end:]]


def _lines(path: Path) -> list[str]:
    return [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]


def _count(lines: list[str]) -> int:
    return sum(bool(line) and not line.startswith(("#", "//")) for line in lines)
