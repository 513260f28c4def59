"""The rows of one run as columns, with the places of their lines; follows a run that is being written.

`results.jsonl` only grows, so a refresh reads what was appended. If rows were replaced (`--retry-errors`, or damaged
lines that were moved away by `--resume`), all rows are read again and the generation changes.

A large run that is not being written is kept only as the bytes that pages get, in memory and in the cache on disk.
"""

from __future__ import annotations

import hashlib
import json
import threading
from array import array
from collections.abc import Iterator
from typing import Any, NamedTuple

from agentv import __version__
from agentv.codec import encode
from agentv.errors import RecordError
from agentv.record.manifest import is_being_written
from agentv.record.reading import RowHead, head_at
from agentv.record.run_dir import RunDirectory
from agentv.report.trials import RepeatedCases
from agentv.results import RowKey, Trials
from agentv.text import plural
from agentv.view.asked import AskedCases
from agentv.view.column_cache import CachedColumns, CachedHead, ColumnCache
from agentv.view.ledger_lines import EMPTY, Identity, LedgerLines, identity_of, parsed
from agentv.view.packed_columns import Columns, after, pack, plain, unpack
from agentv.view.row_columns import MOST_EVALUATORS, MOST_TOOLS, RowColumns

FORMAT = 3
_WORTH_CACHING = 2 << 20
"""Bytes of rows. Fewer are read as quickly as a cache file."""
_NUMBERS_KEPT = 3


class Totals(NamedTuple):
    """Sums over all rows."""

    rows: int
    errors: int
    cost_usd: float
    """Of targets, as far as it is known."""
    judge_cost_usd: float
    judge_calls: int
    unpriced_judges: int
    """Evaluator results with judge calls of unknown cost."""


