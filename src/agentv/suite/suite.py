"""What loading gives: eval suites and eval cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from agentv.messages import Message
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


@dataclass(frozen=True, slots=True)
class Rubric:
    """One criterion of a rubric."""

    id: str
    description: str
    weight: float = 1.0
    required: bool = False


@dataclass(frozen=True, slots=True)
class EvalCase:
    """One input with expectations, as the suite file says it. Evaluators are kept as they were read."""

    id: str
    question: str
    input_messages: tuple[Message, ...]
    expected_outcome: str | None = None
    expected_messages: tuple[Message, ...] = ()
    reference_answer: str | None = None
    rubrics: tuple[Rubric, ...] = ()
    evaluators: tuple[EvaluatorLike, ...] = ()
    """The evaluators that will judge this case, resolved against the suite's defaults."""
    target: str | None = None
    threshold: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    conversation_id: str | None = None
    system_prompt: str | None = None
    attachments: tuple[Path, ...] = ()
    """The files of the input's `file` parts, in their order."""
    guideline_files: tuple[Path, ...] = ()
    """Those among them that hold instructions rather than material."""
    line: int = 0

    @property
    def input_files(self) -> tuple[Path, ...]:
        """The attachments that are material."""
        return tuple(path for path in self.attachments if path not in self.guideline_files)
