"""Load a suite file: validate all of it, then read its cases one at a time.

The file is read once to validate it and again, lazily, to run it, so memory use does not grow with the cases.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from agentv.errors import Problem, SuiteError
from agentv.regular_files import FileUnusableError, open_regular
from agentv.suite.cases import CaseReader, Defaults, ListedEvaluator, joined_tags, name_of, trial_settings, unique
from agentv.suite.evaluator import EvaluatorLike, Need, ReadsEvaluators
from agentv.suite.files import FileReferenceError, SuiteFiles
from agentv.suite.findings import AllFindings, Findings
from agentv.suite.guidelines import find_guidelines
from agentv.suite.json_lines import message_of, read_lines
from agentv.suite.models import SuiteExecutionModel, SuiteModel
from agentv.suite.suite import CaseTarget, EvalCase, EvalSuite, NamedTarget, TrialSettings
from agentv.suite.validation import show, subject, validate_partly
from agentv.suite.yaml import STREAM_BEGINS, NodePath, StreamItem, YamlProblem, YamlWalk
from agentv.text import did_you_mean

CASES = "evalcases"
JSON_LINES = ".jsonl"
TARGETS = "targets"
IS_CONFIGURATION = (
    f"this is a configuration file, not a suite (it has `{TARGETS}` and no `evalcases`); pass a suite: its "
    "configuration is found near it, or set with --config"
)
MAX_PROBLEMS = 10_000
"""Per file. Without a limit, a file that is not a suite at all could fill the memory with problems."""


class SeesCases(Protocol):
    """Sees every case of a suite while the suite is validated, in the order of `EvalSuite.ids`."""

    def begin(self, suite: str, threshold: float | None, files: SuiteFiles, /) -> None:
        """A suite begins: its name, its threshold and its files. Called again if the suite must be read again."""

    def add(self, case: EvalCase, path: Path, /) -> None:
        """The next case of this suite, and the file that contains it."""


def load_suite(
    path: Path,
    evaluators: ReadsEvaluators,
    added: Sequence[EvaluatorLike] = (),
    *,
    home: Path | None = None,
    observer: SeesCases | None = None,
) -> EvalSuite:
    """The suite, or SuiteError with every problem in it. Evaluators in `added` apply to every case.

    `home` replaces the suite's own directory as the working directory of scripts and the start of file references.
    """
    try:
        open_regular(path).close()
        return _SuiteReader(path, evaluators, tuple(added), home, observer).load()
    except OSError as error:
        raise SuiteError([Problem(path, 1, 1, f"the suite cannot be read: {error.strerror}")]) from None
    except FileUnusableError as error:
        raise SuiteError([Problem(path, 1, 1, f"the suite file {error}")]) from None


class _LateHeadError(Exception):
    """A key of the head is below the cases: the whole head must be read before the cases."""


class _TooManyProblemsError(Exception):
    """A file has more than `MAX_PROBLEMS` problems, and reading stops."""


class _Found(NamedTuple):
    """A case, its node, and the findings of its file."""

    case: EvalCase
    node: NodePath
    findings: Findings


class _SuiteReader:
    def __init__(
        self,
        path: Path,
        evaluators: ReadsEvaluators,
        added: tuple[EvaluatorLike, ...],
        home: Path | None = None,
        observer: SeesCases | None = None,
    ) -> None:
        self.path = path
        self.observer = observer
        self.tags: tuple[str, ...] = ()
        self.evaluators = evaluators
        self.added = added
        self.files = SuiteFiles.of(path, home=home)
        self.head = SuiteModel()
        self.execution = SuiteExecutionModel()
        self.head_keys: set[str] = set()
        self.defaults = Defaults(added, added=added)
        self.case_targets: dict[str, CaseTarget] = {}
        self.case_trials: dict[str, TrialSettings] = {}
        self.judge_names: dict[NamedTarget, None] = {}
        self.needs: set[Need] = set()
        self.judge_choices: set[str | None] = set()
        self.defaults_noted = False
        self.without_evaluators: list[str] = []

    @property
    def name(self) -> str:
        return self.head.dataset or self.path.stem

    @property
    def is_json_lines(self) -> bool:
        return self.path.suffix == JSON_LINES

    def load(self) -> EvalSuite:
        try:
            ids = self._check(whole_head=False)
        except _LateHeadError:
            ids = self._check(whole_head=True)
        self.evaluators = self.evaluators.without_search()
        return EvalSuite(
            path=self.path,
            name=self.name,
            ids=ids,
            files=self.files,
            digests=self.files.fingerprints.digests(),
            read_cases=self._run_cases,
            description=self.head.description or "",
            target=self.execution.target or self.head.target,
            judge_target=self.execution.judge_target,
            threshold=self.execution.threshold,
            trials=trial_settings(self.execution.trials) or TrialSettings(),
            case_trials=self.case_trials,
            evaluators=self.defaults.listed,
            case_targets=self.case_targets,
            judge_names=tuple(self.judge_names),
            judge_choices=frozenset(self.judge_choices),
            evaluator_needs=frozenset(self.needs),
            without_evaluators=frozenset(self.without_evaluators),
        )

    def _check(self, *, whole_head: bool) -> tuple[str, ...]:
        """Validate the whole suite and return its ids in file order."""
        found = AllFindings()
        seen: dict[str, str] = {}
        self.case_targets.clear()
        self.case_trials.clear()
        self.judge_names.clear()
        self.needs.clear()
        self.judge_choices.clear()
        self.without_evaluators.clear()
        self.defaults_noted = False
        try:
            self._read_guidelines(found)
            if not self.is_json_lines:
                self._read_head(found.of(self.path), whole=whole_head)
            if self.observer is not None:
                self.observer.begin(self.name, self.execution.threshold, self.files)
            for case, node, findings in self._cases(found):
                if not case.id:
                    continue
                if case.id in seen:
                    findings.add((*node, "id"), f"duplicate id {show(case.id)} (first at {seen[case.id]})")
                seen.setdefault(case.id, f"{findings.path.name}:{case.line}")
                self._note_targets(case, node, findings)
                self._note_evaluators(case, findings.path)
                if self.observer is not None and not found:  # with problems, the suite is not run
                    self.observer.add(case, findings.path)
        except YamlProblem as problem:
            found.of(self.path).add_at(problem.line, problem.column, problem.message)
        except _TooManyProblemsError:
            found.of(self.path).add_at(1, 1, f"more than {MAX_PROBLEMS:,} problems; the rest of the suite was not read")
        if not seen and not found:
            where = "write one JSON case per line" if self.is_json_lines else f"add them under `{CASES}:`"
            found.of(self.path).add_at(1, 1, f"the suite has no cases; {where}")
        if found:
            raise SuiteError(found.problems())
        return tuple(seen)

    def _read_guidelines(self, found: AllFindings) -> None:
        guidelines = find_guidelines(self.files.directory, self.files.root)
        if guidelines.path is None:
            return
        if guidelines.problem is not None:
            found.of(guidelines.path).add_at(*guidelines.problem)
        elif guidelines.patterns:
            self.files.fingerprints.note(guidelines.path)
            self.files = replace(self.files, is_guideline=guidelines.cover)

    def _note_targets(self, case: EvalCase, node: NodePath, findings: Findings) -> None:
        if case.target is not None:
            self.case_targets[case.id] = CaseTarget(case.target, findings.path, findings.json_lines, node)
        if case.trials is not None:
            self.case_trials[case.id] = case.trials

    def _note_evaluators(self, case: EvalCase, path: Path) -> None:
        """Collect what the plan must know about the evaluators of a case before any of them runs."""
        if case.evaluators is self.defaults.by_default:
            self.without_evaluators.append(case.id)
        if case.evaluators is self.defaults.listed:
            if self.defaults_noted:
                return
            self.defaults_noted = True
        for evaluator in case.evaluators:
            self.needs |= evaluator.needs
            self.judge_choices.update(evaluator.judge_targets())
            for name in evaluator.targets_named():
                index = next((i for i, each in enumerate(self.defaults.listed) if each is evaluator), None)
                self.judge_names[NamedTarget(name, path, case.line, evaluator.name, index)] = None

    def _run_cases(self) -> Iterator[EvalCase]:
        found = AllFindings()
        files = replace(self.files, running=True, failures=[])
        try:
            for case, _, _ in self._cases(found, files):
                if files.failures:
                    # The suite is the same, so this is the only problem of the case. The other cases can run.
                    problem = files.failures[0]
                    files.failures.clear()
                    found.clear()
                    yield replace(case, problem=problem)
                elif found:
                    break
                else:
                    yield case
        except (YamlProblem, _LateHeadError, _TooManyProblemsError, OSError, FileUnusableError):
            raise self._changed() from None
        if found:
            raise SuiteError([*self._changed().problems, *found.problems()])

    def _changed(self) -> SuiteError:
        text = "the suite, or a file it refers to, changed after it was validated; start the run again"
        return SuiteError([Problem(self.path, 1, 1, text)])

    # -- the head

    def _read_head(self, findings: Findings, *, whole: bool) -> None:
        """Read everything except the cases; without `whole`, only the keys above them."""
        head: dict[str, Any] = {}
        odd: list[StreamItem] = []
        has_cases = False
        try:
            for entry in self._head_entries(whole=whole):
                if entry.key == CASES:
                    has_cases = True
                else:
                    head[entry.key] = entry.value
                    if entry.written or entry.not_finite:
                        odd.append(entry)
        except YamlProblem as problem:
            has_cases = True  # unknown: the text could not be read to its end
            findings.add_at(problem.line, problem.column, problem.message)
        self.head_keys = set(head)
        checked = {key: value for key, value in head.items() if not key.startswith("x-")}
        if not has_cases:
            _no_cases(checked, findings)
        findings.written = {node: raw for entry in odd for node, raw in _below(entry.written, (entry.key,)).items()}
        model, _ = validate_partly(SuiteModel, checked, findings)
        self.head = model or SuiteModel()
        self.execution = self.head.execution or SuiteExecutionModel()
        self.files = replace(self.files, allow_outside=self.execution.allow_outside_files)
        self.evaluators = self.evaluators.with_defaults({"warm": True} if self.execution.warm else {})
        self.defaults = self._read_defaults(findings)
        self.tags = joined_tags((), self.head.tags or (), ("tags",), findings)
        for entry in odd:
            _refuse_not_finite(entry, (entry.key,), findings, findings.latest_nodes(()))

    def _head_entries(self, *, whole: bool) -> Iterator[StreamItem]:
        with open_regular(self.path) as stream:
            for entry in YamlWalk(stream).entries(CASES):
                if entry.key != CASES or entry.index is None:
                    yield entry
                if not whole and entry.key == CASES:
                    return

    def _read_defaults(self, findings: Findings) -> Defaults:
        at: NodePath = ("execution", "evaluators")
        listed: list[ListedEvaluator] = []
        for index, entry in enumerate(self.execution.evaluators or ()):
            evaluator = self.evaluators.read(entry, findings, (*at, index), self.files)
            listed.append(ListedEvaluator(evaluator, (*at, index), name_of(evaluator, entry)))
        are_listed = bool(listed)
        listed.extend(ListedEvaluator(evaluator, at, evaluator.name, of_caller=True) for evaluator in self.added)
        fallback = None
        if self.head.evaluator is not None:
            entry = {"type": self.head.evaluator}
            evaluator = self.evaluators.read(entry, findings, ("evaluator",), self.files)
            fallback = () if evaluator is None else (evaluator,)
        return Defaults(unique(listed, findings, "the suite"), are_listed, fallback, self.added)

    # -- the cases

    def _cases(self, found: AllFindings, files: SuiteFiles | None = None) -> Iterator[_Found]:
        reader = CaseReader(files or self.files, self.evaluators, self.defaults, self.tags)
        if self.is_json_lines:
            yield from self._json_lines(self.path, reader, found)
            return
        findings = found.of(self.path)
        self.files.fingerprints.verify(self.path)
        with open_regular(self.path) as stream:
            walk = YamlWalk(stream)
            try:
                for entry in walk.entries(CASES):
                    yield from self._entry(entry, reader, found)
                    _refuse_too_many(findings)
            finally:
                for key, line, column, first in walk.duplicates:
                    findings.add_at(line, column, f"duplicate key `{key[:60]}` (first at line {first})")
        self.files.fingerprints.note(self.path)

    def _entry(self, entry: StreamItem, reader: CaseReader, found: AllFindings) -> Iterator[_Found]:
        if entry.key != CASES:
            if entry.key not in self.head_keys:
                raise _LateHeadError
        elif entry.index is None or _is_reference(entry.value):
            yield from self._referenced(entry, reader, found)
        else:
            findings, node = found.of(self.path), (CASES, entry.index)
            findings.written, findings.read_as_text = _below(entry.written, node), set()
            if case := reader.read(entry.value, entry.line, node, findings):
                yield _Found(case, node, findings)
            if entry.not_finite:
                _refuse_not_finite(entry, node, findings, findings.latest_nodes(node))

    def _referenced(self, entry: StreamItem, reader: CaseReader, found: AllFindings) -> Iterator[_Found]:
        if entry.value is STREAM_BEGINS:
            return
        findings = found.of(self.path)
        node: NodePath
        if entry.index is None:
            reference, node, name = entry.value, (CASES,), f"`{CASES}` must be a list of cases or"
        else:
            reference, node, name = entry.value["file"], (CASES, entry.index, "file"), "`file` must be"
        if not isinstance(reference, str) or not reference.endswith(JSON_LINES):
            expected = f"the path of a {JSON_LINES} file with one JSON case per line"
            findings.add(node, f"{name} {expected}, got {show(reference)}")
            return
        try:
            yield from self._json_lines(self.files.resolve(reference, limit=None), reader, found)
        except FileUnusableError as error:
            findings.add(node, f"'{reference}' {error}")
        except FileReferenceError as error:
            findings.add(node, str(error))

    def _json_lines(self, path: Path, reader: CaseReader, found: AllFindings) -> Iterator[_Found]:
        findings = found.of(path, json_lines=True)
        self.files.fingerprints.verify(path)
        with open_regular(path) as stream:
            for line in read_lines(stream):
                for problem in line.problems:
                    findings.add_at(line.number, problem.column, message_of(problem))
                if line.readable and (case := reader.read(line.value, line.number, (line.number,), findings)):
                    yield _Found(case, (line.number,), findings)
                _refuse_too_many(findings)
        self.files.fingerprints.note(path)


def _refuse_too_many(findings: Findings) -> None:
    if len(findings) > MAX_PROBLEMS:
        raise _TooManyProblemsError


def _no_cases(head: dict[str, Any], findings: Findings) -> None:
    """Report that the cases are missing. A key that looks like a typo is removed, so it is not reported twice."""
    if TARGETS in head:
        findings.add((TARGETS,), IS_CONFIGURATION, at_key=True)
        head.clear()
        return
    for key in head:
        if did_you_mean(key, [CASES]):
            findings.add((key,), f"unknown key `{key}` (did you mean `{CASES}`?)", at_key=True)
            del head[key]
            return
    what = f"`{CASES}` is missing" if head else "the file is empty"
    findings.add_at(1, 1, f"{what}: list the cases under `{CASES}:`")


def _refuse_not_finite(entry: StreamItem, at: NodePath, findings: Findings, known: set[NodePath]) -> None:
    """Report non-finite numbers, which JSON does not have, except at nodes in `known`: reported already, or text."""
    for inner in entry.not_finite:
        node = (*at, *inner)
        if node not in known:
            what = "must be a finite number; put it in quotes to pass it on as a string"
            findings.add(node, f"{subject(node)} {what}")


def _below(written: Mapping[NodePath, str], at: NodePath) -> dict[NodePath, str]:
    return {(*at, *node): raw for node, raw in written.items()}


def _is_reference(value: Any) -> bool:
    return isinstance(value, Mapping) and set(value) == {"file"}