class ColumnStore:
    """The columns of a run. All methods can be called from any thread."""

    def __init__(self, directory: RunDirectory, *, cached: bool = True) -> None:
        self.directory = directory
        self._cache = ColumnCache(directory.path) if cached else None
        self._lock = threading.RLock()
        self._replacements = 0
        self._fingerprint = EMPTY
        self._frozen: CachedColumns | None = None
        self._seen: Any = None
        self._manifest: Identity | None = None
        self._trials = Trials()
        self._is_written = self._is_pinned = False
        self._start_again()

    def _start_again(self) -> None:
        self._lines = LedgerLines(self.directory.results)
        self._asked = AskedCases(LedgerLines(self.directory.cases))
        self._rows: RowColumns | None = None
        self._line_number = self._duplicates = self._damaged = 0
        self._damaged_lines: list[int] = []

    # -- reading

    def refresh(self) -> bool:
        """Read what was appended. Returns whether anything changed: rows, the generation or the problems."""
        with self._lock:
            before = (self.generation, self.count, self.problems)
            # First, so that nothing can be appended after the rows were read if the run is not being written.
            is_idle = not is_being_written(self.directory.path)
            self._is_written = not is_idle
            key = self._key()
            if self._is_pinned and self._seen is not None:
                return False
            if self._seen != key:
                self._read(key, is_idle)
                self._seen = key
            elif is_idle:
                self._freeze(key)
            return before != (self.generation, self.count, self.problems)

    def pin(self) -> None:
        """Read the rows, and no more from now on."""
        self.refresh()
        self._is_pinned = True

    def _key(self) -> list[Any]:
        """Identifies the contents of the files that columns are made from."""
        files = (self._lines.current_identity(), self._asked.lines.current_identity())
        return [FORMAT, __version__, *files, encode(self._default_trials())]

    def _read(self, key: Any, is_idle: bool) -> None:
        if self._frozen is None and self._rows is None and self._load(key, is_idle):
            return
        before = self.generation
        # Of a run that is kept as bytes, it is not known which rows were read: it is read again, as if replaced.
        was_replaced = self._frozen is not None or self._lines.was_replaced()
        if was_replaced:
            self._frozen = None
            self._start_again()
        if self._rows is None:
            self._rows = RowColumns(self._asked, self._default_trials())
        self._asked.refresh()
        self._add_rows(self._rows)
        self._fingerprint = self._lines.fingerprint()
        if was_replaced and self.generation == before:
            self._replacements += 1  # it has the inode of a file before it
        if is_idle:
            self._freeze(key)

    def _load(self, key: Any, is_idle: bool) -> bool:
        """Use the cache; False if it does not have these rows."""
        if self._cache is None or not is_idle or key[2] is None or key[2][1] < _WORTH_CACHING:
            return False
        self._frozen = self._cache.load(key)
        return self._frozen is not None

    def _add_rows(self, rows: RowColumns) -> None:
        add = rows.add
        for offset, line in self._lines.read():
            self._line_number += 1
            try:
                if not add(parsed(line), offset, len(line)):
                    self._duplicates += 1
            except (ValueError, RecursionError):
                self._damaged += 1
                if len(self._damaged_lines) < _NUMBERS_KEPT:
                    self._damaged_lines.append(self._line_number)

    def _default_trials(self) -> Trials:
        try:
            identity = identity_of(self.directory.manifest)
            if self._manifest != identity:
                self._trials = RepeatedCases.of(self.directory.read_manifest()).default
                self._manifest = identity
        except (RecordError, OSError):
            self._manifest, self._trials = None, Trials()
        return self._trials

    def _freeze(self, key: Any) -> None:
        """Keep only the bytes of a large run that was read completely, and save them."""
        rows = self._rows
        if rows is None or self._lines.end < _WORTH_CACHING or self._lines.identity != key[2]:
            return
        head = CachedHead(self.generation, *self.totals, tuple(self.problems))
        cases = [rows.case_place(row) or (-1, 0) for row in range(rows.count)]
        self._frozen = CachedColumns(
            head,
            self.packed(),
            rows.offset,
            rows.length,
            array("q", [offset for offset, _ in cases]),
            array("i", [length for _, length in cases]),
        )
        if self._cache is not None:
            self._cache.save(key, self._frozen)
        self._start_again()

    # -- what was read

    @property
    def generation(self) -> str:
        """Names these rows. It changes if rows were replaced, not if rows are appended."""
        with self._lock:
            if self._frozen is not None:
                return self._frozen.head.generation
            return self._fingerprint + (f".{self._replacements}" if self._replacements else "")

    @property
    def count(self) -> int:
        return self.totals.rows

    @property
    def totals(self) -> Totals:
        with self._lock:
            if self._frozen is not None:
                head = self._frozen.head
                return Totals(*(getattr(head, name) for name in Totals._fields))
            rows = self._rows
            if rows is None:
                return Totals(0, 0, 0.0, 0.0, 0, 0)
            spent = rows.spent_usd, rows.judge_spent_usd
            return Totals(rows.count, rows.errors, *spent, rows.judge_calls_made, rows.unpriced_judges)

    @property
    def problems(self) -> list[str]:
        """What could not be read and what was left out, in sentences."""
        with self._lock:
            if self._frozen is not None:
                return list(self._frozen.head.problems)
            return list(self._problems())

    def _problems(self) -> Iterator[str]:
        results, rows = self.directory.results.name, self._rows
        if self._damaged:
            numbers = ", ".join(map(str, self._damaged_lines))
            more = ", ..." if self._damaged > len(self._damaged_lines) else ""
            which = f"line {numbers}" if self._damaged == 1 else f"lines {numbers}{more}"
            yield f"{plural(self._damaged, 'line')} of {results} could not be read ({which})."
        if self._duplicates:
            yield f"{plural(self._duplicates, 'row')} of {results} left out: an earlier row has the same key."
        if self._lines.torn and not self._is_written:
            yield f"The last line of {results} is incomplete, because the run was killed while writing it."
        if self._asked.damaged:
            yield f"{plural(self._asked.damaged, 'line')} of {self.directory.cases.name} could not be read."
        if rows is None:
            return
        if rows.evaluators_left_out:
            yield f"The table has columns for the first {MOST_EVALUATORS} evaluators only."
        if rows.tools_left_out:
            yield f"The table has columns for the first {MOST_TOOLS} tools only."

    def columns(self) -> dict[str, Any]:
        """All rows: `ColumnsData` with lists for columns."""
        with self._lock:
            return plain(self._columns())

    def packed(self, start: int = 0) -> bytes:
        """The rows from `start` on: `ColumnsData` as bytes (see `packed_columns.py`)."""
        with self._lock:
            if self._frozen is not None and start <= 0:
                return self._frozen.packed
            return pack(after(self._columns(), start))

    def tagged(self, start: int) -> tuple[bytes, str]:
        """The same, and what names these bytes: they are too many to hash them for every reply."""
        with self._lock:
            contents = json.dumps([self._seen, self.generation, start]).encode("ascii")
            return self.packed(start), hashlib.sha256(contents).hexdigest()[:32]

    def _columns(self) -> Columns:
        if self._frozen is not None:
            return unpack(self._frozen.packed)
        rows = self._rows or RowColumns(self._asked, Trials())
        return {"format": FORMAT, "generation": self.generation, **rows.columns()}

    def keys(self) -> list[RowKey]:
        """The keys of all rows. Their positions are the numbers of the rows, without damaged and duplicate lines."""
        data = self.columns()
        suites, targets = data["suites"], data["targets"]
        names = ("suite", "eval_id", "target", "attempt")
        return [
            RowKey(suites[suite], eval_id, targets[target], attempt)
            for suite, eval_id, target, attempt in zip(*(data[name] for name in names), strict=True)
        ]

    def line_place(self, row: int) -> tuple[int, int]:
        """Offset and length of the line of a row. Raises RecordError if there is no such row any more."""
        with self._lock:
            source = self._frozen or self._rows
            if source is None or not 0 <= row < len(source.offset):
                raise RecordError(f"the run has no row {row}", next_step="Reload the page: the run may have changed.")
            return source.offset[row], source.length[row]

    def place(self, row: int) -> RowHead:
        """The head of a row, and where its line is. Raises RecordError if there is no such row any more."""
        head = head_at(self.directory.results, *self.line_place(row))
        if head is None:
            raise RecordError(
                f"row {row} of {self.directory.results} is not valid, or was replaced",
                next_step="Reload the page: the run may have changed.",
            )
        return head

    def case_place(self, row: int) -> tuple[int, int] | None:
        """Offset and length of the case of a row in `cases.jsonl`; None if it is not recorded."""
        with self._lock:
            if self._frozen is not None:
                offset = self._frozen.case_offset[row]
                return None if offset < 0 else (offset, self._frozen.case_length[row])
            return None if self._rows is None else self._rows.case_place(row)

    def case_offsets(self) -> array[int]:
        """The offset of the case of each row in `cases.jsonl`; -1 if it is not recorded."""
        with self._lock:
            if self._frozen is not None:
                return self._frozen.case_offset[:]
            return array("q", [(self.case_place(row) or (-1, 0))[0] for row in range(self.count)])

    def offsets(self) -> array[int]:
        """The offsets of all rows in `results.jsonl`, ascending."""
        with self._lock:
            source = self._frozen or self._rows
            return array("q") if source is None else source.offset[:]
