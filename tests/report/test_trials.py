"""Cases with several attempts: pass@k, pass^k, spread, flaky cases, and rows that do not say how many attempts."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import pytest

from agentv.report.summary import SummaryBuilder
from agentv.report.trials import RepeatedCases, Repeats, not_passed, pass_at, pass_hat
from agentv.results import CaseResult, PassIf, Trials, Verdict
from agentv.trials import Attempts
from tests.report.rows import error_row, row


def attempts(eval_id: str, scores: list[float], trials: Trials | None = None) -> list[CaseResult]:
    trials = trials or Trials(len(scores))
    return [row(eval_id, score, attempt=number, trials=trials) for number, score in enumerate(scores, 1)]


def statistics(rows: list[CaseResult]) -> Repeats:
    cases = RepeatedCases()
    for each in rows:
        assert cases.add(each)
    found = cases.statistics()
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("k", "at_least_one", "all_of_them"), [(1, 2 / 5, 2 / 5), (2, 7 / 10, 1 / 10), (3, 9 / 10, 0.0), (5, 1.0, 0.0)]
)
def test_pass_at_k_and_pass_hat_k_of_two_passes_in_five(k: int, at_least_one: float, all_of_them: float):
    (case,) = _cases(attempts("a", [1, 0, 1, 0, 0]))
    assert pass_at(k, case) == pytest.approx(at_least_one)
    assert pass_hat(k, case) == pytest.approx(all_of_them)
    assert pass_at(6, case) is None


def test_estimators_are_unbiased():
    """Over all outcomes of 4 attempts, weighted by their probability, they give the probability for 2 attempts."""
    chance, at_least_one, both = 0.3, 0.0, 0.0
    for outcome in product([1.0, 0.0], repeat=4):
        (case,) = _cases(attempts("a", list(outcome)))
        weight = chance**case.passes * (1 - chance) ** (4 - case.passes)
        at_least_one += weight * (pass_at(2, case) or 0.0)
        both += weight * (pass_hat(2, case) or 0.0)
    assert [at_least_one, both] == pytest.approx([1 - 0.7**2, 0.3**2])


def test_estimates_are_means_over_cases_with_wilson_intervals():
    rows = [*attempts("a", [1, 1]), *attempts("b", [1, 0]), *attempts("c", [0, 0]), *attempts("d", [0, 0])]
    found = statistics(rows)
    assert (found.cases, found.count, found.pass_if) == (4, 2, ("majority",))
    assert {k: each.value for k, each in found.pass_at_k.items()} == {"1": 0.375, "2": 0.5}
    assert {k: each.value for k, each in found.pass_hat_k.items()} == {"1": 0.375, "2": 0.25}
    low, high = found.pass_at_k["2"].interval
    assert (round(low, 4), round(high, 4)) == (0.15, 0.85)  # 2 of 4 by Wilson
    assert found.spread == pytest.approx((0.5 / 4) ** 0.5)  # within: 0, 0.5, 0 and 0 with one degree of freedom each
    assert [case.eval_id for case in found.flaky] == []  # b is flaky and did not pass


def test_cases_with_too_few_scored_attempts_are_left_out_of_an_estimate():
    rows = [*attempts("a", [1, 1]), *attempts("b", [1], Trials(2)), error_row("b", "down", attempt=2, trials=Trials(2))]
    found = statistics(rows)
    assert (found.pass_at_k["1"].cases, found.pass_at_k["2"].cases) == (2, 1)


def test_summary_does_not_depend_on_the_order_of_rows():
    generator = random.Random(3)
    rows = [
        replace(each, threshold=0.8)
        for number in range(40)
        for each in attempts(
            f"case-{number}",
            [generator.choice([0.0, 0.3, 0.7, 1.0]) for _ in range(3)],
            Trials(3, generator.choice(list(PassIf))),
        )
    ]
    rows += [row(f"single-{number}", number / 10) for number in range(10)]
    builder = SummaryBuilder()
    for each in rows:
        builder.add(each)
    expected = builder.build().to_dict()
    assert expected["total"] == 50
    generator.shuffle(rows)
    again = SummaryBuilder()
    for each in rows:
        again.add(each)
    assert again.build().to_dict() == expected


def test_rows_of_older_runs_are_grouped_by_the_options_of_their_run():
    rows = [row("a", attempt=1), row("a", attempt=2), row("b", attempt=1), row("b", 0.1, attempt=2)]
    old = {"suites": [{"name": "geography"}], "options": {"repeat": 3}}
    builder = SummaryBuilder.of(old)
    for each in rows:
        builder.add(each)
    summary = builder.build()
    assert (summary.passed, summary.incomplete, summary.exit_code) == (1, 1, 3)  # one of three attempts is missing
    assert not_passed(rows, old) == [rows[2].key.case]
    assert not_passed(rows, {}) == [rows[2].key.case]  # a file outside a run: one of two is not a majority
    new = {"suites": [{"name": "geography", "trials": None}]}
    assert not RepeatedCases.of(new).add(rows[0])  # the rows of a new run say if there are several attempts


def test_cases_that_did_not_pass_include_errors_and_incomplete_cases():
    rows = [
        *attempts("fine", [1, 0, 1]),
        *attempts("bad", [1, 0, 0]),
        *attempts("incomplete", [1], Trials(3)),
        row("single"),
        row("single-bad", 0.2),
        error_row("errored", "down"),
    ]
    found = not_passed(rows, {"suites": [{"trials": None}]})
    assert [key.eval_id for key in found] == ["bad", "incomplete", "single-bad", "errored"]


def test_worst_attempt_of_a_failed_case_is_shown():
    builder = SummaryBuilder()
    for each in attempts("a", [0.9, 0.1, 0.3], Trials(3, PassIf.ALL)):
        builder.add(each)
    (worst,) = builder.build().worst
    assert (worst.attempt, worst.passes, worst.attempts, worst.verdict) == (2, 1, 3, Verdict.FAIL)
    assert worst.score == pytest.approx(1.3 / 3)


def _cases(rows: list[CaseResult]) -> list[Attempts]:
    cases = RepeatedCases()
    for each in rows:
        cases.add(each)
    return list(cases.cases.values())
