"""What a suite knows of its evaluators: no type by name. The classes are in `agentv.evaluators`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Any, Protocol

from agentv.suite.files import SuiteFiles
from agentv.suite.findings import Findings
from agentv.suite.yaml import NodePath


class Need(Enum):
    """What an evaluator needs a run to provide."""

    SCRIPTS = auto()
    """A launcher that starts its script."""
    JUDGE_ACCESS = auto()
    """A judge that its script may call, through a proxy."""
    JUDGE = auto()
    """A judge that it asks itself."""


JUDGED = frozenset({Need.JUDGE_ACCESS, Need.JUDGE})
"""Needs that require a judge target."""


class EvaluatorLike(Protocol):
    """An evaluator as suites and plans see it."""

    @property
    def name(self) -> str:
        """Unique within a case."""

    @property
    def type(self) -> str:
        """Its type, as suites write it."""

    @property
    def needs(self) -> frozenset[Need]:
        """What the run must provide before this evaluator can be used."""

    def targets_named(self) -> Sequence[str]:
        """The targets that its options name."""

    def judge_targets(self) -> Sequence[str | None]:
        """The judge target of each evaluator in here that needs a judge; None where its options do not name one."""


class ReadsEvaluators(Protocol):
    """Makes evaluators from what a suite says. Problems go into `findings`, and the result is then None."""

    def with_defaults(self, options: Mapping[str, Any], /) -> ReadsEvaluators:
        """A reader that sets these options for every evaluator that inherits them and does not set them itself."""

    def read(self, entry: Any, findings: Findings, at: NodePath, files: SuiteFiles) -> EvaluatorLike | None:
        """One entry of a list of evaluators."""

    def read_rubrics(
        self, name: str, rubrics: Any, findings: Findings, at: NodePath, files: SuiteFiles
    ) -> EvaluatorLike | None:
        """The evaluator that judges by the `rubrics` of the case at `at`."""

    def read_default(self, findings: Findings, at: NodePath, files: SuiteFiles) -> EvaluatorLike | None:
        """The evaluator of cases that name none."""
