"""`rubric`: a judge says of each criterion whether the answer satisfies it; weights make the score."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from agentv.evaluators.base import EvaluationContext, Evaluator, Need
from agentv.evaluators.llm.ask import Question, ask_judge
from agentv.evaluators.llm.prompt import checks_schema, question_for, system_prompt
from agentv.evaluators.llm.reply import Check, JudgeChecks, read_checks
from agentv.results import Score
from agentv.suite.models import RubricModel
from agentv.suite.suite import Rubric


class RubricItem(RubricModel):
    """One criterion."""

    id: str | None = Field(None, min_length=1, description="How results name it. Default: `rubric-1` and so on.")
    description: str = Field(min_length=1, description="What the answer must do, in words.")
    weight: float = Field(1.0, ge=0, description="Share in the score.")
    required: bool = Field(False, description="When it is not satisfied, the score is 0.")


SHOWN_UNKNOWN = 10
"""Names of a judge's own making that a warning tells."""

RubricList = list[Annotated[str, Field(min_length=1)] | RubricItem]


class AsksJudge(Evaluator):
    """Options of evaluators that ask a model."""

    judge_target: str | None = Field(
        None, min_length=1, description="Who judges; default: the judge target of the run (`--judge-target` wins)."
    )
    timeout_seconds: float = Field(60.0, gt=0, description="Deadline of one judge call.")
    model: str | None = Field(
        None, description="Accepted for AgentV's sake and ignored: the judge target says which model judges."
    )

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({Need.JUDGE})

    def targets_named(self) -> list[str]:
        return [] if self.judge_target is None else [self.judge_target]

    def judge_targets(self) -> list[str | None]:
        return [self.judge_target]


class RubricEvaluator(AsksJudge):
    """A judge checks the answer against each criterion; the score is the weight of those it satisfies."""

    type: Literal["rubric"] = "rubric"
    rubrics: RubricList = Field(description="The criteria: texts, or `{id, description, weight, required}`.")

    @field_validator("rubrics")
    @classmethod
    def _can_be_told_apart(cls, rubrics: RubricList) -> RubricList:
        return checked(rubrics)

    async def evaluate(self, context: EvaluationContext) -> Score:
        return await judge_by_rubrics(self, named(self.rubrics), context)


def checked(rubrics: RubricList) -> RubricList:
    """The list, when a judge can work with it; ValueError says why not."""
    if not rubrics:
        raise ValueError("an empty list checks nothing; write at least one criterion")
    seen: set[str] = set()
    for rubric in named(rubrics):
        if not rubric.description.strip():
            raise ValueError(f"the criterion '{rubric.id}' says nothing")
        if rubric.id in seen:
            raise ValueError(f"two criteria have the id '{rubric.id}'; give each its own")
        seen.add(rubric.id)
    return rubrics


def named(rubrics: RubricList) -> tuple[Rubric, ...]:
    """The criteria, each with an id."""
    return tuple(
        Rubric(f"rubric-{number}", item, required=False)
        if isinstance(item, str)
        else Rubric((item.id or "").strip() or f"rubric-{number}", item.description, item.weight, item.required)
        for number, item in enumerate(rubrics, 1)
    )


async def judge_by_rubrics(
    evaluator: AsksJudge, rubrics: Sequence[Rubric], context: EvaluationContext, prompt: str | None = None
) -> Score:
    """Ask for a check of every criterion, with a prompt of the suite's own if there is one."""
    question: Question[JudgeChecks] = Question(
        question_for(context, prompt, rubrics),
        system_prompt(rubrics, prompt=prompt),
        checks_schema([rubric.id for rubric in rubrics]),
        read_checks,
    )
    given, ledger = await ask_judge(
        evaluator.name,
        question,
        context,
        judge_target=evaluator.judge_target,
        timeout_seconds=evaluator.timeout_seconds,
    )
    return score_of(rubrics, given, ledger)


def score_of(rubrics: Sequence[Rubric], given: JudgeChecks, ledger: dict[str, Any]) -> Score:
    """The score: earned weight of all weight. What was left out, or judged both ways, is not satisfied."""
    checks = {rubric.id: _verdict(rubric, given.checks) for rubric in rubrics}
    hits = tuple(rubric.description for rubric in rubrics if checks[rubric.id].satisfied)
    misses = tuple(_miss(rubric, checks[rubric.id]) for rubric in rubrics if not checks[rubric.id].satisfied)
    score = _share(rubrics, {name for name, check in checks.items() if check.satisfied})
    failed = [rubric.id for rubric in rubrics if rubric.required and not checks[rubric.id].satisfied]
    reasoning = given.reasoning or f"{len(hits)} of {len(rubrics)} criteria are satisfied"
    if failed:
        score, reasoning = 0.0, f"{reasoning} (required and not satisfied: {', '.join(failed)})"
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
        warnings=tuple(_warnings(rubrics, given.checks)),
        judge={**ledger, "repaired": given.repaired},
    )


def _share(rubrics: Sequence[Rubric], satisfied: Collection[str]) -> float:
    """Earned weight of all weight; measured by the heaviest, because the sum of weights may be no number any more."""
    heaviest = max(rubric.weight for rubric in rubrics)
    if heaviest <= 0:
        return 0.0
    earned = math.fsum(rubric.weight / heaviest for rubric in rubrics if rubric.id in satisfied)
    return min(1.0, round(earned / math.fsum(rubric.weight / heaviest for rubric in rubrics), 12))


def _verdict(rubric: Rubric, checks: Sequence[Check]) -> Check:
    own = [check for check in checks if check.id == rubric.id]
    if not own:
        return Check(rubric.id, False, "the judge said nothing about it")
    if len({check.satisfied for check in own}) > 1:
        return Check(rubric.id, False, "the judge said both that it is satisfied and that it is not")
    return own[0]


def _miss(rubric: Rubric, check: Check) -> str:
    must = " (required)" if rubric.required else ""
    return f"{rubric.description}{must}: {check.reasoning}" if check.reasoning else f"{rubric.description}{must}"


def _warnings(rubrics: Sequence[Rubric], checks: Sequence[Check]) -> list[str]:
    known, given = {rubric.id for rubric in rubrics}, [check.id for check in checks]
    unknown = list(dict.fromkeys(name[:60] for name in given if name not in known))
    if len(unknown) > SHOWN_UNKNOWN:
        unknown = [*unknown[:SHOWN_UNKNOWN], f"and {len(unknown) - SHOWN_UNKNOWN} more"]
    omitted = [rubric.id for rubric in rubrics if rubric.id not in given]
    twice = [rubric.id for rubric in rubrics if given.count(rubric.id) > 1]
    told = (
        (unknown, "the judge named criteria that there are not, which are ignored: {}"),
        (omitted, "the judge left out criteria, which count as not satisfied: {}"),
        (twice, "the judge gave criteria more than once, which count once: {}"),
    )
    return [sentence.format(", ".join(names)) for names, sentence in told if names]
