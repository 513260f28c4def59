"""Evaluator types by name. Classes are imported when a suite first uses them."""

from __future__ import annotations

import importlib
from functools import cache

from agentv.evaluators.base import Evaluator

BUILT_IN = {
    "composite": "agentv.evaluators.composite:Composite",
    "code_judge": "agentv.evaluators.code_judge:CodeJudge",
    "llm_judge": "agentv.evaluators.llm_judge:LlmJudge",
    "rubric": "agentv.evaluators.rubric:RubricEvaluator",
    "contains": "agentv.evaluators.text:Contains",
    "icontains": "agentv.evaluators.text:IContains",
    "equals": "agentv.evaluators.text:Equals",
    "starts_with": "agentv.evaluators.text:StartsWith",
    "ends_with": "agentv.evaluators.text:EndsWith",
    "regex": "agentv.evaluators.regex:Regex",
    "is_json": "agentv.evaluators.is_json:IsJson",
    "json_schema": "agentv.evaluators.json_schema:JsonSchema",
    "similarity": "agentv.evaluators.similarity:Similarity",
    "field_accuracy": "agentv.evaluators.field_accuracy:FieldAccuracy",
    "tool_trajectory": "agentv.evaluators.tool_trajectory:ToolTrajectory",
    "latency": "agentv.evaluators.metrics:Latency",
    "cost": "agentv.evaluators.metrics:Cost",
    "token_usage": "agentv.evaluators.metrics:TokenUsageLimits",
    "execution_metrics": "agentv.evaluators.metrics:ExecutionMetrics",
}
"""`type` -> where its class is. A new evaluator is one file and one line here."""

ENTRY_POINTS = "agentv.evaluators"


@cache
def _third_party() -> dict[str, str]:
    from importlib.metadata import entry_points  # noqa: PLC0415 - only unknown types look there

    return {entry.name: entry.value for entry in entry_points(group=ENTRY_POINTS)}


def evaluator_types() -> list[str]:
    """Every type a suite can name."""
    return sorted({*BUILT_IN, *_third_party()})


@cache
def evaluator_class(type_name: str) -> type[Evaluator] | None:
    """The class of an evaluator type, or None when there is no such type."""
    where = BUILT_IN.get(type_name) or _third_party().get(type_name)
    if where is None:
        return None
    module, _, name = where.partition(":")
    found = getattr(importlib.import_module(module), name)
    if not (isinstance(found, type) and issubclass(found, Evaluator)):
        raise TypeError(f"{where} (evaluator type '{type_name}') is not an agentv Evaluator")
    return found
