"""`rubric`: a judge checks the answer against each criterion, and the score is the weighted share satisfied."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from agentv.evaluators.base import EvaluationContext, Evaluator, Need
from agentv.evaluators.llm.ask import Question, ask_judge
from agentv.evaluators.llm.prompt import checks_schema, question_for, system_prompt
from agentv.evaluators.llm.render import rendered
from agentv.evaluators.llm.reply import Check, JudgeChecks, read_checks
from agentv.results import Score
from agentv.suite.models import RubricModel
from agentv.suite.suite import Rubric
from agentv.text import short_or_described


class RubricItem(RubricModel):
    """A criterion."""

    id: str | None = Field(None, min_length=1, description="Name in results. Default: `rubric-1`, `rubric-2`, ...")
    description: str = Field(min_length=1, description="What the answer must do, in plain text.")
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
            options["rubrics"] = [asdict(rubric) for rubric in criteria]
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
    return tuple(
        Rubric(f"rubric-{number}", item, required=False)
        if isinstance(item, str)
        else Rubric((item.id or "").strip() or f"rubric-{number}", item.description, item.weight, item.required)
        for number, item in enumerate(rubrics, 1)
    )


async def judge_by_rubrics(
    evaluator: AsksJudge, rubrics: Sequence[Rubric], context: EvaluationContext, prompt: str | None = None
) -> Score:
    """Ask the judge to check every criterion, with the suite's custom prompt if it has one."""
    question: Question[JudgeChecks] = Question(
        await rendered(question_for, context, prompt, rubrics),
        system_prompt(rubrics, prompt=prompt),
        checks_schema([rubric.id for rubric in rubrics]),
        read_checks,
    )
    reply, ledger = await ask_judge(
        evaluator.name,
        question,
        context,
        judge_target=evaluator.judge_target,
        timeout_seconds=evaluator.timeout_seconds,
    )
    return score_of(rubrics, reply, ledger)


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
