"""A list of runs: what `run.json` says about each of them, and the table on the terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from agentv.record.catalog import RunEntry
from agentv.report.format import format_cost, format_score
from agentv.report.labels import replayed_id
from agentv.report.terminal import Look, columns, pad
from agentv.text import plural

_SHORT_ID = 15
"""The date and the time of an id. Longer if two runs have the same."""
_LONGEST_NAME, _LONGEST_LIST, _LONGEST_NOTE = 24, 28, 60
_TITLES = ("WHEN", "RUN", "PASSED", "MEAN", "COST", "TIME", "COMMIT", "SUITES", "TARGETS", "NOTE")
_FIXED = 7
"""The number of columns that are always in the first line of a run; the others may move to the next line."""
_DISPENSABLE = (3, 4, 5, 6)
"""Columns that are left out, the last one first, if the terminal is very narrow."""


@dataclass(frozen=True)
class ListedRun:
    """The facts about one run. Values that are missing in `run.json` or have a wrong type are None or empty."""

    entry: RunEntry

    @cached_property
    def status(self) -> str:
        return self.entry.status()

    @property
    def manifest(self) -> Mapping[str, Any]:
        return self.entry.manifest

    @cached_property
    def summary(self) -> Mapping[str, Any]:
        return _mapping(self.manifest.get("summary"))

    @property
    def suites(self) -> list[str]:
        return [suite["name"] for suite in self._suites() if isinstance(suite.get("name"), str)]

    @property
    def targets(self) -> list[str]:
        """The targets that answered or, if no row is counted yet, that will be called."""
        if counted := [name for name in _mapping(self.summary.get("by_target")) if isinstance(name, str)]:
            return counted
        planned = [name for suite in self._suites() for name in _mapping(suite.get("targets"))]
        return list(dict.fromkeys(planned)) or _strings(_mapping(self.manifest.get("options")).get("targets"))

    @property
    def total(self) -> int | None:
        return _whole(self.summary.get("total")) if self.summary else _whole(self.manifest.get("total"))

    @property
    def passed(self) -> int | None:
        return _whole(self.summary.get("passed"))

    @property
    def errors(self) -> int | None:
        return _whole(self.summary.get("errors"))

    @property
    def mean(self) -> float | None:
        return _number(self.summary.get("mean_score"))

    @property
    def interval(self) -> tuple[float, float] | None:
        ends = self.summary.get("mean_interval")
        numbers = [_number(end) for end in ends] if isinstance(ends, list) else []
        return (numbers[0], numbers[1]) if len(numbers) == 2 and None not in numbers else None  # type: ignore[return-value]

    @property
    def cost_usd(self) -> float | None:
        """What targets and judges cost together, as far as it is known."""
        known = [_number(self.summary.get(key)) for key in ("cost_usd", "judge_cost_usd")]
        return sum(cost for cost in known if cost is not None) if any(cost is not None for cost in known) else None

    @property
    def duration_seconds(self) -> float | None:
        return _number(self.summary.get("duration_seconds"))

    @property
    def git(self) -> Mapping[str, Any]:
        return _mapping(self.manifest.get("git"))

    def has_suite(self, wanted: str, cwd: Path) -> bool:
        """Whether the run has a suite with this name, or from this file."""
        return bool(self.names_of(wanted, cwd))

    def names_of(self, wanted: str, cwd: Path) -> list[str]:
        """The names of the suites with this name or from this file."""
        home = self.manifest.get("cwd")
        start = Path(home) if isinstance(home, str) and "\0" not in home else cwd
        names = []
        for suite in self._suites():
            name, path = suite.get("name"), suite.get("path")
            file = path if isinstance(path, str) and "\0" not in path else None
            same = file is not None and (start / file).resolve() == (cwd / wanted).resolve()
            if isinstance(name, str) and (same or wanted in (name, file)):
                names.append(name)
        return names

    def to_dict(self) -> dict[str, Any]:
        labels, started = self.entry.labels, self.entry.started
        return {
            "run_id": self.manifest.get("run_id") if isinstance(self.manifest.get("run_id"), str) else self.entry.id,
            "run_dir": str(self.entry.directory),
            **labels.to_dict(),
            "status": self.status,
            "problem": self.entry.problem,
            "started_at": started.isoformat() if started else None,
            "finished_at": self.manifest.get("finished_at"),
            "suites": self.suites,
            "targets": self.targets,
            "total": self.total,
            "passed": self.passed,
            "borderline": _whole(self.summary.get("borderline")),
            "failed": _whole(self.summary.get("failed")),
            "errors": self.errors,
            "not_run": _whole(self.summary.get("not_run")),
            "mean_score": self.mean,
            "mean_interval": list(self.interval) if self.interval else None,
            "cost_usd": self.cost_usd,
            "cost_complete": _is_complete(self.summary),
            "judge_calls": _whole(self.summary.get("judge_calls")),
            "duration_seconds": self.duration_seconds,
            "scripted": self.manifest.get("scripted") is True,
            "replayed": replayed_id(self.manifest),
            "git": dict(self.git) or None,
            "agentv": self.manifest.get("agentv"),
        }

    def _suites(self) -> list[Mapping[str, Any]]:
        suites = self.manifest.get("suites")
        return [suite for suite in suites if isinstance(suite, Mapping)] if isinstance(suites, list) else []


def render_runs(runs: Sequence[ListedRun], ids: Sequence[str], look: Look, now: datetime) -> list[str]:
    """The table of runs, in one line each or, on a narrow terminal, in a line with numbers and a line with words.

    `ids` are the ids of all runs, of which the shown ones are unique prefixes.
    """
    names: set[str] = set()
    short = short_ids(ids)
    table = [_cells(run, short[run.entry.id], look, now, names) for run in runs]
    used = [i for i in range(len(_TITLES)) if any(cells[i] for cells in table)]
    widths = {i: max(columns(_TITLES[i]), *(columns(cells[i]) for cells in table)) for i in used}
    if (note := len(_TITLES) - 1) in widths:
        widths[note] = min(widths[note], _LONGEST_NOTE)
    one_line = sum(widths[i] + 2 for i in used) - 2 <= look.width
    first = used if one_line else [i for i in used if i < _FIXED]
    for i in reversed(_DISPENSABLE):
        if i in first and sum(widths[j] + 2 for j in first) - 2 > look.width:
            first.remove(i)
    same = [] if one_line else [i for i in (7, 8) if len({cells[i] for cells in table}) == 1 and len(table) > 1]
    lines = []
    if same:
        words = [f"{_TITLES[i].lower()[:-1]} {table[0][i]}" for i in same if table[0][i]]
        lines += [look.style(", ".join(words), "dim"), ""] if words else []
    lines.append(look.style(_line(_TITLES, first, widths, look), "dim"))
    for run, cells in zip(runs, table, strict=True):
        lines.append(_line(cells, first, widths, look, run))
        if not one_line:
            parts = [cells[i] for i in used if i >= _FIXED and i not in same and cells[i]]
            text = f" {look.mark('·', '-')} ".join(parts)
            style = _STATUS_STYLES.get(run.status, "dim")
            lines += [look.style(f"    {line}", style) for line in look.wrap(text, look.width - 4, most=2) if line]
    return lines


_STATUS_STYLES = {
    "running": "cyan",
    "interrupted": "yellow",
    "out of budget": "yellow",
    "partial": "yellow",
    "failed": "red",
    "broken": "red",
}


def short_ids(ids: Sequence[str]) -> dict[str, str]:
    """For each id, its shortest unique prefix of at least the date and the time."""
    short: dict[str, str] = {}
    ordered = sorted(ids)
    for i, name in enumerate(ordered):
        near = [ordered[j] for j in (i - 1, i + 1) if 0 <= j < len(ordered)]
        common = max((_common(name, other) for other in near), default=0)
        short[name] = name[: max(_SHORT_ID, common + 1)]
    return short


def _common(one: str, other: str) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _cells(run: ListedRun, short_id: str, look: Look, now: datetime, names: set[str]) -> list[str]:
    labels = run.entry.labels
    refers = labels.name is not None and labels.name not in names  # the newest run with a name is the one it refers to
    names.update([labels.name] if labels.name else [])
    shown = labels.name if refers and labels.name is not None else short_id
    notes = [] if run.status == "finished" else [run.entry.problem or run.status]
    notes += ["replayed"] if replayed_id(run.manifest) is not None else []
    notes += [plural(run.errors, "error")] if run.errors else []
    notes += [f"an older '{labels.name}'"] if labels.name is not None and not refers else []
    notes += [f"experiment {labels.experiment}"] if labels.experiment else []
    notes += [labels.note] if labels.note else []
    commit = run.git.get("commit")
    return [
        when(run.entry.started, now),
        look.cut(look.text(shown), _LONGEST_NAME),
        _fraction(run.passed, run.total),
        f"{format_score(run.mean)}{reach(run.mean, run.interval, look)}" if run.mean is not None else "",
        format_cost(run.cost_usd) if run.cost_usd is not None else "",
        short_duration(run.duration_seconds) if run.duration_seconds is not None else "",
        f"{commit[:7]}{'*' if run.git.get('dirty') is True else ''}" if isinstance(commit, str) else "",
        look.cut(look.text(", ".join(run.suites)), _LONGEST_LIST),
        look.cut(look.text(", ".join(run.targets)), _LONGEST_LIST),
        look.text("; ".join(notes)),
    ]


def _line(
    cells: Sequence[str], used: Sequence[int], widths: Mapping[int, int], look: Look, run: ListedRun | None = None
) -> str:
    padded = []
    for i in used:
        cell = pad(look.cut(cells[i], widths[i]), widths[i], right=_TITLES[i] in {"PASSED", "COST", "TIME"})
        if run is not None and _TITLES[i] == "PASSED" and run.passed is not None:
            cell = look.style(cell, "green" if run.passed == run.total else "red")
        elif run is not None and _TITLES[i] in {"WHEN", "COMMIT"}:
            cell = look.style(cell, "dim")
        padded.append(cell)
    return "  ".join(padded).rstrip()


def when(started: datetime | None, now: datetime) -> str:
    """How long ago a run started or, after a week, its local date."""
    if started is None:
        return "?"
    ago = now - started
    if ago < timedelta(0) or ago >= timedelta(days=7):
        return f"{started.astimezone():%Y-%m-%d}"
    seconds = int(ago.total_seconds())
    if seconds < 60:
        return f"{seconds} s ago"
    if seconds < 3600:
        return f"{seconds // 60} min ago"
    if seconds < 86_400:
        return f"{seconds // 3600} h ago"
    return f"{plural(seconds // 86_400, 'day')} ago"


def short_duration(seconds: float) -> str:
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5_400 else f"{seconds / 3600:.1f} h"


def _fraction(passed: int | None, total: int | None) -> str:
    if passed is None and total is None:
        return ""
    return f"{'-' if passed is None else passed}/{'?' if total is None else total}"


def reach(average: float | None, interval: tuple[float, float] | None, look: Look) -> str:
    """How far the interval reaches from the mean: ` ±0.05`."""
    if interval is None or average is None:
        return ""
    distance = max(average - interval[0], interval[1] - average)
    return f" {look.mark('±', '+-')}{math.ceil(round(distance * 100, 6)) / 100:.2f}"


def _is_complete(summary: Mapping[str, Any]) -> bool | None:
    if not summary:
        return None
    return summary.get("cost_complete") is True and (
        summary.get("judge_cost_complete") is True or not summary.get("judge_calls")
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _strings(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e15:
        return None
    return float(value)
