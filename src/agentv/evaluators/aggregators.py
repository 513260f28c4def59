"""Aggregators combine the results of a composite's members into one score."""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from agentv.evaluators.base import Complain, EvaluationContext, Evaluator
from agentv.evaluators.code_judge import ScriptEvaluator
from agentv.evaluators.llm.ask import Question, ask_judge
from agentv.evaluators.llm.fence import fence
from agentv.evaluators.llm.prompt import (
    RESULTS,
    VARIABLES,
    VERDICT_SCHEMA,
    doubts,
    fill,
    material,
    system_prompt,
    values_of,
)
from agentv.evaluators.llm.render import rendered
from agentv.evaluators.llm.reply import read_verdict
from agentv.evaluators.llm_judge import prompt_text
from agentv.evaluators.rubric import AsksJudge
from agentv.results import EvaluatorResult, Score, Verdict
from agentv.wire.checks import assertions_of

TASK = """\
Several evaluators have graded the same answer. Read their results and grade the answer as a whole. Give the most \
weight to what matters to the person who asked; do not simply average the scores."""

_VARIABLES = (*VARIABLES, RESULTS)


class Aggregator(Evaluator):
    """Combines several results into one score. Used only inside a composite, never as an evaluator of a case."""

    async def evaluate(self, context: EvaluationContext) -> Score:
        return await self.combine((), context)

    @abstractmethod
    async def combine(self, results: Sequence[EvaluatorResult], context: EvaluationContext) -> Score:
        """Return the combined score, or raise `EvaluatorError`."""


class WeightedAverage(Aggregator):
    """The weighted mean of the members' scores. `weights` overrides the weights of the members."""

    type: Literal["weighted_average"] = "weighted_average"
    weights: dict[str, Annotated[float, Field(ge=0)]] = Field(
        default_factory=dict, description="Weights by member name; override the weights of the members."
    )

    async def combine(self, results: Sequence[EvaluatorResult], context: EvaluationContext) -> Score:
        del context
        weights = [self.weights.get(result.name, result.weight) for result in results]
        heaviest = max(weights, default=0.0)
        if heaviest <= 0:
            return _score_with_findings(0.0, results, "every member has weight 0")
        shares = [weight / heaviest for weight in weights]
        mean = math.fsum(r.score * share for r, share in zip(results, shares, strict=True)) / math.fsum(shares)
        summary = ", ".join(
            f"{result.name} {result.score:.3g}" + (f" x {weight:g}" if weight != 1 else "")
            for result, weight in zip(results, weights, strict=True)
        )
        return _score_with_findings(min(1.0, max(0.0, round(mean, 12))), results, summary)


class Threshold(Aggregator):
    """The share of members that pass. The composite passes if the share reaches `threshold`."""

    type: Literal["threshold"] = "threshold"

    async def combine(self, results: Sequence[EvaluatorResult], context: EvaluationContext) -> Score:
        del context
        passed = [result.name for result in results if result.verdict is Verdict.PASS]
        share = round(len(passed) / len(results), 12)
        return _score_with_findings(share, results, f"{len(passed)} of {len(results)} members passed")


class CodeAggregator(ScriptEvaluator, Aggregator):
    """A script that combines the results. Its payload is that of a judge script plus the members' `results`."""

    ALIASES: ClassVar[Mapping[str, str]] = {**ScriptEvaluator.ALIASES, "path": "script"}

    @classmethod
    def normalize(cls, raw: Mapping[str, Any], complain: Complain) -> dict[str, Any]:
        options = dict(raw)
        if "path" in options:
            if "script" in options:
                complain("path", "`path` and `script` are aliases; use only one of them")
            options["script"] = options.pop("path")
        return super().normalize(options, complain)

    async def combine(self, results: Sequence[EvaluatorResult], context: EvaluationContext) -> Score:
        members = by_name(results)
        for result in results:
            members[result.name]["assertions"] = assertions_of(result.hits, result.misses)
        return await self.run({**self.payload(context), "results": members}, context)


class LlmAggregator(AsksJudge, Aggregator):
    """A judge model that combines the results."""

    FILES: ClassVar[tuple[str, ...]] = ("prompt",)
    TEMPLATES: ClassVar[tuple[str, ...]] = ("prompt",)

    type: Literal["llm_judge"] = "llm_judge"
    prompt: str | None = Field(
        None, min_length=1, description=f"Judge prompt with `{{{{ {RESULTS} }}}}`: inline text or a file path."
    )

    def load_files(self, find_file: Callable[[str], Path]) -> LlmAggregator:
        if self.prompt is None:
            return self
        return self.model_copy(update={"prompt": prompt_text(self.prompt, find_file, _VARIABLES)})

    async def combine(self, results: Sequence[EvaluatorResult], context: EvaluationContext) -> Score:
        verdict, ledger = await ask_judge(
            self.name,
            Question(
                await rendered(_question, context, self.prompt, by_name(results)),
                system_prompt(prompt=self.prompt or TASK),
                VERDICT_SCHEMA,
                read_verdict,
            ),
            context,
            judge_target=self.judge_target,
            timeout_seconds=self.timeout_seconds,
        )
        judge = {**ledger, "repaired": verdict.repaired}
        warnings = doubts(self.prompt, _VARIABLES)
        return Score(verdict.score, verdict.hits, verdict.misses, verdict.reasoning, warnings=warnings, judge=judge)


def _question(context: EvaluationContext, prompt: str | None, results: Mapping[str, Any]) -> str:
    results_json = json.dumps(results, indent=2, ensure_ascii=False)
    part = ("evaluator results", results_json)
    if prompt is None:
        return f"{TASK}\n\n{material(context, part)}"
    question = fill(prompt, {**values_of(prompt, context), RESULTS: results_json})
    if f"{{{{{RESULTS}}}}}" in prompt.replace(" ", ""):
        return question
    return f"{question}\n\n{fence([part]).text}"


def by_name(results: Sequence[EvaluatorResult]) -> dict[str, Any]:
    """Results by member name, in the form that aggregators receive."""
    return {result.name: _summary(result) for result in results}


def _summary(result: EvaluatorResult) -> dict[str, Any]:
    data = result.to_dict()
    summary = {
        **{key: data[key] for key in ("type", "score", "verdict", "weight", "hits", "misses", "reasoning", "details")},
        "expectedAspectCount": len(result.hits) + len(result.misses),
    }
    if result.evaluator_results:
        summary["evaluatorResults"] = [{"name": member.name, **_summary(member)} for member in result.evaluator_results]
    return summary


def _score_with_findings(score: float, results: Sequence[EvaluatorResult], reasoning: str) -> Score:
    return Score(
        score,
        tuple(f"[{result.name}] {hit}" for result in results for hit in result.hits),
        tuple(f"[{result.name}] {miss}" for result in results for miss in result.misses),
        reasoning,
    )


AGGREGATORS: dict[str, type[Aggregator]] = {
    "weighted_average": WeightedAverage,
    "threshold": Threshold,
    "code_judge": CodeAggregator,
    "llm_judge": LlmAggregator,
}
"""Aggregator classes by `type`."""
