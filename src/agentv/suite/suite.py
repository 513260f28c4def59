"""An eval suite: one suite file, loaded. Its cases are read from the file as they are asked for, never all held."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from agentv.suite.case import EvalCase
from agentv.suite.evaluator import EvaluatorLike, Need
from agentv.suite.files import SuiteFiles


class NamedTarget(NamedTuple):
    """A target that an evaluator names, and the case whose evaluator it is."""

    target: str
    path: Path
    line: int
    evaluator: str
    number: int | None = None
    """Its place among the suite's own evaluators; None when it is the case's."""


@dataclass(frozen=True, slots=True)
class EvalSuite:
    """A suite whose every line has been checked."""

    path: Path
    name: str
    """What rows call it: `dataset`, else the file's name without suffix."""
    ids: tuple[str, ...]
    files: SuiteFiles
    digests: Mapping[str, str]
    """SHA-256 of the suite file and of every file it refers to."""
    read_cases: Callable[[], Iterator[EvalCase]] = field(repr=False)
    description: str = ""
    target: str | None = None
    judge_target: str | None = None
    threshold: float | None = None
    evaluators: tuple[EvaluatorLike, ...] = ()
    case_targets: Mapping[str, tuple[str, Path, int]] = field(default_factory=dict)
    """Cases that name their own target: id -> (target, file, line)."""
    judge_names: tuple[NamedTarget, ...] = ()
    """Targets that evaluators name."""
    judge_choices: frozenset[str | None] = frozenset()
    """The judge targets of the evaluators that need a judge; None is in it when one of them does not name its own."""
    evaluator_needs: frozenset[Need] = frozenset()
    """What the run must provide for the suite's evaluators."""

    @property
    def directory(self) -> Path:
        return self.files.directory

    def cases(self) -> Iterator[EvalCase]:
        """Every case, in file order."""
        return self.read_cases()
