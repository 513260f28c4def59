"""The evaluator seam.

An evaluator is one frozen class: its fields are the options a suite may write, and `evaluate` turns a context into a
`Score`. It keeps nothing between calls. Raise `EvaluatorError` when the answer could not be judged; never return 0 for
that. Add one: a file with the class, and a line in `registry.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict, Field

from agentv.messages import Message, TokenUsage
from agentv.results import DEFAULT_THRESHOLD, Score
from agentv.suite.evaluator import JUDGED, Need
from agentv.suite.suite import EvalCase

if TYPE_CHECKING:
    from agentv.judge.lending import Asker
    from agentv.scripts import Runtime

__all__ = ["Candidate", "Complain", "EvaluationContext", "Evaluator", "Need", "ReadChild"]

Complain = Callable[[str, str], None]
"""Reports a problem in a suite, at an option: the option, and the message. The evaluator is then refused."""


class ReadChild(Protocol):
    """Reads the evaluators inside another evaluator. `node` is the way from the outer entry to the inner one."""

    def __call__(self, entry: Any, node: tuple[str | int, ...], kind: type[Evaluator] | None, /) -> Evaluator | None:
        """The evaluator that `entry` describes: of the class `kind`, or of its `type` when `kind` is None.

        None when the entry has problems; they are reported already.
        """

    def complain(self, node: tuple[str | int, ...], message: str) -> None:
        """Report a problem at a node; the outer evaluator is then refused."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """What the target answered."""

    answer: str
    output_messages: tuple[Message, ...] = ()
    token_usage: TokenUsage | None = None
    cost_usd: float | None = None
    duration_ms: float | None = None
    trace_summary: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class EvaluationContext:
    """Everything an evaluator may look at."""

    case: EvalCase
    candidate: Candidate
    suite: str = ""
    target: str = ""
    attempt: int = 1
    directory: Path | None = None
    """The suite's directory."""
    runtime: Runtime | None = None
    """What evaluators that start scripts or ask a judge need of the run."""

    def asker(self, evaluator: str, *, script: bool) -> Asker:
        """Who borrows a judge: this evaluator, or its script, for this case."""
        from agentv.judge.lending import Asker  # noqa: PLC0415 - only evaluators that ask a judge need it

        return Asker(evaluator, self.case.id, self.attempt, self.suite, self.target, self.directory, script)


class Evaluator(BaseModel):
    """The base class: options every evaluator takes, and optional members with their defaults.

    A suite's entry becomes an evaluator in this order: `normalize`, `read_children`, validation of the fields,
    `load_files`. A ValueError of a validator or of `load_files` is reported at its place in the suite.
    """

    model_config = ConfigDict(defer_build=True, frozen=True, strict=True, extra="forbid", allow_inf_nan=False)

    ALIASES: ClassVar[Mapping[str, str]] = {}
    """Other names of options -> the option; `normalize` replaces them."""
    FILES: ClassVar[tuple[str, ...]] = ()
    """Options that `load_files` reads when they are strings: its errors are reported there."""
    INHERITS: ClassVar[tuple[str, ...]] = ()
    """Options that take their default from `execution` of the suite, when it sets them."""
    WAITS: ClassVar[bool] = True
    """False promises that `evaluate` never waits for anything: it then runs without a task, which is cheaper."""

    name: str = Field(min_length=1, description="Unique within a case; how results name this evaluator.")
    type: str = Field(description="Which evaluator this is.")
    weight: float = Field(1.0, ge=0, description="Share in the case's score. 0 runs but does not count.")
    required: bool = Field(False, description="When it fails, the case fails with score 0.")
    threshold: float = Field(DEFAULT_THRESHOLD, ge=0, le=1, description="The pass line of this evaluator.")
    negate: bool = Field(False, description="Score 1 becomes 0 and the other way round. An error stays an error.")

    @classmethod
    def normalize(cls, raw: Mapping[str, Any], complain: Complain) -> dict[str, Any]:
        """The entry of a suite with its keys as the fields are called. Default: `ALIASES` replaced."""
        for alias, option in cls.ALIASES.items():
            if alias in raw and option in raw:
                complain(alias, f"`{alias}` and `{option}` mean the same: keep one")
        return {cls.ALIASES.get(key, key): value for key, value in raw.items()}

    @classmethod
    def read_children(cls, options: dict[str, Any], read: ReadChild) -> dict[str, Any]:
        """The options, with entries that are evaluators replaced by `Evaluator` objects. Default: there are none."""
        del read
        return options

    @property
    def needs(self) -> frozenset[Need]:
        """What the run must provide before this evaluator can be used. Default: nothing."""
        return frozenset()

    def targets_named(self) -> list[str]:
        """Targets that the options name; a run in which one is not configured is refused. Default: none."""
        return []

    def judge_targets(self) -> list[str | None]:
        """The judge target of each evaluator in here that needs a judge; None where its options do not name one."""
        return [] if self.needs.isdisjoint(JUDGED) else [None]

    def depends_on(self, directory: Path) -> list[Path]:
        """Files that decide the score, besides the suite and those of `load_files`: when one changed, a recorded run is
        not resumed. Default: none."""
        del directory
        return []

    @abstractmethod
    async def evaluate(self, context: EvaluationContext) -> Score:
        """Judge the candidate, or raise `EvaluatorError`."""

    def load_files(self, find_file: Callable[[str], Path]) -> Evaluator:
        """This evaluator with the content of its files in its options. Default: it has no files.

        `find_file` takes a path as the suite writes it and returns the file, or raises ValueError. Raise ValueError
        when the content cannot be used. Called once, when the suite is loaded.
        """
        del find_file
        return self
