"""Read the record of a run: heads of rows, single rows, cases and judge calls, without decoding whole files.

Lines begin with the keys that identify them, so a line is found by its first bytes. A run of 100,000 rows (350 MB) is
listed in a fraction of a second. A run that is being written can be read: an incomplete last line is ignored. Lines
that are damaged are skipped and counted.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

from agentv import jsonio
from agentv.codec import decode
from agentv.errors import RecordError
from agentv.evidence import CaseRecord, JudgeCallRecord
from agentv.record.files import LONGEST_LINE, failure, open_recorded
from agentv.record.rows import decode_row
from agentv.record.run_dir import RunDirectory
from agentv.regular_files import open_descriptor
from agentv.results import CaseKey, CaseResult, RowKey, Verdict, has_prompt, variant_of

T = TypeVar("T")

_STRING = rb'"([^"\\\x00-\x1f]*+(?:\\[^\x00-\x1f][^"\\\x00-\x1f]*+)*+)"'
_HEAD = re.compile(
    rb'\{"run_id":' + _STRING.replace(b"(", b"(?:", 1)
    + rb',"eval_id":' + _STRING + rb',"suite":' + _STRING
    + rb',"target":' + _STRING + rb'(?:,"prompt":' + _STRING + rb")?"
    # A number that does not look like this is left to the decoder, which knows what is allowed.
    + rb',"attempt":([1-9][0-9]{0,17}),"score":(0(?:\.[0-9]{1,20})?|1(?:\.0)?),"verdict":"(pass|borderline|fail)"'
    + rb',"error":(?:(null)|\{)'
)  # fmt: skip
_CASE = re.compile(rb'\{"suite":' + _STRING + rb',"eval_id":' + _STRING + rb'(?:,"prompt":' + _STRING + rb")?,")
_CASE_END = re.compile(rb',"sha256":"([0-9a-f]{64})","file":' + _STRING + rb',"line":[0-9]{1,18}\}\n')
"""The end of a line of `cases.jsonl`. An object within the line would end with two braces."""
_VERDICTS = {verdict.value.encode("ascii"): verdict for verdict in Verdict}
_BUFFER = 1 << 20
_WINDOWS = (1 << 20, 32 << 20)
"""How far from the likely place of the judge calls of a row they are looked for, before the whole file is read."""


class RowHead(NamedTuple):
    """The beginning of a row, and where its line is in `results.jsonl`."""

    key: RowKey
    score: float
    verdict: Verdict
    errored: bool
    offset: int
    length: int


class RunReader:
    """Reads one run. Files that are missing, as in runs of older versions, have no lines."""

    def __init__(self, directory: RunDirectory) -> None:
        self.directory = directory
        self.damaged: Counter[str] = Counter()
        """Lines that were read and skipped because they are not valid, by the name of their file."""
        self._heads: list[RowHead] | None = None
        self._by_key: dict[RowKey, RowHead] | None = None
        self._cases: dict[tuple[str, str], dict[str | None, tuple[int, int]]] | None = None
        """The places of cases by suite and id, then by prompt."""

    @classmethod
    def open(cls, path: Path) -> RunReader:
        """Open the run in a directory. Raises RecordError if one of its files is a link, a pipe or a device."""
        return cls(RunDirectory.open(path))

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """The contents of `run.json`."""
        return self.directory.read_manifest()

    # -- rows

    def heads(self) -> list[RowHead]:
        """The heads of all rows, in the order of the file."""
        if self._heads is None:
            self.damaged[self.directory.results.name] = 0
            self._heads = self._read_heads(self.directory.results)
            self._by_key = None
        return self._heads

    def keys(self) -> list[RowKey]:
        """The keys of all rows, in the order of the file."""
        return [head.key for head in self.heads()]

    def row(self, key: RowKey) -> CaseResult | None:
        """The row with this key; None if there is none. Raises RecordError if its line is damaged."""
        for _ in range(2):
            heads = self.heads()
            if self._by_key is None:
                self._by_key = {head.key: head for head in reversed(heads)}  # the first of two rows counts
            head = self._by_key.get(key)
            if head is None:
                return None
            if (row := self._row_at(head)) is not None:
                return row
            self._heads = None  # the file was replaced since it was indexed, because the run was resumed
        raise RecordError(
            f"the row of '{key.eval_id}' in {self.directory.results} is damaged",
            next_step=f"Run the case again: {self.directory.resume_command}",
        )

    def row_of(self, head: RowHead) -> CaseResult | None:
        """The row of a head. Faster than `row`, which needs an index of all keys."""
        return self._row_at(head) or self.row(head.key)

    def _row_at(self, head: RowHead) -> CaseResult | None:
        row = _decoded(_read(self.directory.results, head.offset, head.length))
        return row if row is not None and row.key == head.key else None

    def rows(self) -> Iterator[CaseResult]:
        """All rows, decoded, in the order of the file."""
        seen: set[RowKey] = set()
        for _, line in _lines(self.directory.results):
            row = _decoded(line)
            if row is not None and row.key not in seen:
                seen.add(row.key)
                yield row

    def rows_of_case(self, case: CaseKey) -> Iterator[CaseResult]:
        """The rows of a case with one target, in the order of the file. Faster than an index, for a single case."""
        run_id = self.manifest.get("run_id")
        start = _start(run_id=str(run_id), eval_id=case.eval_id, suite=case.suite)
        seen: set[int] = set()
        for line in () if start is None else _lines_starting(self.directory.results, start):
            row = _decoded(line)
            if row is not None and row.variant == case.target and row.attempt not in seen:
                seen.add(row.attempt)
                yield row

    def execution(self, key: RowKey) -> int:
        """How often the case of this row was judged: 1, plus the number of its rows that were superseded."""
        return 1 + sum(1 for head in self._read_heads(self.directory.superseded) if head.key == key)

    def _read_heads(self, path: Path) -> list[RowHead]:
        """The heads of a file. In a large run, most of the time of a command is spent in this loop."""
        heads: list[RowHead] = []
        names: dict[bytes, str] = {}  # suites and targets occur in every line
        new, add, match = tuple.__new__, heads.append, _HEAD.match
        for offset, line in _lines(path):
            found = match(line)
            if found is not None and line.endswith(b"}\n"):
                eval_id, suite, target, prompt, attempt, score, verdict, no_error = found.groups()
                known = suite in names and target in names and prompt is None
                if known and eval_id.isascii() and b"\\" not in eval_id:
                    key = new(RowKey, (names[suite], eval_id.decode("ascii"), names[target], int(attempt)))
                    add(new(RowHead, (key, float(score), _VERDICTS[verdict], no_error is None, offset, len(line))))
                    continue
            head = _head(offset, line, names)
            if head is None:
                self.damaged[path.name] += 1
            else:
                add(head)
        return heads

    # -- cases and judge calls

    def case(self, key: CaseKey | RowKey, sha256: str | None = None) -> CaseRecord | None:
        """What was asked and expected in this case; None if the run was recorded without its cases.

        `sha256` is the hash in the row, if it is known: a run that was resumed may have several versions of a case.
        """
        if self._cases is not None:
            places = self._cases.get((key.suite, key.eval_id), {})
            place = next((place for prompt, place in places.items() if has_prompt(key.target, prompt)), None)
            return None if place is None else self._case(_read(self.directory.cases, *place))
        start = _start(suite=key.suite, eval_id=key.eval_id)
        latest = None
        for record in self._starting(self.directory.cases, start, CaseRecord):
            if has_prompt(key.target, record.prompt):
                latest = record
                if record.sha256 == sha256:
                    break
        return latest

    def case_hashes(self) -> dict[tuple[str, str], tuple[str, str]]:
        """The SHA-256 and the file of each case, by suite and id; empty if the run was recorded without its cases."""
        hashes: dict[tuple[str, str], dict[str | None, tuple[str, str]]] = {}
        texts: dict[bytes, str] = {}  # suites and files occur in every line
        for _, line in _lines(self.directory.cases):
            try:
                start, end = _CASE.match(line), _CASE_END.fullmatch(line, line.rfind(b',"sha256":"'))
                if start is not None and end is not None:
                    for part in (start[1], end[2]):
                        if part not in texts:
                            texts[part] = _text(part)
                    prompt = None if start[3] is None else _text(start[3])
                    versions = hashes.setdefault((texts[start[1]], _text(start[2])), {})
                    versions[prompt] = (end[1].decode("ascii"), texts[end[2]])
                    continue
                data = jsonio.load(line, unique=False)
                values = [data[name] for name in ("suite", "eval_id", "sha256", "file")]
            except (ValueError, TypeError, KeyError):
                self.damaged[self.directory.cases.name] += 1
                continue
            if all(isinstance(value, str) for value in values):
                hashes.setdefault((values[0], values[1]), {})[data.get("prompt")] = (values[2], values[3])
        return {key: _joined(versions) for key, versions in hashes.items()}

    def index_cases(self) -> None:
        """Find the lines of all cases once, so that a series of cases can be read one after the other."""
        self._cases = {}
        for offset, line in _lines(self.directory.cases):
            match = _CASE.match(line)
            try:
                key = (_text(match[1]), _text(match[2]), match[3]) if match else _key_of(self._case(line))
            except ValueError:
                key = None
            if key is None:
                self.damaged[self.directory.cases.name] += 1
            else:
                suite, eval_id, prompt = key
                places = self._cases.setdefault((suite, eval_id), {})
                places[_text(prompt) if isinstance(prompt, bytes) else prompt] = (offset, len(line))

    def case_keys(self) -> list[tuple[str, str]]:
        """Suite and id of all cases of the run, including those that have no row yet."""
        if self._cases is None:
            self.index_cases()
        return list(self._cases or ())

    def _case(self, line: bytes) -> CaseRecord | None:
        try:
            return decode(CaseRecord, jsonio.load(line))
        except ValueError:
            return None

    def judge_calls(self, key: RowKey, *, near: RowHead | None = None, expected: int = 0) -> list[JudgeCallRecord]:
        """The judge calls of a row, in the order of the file, including those of superseded rows with this key.

        Rows and calls are written in about the same order. With `near`, only the part of the file is read in which the
        calls of that row are likely, if they are at least `expected` there.
        """
        start = _start(suite=key.suite, eval_id=key.eval_id, case_target=key.target, case_attempt=key.attempt)
        path = self.directory.judge_calls
        if near is not None and expected:
            place = self._likely_place(near, path)
            for reach in _WINDOWS:
                window = _lines(path, place - reach, place + reach)
                calls = list(self._starting(path, start, JudgeCallRecord, window))
                if len(calls) >= expected:
                    return calls
                self.damaged[path.name] = 0
        return list(self._starting(path, start, JudgeCallRecord))

    def _likely_place(self, head: RowHead, path: Path) -> int:
        """Where in a file that has lines in the order of the rows a line for this row is likely."""
        try:
            return head.offset * path.stat().st_size // max(1, self.directory.results.stat().st_size)
        except OSError:
            return 0

    def _starting(
        self, path: Path, start: bytes | None, kind: type[T], lines: Iterator[tuple[int, bytes]] | None = None
    ) -> Iterator[T]:
        if start is None:
            return
        for line in _lines_starting(path, start) if lines is None else (line for _, line in lines):
            if line.startswith(start):
                try:
                    yield decode(kind, jsonio.load(line))
                except ValueError:
                    self.damaged[path.name] += 1


def heads_of(path: Path) -> Iterator[tuple[bytes, RowHead | None]]:
    """The complete lines of a file of rows, each with its head; None for a line that is not a row."""
    names: dict[bytes, str] = {}  # suites and targets occur in every line
    for offset, line in _lines(path):
        yield line, _head(offset, line, names)


def whole_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The complete lines of a file with their offsets; none if there is no such file."""
    return _lines(path)


