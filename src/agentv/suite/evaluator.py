"""What a suite knows of its evaluators. The classes themselves are in `agentv.evaluators`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Protocol


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
