"""The results as Markdown: ratios first, then the figures behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from benchmarks.measure import median
from benchmarks.peers.tools import IN_PROCESS, OWN, WARM

FIRST = {OWN: 0, WARM: 1}


@dataclass(frozen=True, slots=True)
class Row:
    """One tool in one workload: medians over the turns, or the error."""

    tool: str
    name: str
    workload: str
    cases: int
    wall: float = 0.0
    cpu: float = 0.0
    """Seconds for all cases."""
    efficiency: float | None = None
    peak_mb: float = 0.0
    failed: int = 0
    calls: float | None = None
    """Model calls per case."""
    most: int = 0
    """The maximum number of model calls in flight."""
    error: str | None = None

    @property
    def cpu_ms(self) -> float:
        """Per case, or for the whole command if there is only one case."""
        return self.cpu / max(self.cases, 1) * 1000


def rows_of(data: dict[str, Any]) -> list[Row]:
    """The rows by workload: agentv first, then the other tools by CPU time."""
    rows: list[Row] = []
    for workload in data["workloads"]:
        workload_rows = [
            _row(tool, workload, data["runs"][workload["name"]].get(tool["key"]))
            for tool in data["tools"]
            if tool.get("only") is None or workload["name"] in tool["only"]
        ]
        rows += sorted(workload_rows, key=lambda row: (FIRST.get(row.tool, len(FIRST)), row.error is not None, row.cpu))
    return rows


def _row(tool: dict[str, Any], workload: dict[str, Any], ran: dict[str, Any] | None) -> Row:
    inside = workload["name"] == "script-judge" and tool["key"] in IN_PROCESS
    name = f"{tool['name']}, in process" if inside else tool["name"]
    same = {"tool": tool["key"], "name": name, "workload": workload["name"], "cases": workload["cases"]}
    if ran is None or ran["error"] is not None:
        return Row(**same, error=tool.get("error") or (ran or {}).get("error") or "not run")
    runs, cases = ran["runs"], workload["cases"]
    wall = median(one["wall"] for one in runs)
    return Row(
        **same,
        wall=wall,
        cpu=median(one["cpu"] for one in runs),
        efficiency=workload["ideal"] / wall if cases > 1 else None,
        peak_mb=max(one["peak_mb"] for one in runs),
        failed=sum(cases - one["passed"] for one in runs),
        most=max(one["most"] for one in runs),
        calls=sum(sum(_model_calls(one)) for one in runs) / (cases * len(runs)) if cases else None,
    )


def _model_calls(one: dict[str, Any]) -> list[int]:
    return [one["calls"].get("assistant", 0), one["calls"].get("judge", 0)]


def report(data: dict[str, Any]) -> str:
    """The text between the markers of the page."""
    rows = rows_of(data)
    return "\n\n".join(
        part for part in (_about(data), ratios(data, rows), figures(data, rows), _notes(data, rows)) if part
    )


def ratios(data: dict[str, Any], rows: Sequence[Row]) -> str:
    """One line per tool: wall and CPU time divided by those of agentv in the same run."""
    heads = [workload["title"] for workload in data["workloads"]]
    lines = [_line(["times agentv: wall, CPU", "version", *heads]), _line(["---"] * (len(heads) + 2))]
    by_place = {(row.workload, row.tool): row for row in rows}
    for tool in data["tools"]:
        if tool["key"] == OWN:
            continue
        cells = []
        for workload in data["workloads"]:
            row, own = (by_place.get((workload["name"], key)) for key in (tool["key"], OWN))
            cells.append(_ratio(row, own))
        lines.append(_line([tool["name"], tool.get("version", "-"), *cells]))
    return "\n".join(lines)


def _ratio(row: Row | None, own: Row | None) -> str:
    if row is None or own is None or own.error is not None:
        return "-"
    return "did not run" if row.error is not None else f"{_times(row.wall, own.wall)}, {_times(row.cpu, own.cpu)}"


def figures(data: dict[str, Any], rows: Sequence[Row]) -> str:
    """One line per tool and workload."""
    heads = [
        "work",
        "tool",
        "wall",
        "CPU per case",
        "efficiency",
        "peak memory",
        "calls per case",
        "in flight",
        "failed",
    ]
    lines = [_line(heads), _line(["---"] * len(heads))]
    titles = {workload["name"]: workload["title"] for workload in data["workloads"]}
    last = ""
    for row in rows:
        title = titles[row.workload] if row.workload != last else ""
        last = row.workload
        if row.error is not None:
            lines.append(_line([title, row.name, "did not run", *["-"] * 6]))
            continue
        efficiency = "-" if row.efficiency is None else f"{row.efficiency:.2f}"
        cells = [_seconds(row.wall), f"{_number(row.cpu_ms)} ms", efficiency, f"{row.peak_mb:.0f} MB"]
        cells += ["-" if row.calls is None else f"{row.calls:.3g}", str(row.most or "-"), str(row.failed)]
        lines.append(_line([title, row.name, *cells]))
    return "\n".join(lines)


def _about(data: dict[str, Any]) -> str:
    where, turns = data["machine"], data["turns"]
    day = datetime.fromisoformat(data["measured_at"])
    load = f"the load was {where['load']:.1f} before and {data['load_after']:.1f} after the run"
    times = "each figure is the median of " + f"{turns} turns" if turns > 1 else "each figure is one run"
    node = f", Node {where['node']}" if where.get("node") else ""
    return f"{day.day} {day:%B %Y}, {where['cpus']} CPUs, Python {where['python']}{node}; {times}; {load}."


def _notes(data: dict[str, Any], rows: Sequence[Row]) -> str:
    notes = [f"- {tool['name']}: {_plain(tool['error'])}" for tool in data["tools"] if tool.get("error")]
    broken = {tool["key"] for tool in data["tools"] if tool.get("error")}
    notes += [
        f"- {row.name}, {row.workload}: did not run: {_plain(row.error)}"
        for row in rows
        if row.error is not None and row.tool not in broken
    ]
    for tool in data["tools"]:
        asking = data["runs"].get("script-judge", {}).get(tool["key"], {}).get("runs", [])
        if tool["key"] == "agentv-npm" and asking and not any(one["proxy"] for one in asking):
            notes.append(f"- {tool['name']} gave its script no proxy to the judge: the script called the model itself.")
        if tool.get("outward"):
            wanted = ", ".join(f"`{one}`" for one in tool["outward"])
            notes.append(f"- {tool['name']} tried to reach hosts other than the model: {wanted}")
    return "\n".join(notes)


def _plain(text: str) -> str:
    """The text on one line, as Markdown code."""
    return f"`{' '.join(text.split()).replace('`', chr(39)).replace('|', '/')[:300]}`"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _times(value: float, own: float) -> str:
    return f"{_number(value / own)}x"


def _seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"
