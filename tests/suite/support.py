"""Short ways to write a suite, load it, and read what is wrong with it."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agentv.errors import SuiteError
from agentv.evaluators.reader import EvaluatorReader
from agentv.suite.evaluator import Need
from agentv.suite.loader import load_suite
from agentv.suite.suite import EvalCase, EvalSuite

EVALUATORS = "execution: {evaluators: [{name: has, type: contains, value: Paris}]}\n"
"""A head for suites whose evaluators do not matter."""


def write(folder: Path, text: str | bytes, name: str = "suite.yaml") -> Path:
    """A file with this text, its indentation removed."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else textwrap.dedent(text).encode("utf-8"))
    return path


def load(folder: Path, text: str | bytes, name: str = "suite.yaml") -> EvalSuite:
    return load_suite(write(folder, text, name), EvaluatorReader())


def cases(folder: Path, text: str | bytes, name: str = "suite.yaml") -> list[EvalCase]:
    return list(load(folder, text, name).cases())


def one_case(folder: Path, fields: str) -> EvalCase:
    """The case that these fields make, in a suite with an evaluator."""
    indented = textwrap.indent(textwrap.dedent(fields).strip("\n"), "    ")
    (case,) = cases(folder, f"{EVALUATORS}evalcases:\n  -\n{indented}\n")
    return case


def mistakes_in(path: Path) -> list[str]:
    """Every mistake as `line:column: message`; those of other files with the file's name in front."""
    with pytest.raises(SuiteError) as caught:
        load_suite(path, EvaluatorReader())
    return [
        f"{'' if problem.path == path else problem.path.name + ':'}{problem.line}:{problem.column}: {problem.message}"
        for problem in caught.value.problems
    ]


def mistakes(folder: Path, text: str | bytes, name: str = "suite.yaml") -> list[str]:
    return mistakes_in(write(folder, text, name))


def the_mistake(folder: Path, text: str | bytes, name: str = "suite.yaml") -> str:
    found = mistakes(folder, text, name)
    assert len(found) == 1, found
    return found[0]


def names(case: EvalCase) -> list[str]:
    return [evaluator.name for evaluator in case.evaluators]


def options(case: EvalCase) -> list[dict[str, Any]]:
    """The options of its evaluators."""
    evaluators: tuple[Any, ...] = case.evaluators
    return [evaluator.model_dump() for evaluator in evaluators]


NEEDS = {
    "contains": frozenset({Need.JUDGE}),
    "is_json": frozenset({Need.SCRIPTS}),
    "regex": frozenset({Need.SCRIPTS, Need.JUDGE_ACCESS}),
}
"""What `AnyType` says that types need."""


@dataclass(frozen=True)
class Read:
    """An evaluator of any type, as far as a suite looks at it."""

    name: str
    type: str
    needs: frozenset[Need] = frozenset()

    def targets_named(self) -> list[str]:
        return [f"judge-of-{self.name}"]

    def judge_targets(self) -> list[str | None]:
        return [f"judge-of-{self.name}"]


class AnyType:
    """Reads every entry as an evaluator of the type it names, known or not."""

    def with_defaults(self, options: Any) -> AnyType:
        del options
        return self

    def read(self, entry: Any, findings: Any, at: Any, files: Any) -> Read:
        del findings, at, files
        return Read(entry.get("name", entry["type"]), entry["type"], NEEDS.get(entry["type"], frozenset()))

    def read_rubrics(self, name: str, rubrics: Any, findings: Any, at: Any, files: Any) -> Read:
        del rubrics
        return self.read({"name": name, "type": "any rubric"}, findings, at, files)

    def read_default(self, findings: Any, at: Any, files: Any) -> Read:
        return self.read({"type": "any default"}, findings, at, files)
