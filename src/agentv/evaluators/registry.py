"""Registry of evaluator types. Classes are imported when a suite first uses them."""

from __future__ import annotations

import importlib
from functools import cache

from agentv.evaluators.base import Evaluator

BUILT_IN = {
    "composite": "agentv.evaluators.composite:Composite",
    "code_judge": "agentv.evaluators.code_judge:CodeJudge",
    "metric": "agentv.evaluators.metric:MetricEvaluator",
    "python": "agentv.evaluators.python_check:PythonCheck",
    "javascript": "agentv.evaluators.javascript_check:JavaScriptCheck",
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
    "skill_used": "agentv.evaluators.skill_used:SkillUsed",
    "latency": "agentv.evaluators.metrics:Latency",
    "cost": "agentv.evaluators.metrics:Cost",
    "token_usage": "agentv.evaluators.metrics:TokenUsageLimits",
    "execution_metrics": "agentv.evaluators.metrics:ExecutionMetrics",
}
"""Class path by `type`. To add an evaluator, write a file and add a line here."""

ENTRY_POINTS = "agentv.evaluators"


@cache
def _third_party() -> dict[str, str]:
    from importlib.metadata import entry_points  # noqa: PLC0415 - only needed for types that are not built in

    return {entry.name: entry.value for entry in entry_points(group=ENTRY_POINTS)}


def evaluator_types() -> list[str]:
    """All evaluator types that a suite can use."""
    return sorted({*BUILT_IN, *_third_party()})


@cache
def evaluator_class(type_name: str) -> type[Evaluator] | None:
    """Return the class of an evaluator type, or None if the type is unknown."""
    where = BUILT_IN.get(type_name) or _third_party().get(type_name)
    if where is None:
        return None
    module, _, name = where.partition(":")
    kind = getattr(importlib.import_module(module), name)
    if not (isinstance(kind, type) and issubclass(kind, Evaluator)):
        raise TypeError(f"{where} (evaluator type '{type_name}') must be a subclass of agentv's Evaluator")
    return kind
