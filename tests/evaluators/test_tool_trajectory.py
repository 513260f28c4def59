from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentv.evaluators.base import Candidate, EvaluationContext
from agentv.evaluators.expected_calls import ExpectedCall
from agentv.evaluators.scoring import judge
from agentv.evaluators.tool_trajectory import IN_LINE_PAIRS, pair_up
from agentv.messages import Message, ToolCall
from agentv.results import EvaluatorResult
from agentv.suite.suite import EvalCase
from tests.evaluators.support import an_evaluator, problem_of, without_waiting

CASE = EvalCase(id="case", question="question", input_messages=())


def calls_of(*made: Any) -> tuple[ToolCall, ...]:
    """`"search"`, or `("search", {"q": 1})` with its arguments."""
    return tuple(ToolCall(each) if isinstance(each, str) else ToolCall(each[0], each[1]) for each in made)


def judged(candidate: Candidate, **options: Any) -> EvaluatorResult:
    result = judge(an_evaluator("tool_trajectory", **options), EvaluationContext(CASE, candidate))
    compared = len(candidate.output_messages) * len(options.get("expected") or ())
    return asyncio.run(result) if compared > IN_LINE_PAIRS else without_waiting(result)


def after(*made: Any, **options: Any) -> EvaluatorResult:
    """Result for an answer with these calls, each in a separate message."""
    messages = [Message("assistant", None, tool_calls=(call,)) for call in calls_of(*made)]
    return judged(Candidate("done", (*messages, Message("assistant", "done"))), **options)


def tools(*names: str) -> list[dict[str, Any]]:
    return [{"tool": name} for name in names]


# -- any order


@pytest.mark.parametrize(
    ("made", "minimums", "score"),
    [
        (["a", "b"], {"a": 1, "b": 1}, 1.0),
        (["b", "a"], {"a": 1, "b": 1}, 1.0),
        (["a"], {"a": 1, "b": 1}, 0.5),
        (["a", "a", "c"], {"a": 3, "b": 1, "c": 1}, 1 / 3),
        (["a"], {"b": 1}, 0.0),
        (["a"], {"a": 1, "b": 0}, 1.0),
        ([], {"a": 1}, 0.0),
        ([], {"a": 0}, 1.0),
    ],
)
def test_any_order_scores_the_share_of_minimums_met(made, minimums, score):
    assert after(*made, mode="any_order", minimums=minimums).score == score


def test_any_order_reports_the_call_count_of_each_tool():
    result = after("a", "a", "a", "b", mode="any_order", minimums={"a": 2, "b": 2, "c": 1})
    assert result.hits == ("'a' was called 3 times (at least 2)",)
    assert result.misses == ("'b' was called once; expected at least 2", "'c' was never called; expected at least 1")
    assert result.reasoning == "1 of 3 tools were called often enough"


@pytest.mark.parametrize(
    ("made", "expected", "score"),
    [
        (["b", "a", "a"], tools("a", "b", "a"), 1.0),
        (["b", "a"], tools("a", "b", "a"), 0.5),
        ([("a", {"q": 1})], [{"tool": "a", "args": {"q": 2}}], 0.0),
        # The expectation with arguments gets the only call that matches it.
        ([("a", {"q": 1}), ("a", {"q": 2})], [{"tool": "a"}, {"tool": "a", "args": {"q": 1}}], 1.0),
    ],
)
def test_any_order_accepts_a_list_of_expected_calls(made, expected, score):
    assert after(*made, mode="any_order", expected=expected).score == score


def test_any_order_works_with_trace_summary_counts():
    counted = Candidate("done", trace_summary={"tool_calls_by_name": {"a": 2}})
    assert judged(counted, mode="any_order", minimums={"a": 2, "b": 1}).score == 0.5
    assert judged(counted, mode="any_order", expected=tools("a", "a", "a")).score == 0.0


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "in_order", "expected": tools("a")},
        {"mode": "exact", "expected": tools("a")},
        {"mode": "any_order", "expected": [{"tool": "a", "args": {"q": 1}}]},
    ],
)
def test_trace_summary_counts_are_not_enough_for_order_or_arguments(options):
    result = judged(Candidate("done", trace_summary={"tool_calls_by_name": {"a": 2}}), **options)
    assert result.error is not None
    assert "the target reported only the number of tool calls" in result.error


# -- in order


