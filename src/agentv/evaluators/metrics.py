"""`latency`, `cost`, `token_usage`, `execution_metrics`: what an answer took, against limits.

A figure that nobody reported is an error: an unknown cost is neither within a budget nor over it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, Field, model_validator

from agentv.errors import EvaluatorError
from agentv.evaluators.base import Candidate, Complain, EvaluationContext, Evaluator
from agentv.evaluators.json_values import WholeNumber
from agentv.results import Score
from agentv.suite.validation import show


def _takes_milliseconds(schema: dict[str, Any]) -> None:
    """`threshold` of `latency` is in milliseconds when it stands alone."""
    schema["properties"]["threshold"] = {
        "type": "number",
        "minimum": 0,
        "description": "Milliseconds when `threshold_ms` is absent; else the pass line of this evaluator.",
    }
    schema["required"] = [name for name in schema["required"] if name != "threshold_ms"]
    schema["anyOf"] = [{"required": ["threshold_ms"]}, {"required": ["threshold"]}]


class Latency(Evaluator):
    """The answer came in time: 1, or 0."""

    model_config = ConfigDict(json_schema_extra=_takes_milliseconds)
    WAITS = False

    type: Literal["latency"] = "latency"
    threshold_ms: float = Field(ge=0, description="The longest time the answer may take, in milliseconds.")

    @classmethod
    def normalize(cls, raw: Mapping[str, Any], complain: Complain) -> dict[str, Any]:
        """`threshold` alone means `threshold_ms`; beside it, the pass line that every evaluator has."""
        data = super().normalize(raw, complain)
        if "threshold" not in data:
            return data
        if "threshold_ms" in data:
            line = data["threshold"]
            if isinstance(line, int | float) and line > 1:
                complain(
                    "threshold",
                    "`threshold` beside `threshold_ms` is the pass line, a number from 0 to 1; "
                    f"for milliseconds keep one of them, got {show(line)}",
                )
                del data["threshold"]
            return data
        limit = data.pop("threshold")
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 <= limit < math.inf:
            complain("threshold", f"`threshold` must be a number of milliseconds >= 0, got {show(limit)}")
            limit = 0
        return {**data, "threshold_ms": limit}

    async def evaluate(self, context: EvaluationContext) -> Score:
        taken = _known("duration", context.candidate.duration_ms)
        held = taken <= self.threshold_ms
        words = f"took {_shown(taken)} ms of {_shown(self.threshold_ms)} ms allowed"
        doubt = f"{self.threshold_ms:g} ms is very little; `threshold` alone means milliseconds, not the pass line"
        return _one(held, words, (doubt,) if 0 < self.threshold_ms <= 1 else ())


class Cost(Evaluator):
    """The answer cost no more than its budget: 1, or 0."""

    WAITS = False
    ALIASES: ClassVar[Mapping[str, str]] = {"budget": "budget_usd"}

    type: Literal["cost"] = "cost"
    budget_usd: float = Field(ge=0, description="The most the answer may cost, in US dollars.")

    async def evaluate(self, context: EvaluationContext) -> Score:
        spent = _known("cost", context.candidate.cost_usd)
        words = f"cost {_shown(spent)} USD of {_shown(self.budget_usd)} USD allowed"
        return _one(_at_most(spent, self.budget_usd), words)


class TokenUsageLimits(Evaluator):
    """The answer used no more tokens than it may: 1, or 0."""

    WAITS = False
    ALIASES: ClassVar[Mapping[str, str]] = {
        "maxTotal": "max_total",
        "maxInput": "max_input",
        "maxOutput": "max_output",
    }

    type: Literal["token_usage"] = "token_usage"
    max_total: WholeNumber | None = Field(None, ge=0, description="Input, output and cached tokens together.")
    max_input: WholeNumber | None = Field(None, ge=0, description="Tokens of the prompt.")
    max_output: WholeNumber | None = Field(None, ge=0, description="Tokens of the answer.")

    @model_validator(mode="after")
    def _limits_something(self) -> TokenUsageLimits:
        if self.max_total is self.max_input is self.max_output is None:
            raise ValueError("no limit is set: give `max_total`, `max_input` or `max_output`")
        return self

    async def evaluate(self, context: EvaluationContext) -> Score:
        usage = _known("token usage", context.candidate.token_usage)
        used = (
            ("total tokens", usage.total, self.max_total),
            ("input tokens", usage.input, self.max_input),
            ("output tokens", usage.output, self.max_output),
        )
        hits, misses = _sorted_out(used)
        return Score(float(not misses), hits, misses, "; ".join((*misses, *hits)))


class ExecutionMetrics(Evaluator):
    """Several limits on what the answer took: the share of them that held."""

    WAITS = False

    type: Literal["execution_metrics"] = "execution_metrics"
    max_tool_calls: WholeNumber | None = Field(None, ge=0, description="Tool calls made on the way.")
    max_llm_calls: WholeNumber | None = Field(
        None, ge=0, description="Model calls: the assistant messages of the answer, unless its trace counts them."
    )
    max_tokens: WholeNumber | None = Field(None, ge=0, description="Input, output and cached tokens together.")
    max_cost_usd: float | None = Field(None, ge=0, description="US dollars.")
    max_duration_ms: float | None = Field(None, ge=0, description="Milliseconds.")

    @model_validator(mode="after")
    def _limits_something(self) -> ExecutionMetrics:
        own = [name for name in type(self).model_fields if name.startswith("max_")]
        if all(getattr(self, name) is None for name in own):
            raise ValueError(f"no limit is set: give {', '.join(f'`{name}`' for name in own[:-1])} or `{own[-1]}`")
        return self

    async def evaluate(self, context: EvaluationContext) -> Score:
        answer = context.candidate
        tokens = answer.token_usage.total if answer.token_usage is not None else None
        taken = (
            ("tool calls", _tool_calls(answer), self.max_tool_calls),
            ("model calls", _llm_calls(answer), self.max_llm_calls),
            ("tokens", tokens, self.max_tokens),
            ("USD", answer.cost_usd, self.max_cost_usd),
            ("ms", answer.duration_ms, self.max_duration_ms),
        )
        limits = [each for each in taken if each[2] is not None]
        unknown = [name for name, found, _ in limits if found is None]
        if unknown:
            raise _unreported(", ".join(_FIGURES[name] for name in unknown))
        hits, misses = _sorted_out(limits)
        return Score(len(hits) / len(limits), hits, misses, f"{len(hits)} of {len(limits)} limits held")


_FIGURES = {
    "tool calls": "tool calls",
    "model calls": "model calls",
    "tokens": "token usage",
    "USD": "cost",
    "ms": "duration",
}


def _tool_calls(answer: Candidate) -> int | None:
    made = sum(len(message.tool_calls) for message in answer.output_messages)
    counted = _counted(answer, "event_count")
    return counted if counted is not None and not made else made if answer.output_messages else None


def _llm_calls(answer: Candidate) -> int | None:
    counted = _counted(answer, "llm_call_count")
    if counted is not None or not answer.output_messages:
        return counted
    return sum(message.role == "assistant" for message in answer.output_messages)


def _counted(answer: Candidate, name: str) -> int | None:
    found = (answer.trace_summary or {}).get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None


def _sorted_out(taken: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The limits that held, and those that did not, in words."""
    hits: list[str] = []
    misses: list[str] = []
    for name, found, limit in taken:
        if limit is not None:
            (hits if _at_most(found, limit) else misses).append(f"{_shown(found)} {name} of {_shown(limit)} allowed")
    return tuple(hits), tuple(misses)


def _at_most(found: float, limit: float) -> bool:
    """Sums of cents are a hair off: 0.1 + 0.2 is within 0.3."""
    return found <= limit or (isinstance(found, float) and math.isclose(found, limit, rel_tol=1e-9))


def _shown(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:,.10g}"


def _one(held: bool, words: str, warnings: tuple[str, ...] = ()) -> Score:
    return Score(float(held), (words,) if held else (), () if held else (words,), f"the answer {words}", None, warnings)


def _known(figure: str, found: Any) -> Any:
    if found is None:
        raise _unreported(figure)
    return found


def _unreported(figures: str) -> EvaluatorError:
    return EvaluatorError(
        f"the target reported no {figures}, so the limit cannot be checked",
        next_step="Use a target that reports it (a `cli` target can print `token_usage`, `cost_usd` and "
        "`duration_ms`; `--outputs` lines can hold them), or take the limit out.",
    )
