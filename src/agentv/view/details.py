"""Everything about a row, as JSON text: `Detail` in `static/types.js`.

The HTML file has the details of all rows, so this must be fast: files stay open, what rows share is read once, and a
line that agentv wrote is copied instead of being encoded again.
"""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple, NoReturn, TypeVar

from agentv import jsonio
from agentv.codec import decode, encode
from agentv.errors import RecordError
from agentv.evidence import CaseRecord, JudgeCallRecord
from agentv.record.files import failure, open_recorded
from agentv.record.line_index import JudgeCallIndex
from agentv.record.reading import RunReader
from agentv.record.run_dir import RunDirectory
from agentv.report.case_commands import CaseCommands
from agentv.report.case_view import CaseView, calls_made, score_sentences
from agentv.results import CaseResult, RowKey
from agentv.view.columns import ColumnStore

T = TypeVar("T", CaseResult, CaseRecord, JudgeCallRecord)

_CASES_KEPT = 256
"""Attempts and targets of a case have the same text, and their rows are near each other."""


class Detail(NamedTuple):
    """A row, and everything about it as JSON."""

    result: CaseResult
    text: str


class Details:
    """Reads the details of rows of one run. A context: its files stay open."""

    def __init__(
        self,
        directory: RunDirectory,
        store: ColumnStore,
        calls: JudgeCallIndex | None,
        superseded: Mapping[RowKey, int],
        *,
        several_targets: bool,
    ) -> None:
        """`superseded` has the number of superseded rows by key. `several_targets`: whether the run has them.

        Without `calls`, judge calls are looked for near their likely place: good for one row, slow for many.
        """
        self._directory, self._store, self._calls, self._superseded = directory, store, calls, superseded
        self._reader = RunReader(directory)
        self._commands = CaseCommands(self._reader, several_targets=several_targets)
        self._cases: OrderedDict[tuple[int, int], tuple[CaseRecord, str] | None] = OrderedDict()
        self._files: dict[Path, BufferedReader] = {}
        self._open = ExitStack()

    def __enter__(self) -> Details:
        """Open the files: what is read from now on belongs together, even if the run is resumed meanwhile."""
        for path in (self._directory.results, self._directory.cases, self._directory.judge_calls):
            with suppress(FileNotFoundError):
                self._file(path)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def length(self, row: int) -> int:
        """The length of the line of a row."""
        return self._store.line_place(row)[1]

    def of(self, row: int) -> Detail:
        """The details of a row. Raises RecordError if there is no such row, or if it is damaged."""
        line = self._read(self._directory.results, *self._store.line_place(row))
        recorded = _recorded(CaseResult, line)
        if recorded is None:
            result = self._reader.row_of(self._store.place(row))  # says what is wrong
            if result is None:
                raise RecordError(f"row {row} was replaced", next_step="Reload the page: the run has changed.")
            recorded = result, jsonio.dump_line(encode(result))
        result, text = recorded
        place = self._store.case_place(row)
        case = None if place is None else self._case(place)
        execution = 1 + self._superseded.get(result.key, 0)
        calls = list(self._judge_calls(row, result, execution))
        view = CaseView.of(
            self._reader, result, None if case is None else case[0], (call for call, _ in calls), execution
        )
        commands = [*self._commands.of(result), self._commands.show(result)]
        rest = {
            "arithmetic": score_sentences(result, view.threshold),
            "commands": [{"title": title, "command": command} for command, title in commands],
            "execution": execution,
        }
        texts = {id(call): text for call, text in calls}
        ordered = [texts[id(call)] for call in (*view.earlier_calls, *view.calls)]
        return Detail(
            result,
            f'{{"run_id":{jsonio.dump_line(view.run_id)},"row":{text},"case":{"null" if case is None else case[1]}'
            f',"judge_calls":[{",".join(ordered)}],{jsonio.dump_line(rest)[1:]}',
        )

    def _case(self, place: tuple[int, int]) -> tuple[CaseRecord, str] | None:
        if place not in self._cases:
            self._cases[place] = _recorded(CaseRecord, self._read(self._directory.cases, *place))
            if len(self._cases) > _CASES_KEPT:
                self._cases.popitem(last=False)
        return self._cases[place]

    def _judge_calls(self, row: int, result: CaseResult, execution: int) -> Iterator[tuple[JudgeCallRecord, str]]:
        if self._calls is None:
            near = self._store.place(row) if execution == 1 else None
            for call in self._reader.judge_calls(result.key, near=near, expected=calls_made(result)):
                yield call, jsonio.dump_line(encode(call))
            return
        for offset, length in self._calls.places(*result.key):
            recorded = _recorded(JudgeCallRecord, self._read(self._directory.judge_calls, offset, length))
            if recorded is not None:
                yield recorded

    def _read(self, path: Path, offset: int, length: int) -> bytes:
        try:
            return os.pread(self._file(path).fileno(), length, offset)
        except OSError as error:
            raise failure("read", path, error) from error

    def _file(self, path: Path) -> BufferedReader:
        if path not in self._files:
            self._files[path] = self._open.enter_context(open_recorded(path))
        return self._files[path]


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_scan = json.JSONDecoder(parse_constant=_refused).raw_decode


def _recorded(kind: type[T], line: bytes) -> tuple[T, str] | None:
    """The record in a line, and its JSON text; None if the line is damaged."""
    try:
        text = line.decode("utf-8").rstrip()
        data, end = _scan(text)
        if end != len(text) or "\\ud" in text or "\\uD" in text:  # perhaps a lone surrogate, which is not text
            data, text = jsonio.load(line), ""
        record = decode(kind, data)
    except (ValueError, RecursionError):
        return None
    encoded = encode(record)
    return record, text if text and encoded == data else jsonio.dump_line(encoded)