def head_at(path: Path, offset: int, length: int) -> RowHead | None:
    """The head of the line at this place of a file of rows; None if it is not a row."""
    return _head(offset, _read(path, offset, length), {})


def _lines_starting(path: Path, start: bytes) -> Iterator[bytes]:
    """The complete lines that begin with these bytes. Searching is much faster than looking at every line."""
    wanted = b"\n" + start
    try:
        with os.fdopen(open_descriptor(path, os.O_RDONLY, follow_links=False), "rb", buffering=0) as file:
            rest = b"\n"  # the line break before the next line
            while data := file.read(_BUFFER):
                data = rest + data
                place = data.find(wanted)
                while place >= 0 and (end := data.find(b"\n", place + 1)) >= 0:
                    yield data[place + 1 : end + 1]
                    place = data.find(wanted, end)
                rest = data[place:] if place >= 0 else data[-len(wanted) :]
                if len(rest) > LONGEST_LINE:
                    rest = b""
    except FileNotFoundError:
        return
    except OSError as error:
        raise failure("read", path, error) from error


def _lines(path: Path, start: int = 0, end: int | None = None) -> Iterator[tuple[int, bytes]]:
    """The complete lines of a file with their offsets. A line that is too long is yielded in part, and is not valid.

    With `start` and `end`, only the lines that begin between these offsets.
    """
    try:
        # Not a memory map: a file that is truncated while it is read must not kill the process.
        with os.fdopen(open_descriptor(path, os.O_RDONLY, follow_links=False), "rb", _BUFFER) as file:
            offset = 0
            if start > 0:
                offset = file.seek(start - 1)
                while (rest := file.readline(_BUFFER)) and (offset := offset + len(rest)) and not rest.endswith(b"\n"):
                    pass
            yield from lines_from(file, offset, end)
    except FileNotFoundError:
        return
    except OSError as error:
        raise failure("read", path, error) from error


