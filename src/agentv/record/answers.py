"""`answers.jsonl`: answers of targets, written before they are judged, so that no interrupted run repeats a call.

Each line is the row as it was before judging or, while a conversation is held, a row with one turn of it (`turn` is its
number). The file is removed when the run has finished. Errored rows whose answer could not be judged, or whose
conversation broke off, are in `superseded.jsonl` when they are run again; their answers and turns are used, too.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from agentv.errors import RecordError
from agentv.record.appender import AppendedFile, Appender
from agentv.record.files import EXECUTION_ERROR, failure, open_recorded, sync_directory, whole_lines_end
from agentv.record.rows import RowEncoder, decode_row, recorded_key
from agentv.record.run_dir import RunDirectory
from agentv.redact import Redactor
from agentv.results import CaseResult, RowKey, TurnRecord


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a recorded answer is, and the hash of its case."""

    path: Path
    offset: int
    length: int
    case_sha256: str | None


@dataclass(slots=True)
class _Unfinished:
    """Where the turns of a conversation are: each place with the number of its first turn, and the last number."""

    started_at: str
    case_sha256: str | None
    places: list[tuple[int, _Place]] = field(default_factory=list)
    last: int = 0

    def add(self, row: CaseResult, place: _Place) -> bool:
        """Add the turns of a line, in place of earlier ones with the same numbers. False if turns before it miss."""
        first = row.turn or 1
        if first > self.last + 1:
            return False
        self.places = [(number, each) for number, each in self.places if number < first]
        self.places.append((first, place))
        self.last = first - 1 + len(row.turns)
        return True