@pytest.mark.parametrize(
    ("made", "expected", "score"),
    [
        ("ab", "ab", 1.0),
        ("xaxbx", "ab", 1.0),
        ("ba", "ab", 0.0),  # all calls, in another order
        ("bab", "ab", 1.0),
        ("a", "ab", 0.5),
        ("ca", "abc", 2 / 3),  # matched at any position
        ("x", "ab", 0.0),
        ("a", "aa", 0.5),  # one call cannot match twice
        ("aab", "aba", 0.0),
    ],
)
def test_in_order_scores_one_for_a_subsequence_or_the_matched_share(made, expected, score):
    assert after(*made, mode="in_order", expected=tools(*expected)).score == score


def test_call_with_wrong_arguments_does_not_consume_the_expected_call():
    expected = [{"tool": "a", "args": {"q": 2}}, {"tool": "b"}]
    assert after(("a", {"q": 1}), ("a", {"q": 2}), "b", mode="in_order", expected=expected).score == 1.0


def test_in_order_reports_each_position():
    result = after("b", ("a", {"q": 1}), mode="in_order", expected=[{"tool": "a", "args": {"q": 2}}, {"tool": "b"}])
    assert result.score == 0.5
    assert result.hits == ("2. 'b' was called",)
    assert result.misses == ("1. 'a' with the expected q was not called with these arguments",)
    swapped = after("b", "a", mode="in_order", expected=tools("a", "b"))
    assert swapped.hits == ("1. 'a' was called in order",)
    assert swapped.misses == ("2. 'b' was not called in order",)
    assert swapped.reasoning == "all expected calls were made, but in a different order"


# -- exact


@pytest.mark.parametrize(
    ("made", "expected", "score"),
    [
        ("ab", "ab", 1.0),
        ("abc", "ab", 0.0),  # an extra call
        ("xa", "a", 0.0),
        ("a", "ab", 0.5),
        ("ba", "ab", 0.0),
        ("axc", "abc", 2 / 3),
        ("", "ab", 0.0),
    ],
)
def test_exact_compares_by_position_and_rejects_extra_calls(made, expected, score):
    assert after(*made, mode="exact", expected=tools(*expected)).score == score


def test_exact_reports_each_position():
    result = after("a", ("b", {"q": 1}), "c", mode="exact", expected=[*tools("a"), {"tool": "b", "args": {"q": 2}}])
    assert result.hits == ("call 1 is 'a'",)
    assert result.misses == (
        "call 2 must be 'b' with the expected q, got 'b' with different arguments",
        "call 3 is 'c', which is unexpected",
    )
    assert result.reasoning == "1 call more than the 2 expected"
    short = after("a", mode="exact", expected=tools("a", "b"))
    assert short.misses == ("call 2 must be 'b', but is missing",)


# -- arguments


@pytest.mark.parametrize(
    ("args", "given", "score"),
    [
        ("any", {"q": 1}, 1.0),
        (None, None, 1.0),
        ({}, None, 1.0),
        ({"q": 1}, {"q": 1, "other": 2}, 1.0),
        ({"q": 1}, {"q": 1.0}, 1.0),
        ({"q": 1}, {"q": True}, 0.0),
        ({"q": 1}, {"q": "1"}, 0.0),
        ({"q": None}, {}, 0.0),
        ({"q": None}, {"q": None}, 1.0),
        ({"q": {"a": [1, {"b": 2}]}}, {"q": {"a": [1, {"b": 2}]}}, 1.0),
        ({"q": {"a": 1}}, {"q": {"a": 1, "b": 2}}, 0.0),  # nested values must be equal
        ({"q": [1, 2]}, {"q": [2, 1]}, 0.0),
        ({"q": 1}, "q", 0.0),
        ({"q": 1}, None, 0.0),
    ],
)
def test_listed_arguments_must_be_equal_and_others_are_ignored(args, given, score):
    for mode in ("in_order", "exact", "any_order"):
        assert after(("a", given), mode=mode, expected=[{"tool": "a", "args": args}]).score == score


# -- missing calls and traces


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "any_order", "minimums": {}},
        {"mode": "any_order", "expected": []},
        {"mode": "in_order", "expected": []},
    ],
)
def test_empty_list_requires_no_calls(options):
    for made in ([], ["a"]):
        result = after(*made, **options)
        assert (result.score, result.reasoning) == (1.0, "no tool calls are required")


def test_exact_empty_list_passes_only_without_calls():
    assert after(mode="exact", expected=[]).score == 1.0
    assert after("a", mode="exact", expected=[]).score == 0.0


