"""Measure cases with DeepEval's metrics and a judge that answers from a table: JSON on stdin, one result per line.

A case has `metric`, `options` of the metric, `test_case` and `judgments`. A result has `score` or `error`, and `calls`.
"""

import json
import sys
from typing import Any

from deepeval import metrics
from deepeval.models import DeepEvalBaseLLM
from deepeval.test_case import LLMTestCase, ToolCall, ToolCallParams
from pydantic import create_model

TYPES = {"integer": int, "string": str}


class TableJudge(DeepEvalBaseLLM):
    """A judge whose decisions are fixed. It recognizes a question by the class of the reply that is asked for."""

    def __init__(self, judgments: dict[str, Any]) -> None:
        self.judgments = judgments
        self.calls = 0
        super().__init__("table")

    def load_model(self) -> Any:
        return self

    def get_model_name(self) -> str:
        return "table"

    async def a_generate(self, prompt: str, schema: Any) -> Any:
        return self.generate(prompt, schema)

    def generate(self, prompt: str, schema: Any) -> Any:
        self.calls += 1
        if (text := self.judgments.get("text")) is not None:
            return text
        name = schema.__name__
        if name in ("Claims", "Statements", "Opinions", "Truths", "Questions"):
            return schema(**{name.lower(): self.judgments[name.lower()]})
        if name == "Answers":
            return schema(answers=self.judgments["source" if self.judgments["source_text"] in prompt else "summary"])
        if name == "TaskAndOutcome":
            return schema(task="the task", outcome="the outcome")
        if name == "TaskCompletionVerdict":
            return schema(verdict=self.judgments["number"], reason="reason")
        if name == "ContextualRelevancyVerdicts":
            passages = self.judgments["passages"]
            verdicts = next(passages[text] for text in passages if text in prompt)
            return schema(verdicts=[{"statement": "s", "verdict": word, "reason": "reason"} for word in verdicts])
        return schema(verdicts=[{"verdict": word, "reason": "reason"} for word in self.judgments["verdicts"]])


def measured(case: dict[str, Any]) -> dict[str, Any]:
    judge = TableJudge(case["judgments"])
    options, fields = dict(case["options"]), dict(case["test_case"])
    for name in ("tools_called", "expected_tools"):
        if name in fields:
            fields[name] = [ToolCall(name=tool, input_parameters=given) for tool, given in fields[name]]
    if "properties" in options:
        types = {name: (TYPES[kind], ...) for name, kind in options.pop("properties").items()}
        options["expected_schema"] = create_model("Expected", **types)
    if options.pop("arguments", False):
        options["evaluation_params"] = [ToolCallParams.INPUT_PARAMETERS]
    metric = getattr(metrics, case["metric"])(model=judge, include_reason=False, async_mode=False, **options)
    try:
        metric.measure(LLMTestCase(**fields), _show_indicator=False)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}", "calls": judge.calls}
    return {"score": metric.score, "calls": judge.calls}


for line in sys.stdin:
    print(json.dumps(measured(json.loads(line))), flush=True)
