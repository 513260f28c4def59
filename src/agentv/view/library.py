"""Everything that pages can ask about runs, in the shapes of `static/types.js`.

The local server and the writer of the HTML file both use it. There is no HTTP in here.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentv import __version__
from agentv.record.manifest import is_being_written
from agentv.record.run_dir import RunDirectory
from agentv.report.run_list import ListedRun
from agentv.report.variant_table import variant_order
from agentv.results import CaseKey, CaseResult
from agentv.view import run_info
from agentv.view.baselines import Baselines
from agentv.view.compare_sections import CompareSections
from agentv.view.comparing import Side, compare_sides
from agentv.view.details import Details
from agentv.view.history import AllHistories, Histories
from agentv.view.judge_sections import JudgeSections
from agentv.view.ledger_lines import identity_of
from agentv.view.listing import Listing, UnknownRunError
from agentv.view.live_state import live_state
from agentv.view.open_run import OpenRun
from agentv.view.run_heads import RunHeads
from agentv.view.searching import search
from agentv.view.trends import Trends

_MOST_OPEN = 4
_COMPARISONS_KEPT = 4
_QUICKLY_HASHED = 16 << 20
"""Bytes of a record that can be hashed while a page waits."""


class Library:
    """The runs of a project or, if `runs` are given, only these. All methods can be called from any thread.

    Runs are addressed by the names of their directories. A method that gets an address raises UnknownRunError if no
    run with it is listed, and RecordError if the run cannot be read.
    """

    def __init__(self, root: Path, runs: Sequence[str] = ()) -> None:
        """`root` is the working directory. `runs` are ids, names, `latest`, or directories anywhere."""
        self._listing = Listing(root, runs)
        self._heads = RunHeads(lambda address: self._opened(address).store)
        self._baselines = Baselines()
        self._trends = Trends()
        self._histories = Histories()
        self._lock = threading.Lock()
        self._open: OrderedDict[str, OpenRun] = OrderedDict()
        self._comparisons: OrderedDict[tuple[str, str], tuple[Any, dict[str, Any]]] = OrderedDict()
        self._comparing = threading.Lock()
        self._hashes: dict[Path, tuple[Any, list[dict[str, Any]]]] = {}

    # -- runs

    def runs(self) -> dict[str, Any]:
        """All runs, newest first: `RunList`."""
        return {"version": __version__, "runs": self._heads.all(self._listing.entries())}

    def info(self, address: str) -> dict[str, Any]:
        """What the page of a run shows besides its rows: `RunInfo`."""
        entry = self._listing.entry(address)
        opened, run = self._opened(address), ListedRun(entry)
        opened.store.refresh()
        entries, totals = self._listing.entries(), opened.store.totals
        head = self._heads.head(address, entry)
        others = self._baselines.comparable(address, entries) if address in entries else []
        return {
            "head": head,
            "notes": run_info.notes_of(run, opened.directory, totals.rows),
            "problems": opened.store.problems,
            "planned": run_info.planned(run),
            "budget": run_info.budget_of(run, totals.cost_usd + totals.judge_cost_usd, totals.judge_calls),
            "repeats": run_info.repeats_of(run),
            "baseline": self._baselines.default(address, entries) if address in entries else None,
            "baselines": self._heads.all({other: entries[other] for other in others}),
            "ledger": self.ledger(address, most=_QUICKLY_HASHED),
            "commands": list(run_info.commands_of(run, opened.directory, head)),
            "suites": run_info.suites_of(run),
            "prompts": variant_order(run.manifest)[1],
        }

    def trend(self) -> dict[str, Any]:
        """The mean score of each suite and target over runs: `TrendData`."""
        return self._trends.trend(self._listing.entries())

    def live(self, address: str) -> dict[str, Any]:
        """How far a run is that may be being written: `LiveState`. Can be called several times a second."""
        run = ListedRun(self._listing.entry(address))
        opened = self._opened(address)
        return live_state(run, opened.store, opened.pace)

    def directory(self, address: str) -> RunDirectory:
        """Where a run is."""
        return self._listing.directory(address)

    def ledger(self, address: str, most: int | None = None) -> list[dict[str, Any]]:
        """The SHA-256 of the files of a run: `ledger` of `RunInfo`. Empty while the run is being written.

        With `most`, it is also empty for more bytes, unless they were hashed before.
        """
        directory = self.directory(address)
        if is_being_written(directory.path):
            return []
        files = [identity_of(path) for path in (directory.results, directory.cases, directory.judge_calls)]
        with self._lock:
            known = self._hashes.get(directory.path)
        if known is not None and known[0] == files:
            return known[1]
        if most is not None and sum(file[1] for file in files if file is not None) > most:
            return []
        hashes = run_info.file_hashes(directory)
        with self._lock:
            self._hashes[directory.path] = (files, hashes)
        return hashes

    # -- rows

    def columns(self, address: str, start: int = 0) -> tuple[bytes, str]:
        """The rows from `start` on: `ColumnsData` as bytes (see `packed_columns.py`), and a name for these bytes."""
        opened = self._opened(address)
        opened.store.refresh()
        opened.prepare()
        return opened.store.tagged(start)

    def column_data(self, address: str) -> dict[str, Any]:
        """All rows: `ColumnsData`."""
        store = self._opened(address).store
        store.refresh()
        return store.columns()

    def generation(self, address: str) -> str:
        """Names the rows of a run. It changes if rows were replaced, not if rows are appended."""
        store = self._opened(address).store
        store.refresh()
        return store.generation

    def pin(self, address: str) -> None:
        """Read the rows of a run, and no more from now on: everything that is asked then fits together."""
        self._opened(address).store.pin()

    def detail(self, address: str, row: int) -> dict[str, Any]:
        """Everything about a row: `Detail`."""
        data: dict[str, Any] = json.loads(self.detail_json(address, row))
        return data

    def detail_json(self, address: str, row: int) -> str:
        """Everything about a row: `Detail` as JSON."""
        return self._opened(address).detail(row, ListedRun(self._listing.entry(address)))

    def history(self, address: str, row: int) -> list[dict[str, Any]]:
        """The case of a row with the same target in all runs, oldest first: a list of `HistoryEntry`."""
        store = self._opened(address).store
        store.refresh()
        case, entries = store.place(row).key.case, self._listing.entries()
        return self._histories.of(case, address, entries, self._rows_of_case)

    def _rows_of_case(self, address: str, case: CaseKey) -> Iterable[CaseResult] | None:
        """The rows of a case in a run that is open; None for other runs."""
        with self._lock:
            opened = self._open.get(address)
        return None if opened is None else opened.rows_of_case(case)

    def details(self, address: str) -> Details:
        """Reads many rows, each like `detail_json`, but much faster."""
        return self._opened(address).details(ListedRun(self._listing.entry(address)))

    def histories(self, addresses: Iterable[str]) -> AllHistories:
        """The histories of all cases within these runs."""
        entries, wanted = self._listing.entries(), set(addresses)
        chosen = {address: entries[address] for address in entries if address in wanted}
        return AllHistories(chosen, {address: self.column_data(address) for address in chosen})

    def search(self, address: str, text: str, stop: Callable[[], bool]) -> Iterator[tuple[float, list[int]]]:
        """The share that was searched, and all rows found so far whose row, case or judge calls contain a text.

        The last share is 1, unless `stop` returned True.
        """
        return search(self._opened(address), text, stop)

    # -- comparisons

    def compare(self, a: str, b: str) -> dict[str, Any]:
        """Run `b` compared with run `a`, the baseline: `CompareData`. UsageError if they have no cases in common.

        Two prompts of a run are written as `RUN [prompt]`.
        """
        one, two = self._side(a), self._side(b)
        stores = [self._opened(side.run).store for side in (one, two)]
        with self._comparing:  # one at a time: two are not faster, and the same one is asked for again
            for store in stores:
                store.refresh()
            manifests = [identity_of(store.directory.manifest) for store in stores]
            state = ([(store.generation, store.count) for store in stores], manifests)
            known = self._comparisons.get((a, b))
            if known is None or known[0] != state:
                columns = stores[0].columns(), stores[1].columns()
                data = compare_sides(one, two, (stores[0].directory, stores[1].directory), columns)
                data |= CompareSections(data, one, two).to_dict()
                known = self._comparisons[a, b] = (state, data)
                while len(self._comparisons) > _COMPARISONS_KEPT:
                    self._comparisons.popitem(last=False)
            self._comparisons.move_to_end((a, b))
        heads = [self._heads.head(side.run, self._listing.entry(side.run)) for side in (one, two)]
        return {"a": heads[0], "b": heads[1], **known[1]}

    def _side(self, written: str) -> Side:
        run, _, prompt = written.removesuffix("]").rpartition(" [")
        try:
            self.directory(written)
        except UnknownRunError:
            if not (run and written.endswith("]")):
                raise
            return Side(run, prompt)
        return Side(written)

    # -- judges and people

    def judges(self, address: str) -> dict[str, Any]:
        """What is known about the judges of a run: `JudgesData`."""
        opened = self._opened(address)
        data = opened.judges()
        suites = run_info.suites_of(ListedRun(self._listing.entry(address)))
        paths = [suite["path"] for suite in suites if suite["judges"]] or [suite["path"] for suite in suites]
        return {**data, **JudgeSections(data, address, opened.store.columns(), paths).to_dict()}

    def labels(self, address: str) -> list[dict[str, Any]]:
        """The latest label of each row and person: `Label`."""
        return self._opened(address).labels()

    def add_label(self, address: str, label: Mapping[str, Any], by: str | None = None) -> dict[str, Any]:
        """Append a label. If it does not name a person, it is by `by` or the user of this process. Returns `Label`."""
        return self._opened(address).add_label(label, by)

    def _opened(self, address: str) -> OpenRun:
        """The run with this address. The ones that were used last stay open."""
        directory = self.directory(address)
        with self._lock:
            opened = self._open.pop(address, None)
            if opened is None or opened.directory.path != directory.path:
                opened = OpenRun(directory)
            self._open[address] = opened
            for old, run in list(self._open.items()) if len(self._open) > _MOST_OPEN else ():
                # Runs that are being written are followed by pages, and would be read again and again.
                if len(self._open) > _MOST_OPEN and old != address and not is_being_written(run.directory.path):
                    del self._open[old]
            return opened
