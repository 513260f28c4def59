"""The mean score of each suite and target over runs: `TrendData`, the numbers of `agentv trend --json`."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentv.record.catalog import RunEntry
from agentv.record.run_dir import CASES, MANIFEST, RESULTS
from agentv.report.trend import TrendLine, build_trend
from agentv.text import plural
from agentv.view.ledger_lines import Identity, identity_of

MOST_POINTS = 30
MOST_BYTES = 1 << 30
"""Size of the rows that are read. Runs that are older are not part of the lines."""


class Trends:
    """Computes the trend, and remembers it as long as no run has changed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: tuple[Any, dict[str, Any]] | None = None

    def trend(self, entries: Mapping[str, RunEntry]) -> dict[str, Any]:
        """The lines of these runs, which come newest first. Lines need at least two runs."""
        addresses = {entry.directory: address for address, entry in entries.items()}
        recent, left_out = _recent(entries)
        with self._lock:
            state = [(entry.status(), *_identities(entry.directory)) for entry in recent]
            if self._known is not None and self._known[0] == state:
                return self._known[1]
            lines = build_trend(recent, suites=None, target=None, last=MOST_POINTS)
            shown = [_shown(line, addresses, left_out) for line in lines if len(line.points) > 1]
            self._known = (state, {"lines": shown})
            return self._known[1]


def _recent(entries: Mapping[str, RunEntry]) -> tuple[list[RunEntry], int]:
    """The newest runs whose rows can be read in a moment, and the number of the others."""
    room = MOST_BYTES
    recent: list[RunEntry] = []
    for entry in entries.values():
        room -= sum(_size(entry.directory / name) for name in (RESULTS, CASES))
        if room < 0 and len(recent) > 1:
            break
        recent.append(entry)
    return recent, len(entries) - len(recent)


def _identities(directory: Path) -> list[Identity | None]:
    return [identity_of(directory / name) for name in (MANIFEST, RESULTS, CASES)]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _shown(line: TrendLine, addresses: Mapping[Path, str], left_out: int) -> dict[str, Any]:
    data = line.to_dict()
    for point, entry in zip(data["points"], (point.entry for point in line.points), strict=True):
        point["run_id"] = addresses[entry.directory]
    for run, entry in zip(data["left_out"], (run.entry for run in line.left_out), strict=True):
        run["run_id"] = addresses[entry.directory]
    notes = [data["note"]] if data["note"] else []
    if len(line.points) >= MOST_POINTS:
        notes.append(f"only the latest {MOST_POINTS} runs are shown")
    elif left_out:
        notes.append(f"{plural(left_out, 'older run')} not shown, because reading them would take too long")
    return {**data, "note": "; ".join(notes) or None}
