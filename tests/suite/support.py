"""Helpers that write a suite, load it and return its problems."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agentv.errors import SuiteError
from agentv.evaluators.reader import EvaluatorReader
from agentv.evidence import EvaluatorRecord
from agentv.interpreters.interpreter import Interpreter
from agentv.suite.evaluator import Need
from agentv.suite.loader import load_suite
from agentv.suite.suite import EvalCase, EvalSuite

EVALUATORS = "execution: {evaluators: [{name: has, type: contains, value: Paris}]}\n"
"""The head of a suite whose evaluators do not matter."""


def write(folder: Path, text: str | bytes, name: str = "suite.yaml") -> Path:
    """Write a file with this text, dedented."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else textwrap.dedent(text).encode("utf-8"))
    return path


def load(folder: Path, text: str | bytes, name: str = "suite.yaml") -> EvalSuite:
    return load_suite(write(folder, text, name), EvaluatorReader())


def cases(folder: Path, text: str | bytes, name: str = "suite.yaml") -> list[EvalCase]:
    return list(load(folder, text, name).cases())


def one_case(folder: Path, fields: str) -> EvalCase:
    """The case with these fields, in a suite with one evaluator."""
    indented = textwrap.indent(textwrap.dedent(fields).strip("\n"), "    ")
    (case,) = cases(folder, f"{EVALUATORS}evalcases:\n  -\n{indented}\n")
    return case


def problems_in(path: Path) -> list[str]:
    """Every problem as `line:column: message`, prefixed with the file name if it is in another file."""
    with pytest.raises(SuiteError) as caught:
        load_suite(path, EvaluatorReader())
    return [
        f"{'' if problem.path == path else problem.path.name + ':'}{problem.line}:{problem.column}: {problem.message}"
        for problem in caught.value.problems
    ]


def problems(folder: Path, text: str | bytes, name: str = "suite.yaml") -> list[str]:
    return problems_in(write(folder, text, name))


def only_problem(folder: Path, text: str | bytes, name: str = "suite.yaml") -> str:
    messages = problems(folder, text, name)
    assert len(messages) == 1, messages
    return messages[0]


def names(case: EvalCase) -> list[str]:
    return [evaluator.name for evaluator in case.evaluators]


def options(case: EvalCase) -> list[dict[str, Any]]:
    """The options of the case's evaluators."""
    evaluators: tuple[Any, ...] = case.evaluators
    return [evaluator.model_dump() for evaluator in evaluators]


NEEDS = {
    "contains": frozenset({Need.JUDGE}),
    "is_json": frozenset({Need.SCRIPTS}),
    "regex": frozenset({Need.SCRIPTS, Need.JUDGE_ACCESS}),
}
"""The needs of evaluators read by `AnyType`, by type."""


@dataclass(frozen=True)
class Read:
    """An evaluator of any type, with the members that suites use."""

    name: str
    type: str
    needs: frozenset[Need] = frozenset()

    @property
    def needs_reference(self) -> bool:
        return False

    def variables_used(self) -> frozenset[str]:
        return frozenset()

    def interpreters(self, directory: Path) -> list[tuple[str, Interpreter]]:
        return []

    def embeddings_named(self) -> list[str]:
        return []

    def targets_named(self) -> list[str]:
        return [f"judge-of-{self.name}"]

    def judge_targets(self) -> list[str | None]:
        return [f"judge-of-{self.name}"]

    def depends_on(self, directory: Path) -> list[Path]:
        del directory
        return []

    def record(self) -> EvaluatorRecord:
        return EvaluatorRecord(self.name, self.type)


class AnyType:
    """Reads every entry as an evaluator of its `type`, which need not exist."""

    def without_search(self) -> AnyType:
        return self

    def with_defaults(self, options: Any) -> AnyType:
        del options
        return self

    def is_templated(self, entry: Any) -> bool:
        del entry
        return False

    def read(self, entry: Any, findings: Any, at: Any, files: Any, values: Any = None) -> Read:
        del findings, at, files, values
        return Read(entry.get("name", entry["type"]), entry["type"], NEEDS.get(entry["type"], frozenset()))

    def read_rubrics(self, name: str, rubrics: Any, findings: Any, at: Any, files: Any) -> Read:
        del rubrics
        return self.read({"name": name, "type": "any rubric"}, findings, at, files)

    def read_turns(self, turns: Any, aggregation: str, findings: Any, at: Any, files: Any) -> Read:
        del turns, aggregation
        return self.read({"type": "turns"}, findings, at, files)

    def read_default(self, findings: Any, at: Any, files: Any) -> Read:
        return self.read({"type": "any default"}, findings, at, files)