@dataclass(slots=True)
class AnswerJournal:
    """The answers of a run that have no row yet."""

    run: RunDirectory
    redactor: Redactor
    notes: list[str] = field(default_factory=list)
    """Lines that could not be used."""
    same_cases: bool = True
    """Whether no case has changed since the run started. Decides if the hash of a case is unknown."""
    same_targets: bool = True
    """Whether no target was reconfigured. Otherwise, conversations start again: one target answers all turns."""
    _places: dict[RowKey, _Place] = field(default_factory=dict)
    _unfinished: dict[RowKey, _Unfinished] = field(default_factory=dict)
    _file: AppendedFile[CaseResult] | None = None

    def read(self, done: Container[RowKey], on_answer: Callable[[CaseResult], None]) -> None:
        """Find the answers of cases that are not done. `on_answer` is called with each that was never judged.

        This includes unfinished conversations.
        """
        self._read(self.run.superseded, done, lambda _: None)
        self._read(self.run.answers, done, on_answer)
        for found in self._unfinished.values():
            on_answer(self._load_turns(found))
        try:
            with open_recorded(self.run.answers) as file:
                if whole_lines_end(file.fileno()) < os.fstat(file.fileno()).st_size:
                    self.notes.append("the last line of answers.jsonl is incomplete and was ignored")
        except FileNotFoundError:
            pass
        except OSError as error:
            raise failure("read", self.run.answers, error) from error

    def _read(self, path: Path, done: Container[RowKey], on_answer: Callable[[CaseResult], None]) -> None:
        if not os.path.lexists(path):
            return
        from agentv.record.reading import heads_of  # noqa: PLC0415 - only resumed runs need it

        for number, (line, head) in enumerate(heads_of(path), 1):
            if head is not None and head.key in done:
                continue
            try:
                row = decode_row(line)
            except ValueError as error:
                if path == self.run.answers:
                    self.notes.append(f"answers.jsonl line {number} is not a valid answer ({error}) and was ignored")
                continue
            place = None if head is None else _Place(path, head.offset, head.length, row.case_sha256)
            if place is not None and row.turns and not has_answer(row):
                self._add_turns(row, place, on_answer)
            elif place is None or not has_answer(row):
                self._places.pop(row.key, None)  # a later attempt of the case, without an answer
                self._unfinished.pop(row.key, None)
            else:
                self._places[row.key] = place
                self._unfinished.pop(row.key, None)
                on_answer(row)

    def _add_turns(self, row: CaseResult, place: _Place, on_answer: Callable[[CaseResult], None]) -> None:
        found = self._unfinished.get(row.key)
        if found is not None and found.started_at != row.started_at:
            on_answer(self._load_turns(found))  # paid for, although the conversation was started again
            found = None
        found = found or _Unfinished(row.started_at, row.case_sha256)
        if found.add(row, place):
            self._unfinished[row.key] = found
            self._places.pop(row.key, None)

    def reused(self, keys: Iterable[RowKey], hashes: Callable[[], Container[str]]) -> tuple[int, int]:
        """Of rows with these keys, the number of answers that are judged for the first time, and again.

        `hashes` returns the hashes of the cases as they are now.
        """
        if not self._places:
            return 0, 0
        current = None if self.same_cases else hashes()
        places = [place for key in keys if (place := self._places.get(recorded_key(key, self.redactor))) is not None]
        paths = [place.path for place in places if current is None or place.case_sha256 in current]
        return paths.count(self.run.answers), paths.count(self.run.superseded)

    @property
    def answers(self) -> int:
        """The number of answers from earlier parts of the run."""
        return len(self._places)

    def has(self, key: RowKey, case_sha256: str | None) -> bool:
        """Whether an earlier part of the run has recorded an answer for this case."""
        place = self._places.get(recorded_key(key, self.redactor)) if self._places else None
        return place is not None and self._is_same(place.case_sha256, case_sha256)

    def _is_same(self, recorded: str | None, case_sha256: str | None) -> bool:
        return self.same_cases if recorded is None or case_sha256 is None else recorded == case_sha256

    async def find(self, key: RowKey) -> CaseResult:
        """The row with the answer for this key, for which `has` is true."""
        return await asyncio.to_thread(self._load, self._places[recorded_key(key, self.redactor)])

    async def unfinished(self, key: RowKey, case_sha256: str | None) -> CaseResult | None:
        """The row with the recorded turns of a conversation that an earlier part of the run did not finish, if any."""
        found = self._unfinished.get(recorded_key(key, self.redactor)) if self._unfinished else None
        if found is None or not self.same_targets or not self._is_same(found.case_sha256, case_sha256):
            return None
        return await asyncio.to_thread(self._load_turns, found)

    def continued(self, keys: Iterable[RowKey], hashes: Callable[[], Container[str]]) -> int:
        """Of rows with these keys, the number of conversations that continue after their recorded turns."""
        if not self._unfinished or not self.same_targets:
            return 0
        current = None if self.same_cases else hashes()
        found = (self._unfinished.get(recorded_key(key, self.redactor)) for key in keys)
        return sum(each is not None and (current is None or each.case_sha256 in current) for each in found)

    def _load_turns(self, found: _Unfinished) -> CaseResult:
        turns: list[TurnRecord] = []
        row: CaseResult | None = None
        for first, place in found.places:
            row = self._load(place)
            turns[first - 1 :] = row.turns
        assert row is not None  # noqa: S101 - it has at least one place
        costs = [turn.cost_usd for turn in turns if turn.cost_usd is not None]
        return replace(row, turns=tuple(turns), turn=None, cost_usd=sum(costs) if costs else None)

    def _load(self, place: _Place) -> CaseResult:
        try:
            with open_recorded(place.path) as file:
                return decode_row(os.pread(file.fileno(), place.length, place.offset))
        except OSError as error:
            raise failure("read", place.path, error) from error
        except ValueError as error:
            raise RecordError(f"{place.path} was changed during the run: {error}") from None

    def attach(self, appender: Appender) -> None:
        """Write to the journal with this appender. The file is created with the first answer."""
        self._file = appender.add(AppendedFile(self.run.answers, RowEncoder(self.redactor), self._refusal))

    def keep(self, row: CaseResult) -> asyncio.Future[CaseResult]:
        """Record an answer. The future is done when it is on disk."""
        if self._file is None:
            raise RuntimeError("the journal has no appender: call `attach` first")
        return self._file.submit(row)

    def remove(self) -> None:
        """Remove the file: all cases have rows."""
        try:
            self.run.answers.unlink()
            sync_directory(self.run.path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise failure("remove", self.run.answers, error) from error

    def _refusal(self, problem: OSError) -> RecordError:
        next_step = f"Once the problem is solved, resume with: {self.run.resume_command}"
        refusal = failure("write an answer to", self.run.answers, problem, next_step)
        refusal.exit_code = EXECUTION_ERROR
        return refusal


def has_answer(row: CaseResult) -> bool:
    """Whether a row that was not judged, or whose evaluators failed, has an answer of its target."""
    return row.turn is None and (row.error is None or row.error.stage == "evaluator")
