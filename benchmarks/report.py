"""Figures and their goals, as a table and as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Figure:
    """One number. `goal` is an upper bound for costs and a lower bound for efficiencies."""

    name: str
    value: float
    unit: str = ""
    goal: float | None = None
    better: Literal["lower", "higher"] = "lower"

    @property
    def met(self) -> bool | None:
        if self.goal is None:
            return None
        return self.value <= self.goal if self.better == "lower" else self.value >= self.goal

    @property
    def text(self) -> str:
        """The value with its unit."""
        return f"{_number(self.value)} {self.unit}".rstrip()

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "met": self.met}


@dataclass(frozen=True, slots=True)
class Report:
    """The results of one benchmark."""

    name: str
    figures: Sequence[Figure]
    details: Mapping[str, Any] = field(default_factory=dict)
    """The raw data behind the figures."""
    notes: Sequence[str] = ()

    def without_goals(self) -> Report:
        return replace(self, figures=[replace(figure, goal=None) for figure in self.figures])

    def table(self) -> str:
        rows = [("", "value", "goal", "")] + [_row(figure) for figure in self.figures]
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        lines = [
            f"  {row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]}".rstrip() for row in rows
        ]
        return "\n".join([self.name, *lines, *(f"  {note}" for note in self.notes)])

    def markdown(self) -> str:
        """The figures as a table for the documentation, with the machine they were measured on."""
        now, about = datetime.now(UTC), machine()
        lines = [
            f"Python {about['python']}, {about['cpus']} CPUs, load {about['load']:.1f}, {now:%Y-%m-%d}:",
            "",
            "| figure | value | goal |",
            "| --- | --- | --- |",
        ]
        for figure in self.figures:
            name, value, goal, word = _row(figure)
            lines.append(f"| {name} | {value}{': **missed**' if word == 'missed' else ''} | {goal} |")
        return "\n".join([*lines, "", *(f"- {note}" for note in self.notes)]).rstrip()

    def write_to(self, page: Path) -> None:
        """Replace the text between the marks of this benchmark in a page. ValueError if the page does not have them."""
        begin, end = f"<!-- {self.name}: begin -->", f"<!-- {self.name}: end -->"
        text = page.read_text(encoding="utf-8")
        if text.count(begin) != 1 or text.count(end) != 1:
            raise ValueError(f"{page} must have one line `{begin}` and one line `{end}`.")
        before, _, rest = text.partition(begin)
        page.write_text(f"{before}{begin}\n{self.markdown()}\n{end}{rest.partition(end)[2]}", encoding="utf-8")

    def write(self, directory: Path, *, quick: bool) -> Path:
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{self.name}.json"
        data = {
            "name": self.name,
            "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "quick": quick,
            "machine": machine(),
            "figures": [figure.to_dict() for figure in self.figures],
            "details": self.details,
            "notes": list(self.notes),
        }
        path.write_text(json.dumps(data, indent=2, allow_nan=False) + "\n")
        return path


def machine() -> dict[str, Any]:
    """A description of the machine. The load shows whether other work was running."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
    }


def _row(figure: Figure) -> tuple[str, str, str, str]:
    unit = f" {figure.unit}" if figure.unit else ""
    sign = "<=" if figure.better == "lower" else ">="
    goal = "" if figure.goal is None else f"{sign} {figure.goal:g}{unit}"
    word = {True: "met", False: "missed", None: ""}[figure.met]
    return figure.name, figure.text, goal, word


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"
