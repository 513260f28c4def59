"""`similarity`: compares the answer with a string, from 0 to 1, without a model."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from agentv.errors import EvaluatorError
from agentv.evaluators.base import EvaluationContext, Evaluator
from agentv.evaluators.likeness import Metric, likeness
from agentv.evaluators.strict_json import too_large
from agentv.results import Score
from agentv.text import quoted

LONG = 3_000
"""Total characters above which strings are compared in a worker. Shorter strings take a few milliseconds."""
SECONDS = 10.0


class Similarity(Evaluator):
    """Similarity of the answer to `value`, by default to the reference answer of the case."""

    type: Literal["similarity"] = "similarity"
    value: str | None = Field(None, description="String to compare with. Default: the reference answer of the case.")
    metric: Metric = Field(
        "levenshtein",
        description="`levenshtein`: edit distance; `token_set`: edit distance between sorted sets of words; "
        "`jaccard`: share of common words; `rouge_l`: F1 of the longest common subsequence of words.",
    )

    @field_validator("value")
    @classmethod
    def _says_something(cls, value: str | None) -> str | None:
        if value == "":
            raise ValueError(
                "must not be empty; write the expected string, or remove `value` to compare with "
                "the reference answer of the case"
            )
        return value

    async def evaluate(self, context: EvaluationContext) -> Score:
        expected = context.case.reference_answer if self.value is None else self.value
        if expected is None:
            raise EvaluatorError(
                "no expected string to compare the answer with",
                next_step="Set `value` of the evaluator, or `reference_answer` of the case.",
            )
        answer = context.candidate.answer
        if len(answer) + len(expected) < LONG:
            score = likeness(self.metric, answer, expected)
        else:
            score = await _compared_elsewhere(self.metric, answer, expected)
        words = f"similarity {score:.2f} to {quoted(expected)} ({self.metric})"
        if score >= self.threshold:
            return Score(score, (words,), (), words)
        below = f"{words} is below the threshold {self.threshold:g}"
        return Score(score, (), (below,), below)


async def _compared_elsewhere(metric: Metric, answer: str, expected: str) -> float:
    from agentv import workers  # noqa: PLC0415 - only long strings need it

    try:
        return await workers.call(likeness, metric, answer, expected, seconds=SECONDS)
    except workers.WorkerError as error:
        raise too_large(answer, error) from None
