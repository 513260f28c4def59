"""`composite`: a group of evaluators whose scores are combined by an aggregator.

Members can be any evaluators, including composites. If a member has an error, so does the composite: a missing score
is never averaged away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ConfigDict, Field, SerializeAsAny, model_validator

from agentv.errors import EvaluatorError
from agentv.evaluators.aggregators import AGGREGATORS, Aggregator, WeightedAverage
from agentv.evaluators.base import EvaluationContext, Evaluator, Need, ReadChild
from agentv.evaluators.scoring import judge_all
from agentv.evidence import EvaluatorRecord
from agentv.results import EvaluatorResult, Score
from agentv.suite.validation import show
from agentv.text import all_of, did_you_mean, one_of

if TYPE_CHECKING:
    from agentv.interpreters.interpreter import Interpreter

_NOT_AN_AGGREGATORS = ("name", "weight", "required", "threshold", "negate")


def _as_written(schema: dict[str, Any]) -> None:
    """Adapt the JSON Schema for editors: an aggregator is an object with a `type`."""
    options = schema["properties"]
    options["aggregator"] = {
        "type": "object",
        "properties": {"type": {"enum": list(AGGREGATORS)}},
        "description": options["aggregator"]["description"],
    }


class Composite(Evaluator):
    """A group of evaluators whose scores are combined by an aggregator."""

    model_config = ConfigDict(json_schema_extra=_as_written)
    TEMPLATES = ("evaluators", "aggregator")

    type: Literal["composite"] = "composite"
    evaluators: list[SerializeAsAny[Evaluator]] = Field(min_length=1, description="Members: evaluators of any type.")
    aggregator: SerializeAsAny[Aggregator] = Field(
        default_factory=lambda: WeightedAverage(name="weighted_average"),
        description="How the scores are combined: `{type: weighted_average, weights: {member: 2}}`, "
        "`{type: code_judge, script: ...}` or `{type: llm_judge, prompt: ...}`.",
    )

    @classmethod
    def children_of(cls, entry: Mapping[str, Any]) -> Sequence[Any]:
        """The entries of the members and of the aggregator."""
        members = entry.get("evaluators")
        return [*(members if isinstance(members, list) else ()), entry.get("aggregator")]

    @property
    def needs_reference(self) -> bool:
        return any(member.needs_reference for member in self.evaluators)

    def variables_used(self) -> frozenset[str]:
        return frozenset().union(*(each.variables_used() for each in (*self.evaluators, self.aggregator)))

    @classmethod
    def read_children(cls, options: dict[str, Any], read: ReadChild) -> dict[str, Any]:
        """Return the options with the members and the aggregator as `Evaluator` objects."""
        options = dict(options)
        members = options.get("evaluators")
        if isinstance(members, list):
            parts = [read(entry, ("evaluators", index), None) or _unread(entry) for index, entry in enumerate(members)]
            options["evaluators"] = _unique(parts, read)
        raw = options.pop("aggregator", None)
        aggregator = None if raw is None else _read_aggregator(raw, options.get("name", "composite"), read)
        if aggregator is not None:
            options["aggregator"] = aggregator
        return options

    @model_validator(mode="after")
    def _weights_name_members(self) -> Composite:
        weights = self.aggregator.weights if isinstance(self.aggregator, WeightedAverage) else {}
        names = [member.name for member in self.evaluators]
        for name in weights:
            if name not in names:
                raise ValueError(
                    f"`aggregator.weights` has an unknown member '{name}'{did_you_mean(name, names)}; "
                    f"members: {all_of(list(dict.fromkeys(names)))}"
                )
        return self

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset().union(*(part.needs for part in self._parts()))

    def targets_named(self) -> list[str]:
        return [name for part in self._parts() for name in part.targets_named()]

    def embeddings_named(self) -> list[str]:
        return [name for part in self._parts() for name in part.embeddings_named()]

    def judge_targets(self) -> list[str | None]:
        return [name for part in self._parts() for name in part.judge_targets()]

    def interpreters(self, directory: Path) -> list[tuple[str, Interpreter]]:
        return [each for part in self._parts() for each in part.interpreters(directory)]

    def depends_on(self, directory: Path) -> list[Path]:
        return [path for part in self._parts() for path in part.depends_on(directory)]

    def recorded_options(self) -> dict[str, Any]:
        """The aggregator; the members have records of their own."""
        options: dict[str, Any] = {"negate": True} if self.negate else {}
        combined = self.aggregator.recorded_options()
        if combined or not isinstance(self.aggregator, WeightedAverage):
            options["aggregator"] = {"type": self.aggregator.type, **combined}
        return options

    def members(self) -> tuple[EvaluatorRecord, ...]:
        return tuple(member.record() for member in self.evaluators)

    def _parts(self) -> list[Evaluator]:
        return [*self.evaluators, self.aggregator]

    async def evaluate(self, context: EvaluationContext) -> Score:
        results = await judge_all(self.evaluators, context)
        errors = [f"{result.name}: {result.error}" for result in results if result.error is not None]
        if errors:
            raise EvaluatorError(
                f"{len(errors)} of {len(results)} members failed: " + "; ".join(errors),
                evaluator_results=results,
            )
        try:
            score = await self.aggregator.combine(results, context)
        except EvaluatorError as error:
            error.evaluator_results = results
            raise
        return _with_members(score, results)


def _with_members(score: Score, results: Sequence[EvaluatorResult]) -> Score:
    """Add the members' results. The score is 0 when a required member failed."""
    failed = [result.name for result in results if result.failed_required]
    misses = tuple(f"[{name}] is required and failed" for name in failed)
    return Score(
        0.0 if failed else score.score,
        score.hits,
        misses + score.misses,
        score.reasoning,
        details=score.details,
        warnings=score.warnings,
        evaluator_results=tuple(results),
        judge_proxy=score.judge_proxy,
        judge=score.judge,
    )


