"""The console summary: untrusted text is safe, lines fit the terminal, and colour does not change the text."""

from __future__ import annotations

import re

import pytest

from agentv.report.console import render_summary
from agentv.report.summary import Summary, SummaryBuilder
from agentv.results import CaseResult, Trials
from tests.golden.test_console_summary import error_rows, mixed_rows, render, summarize
from tests.report.rows import error_row, result, row

HOSTILE = "\x1b[2J\x1b]0;owned\x07\x9b31mx\u202ey\u2066z\r\n\x00\x7f"


def hostile_rows() -> list[CaseResult]:
    names = {"suite": HOSTILE + "s", "target": HOSTILE + "t"}
    judged = (result(HOSTILE + "e", 0.1, misses=(HOSTILE + "miss",)), result("b", 0.5))
    other = (result(HOSTILE + "e", 0.1, reasoning=HOSTILE + "why"), result("b", 0.5))
    return [
        row(HOSTILE + "id", 0.1, evaluator_results=judged, **names),
        row(HOSTILE + "id2", 0.1, evaluator_results=other),
        error_row(HOSTILE + "id3", HOSTILE + "message", stage="evaluator"),
    ]


@pytest.mark.parametrize("unicode", [True, False])
def test_control_characters_in_rows_do_not_reach_the_terminal(unicode: bool):
    text = render(
        summarize(hostile_rows()),
        run_dir="runs/" + HOSTILE,
        resume_hint="agentv eval --resume " + HOSTILE,
        interrupted=True,
        unicode=unicode,
    )
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    assert "owned" not in text
    assert "miss" in text
    assert "why" in text
    assert "message" in text


@pytest.mark.parametrize("make", [mixed_rows, error_rows, hostile_rows])
def test_color_does_not_change_the_text(make):
    summary = summarize(make())
    colored = render(summary, color=True)
    assert "\x1b[" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == render(summary)


@pytest.mark.parametrize("width", [52, 80, 120])
def test_lines_fit_the_width(width: int):
    text = render(summarize([*mixed_rows(), row("x" * 300, 0.1, suite="y" * 300)]), width=width)
    # Token counts and cost are never cut; paths and commands stay whole so that they can be copied.
    whole = ("  Target  ", "  Judge   ", "  Run     ")
    lines = [line for line in text.splitlines() if not line.startswith(whole)]
    assert len(lines) > 10
    assert max(map(len, lines)) <= width


def test_words_are_not_broken_at_40_columns():
    rows = [
        row("a"),
        *(row(name, 0.1, target=name) for name in ("b" * 60, "c")),
        error_row("d", "the server fell over"),
    ]
    lines = render(summarize(rows, scripted=True), width=40, run_dir="r").splitlines()
    assert max(map(len, lines)) <= 40
    assert lines[:2] == ["✗ 2 of 4 results did not pass, 1", "  errored"]
    assert lines[3:5] == ["  1 passed   2 failed   1 error", "  mean score 0.40   3.2 s"]


def test_worst_case_shows_target_and_attempts_if_they_fit():
    long = "a-target-with-a-rather-long-name"
    repeated = [row("a", score, target=long, attempt=n, trials=Trials(2)) for n, score in ((1, 1.0), (2, 0.1))]
    rows = [*repeated, row("a", target="other")]
    assert f"  a  (1/2 flaky, {long})" in render(summarize(rows), width=120)
    assert f"  a  (1/2 flaky, {long})" in render(summarize(rows), width=80)


def test_summary_is_readable_on_a_terminal_of_width_zero():
    assert "did not pass" in render(summarize(mixed_rows()), width=0)


@pytest.mark.parametrize(
    ("rows", "headline"),
    [
        ([row("a")], "✓ 1 case passed"),
        ([row("a"), row("b")], "✓ all 2 cases passed"),
        ([row("a"), row("b", 0.7)], "✗ 1 of 2 cases did not pass"),
        ([row("a"), error_row("b", "down")], "! 1 of 2 cases errored"),
        ([row("a", 0.1), error_row("b", "down")], "✗ 1 of 2 cases did not pass, 1 errored"),
        ([row("a", trials=Trials(2)), row("a", attempt=2, trials=Trials(2))], "✓ 1 case passed"),
        ([row("a", trials=Trials(3)), row("a", attempt=2)], "! 1 case incomplete"),
        ([row("a", target="s"), row("a", target="t")], "✓ all 2 results passed"),
        ([], "! no cases were run"),
    ],
)
def test_first_line_is_the_outcome(rows: list[CaseResult], headline: str):
    assert render(summarize(rows)).splitlines()[0] == headline


def test_score_below_the_threshold_is_not_rounded_up():
    text = render(summarize([row("a", 0.7999, misses=("nearly",))]))
    assert "0.79  borderline" in text
    assert "0.80" not in text


def test_resume_hint_is_shown_only_for_incomplete_or_errored_runs():
    hint = "agentv eval --resume r1"
    assert hint not in render(summarize([row("a", 0.1)]), resume_hint=hint)
    assert hint in render(summarize([error_row("a", "down")]), resume_hint=hint)
    assert hint in render(summarize([row("a")]), resume_hint=hint, interrupted=True)


def test_summary_shows_how_to_grade_answers_again_after_evaluator_errors():
    again = "agentv eval SUITE --outputs runs/r1"
    assert again in render(summarize([error_row("a", "no JSON", stage="evaluator")]), run_dir="runs/r1")
    assert again not in render(summarize([error_row("a", "down", stage="target")]), run_dir="runs/r1")


def test_scripted_results_are_labelled():
    builder = SummaryBuilder(scripted=True)
    builder.add(row("a"))
    summary: Summary = builder.build()
    text = render_summary(
        summary, run_dir="r", resume_hint=None, interrupted=False, color=False, width=120, unicode=True
    )
    assert "scripted model: these results come from the mock provider, not from a real model" in text
    assert "scripted" not in render(summarize([row("a")]))
