"""Runs as they are listed: `RunHead` in `static/types.js`. Unfinished runs have no summary: their rows are counted."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from agentv.errors import RecordError
from agentv.record.catalog import RunEntry
from agentv.record.run_dir import MANIFEST, RESULTS, RunDirectory
from agentv.report.run_list import ListedRun
from agentv.report.statistics import wilson
from agentv.view.columns import ColumnStore
from agentv.view.folding import counted
from agentv.view.ledger_lines import identity_of

_COUNTING = 0.5
"""Seconds of a listing for counting rows. The runs that are left are counted when runs are listed again."""


class RunHeads:
    """Makes heads, and remembers what was counted. All methods can be called from any thread."""

    def __init__(self, store_of: Callable[[str], ColumnStore]) -> None:
        """`store_of` returns the columns of the run with an address. It is used for runs that are being written."""
        self._store_of = store_of
        self._lock = threading.Lock()
        self._counted: dict[os.PathLike[str], tuple[Any, dict[str, Any]]] = {}

    def all(self, entries: Mapping[str, RunEntry]) -> list[dict[str, Any]]:
        """The heads of these runs, in their order."""
        end = time.monotonic() + _COUNTING
        return [self.head(address, entry, end) for address, entry in entries.items()]

    def head(self, address: str, entry: RunEntry, end: float | None = None) -> dict[str, Any]:
        """The head of a run. After `end`, rows are not counted any more; what is unknown is null then."""
        run = ListedRun(entry)
        head = {"address": address, **run.to_dict()}
        del head["run_dir"]
        for name in ("finished_at", "agentv"):
            head[name] = head[name] if isinstance(head[name], str) else None
        if _is_outdated(run):
            is_running = run.status == "running"
            numbers = self._numbers(address, entry, end, is_running=is_running)
            if numbers is None and is_running:  # the summary is from before the run was resumed
                numbers = dict.fromkeys(_NUMBERS)
            head |= numbers or {}
        head["cost_complete"] = head["cost_complete"] is True
        head["pass_interval"] = _pass_interval(head)
        return head

    def _numbers(self, address: str, entry: RunEntry, end: float | None, *, is_running: bool) -> dict[str, Any] | None:
        directory = entry.directory
        try:
            identity = identity_of(directory / RESULTS)
            with self._lock:
                known = self._counted.get(directory)
            if known is not None and known[0] == identity:
                return known[1]
            if end is not None and time.monotonic() > end:
                return known[1] if known is not None else None
            store = self._store_of(address) if is_running else ColumnStore(RunDirectory.open(directory))
            store.refresh()
            numbers = counted(store.columns(), store.totals)
        except (RecordError, OSError):
            return None
        with self._lock:
            self._counted[directory] = (identity, numbers)
        return numbers


_NUMBERS = ("passed", "borderline", "failed", "errors", "not_run", "mean_score", "mean_interval", "cost_usd")


def _is_outdated(run: ListedRun) -> bool:
    """Whether the summary is missing, or rows were added after it was written."""
    if run.entry.problem is not None:
        return False
    if not run.summary or run.status == "running":
        return True
    try:
        results, manifest = ((run.entry.directory / name).stat() for name in (RESULTS, MANIFEST))
    except OSError:
        return False
    return results.st_mtime_ns > manifest.st_mtime_ns


def _pass_interval(head: Mapping[str, Any]) -> list[float] | None:
    """The interval of the pass rate. Errors are not part of it."""
    counts = [head[name] for name in ("passed", "borderline", "failed")]
    if any(count is None or not 0 <= count < 2**53 for count in counts) or not sum(counts):
        return None
    return list(wilson(counts[0], sum(counts)))
