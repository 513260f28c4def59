"""Scores the case with a metric of Ragas (package `ragas`)."""

from __future__ import annotations

import asyncio
import inspect
import re
from typing import Any

import openai
import ragas.metrics.collections
from instructor.core.exceptions import InstructorRetryException
from ragas import messages as shapes
from ragas.embeddings import OpenAIEmbeddings
from ragas.llms import llm_factory
from ragas.metrics.collections.base import BaseMetric

from agentv_eval import CodeJudgeInput, code_judge
from agentv_eval.library_metrics import (
    check_parameters,
    chosen,
    gathered,
    judge_errors,
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
    kinds = {name: kind for name, kind in vars(ragas.metrics.collections).items() if inspect.isclass(kind)}
    return {name: kind for name, kind in kinds.items() if issubclass(kind, BaseMetric) and kind is not BaseMetric}


def fields_of(kind: Any) -> tuple[dict[str, Any], dict[str, bool]]:
    """How each field is found, and whether the metric requires it. Metrics of agents take messages as `user_input`."""
    annotation = str(inspect.signature(kind.ascore).parameters.get("user_input", ""))
    special = {"user_input": messages_of} if "Message" in annotation else {}
    return {**FIELDS, **special}, parameters_of(kind.ascore)


def created(kind: Any, parameters: dict[str, Any]) -> Any:
    """The metric. Its parameters `llm` and `embeddings` are names of models here."""
    accepted = parameters_of(kind)
    client = openai.AsyncOpenAI()
    if "llm" in accepted:
        parameters = {**parameters, "llm": llm_factory(parameters.get("llm", LLM), client=client)}
    if "embeddings" in accepted:
        model = parameters.get("embeddings", EMBEDDINGS)
        parameters = {**parameters, "embeddings": OpenAIEmbeddings(client=client, model=model)}
    check_parameters(kind.__name__, accepted, parameters)
    return kind(**parameters)


def scale_of(metric: Any, material: dict[str, Any]) -> tuple[float, float]:
    """The range that the metric declares, or that of its rubrics: `score1_description`, ..."""
    rubrics = material.get("rubrics") or getattr(metric, "rubrics", None) or ()
    levels = [int(found[1]) for key in rubrics if (found := LEVEL.fullmatch(key))]
    if levels:
        return min(levels), max(levels)
    allowed = getattr(metric, "allowed_values", None)
    return allowed if isinstance(allowed, tuple) and len(allowed) == 2 else (0, 1)


@code_judge
def judge(case: CodeJudgeInput) -> dict[str, Any]:
    written, parameters = chosen(case, METRIC, PARAMETERS)
    name = named(written, metrics(), "Ragas")
    kind = metrics()[name]
    if "embeddings" in parameters_of(kind):
        need_embeddings(case)
    found_by, fields = fields_of(kind)
    of_case = {field: parameters.pop(field) for field in fields if field in parameters}
    required = [field for field, needed in fields.items() if needed]
    material = gathered(case, found_by, required, fields, of_case)
    with judge_errors():
        metric = created(kind, parameters)
        try:
            result = asyncio.run(metric.ascore(**material))
        except InstructorRetryException as error:
            if isinstance(error.__cause__, openai.APIStatusError):
                raise
            fail(f"{name} needs a reply in a form of Ragas, which none of {error.n_attempts} replies of the judge had")
    return measured(
        "ragas",
        name,
        result.value,
        result.reason,
        scale=scale_of(metric, material),
        is_cosine=name == "SemanticSimilarity",
        lower_is_better=name in LOWER_IS_BETTER,
    )
