"""What counts as a line, one that is neither blank nor only a comment, and whether the page shows what is run."""

from __future__ import annotations

from pathlib import Path

from benchmarks.comparison.tools import SNIPPETS, Tool

BEGIN, END = "# scorer", "# end of scorer"


def scorer_lines(tool: Tool) -> int:
    """Lines of the scorer, with the imports it needs."""
    return _count(_parts(tool)[0])


def other_lines(tool: Tool) -> int:
    """Lines of the cases, the configuration and the call that runs them."""
    files = [_lines(SNIPPETS / tool.folder / name) for name in tool.files]
    return _count(_parts(tool)[1]) + sum(map(_count, files))


def not_shown(tool: Tool, page: str) -> bool:
    """Whether the scorer of the page is another than the one that is run; remarks to ruff are left out there."""
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
