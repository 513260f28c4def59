"""`similarity`: compares the answer with a string, from 0 to 1: by characters, by words or by embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from agentv.evaluators.base import EvaluationContext, Evaluator
from agentv.evaluators.likeness import Metric, likeness
from agentv.evaluators.strict_json import too_large
from agentv.evaluators.text import reference_of
from agentv.results import Score
from agentv.suite.evaluator import Need
from agentv.suite.search import ProgramSearch
from agentv.suite.yaml import NodePath
from agentv.text import all_of, quoted

LONG = 3_000
"""Total characters above which strings are compared in a worker. Shorter strings take a few milliseconds."""
SECONDS = 10.0


class Similarity(Evaluator):
    """Similarity of the answer to `value`, by default to the reference answer of the case."""

    type: Literal["similarity"] = "similarity"
    value: str | None = Field(None, description="String to compare with. Default: the reference answer of the case.")
    metric: Literal[Metric, "embedding"] = Field(
        "levenshtein",
        description="`levenshtein`: edit distance; `token_set`: edit distance between sorted sets of words; "
        "`jaccard`: share of common words; `rouge_l`: F1 of the longest common subsequence of words; "
        "`embedding`: cosine of sentence embeddings (needs the extra `embeddings`, or `target`).",
    )
    target: str | None = Field(
        None, min_length=1, description="With `metric: embedding`: a target with `provider: embeddings` to call."
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

    @property
    def needs_reference(self) -> bool:
        return self.value is None

    @model_validator(mode="after")
    def _target_is_used(self) -> Self:
        if self.target is not None and self.metric != "embedding":
            raise ValueError(f"`target` requires `metric: embedding`, got `metric: {self.metric}`")
        return self

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset() if self.target is None else frozenset({Need.JUDGE})

    def targets_named(self) -> list[str]:
        return [] if self.target is None else [self.target]

    def judge_targets(self) -> list[str | None]:
        """None: its target is called whatever judges the run."""
        return []

    def not_found(self, directory: Path, search: ProgramSearch) -> Mapping[NodePath, str]:
        """The packages of the embedding model."""
        del directory, search
        if self.metric != "embedding" or self.target is not None:
            return {}
        from agentv.evaluators.embedding import INSTALL, missing_packages  # noqa: PLC0415 - as below

        missing = missing_packages()
        if not missing:
            return {}
        message = f"`metric: embedding` needs {all_of(missing)}; run `{INSTALL}`, or set `target`"
        return {("metric",): message}

    async def evaluate(self, context: EvaluationContext) -> Score:
        expected = reference_of(context) if self.value is None else self.value
        answer = context.candidate.answer
        if self.metric == "embedding":
            return await self._by_embedding(answer, expected, context)
        if len(answer) + len(expected) < LONG:
            score = likeness(self.metric, answer, expected)
        else:
            score = await _compared_elsewhere(self.metric, answer, expected)
        return self._scored(score, expected)

    async def _by_embedding(self, answer: str, expected: str, context: EvaluationContext) -> Score:
        from agentv.evaluators import embedding  # noqa: PLC0415 - other metrics do without

        if self.target is None:
            compared = await embedding.compared_here(answer, expected)
        else:
            compared = await embedding.compared_by(self.target, self.name, answer, expected, context)
        warnings = tuple(
            f"{text} is longer than the {embedding.MOST_TOKENS} tokens that the embedding model reads; the rest was "
            f"not compared by '{self.name}'"
            for text in compared.cut
        )
        return replace(self._scored(compared.score, expected), warnings=warnings, judge=compared.ledger)

    def _scored(self, score: float, expected: str) -> Score:
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
