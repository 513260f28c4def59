"""`latency`, `cost`, `token_usage`, `execution_metrics`: check what an answer took against limits.

A figure that the target did not report is an error: an unknown cost is neither within a budget nor over it.
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
    """Adapt the JSON Schema for editors: without `threshold_ms`, `threshold` is in milliseconds."""
    schema["properties"]["threshold"] = {
        "type": "number",
        "minimum": 0,
        "description": "Maximum time in milliseconds; if `threshold_ms` is set, the minimum score to pass.",
    }
    schema["required"] = [name for name in schema["required"] if name != "threshold_ms"]
    schema["anyOf"] = [{"required": ["threshold_ms"]}, {"required": ["threshold"]}]


class Latency(Evaluator):
    """Score 1 if the answer arrived in time, else 0."""

    model_config = ConfigDict(json_schema_extra=_takes_milliseconds)
    WAITS = False

    type: Literal["latency"] = "latency"
    threshold_ms: float = Field(ge=0, description="Maximum time for the answer, in milliseconds.")

    @classmethod
    def normalize(cls, raw: Mapping[str, Any], complain: Complain) -> dict[str, Any]:
        """Read `threshold` as `threshold_ms`, unless both are set: then it is the minimum score to pass."""
        data = super().normalize(raw, complain)
        if "threshold" not in data:
            return data
        if "threshold_ms" in data:
            minimum = data["threshold"]
            if isinstance(minimum, int | float) and minimum > 1:
                complain(
                    "threshold",
                    f"with `threshold_ms`, `threshold` must be a score from 0 to 1, got {show(minimum)}; "
                    "if you meant milliseconds, keep only one of them",
                )
                del data["threshold"]
            return data
        limit = data.pop("threshold")
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 <= limit < math.inf:
            complain("threshold", f"`threshold` must be a number of milliseconds >= 0, got {show(limit)}")
            limit = 0
        return {**data, "threshold_ms": limit}

    async def evaluate(self, context: EvaluationContext) -> Score:
        duration = _known("duration", context.candidate.duration_ms)
        within = duration <= self.threshold_ms
        words = f"took {_format(duration)} ms (limit: {_format(self.threshold_ms)} ms)"
        doubt = f"the limit of {self.threshold_ms:g} ms is very low; for latency, `threshold` alone is in milliseconds"
        return _one(within, words, (doubt,) if 0 < self.threshold_ms <= 1 else ())


class Cost(Evaluator):
    """Score 1 if the answer stayed within its budget, else 0."""

    WAITS = False
    ALIASES: ClassVar[Mapping[str, str]] = {"budget": "budget_usd"}

    type: Literal["cost"] = "cost"
    budget_usd: float = Field(ge=0, description="Maximum cost of the answer, in US dollars.")

    async def evaluate(self, context: EvaluationContext) -> Score:
        spent = _known("cost", context.candidate.cost_usd)
        words = f"cost {_format(spent)} USD (limit: {_format(self.budget_usd)} USD)"
        return _one(_at_most(spent, self.budget_usd), words)


class TokenUsageLimits(Evaluator):
    """Score 1 if the answer stayed within every token limit, else 0."""

    WAITS = False
    ALIASES: ClassVar[Mapping[str, str]] = {
        "maxTotal": "max_total",
        "maxInput": "max_input",
        "maxOutput": "max_output",
    }

    type: Literal["token_usage"] = "token_usage"
    max_total: WholeNumber | None = Field(
        None, ge=0, description="Maximum of input, output and cached tokens together."
    )
    max_input: WholeNumber | None = Field(None, ge=0, description="Maximum number of prompt tokens.")
    max_output: WholeNumber | None = Field(None, ge=0, description="Maximum number of answer tokens.")

    @model_validator(mode="after")
    def _limits_something(self) -> TokenUsageLimits:
        if self.max_total is self.max_input is self.max_output is None:
            raise ValueError("no limit is set; set `max_total`, `max_input` or `max_output`")
        return self

    async def evaluate(self, context: EvaluationContext) -> Score:
        usage = _known("token usage", context.candidate.token_usage)
        used = (
            ("total tokens", usage.total, self.max_total),
            ("input tokens", usage.input, self.max_input),
            ("output tokens", usage.output, self.max_output),
        )
        hits, misses = _checked(used)
        return Score(float(not misses), hits, misses, "; ".join((*misses, *hits)))


class ExecutionMetrics(Evaluator):
    """Several limits on what the answer took. The score is the share of limits that were met."""

    WAITS = False

    type: Literal["execution_metrics"] = "execution_metrics"
    max_tool_calls: WholeNumber | None = Field(None, ge=0, description="Maximum number of tool calls.")
    max_llm_calls: WholeNumber | None = Field(
        None, ge=0, description="Maximum number of model calls, from the trace if it has them, else assistant messages."
    )
    max_tokens: WholeNumber | None = Field(
        None, ge=0, description="Maximum of input, output and cached tokens together."
    )
    max_cost_usd: float | None = Field(None, ge=0, description="Maximum cost, in US dollars.")
    max_duration_ms: float | None = Field(None, ge=0, description="Maximum time, in milliseconds.")
    target_exploration_ratio: float | None = Field(
        None, ge=0, le=1, description="Share of tool calls that only read or search, such as `Read`, `Grep` and `Glob`."
    )
    exploration_tolerance: float = Field(0.2, ge=0, le=1, description="Allowed difference from that share.")

    @model_validator(mode="after")
    def _limits_something(self) -> ExecutionMetrics:
        limits = [*(name for name in type(self).model_fields if name.startswith("max_")), "target_exploration_ratio"]
        if all(getattr(self, name) is None for name in limits):
            raise ValueError(f"no limit is set; set {', '.join(f'`{name}`' for name in limits[:-1])} or `{limits[-1]}`")
        return self

    async def evaluate(self, context: EvaluationContext) -> Score:
        answer = context.candidate
        tokens = answer.token_usage.total if answer.token_usage is not None else None
        figures = (
            ("tool calls", _tool_calls(answer), self.max_tool_calls),
            ("model calls", _llm_calls(answer), self.max_llm_calls),
            ("tokens", tokens, self.max_tokens),
            ("USD", answer.cost_usd, self.max_cost_usd),
            ("ms", answer.duration_ms, self.max_duration_ms),
        )
        limits = [each for each in figures if each[2] is not None]
        unknown = [name for name, actual, _ in limits if actual is None]
        if unknown:
            raise _unreported(", ".join(_FIGURES[name] for name in unknown))
        hits, misses = _checked(limits)
        if self.target_exploration_ratio is not None:
            is_near, words = _exploration(answer, self.target_exploration_ratio, self.exploration_tolerance)
            hits, misses = (*hits, *([words] if is_near else [])), (*misses, *([] if is_near else [words]))
        total = len(hits) + len(misses)
        return Score(len(hits) / total, hits, misses, f"{len(hits)} of {total} limits met")


EXPLORING = frozenset({"read", "grep", "glob", "search", "list", "Read", "Grep", "Glob", "WebSearch", "WebFetch"})
"""Tools that only read or search."""


def _exploration(answer: Candidate, target: float, tolerance: float) -> tuple[bool, str]:
    """Whether the share of tool calls that explore is near the target, in words, too."""
    names = [call.tool for message in answer.output_messages for call in message.tool_calls]
    counted = (answer.trace_summary or {}).get("tool_calls_by_name")
    if not names and isinstance(counted, Mapping):
        names = [name for name, count in counted.items() if isinstance(count, int) for _ in range(min(count, 100_000))]
    if not names and not answer.output_messages and not isinstance(counted, Mapping):
        raise _unreported("tool calls")
    if not names:
        return False, "no tool calls, so there is no share of those that explore"
    share = sum(name in EXPLORING for name in names) / len(names)
    is_near = abs(share - target) <= tolerance + 1e-9
    return is_near, f"{share:.2g} of the tool calls explore (target: {target:g} ± {tolerance:g})"


_FIGURES = {
    "tool calls": "tool calls",
    "model calls": "model calls",
    "tokens": "token usage",
    "USD": "cost",
    "ms": "duration",
}


def _tool_calls(answer: Candidate) -> int | None:
    in_messages = sum(len(message.tool_calls) for message in answer.output_messages)
    in_trace = _counted(answer, "event_count")
    return in_trace if in_trace is not None and not in_messages else in_messages if answer.output_messages else None


def _llm_calls(answer: Candidate) -> int | None:
    counted = _counted(answer, "llm_call_count")
    if counted is not None or not answer.output_messages:
        return counted
    return sum(message.role == "assistant" for message in answer.output_messages)


def _counted(answer: Candidate, name: str) -> int | None:
    count = (answer.trace_summary or {}).get(name)
    return count if isinstance(count, int) and not isinstance(count, bool) and count >= 0 else None


def _checked(figures: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Describe the limits that were met, and those that were exceeded."""
    hits: list[str] = []
    misses: list[str] = []
    for name, actual, limit in figures:
        if limit is not None:
            (hits if _at_most(actual, limit) else misses).append(f"{_format(actual)} {name} (limit: {_format(limit)})")
    return tuple(hits), tuple(misses)


def _at_most(actual: float, limit: float) -> bool:
    """Compare with a tolerance for rounding errors: 0.1 + 0.2 is within 0.3."""
    return actual <= limit or (isinstance(actual, float) and math.isclose(actual, limit, rel_tol=1e-9))


def _format(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:,.10g}"


def _one(within: bool, words: str, warnings: tuple[str, ...] = ()) -> Score:
    hits, misses = ((words,), ()) if within else ((), (words,))
    return Score(float(within), hits, misses, f"the answer {words}", None, warnings)


def _known(figure: str, value: Any) -> Any:
    if value is None:
        raise _unreported(figure)
    return value


def _unreported(figures: str) -> EvaluatorError:
    prices = "Set `prices` of the target if its model is not in the price table, use" if "cost" in figures else "Use"
    return EvaluatorError(
        f"the target did not report {figures}, so the limit cannot be checked",
        next_step=f"{prices} a target that does (a `cli` target can print `token_usage`, `cost_usd` and `duration_ms`; "
        "`--outputs` lines can contain them), or remove the limit.",
    )
