"""How far a run is that is being written: `LiveState` in `static/types.js`."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any

from agentv.report.run_list import ListedRun
from agentv.view import run_info
from agentv.view.columns import ColumnStore

_WINDOW = 60.0
"""Seconds whose rows say how fast the run is."""
_LEAST_STEPS = 8
"""Steps that are kept even if they are older: a slow run has few rows in a minute."""
_LEAST_SECONDS = 1.0


class Pace:
    """How fast rows arrive, from what was seen of them. The clock of the run itself may be that of another machine."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._generation = ""
        self._steps: deque[tuple[float, int]] = deque()

    def rate(self, generation: str, rows: int, now: float) -> float | None:
        """Rows per second; None as long as it is unknown."""
        with self._lock:
            steps = self._steps
            if generation != self._generation or (steps and rows < steps[-1][1]):
                self._generation = generation  # rows were replaced
                steps.clear()
            if not steps or rows > steps[-1][1]:
                steps.append((now, rows))
            while len(steps) > _LEAST_STEPS and steps[1][0] < now - _WINDOW:
                steps.popleft()
            start, first = steps[0]
            return (rows - first) / (now - start) if rows > first and now - start >= _LEAST_SECONDS else None

    def stop(self) -> None:
        """Forget what was seen: the time until the run is resumed says nothing."""
        with self._lock:
            self._steps.clear()


def live_state(run: ListedRun, store: ColumnStore, pace: Pace) -> dict[str, Any]:
    """The state of a run: `LiveState`."""
    status = run.status  # before the rows are read: when a run is not running, no rows are added
    store.refresh()
    generation, totals, planned = store.generation, store.totals, run_info.planned(run)
    rate = None
    if status == "running":
        rate = pace.rate(generation, totals.rows, time.monotonic())
    else:
        pace.stop()
    spent_usd, calls = run_info.spent(run, totals.cost_usd + totals.judge_cost_usd, totals.judge_calls)
    limit_usd, limit_calls = run_info.limits(run)
    return {
        "status": status,
        "generation": generation,
        "rows": totals.rows,
        "planned": planned,
        "errors": totals.errors,
        "spent_usd": spent_usd,
        "limit_usd": limit_usd,
        "judge_calls": calls,
        "limit_calls": limit_calls,
        "rows_per_second": rate,
        "eta_seconds": (planned - totals.rows) / rate
        if rate and planned is not None and planned > totals.rows
        else None,
    }