@pytest.mark.parametrize(
    "options", [{"mode": "any_order", "minimums": {"a": 0}}, {"mode": "in_order", "expected": tools("a")}]
)
def test_missing_trace_scores_zero_with_the_reason(options):
    result = judged(Candidate("done"), **options)
    assert (result.score, result.error) == (0.0, None)
    assert result.reasoning == "the answer has no trace: neither output messages nor a trace summary"


def test_reasoning_mentions_an_answer_without_calls():
    result = after(mode="in_order", expected=tools("a"))
    assert result.reasoning == "0 of 1 expected calls were made; no tools were called"


# -- options


@pytest.mark.parametrize(
    ("options", "place", "words"),
    [
        ({"mode": "any"}, ("mode",), "'any_order', 'in_order', 'exact', 'superset' or 'subset'"),
        ({"mode": "in_order"}, (), "`mode: in_order` requires `expected`"),
        ({"mode": "exact", "minimums": {"a": 1}}, (), "`mode: exact` requires `expected`"),
        ({"mode": "any_order"}, (), "requires `minimums`, like `{search: 1}`, or `expected`"),
        ({"mode": "any_order", "minimums": {"a": -1}}, ("minimums", "a"), "greater than or equal to 0"),
        ({"mode": "any_order", "minimums": {"a": 1.5}}, ("minimums", "a"), "integer"),
        ({"mode": "exact", "expected": [{"args": {}}]}, ("expected", 0, "tool"), "Field required"),
        ({"mode": "exact", "expected": [{"tool": "a", "arg": {}}]}, ("expected", 0, "arg"), "Extra inputs"),
        ({"mode": "exact", "expected": [{"tool": "a", "args": "some"}]}, ("expected", 0, "args"), "must be `any`"),
    ],
)
def test_invalid_options_are_rejected(options, place, words):
    where, message = problem_of("tool_trajectory", **options)
    assert where == place
    assert words in message


def test_ignored_options_are_reported():
    expected = [{"tool": "a", "input": {"q": 1}, "output": "x"}]
    assert after("a", mode="in_order", expected=expected, minimums={"b": 1}).warnings == (
        "`minimums` is ignored: `mode: in_order` uses `expected`",
        "`input` of an expected call is ignored; only `args` is compared",
        "`output` of an expected call is ignored; only `args` is compared",
    )
    (warning,) = after("a", mode="any_order", expected=tools("a"), minimums={"b": 1}).warnings
    assert warning.startswith("`expected` is ignored")


# -- properties

NAMES = st.sampled_from("abc")
CALL = st.tuples(NAMES, st.none() | st.fixed_dictionaries({"q": st.integers(0, 2)}))
EXPECTED = st.fixed_dictionaries(
    {"tool": NAMES}, optional={"args": st.just("any") | st.fixed_dictionaries({"q": st.integers(0, 2)})}
)


@settings(deadline=None)
@given(st.lists(CALL, max_size=8), st.lists(EXPECTED, max_size=6), st.sampled_from(["any_order", "in_order", "exact"]))
def test_score_is_between_zero_and_one(made, expected, mode):
    result = after(*made, mode=mode, expected=expected)
    assert result.error is None
    assert 0.0 <= result.score <= 1.0
    assert (result.score == 1.0) == (not result.misses)


@settings(deadline=None)
@given(st.lists(CALL, max_size=8), st.lists(EXPECTED, max_size=6), st.randoms())
def test_any_order_is_independent_of_call_and_expectation_order(made, expected, random):
    shuffled = random.sample(made, len(made))
    anyhow = random.sample(expected, len(expected))
    minimums = {each["tool"]: len(each) for each in expected}
    for one, other in (
        ({"expected": expected}, {"expected": anyhow}),
        ({"minimums": minimums}, {"minimums": dict(reversed(minimums.items()))}),
    ):
        assert after(*made, mode="any_order", **one).score == after(*shuffled, mode="any_order", **other).score


@settings(deadline=None)
@given(st.lists(CALL, max_size=6), st.data())
def test_in_order_matches_calls_with_other_calls_between(made, data):
    kept = [each for each in made if data.draw(st.booleans())]
    expected = [{"tool": tool, "args": args or "any"} for tool, args in kept]
    assert after(*made, mode="in_order", expected=expected).score == 1.0
    assert after(*kept, mode="exact", expected=expected).score == 1.0