class _Unread(Evaluator):
    """Placeholder for a member whose errors were already reported. It keeps the name taken and is never run."""

    async def evaluate(self, context: EvaluationContext) -> Score:
        raise NotImplementedError


def _unread(entry: Any) -> Evaluator:
    name = entry.get("name") or entry.get("type") if isinstance(entry, Mapping) else None
    return _Unread.model_construct(name=name if isinstance(name, str) else "", type="")


def _unique(members: list[Evaluator], read: ReadChild) -> list[Evaluator]:
    seen: set[str] = set()
    for index, member in enumerate(members):
        if member.name and member.name in seen:
            read.complain(
                ("evaluators", index),
                f"the composite has two members named {show(member.name)}; give each a unique `name`",
            )
        seen.add(member.name)
    return members


def _read_aggregator(raw: Any, composite: str, read: ReadChild) -> Evaluator | None:
    known = one_of(list(AGGREGATORS))
    if not isinstance(raw, Mapping):
        expected = f"`aggregator` must be a mapping like `{{type: weighted_average}}`, where `type` is {known}"
        read.complain(("aggregator",), f"{expected}; got {show(raw)}")
        return None
    type_name = raw.get("type", "weighted_average")
    kind = AGGREGATORS.get(type_name) if isinstance(type_name, str) else None
    if kind is None:
        near = did_you_mean(str(type_name), AGGREGATORS)
        read.complain(("aggregator",), f"unknown aggregator type {show(type_name)}{near}; `type` must be {known}")
        return None
    if "weights" in raw and kind is not WeightedAverage:
        read.complain(("aggregator", "weights"), "`weights` is only supported by `type: weighted_average`")
        return None
    for key in _NOT_AN_AGGREGATORS:
        if key in raw:
            read.complain(("aggregator", key), f"`{key}` is an option of the composite, not of its aggregator")
            return None
    return read({**raw, "type": raw.get("type", "weighted_average"), "name": composite}, ("aggregator",), kind)
