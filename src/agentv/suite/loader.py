"""Load a suite file: validate all of it, then read its cases one at a time.

The file is read once to validate it and again, lazily, to run it, so memory use does not grow with the cases.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from agentv.errors import Problem, SuiteError
from agentv.regular_files import FileUnusableError, open_regular
from agentv.suite.cases import (
    CaseReader,
    Defaults,
    ListedEvaluator,
    OtherDialectError,
    joined_tags,
    name_of,
    trial_settings,
    unique,
    with_criteria,
)
from agentv.suite.dialects.detect import Dialect, foreign_keys, of_cases, of_head
from agentv.suite.evaluator import EvaluatorLike, Need, ReadsEvaluators
from agentv.suite.files import SuiteFiles
from agentv.suite.findings import AllFindings, Findings
from agentv.suite.guidelines import find_guidelines
from agentv.suite.head_file import head_entries, report_missing_cases, sidecar
from agentv.suite.models import SuiteExecutionModel, SuiteModel
from agentv.suite.sniff import CASE_KEYS, CASES, JSON_LINES
from agentv.suite.suite import CaseTarget, EvalCase, EvalSuite, NamedTarget, TrialSettings
from agentv.suite.validation import show, subject, validate_partly
from agentv.suite.yaml import STREAM_BEGINS, NodePath, StreamItem, YamlProblem, YamlWalk

if TYPE_CHECKING:
    from agentv.interpreters.interpreter import Interpreter
    from agentv.suite.case_files import CaseFiles, RawCase
    from agentv.suite.dialects.reading import Reading
    from agentv.suite.prompts import Prompt

SCENARIOS = "scenarios"
"""A key of other dialects that may be there in place of cases."""
PROMPTS = "prompts"
DATASETS = (".csv", ".tsv", ".parquet")
"""Files that a suite can read cases from, and that are not suites."""
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
    prompts: Sequence[Path] = (),
    variables: Mapping[str, str] | None = None,
) -> EvalSuite:
    """The suite, or SuiteError with every problem in it. Evaluators in `added` apply to every case.

    `home` replaces the suite's own directory as the working directory of scripts and the start of file references.
    The files in `prompts` replace the prompts of the suite. `variables` are those of the environment, which suites of
    other dialects can use.
    """
    if path.suffix.lower() in DATASETS:
        advice = f"write a suite with `evalcases: {{file: {path.name}}}`, or run `agentv init --from csv {path.name}`"
        raise SuiteError(
            [Problem(path, 1, 1, f"a suite must be a YAML or JSON Lines file; to use this dataset, {advice}")]
        )
    try:
        open_regular(path).close()
        reader = _SuiteReader(path, evaluators, tuple(added), home=home, observer=observer, prompt_files=prompts)
        reader.environment = os.environ if variables is None else variables
        return reader.load()
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
        *,
        home: Path | None,
        observer: SeesCases | None,
        prompt_files: Sequence[Path] = (),
    ) -> None:
        self.path = path
        self.prompt_files = tuple(prompt_files)
        self.prompts: tuple[Prompt, ...] = ()
        self.variables: Mapping[str, Any] = {}
        self.common_variables: set[str] | None = None
        self.case_key = CASES
        self.reading: Reading | None = None
        self.environment: Mapping[str, str] = {}
        self.notes: tuple[str, ...] = ()
        self.raw_head: Mapping[str, Any] = {}
        self.observer = observer
        self.tags: tuple[str, ...] = ()
        self.evaluators = evaluators
        self.added = added
        self.files = SuiteFiles.of(path, home=home)
        self._case_files: CaseFiles | None = None
        self.head = SuiteModel()
        self.execution = SuiteExecutionModel()
        self.head_keys: set[str] = set()
        self.defaults = Defaults(added, added=added)
        self.case_targets: dict[str, CaseTarget] = {}
        self.case_trials: dict[str, TrialSettings] = {}
        self.judge_names: dict[NamedTarget, None] = {}
        self.needs: set[Need] = set()
        self.judge_choices: set[str | None] = set()
        self.interpreters: dict[Interpreter, str] = {}
        self.defaults_noted = False
        self.without_evaluators: list[str] = []
        self.user_targets: dict[str, CaseTarget] = {}

    @property
    def name(self) -> str:
        return self.head.dataset or self.path.stem

    @property
    def has_prompts(self) -> bool:
        """Whether prompts can ask the questions. If they are invalid, that cases have no input is a consequence."""
        return bool(self.prompt_files or self.head.prompts or (self.head.prompts is None and PROMPTS in self.head_keys))

    @property
    def is_json_lines(self) -> bool:
        return self.path.suffix == JSON_LINES

    @cached_property
    def head_path(self) -> Path | None:
        """The file with the settings of the suite. A suite in JSON Lines has none, or one beside it."""
        return sidecar(self.path) if self.is_json_lines else self.path

    def load(self) -> EvalSuite:
        ids = self._checked()
        self.evaluators = self.evaluators.without_search()
        self.environment = {}
        if self.reading is not None:
            self.reading.keep_used()
        return EvalSuite(
            path=self.path,
            name=self.name,
            ids=ids,
            files=self.files,
            digests=self.files.fingerprints.digests(),
            read_cases=self._run_cases,
            head_path=self.head_path or self.path,
            description=self.head.description or "",
            target=self.execution.target or self.head.target,
            targets=tuple(self.execution.targets or ()),
            workers=self.execution.workers,
            max_cost=self.execution.max_cost,
            judge_target=self.execution.judge_target,
            threshold=self.execution.threshold,
            trials=trial_settings(self.execution.trials) or TrialSettings(),
            case_trials=self.case_trials,
            evaluators=self.defaults.listed,
            case_targets=self.case_targets,
            judge_names=tuple(self.judge_names),
            judge_choices=frozenset(self.judge_choices),
            evaluator_needs=frozenset(self.needs),
            interpreters=dict(self.interpreters),
            without_evaluators=frozenset(self.without_evaluators),
            prompts=tuple(prompt.id for prompt in self.prompts),
            user_targets=self.user_targets,
            common_variables=frozenset(self.common_variables or ()),
            dialect="" if self.reading is None else self.reading.dialect.label,
            notes=(*self.notes, *(() if self.reading is None else self.reading.notes(self.path))),
            origins=None if self.reading is None else self.reading.origins,
        )

    def _checked(self) -> tuple[str, ...]:
        """Validate the suite, and again if its cases show that it must be read in another way."""
        whole_head = False
        while True:
            try:
                return self._check(whole_head=whole_head)
            except _LateHeadError:
                whole_head = True
            except OtherDialectError:
                self._use(of_cases(self.raw_head))

    def _use(self, dialect: Dialect) -> None:
        from agentv.suite.dialects.reading import Reading  # noqa: PLC0415 - only suites of other dialects need it

        self.reading = Reading(dialect, self.files, self.environment, has_prompts=bool(self.prompt_files))

    def _report_no_cases(self, findings: Findings) -> None:
        for node, message in self.case_files.without_cases.items():
            findings.add(node, message)
        if not findings:
            where = "write one JSON case per line" if self.is_json_lines else f"add them under `{self.case_key}:`"
            findings.add_at(1, 1, f"the suite has no cases; {where}")

    def _check(self, *, whole_head: bool) -> tuple[str, ...]:
        """Validate the whole suite and return its ids in file order."""
        found = AllFindings()
        seen: dict[str, str] = {}
        self.case_targets.clear()
        self.case_trials.clear()
        self.judge_names.clear()
        self.needs.clear()
        self.judge_choices.clear()
        self.interpreters.clear()
        self.without_evaluators.clear()
        self.user_targets.clear()
        self.defaults_noted = False
        self.common_variables = None
        self._case_files = None
        try:
            self._read_guidelines(found)
            if self.head_path is not None:
                self._read_head(self.head_path, found, whole=whole_head)
            elif self.prompt_files:
                self.prompts = self._read_prompts(found)
            if self.observer is not None:
                self.observer.begin(self.name, self.execution.threshold, self.files)
            for case, node, findings in self._cases(found):
                if not case.id:
                    continue
                if case.prompt is None or case.prompt == self.prompts[0].id:
                    self._note_case(case, node, findings, seen)
                if self.observer is not None and not found:  # with problems, the suite is not run
                    self.observer.add(case, findings.path)
        except YamlProblem as problem:
            found.of(self.path).add_at(problem.line, problem.column, problem.message)
        except _TooManyProblemsError:
            found.of(self.path).add_at(1, 1, f"more than {MAX_PROBLEMS:,} problems; the rest of the suite was not read")
        if not seen and not found:
            self._report_no_cases(found.of(self.path))
        if found:
            raise SuiteError(found.problems())
        return tuple(seen)

    def _read_guidelines(self, found: AllFindings) -> None:
        guidelines = find_guidelines(self.files.directory, self.files.root)
        if guidelines.path is None:
            return
        if guidelines.problem is not None:
            found.of(guidelines.path).add_at(*guidelines.problem)
        self.notes = guidelines.notes
        if guidelines.problem is None and guidelines.patterns:
            self.files.fingerprints.note(guidelines.path)
            self.files = replace(self.files, is_guideline=guidelines.cover)

    def _note_case(self, case: EvalCase, node: NodePath, findings: Findings, seen: dict[str, str]) -> None:
        """Collect what the plan must know about a case before any of them runs. `seen` has the ids before it."""
        if case.id in seen:
            findings.add((*node, "id"), f"duplicate id {show(case.id)} (first at {seen[case.id]})")
        seen.setdefault(case.id, f"{findings.path.name}:{case.line}")
        if self.common_variables is None:
            self.common_variables = set(case.vars)
        elif self.common_variables:
            self.common_variables &= case.vars.keys()
        self._note_evaluators(case, findings.path)
        if case.user is not None:
            self.user_targets[case.id] = CaseTarget(case.user.target, findings.path, findings.form, (*node, "user"))
        if case.target is not None:
            self.case_targets[case.id] = CaseTarget(case.target, findings.path, findings.form, node)
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
            for name, interpreter in evaluator.interpreters(self.files.directory):
                self.interpreters.setdefault(interpreter, name)
            for name in evaluator.targets_named():
                index = next((i for i, each in enumerate(self.defaults.listed) if each is evaluator), None)
                embeds = name in evaluator.embeddings_named()
                self.judge_names[NamedTarget(name, path, case.line, evaluator.name, index, embeds)] = None

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

    def _read_head(self, path: Path, found: AllFindings, *, whole: bool) -> None:
        """Read everything except the cases; without `whole`, only the keys above them."""
        findings = found.of(path)
        head: dict[str, Any] = {}
        odd: list[StreamItem] = []
        has_cases = False
        try:
            for entry in head_entries(path, whole=whole):
                if entry.key in CASE_KEYS:
                    has_cases, self.case_key = True, self.case_key if has_cases else entry.key
                else:
                    head[entry.key] = entry.value
                    if entry.written or entry.not_finite:
                        odd.append(entry)
        except YamlProblem as problem:
            has_cases = True  # unknown: the text could not be read to its end
            findings.add_at(problem.line, problem.column, problem.message)
        if path != self.path:
            self.files.fingerprints.note(path)
        self.head_keys = set(head)
        self.raw_head = head
        if self.reading is None and (dialect := of_head(head, self.case_key if has_cases else None)) is not None:
            self._use(dialect)
        if self.reading is not None:
            head = self.reading.head(head, findings)
            has_cases = has_cases or SCENARIOS in self.raw_head
        checked = {key: value for key, value in head.items() if not key.startswith("x-")}
        if not has_cases and path == self.path:
            report_missing_cases(checked, findings)
        findings.written = {node: raw for entry in odd for node, raw in _below(entry.written, (entry.key,)).items()}
        model, _ = validate_partly(SuiteModel, checked, findings)
        self.head = model or SuiteModel()
        self.execution = self.head.execution or SuiteExecutionModel()
        self.files = replace(self.files, allow_outside=self.execution.allow_outside_files)
        inherited = {"warm": self.execution.warm or None, "python": self.execution.python}
        self.evaluators = self.evaluators.with_defaults({k: v for k, v in inherited.items() if v is not None})
        self.defaults = self._read_defaults(findings)
        self.defaults.are_added = self.reading is not None
        self.tags = joined_tags((), self.head.tags or (), ("tags",), findings)
        self.variables = self._read_variables(findings)
        self.prompts = self._read_prompts(found)
        origins, findings.origins = findings.origins, None  # these positions are those of the file
        for entry in odd:
            _refuse_not_finite(entry, (entry.key,), findings, findings.latest_nodes(()))
        findings.origins = origins

    def _read_variables(self, findings: Findings) -> Mapping[str, Any]:
        named = self.head.vars
        if not isinstance(named, str):
            return named or {}
        from agentv.suite.case_files import variables_of_file  # noqa: PLC0415 - as in `case_files`

        try:
            return variables_of_file(*self.files.attach(named))
        except ValueError as error:
            findings.add(("vars",), str(error))
            return {}

    def _read_prompts(self, found: AllFindings) -> tuple[Prompt, ...]:
        if not self.prompt_files and not self.head.prompts:
            return ()
        from agentv.suite.prompts import PromptReader  # noqa: PLC0415 - most suites have none

        reader = PromptReader(self.files, found, self.head_path or self.path)
        if not self.prompt_files:
            return reader.read(self.head.prompts or (), (PROMPTS,))
        return reader.given(self.prompt_files)

    def _read_defaults(self, findings: Findings) -> Defaults:
        at: NodePath = ("execution", "evaluators")
        listed: list[ListedEvaluator] = []
        for index, entry in with_criteria(self.execution.evaluators or ()):
            if self.evaluators.is_templated(entry):
                listed.append(ListedEvaluator(None, (*at, index), name_of(None, entry), entry=entry))
                continue
            evaluator = self.evaluators.read(entry, findings, (*at, index), self.files)
            listed.append(ListedEvaluator(evaluator, (*at, index), name_of(evaluator, entry)))
        are_listed = bool(listed)
        parts = tuple(listed) if any(part.entry is not None for part in listed) else ()
        listed.extend(ListedEvaluator(evaluator, at, evaluator.name, of_caller=True) for evaluator in self.added)
        fallback = None
        if self.head.evaluator is not None:
            entry = {"type": self.head.evaluator}
            evaluator = self.evaluators.read(entry, findings, ("evaluator",), self.files)
            fallback = () if evaluator is None else (evaluator,)
        return Defaults(unique(listed, findings, "the suite"), are_listed, fallback, self.added, parts=parts)

    # -- the cases

    @property
    def _foreign(self) -> frozenset[str]:
        return foreign_keys("tests" if self.is_json_lines else self.case_key)

    def _cases(self, found: AllFindings, files: SuiteFiles | None = None) -> Iterator[_Found]:
        reader = CaseReader(
            files or self.files,
            self.evaluators,
            self.defaults,
            self.tags,
            self.variables,
            self.prompts,
            has_prompts=self.has_prompts,
            found=found,
            suite=self.head_path or self.path,
            has_templates=bool(self.variables or self.prompts),
            reading=self.reading,
            foreign=frozenset() if self.reading is not None else self._foreign,
        )
        findings = found.of(self.path)
        if self.is_json_lines:
            yield from self._found(self.case_files.cases_of(self.path, self.files, found), reader)
            return
        self.files.fingerprints.verify(self.path)
        with open_regular(self.path) as stream:
            walk = YamlWalk(stream)
            try:
                for entry in walk.entries(*CASE_KEYS):
                    yield from self._entry(entry, reader, found)
                    _refuse_too_many(findings)
            finally:
                for key, line, column, first in walk.duplicates:
                    findings.add_at(line, column, f"duplicate key `{key[:60]}` (first at line {first})")
        if self.reading is not None:
            for made in self.reading.scenario_cases(found, self.path):
                for case in reader.read(made.value, made.line, made.node, made.findings):
                    yield _Found(case, made.node, made.findings)
        self.files.fingerprints.note(self.path)

    def _entry(self, entry: StreamItem, reader: CaseReader, found: AllFindings) -> Iterator[_Found]:
        findings = found.of(self.path)
        if entry.key not in CASE_KEYS:
            if entry.key not in self.head_keys:
                raise _LateHeadError
        elif entry.key != self.case_key:
            if entry.index is None:
                message = f"`{entry.key}` is an alias of `{self.case_key}`: keep one of them"
                findings.add((entry.key,), message, at_key=True)
        elif entry.value is not STREAM_BEGINS:
            yield from self._case_entry(entry, reader, found)

    def _case_entry(self, entry: StreamItem, reader: CaseReader, found: AllFindings) -> Iterator[_Found]:
        findings = found.of(self.path)
        value = entry.value if self.reading is None else self.reading.reference(entry.value)
        if entry.index is None or _is_reference(value):
            node: NodePath = (entry.key,) if entry.index is None else (entry.key, entry.index)
            yield from self._found(self.case_files.referenced(value, node, self.files, found, self.path), reader)
        else:
            node = (entry.key, entry.index)
            findings.written, findings.read_as_text = _below(entry.written, node), set()
            for case in reader.read(entry.value, entry.line, node, findings):
                yield _Found(case, node, findings)
            findings.origins = None if self.reading is None else self.reading.origins
            if entry.not_finite:
                _refuse_not_finite(entry, node, findings, findings.latest_nodes(node))

    @property
    def case_files(self) -> CaseFiles:
        if self._case_files is None:
            from agentv.suite.case_files import CaseFiles  # noqa: PLC0415 - only suites that refer to files need it

            self._case_files = CaseFiles(self.has_prompts)
        return self._case_files

    def _found(self, cases: Iterator[RawCase], reader: CaseReader) -> Iterator[_Found]:
        for raw in cases:
            for case in reader.read(raw.value, raw.line, raw.node, raw.findings, raw.variables, is_data=raw.is_data):
                yield _Found(case, raw.node, raw.findings)
            _refuse_too_many(raw.findings)


def _refuse_too_many(findings: Findings) -> None:
    if len(findings) > MAX_PROBLEMS:
        raise _TooManyProblemsError


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
    """Whether an item of a list of cases names a file or a dataset instead of being a case."""
    return isinstance(value, Mapping) and ("file" in value or "hf" in value) and "id" not in value