@settings(deadline=None)
@given(st.lists(CALL, max_size=5), st.lists(EXPECTED, max_size=5))
def test_pairing_is_maximal(made, expected):
    calls, wanted = calls_of(*made), [ExpectedCall.model_validate(each) for each in expected]
    pairs = pair_up(wanted, calls)
    assert len(set(pairs.values())) == len(pairs)
    assert all(wanted[index].fits(calls[at]) for index, at in pairs.items())

    def most(index: int, free: frozenset[int]) -> int:
        if index == len(wanted):
            return 0
        taken = [1 + most(index + 1, free - {at}) for at in free if wanted[index].fits(calls[at])]
        return max([most(index + 1, free), *taken])

    assert len(pairs) == most(0, frozenset(range(len(calls))))


def test_in_order_scores_a_long_trace_against_a_long_list():
    expected = [{"tool": "a", "args": {"q": n % 7}} for n in range(300)] + tools(*["a"] * 300)
    made = [("a", {"q": n % 11}) for n in range(3000)]
    assert after(*made, mode="in_order", expected=expected).score == 1.0
    assert after(*reversed(made[:500]), mode="in_order", expected=expected).score == 500 / 600


def test_thousands_of_unexpected_calls_are_not_listed_one_by_one():
    result = after(*["a"] * 5_000, mode="exact", expected=tools("a"))
    assert result.score == 0
    assert len(result.misses) == 101
    assert result.misses[-1] == "4,899 more calls are unexpected"


# -- other ways to compare


ARGS = {"q": 1, "deep": {"year": 2020}}


@pytest.mark.parametrize(
    ("args_match", "args", "matches"),
    [
        (None, {"q": 1}, True),
        ("superset", {"q": 2}, False),
        ("exact", ARGS, True),
        ("exact", {"q": 1}, False),
        ("exact", {}, False),
        ("subset", {**ARGS, "more": 3}, True),
        ("subset", {"q": 1}, False),
        ("ignore", {"q": 2}, True),
        (["deep.year"], {"q": 2, "deep": {"year": 2020}}, True),
        (["deep.year", "other"], {"deep": {"year": 1}}, False),
        ("exact", "any", True),
    ],
)
def test_args_match_decides_how_arguments_are_compared(args_match, args, matches):
    expected = [{"tool": "a", "args": args}]
    assert after(("a", ARGS), mode="exact", expected=expected, args_match=args_match).score == float(matches)
    if args_match is not None:
        own = [{"tool": "a", "args": args, "args_match": args_match}]
        assert after(("a", ARGS), mode="exact", expected=own, args_match="ignore").score == float(matches)


@pytest.mark.parametrize(
    ("mode", "made", "names", "score"),
    [
        ("superset", ["c", "b", "a"], ["a", "b"], 1.0),
        ("superset", ["a"], ["a", "a"], 0.5),
        ("subset", ["a", "a"], ["a", "b"], 1.0),
        ("subset", ["a", "c", "c", "b"], ["a", "b"], 0.5),
        ("subset", [], ["a"], 1.0),
        ("subset", ["a"], [], 0.0),
        ("superset", [], [], 1.0),
    ],
)
def test_superset_and_subset_have_no_order(mode, made, names, score):
    assert after(*made, mode=mode, expected=tools(*names)).score == score


@pytest.mark.parametrize(
    ("mode", "durations", "limits", "score"),
    [
        ("in_order", [10, 90], [50, 50], 3 / 4),
        ("in_order", [10, None], [50, 50], 1.0),
        ("in_order", [10], [50, 50], 2 / 4),
        ("exact", [10, 90], [None, 50], 2 / 3),
        ("exact", [10, 10, 10], [50, 50], 0.0),
        ("superset", [90, 90], [50, 50], 1.0),
    ],
)
def test_time_limits_are_one_more_check_each(mode, durations, limits, score):
    calls = tuple(ToolCall(name, duration_ms=each) for name, each in zip("abc", durations, strict=False))
    expected = [{"tool": name, "max_duration_ms": each} for name, each in zip("ab", limits, strict=True)]
    candidate = Candidate("done", (Message("assistant", None, tool_calls=calls),))
    assert judged(candidate, mode=mode, expected=expected).score == pytest.approx(score)


def test_maximums_and_all_or_nothing():
    options = {"mode": "any_order", "minimums": {"a": 1, "b": 0}, "maximums": {"b": 0}}
    assert after("a", **options).score == 1.0
    assert after("a", "b", **options).score == 0.5
    assert after("a", "b", **options, all_or_nothing=True).score == 0.0
    assert after("a", "b", **options).misses == ("'b' was called once; expected at most 0",)