def lines_from(file: IO[bytes], offset: int, end: int | None = None) -> Iterator[tuple[int, bytes]]:
    """The complete lines of an open file from here on, like `_lines`; `offset` is the current position of the file."""
    while (end is None or offset < end) and (line := file.readline(LONGEST_LINE)):
        length, whole = len(line), line.endswith(b"\n")
        if not whole and length < LONGEST_LINE:
            return  # the end of the file: the rest of this line may be written later
        while not whole and (rest := file.readline(_BUFFER)):
            length, whole = length + len(rest), rest.endswith(b"\n")
        if whole:
            yield offset, line
        offset += length


def _read(path: Path, offset: int, length: int) -> bytes:
    try:
        with open_recorded(path) as file:
            return os.pread(file.fileno(), length, offset)
    except OSError as error:
        raise failure("read", path, error) from error


def _key_of(case: CaseRecord | None) -> tuple[str, str, str | None] | None:
    return None if case is None else (case.suite, case.eval_id, case.prompt)


def _joined(versions: dict[str | None, tuple[str, str]]) -> tuple[str, str]:
    """The hash and the file of a case. The hash of a case that is asked with several prompts is that of all of them."""
    (sha256, file), *others = versions.values()
    if others:
        sha256 = hashlib.sha256("".join(sorted(each for each, _ in versions.values())).encode("ascii")).hexdigest()
    return sha256, file


