"""The base class of evaluators, and the context they receive.

An evaluator is a frozen class without state between calls. Its fields are the options that a suite can set, and
`evaluate` turns a context into a `Score`. When the answer cannot be judged, raise `EvaluatorError` instead of returning
0. To add an evaluator, write a file with the class and add a line to `registry.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict, Field

from agentv.evidence import EvaluatorRecord
from agentv.messages import Message, TokenUsage
from agentv.results import DEFAULT_THRESHOLD, Score, TurnRecord, variant_of
from agentv.suite.evaluator import JUDGED, Need
from agentv.suite.suite import EvalCase
from agentv.suite.yaml import NodePath

if TYPE_CHECKING:
    from agentv.interpreters.interpreter import Interpreter
    from agentv.judge.lending import Asker
    from agentv.scripts import Runtime
    from agentv.suite.search import ProgramSearch

__all__ = ["Candidate", "Complain", "EvaluationContext", "Evaluator", "Need", "ReadChild"]

_RECORDED_APART = ("name", "type", "weight", "required", "threshold")

Complain = Callable[[str, str], None]
"""Report a problem in a suite: takes the option and the message. The evaluator is then rejected."""


class ReadChild(Protocol):
    """Reads evaluators nested in another evaluator. `node` is the path from the outer entry to the inner one."""

    def __call__(self, entry: Any, node: tuple[str | int, ...], kind: type[Evaluator] | None, /) -> Evaluator | None:
        """Return the evaluator that `entry` describes, of class `kind`, or of its `type` when `kind` is None.

        Returns None when the entry has problems, which have then been reported.
        """

    def complain(self, node: tuple[str | int, ...], message: str) -> None:
        """Report a problem at a node. The outer evaluator is then rejected."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """The target's answer, with its messages, usage and timing."""

    answer: str
    output_messages: tuple[Message, ...] = ()
    token_usage: TokenUsage | None = None
    cost_usd: float | None = None
    duration_ms: float | None = None
    trace_summary: Mapping[str, Any] | None = None
    finish_reason: str | None = None
    """Why the model stopped, as reported by the vendor."""
    warnings: tuple[str, ...] = ()
    """Values that the target reported and that could not be used."""
    model: str | None = None
    """The model that answered, as reported by the vendor."""
    turns: tuple[TurnRecord, ...] = ()
    """The turns of a conversation. `answer` is that of the last one, `output_messages` are those of all of them."""
    cache_hit: bool = False
    """Whether the answer was read from the cache."""
    execution: Mapping[str, Any] | None = None
    """The node that ran the command of the target, and how often it was tried."""


@dataclass(frozen=True, slots=True)
class EvaluationContext:
    """Everything an evaluator can use to judge an answer."""

    case: EvalCase
    candidate: Candidate
    suite: str = ""
    target: str = ""
    attempt: int = 1
    directory: Path | None = None
    """The suite's directory."""
    runtime: Runtime | None = None
    """Services of the run for evaluators that start scripts or call a judge."""

    def asker(self, evaluator: str, *, script: bool) -> Asker:
        """Identify the caller of a judge: this evaluator or its script, for this case."""
        from agentv.judge.lending import Asker  # noqa: PLC0415 - only evaluators that call a judge need it

        variant = variant_of(self.target, self.case.prompt)
        return Asker(evaluator, self.case.id, self.attempt, self.suite, variant, self.directory, script)


