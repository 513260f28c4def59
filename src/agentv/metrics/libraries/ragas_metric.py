"""Scores the case with a metric of Ragas (package `ragas`)."""

from __future__ import annotations

import asyncio
import inspect
import re
from typing import Any

import openai
import ragas.metrics.collections
from instructor.core.exceptions import InstructorRetryException
from ragas import SingleTurnSample
from ragas import messages as shapes
from ragas.embeddings import OpenAIEmbeddings
from ragas.llms import llm_factory
from ragas.metrics.base import MetricWithEmbeddings, SingleTurnMetric
from ragas.metrics.collections.base import BaseMetric

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
from agentv_eval.material import (
    answer_of,
    context_of,
    conversation_of,
    expected_tool_calls,
    fail,
    message_text,
    question_of,
    reference_of,
)

METRIC = ""
PARAMETERS: dict[str, Any] = {}

LLM = "gpt-4o-mini"
EMBEDDINGS = "text-embedding-3-small"
LOWER_IS_BETTER = ("NoiseSensitivity",)
LEVEL = re.compile(r"score(\d+)_description")


def calls(made: list[dict[str, Any]]) -> list[Any]:
    inputs = [(str(call.get("tool")), call.get("input")) for call in made]
    return [shapes.ToolCall(name=name, args=args if isinstance(args, dict) else {}) for name, args in inputs]


def messages_of(case: CodeJudgeInput) -> list[Any]:
    """The conversation. The outputs of tools are messages in Ragas."""
    messages: list[Any] = []
    for message in conversation_of(case):
        text, made = message_text(message), message.get("tool_calls") or []
        if message["role"] == "user":
            messages.append(shapes.HumanMessage(content=text))
        elif message["role"] == "assistant":
            messages.append(shapes.AIMessage(content=text, tool_calls=calls(made) or None))
            outputs = [call["output"] for call in made if call.get("output") is not None]
            messages += [shapes.ToolMessage(content=str(output)) for output in outputs]
    return messages


FIELDS = {
    "user_input": question_of,
    "response": answer_of,
    "reference": reference_of,
    "retrieved_contexts": context_of,
    "reference_contexts": context_of,
    "reference_tool_calls": lambda case: calls(expected_tool_calls(case)),
}


def metrics() -> dict[str, Any]:
    """The metrics of `ragas.metrics.collections`, and older ones that are not there. Those use other embeddings."""
    older = {name.lstrip("_"): kind for name, kind in vars(ragas.metrics).items() if is_a(kind, SingleTurnMetric)}
    usable = {name: kind for name, kind in older.items() if not issubclass(kind, MetricWithEmbeddings)}
    return {
        **usable,
        **{name: kind for name, kind in vars(ragas.metrics.collections).items() if is_a(kind, BaseMetric)},
    }


def is_a(kind: Any, base: type) -> bool:
    return inspect.isclass(kind) and issubclass(kind, base) and kind is not base


def fields_of(metric: Any) -> tuple[list[str], list[str]]:
    """The fields that a metric requires, and all that it takes."""
    if isinstance(metric, BaseMetric):
        declared = parameters_of(metric.ascore)
        return [field for field, required in declared.items() if required], list(declared)
    return sorted(metric.required_columns.get("SINGLE_TURN", ())), list(SingleTurnSample.model_fields)


def material_of(case: CodeJudgeInput, metric: Any, of_case: dict[str, Any]) -> dict[str, Any]:
    """What the metric gets. Metrics of agents take messages. Reference contexts are what was retrieved only in metrics
    that take no other contexts."""
    required, fields = fields_of(metric)
    found_by = dict(FIELDS)
    if "retrieved_contexts" in fields:
        del found_by["reference_contexts"]
    if isinstance(metric, BaseMetric):
        annotation = str(inspect.signature(metric.ascore).parameters.get("user_input", ""))
        found_by["user_input"] = messages_of if "Message" in annotation else question_of
    known: dict[str, bool] = dict.fromkeys([*parameters_of(type(metric)), *fields], False)
    checked_parameters(type(metric).__name__, known, of_case)
    return gathered(case, found_by, required, fields, of_case)


def created(name: str, kind: Any, parameters: dict[str, Any]) -> Any:
    """The metric. Its parameters `llm` and `embeddings` are names of models here."""
    accepted = parameters_of(kind)
    if "llm" in accepted:
        model = parameters.get("llm", LLM)
        parameters = {**parameters, "llm": llm_factory(model, client=openai.AsyncOpenAI())}
    if "embeddings" in accepted:
        model = parameters.get("embeddings", EMBEDDINGS)
        parameters = {**parameters, "embeddings": OpenAIEmbeddings(client=openai.AsyncOpenAI(), model=model)}
    return kind(**checked_parameters(name, accepted, parameters))


def scale_of(metric: Any, material: dict[str, Any]) -> tuple[float, float]:
    """The range that the metric declares, or that of its rubrics: `score1_description`, ..."""
    rubrics = material.get("rubrics") or getattr(metric, "rubrics", None) or ()
    levels = [int(found[1]) for key in rubrics if (found := LEVEL.fullmatch(key))]
    if levels:
        return min(levels), max(levels)
    allowed = getattr(metric, "allowed_values", None)
    return allowed if isinstance(allowed, tuple) and len(allowed) == 2 else (0, 1)


async def value_of(metric: Any, material: dict[str, Any]) -> tuple[Any, Any]:
    """The value of the metric, and its reason."""
    if not isinstance(metric, BaseMetric):
        return await metric.single_turn_ascore(SingleTurnSample(**material)), ""
    result = await metric.ascore(**material)
    return result.value, result.reason


@code_judge
def judge(case: CodeJudgeInput) -> dict[str, Any]:
    written, parameters = chosen(case, METRIC, PARAMETERS)
    name = named(written, metrics(), "Ragas")
    kind = metrics()[name]
    constructor = parameters_of(kind)
    if "embeddings" in constructor:
        need_embeddings(case)
    with errors_of(name):
        metric = created(name, kind, {key: value for key, value in parameters.items() if key in constructor})
        of_case = {key: value for key, value in parameters.items() if key not in constructor}
        material = material_of(case, metric, of_case)
        try:
            value, reason = asyncio.run(value_of(metric, material))
        except InstructorRetryException as error:
            if isinstance(error.__cause__, openai.APIStatusError):
                raise
            fail(f"{name} needs a reply in a form of Ragas, which none of {error.n_attempts} replies of the judge had")
    return measured(
        "ragas",
        name,
        value,
        reason,
        scale=scale_of(metric, material),
        is_cosine=name == "SemanticSimilarity",
        lower_is_better=name in LOWER_IS_BETTER,
    )
