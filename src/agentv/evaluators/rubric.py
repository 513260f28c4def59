"""`rubric`: a judge checks the answer against each criterion, and the score is the weighted share satisfied."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from agentv.evaluators.base import EvaluationContext, Evaluator, Need
from agentv.evaluators.llm.ask import Question, ask_judge
from agentv.evaluators.llm.prompt import are_scored, checks_schema, question_for, system_prompt
from agentv.evaluators.llm.render import rendered
from agentv.evaluators.llm.reply import Check, JudgeChecks, read_checks, read_points
from agentv.results import Score
from agentv.suite.models import MOST_POINTS, RubricModel
from agentv.suite.suite import Rubric
from agentv.text import short_or_described


class RubricItem(RubricModel):
    """A criterion."""

    id: str | None = Field(None, min_length=1, description="Name in results. Default: `rubric-1`, `rubric-2`, ...")
    description: str | None = Field(
        None, min_length=1, description="What the answer must do, in plain text. Optional with `score_ranges`."
    )
    weight: float = Field(1.0, ge=0, description="Weight in the score.")
    required: bool = Field(False, description="Score 0 if this criterion is not satisfied.")


SHOWN_UNKNOWN = 10
"""Maximum number of unknown criteria listed in a warning."""

RubricList = list[Annotated[str, Field(min_length=1)] | RubricItem]


class AsksJudge(Evaluator):
    """Options of evaluators that call a judge model."""

    judge_target: str | None = Field(
        None, min_length=1, description="Judge target (`--judge-target` overrides it). Default: the judge of the run."
    )
    timeout_seconds: float = Field(60.0, gt=0, description="Timeout for one judge call.")
    model: str | None = Field(
        None, description="Ignored; accepted for AgentV compatibility. The judge target sets the model."
    )

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({Need.JUDGE})

    def criteria(self) -> tuple[Rubric, ...]:
        """The criteria that the judge checks, each with an id. Default: none."""
        return ()

    def recorded_options(self) -> dict[str, Any]:
        """The options, with the criteria as the judge sees them."""
        options = super().recorded_options()
        if criteria := self.criteria():
            options["rubrics"] = [rubric.settings for rubric in criteria]
        return options

    def targets_named(self) -> list[str]:
        return [] if self.judge_target is None else [self.judge_target]

    def judge_targets(self) -> list[str | None]:
        return [self.judge_target]


class RubricEvaluator(AsksJudge):
    """A judge model checks the answer against each criterion. The score is the weighted share of satisfied criteria."""

    type: Literal["rubric"] = "rubric"
    rubrics: RubricList = Field(description="Criteria: strings or `{id, description, weight, required}`.")

    @field_validator("rubrics")
    @classmethod
    def _are_distinct(cls, rubrics: RubricList) -> RubricList:
        return checked(rubrics)

    def criteria(self) -> tuple[Rubric, ...]:
        return named(self.rubrics)

    async def evaluate(self, context: EvaluationContext) -> Score:
        return await judge_by_rubrics(self, self.criteria(), context)


def checked(rubrics: RubricList) -> RubricList:
    """Return the list. Raises ValueError if it is empty or a criterion is empty or duplicated."""
    if not rubrics:
        raise ValueError("must contain at least one criterion")
    seen: set[str] = set()
    for rubric in named(rubrics):
        if not rubric.description.strip():
            raise ValueError(f"the description of the criterion '{rubric.id}' must not be empty")
        if rubric.id in seen:
            raise ValueError(f"two criteria have the id '{rubric.id}'; give each a unique id")
        seen.add(rubric.id)
    return rubrics


def named(rubrics: RubricList) -> tuple[Rubric, ...]:
    """Return the criteria, each with an id."""
    return Rubric.listed(rubrics)


async def judge_by_rubrics(
    evaluator: AsksJudge,
    rubrics: Sequence[Rubric],
    context: EvaluationContext,
    prompt: str | None = None,
    *,
    printed: str | None = None,
) -> Score:
    """Ask the judge to check every criterion, with the suite's custom prompt if it has one.

    `printed` is the prompt that a script printed, which is sent as it is.
    """
    scored = are_scored(rubrics)
    question: Question[JudgeChecks] = Question(
        await rendered(question_for, context, prompt, rubrics) if printed is None else printed,
        system_prompt(rubrics, prompt=prompt),
        checks_schema([rubric.id for rubric in rubrics], scored=scored),
        read_points if scored else read_checks,
    )
    reply, ledger = await ask_judge(
        evaluator.name,
        question,
        context,
        judge_target=evaluator.judge_target,
        timeout_seconds=evaluator.timeout_seconds,
    )
    return points_score(rubrics, reply, ledger) if scored else score_of(rubrics, reply, ledger)


def score_of(rubrics: Sequence[Rubric], reply: JudgeChecks, ledger: dict[str, Any]) -> Score:
    """Compute the score: satisfied weight divided by total weight.

    Criteria that the judge omitted, or judged both ways, count as not satisfied.
    """
    checks = {rubric.id: _verdict(rubric, reply.checks) for rubric in rubrics}
    hits = tuple(rubric.description for rubric in rubrics if checks[rubric.id].satisfied)
    misses = tuple(_miss(rubric, checks[rubric.id]) for rubric in rubrics if not checks[rubric.id].satisfied)
    score = _share(rubrics, {name for name, check in checks.items() if check.satisfied})
    failed = [rubric.id for rubric in rubrics if rubric.required and not checks[rubric.id].satisfied]
    reasoning = reply.reasoning or f"{len(hits)} of {len(rubrics)} criteria are satisfied"
    if failed:
        score, reasoning = 0.0, f"{reasoning} (required but not satisfied: {', '.join(failed)})"
    details = [
        {
            "id": rubric.id,
            "satisfied": checks[rubric.id].satisfied,
            "reasoning": checks[rubric.id].reasoning,
            "weight": rubric.weight,
            "required": rubric.required,
        }
        for rubric in rubrics
    ]
    return Score(
        score,
        hits,
        misses,
        reasoning,
        details={"checks": details},
        warnings=tuple(_warnings(rubrics, reply.checks)),
        judge={**ledger, "repaired": reply.repaired},
    )


SATISFIED_POINTS = 7
"""Points from which a criterion counts as satisfied."""


def points_score(rubrics: Sequence[Rubric], reply: JudgeChecks, ledger: dict[str, Any]) -> Score:
    """Compute the score from points: the weighted mean of points out of 10.

    Criteria that the judge omitted get no points. A criterion below its minimum fails the evaluator with score 0.
    """
    checks = {rubric.id: _lowest(rubric, reply.checks) for rubric in rubrics}
    points = {name: check.points or 0 for name, check in checks.items()}
    heaviest = max(rubric.weight for rubric in rubrics)
    score = 0.0
    if heaviest > 0:
        earned = math.fsum(rubric.weight / heaviest * points[rubric.id] for rubric in rubrics)
        score = min(1.0, round(earned / MOST_POINTS / math.fsum(r.weight / heaviest for r in rubrics), 12))
    least = {rubric.id: rubric.min_score or float(rubric.required) for rubric in rubrics}
    failed = [name for name, minimum in least.items() if points[name] < minimum * MOST_POINTS]
    words = {r.id: f"{r.description} ({points[r.id]} of {MOST_POINTS})" for r in rubrics}
    lines = {
        name: f"{words[name]}: {check.reasoning}" if check.reasoning else words[name] for name, check in checks.items()
    }
    reasoning = reply.reasoning or f"{sum(points.values())} of {MOST_POINTS * len(rubrics)} points"
    if failed:
        score, reasoning = 0.0, f"{reasoning} (below the minimum: {', '.join(failed)})"
    return Score(
        score,
        tuple(words[r.id] for r in rubrics if points[r.id] >= SATISFIED_POINTS),
        tuple(lines[r.id] for r in rubrics if points[r.id] < SATISFIED_POINTS),
        reasoning,
        details={
            "checks": [{**_settings(r), "score": points[r.id], "reasoning": checks[r.id].reasoning} for r in rubrics]
        },
        warnings=tuple(_warnings(rubrics, reply.checks)),
        judge={**ledger, "repaired": reply.repaired},
    )


def _settings(rubric: Rubric) -> dict[str, Any]:
    return {"id": rubric.id, "weight": rubric.weight, "required": rubric.required}


def _lowest(rubric: Rubric, checks: Sequence[Check]) -> Check:
    own = [check for check in checks if check.id == rubric.id]
    if not own:
        return Check(rubric.id, False, "the judge did not check it", 0)
    return min(own, key=lambda check: check.points or 0)


def _share(rubrics: Sequence[Rubric], satisfied: Collection[str]) -> float:
    """Satisfied weight divided by total weight, scaled by the largest weight so that the sum cannot overflow."""
    heaviest = max(rubric.weight for rubric in rubrics)
    if heaviest <= 0:
        return 0.0
    earned = math.fsum(rubric.weight / heaviest for rubric in rubrics if rubric.id in satisfied)
    return min(1.0, round(earned / math.fsum(rubric.weight / heaviest for rubric in rubrics), 12))


def _verdict(rubric: Rubric, checks: Sequence[Check]) -> Check:
    own = [check for check in checks if check.id == rubric.id]
    if not own:
        return Check(rubric.id, False, "the judge did not check it")
    if len({check.satisfied for check in own}) > 1:
        return Check(rubric.id, False, "the judge returned contradictory checks for it")
    return own[0]


def _miss(rubric: Rubric, check: Check) -> str:
    must = " (required)" if rubric.required else ""
    return f"{rubric.description}{must}: {check.reasoning}" if check.reasoning else f"{rubric.description}{must}"


def _warnings(rubrics: Sequence[Rubric], checks: Sequence[Check]) -> list[str]:
    known, ids = {rubric.id for rubric in rubrics}, [check.id for check in checks]
    unknown = list(dict.fromkeys(short_or_described(name, 60) for name in ids if name not in known))
    if len(unknown) > SHOWN_UNKNOWN:
        unknown = [*unknown[:SHOWN_UNKNOWN], f"and {len(unknown) - SHOWN_UNKNOWN} more"]
    omitted = [rubric.id for rubric in rubrics if rubric.id not in ids]
    repeated = [rubric.id for rubric in rubrics if ids.count(rubric.id) > 1]
    warnings = (
        (unknown, "the judge returned unknown criteria, which were ignored: {}"),
        (omitted, "the judge omitted criteria, which count as not satisfied: {}"),
        (repeated, "the judge returned criteria more than once, which count once: {}"),
    )
    return [sentence.format(", ".join(names)) for names, sentence in warnings if names]
