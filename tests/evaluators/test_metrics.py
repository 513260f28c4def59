from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentv.evaluators.base import Candidate, EvaluationContext
from agentv.evaluators.metrics import Latency
from agentv.evaluators.scoring import judge
from agentv.messages import Message, TokenUsage, ToolCall
from agentv.results import EvaluatorResult
from agentv.run.case import summarize_trace
from agentv.suite.suite import EvalCase
from tests.evaluators.support import an_evaluator, problem_of, without_waiting

CASE = EvalCase(id="case", question="question", input_messages=())


def judged(type_name: str, options: dict[str, Any], **figures: Any) -> EvaluatorResult:
    """Result of an evaluator for an answer with these metrics."""
    return without_waiting(
        judge(an_evaluator(type_name, **options), EvaluationContext(CASE, Candidate("done", **figures)))
    )


@pytest.mark.parametrize(("taken", "score"), [(0.0, 1.0), (1500.0, 1.0), (1500.001, 0.0), (9e9, 0.0)])
def test_latency_passes_up_to_the_limit(taken, score):
    assert judged("latency", {"threshold_ms": 1500}, duration_ms=taken).score == score


@pytest.mark.parametrize(("spent", "score"), [(0.0, 1.0), (0.3, 1.0), (0.1 + 0.2, 1.0), (0.3001, 0.0)])
def test_cost_passes_up_to_the_budget(spent, score):
    assert judged("cost", {"budget_usd": 0.3}, cost_usd=spent).score == score


@pytest.mark.parametrize(
    ("limits", "score"),
    [
        ({"max_total": 115}, 1.0),
        ({"max_total": 114}, 0.0),  # cached tokens are part of the total
        ({"max_input": 100}, 1.0),
        ({"max_input": 99}, 0.0),
        ({"max_output": 10}, 1.0),
        ({"max_output": 9}, 0.0),
        ({"max_input": 100, "max_output": 9}, 0.0),
        ({"max_total": 115, "max_input": 100, "max_output": 10}, 1.0),
        ({"max_total": 1e3}, 1.0),
    ],
)
def test_token_usage_passes_when_every_limit_is_met(limits, score):
    assert judged("token_usage", limits, token_usage=TokenUsage(100, 10, 5)).score == score


def test_hits_and_misses_include_the_value_and_the_limit():
    usage = judged("token_usage", {"max_total": 2000, "max_output": 5}, token_usage=TokenUsage(1000, 10))
    assert usage.hits == ("1,010 total tokens (limit: 2,000)",)
    assert usage.misses == ("10 output tokens (limit: 5)",)
    assert judged("latency", {"threshold_ms": 2000}, duration_ms=1234.5).hits == ("took 1,234.5 ms (limit: 2,000 ms)",)
    assert judged("cost", {"budget_usd": 0.01}, cost_usd=0.02).misses == ("cost 0.02 USD (limit: 0.01 USD)",)


@pytest.mark.parametrize(
    ("type_name", "options", "figure"),
    [
        ("latency", {"threshold_ms": 1}, "duration"),
        ("cost", {"budget_usd": 1}, "cost"),
        ("token_usage", {"max_total": 1}, "token usage"),
        ("execution_metrics", {"max_cost_usd": 1}, "cost"),
        ("execution_metrics", {"max_tokens": 1, "max_duration_ms": 1}, "token usage, duration"),
        ("execution_metrics", {"max_tool_calls": 1}, "tool calls"),
        ("execution_metrics", {"max_llm_calls": 1}, "model calls"),
    ],
)
@pytest.mark.parametrize("negate", [False, True])
def test_unreported_metric_is_an_error(type_name, options, figure, negate):
    result = judged(type_name, {**options, "negate": negate})
    assert result.error is not None
    assert f"the target did not report {figure}, so the limit cannot be checked" in result.error
    assert (result.score, result.verdict.value) == (0.0, "fail")


CALLS = (ToolCall("search"), ToolCall("search"), ToolCall("fetch"))
MESSAGES = (
    Message("assistant", None, tool_calls=CALLS[:2]),
    Message("tool", "found"),
    Message("assistant", None, tool_calls=CALLS[2:]),
    Message("assistant", "done"),
)
TOOK = {"token_usage": TokenUsage(100, 10), "cost_usd": 0.02, "duration_ms": 800.0, "output_messages": MESSAGES}


@pytest.mark.parametrize(
    ("limits", "score"),
    [
        ({"max_tool_calls": 3}, 1.0),
        ({"max_tool_calls": 2}, 0.0),
        ({"max_llm_calls": 3}, 1.0),
        ({"max_llm_calls": 2}, 0.0),
        ({"max_tokens": 110}, 1.0),
        ({"max_tokens": 109}, 0.0),
        ({"max_cost_usd": 0.02}, 1.0),
        ({"max_cost_usd": 0.01}, 0.0),
        ({"max_duration_ms": 800}, 1.0),
        ({"max_duration_ms": 799.9}, 0.0),
        ({"max_tool_calls": 3, "max_tokens": 10}, 0.5),
        ({"max_tool_calls": 0, "max_llm_calls": 9, "max_tokens": 9, "max_cost_usd": 9, "max_duration_ms": 9}, 0.4),
    ],
)
def test_execution_metrics_scores_the_share_of_limits_met(limits, score):
    assert judged("execution_metrics", limits, **TOOK).score == score
    summary = summarize_trace(MESSAGES, TokenUsage(100, 10), 0.02, 800.0)
    assert judged("execution_metrics", limits, **TOOK, trace_summary=summary).score == score


