"""`javascript`: a check in one line of JavaScript, or a function that a file exports. Node runs it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field

from agentv.evaluators.inline import InlineCheck, Reference
from agentv.suite.search import ProgramSearch
from agentv.suite.yaml import NodePath

RUNNER = Path(__file__).with_name("javascript_runner.mjs")
DEFAULT_EXPORT = "default"
_FILE = re.compile(r"(?:file://)?(?P<file>[^\s:()\[\]'\"`]+\.(?:[cm]?js|[cm]?ts))(?::(?P<function>[\w$]+))?")


class JavaScriptCheck(InlineCheck):
    """Checks the answer with JavaScript, run by Node: an expression, a function body, or a function of a file."""

    type: Literal["javascript"] = "javascript"
    value: str = Field(
        description="An expression, a function body with `return`, or a function of a file (`checks.mjs:function`; "
        "without a name, its default export)."
    )

    @classmethod
    def reference_in(cls, value: str) -> Reference | None:
        file = _FILE.fullmatch(value.strip())
        return None if file is None else Reference(file["function"] or DEFAULT_EXPORT, file=file["file"])

    @classmethod
    def in_code(cls, name: str) -> str:
        first, *others = name.split("_")
        return first + "".join(map(str.capitalize, others))

    def check_file(self, path: Path, reference: Reference) -> None:
        """Nothing: what a file exports is known only when Node has run it."""

    def not_found(self, directory: Path, search: ProgramSearch) -> Mapping[NodePath, str]:
        """Node, or a syntax error, which only Node can find. Each distinct code is compiled once, and never run."""
        problem = search.problem(self.runner(), directory, self.env if isinstance(self.env, Mapping) else {})
        if problem is not None:
            return {("type",): f"{problem.message}; `javascript` needs Node 18 or newer, from https://nodejs.org"}
        if self.reference_in(self.value) is not None:
            return {}
        from agentv.evaluators.javascript_syntax import syntax_problem  # noqa: PLC0415 - starts Node

        found = syntax_problem(search.program("node"), RUNNER, self.value)
        return {} if found is None else {("value",): f"`value`: {found}"}

    def runner(self) -> list[str]:
        return ["node", str(RUNNER)]
