"""Sections of a page: words, links, lists and tables that `static/sections.js` shows. A page needs no code for each.

A section is a `Block` of `static/types.js`. Values are text: numbers are formatted here, as in the terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from agentv.report.format import format_duration

UNKNOWN = "\N{EN DASH}"

Part = str | dict[str, Any]
"""Text, or text with a link or a class."""
Cell = Part | list[Part]
Block = dict[str, Any]


def part(text: str, kind: str | None = None, *, href: str | None = None, title: str | None = None) -> Part:
    """Text with a class, a link or a tooltip."""
    return _known(text=text, kind=kind, href=href, title=title)


def paragraph(*parts: Part, kind: str | None = None) -> Block:
    return _known(text=list(parts), kind=kind)


def bullets(items: Iterable[Cell], kind: str | None = None) -> Block:
    return _known(items=list(items), kind=kind)


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[Cell]], kind: str | None = None) -> Block:
    """The first cell of a row names it. `caption` is for screen readers."""
    return _known(caption=caption, head=list(head), rows=[list(row) for row in rows], kind=kind)


def group(*blocks: Block | None, kind: str | None = None, title: str | None = None) -> Block:
    """Blocks below each other, with a title. None is left out."""
    return _known(blocks=[block for block in blocks if block], kind=kind, title=title)


def folded(summary: str, *blocks: Block, is_open: bool = False) -> Block:
    return _known(summary=summary, blocks=list(blocks), open=is_open or None)


def listed(items: Sequence[Cell], shown: int, kind: str | None = None) -> Block:
    """A list whose rest is folded."""
    rest = items[shown:]
    return group(bullets(items[:shown], kind), folded(f"{len(rest):,} more", bullets(rest, kind)) if rest else None)


def format_ms(ms: float | None) -> str:
    if ms is None:
        return UNKNOWN
    return f"{ms:.0f} ms" if ms < 999.5 else format_duration(ms / 1000)


def format_count(count: int | None) -> str:
    return UNKNOWN if count is None else f"{count:,}"


def _known(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
