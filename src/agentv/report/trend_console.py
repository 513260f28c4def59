"""Trend lines on the terminal: a sparkline and a table for each suite and target."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from agentv.report.compare import Conclusion, format_delta
from agentv.report.format import format_score
from agentv.report.run_list import reach, short_ids, when
from agentv.report.terminal import INDENT, Look, align
from agentv.report.trend import Point, Test, TrendLine
from agentv.text import plural

_BLOCKS, _ASCII = "▁▂▃▄▅▆▇█", "_.:-=+*#"
_SMALLEST_SPAN = 0.1
"""A difference of less than this never fills the height of the sparkline."""
_STYLES = {Conclusion.WORSE: "red", Conclusion.BETTER: "green"}
_WORDS = {
    Conclusion.WORSE: "significantly worse",
    Conclusion.BETTER: "significantly better",
    Conclusion.SAME: "the same",
    Conclusion.UNCLEAR: "no significant difference",
    Conclusion.TOO_FEW: "too few cases",
}


def render_trend(lines: Sequence[TrendLine], ids: Sequence[str], look: Look, now: datetime) -> str:
    """All lines. `ids` are the ids of all runs, of which the shown ones are unique prefixes."""
    short = short_ids([*ids, *(point.entry.id for line in lines for point in line.points if point.entry.id not in ids)])
    return "\n\n".join("\n".join(_line(line, short, look, now)) for line in lines)


def sparkline(line: TrendLine, look: Look) -> str:
    """The means as bars, with a bar `│` where the line breaks."""
    means = [point.mean for point in line.points if point.mean is not None]
    if not means:
        return ""
    low, high = min(means), max(means)
    if high - low < _SMALLEST_SPAN:
        low = max(0.0, min((low + high - _SMALLEST_SPAN) / 2, 1 - _SMALLEST_SPAN))
        high = low + _SMALLEST_SPAN
    marks = look.mark(_BLOCKS, _ASCII)
    bars = []
    for point in line.points:
        bars.append(look.mark("│", "|") if point.breaks else "")
        if point.mean is not None:
            bars.append(marks[min(len(marks) - 1, int((point.mean - low) / (high - low) * len(marks)))])
    return "".join(bars)


def _line(line: TrendLine, short: dict[str, str], look: Look, now: datetime) -> list[str]:
    title = f"{look.text(line.key.suite)}, target {look.text(line.key.target)}"
    shown = [look.style(look.cut(title, look.width), "bold"), f"{INDENT}{look.style(sparkline(line, look), 'cyan')}"]
    cells = [_cells(point, short, look, now) for point in line.points]
    if cells:
        header, *rows = align([["WHEN", "RUN", "MEAN", "CASES", "COMMIT"], *cells])
        shown.append(look.style(_joined(header, look), "dim"))
        for point, row in zip(line.points, rows, strict=True):
            for change in point.breaks:
                text = f"{look.mark('──', '--')} {look.text(change)}"
                shown += [look.style(f"{INDENT}{each}", "yellow") for each in look.wrap(text, look.width - 2, most=2)]
            shown.append(_joined(row, look))
    for run in line.left_out:
        shown += _note(f"{short.get(run.entry.id, run.entry.id)} is left out: {run.reason}", look)
    shown.append("")
    shown += [text for test in line.tests for text in _test(test, look)]
    if (gap := line.too_little()) is not None:
        shown += _note(f"the latest run was not tested: {gap}", look)
    return shown[:-1] if not shown[-1] else shown


def _cells(point: Point, short: dict[str, str], look: Look, now: datetime) -> list[str]:
    labels, git = point.entry.labels, point.entry.manifest.get("git")
    commit = git.get("commit") if isinstance(git, dict) else None
    dirty = "*" if isinstance(git, dict) and git.get("dirty") is True else ""
    errors = f", {plural(point.errors, 'error')}" if point.errors else ""
    return [
        when(point.entry.started, now),
        look.cut(look.text(labels.name or short[point.entry.id]), 24),
        f"{format_score(point.mean)}{reach(point.mean, point.interval, look)}",
        f"{len(point.shared)}{'' if len(point.shared) == len(point.scores) else f' of {len(point.scores)}'}{errors}",
        f"{commit[:7]}{dirty}" if isinstance(commit, str) else "",
    ]


def _test(test: Test, look: Look) -> list[str]:
    delta = format_delta(test.mean_delta) if test.mean_delta is not None else "?"
    between = ""
    if test.interval is not None:
        low, high = (format_delta(end) for end in test.interval)
        between = f" ({low} to {high})"
    text = f"latest against {test.against}: {delta}{between}, {_WORDS[test.conclusion]}"
    style = _STYLES.get(test.conclusion)
    return [
        look.style(f"{INDENT}{each}", *([style] if style else [])) for each in look.wrap(text, look.width - 2, most=2)
    ]


def _note(text: str, look: Look) -> list[str]:
    return [look.style(f"{INDENT}{each}", "yellow") for each in look.wrap(look.text(text), look.width - 2, most=3)]


def _joined(cells: Sequence[str], look: Look) -> str:
    return look.cut(INDENT + "  ".join(cells).rstrip(), look.width)
