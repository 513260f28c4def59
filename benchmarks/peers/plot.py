"""A bar chart of CPU times as SVG: one panel per workload, one bar per tool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from xml.sax.saxutils import escape

from benchmarks.peers.table import Row, rows_of
from benchmarks.peers.tools import OWN, WARM

GROUND, TEXT, DIM, RULE = "#11141c", "#d7dae0", "#9aa2b1", "#2a3040"
OURS, THEIRS = "#7ec480", "#82aaff"
FONT = "ui-sans-serif, system-ui, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"
WIDTH, MARGIN, LABELS, VALUES = 860, 28, 190, 130
BAR, GAP, HEAD = 16, 8, 44
OWN_NAMES = {OWN: "agentv", WARM: "agentv, warm"}


def plot(data: dict[str, Any]) -> str:
    """CPU time per case of every tool, for workloads with more than one case."""
    rows = rows_of(data)
    panels = [workload for workload in data["workloads"] if workload["cases"] > 1]
    parts: list[str] = []
    y = 74
    for workload in panels:
        drawn, height = _panel(workload["title"], [row for row in rows if row.workload == workload["name"]], y)
        parts += drawn
        y += height
    title = "CPU time per case, in milliseconds: shorter is better"
    under = "The same work against the same local model server, all processes of the tool counted, medians"
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 8}" viewBox="0 0 {WIDTH} {y + 8}" '
        f'role="img" aria-label="{escape(title)}" font-family="{FONT}" font-size="13">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{y + 8}" rx="8" fill="{GROUND}"/>',
        _text(MARGIN, 34, title, TEXT, size=17, bold=True),
        _text(MARGIN, 55, under, DIM),
    ]
    return "\n".join([*head, *parts, "</svg>"]) + "\n"


def _panel(title: str, rows: Sequence[Row], y: int) -> tuple[list[str], int]:
    """The SVG elements of a panel, and its height."""
    ran = [row for row in rows if row.error is None]
    longest = max((row.cpu_ms for row in ran), default=1.0)
    own = next((row for row in ran if row.tool == OWN), None)
    parts = [
        f'<line x1="{MARGIN}" y1="{y}" x2="{WIDTH - MARGIN}" y2="{y}" stroke="{RULE}"/>',
        _text(MARGIN, y + 26, title.replace("`", ""), TEXT, size=14, bold=True),
    ]
    for place, row in enumerate(rows):
        top = y + HEAD + place * (BAR + GAP)
        ours = row.tool in OWN_NAMES
        name = OWN_NAMES.get(row.tool, row.name)
        parts.append(_text(MARGIN + LABELS - 10, top + 13, name, TEXT if ours else DIM, anchor="end", bold=ours))
        left = MARGIN + LABELS
        if row.error is not None:
            parts.append(_text(left, top + 13, "did not run", DIM))
            continue
        long = max(2.0, row.cpu_ms / longest * (WIDTH - 2 * MARGIN - LABELS - VALUES))
        colour = OURS if ours else THEIRS
        parts.append(f'<rect x="{left}" y="{top}" width="{long:.1f}" height="{BAR}" rx="3" fill="{colour}"/>')
        parts.append(_text(left + long + 8, top + 13, _label(row, own), TEXT))
    return parts, HEAD + len(rows) * (BAR + GAP) + 12


def _label(row: Row, own: Row | None) -> str:
    shown = f"{row.cpu_ms:.0f} ms" if row.cpu_ms >= 10 else f"{row.cpu_ms:.1f} ms"
    if own is None or row is own:
        return shown
    times = row.cpu / own.cpu
    return (
        f"{shown}, {times:.0f}x"
        if times >= 10
        else f"{shown}, {times:.1f}x"
        if times >= 1
        else f"{shown}, {times:.2f}x"
    )


def _text(
    x: float, y: float, text: str, colour: str, *, size: int = 13, anchor: str = "start", bold: bool = False
) -> str:
    weight = ' font-weight="600"' if bold else ""
    place = f'x="{x:.0f}" y="{y:.0f}" font-size="{size}" text-anchor="{anchor}"{weight}'
    return f'<text {place} fill="{colour}">{escape(text)}</text>'