class Evaluator(BaseModel):
    """Base class of all evaluators: the common options, and hooks with default implementations.

    agentv turns an entry of a suite into an evaluator in this order: `normalize`, `read_children`, validation of the
    fields, `load_files`. A ValueError from a validator or from `load_files` is reported with file, line and column.
    """

    model_config = ConfigDict(defer_build=True, frozen=True, strict=True, extra="forbid", allow_inf_nan=False)

    ALIASES: ClassVar[Mapping[str, str]] = {}
    """Alternative option names, mapped to the option. `normalize` replaces them."""
    FILES: ClassVar[tuple[str, ...]] = ()
    """Options that can be file paths, read by `load_files`. Errors of `load_files` are reported at these options."""
    INHERITS: ClassVar[tuple[str, ...]] = ()
    """Options whose default comes from the suite's `execution` section, if set there."""
    TEMPLATES: ClassVar[tuple[str, ...]] = ()
    """Options into which the reader inserts no variables: code, nested evaluators, and prompts with own variables."""
    WAITS: ClassVar[bool] = True
    """Set to False if `evaluate` hardly ever awaits anything: agentv then runs it without creating a task."""

    name: str = Field(min_length=1, description="Name of the evaluator in results; unique within a case.")
    type: str = Field(description="Evaluator type.")
    weight: float = Field(1.0, ge=0, description="Weight in the score of the case; with 0 it runs but does not count.")
    required: bool = Field(False, description="Fail the case with score 0 when this evaluator fails.")
    threshold: float = Field(DEFAULT_THRESHOLD, ge=0, le=1, description="Minimum score to pass.")
    negate: bool = Field(False, description="Invert the score (1 becomes 0). Errors remain errors.")

    @classmethod
    def normalize(cls, raw: Mapping[str, Any], complain: Complain) -> dict[str, Any]:
        """Return the suite's entry with field names as keys. By default, this replaces `ALIASES`."""
        for alias, option in cls.ALIASES.items():
            if alias in raw and option in raw:
                complain(alias, f"`{alias}` and `{option}` are aliases; use only one of them")
        return {cls.ALIASES.get(key, key): value for key, value in raw.items()}

    @classmethod
    def inherited(cls, defaults: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
        """Those defaults of the suite that apply to these options. By default, those in `INHERITS`."""
        del options
        return {option: defaults[option] for option in cls.INHERITS if option in defaults}

    @classmethod
    def children_of(cls, entry: Mapping[str, Any]) -> Sequence[Any]:
        """The nested entries of a suite's entry. Default: none."""
        del entry
        return ()

    @classmethod
    def read_children(cls, options: dict[str, Any], read: ReadChild) -> dict[str, Any]:
        """Return the options with nested evaluator entries replaced by `Evaluator` objects. Default: unchanged."""
        del read
        return options

    @property
    def needs_reference(self) -> bool:
        """Whether the case must have a reference answer. Default: no."""
        return False

    def variables_used(self) -> frozenset[str]:
        """Variables of the case that `evaluate` inserts into prompts of this evaluator. Default: none."""
        return frozenset()

    @property
    def needs(self) -> frozenset[Need]:
        """What the run must provide for this evaluator. Default: nothing."""
        return frozenset()

    def interpreters(self, directory: Path) -> list[tuple[str, Interpreter]]:
        """Interpreters of the user, and packages, that scripts need, each with the name of the evaluator.
        Default: none."""
        del directory
        return []

    def targets_named(self) -> list[str]:
        """Targets named in the options. All of them must be configured. Default: none."""
        return []

    def embeddings_named(self) -> list[str]:
        """Those of them that must have an embeddings API. Default: none."""
        return []

    def judge_targets(self) -> list[str | None]:
        """Judge targets of this evaluator and its members; None where the options do not name one."""
        return [] if self.needs.isdisjoint(JUDGED) else [None]

    def depends_on(self, directory: Path) -> list[Path]:
        """Files that affect the score, besides the suite and the files read by `load_files`. Default: none.

        A recorded run is not resumed when one of them has changed.
        """
        del directory
        return []

    def record(self) -> EvaluatorRecord:
        """This evaluator for the record of a run: the common options, all others, and its members."""
        return EvaluatorRecord(
            self.name, self.type, self.weight, self.required, self.threshold, self.recorded_options(), self.members()
        )

    def recorded_options(self) -> dict[str, Any]:
        """The options as JSON values, without the common ones and without defaults."""
        return self.model_dump(
            mode="json", exclude=set(_RECORDED_APART), exclude_defaults=True, warnings=False, fallback=repr
        )

    def members(self) -> tuple[EvaluatorRecord, ...]:
        """The records of nested evaluators. Default: none."""
        return ()

    def not_found(self, directory: Path, search: ProgramSearch) -> Mapping[NodePath, str]:
        """What this evaluator needs on this machine and does not find, such as its program. Default: nothing.

        Returns messages by the option at fault, as a path into the entry. They are reported before anything is called.
        """
        del directory, search
        return {}

    @abstractmethod
    async def evaluate(self, context: EvaluationContext) -> Score:
        """Judge the candidate. Raises `EvaluatorError` when that is not possible."""

    def load_files(self, find_file: Callable[[str], Path]) -> Evaluator:
        """Return this evaluator with paths in its options replaced by the content of the files. Default: unchanged.

        Called once, when the suite is loaded. `find_file` resolves a path from the suite, or raises ValueError. Raise
        ValueError when the content is invalid.
        """
        del find_file
        return self
