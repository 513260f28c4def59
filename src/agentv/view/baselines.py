"""Which runs a run can be compared with, and which of them by default."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agentv.errors import RecordError
from agentv.record.catalog import RunEntry
from agentv.record.reading import RunReader
from agentv.report.labels import replayed_id
from agentv.report.run_list import ListedRun
from agentv.view.ledger_lines import identity_of

MOST_BASELINES = 100
LEAST_SHARE = 0.8
"""The share of the cases of a run that its baseline must have."""
_MOST_READ = 5
_KEPT = 8


class Baselines:
    """Finds baselines, and remembers the cases of a few runs. All methods can be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cases: dict[Path, tuple[Any, frozenset[int]]] = {}

    def comparable(self, address: str, entries: Mapping[str, RunEntry]) -> list[str]:
        """The addresses of other runs that share a suite with this one, newest first."""
        suites = set(ListedRun(entries[address]).suites)
        found = (
            other
            for other, entry in entries.items()
            if other != address and entry.problem is None and suites.intersection(ListedRun(entry).suites)
        )
        return [other for other, _ in zip(found, range(MOST_BASELINES), strict=False)]

    def default(self, address: str, entries: Mapping[str, RunEntry]) -> str | None:
        """The last finished run before this one with the same suites and most of its cases."""
        cases = None
        for other, _ in zip(self._earlier(address, entries), range(_MOST_READ), strict=False):
            try:
                cases = cases or self._cases_of(entries[address].directory)
                shared = len(cases & self._cases_of(entries[other].directory))
            except (RecordError, OSError):
                continue
            if cases and shared >= LEAST_SHARE * len(cases):
                return other
        return None

    def _earlier(self, address: str, entries: Mapping[str, RunEntry]) -> Iterator[str]:
        """Finished runs before this one with the same suites, newest first."""
        entry = entries[address]
        run = ListedRun(entry)
        suites, cases = set(run.suites), _cases(entry)
        addresses = list(entries)
        for other in addresses[addresses.index(address) + 1 :]:
            before = ListedRun(entries[other])
            if (
                before.entry.problem is None
                and set(before.suites) == suites
                and _cases(before.entry) >= LEAST_SHARE * cases
                and replayed_id(before.manifest) is None  # it measures nothing new
                and before.status == "finished"
            ):
                yield other

    def _cases_of(self, directory: Path) -> frozenset[int]:
        """The hashes of suite and id of all cases: 100,000 strings would take much more memory."""
        reader = RunReader.open(directory)
        file = reader.directory.cases if reader.directory.cases.exists() else reader.directory.results
        identity = identity_of(file)
        with self._lock:
            known = self._cases.pop(directory, None)
            if known is not None and known[0] == identity:
                self._cases[directory] = known  # moved to the end
                return known[1]
        keys = reader.case_keys() or [head.key[:2] for head in reader.heads()]
        cases = frozenset(map(hash, keys))
        with self._lock:
            self._cases[directory] = (identity, cases)
            while len(self._cases) > _KEPT:
                del self._cases[next(iter(self._cases))]
        return cases


def _cases(entry: RunEntry) -> int:
    """The number of cases of a run, as planned; 0 if unknown."""
    suites = entry.manifest.get("suites")
    counts = [suite.get("cases") for suite in suites if isinstance(suite, Mapping)] if isinstance(suites, list) else []
    return sum(count for count in counts if isinstance(count, int) and 0 <= count < 2**53)
