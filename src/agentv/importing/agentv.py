"""Convert a project of AgentV (npm) to our form: its suites, its files of cases and its targets.

The project is copied, the copy is converted, and every suite of the copy must have the same cases and evaluators as
that of the original. Only then is anything written.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentv.errors import ConfigError, Problem, SuiteError
from agentv.evaluators.reader import EvaluatorReader
from agentv.importing.agentv_suites import Converted, SuiteConverter, shorten_paths
from agentv.importing.commented import CommentedWriter, Source
from agentv.jsonio import dump_line
from agentv.plan.discovery import find_suites
from agentv.suite.case_records import CaseEncoder
from agentv.suite.findings import Findings
from agentv.suite.loader import load_suite
from agentv.suite.origins import Origins
from agentv.suite.sniff import JSON_LINES
from agentv.suite.suite import EvalSuite
from agentv.suite.yaml import YamlWalk
from agentv.targets import agentv_files
from agentv.targets.config import PROVIDERS_FILES, TARGETS_FILES, load_config
from agentv.targets.environment import Environment

_NEVER_COPIED = frozenset({"node_modules", ".venv", "__pycache__"})
_RECORDS = frozenset({"runs", "results", "cache", "cache.json"})
"""What commands write to `.agentv`."""
_CONFIGS = (*sorted(TARGETS_FILES), *sorted(PROVIDERS_FILES))


@dataclass(slots=True)
class ImportedProject:
    """The files of a project in our form."""

    root: Path
    contents: dict[Path, str] = field(default_factory=dict)
    """The new text of each file that changes, by its path in the project."""
    removed: list[Path] = field(default_factory=list)
    """Files that are replaced by others."""
    unchanged: list[Path] = field(default_factory=list)
    """Suites that are in our form already."""
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    """Why suites cannot be converted."""
    suites: dict[Path, list[str]] = field(default_factory=dict)
    """The cases of each suite, without what a conversion may change."""


def import_project(root: Path) -> ImportedProject:
    """Convert every suite and every file of targets in a directory. Nothing is written."""
    project = ImportedProject(root)
    for path in find_suites([str(root)], Path.cwd()):
        try:
            _convert_suite(path, project)
        except SuiteError as error:
            project.problems += error.problems
    for path in _config_files(root):
        try:
            _convert_config(path, project)
        except ConfigError as error:
            project.problems += error.problems
    return project


def _not_copied(folder: str, names: list[str]) -> set[str]:
    left_out = _NEVER_COPIED | (_RECORDS if Path(folder).name == ".agentv" else set())
    return set(left_out.intersection(names))


def write_copy(project: ImportedProject, out: Path) -> list[Path]:
    """Copy the project to a new directory, and convert the copy. Returns the suites that have other cases there.

    Raises SuiteError or ConfigError if a converted file cannot be read.
    """
    shutil.copytree(project.root, out, ignore=_not_copied, symlinks=True)
    for path, text in project.contents.items():
        (out / path).write_text(text, encoding="utf-8")
    for path in project.removed:
        (out / path).unlink()
    for path in project.contents:
        if path.name in _CONFIGS:
            load_config(out / path, Environment.near((out / path).parent))
    return [path for path, before in project.suites.items() if not _is_same(_loaded(out / path, out), before, out)]


# -- suites


def _loaded(path: Path, root: Path) -> EvalSuite:
    variables = Environment.near(path.parent.resolve(), cwd=root).values
    return load_suite(path, EvaluatorReader(), variables=variables)


def _convert_suite(path: Path, project: ImportedProject) -> None:
    root = project.root
    suite = _loaded(path, root)
    relative = path.resolve().relative_to(root.resolve())
    if not suite.dialect:
        project.unchanged.append(relative)
        return
    project.suites[relative] = _case_lines(suite, root)
    project.notes += [note for note in suite.notes if "not set" in note]
    converter = SuiteConverter(path, suite.dialect, Environment.near(path.parent.resolve(), cwd=root).values)
    for file in converter.converted():
        place = file.path.resolve().relative_to(root.resolve())
        text = _text_of(file)
        if project.contents.setdefault(place, text) != text:
            raise SuiteError(
                [Problem(file.path, 1, 1, "two suites use this file, and add different things to its cases: copy it")]
            )
    if inserted := converter.inserted():
        names = ", ".join(f"`{name}`" for name in inserted)
        project.notes.append(f"{path}: the values of these variables are now in the suite: {names}")


def _text_of(file: Converted) -> str:
    if file.path.suffix == JSON_LINES:
        return "".join(f"{dump_line(case)}\n" for case in file.data)
    return CommentedWriter(Source.of(file.path.read_text(encoding="utf-8")), file.written).text(file.data)


def _case_lines(suite: EvalSuite, root: Path) -> list[str]:
    """The cases with their evaluators, without positions, in any order of the evaluators."""
    encoder = CaseEncoder(suite.name, suite.threshold, suite.files, root, None)
    settings = [suite.target, suite.targets, suite.judge_target, suite.trials, suite.workers, suite.max_cost]
    return [repr(settings).replace(str(root.resolve()), "")] + [
        _comparable(encoder.encode(case, suite.path)[1], suite.path, root) for case in suite.cases()
    ]


def _is_same(suite: EvalSuite, before: list[str], root: Path) -> bool:
    return not suite.dialect and _case_lines(suite, root) == before


def _comparable(line: str, suite: Path, root: Path) -> str:
    record = json.loads(line)
    for name in ("file", "line", "sha256"):
        record.pop(name, None)
    shorten_paths(record, suite.resolve())
    record["evaluators"] = sorted(json.dumps(each, sort_keys=True) for each in record.get("evaluators", ()))
    return json.dumps(record, sort_keys=True).replace(str(root.resolve()), "")


# -- targets


def _config_files(root: Path) -> Iterator[Path]:
    for name in _CONFIGS:
        for path in sorted(root.rglob(name)):
            if not {"node_modules", ".git"} & set(path.relative_to(root).parts):
                yield path


def _convert_config(path: Path, project: ImportedProject) -> None:
    """Convert a file of targets. A `providers.yaml` becomes a `targets.yaml`."""
    walk = YamlWalk(path.read_bytes())
    data, findings = walk.document(), Findings(path)
    relative = path.resolve().relative_to(project.root.resolve())
    new = relative
    if path.name in PROVIDERS_FILES:
        data, findings.origins = agentv_files.as_targets(data)
        new = relative.with_name("targets.yaml")
        if (project.root / new).exists():
            return  # it is not read
        project.removed.append(relative)
    if not isinstance(data, dict) or not isinstance(data.get("targets"), list):
        return
    config = load_config(path, Environment.near(path.parent.resolve(), cwd=project.root))
    targets: list[Any] = []
    for index, entry in enumerate(data["targets"]):
        settings = {key: value for key, value in entry.items() if key != "name"}
        normal = agentv_files.normalized(settings, ("targets", index), findings)
        targets.append({"name": entry["name"], **normal})
    content = {**data, "targets": targets}
    if path.name in PROVIDERS_FILES and (defaults := agentv_files.defaults_beside(path, config.targets)):
        content["defaults"] = defaults
    origins = findings.origins or Origins()
    if content == data and new == relative:
        return
    project.contents[new] = CommentedWriter(Source.of(path.read_text(encoding="utf-8")), origins.written).text(content)
