"""The runs that the viewer shows, by their addresses. What is not listed cannot be opened."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from agentv.errors import RecordError
from agentv.record.catalog import Catalog, RunEntry, read_entry
from agentv.record.manifest import MANIFEST
from agentv.record.run_dir import RunDirectory, find_run
from agentv.view.ledger_lines import Identity, identity_of

_LONGEST_SHOWN = 200


class UnknownRunError(RecordError):
    """The viewer does not list a run with this address."""

    def __init__(self, address: str) -> None:
        super().__init__(
            f"there is no run '{address[:_LONGEST_SHOWN]}'",
            next_step="It may have been removed. Reload the list of runs.",
        )
        self.address = address


class Listing:
    """All runs of a project or, if `runs` are given, these. All methods can be called from any thread."""

    def __init__(self, root: Path, runs: Sequence[str] = ()) -> None:
        """Raises RecordError if one of the runs is not found. What `latest` means does not change later."""
        self._root = root.absolute()
        self._chosen = addressed(dict.fromkeys(find_run(run, self._root).path for run in runs)) if runs else None
        self._lock = threading.Lock()
        self._directories: dict[str, Path] = self._chosen or {}
        self._entries: dict[Path, tuple[Identity | None, RunEntry]] = {}

    def entries(self) -> dict[str, RunEntry]:
        """All runs by address, newest first, also those that cannot be read."""
        with self._lock:
            if self._chosen is None:
                catalog = Catalog(self._root)
                self._directories = addressed(catalog.runs / name for name in catalog.ids())
            entries = {address: self._entry(path) for address, path in self._directories.items()}
            self._entries = {entry.directory: self._entries[entry.directory] for entry in entries.values()}
        if self._chosen is None:
            return entries
        oldest = datetime.min.replace(tzinfo=UTC)
        return dict(sorted(entries.items(), key=lambda item: (item[1].started or oldest, item[0]), reverse=True))

    def entry(self, address: str) -> RunEntry:
        """The run with this address. Raises UnknownRunError if there is none (any more)."""
        with self._lock:
            path = self._directories.get(address)
            if path is not None and path.is_dir():
                return self._entry(path)
        entry = self.entries().get(address)
        if entry is None or not entry.directory.is_dir():
            raise UnknownRunError(address)
        return entry

    def directory(self, address: str) -> RunDirectory:
        """The directory of a run. Raises UnknownRunError, or RecordError if it is not a run that can be read."""
        return RunDirectory.open(self.entry(address).directory)

    def _entry(self, path: Path) -> RunEntry:
        """Read `run.json` again only if it has changed."""
        identity = identity_of(path / MANIFEST)
        known = self._entries.get(path)
        if known is None or known[0] != identity:
            known = self._entries[path] = (identity, read_entry(path))
        return known[1]


def addressed(directories: Iterable[Path]) -> dict[str, Path]:
    """Directories by their names. Equal names are numbered: `nightly`, `nightly~2`."""
    addressed: dict[str, Path] = {}
    for path in directories:
        name = os.fsencode(path.name).decode("utf-8", "replace") or "run"
        address, number = name, 1
        while address in addressed:
            number += 1
            address = f"{name}~{number}"
        addressed[address] = path
    return addressed
