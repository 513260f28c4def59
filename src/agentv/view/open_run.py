"""A run that pages look at: its columns, and indexes that find what belongs to a row without reading whole files."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from agentv.codec import DecodeError, decode
from agentv.errors import RecordError, UsageError
from agentv.record.human_labels import HumanLabel, answer_sha256, append_label, new_label, read_labels, valid_user
from agentv.record.line_index import JudgeCallIndex
from agentv.record.reading import RowHead, RunReader, heads_of
from agentv.record.run_dir import RunDirectory
from agentv.report.run_list import ListedRun
from agentv.report.variant_table import variant_order
from agentv.results import CaseKey, CaseResult, RowKey
from agentv.view.columns import ColumnStore
from agentv.view.details import Details
from agentv.view.judge_labels import LabelledRow, RunLabels
from agentv.view.judging import Judging
from agentv.view.ledger_lines import Identity, identity_of
from agentv.view.live_state import Pace

_LARGE = 16 << 20
_LATER = 1.0
"""Seconds after which a large run is indexed: first, its page gets what it shows."""
_MOST_ATTEMPTS = 1_000


class OpenRun:
    """All methods can be called from any thread."""

    def __init__(self, directory: RunDirectory) -> None:
        self.directory = directory
        self.store = ColumnStore(directory)
        self.pace = Pace()
        self._is_prepared = False
        self._lock = threading.Lock()
        self._calls = JudgeCallIndex(directory)
        self._calls_file: Identity | None = None
        self._calls_lock = threading.Lock()
        self._superseded_lock = threading.Lock()
        self._superseded: Counter[RowKey] = Counter()
        self._superseded_file: Identity | None = None
        self._rows: dict[int, int] = {}
        self._rows_state: tuple[str, int] | None = None
        self._most_attempts = 0
        self._answers: dict[RowKey, tuple[str, RowHead, str]] = {}
        self._judging: Judging | None = None
        self._judging_state: Any = None
        self._judging_lock = threading.Lock()

    def detail(self, row: int, run: ListedRun) -> str:
        """Everything about a row: `Detail`, as JSON. Raises RecordError if there is no such row."""
        self.store.refresh()
        is_indexed = self.prepare()
        if is_indexed:
            self._refresh_calls()
        with self._details(run, self._calls if is_indexed else None) as details:
            return details.of(row).text

    def details(self, run: ListedRun) -> Details:
        """Reads many rows, each like `detail`. What all of them need is read once."""
        self._refresh_calls()
        return self._details(run, self._calls)

    def _details(self, run: ListedRun, calls: JudgeCallIndex | None) -> Details:
        with self._superseded_lock:
            self._refresh_superseded()
        several = len(run.targets) > 1 or len(variant_order(run.manifest)[1]) > 1
        return Details(self.directory, self.store, calls, self._superseded, several_targets=several)

    def prepare(self) -> bool:
        """Index a large run in the background. Returns whether its index can be used: one row does not wait for it."""
        identity = identity_of(self.directory.judge_calls)
        if self._calls_file is not None or identity is None or identity[1] <= _LARGE:
            return True
        if not self._is_prepared:
            self._is_prepared = True
            index = threading.Timer(_LATER, self._index)
            index.daemon = True
            index.start()
        return False

    def _index(self) -> None:
        with suppress(RecordError, OSError):
            self._refresh_calls()
            with self._lock:
                self._refresh_rows()

    def _refresh_calls(self) -> None:
        with self._calls_lock:
            identity, before = identity_of(self.directory.judge_calls), self._calls_file
            if identity == before:
                return
            if before is not None and (identity is None or identity[0] != before[0] or identity[1] < before[1]):
                self._calls = JudgeCallIndex(self.directory)  # the file was replaced
            self._calls.refresh()
            self._calls_file = identity

    def row_number(self, key: RowKey) -> int | None:
        """The number of the row with this key; None if there is none. Call `store.refresh` before."""
        with self._lock:
            self._refresh_rows()
            return self._rows.get(hash(key))

    def _refresh_rows(self) -> None:
        state = (self.store.generation, self.store.count)
        if state != self._rows_state:
            keys = self.store.keys()
            # Hashes instead of keys, of which 100,000 would take 30 MB.
            self._rows = {hash(known): row for row, known in enumerate(keys)}
            self._most_attempts = max((key.attempt for key in keys), default=0)
            self._rows_state = state

    def rows_of_case(self, case: CaseKey) -> Iterator[CaseResult]:
        """The rows of a case with one target, by attempt. Much faster than `RunReader.rows_of_case`, with an index."""
        self.store.refresh()
        reader = RunReader(self.directory)
        self.row_number(RowKey(*case, 1))
        if self._most_attempts > _MOST_ATTEMPTS:
            yield from reader.rows_of_case(case)
            return
        for attempt in range(1, self._most_attempts + 1):
            head = self.find(RowKey(*case, attempt))
            row = None if head is None else reader.row_of(head)
            if row is not None:
                yield row

    def find(self, key: RowKey) -> RowHead | None:
        """The head of the row with this key; None if there is none."""
        row = self.row_number(key)
        head = None if row is None else self.store.place(row)
        return head if head is not None and head.key == key else None

    # -- judges and labels

    def judges(self, labelled: RunDirectory | None = None) -> dict[str, Any]:
        """What is known about the judges of the run: `JudgesData`. The rows are read again only if they changed.

        `labelled` is another run with labels of the same answers, which are used instead of those of this run.
        """
        self.store.refresh()
        directory = self.directory
        with self._judging_lock:  # one at a time: it takes seconds for a large run, and is asked for again
            files = [identity_of(path) for path in (directory.judge_calls, directory.cases, directory.manifest)]
            state = (self.store.generation, self.store.count, files)
            judging = self._judging if self._judging_state == state else None
            if judging is None:
                judging = Judging(self.store.columns(), directory, directory.read_manifest())
                self._judging, self._judging_state = judging, state
        return judging.data(RunLabels(self._labelled_rows(labelled or directory)))

    def _labelled_rows(self, labelled: RunDirectory) -> Iterator[LabelledRow]:
        for label in read_labels(labelled).labels:
            row = self.row_number(label.key)
            yield LabelledRow(row, label, row is not None and self._is_current(label))

    def labels(self) -> list[dict[str, Any]]:
        """The label of each row and person, with whether it is a label of the answer that the row has: `Label`."""
        self.store.refresh()
        return [{**label.to_dict(), "current": self._is_current(label)} for label in read_labels(self.directory).labels]

    def _is_current(self, label: HumanLabel) -> bool:
        try:
            answer = self._answer_hash(label.key)
        except RecordError:
            return False
        return answer == label.answer_sha256

    def _answer_hash(self, key: RowKey) -> str | None:
        """The hash of the answer of a row, which is read again only if the row was replaced."""
        head = self.find(key)
        if head is None:
            return None
        generation, known = self.store.generation, self._answers.get(key)
        if known is None or known[:2] != (generation, head):
            known = self._answers[key] = (generation, head, answer_sha256(self._answer(head)))
        return known[2]

    def _answer(self, head: RowHead) -> str:
        row = RunReader(self.directory).row_of(head)
        return "" if row is None else row.candidate_answer

    def add_label(self, data: Mapping[str, Any], by: str | None) -> dict[str, Any]:
        """Append a label of the answer that the row has now: `Label`. Raises UsageError if the data are not valid.

        `by` is the person if the data do not name one.
        """
        asked = _label(data)
        self.store.refresh()
        head = self.find(asked.key)
        if head is None:
            raise UsageError(f"The run has no row of case '{asked.eval_id}' with this target and attempt.")
        answer = self._answer(head)
        if asked.answer_sha256 and not asked.is_of(answer):
            raise UsageError("The answer has changed since it was shown.", next_step="Reload the page to see it.")
        label = new_label(asked.key, answer, asked.label, asked.note, valid_user(asked.by) or by)
        append_label(self.directory, label)
        return {**label.to_dict(), "current": True}

    def _refresh_superseded(self) -> None:
        """Count the rows with each key that were superseded."""
        identity = identity_of(self.directory.superseded)
        if identity != self._superseded_file:
            heads = (head for _, head in heads_of(self.directory.superseded))
            self._superseded = Counter(head.key for head in heads if head is not None)
            self._superseded_file = identity


def _label(data: Mapping[str, Any]) -> HumanLabel:
    """A label as a page sends it. The time and `current` are not taken from it."""
    names = ("suite", "eval_id", "target", "attempt", "label", "note", "by", "answer_sha256")
    try:
        return decode(HumanLabel, {name: data[name] for name in names if data.get(name) is not None})
    except DecodeError as error:
        raise UsageError(f"The label is not valid: {error}.") from None
