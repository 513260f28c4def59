"""The pass over one suite of another dialect: its head and its cases, turned into our form one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from agentv.suite.dialects import content
from agentv.suite.dialects.assertions import Assertions
from agentv.suite.dialects.case import CaseBuilder
from agentv.suite.dialects.detect import V5, Dialect
from agentv.suite.dialects.heads import Head, HeadReader
from agentv.suite.dialects.parts import Part
from agentv.suite.dialects.scenarios import ScenarioCase, scenario_cases
from agentv.suite.dialects.sheets import with_columns
from agentv.suite.dialects.tables import FILE
from agentv.suite.files import SuiteFiles
from agentv.suite.findings import AllFindings, Findings
from agentv.suite.origins import Origins
from agentv.suite.yaml import NodePath

CASE_FILES = ("case.yaml", "case.yml")
"""A directory of cases has a directory with one of these files for each case."""


class NormalCase(NamedTuple):
    """A case in our form."""

    value: Any
    inherits: bool = True
    """Whether the evaluators of the suite apply to it."""


class Reading:
    """Turns one suite into our form. The same file is read twice, and gives the same both times."""

    def __init__(
        self, dialect: Dialect, files: SuiteFiles, variables: Mapping[str, str], *, has_prompts: bool = False
    ) -> None:
        self.dialect = dialect
        self.files = files
        self.variables = variables
        self._has_prompts = has_prompts
        """Whether the caller has prompts, which replace those of the suite and use the variables of cases."""
        self._used: dict[str, str] = {}
        self.unset: dict[str, None] = {}
        """Variables of the environment that are used and not set."""
        self._assertions = Assertions(files, self._filled)
        self._head = Head()
        self._of_head: dict[NodePath, NodePath] = {}

    def notes(self, path: Path) -> tuple[str, ...]:
        """What the user should know about the suite."""
        names = ", ".join(self.unset)
        return (f"{path}: not set in the environment, so empty here: {names}",) if names else ()

    def head(self, raw: dict[str, Any], findings: Findings) -> dict[str, Any]:
        """The head in our form. Positions of its problems are known from now on."""
        part = Part(findings)
        self._assertions.taken.clear()
        self._assertions.rubric_prompt = None
        reader = HeadReader(self.dialect, self._assertions, self.files, part)
        normal, self._head = reader.read(self._filled(raw))
        self._head.has_prompts |= self._has_prompts
        self._of_head = part.moved
        findings.origins = self.origins
        return normal

    @property
    def origins(self) -> Origins:
        """Where the nodes of the head are written."""
        return Origins(self.dialect.words, self._of_head)

    def reference(self, entry: Any) -> Any:
        """An item of the list of cases, or what it has in place of one, as a reference to files if it is one."""
        if not isinstance(entry, str):
            return entry
        path = entry.removeprefix(FILE)
        if _is_directory(self.files.directory / path):
            path = f"{path.rstrip('/')}/*/case.y*ml"
        return {"file": path} if entry.startswith(FILE) or path != entry else entry

    def scenario_cases(self, found: AllFindings, suite: Path) -> Iterator[ScenarioCase]:
        """The cases of the scenarios, if there are any."""
        if self._head.scenarios is not None:
            yield from scenario_cases(self._head.scenarios, self.files, found, suite)

    def case(self, raw: Any, at: NodePath, findings: Findings, *, is_data: bool) -> NormalCase:
        """A case in our form."""
        part = Part(findings)
        origins = Origins(self.dialect.words, self._of_head if findings.origins else {}, part.moved)
        if not isinstance(raw, dict):
            findings.origins = origins
            return NormalCase(raw)
        raw = self._filled(raw)
        if is_data:
            raw = with_columns(raw)
        if "id" not in raw and findings.path.name in CASE_FILES:
            raw = {"id": findings.path.parent.name, **raw}
        builder = CaseBuilder(raw, at, part, self._head, self._assertions, is_v5=self.dialect is V5)
        normal = NormalCase(builder.build(), builder.inherits)
        findings.origins = origins
        return normal

    def keep_used(self) -> None:
        """Forget the variables of the environment that the suite does not use."""
        self.variables = self._used

    def _filled(self, value: Any) -> Any:
        return content.with_environment(value, self._variable)

    def _variable(self, name: str) -> str:
        value = self.variables.get(name)
        if value is None:
            self.unset.setdefault(name)
            return ""
        self._used[name] = value
        return value


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # for example, a text that is too long for a path
        return False
