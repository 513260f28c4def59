"""Summaries: counts, means and exit codes, independent of the order of rows."""

from __future__ import annotations

import json
import random
import tracemalloc

import pytest

from agentv.evaluators.registry import evaluator_types
from agentv.messages import TokenUsage
from agentv.report.accumulate import MESSAGE_LENGTH, MESSAGES_KEPT, MISSES_ARE_CRITERIA, ErrorMessages
from agentv.report.summary import Summary, SummaryBuilder
from agentv.results import CaseError, CaseResult, RowKey, Verdict
from tests.report.rows import error_row, ledger, result, row


def summarize(*rows: CaseResult) -> Summary:
    builder = SummaryBuilder()
    for each in rows:
        builder.add(each)
    return builder.build(duration_seconds=1.5)


def test_errored_row_counts_only_as_an_error():
    failed = (result("accuracy", 0.0, error="no JSON"), result("style", 1.0))
    summary = summarize(row("a", 1.0), error_row("b", "no JSON", "evaluator", evaluator_results=failed))
    assert (summary.total, summary.passed, summary.failed, summary.errors) == (2, 1, 0, 1)
    assert summary.mean_score == 1.0
    assert summary.worst == ()
    assert summary.by_target["assistant"].mean_score == 1.0
    assert (summary.by_evaluator["accuracy"].judged, summary.by_evaluator["accuracy"].errors) == (1, 1)
    assert summary.by_evaluator["style"].mean_score == 1.0


def test_mean_is_none_if_all_rows_errored():
    summary = summarize(error_row("a", "target is down"))
    assert summary.mean_score is None
    assert summary.by_evaluator == {}


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ((row("a", 1.0),), 0),
        ((row("a", 1.0), row("b", 0.7)), 1),
        ((row("a", 1.0), row("b", 0.0)), 1),
        ((row("a", 0.0), error_row("b", "down")), 3),
        ((row("a", 1.0), error_row("b", "down")), 3),
    ],
)
def test_errors_take_precedence_over_failures_in_the_exit_code(rows: tuple[CaseResult, ...], code: int):
    assert summarize(*rows).exit_code == code


def test_summary_does_not_depend_on_the_order_of_rows():
    rng = random.Random(4)
    rows = [
        row(
            f"case-{i % 40}",
            rng.random(),
            attempt=i,
            target=f"t{i % 3}",
            suite=f"s{i % 5}",
            cost_usd=rng.random(),
        )
        for i in range(300)
    ]
    # More distinct messages than the limit, so that some are dropped.
    rows += [error_row(f"case-{i}", f"message {rng.randrange(400):03}", attempt=i) for i in range(900)]
    rows += [row(f"tie-{i}", 0.0, misses=("same",)) for i in range(20)]
    first = summarize(*rows)
    for _ in range(5):
        rng.shuffle(rows)
        assert summarize(*rows) == first
    assert [case.eval_id for case in first.worst] == ["tie-0", "tie-1", "tie-10", "tie-11", "tie-12"]


def test_means_do_not_accumulate_rounding_errors():
    assert summarize(*(row(f"c{i}", 0.1) for i in range(10))).mean_score == 0.1


def test_equal_scores_are_sorted_by_suite_case_target_and_attempt():
    keys = [
        ("b", "x", "t", 1),
        ("a", "y", "t", 1),
        ("a", "x", "u", 1),
        ("a", "x", "t", 2),
        ("a", "x", "t", 1),
    ]
    rows = [row(i, 0.5, suite=s, target=t, attempt=n) for s, i, t, n in keys]
    worst = summarize(row("first", 0.4, suite="z"), *rows).worst
    assert [(w.suite, w.eval_id, w.target, w.attempt) for w in worst] == [
        ("z", "first", "assistant", 1),
        *sorted(keys)[:4],
    ]


def test_passed_cases_are_never_among_the_worst():
    strict = row("strict", 0.85)
    strict = CaseResult.from_dict({**strict.to_dict(), "verdict": "borderline"})
    lenient = CaseResult.from_dict({**row("lenient", 0.5).to_dict(), "verdict": "pass"})
    worst = summarize(strict, lenient).worst
    assert [(w.eval_id, w.verdict) for w in worst] == [("strict", Verdict.BORDERLINE)]


def test_reason_comes_from_the_evaluator_that_cost_the_most_score():
    low = result("low", 0.1, reasoning="low")
    assert _reason(low, result("other", 0.5, misses=("m",))) == ("low", "low")
    assert _reason(low, result("must", 0.5, required=True, misses=("m1", "m2"))) == ("must", "missed: m1; m2")
    heavy = result("heavy", 0.5, weight=5.0, reasoning="heavy")
    assert _reason(result("light", 0.0, weight=0.1, misses=("m",)), heavy) == ("heavy", "heavy")
    assert _reason(result("idle", 0.0, weight=0.0, reasoning="idle"), low) == ("low", "low")
    assert _reason(result("broken", 0.0, error="no"), low) == ("low", "low")
    assert _reason(result("silent", 0.0)) == ("silent", "the row's own")