def test_call_counts_of_the_trace_summary_are_used():
    counted = {"event_count": 4, "llm_call_count": 7}
    messages = (Message("assistant", "done"),)
    for limits, score in (
        ({"max_tool_calls": 4}, 1.0),
        ({"max_tool_calls": 3}, 0.0),
        ({"max_llm_calls": 7}, 1.0),
        ({"max_llm_calls": 6}, 0.0),
    ):
        for known in ((), messages):
            result = judged("execution_metrics", limits, output_messages=known, trace_summary=counted)
            assert result.score == score


def test_messages_without_tool_calls_count_as_zero_calls():
    messages = (Message("assistant", "done"),)
    assert judged("execution_metrics", {"max_tool_calls": 0}, output_messages=messages).score == 1.0


@pytest.mark.parametrize(
    ("type_name", "options", "place", "words"),
    [
        ("latency", {}, ("threshold_ms",), "required"),
        ("latency", {"threshold_ms": -1}, ("threshold_ms",), "greater than or equal to 0"),
        ("latency", {"threshold_ms": 10, "threshold": 5}, ("threshold",), "less than or equal to 1"),
        ("cost", {}, ("budget_usd",), "required"),
        ("cost", {"budget_usd": float("inf")}, ("budget_usd",), "finite"),
        ("token_usage", {}, (), "set `max_total`, `max_input` or `max_output`"),
        ("token_usage", {"max_total": 1.5}, ("max_total",), "integer"),
        ("token_usage", {"max_total": True}, ("max_total",), "integer"),
        ("execution_metrics", {}, (), "`max_duration_ms` or `target_exploration_ratio`"),
        ("execution_metrics", {"max_tool_calls": -1}, ("max_tool_calls",), "greater than or equal to 0"),
    ],
)
def test_invalid_options_are_rejected(type_name, options, place, words):
    where, message = problem_of(type_name, **options)
    assert where == place
    assert words in message


@pytest.mark.parametrize(
    ("raw", "normalized", "reported"),
    [
        ({"threshold": 1500}, {"threshold_ms": 1500}, []),
        ({"threshold": 0.5, "threshold_ms": 1500}, {"threshold": 0.5, "threshold_ms": 1500}, []),
        ({"threshold": 1500, "threshold_ms": 1500}, {"threshold_ms": 1500}, ["threshold"]),
        ({"threshold_ms": 1500}, {"threshold_ms": 1500}, []),
        ({"threshold": -1}, {"threshold_ms": 0}, ["threshold"]),
        ({"threshold": "fast"}, {"threshold_ms": 0}, ["threshold"]),
        ({"threshold": float("nan")}, {"threshold_ms": 0}, ["threshold"]),
        ({}, {}, []),
    ],
)
def test_threshold_is_milliseconds_unless_threshold_ms_is_set(raw, normalized, reported):
    complaints: list[str] = []
    assert Latency.normalize(raw, lambda option, _: complaints.append(option)) == normalized
    assert complaints == reported


def test_limit_below_one_millisecond_gets_a_warning():
    (warning,) = judged("latency", {"threshold_ms": 0.9}, duration_ms=5).warnings
    assert "`threshold` alone is in milliseconds" in warning
    assert judged("latency", {"threshold_ms": 2}, duration_ms=5).warnings == ()


# -- properties

AMOUNTS = st.floats(0, 1e12)
COUNTS = st.integers(0, 10**400)
LIMITS = st.fixed_dictionaries(
    {},
    optional={
        "max_tool_calls": COUNTS,
        "max_llm_calls": COUNTS,
        "max_tokens": COUNTS,
        "max_cost_usd": AMOUNTS,
        "max_duration_ms": AMOUNTS,
    },
).filter(bool)


@settings(deadline=None)
@given(LIMITS, AMOUNTS, AMOUNTS, COUNTS, COUNTS)
def test_score_is_between_zero_and_one(limits, spent, taken, read, written):
    figures: dict[str, Any] = {
        "cost_usd": spent,
        "duration_ms": taken,
        "token_usage": TokenUsage(read, written),
        "output_messages": MESSAGES,
    }
    result = judged("execution_metrics", limits, **figures)
    assert result.error is None
    assert result.score == len(result.hits) / len(limits)
    for type_name, options in (
        ("latency", {"threshold_ms": spent}),
        ("cost", {"budget_usd": taken}),
        ("token_usage", {"max_total": written, "max_output": read}),
    ):
        assert judged(type_name, options, **figures).score in (0.0, 1.0)


@settings(deadline=None)
@given(AMOUNTS, AMOUNTS, AMOUNTS)
def test_higher_limit_never_lowers_the_score(taken, one, other):
    narrow, wide = sorted((one, other))
    for type_name, option, figure in (
        ("latency", "threshold_ms", "duration_ms"),
        ("cost", "budget_usd", "cost_usd"),
        ("execution_metrics", "max_duration_ms", "duration_ms"),
    ):
        scores = [judged(type_name, {option: limit}, **{figure: taken}).score for limit in (narrow, wide)]
        assert scores == sorted(scores)


@pytest.mark.parametrize(
    ("options", "score"),
    [
        ({"target_exploration_ratio": 0.7}, 1.0),
        ({"target_exploration_ratio": 0.9}, 0.0),
        ({"target_exploration_ratio": 0.9, "exploration_tolerance": 0.4}, 1.0),
        ({"target_exploration_ratio": 0.9, "max_tool_calls": 4}, 0.5),
    ],
)
def test_exploration_ratio_is_one_of_the_limits(options, score):
    calls = tuple(ToolCall(name) for name in ("Read", "grep", "Edit", "Write"))
    message = Message("assistant", None, tool_calls=calls)
    assert judged("execution_metrics", options, output_messages=(message,)).score == score
