"""Load a suite file: check every line of it, then hand out its cases one at a time.

The file is walked once to check it and again, lazily, to run it, so a suite of any length takes the same memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from agentv.errors import Problem, SuiteError
from agentv.suite.case import EvalCase
from agentv.suite.cases import CaseReader
from agentv.suite.files import SuiteFiles
from agentv.suite.findings import Findings, did_you_mean
from agentv.suite.json_lines import iterate_lines
from agentv.suite.models import SuiteModel
from agentv.suite.suite import EvalSuite
from agentv.suite.validation import show, validate
from agentv.suite.yaml_events import Path as NodePath
from agentv.suite.yaml_events import STREAM_BEGINS, StreamItem, YamlProblem, YamlWalk

CASES = "evalcases"


class ReadEvaluator(Protocol):
    """Turns one entry of an evaluator list into an evaluator; None when mistakes went into `findings`."""

    def __call__(self, raw: Any, findings: Findings, at: NodePath, files: SuiteFiles) -> Any | None: ...


def load_suite(path: Path, read_evaluator: ReadEvaluator, added: Sequence[Any] = ()) -> EvalSuite:
    """The suite, or SuiteError with every mistake in it. Evaluators in `added` join the suite's defaults."""
    return _SuiteReader(path, read_evaluator, tuple(added)).load()


class _LateHeadError(Exception):
    """A key of the head stands below the cases: the head must be read whole before the cases are."""


