"""An index of `cases.jsonl` or `judge_calls.jsonl`: finds the lines of many keys without reading the file again.

Only the first bytes of a line are looked at, so an index of a large file is built quickly and is small. The file may
still be written: `refresh` adds the lines that are new.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

from agentv import jsonio
from agentv.codec import decode
from agentv.evidence import CaseRecord, JudgeCallRecord
from agentv.record.files import LONGEST_LINE, failure, open_recorded
from agentv.record.run_dir import RunDirectory
from agentv.results import RowKey, has_prompt

T = TypeVar("T")

_STRING = rb'"(?:[^"\\\x00-\x1f]++|\\[^\x00-\x1f])*+"'
_CASE = re.compile(rb'\{"suite":' + _STRING + rb',"eval_id":' + _STRING + rb"(?=,)")
CALL_KEY = re.compile(_CASE.pattern + rb',"case_target":' + _STRING + rb',"case_attempt":[0-9]{1,19}+(?=,)')
"""The beginning of a judge call: the key of its row."""


class LineIndex(Generic[T]):
    """The lines of one file by their key. A missing file has no lines; lines that are damaged are skipped."""

    def __init__(self, path: Path, kind: type[T], keys: tuple[str, ...], start: re.Pattern[bytes]) -> None:
        self._path, self._kind, self._keys, self._start = path, kind, keys, start
        self._lines: dict[bytes, list[tuple[int, int]]] = {}
        self._end = 0

    def refresh(self) -> None:
        """Add the complete lines that were appended since the last call."""
        try:
            with open_recorded(self._path) as file:
                file.seek(self._end)
                while line := file.readline(LONGEST_LINE + 1):
                    if not line.endswith(b"\n"):
                        break
                    if (key := self._key(line)) is not None:
                        self._lines.setdefault(key, []).append((self._end, len(line)))
                    self._end += len(line)
        except FileNotFoundError:
            return
        except OSError as error:
            raise failure("read", self._path, error) from error

    def skip_to_end(self) -> None:
        """Ignore the lines that are in the file now."""
        try:
            self._end = self._path.stat().st_size
        except OSError:
            self._end = 0

    def find(self, *key: str | int) -> list[T]:
        """The records with this key, in the order of the file."""
        return list(self._read(self.places(*key)))

    def places(self, *key: str | int) -> list[tuple[int, int]]:
        """Offset and length of the lines with this key, in the order of the file."""
        return self._lines.get(self._encoded(key), [])

    def forget(self, *key: str | int) -> None:
        """Free the memory for a key that is not needed any more."""
        self._lines.pop(self._encoded(key), None)

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def _encoded(self, key: tuple[str | int, ...]) -> bytes:
        line = jsonio.strict_line(dict(zip(self._keys, key, strict=True)))
        return b"" if line is None else line[:-1].encode("utf-8")

    def _key(self, line: bytes) -> bytes | None:
        match = self._start.match(line)
        if match is not None:
            return match.group()
        data = _parsed(line)  # written by an older version, or edited
        if data is None or not all(isinstance(data.get(name), str | int) for name in self._keys):
            return None
        return self._encoded(tuple(data[name] for name in self._keys))

    def _read(self, places: list[tuple[int, int]]) -> Iterator[T]:
        if not places:
            return
        try:
            with open_recorded(self._path) as file:
                lines = [os.pread(file.fileno(), length, offset) for offset, length in places]
        except OSError as error:
            raise failure("read", self._path, error) from error
        for line in lines:
            if (data := _parsed(line)) is not None:
                try:
                    yield decode(self._kind, data)
                except ValueError:
                    continue


class CaseIndex(LineIndex[CaseRecord]):
    """The cases of a run."""

    def __init__(self, directory: RunDirectory) -> None:
        super().__init__(directory.cases, CaseRecord, ("suite", "eval_id"), _CASE)

    def case(self, key: RowKey) -> CaseRecord | None:
        """The case of a row as recorded last; None if the run was recorded without its cases."""
        records = [each for each in self.find(key.suite, key.eval_id) if has_prompt(key.target, each.prompt)]
        return records[-1] if records else None


class JudgeCallIndex(LineIndex[JudgeCallRecord]):
    """The judge calls of a run."""

    def __init__(self, directory: RunDirectory) -> None:
        keys = ("suite", "eval_id", "case_target", "case_attempt")
        super().__init__(directory.judge_calls, JudgeCallRecord, keys, CALL_KEY)

    def calls(self, key: RowKey) -> list[JudgeCallRecord]:
        return self.find(*key)


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        data = jsonio.load(line)
    except ValueError:
        return None
    return data if isinstance(data, dict) else None
