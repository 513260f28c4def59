"""What a plan keeps of each case while its suite is validated: its line of `cases.jsonl`, its hash, and whether the
options select it. No suite is read a second time for this, and memory does not grow with the length of the cases."""

from __future__ import annotations

import hashlib
import io
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from agentv.plan.selection import CaseFilter
from agentv.suite.case_records import CaseEncoder
from agentv.suite.evaluator import EvaluatorLike
from agentv.suite.files import SuiteFiles
from agentv.suite.suite import EvalCase

IN_MEMORY = 4 << 20
"""Bytes of lines that are kept in memory; more are kept in a temporary file that has no name."""
HASH = 32


class Lines:
    """Lines in the order in which they were added, found by their offset."""

    def __init__(self) -> None:
        self._file: IO[bytes] = io.BytesIO()
        self._in_memory = True
        self.end = 0

    def append(self, line: bytes) -> None:
        self._file.write(line)
        self.end += len(line)
        if self._in_memory and self.end > IN_MEMORY:
            import tempfile  # noqa: PLC0415 - most runs do not need it

            self._in_memory, first = False, self._file
            self._file = tempfile.TemporaryFile(prefix="agentv-cases-")  # noqa: SIM115 - closed with this object
            weakref.finalize(self, self._file.close)
            self._file.write(first.getvalue() if isinstance(first, io.BytesIO) else b"")

    def cut(self, start: int) -> None:
        """Forget the lines from an offset on."""
        self._file.seek(start)
        self._file.truncate()
        self.end = start

    def starting(self, start: int) -> Iterator[bytes]:
        """The lines from an offset on. Nothing may be added before the last one was read."""
        self._file.seek(start)
        while line := self._file.readline():
            yield line

    def clear(self) -> None:
        self._file.close()
        self._file, self._in_memory, self.end = io.BytesIO(), True, 0


@dataclass(slots=True)
class SuiteCases:
    """What is kept of the cases of one suite, in file order."""

    accepted: set[str] | None = None
    """The ids that the filter accepts; None without a filter."""
    hashes: bytearray = field(default_factory=bytearray)
    """The SHA-256 of each case."""
    start: int = 0
    """Where its lines begin."""
    used: list[bytes] = field(default_factory=list)
    """For watched runs: a hash of the files that the evaluators of each case depend on."""

    def sha256(self, position: int) -> str:
        """The hash of the case at this position."""
        return self.hashes[position * HASH : (position + 1) * HASH].hex()

    def __iter__(self) -> Iterator[str]:
        return map(self.sha256, range(len(self.hashes) // HASH))

    def replace_sha256(self, position: int, sha256: bytes) -> None:
        """Use another hash, because the case is recorded with masked secrets."""
        self.hashes[position * HASH : (position + 1) * HASH] = sha256


@dataclass(slots=True)
class CaseCollector:
    """Sees the cases of all suites of a plan (`SeesCases`). A new `SuiteCases` begins with each suite."""

    cwd: Path
    threshold: float | None = None
    """`--threshold`."""
    filter: CaseFilter | None = None
    recording: bool = True
    """Whether hashes and lines are kept."""
    watched: bool = False
    """Whether `SuiteCases.used` is kept."""
    of_suite: SuiteCases = field(default_factory=SuiteCases)
    _encoder: CaseEncoder | None = None
    _name: str = ""
    _files: SuiteFiles | None = None
    _evaluators: tuple[EvaluatorLike, ...] | None = None
    _used_files: bytes = b""
    """The hash of the files of `_evaluators`, which are those of the previous case."""
    lines: Lines = field(default_factory=Lines)

    def next_suite(self) -> None:
        """The cases that follow are those of another suite."""
        self.of_suite = SuiteCases(start=self.lines.end)

    def begin(self, suite: str, threshold: float | None, files: SuiteFiles) -> None:
        start = self.of_suite.start
        self.of_suite = SuiteCases(None if self.filter is None else set(), start=start)
        self._name, self._files, self._evaluators = suite, files, None
        if self.lines.end > start:  # the suite is read again
            self.lines.cut(start)
        self._encoder = CaseEncoder(suite, threshold, files, self.cwd, self.threshold) if self.recording else None

    def add(self, case: EvalCase, path: Path) -> None:
        own = self.of_suite
        if self.filter is not None and own.accepted is not None and self.filter.accepts(case, self._name):
            own.accepted.add(case.id)
        if self._encoder is not None:
            sha256, line = self._encoder.encode(case, path)
            own.hashes += sha256
            self.lines.append(f"{line}\n".encode())
        if self.watched:
            own.used.append(self._used(case.evaluators))

    def _used(self, evaluators: tuple[EvaluatorLike, ...]) -> bytes:
        if evaluators is not self._evaluators and self._files is not None:
            files = [path for each in evaluators for path in each.depends_on(self._files.directory)]
            digests = [f"{path} {self._files.fingerprints.digest_of(path)}" for path in files]
            self._evaluators, self._used_files = evaluators, hashlib.sha256("\n".join(digests).encode()).digest()
        return self._used_files
