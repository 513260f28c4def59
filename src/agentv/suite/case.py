"""An eval case: one input with expectations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentv.messages import Message
from agentv.suite.evaluator import EvaluatorLike


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
