"""Suites of AgentV (npm) and their files of cases in our form, by the pass that loads them (`suite.dialects`)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentv.suite.case_files import LISTS, CaseFiles, RawCase
from agentv.suite.dialects import scenarios
from agentv.suite.dialects.detect import V4, V5
from agentv.suite.dialects.reading import Reading
from agentv.suite.files import SuiteFiles
from agentv.suite.findings import AllFindings, Findings
from agentv.suite.origins import Origins
from agentv.suite.sniff import CASE_KEYS, CASES, JSON_LINES
from agentv.suite.yaml import ROOT, NodePath, YamlWalk

LIST = "evaluators"
ADDED = "evaluators+"
DIALECTS = {dialect.label: dialect for dialect in (V4, V5)}
_TO_REWRITE = (".yaml", ".yml", JSON_LINES)
"""Files of cases that stay files. Cases of others, such as tables, are written into the suite."""


@dataclass(slots=True)
class Converted:
    """A file in our form."""

    path: Path
    data: Any
    """A mapping, or a list of cases."""
    moved: dict[NodePath, NodePath] = field(default_factory=dict)
    """Where its nodes were written, by their paths in `data`."""

    def written(self, node: NodePath) -> NodePath:
        return Origins(of_case=self.moved).written(node)


class SuiteConverter:
    """Converts one suite that was loaded without problems, and the files with its cases."""

    def __init__(self, path: Path, label: str, variables: Mapping[str, str]) -> None:
        self.path = path
        self._found = AllFindings()
        self._files = SuiteFiles.of(path)
        self._reading = Reading(DIALECTS[label], self._files, variables)
        self._suite = Converted(path, {})
        self._case_files: dict[Path, Converted] = {}

    def converted(self) -> list[Converted]:
        """The suite, then its files of cases."""
        raw = _document(self.path)
        key = next((name for name in CASE_KEYS if name in raw), CASE_KEYS[1])
        self._read_head({name: value for name, value in raw.items() if name not in CASE_KEYS})
        cases = self._cases(raw.get(key, []), key)
        for made in self._reading.scenario_cases(self._found, self.path):
            cases.append(self._case(RawCase(made.value, made.line, made.node, made.findings, {})))
        self._suite.data[CASES] = cases
        self._suite.moved[CASES,] = (key if key in raw else scenarios.KEY,)
        return [self._suite, *self._case_files.values()]

    def inserted(self) -> list[str]:
        """The variables of the environment whose values are now in the files."""
        self._reading.keep_used()
        return [*self._reading.variables, *self._reading.unset]

    def _read_head(self, raw: dict[str, Any]) -> None:
        head = self._reading.head(raw, self._found.of(self.path))
        listed = head.get("execution", {}).get(LIST) or ()
        self._has_list = bool(listed)
        self._suite.data = head
        self._suite.moved |= self._reading.origins.of_head
        shorten_paths(head, self.path)

    def _cases(self, listed: Any, key: str) -> list[Any]:
        """The list of cases. Files are converted, and stay references if they can."""
        cases: list[Any] = []
        entries = listed if isinstance(listed, list) else [listed]
        for index, entry in enumerate(entries):
            node: NodePath = (key, index) if isinstance(listed, list) else (key,)
            value = self._reading.reference(entry)
            place = (CASES, len(cases))
            self._suite.moved[place] = node
            if not (isinstance(value, str) or (isinstance(value, Mapping) and "file" in value and "id" not in value)):
                finding = self._found.of(self.path)
                cases.append(self._case(RawCase(value, 1, node, finding, {}), place))
                continue
            reader = CaseFiles(has_prompts=True)  # cases without an input were reported when the suite was loaded
            raws = list(reader.referenced(value, node, self._files, self._found, self.path))
            if any(raw.is_data or raw.findings.path.suffix not in _TO_REWRITE for raw in raws):
                cases += [self._case(raw) for raw in raws]
                continue
            cases.append({"file": value} if isinstance(value, str) else value)
            for raw in raws:
                self._keep(raw)
        return cases

    def _keep(self, raw: RawCase) -> None:
        """Convert a case in its own file: a single case, an item of a list, or of a list under a key."""
        path = raw.findings.path
        file = self._case_files.setdefault(path, Converted(path, None))
        if raw.node == ():
            file.data = self._case(raw, (), file)
        elif raw.node[0] == ROOT or path.suffix == JSON_LINES:
            file.data = file.data or []
            place: NodePath = (len(file.data),)
            file.moved[place] = raw.node[1:]
            file.data.append(self._case(raw, place, file))
        else:
            key = str(raw.node[0])
            if file.data is None:
                file.data = {name: value for name, value in _document(path).items() if name not in LISTS}
            ours = CASES if key in CASE_KEYS else key
            listed = file.data.setdefault(ours, [])
            place = (ours, len(listed))
            file.moved |= {(ours,): (key,), place: raw.node}
            listed.append(self._case(raw, place, file))

    def _case(self, raw: RawCase, place: NodePath | None = None, file: Converted | None = None) -> Any:
        """The case; with `place`, the places of its nodes are noted in its file."""
        findings: Findings = raw.findings
        findings.origins = None
        value, inherits = self._reading.case(raw.value, raw.node, findings, is_data=raw.is_data)
        moved: dict[NodePath, NodePath] = findings.origins.of_case if findings.origins is not None else {}
        shorten_paths(value, self.path)
        own = value.pop(LIST, None)
        if own is not None:
            name = ADDED if inherits and self._has_list else LIST
            value[name] = own
            moved = {**moved, (*raw.node, name): moved.get((*raw.node, LIST), (*raw.node, LIST))}
            moved |= {
                (*raw.node, name, *node[len(raw.node) + 1 :]): written
                for node, written in moved.items()
                if node[: len(raw.node) + 1] == (*raw.node, LIST) and len(node) > len(raw.node) + 1
            }
        elif not inherits and self._has_list and "rubrics" not in value:
            value[LIST] = [{"type": "llm_judge"}]
        if place is not None:
            target = file or self._suite
            size = len(raw.node)
            target.moved |= {
                (*place, *node[size:]): written[1:] if written[:1] == (ROOT,) else written
                for node, written in moved.items()
                if len(node) > size
            }
        return value

    _has_list = False


def _document(path: Path) -> Any:
    return YamlWalk(path.read_bytes()).document()


def shorten_paths(value: Any, suite: Path) -> None:
    """Write the paths of scripts of the project, which are absolute while a suite is loaded, relative to the suite."""
    for inner in _mappings(value):
        command = inner.get("script")
        if isinstance(command, list) and command[:2] == ["bun", "run"] and len(command) == 3:
            path = Path(str(command[2]))
            if path.is_absolute():
                inner["script"] = [*command[:2], Path(os.path.relpath(path, suite.resolve().parent)).as_posix()]


def _mappings(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from _mappings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _mappings(item)
