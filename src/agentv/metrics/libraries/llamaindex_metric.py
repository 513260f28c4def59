"""Scores the case with an evaluator of LlamaIndex (package `llama-index-core`)."""

from __future__ import annotations

import asyncio
import inspect
import re
from typing import Any

import llama_index.core.evaluation
from llama_index.core.evaluation import BaseEvaluator
from llama_index.llms.openai import OpenAI

from agentv_eval import CodeJudgeInput, code_judge
from agentv_eval.library_metrics import (
    checked_parameters,
    chosen,
    errors_of,
    gathered,
    measured,
    named,
    need_embeddings,
    parameters_of,
)
from agentv_eval.material import MetricError, answer_of, context_of, fail, question_of, reference_of

METRIC = ""
PARAMETERS: dict[str, Any] = {}

FIELDS = {
    "query": question_of,
    "response": answer_of,
    "contexts": context_of,
    "reference": reference_of,
    "second_response": reference_of,
}
NEEDS = {
    "AnswerRelevancyEvaluator": ("query", "response"),
    "ContextRelevancyEvaluator": ("query", "contexts"),
    "CorrectnessEvaluator": ("query", "response", "reference"),
    "FaithfulnessEvaluator": ("response", "contexts"),
    "GuidelineEvaluator": ("query", "response"),
    "PairwiseComparisonEvaluator": ("query", "response", "second_response"),
    "RelevancyEvaluator": ("query", "response", "contexts"),
    "SemanticSimilarityEvaluator": ("response", "reference"),
}
"""The evaluators declare all of them as optional."""
SCALES = {"CorrectnessEvaluator": (1, 5)}
YES_OR_NO = ("FaithfulnessEvaluator", "RelevancyEvaluator")


def evaluators() -> dict[str, Any]:
    kinds = vars(llama_index.core.evaluation)
    return {
        name: kind
        for name, kind in kinds.items()
        if inspect.isclass(kind) and issubclass(kind, BaseEvaluator) and kind is not BaseEvaluator
    }


def created(kind: Any, parameters: dict[str, Any]) -> Any:
    """The evaluator, with LlamaIndex's default models. The parameters `llm` and `embed_model` are names of models."""
    parameters = checked_parameters(kind.__name__, parameters_of(kind), parameters)
    if isinstance(parameters.get("llm"), str):
        parameters = {**parameters, "llm": OpenAI(model=parameters["llm"])}
    if isinstance(parameters.get("embed_model"), str):
        from llama_index.embeddings.openai import OpenAIEmbedding  # noqa: PLC0415 - a package of its own

        parameters = {**parameters, "embed_model": OpenAIEmbedding(model=parameters["embed_model"])}
    return kind(**parameters)


def check_reply(name: str, result: Any) -> None:
    """Raise MetricError for replies that LlamaIndex could not read, some of which it scores 0."""
    if result.invalid_result:
        fail(f"{name} could not read the judge's reply: {result.invalid_reason}")
    if name in YES_OR_NO:
        word = "yes" if result.score else "no"
        if not re.search(rf"\b{word}\b", result.feedback or "", re.IGNORECASE):
            fail(f"{name} expects YES or NO, but the judge replied {(result.feedback or '')[:200]!r}")


@code_judge
def judge(case: CodeJudgeInput) -> dict[str, Any]:
    written, parameters = chosen(case, METRIC, PARAMETERS)
    kind = evaluators()[named(written, evaluators(), "LlamaIndex")]
    name = kind.__name__  # `ResponseEvaluator` is an alias of `FaithfulnessEvaluator`
    if "embed_model" in parameters_of(kind):
        need_embeddings(case)
    material = gathered(case, FIELDS, NEEDS.get(name, ("query", "response")))
    with errors_of(name):
        evaluator = created(kind, parameters)
        try:
            result = asyncio.run(evaluator.aevaluate(**material))
        except ValueError as error:  # of its parsers
            raise MetricError(f"{name} could not read the judge's reply: {error}") from error
    check_reply(name, result)
    return measured(
        "llama-index-core",
        name,
        result.score,
        result.feedback,
        scale=SCALES.get(name, (0, 1)),
        is_cosine=name == "SemanticSimilarityEvaluator",
    )