class _SuiteReader:
    def __init__(self, path: Path, read_evaluator: ReadEvaluator, added: tuple[Any, ...]) -> None:
        self.path = path
        self.read_evaluator = read_evaluator
        self.added = added
        self.findings: dict[Path, Findings] = {}
        self.digests: dict[str, str] = {}
        self.case_targets: dict[str, tuple[str, Path, int]] = {}
        self.head_keys: dict[str, Any] = {}
        self.head = SuiteModel()
        self.defaults: tuple[Any, ...] = added
        self.files = SuiteFiles.of(path)

    def load(self) -> EvalSuite:
        self._check_file()
        try:
            ids = self._check(whole_head=False)
        except _LateHeadError:
            ids = self._check(whole_head=True)
        if problems := self._problems():
            raise SuiteError(problems)
        if not ids:
            raise SuiteError([Problem(self.path, 1, 1, f"the suite has no cases; add them under `{CASES}:`")])
        execution = self.head.execution
        return EvalSuite(
            path=self.path,
            name=self.head.dataset or self.path.stem,
            ids=ids,
            files=self.files,
            digests=dict(self.digests),
            read_cases=self._run_cases,
            description=self.head.description or "",
            target=execution.target or self.head.target,
            judge_target=execution.judge_target,
            threshold=execution.threshold,
            evaluators=self.defaults,
            case_targets=self.case_targets,
        )

    def _check(self, *, whole_head: bool) -> tuple[str, ...]:
        """Check every case; the ids, in file order."""
        self.findings.clear()
        self.digests.clear()
        self.case_targets.clear()
        seen: dict[str, str] = {}
        try:
            self._read_head(whole=whole_head)
            for case, node, findings in self._cases(check=True):
                if case.id in seen:
                    findings.add((*node, "id"), f"the id '{case.id}' is used twice; first at {seen[case.id]}")
                if case.target is not None:
                    self.case_targets[case.id] = (case.target, findings.path, case.line)
                seen.setdefault(case.id, f"{findings.path.name}:{case.line}")
        except YamlProblem as problem:
            self._findings(self.path).add_at(problem.line, problem.column, problem.message)
        return tuple(seen)

    def _run_cases(self) -> Iterator[EvalCase]:
        try:
            for case, _, _ in self._cases(check=False):
                yield case
        except YamlProblem:
            raise _changed(self.path) from None

    # -- the head

    def _check_file(self) -> None:
        try:
            if not self.path.is_file():
                what = "is a directory" if self.path.is_dir() else "does not exist"
                raise SuiteError([Problem(self.path, 1, 1, f"the suite file {what}")])
            with self.path.open("rb"):
                pass
        except OSError as error:
            raise SuiteError([Problem(self.path, 1, 1, f"cannot be read: {error.strerror}")]) from None

    def _read_head(self, *, whole: bool) -> None:
        """Everything but the cases; without `whole`, only what stands above them."""
        if self.path.suffix == ".jsonl":
            return
        head: dict[str, Any] = {}
        has_cases = False
        with self.path.open("rb") as stream:
            for entry in YamlWalk(stream).entries(CASES):
                if entry.key != CASES:
                    head[entry.key] = entry.value
                else:
                    has_cases = True
                    if not whole and entry.value is STREAM_BEGINS:
                        break
        self.head_keys = head
        findings = self._findings(self.path)
        if not has_cases:
            near = did_you_mean(CASES, head)
            findings.add_at(1, 1, f"`{CASES}` is missing: a suite lists its cases there{near}")
        shown = {key: value for key, value in head.items() if not key.startswith("x-")}
        self.head = validate(SuiteModel, shown, findings) or SuiteModel()
        self.files = SuiteFiles.of(self.path, allow_outside=self.head.execution.allow_outside_files)
        self.defaults = self._read_defaults(self.head.execution.evaluators or [], findings)

    def _read_defaults(self, raw: list[Any], findings: Findings) -> tuple[Any, ...]:
        at = ("execution", "evaluators")
        found = [self.read_evaluator(item, findings, (*at, index), self.files) for index, item in enumerate(raw)]
        return (*(evaluator for evaluator in found if evaluator is not None), *self.added)

    # -- the cases

    def _cases(self, *, check: bool) -> Iterator[tuple[EvalCase, NodePath, Findings]]:
        reader = CaseReader(self.head, self.defaults, self.files, self.read_evaluator, self.digests if check else None)
        if self.path.suffix == ".jsonl":
            yield from self._json_lines(self.path, reader, check=check)
            return
        findings = self._findings(self.path)
        with _HashedFile(self.path) as hashed:
            walk = YamlWalk(hashed)  # type: ignore[arg-type]
            for entry in walk.entries(CASES):
                if entry.key != CASES:
                    if check and entry.key not in self.head_keys:
                        raise _LateHeadError
                elif entry.index is None or _is_reference(entry.value):
                    yield from self._referenced(entry, reader, check=check)
                elif case := reader.read(entry.value, entry.line, (CASES, entry.index), findings):
                    yield case, (CASES, entry.index), findings
            self._digest_read(self.path, hashed, check=check)
        if check:
            for key, line, column, first in walk.duplicates:
                findings.add_at(line, column, f"the key `{key}` is here twice; first at line {first}")

    def _referenced(
        self, entry: StreamItem, reader: CaseReader, *, check: bool
    ) -> Iterator[tuple[EvalCase, NodePath, Findings]]:
        if entry.value is STREAM_BEGINS:
            return
        reference = entry.value if entry.index is None else entry.value["file"]
        node: NodePath = (CASES,) if entry.index is None else (CASES, entry.index, "file")
        findings = self._findings(self.path)
        if not isinstance(reference, str):
            findings.add(node, f"`{CASES}`: expected a list of cases, or the path of a .jsonl file, got {show(reference)}")
        elif not reference.endswith(".jsonl"):
            findings.add(node, f"cases are read from .jsonl files (one JSON case a line), not from '{reference}'")
        else:
            try:
                path = self.files.resolve(reference, limit=None)
            except ValueError as error:
                findings.add(node, str(error))
            else:
                yield from self._json_lines(path, reader, check=check)

    def _json_lines(
        self, path: Path, reader: CaseReader, *, check: bool
    ) -> Iterator[tuple[EvalCase, NodePath, Findings]]:
        findings = self._findings(path, json_lines=True)
        with _HashedFile(path) as hashed:
            for number, value, wrong in iterate_lines(hashed):
                if wrong:
                    findings.add((number,), wrong)
                elif case := reader.read(value, number, (number,), findings):
                    yield case, (number,), findings
            self._digest_read(path, hashed, check=check)

    def _digest_read(self, path: Path, hashed: _HashedFile, *, check: bool) -> None:
        if check:
            self.digests[str(path)] = hashed.digest()
        elif self.digests.get(str(path)) != hashed.digest():
            raise _changed(path)

    # -- mistakes

    def _findings(self, path: Path, *, json_lines: bool = False) -> Findings:
        return self.findings.setdefault(path, Findings(path, json_lines))

    def _problems(self) -> list[Problem]:
        return [problem for findings in self.findings.values() if findings for problem in findings.problems()]


class _HashedFile:
    """A file read from start to end, and the digest of what was read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._hash = hashlib.sha256()

    def __enter__(self) -> _HashedFile:
        self._file = self._path.open("rb")
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._hash.update(data)
        return data

    def __iter__(self) -> Iterator[bytes]:
        for line in self._file:
            self._hash.update(line)
            yield line

    def digest(self) -> str:
        while self.read(1 << 20):
            pass
        return self._hash.hexdigest()


def _is_reference(value: Any) -> bool:
    return isinstance(value, Mapping) and set(value) == {"file"}


def _changed(path: Path) -> SuiteError:
    return SuiteError([Problem(path, 1, 1, "the file changed while it was being run; start the run again")])