def _head(offset: int, line: bytes, names: dict[bytes, str]) -> RowHead | None:
    """The head of a line, from its first bytes if they are as written by agentv; None if it is not a row."""
    match = _HEAD.match(line)
    if match is not None and line.endswith(b"}\n"):
        eval_id, suite, target, prompt, attempt, score, verdict, no_error = match.groups()
        try:
            names |= {suite: _text(suite), target: _text(target)}
            variant = names[target] if prompt is None else variant_of(names[target], _text(prompt))
            key = RowKey(names[suite], _text(eval_id), variant, int(attempt))
        except ValueError:
            return None
        return RowHead(key, float(score), _VERDICTS[verdict], no_error is None, offset, len(line))
    row = _decoded(line)
    if row is None:
        return None
    return RowHead(row.key, row.score, row.verdict, row.error is not None, offset, len(line))


def _text(encoded: bytes) -> str:
    """The string that is written in JSON like this, between quotation marks."""
    text = encoded.decode("utf-8")
    if "\\" in text:
        text = json.loads(f'"{text}"')
        text.encode("utf-8")  # a lone surrogate is not text
    return text


def _decoded(line: bytes) -> CaseResult | None:
    try:
        return decode_row(line)
    except ValueError:
        return None


def _start(**fields: str | int) -> bytes | None:
    """The first bytes of a line with these keys; None if no line can have them."""
    line = jsonio.strict_line(fields)
    return None if line is None else line[:-1].encode("utf-8") + b","
