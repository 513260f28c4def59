"""The same case with the same target in other runs: a list of `HistoryEntry` in `static/types.js`."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

from agentv.errors import RecordError
from agentv.record.catalog import RunEntry
from agentv.record.reading import RunReader
from agentv.record.run_dir import CASES, MANIFEST, RESULTS
from agentv.report.labels import replayed_id
from agentv.report.ruler import Ruler
from agentv.report.run_list import ListedRun
from agentv.report.trials import RepeatedCases
from agentv.results import CaseKey, CaseResult
from agentv.trials import Attempts
from agentv.view.folding import Columns, cases_of, outcome_of
from agentv.view.ledger_lines import identity_of

MOST_RUNS = 50
_KEPT = 1_000


@dataclass(frozen=True, slots=True)
class _Past:
    """A case in one run."""

    attempts: Attempts
    sha256: str | None


class Histories:
    """Finds cases in runs, and remembers them. All methods can be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cases: OrderedDict[tuple[CaseKey, Any], _Past | None] = OrderedDict()
        self._rulers: OrderedDict[tuple[str, str, Any], Ruler] = OrderedDict()

    def of(
        self,
        case: CaseKey,
        address: str,
        entries: Mapping[str, RunEntry],
        rows_of: Callable[[str, CaseKey], Iterable[CaseResult] | None] = lambda *_: None,
    ) -> list[dict[str, Any]]:
        """The case in the newest runs with its suite, oldest first. `address` is the run that is being looked at.

        `rows_of` returns the rows of a case in a run that is indexed; None for other runs, whose files are searched.
        """
        runs = list(islice(_with_suite(case.suite, address, entries), MOST_RUNS))
        pasts: list[tuple[str, RunEntry, Any, _Past]] = []
        for other, entry in reversed(runs):
            state = _state(entry)
            past = self._past(case, entry, state, partial(rows_of, other, case))
            if past is not None:
                pasts.append((other, entry, state, past))
        found: list[dict[str, Any]] = []
        before: Ruler | None = None
        for other, entry, state, past in pasts:
            changed: list[str] = []
            if len(pasts) > 1:  # otherwise, there is nothing that can have changed, and all cases would be read for it
                try:
                    ruler = self._ruler(case, entry, state, past.sha256)
                except RecordError:  # it was removed meanwhile
                    continue
                changed = [] if before is None else ruler.changes(before, [case.eval_id])
                before = ruler
            found.append(_history_entry(_run(other, entry), past.attempts, changed, is_this=other == address))
        return found

    def _past(
        self, case: CaseKey, entry: RunEntry, state: Any, rows: Callable[[], Iterable[CaseResult] | None]
    ) -> _Past | None:
        key = (case, state)
        with self._lock:
            if key in self._cases:
                self._cases.move_to_end(key)
                return self._cases[key]
        try:
            past = _read(case, RunReader.open(entry.directory), rows())
        except RecordError:
            past = None
        with self._lock:
            self._cases[key] = past
            while len(self._cases) > _KEPT:
                self._cases.popitem(last=False)
        return past

    def _ruler(self, case: CaseKey, entry: RunEntry, state: Any, sha256: str | None) -> Ruler:
        """What measures the score of a case. It is kept without its cases, which would take much memory."""
        key = (case.suite, case.target, state)
        with self._lock:
            known = self._rulers.get(key)
        if known is None:
            reader = RunReader.open(entry.directory)
            known = replace(Ruler.of(reader.manifest, case.suite, case.target, reader.case_hashes()), cases={})
            with self._lock:
                self._rulers[key] = known
                while len(self._rulers) > _KEPT:
                    self._rulers.popitem(last=False)
        return replace(known, cases={case.eval_id: sha256} if sha256 else {})


def _state(entry: RunEntry) -> Any:
    """Identifies what was read from a run."""
    return (entry.directory, *(identity_of(entry.directory / name) for name in (MANIFEST, RESULTS, CASES)))


def _read(case: CaseKey, reader: RunReader, rows: Iterable[CaseResult] | None) -> _Past | None:
    default = RepeatedCases.of(reader.manifest).default
    attempts, sha256 = None, None
    for row in reader.rows_of_case(case) if rows is None else rows:
        attempts = attempts or Attempts(row.trials or default)
        attempts.add(row)
        sha256 = row.case_sha256
    return None if attempts is None else _Past(attempts, sha256)


class AllHistories:
    """The history of every case of a few runs, from their columns: no row is read again.

    `entries` are newest first, as listed, and `columns` are those of the same runs.
    """

    def __init__(self, entries: Mapping[str, RunEntry], columns: Mapping[str, Columns]) -> None:
        self._entries = entries
        self._attempts = {
            address: {key: case.attempts for key, case in cases_of(columns[address]).items()} for address in entries
        }
        self._readers = {address: RunReader.open(entry.directory) for address, entry in entries.items()}
        # With one run, there is nothing that can have changed.
        self._hashes = {
            address: reader.case_hashes() if len(entries) > 1 else {} for address, reader in self._readers.items()
        }
        self._rulers: dict[tuple[str, str, str], Ruler] = {}
        self._with_suite: dict[tuple[str, str], list[tuple[str, dict[str, Any]]]] = {}

    def of(self, case: CaseKey, address: str) -> list[dict[str, Any]]:
        """The case in all runs, like `Histories.of`."""
        found: list[dict[str, Any]] = []
        before: Ruler | None = None
        for other, run in self._runs(case.suite, address):
            attempts = self._attempts[other].get(case)
            if attempts is not None:
                ruler = self._ruler(case, other)
                changed = [] if before is None else ruler.changes(before, [case.eval_id])
                found.append(_history_entry(run, attempts, changed, is_this=other == address))
                before = ruler
        return found

    def _runs(self, suite: str, address: str) -> list[tuple[str, dict[str, Any]]]:
        """The runs with this suite, oldest first."""
        key = (suite, address)
        if key not in self._with_suite:
            found = [(other, _run(other, entry)) for other, entry in _with_suite(suite, address, self._entries)]
            self._with_suite[key] = found[::-1]
        return self._with_suite[key]

    def _ruler(self, case: CaseKey, address: str) -> Ruler:
        hashes = self._hashes[address]
        key = (address, case.suite, case.target)
        if key not in self._rulers:
            manifest = self._readers[address].manifest
            self._rulers[key] = replace(Ruler.of(manifest, case.suite, case.target, hashes), cases={})
        known = hashes.get((case.suite, case.eval_id))
        return replace(self._rulers[key], cases={case.eval_id: known[0]} if known else {})


def _run(address: str, entry: RunEntry) -> dict[str, Any]:
    """The part of an entry that is the same for all cases of a run."""
    started = entry.started
    return {
        "address": address,
        "name": entry.labels.name,
        "started_at": started.isoformat() if started else None,
    }


def _history_entry(run: Mapping[str, Any], attempts: Attempts, changed: list[str], *, is_this: bool) -> dict[str, Any]:
    return {
        **run,
        "score": attempts.score,
        "outcome": outcome_of(attempts),
        "attempts": attempts.finished,
        "passes": attempts.passes,
        "is_this": is_this,
        "changed": changed,
    }


def _with_suite(suite: str, address: str, entries: Mapping[str, RunEntry]) -> Iterator[tuple[str, RunEntry]]:
    """Runs with this suite. A replay measures nothing new, so it is left out, unless it is the one looked at."""
    for other, entry in entries.items():
        run = ListedRun(entry)
        if entry.problem is None and suite in run.suites and (other == address or replayed_id(run.manifest) is None):
            yield other, entry
