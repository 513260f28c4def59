"""Files with cases that a suite refers to: cases in JSON Lines, JSON and YAML, and rows of datasets.

evalcases: cases.jsonl
evalcases: {file: qa.csv, columns: {reference_answer: answer}}
evalcases: [{id: a, input: ...}, {file: "more/*.yaml"}]
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from agentv.jsonio import JsonError
from agentv.jsonio import read as read_json
from agentv.regular_files import FileUnusableError, open_regular
from agentv.suite.dataset_cases import DatasetModel, RowMapping, field_problem, form_of
from agentv.suite.dataset_rows import SUFFIXES, TABULAR, BadRow, HuggingFace, Row, dataset_rows, json_rows, rows_of
from agentv.suite.files import FileReferenceError, SuiteFiles
from agentv.suite.findings import JSON_LINES, AllFindings, Findings
from agentv.suite.json_lines import message_of, read_lines
from agentv.suite.validation import show, validate
from agentv.suite.variables import merged
from agentv.suite.yaml import ROOT, STREAM_BEGINS, NodePath, YamlProblem, YamlWalk
from agentv.text import one_of, some_of

YAML_SUFFIXES = (".yaml", ".yml")
CASE_SUFFIXES = (*SUFFIXES, *YAML_SUFFIXES)
LISTS = ("evalcases", "tests", "cases")
"""Keys under which a YAML or JSON file may list its cases."""
ASKING = frozenset({"input", "input_messages", "question", "turns", "user"})
"""The fields of a case that say what is asked."""
FILE = "file://"
"""How paths begin in promptfoo."""
_GLOB = frozenset("*?[")


class RawCase(NamedTuple):
    """A case as it is written in a file."""

    value: Any
    line: int
    node: NodePath
    findings: Findings
    variables: Mapping[str, Any]
    """The variables of its file."""
    is_data: bool = False
    """Whether it is a row of a dataset: its values are not templates."""


def variables_of_file(path: Path, text: str) -> Mapping[str, Any]:
    """The variables in a YAML or JSON file. ValueError if it contains anything else."""
    try:
        data = read_json(text) if path.suffix == ".json" else YamlWalk(text).document()
    except JsonError as error:
        raise ValueError(f"{path.name} is not valid JSON: {error}") from None
    except YamlProblem as problem:
        raise ValueError(f"{path.name}:{problem.line}:{problem.column}: {problem.message}") from None
    if not isinstance(data, dict):
        raise ValueError(f"{path.name} must contain a mapping from names to values")  # noqa: TRY004 - a user's file
    return data


@dataclass(slots=True)
class CaseFiles:
    """The files with cases of one suite. A pattern keeps its files: those that are added later are not read."""

    has_prompts: bool = False
    """Whether the prompts of the suite ask the questions, so that cases need no input."""
    without_cases: dict[NodePath, str] = field(default_factory=dict)
    """The entries whose files contain no cases, with a message."""
    _matches: dict[str, list[Path]] = field(default_factory=dict)
    _datasets: dict[str, Any] = field(default_factory=dict)

    def referenced(
        self, entry: Any, node: NodePath, files: SuiteFiles, found: AllFindings, suite: Path
    ) -> Iterator[RawCase]:
        """The cases of an entry of a suite that refers to a file or a dataset."""
        findings = found.of(suite)
        problems = len(findings)
        model = self._model(entry, node, findings)
        if model is None:
            return
        has_problems = len(findings) > problems
        if model.hf is not None:
            yield from self._dataset(model, node, files, found, suite, has_problems=has_problems)
            return
        at = (*node, "file") if isinstance(entry, Mapping) else node
        if model.file is not None and model.file.startswith(FILE):
            findings.add(at, f"write the path without `{FILE}`: {model.file.removeprefix(FILE)}")
            return
        named, is_empty = _Entry(findings, node, not self.has_prompts, Counter(), has_problems), True
        try:
            for path in self._paths(model.file or "", files):
                for case in self._cases(path, model, files, found, named):
                    is_empty = False
                    yield case
            if is_empty:
                header = "; the first line must name the columns" if Path(model.file or "").suffix in TABULAR else ""
                self.without_cases[at] = f"'{model.file}' contains no cases{header}"
        except FileUnusableError as error:
            findings.add(at, f"'{model.file}' {error}")
        except FileReferenceError as error:
            findings.add(at, str(error))

    def cases_of(self, path: Path, files: SuiteFiles, found: AllFindings) -> Iterator[RawCase]:
        """The cases of a suite that is a JSON Lines file."""
        yield from self._json_lines(path, {}, files, found)

    def _model(self, entry: Any, node: NodePath, findings: Findings) -> DatasetModel | None:
        """The entry. None if it cannot be used; with other problems, its file is read to find more of them."""
        if isinstance(entry, str) and entry.strip():
            return DatasetModel(file=entry)
        if not isinstance(entry, dict) or not (entry.keys() & {"file", "hf"}):
            expected = "a list of cases, the path of a file with cases, or a mapping with `file` or `hf`"
            findings.add(node, f"`{node[0]}` must be {expected}, got {show(entry)}")
            return None
        model = validate(DatasetModel, entry, findings, node)
        if model is None:
            return None
        if (model.file is None) == (model.hf is None):
            findings.add(node, "the cases need one of `file` and `hf`")
            return None
        if model.delimiter is not None and model.delimiter in '"\r\n\0':
            findings.add(
                (*node, "delimiter"), f"`delimiter` must be a character between cells, got {model.delimiter!r}"
            )
            return None
        for name in ("split", "config", "revision") if model.hf is None else ("delimiter",):
            if getattr(model, name) is not None:
                other = "hf" if model.hf is None else "file"
                findings.add((*node, name), f"`{name}` can only be used with `{other}`", at_key=True)
        for name in model.columns or ():
            if (problem := field_problem(name)) is not None:
                findings.add((*node, "columns", name), problem, at_key=True)
        return model

    def _paths(self, reference: str, files: SuiteFiles) -> Sequence[Path]:
        if reference in self._matches:
            return self._matches[reference]
        folder = files.directory / reference
        if folder.is_dir():
            matches = [path for path in folder.rglob("*") if path.suffix.lower() in CASE_SUFFIXES]
            hidden = [path for path in matches if any(part.startswith(".") for part in path.relative_to(folder).parts)]
            matches = [path for path in matches if path not in hidden]
            what = f"the directory '{reference}' contains no files with cases ({', '.join(CASE_SUFFIXES)})"
        elif _GLOB & set(reference) and not folder.exists():
            try:
                matches = [path for path in files.directory.glob(reference) if path.is_file()]
                matches = [path for path in matches if not path.name.startswith(".") or "/." in f"/{reference}"]
            except (ValueError, NotImplementedError):
                matches = []
            what = f"no file matches '{reference}' in {files.directory}"
        else:
            return [files.resolve(reference, limit=None)]
        if not matches:
            raise FileReferenceError(what)
        relative = sorted(os.path.relpath(path, files.directory) for path in matches)
        self._matches[reference] = [files.resolve(path, limit=None) for path in relative]
        return self._matches[reference]

    def _cases(
        self, path: Path, model: DatasetModel, files: SuiteFiles, found: AllFindings, entry: _Entry
    ) -> Iterator[RawCase]:
        suffix = path.suffix.lower()
        if suffix not in CASE_SUFFIXES:
            known = one_of(CASE_SUFFIXES)
            entry.findings.add(entry.node, f"the form of '{path.name}' is unknown; files with cases end with {known}")
        elif suffix in TABULAR or suffix == ".parquet" or model.columns is not None:
            if suffix in YAML_SUFFIXES:
                why = "`columns` cannot be used with YAML files: write cases in them"
                entry.findings.add((*entry.node, "columns"), why)
                return
            mapping = RowMapping(model.columns or {}, texts=suffix in TABULAR, ids=entry.ids)
            own = found.of(path, form_of(path, mapping.columns, model.delimiter))
            files.fingerprints.verify(path)
            yield from _mapped(lambda: rows_of(path, model.delimiter), mapping, own, model, entry)
            files.fingerprints.note(path)
        elif suffix == ".jsonl":
            yield from self._json_lines(path, model.vars or {}, files, found)
        elif suffix == ".json":
            yield from self._json(path, model.vars or {}, files, found)
        else:
            yield from self._yaml(path, model.vars or {}, files, found)

    def _json_lines(
        self, path: Path, variables: Mapping[str, Any], files: SuiteFiles, found: AllFindings
    ) -> Iterator[RawCase]:
        findings = found.of(path, JSON_LINES)
        files.fingerprints.verify(path)
        with open_regular(path) as stream:
            for line in read_lines(stream):
                for problem in line.problems:
                    findings.add_at(line.number, problem.column, message_of(problem))
                if line.readable:
                    yield RawCase(line.value, line.number, (line.number,), findings, variables)
        files.fingerprints.note(path)

    def _json(
        self, path: Path, variables: Mapping[str, Any], files: SuiteFiles, found: AllFindings
    ) -> Iterator[RawCase]:
        findings = found.of(path, form_of(path, {}, None))
        files.fingerprints.verify(path)
        beside: dict[str, Any] = {}
        for row in json_rows(path, beside):
            if isinstance(row, BadRow):
                findings.add_at(row.line, row.column, row.message)
                continue
            if "vars" in beside:
                own = beside.pop("vars")
                if not isinstance(own, dict):
                    findings.add_at(1, 1, f"`vars` must be a mapping from names to values, got {show(own)}")
                    own = {}
                variables = merged(variables, own)
            yield RawCase(row.values, row.line, (row.node,), findings, variables)
        files.fingerprints.note(path)

    def _yaml(
        self, path: Path, variables: Mapping[str, Any], files: SuiteFiles, found: AllFindings
    ) -> Iterator[RawCase]:
        """The cases of a YAML file: a list of cases, a mapping with such a list, or a single case."""
        findings = found.of(path)
        files.fingerprints.verify(path)
        single: dict[str, Any] = {}
        has_list = is_late = False
        not_finite: Iterable[NodePath] = ()
        try:
            with open_regular(path) as stream:
                walk = YamlWalk(stream)
                for entry in walk.entries(*LISTS, ROOT):
                    if entry.key not in (*LISTS, ROOT):
                        single[entry.key] = entry.value
                        if entry.key == "vars":
                            is_late, not_finite = has_list, entry.not_finite
                        continue
                    if not has_list and "vars" in single:
                        variables = _with_own(variables, single["vars"], findings, not_finite)
                    has_list = True
                    if entry.value is STREAM_BEGINS:
                        continue
                    if entry.index is None:
                        findings.add((entry.key,), f"`{entry.key}` must be a list of cases, got {show(entry.value)}")
                        continue
                    node: NodePath = (entry.key, entry.index)
                    findings.written = {(*node, *at): raw for at, raw in entry.written.items()}
                    findings.read_as_text = set()
                    yield RawCase(entry.value, entry.line, node, findings, variables)
                for key, line, column, first in walk.duplicates:
                    findings.add_at(line, column, f"duplicate key `{key[:60]}` (first at line {first})")
        except YamlProblem as problem:
            findings.add_at(problem.line, problem.column, problem.message)
            return
        if not has_list:
            yield RawCase(single, 1, (), findings, variables)
        else:
            if is_late:
                findings.add(("vars",), "`vars` must be above the list of cases: move it up", at_key=True)
            for key in single.keys() - {"vars"}:
                findings.add((key,), f"`{key}` has no effect in a file of cases: move it to the suite", at_key=True)
        files.fingerprints.note(path)

    def _dataset(
        self,
        model: DatasetModel,
        node: NodePath,
        files: SuiteFiles,
        found: AllFindings,
        suite: Path,
        *,
        has_problems: bool,
    ) -> Iterator[RawCase]:
        findings = found.of(suite)
        source = HuggingFace(model.hf or "", model.split, model.config, model.revision)
        key = model.model_dump_json()
        if key not in self._datasets:
            self._datasets[key] = source.open(files.directory, lambda why: findings.add((*node, "hf"), why))
        dataset = self._datasets[key]
        if dataset is None:
            del self._datasets[key]
            return
        for cached in getattr(dataset, "cache_files", None) or ():
            files.fingerprints.note(Path(cached["filename"]))
        path = suite.with_name(source.name.rstrip("/").rpartition("/")[2])
        mapping = RowMapping(model.columns or {}, texts=False)
        own = found.of(path, form_of(Path("rows.parquet"), mapping.columns, None))
        entry = _Entry(findings, node, not self.has_prompts, mapping.ids, has_problems)
        yield from _mapped(lambda: dataset_rows(dataset), mapping, own, model, entry)


def _with_own(
    variables: Mapping[str, Any], own: Any, findings: Findings, not_finite: Iterable[NodePath]
) -> Mapping[str, Any]:
    """The variables of an entry, overridden by those of the YAML file that it names."""
    for node in not_finite:
        findings.add(("vars", *node), "must be a finite number; put it in quotes to use it as a string")
    if not isinstance(own, dict):
        findings.add(("vars",), f"`vars` must be a mapping from names to values, got {show(own)}")
        return variables
    return merged(variables, own)


class _Entry(NamedTuple):
    """The entry of the suite that names a file."""

    findings: Findings
    node: NodePath
    needs_input: bool
    ids: Counter[str]
    """See `RowMapping`."""
    has_problems: bool = False

    def refuse(
        self, columns: list[str], read: Callable[[], Iterator[Row | BadRow]], mapping: RowMapping, name: str
    ) -> bool:
        """Report columns that do not exist, and that no column is the input. Whether there was such a problem.

        The first row has these columns. In JSON, others may have more, so they are read if a column is missing.
        """
        if not mapping.texts and set(mapping.columns.values()).difference(columns):
            rows = (row for row in read() if isinstance(row, Row))
            columns = list(dict.fromkeys(column for row in rows for column in row.values))
        before = len(self.findings)
        if self.needs_input and not ASKING & {*columns, *mapping.columns}:
            listed = some_of(columns, near="input")
            self.findings.add(
                self.node, f"no column of {name} is the input: set `columns: {{input: COLUMN}}`, or add `prompts`; "
                f"columns: {listed}"
            )  # fmt: skip
        for target, problem in mapping.unknown_columns(columns, name):
            self.findings.add((*self.node, "columns", target), problem)
        return len(self.findings) > before


def _mapped(
    read: Callable[[], Iterator[Row | BadRow]],
    mapping: RowMapping,
    findings: Findings,
    model: DatasetModel,
    entry: _Entry,
) -> Iterator[RawCase]:
    """The cases of rows. With a problem in `columns`, the rows are still checked, but there are no cases."""
    is_checked = False
    has_cases = not entry.has_problems
    for row in read():
        if isinstance(row, BadRow):
            findings.add_at(row.line, row.column, row.message)
            continue
        if not is_checked:
            is_checked = True
            has_cases = not entry.refuse(list(row.values), read, mapping, findings.path.name) and has_cases
        case = mapping.case(row.values, row.node, findings)
        if has_cases:
            yield RawCase(case, row.line, (row.node,), findings, model.vars or {}, is_data=True)
