"""Scores the case with a metric of DeepEval (package `deepeval`)."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import deepeval.metrics
from deepeval import test_case as shapes

from agentv_eval import CodeJudgeInput, code_judge
from agentv_eval.library_metrics import (
    checked_parameters,
    chosen,
    errors_of,
    gathered,
    measured,
    named,
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
    tool_calls,
)

METRIC = ""
PARAMETERS: dict[str, Any] = {}

SINGLE = deepeval.metrics.BaseMetric
CONVERSATION = deepeval.metrics.BaseConversationalMetric
PARAMS = getattr(shapes, "SingleTurnParams", None) or shapes.LLMTestCaseParams


def calls(made: list[dict[str, Any]]) -> list[Any]:
    return [
        shapes.ToolCall(
            name=str(call.get("tool")),
            input_parameters=call["input"] if isinstance(call.get("input"), dict) else None,
            output=call.get("output"),
        )
        for call in made
    ]


def turns_of(case: CodeJudgeInput) -> list[Any]:
    return [
        shapes.Turn(
            role=message["role"],
            content=message_text(message),
            tools_called=calls(message.get("tool_calls") or []) or None,
        )
        for message in conversation_of(case)
        if message["role"] in ("user", "assistant")
    ]


FIELDS = {
    "input": question_of,
    "actual_output": answer_of,
    "expected_output": reference_of,
    "context": context_of,
    "retrieval_context": context_of,
    "tools_called": lambda case: calls(tool_calls(case)),
    "expected_tools": lambda case: calls(expected_tool_calls(case)),
}
CONVERSATION_FIELDS = {"turns": turns_of, "context": context_of, "expected_outcome": reference_of}


def metrics() -> dict[str, Any]:
    kinds = {name: kind for name, kind in vars(deepeval.metrics).items() if inspect.isclass(kind)}
    bases = (SINGLE, CONVERSATION)
    return {name: kind for name, kind in kinds.items() if issubclass(kind, bases) and kind not in bases}


def created(name: str, parameters: dict[str, Any]) -> Any:
    """The metric. Parameters that are objects in DeepEval are strings and mappings in a suite."""
    kind = metrics()[name]
    parameters = checked_parameters(name, parameters_of(kind), parameters)
    convert: dict[str, Any] = {
        "evaluation_params": lambda written: param(name, kind, written),
        "rubric": lambda level: deepeval.metrics.g_eval.Rubric(**{**level, "score_range": tuple(level["score_range"])}),
        "available_tools": lambda tool: shapes.ToolCall(**tool),
    }
    return kind(
        **{
            key: [convert[key](each) for each in value] if key in convert and isinstance(value, list) else value
            for key, value in parameters.items()
        }
    )


def param(name: str, kind: Any, written: str) -> Any:
    """A member of the enumeration that the metric takes as `evaluation_params`."""
    members = shapes.ToolCallParams if name == "ToolCorrectnessMetric" else PARAMS
    if issubclass(kind, CONVERSATION):
        members = shapes.MultiTurnParams
    known = {member.value: member for member in members}
    return known.get(written.lower()) or fail(
        f"`evaluation_params` of {name} has no '{written}'; available: {', '.join(known)}"
    )


def test_case(case: CodeJudgeInput, metric: Any) -> Any:
    """What the metric needs is required, and the rest of the case is added."""
    if isinstance(metric, CONVERSATION):
        role = ["chatbot_role"] if getattr(metric, "_requires_chatbot_role", False) else []
        optional = [*CONVERSATION_FIELDS, "scenario", "user_description", "chatbot_role"]
        return shapes.ConversationalTestCase(**gathered(case, CONVERSATION_FIELDS, ["turns", *role], optional))
    declared = getattr(metric, "_required_params", None)
    needed = [*(declared if isinstance(declared, list) else []), *(getattr(metric, "evaluation_params", None) or [])]
    required = ["input", *(each.value for each in needed if isinstance(each, PARAMS))]
    return shapes.LLMTestCase(**gathered(case, FIELDS, required, FIELDS))


def lower_is_better(metric: Any) -> bool:
    """Whether 0 is best, as in metrics like `BiasMetric` of older versions: then a score of 0 passes."""
    probe = copy.copy(metric)
    probe.threshold, probe.score, probe.error = 0.5, 0.0, None
    return bool(probe.is_successful())


def verdicts_of(metric: Any) -> dict[str, Any]:
    verdicts = [each for each in getattr(metric, "verdicts", None) or () if hasattr(each, "model_dump")]
    return {"verdicts": [each.model_dump(mode="json") for each in verdicts]} if verdicts else {}


@code_judge
def judge(case: CodeJudgeInput) -> dict[str, Any]:
    written, parameters = chosen(case, METRIC, PARAMETERS)
    name = named(written, metrics(), "DeepEval")
    with errors_of(name):
        metric = created(name, parameters)
        metric.measure(test_case(case, metric))
    return measured(
        "deepeval",
        name,
        metric.score,
        metric.reason,
        lower_is_better=lower_is_better(metric),
        details=verdicts_of(metric),
    )
