"""The console summary at 80 columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agentv.messages import TokenUsage
from agentv.report.console import render_summary
from agentv.report.summary import Summary, SummaryBuilder
from agentv.results import CaseResult, Trials
from tests.golden import check_golden
from tests.report.rows import error_row, ledger, result, row

RUN_DIR = ".agentv/runs/20260114-101500-k3f9"


def summarize(rows: list[CaseResult], *, scripted: bool = False, duration_seconds: float = 3.24) -> Summary:
    builder = SummaryBuilder(scripted=scripted)
    for each in rows:
        builder.add(each)
    return builder.build(duration_seconds=duration_seconds)


def render(summary: Summary, **options: Any) -> str:
    defaults: dict[str, Any] = {
        "run_dir": RUN_DIR,
        "resume_hint": None,
        "interrupted": False,
        "color": False,
        "width": 80,
        "unicode": True,
    }
    return render_summary(summary, **{**defaults, **options})


def mixed_rows() -> list[CaseResult]:
    """Two targets, two evaluators, some prices, and a script with judge access."""
    precision = {"type": "code_judge", "judge_proxy": ledger(4, 0.0021, (900, 40))}
    rows = []
    for target, scores in {
        "assistant": (1.0, 0.95, 0.2, 0.7),
        "baseline-small": (0.9, 1.0, 0.0, 0.9),
    }.items():
        for number, score in enumerate(scores, start=1):
            misses = () if score >= 0.8 else ("names Lyon, not Paris", "no mention of the river the city lies on")
            evaluators = (
                result("accuracy", score, misses=misses),
                result("contextual_precision", min(1.0, score + 0.05), **precision),
            )
            rows.append(
                row(
                    f"capital-{number}",
                    score,
                    target=target,
                    evaluator_results=evaluators,
                    candidate_answer="Lyon is the capital of France.\n\nIt lies on the Rhone, and " + "so on " * 20,
                    token_usage=TokenUsage(1200, 80),
                    cost_usd=0.0042 if target == "assistant" else None,
                )
            )
    return rows


def error_rows() -> list[CaseResult]:
    rate_limit = (
        "target 'assistant' answered 429 Too Many Requests after 3 attempts.\n"
        "Lower max_concurrency or set requests_per_minute for it in agentv.config.yaml."
    )
    judge = "code_judge 'precision' printed no JSON object. Print one with a \"score\" from 0 to 1 on stdout."
    failed = (result("precision", 0.0, error=judge, type="code_judge"),)
    return [
        *(error_row(f"case-{number}", rate_limit) for number in range(1, 4)),
        error_row("case-9", judge, stage="evaluator", evaluator_results=failed),
        row("case-4", 0.95),
        row("case-5", 0.9),
    ]


def test_every_case_passed():
    rows = [row(f"case-{number}", 0.9 + number / 200) for number in range(12)]
    check_golden("summary_passed", render(summarize(rows, scripted=True, duration_seconds=0.42)))


def test_cases_of_two_targets_did_not_pass():
    summary = summarize(mixed_rows(), duration_seconds=75)
    question = "What is the capital of France,\nand which river flows through it? " + "Answer in one sentence. " * 10
    worst = tuple(replace(case, question=question) for case in summary.worst)
    text = render(replace(summary, worst=worst), show_hint="agentv show capital-3")
    check_golden("summary_mixed", text)


def test_errors_are_shown_separately_from_failures():
    text = render(summarize(error_rows()), resume_hint="agentv eval --resume 20260114-101500-k3f9")
    check_golden("summary_errors", text)


def test_interrupted_run_shows_how_to_resume():
    rows = [
        row("case-1", 0.9),
        row("case-2", 0.65, misses=("the date",), candidate_answer="In spring."),
        row("case-3", 1.0),
    ]
    hint = "agentv eval --resume 20260114-101500-k3f9"
    check_golden("summary_interrupted", render(summarize(rows), interrupted=True, resume_hint=hint))


def test_a_terminal_without_unicode_gets_ascii():
    rows = [row("ville-é", 0.3, misses=("réponse fausse " * 12,)), row("case-2", 1.0)]
    text = render(summarize(rows), unicode=False)
    assert text.isascii()
    check_golden("summary_ascii", text)


def test_many_suites_attempts_and_long_names_fit_the_width():
    rows = [
        row(
            f"a-rather-long-case-name-that-says-everything-about-the-case-{number}",
            min(1.0, number / 20 + attempt / 2),
            suite=f"suite-{number:02}-with-a-name-that-is-far-too-long-for-a-column-of-a-table-at-eighty",
            attempt=1 + attempt,
            trials=Trials(2),
            misses=("日本語の理由は二列の幅を取るので、切る場所を数え間違えやすい。" * 3,),
        )
        for number in range(20)
        for attempt in range(2)
    ]
    check_golden("summary_crowded", render(summarize(rows, duration_seconds=4000)))


def test_no_cases_were_run():
    check_golden("summary_empty", render(summarize([])))