def test_reason_of_a_composite_names_its_costliest_member():
    members = (result("light", 0.0, weight=0.1, misses=("a",)), result("heavy", 0.4, weight=5.0, misses=("b",)))
    group = result("group", 0.3, misses=("[light] a", "[heavy] b"), evaluator_results=members)
    assert _reason(group) == ("group", "[heavy] missed: b")
    assert _reason(result("group", 0.3, misses=("own",), evaluator_results=members)) == ("group", "missed: own")


def test_misses_of_criteria_cannot_be_read_as_praise():
    assert _reason(result("script", 0.75, type="code_judge", misses=("is brief",))) == ("script", "missed: is brief")
    check = result("contains", 0.0, type="contains", misses=("does not contain '9:00'",))
    assert _reason(check) == ("contains", "does not contain '9:00'")


def test_evaluators_with_criteria_as_misses_exist():
    assert set(evaluator_types()) >= MISSES_ARE_CRITERIA - {"function"}


def test_worst_cases_have_the_beginning_of_their_answer():
    case = summarize(row("a", 0.1, candidate_answer="Lyon. " * 10_000)).worst[0]
    assert case.answer.startswith("Lyon. Lyon.")
    assert len(case.answer) == 2000


def _reason(*results) -> tuple[str, str]:
    case = summarize(row("a", 0.1, evaluator_results=results, reasoning="the row's own")).worst[0]
    return case.evaluator, case.reason


def test_most_frequent_errors_come_first_and_the_rest_are_counted():
    rows = [error_row(f"c{n}-{i}", f"message {n}") for n in range(7) for i in range(n + 1)]
    groups = summarize(*rows).error_groups
    assert [(group.message, group.count) for group in groups] == [(f"message {n}", n + 1) for n in (6, 5, 4, 3, 2)]
    assert groups[0].eval_id == "c6-0"


def test_error_counts_are_exact_beyond_the_limit_of_messages():
    names = [f"message {n:03}" for n in range(MESSAGES_KEPT + 50)]
    twice = [names[0], names[MESSAGES_KEPT - 1], names[MESSAGES_KEPT], names[-1]]
    for order in (names + twice, [*reversed(names), *twice], twice + names):
        messages = ErrorMessages()
        for number, message in enumerate(order):
            messages.add(CaseError("target", message), RowKey("suite", f"case {number}", "target", 1))
        counts = {message: count for _, message, count, _ in messages.most_frequent(10_000)}
        assert counts == {name: 2 if name in twice else 1 for name in names[:MESSAGES_KEPT]}


def test_long_error_messages_are_grouped_by_their_beginning():
    begin = "x" * MESSAGE_LENGTH
    groups = summarize(
        error_row("a", begin + "1"), error_row("b", begin + "2"), error_row("c", begin[:-1])
    ).error_groups
    assert [(group.message, group.count) for group in groups] == [(begin, 2), (begin[:-1], 1)]


def test_cost_is_none_if_no_row_has_one():
    summary = summarize(row("a"), row("b"))
    assert summary.cost_usd is None
    assert summary.token_usage is None
    assert summary.judge_calls == 0


def test_cost_is_summed_and_marked_as_a_lower_bound_if_incomplete():
    known = row("a", token_usage=TokenUsage(10, 2), cost_usd=0.25)
    assert summarize(known, known).cost_usd == 0.5
    assert summarize(known, known).cost_complete
    mixed = summarize(known, row("b", token_usage=TokenUsage(1, 1)))
    assert (mixed.cost_usd, mixed.cost_complete) == (0.25, False)
    assert mixed.token_usage == TokenUsage(11, 3)
    assert summarize(known, error_row("c", "down")).cost_complete, (
        "a call without an answer does not make the cost incomplete"
    )


def test_judge_calls_inside_composites_are_counted():
    member = result("member", judge_proxy=ledger(2, 0.5, (7, 1)))
    outer = result("outer", evaluator_results=(member,), judge_proxy=ledger(3, None, (5, 1)))
    summary = summarize(row("a", evaluator_results=(outer, result("idle", judge_proxy=ledger(0)))))
    assert summary.judge_calls == 5
    assert summary.judge_token_usage == TokenUsage(12, 2)
    assert (summary.judge_cost_usd, summary.judge_cost_complete) == (0.5, False)


def test_summary_json_has_the_documented_keys():
    data = json.loads(json.dumps(summarize(row("a", 0.7), error_row("b", "down")).to_dict(), allow_nan=False))
    promised = {
        "total",
        "passed",
        "borderline",
        "failed",
        "errors",
        "mean_score",
        "by_target",
        "by_evaluator",
    }
    assert promised < data.keys()
    assert {"token_usage", "cost_usd", "judge_calls", "duration_seconds"} < data.keys()
    assert data["by_target"]["assistant"]["errors"] == 1
    assert data["worst"][0]["verdict"] == "borderline"


def test_memory_does_not_grow_with_the_number_of_rows():
    builder = SummaryBuilder()

    def feed(numbers: range) -> int:
        for i in numbers:
            builder.add(row(f"case-{i}", (i % 97) / 97, reasoning="x" * 500, cost_usd=i / 7))
            builder.add(error_row(f"error-{i}", f"message {i} " + "y" * 500))
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        early = feed(range(1000))
        late = feed(range(1000, 6000))
    finally:
        tracemalloc.stop()
    assert late - early < 100_000
