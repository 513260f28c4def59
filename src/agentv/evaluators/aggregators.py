"""How the results of a composite's members become one score."""

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
from agentv.evaluators.llm.reply import read_verdict
from agentv.evaluators.llm_judge import prompt_text
from agentv.evaluators.rubric import AsksJudge
from agentv.results import EvaluatorResult, Score

TASK = """\
Several evaluators have graded one answer. Read what the members of this group say, and grade the answer as a whole: \
weigh what matters to the person who asked, and do not simply take the mean."""

_VARIABLES = (*VARIABLES, RESULTS)


class Aggregator(Evaluator):
    """Makes one score of several results. Only a composite has one; it is not an evaluator of a case."""

    async def evaluate(self, context: EvaluationContext) -> Score:
        return await self.combine((), context)

    @abstractmethod
    async def combine(self, results: Sequence[EvaluatorResult], context: EvaluationContext) -> Score:
        """The score, or EvaluatorError."""


class WeightedAverage(Aggregator):
    """The mean of the members' scores by weight: that of `weights`, else the member's own."""

    type: Literal["weighted_average"] = "weighted_average"
    weights: dict[str, Annotated[float, Field(ge=0)]] = Field(
        default_factory=dict, description="Member -> its weight, instead of the member's own."
    )

    async def combine(self, results: Sequence[EvaluatorResult], context: EvaluationContext) -> Score:
        del context
        weights = [self.weights.get(result.name, result.weight) for result in results]
        heaviest = max(weights, default=0.0)
        if heaviest <= 0:
            return _told(0.0, results, "every member has weight 0")
        shares = [weight / heaviest for weight in weights]
        mean = math.fsum(r.score * share for r, share in zip(results, shares, strict=True)) / math.fsum(shares)
        said = ", ".join(
            f"{result.name} {result.score:.3g}" + (f" x {weight:g}" if weight != 1 else "")
            for result, weight in zip(results, weights, strict=True)
        )
        return _told(min(1.0, max(0.0, round(mean, 12))), results, said)


class CodeAggregator(ScriptEvaluator, Aggregator):
    """A script that reads the payload of every judge script, and `results` of the members."""

    ALIASES: ClassVar[Mapping[str, str]] = {**ScriptEvaluator.ALIASES, "path": "script"}

    @classmethod
    def normalize(cls, raw: Mapping[str, Any], complain: Complain) -> dict[str, Any]:
        options = dict(raw)
        if "path" in options:
            if "script" in options:
                complain("path", "`path` and `script` mean the same: keep one")
            options["script"] = options.pop("path")
        return super().normalize(options, complain)

    async def combine(self, results: Sequence[EvaluatorResult], context: EvaluationContext) -> Score:
        return await self.run({**self.payload(context), "results": by_name(results)}, context)


class LlmAggregator(AsksJudge, Aggregator):
    """A judge reads the results and gives the score."""

    FILES: ClassVar[tuple[str, ...]] = ("prompt",)

    type: Literal["llm_judge"] = "llm_judge"
    prompt: str | None = Field(
        None, min_length=1, description=f"What to ask: text with `{{{{ {RESULTS} }}}}`, or the path of its file."
    )

    def load_files(self, find_file: Callable[[str], Path]) -> LlmAggregator:
        if self.prompt is None:
            return self
        return self.model_copy(update={"prompt": prompt_text(self.prompt, find_file, _VARIABLES)})

    async def combine(self, results: Sequence[EvaluatorResult], context: EvaluationContext) -> Score:
        said, ledger = await ask_judge(
            self.name,
            Question(
                self._asked(results, context), system_prompt(prompt=self.prompt or TASK), VERDICT_SCHEMA, read_verdict
            ),
            context,
            judge_target=self.judge_target,
            timeout_seconds=self.timeout_seconds,
        )
        judge = {**ledger, "repaired": said.repaired}
        unclear = doubts(self.prompt, _VARIABLES)
        return Score(said.score, said.hits, said.misses, said.reasoning, warnings=unclear, judge=judge)

    def _asked(self, results: Sequence[EvaluatorResult], context: EvaluationContext) -> str:
        shown = json.dumps(by_name(results), indent=2, ensure_ascii=False)
        part = ("results of the evaluators", shown)
        if self.prompt is None:
            return f"{TASK}\n\n{material(context, part)}"
        asked = fill(self.prompt, {**values_of(context), RESULTS: shown})
        if f"{{{{{RESULTS}}}}}" in self.prompt.replace(" ", ""):
            return asked
        return f"{asked}\n\n{fence([part]).text}"


def by_name(results: Sequence[EvaluatorResult]) -> dict[str, Any]:
    """The members' results as an aggregator reads them."""
    return {result.name: _shown(result) for result in results}


def _shown(result: EvaluatorResult) -> dict[str, Any]:
    data = result.to_dict()
    shown = {
        **{key: data[key] for key in ("type", "score", "verdict", "weight", "hits", "misses", "reasoning", "details")},
        "expectedAspectCount": len(result.hits) + len(result.misses),
    }
    if result.evaluator_results:
        shown["evaluatorResults"] = [{"name": member.name, **_shown(member)} for member in result.evaluator_results]
    return shown


def _told(score: float, results: Sequence[EvaluatorResult], reasoning: str) -> Score:
    return Score(
        score,
        tuple(f"[{result.name}] {hit}" for result in results for hit in result.hits),
        tuple(f"[{result.name}] {miss}" for result in results for miss in result.misses),
        reasoning,
    )


AGGREGATORS: dict[str, type[Aggregator]] = {
    "weighted_average": WeightedAverage,
    "code_judge": CodeAggregator,
    "llm_judge": LlmAggregator,
}
"""`type` of an aggregator -> its class."""
