"""Comparing two runs case by case."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random

import pytest

from agentv.errors import RecordError, UsageError
from agentv.report.compare import Conclusion, Outcome, compare, decide, format_delta
from agentv.report.compared_run import read_compared_run
from agentv.report.comparison_console import render_comparison
from agentv.report.comparison_numbers import comparison_headline
from agentv.report.groups import GroupName, compare_groups
from agentv.report.markdown import render_comparison_markdown
from agentv.report.row_source import find_rows
from agentv.report.terminal import Look
from agentv.results import CaseResult
from tests.report.rows import error_row, row
from tests.report.sources import HOSTILE, compared, source_of, write_rows, write_run


def scored(scores: list[float], **fields: object) -> list[CaseResult]:
    return [row(f"case-{number}", score, **fields) for number, score in enumerate(scores)]


# -- pairing


def test_target_names_are_ignored_when_each_run_has_one_target(tmp_path: Path):
    comparison = compared(tmp_path, scored([0.5], target="old"), scored([0.7], target="new"))
    assert [(pair.score1, pair.score2, pair.delta) for pair in comparison.pairs] == [(0.5, 0.7, 0.2)]


def test_cases_are_paired_by_target_when_a_run_has_several(tmp_path: Path):
    one = [row("a", 0.1, target="x"), row("a", 0.9, target="y")]
    two = [row("a", 0.2, target="x"), row("a", 0.9, target="z")]
    comparison = compared(tmp_path, one, two)
    assert [(pair.key.target, pair.delta) for pair in comparison.pairs] == [("x", 0.1)]
    assert [key.target for key in comparison.only_baseline] == ["y"]
    assert [key.target for key in comparison.only_candidate] == ["z"]


def test_two_targets_of_one_run_can_be_compared(tmp_path: Path):
    rows = [row("a", 0.1, target="x"), row("a", 0.9, target="y")]
    comparison = compared(tmp_path, rows, rows, targets=("x", "y"))
    assert [pair.delta for pair in comparison.pairs] == [0.8]


def test_the_same_id_in_two_suites_is_two_cases(tmp_path: Path):
    one = [row("a", 0.1, suite="s"), row("a", 0.5, suite="t")]
    two = [row("a", 0.5, suite="t"), row("a", 0.3, suite="s")]
    assert [(pair.key.suite, pair.delta) for pair in compared(tmp_path, one, two).pairs] == [("s", 0.2), ("t", 0.0)]


def test_a_repeated_case_counts_once_with_its_mean_score(tmp_path: Path):
    one = [row("a", score, attempt=number) for number, score in enumerate((0.1, 0.2, 0.3), 1)]
    comparison = compared(tmp_path, one, [row("a", 0.5)])
    assert len(comparison.pairs) == 1
    assert comparison.mean_delta == 0.3
    assert any("3 attempts in the baseline and 1 in the candidate" in note for note in comparison.notes())


def test_results_of_a_case_with_several_targets_count_once(tmp_path: Path):
    changes = [0.4, -0.2, 0.3, 0.1, 0.2, -0.1, 0.3, 0.0]
    one = [row(f"c{n}", 0.5, target=target) for n in range(8) for target in "xyz"]
    two = [row(f"c{n}", 0.5 + change, target=target) for n, change in enumerate(changes) for target in "xyz"]
    several = compared(tmp_path, one, two)
    single = compared(tmp_path, scored([0.5] * 8), scored([0.5 + change for change in changes]))
    assert several.tested == single.tested
    summaries = [comparison.to_dict()["summary"] for comparison in (several, single)]
    assert [summary["cases"] for summary in summaries] == [8, 8]
    assert [summary["matched"] for summary in summaries] == [24, 8]
    for name in ("mean1", "mean2", "mean_delta", "interval", "sign_test_p", "mcnemar_p", "pass_rate1", "pass_rate2"):
        assert summaries[0][name] == summaries[1][name]
    assert comparison_headline(several).startswith("no significant difference over 8 cases, each with 3 targets: ")
    assert "each case counts once, with its mean over 3 targets" in several.notes()[0]
    assert compared(tmp_path, one[1:], two[1:]).each_with == "up to 3 targets"


def test_one_case_with_six_targets_is_too_few(tmp_path: Path):
    one, two = ([row("a", score, target=target) for target in "uvwxyz"] for score in (0.1, 0.9))
    comparison = compared(tmp_path, one, two)
    assert (comparison.conclusion, len(comparison.pairs)) == (Conclusion.TOO_FEW, 6)
    groups = compare_groups(comparison.pairs, {GroupName("tag", "t"): range(6)}, 0.95)
    assert [(group.cases, group.conclusion, group.p) for group in groups] == [(1, Conclusion.TOO_FEW, 1.0)]


def test_a_case_passes_if_more_than_half_of_its_attempts_pass(tmp_path: Path):
    two_of_three = [row("a", score, attempt=number) for number, score in enumerate((0.9, 0.9, 0.1), 1)]
    one_of_two = [row("a", score, attempt=number) for number, score in enumerate((0.9, 0.1), 1)]
    comparison = compared(tmp_path, two_of_three, one_of_two)
    assert comparison.passed == (1, 0)
    assert comparison.flips == (0, 1)


def test_a_duplicate_row_is_an_error_that_names_both_lines(tmp_path: Path):
    path = write_rows(tmp_path / "a.jsonl", [row("a"), row("b"), row("a", 0.5)])
    with pytest.raises(RecordError, match=r"lines 1 and 3, 'a'"):
        read_compared_run(source_of(path))


def test_an_invalid_row_is_an_error_that_names_the_line(tmp_path: Path):
    path = write_rows(tmp_path / "a.jsonl", [row("a")])
    path.write_bytes(path.read_bytes() + b'{"score": 1}\n')
    with pytest.raises(RecordError, match="line 2 is not a valid row"):
        read_compared_run(source_of(path))


def test_a_torn_last_line_is_skipped_and_a_complete_one_without_newline_is_read(tmp_path: Path):
    run = write_run(tmp_path / "run", [row("a"), row("b")])
    whole = (run / "results.jsonl").read_bytes()
    (run / "results.jsonl").write_bytes(whole[:-40])
    assert read_compared_run(source_of(run)).rows == 1
    (tmp_path / "c.jsonl").write_bytes(whole.rstrip())
    assert read_compared_run(source_of(tmp_path / "c.jsonl")).rows == 2


def test_rows_written_by_the_npm_package_are_read(tmp_path: Path):
    line = {"timestamp": "2026-01-14T10:00:00Z", "eval_id": "a", "dataset": "geography", "score": 0.4, "target": "t"}
    (tmp_path / "a.jsonl").write_text(json.dumps(line) + "\n" + json.dumps({**line, "eval_id": "b", "error": "down"}))
    side = read_compared_run(source_of(tmp_path / "a.jsonl"))
    assert (side.rows, side.error_rows) == (2, 1)


def test_runs_without_common_cases_are_a_usage_error_that_lists_suites_and_targets(tmp_path: Path):
    with pytest.raises(UsageError, match=r"no cases in common[\s\S]*geography; and history"):
        compared(tmp_path, [row("a")], [row("b", suite="history")])
    several = [row("a", suite="history"), row("a", suite="physics")]  # which of them is meant is not known
    with pytest.raises(UsageError, match=r"no cases in common[\s\S]*geography; and history, physics"):
        compared(tmp_path, [row("a")], several)
    with pytest.raises(UsageError, match=r"--target-a \(x\) and --target-b \(y, z\)"):
        compared(tmp_path, [row("a", target="x")], [row("a", target="y"), row("a", target="z")])


def test_a_target_without_rows_is_a_usage_error_that_lists_the_available_targets(tmp_path: Path):
    with pytest.raises(UsageError, match=r"no rows for target 'z'[\s\S]*assistant"):
        compared(tmp_path, [row("a")], [row("a")], targets=("z", None))


def test_rows_are_found_by_results_file_run_id_id_prefix_and_run_directory(tmp_path: Path):
    run = write_run(tmp_path / ".agentv/runs/20260114-101500-k3f9", [row("a")], scripted=True)
    for name in ("20260114-101500-k3f9", "2026", str(run), str(run / "results.jsonl")):
        assert find_rows(name, tmp_path).scripted
    copy = write_rows(tmp_path / "copy.jsonl", [row("a")])
    assert not find_rows(str(copy), tmp_path).scripted
    with pytest.raises(RecordError, match=r"results file not found: gone\.jsonl"):
        find_rows("gone.jsonl", tmp_path)
    with pytest.raises(RecordError, match="run 'gone' not found"):
        find_rows("gone", tmp_path)


# -- the numbers


@pytest.mark.parametrize(
    ("one", "two", "outcome"),
    [
        (0.2, 0.3, Outcome.WIN),  # 0.3 - 0.2 is less than 0.1 in binary
        (0.3, 0.2, Outcome.LOSS),
        (0.2, 0.29, Outcome.TIE),
        (0.5, 0.5, Outcome.TIE),
    ],
)
def test_the_threshold_between_win_and_tie_is_exact(tmp_path: Path, one: float, two: float, outcome: Outcome):
    assert compared(tmp_path, scored([one]), scored([two])).pairs[0].outcome is outcome


def test_an_unchanged_score_is_a_tie_with_a_threshold_of_zero(tmp_path: Path):
    comparison = compared(tmp_path, scored([0.5, 0.5]), scored([0.5, 0.500001]), threshold=0.0)
    assert [pair.outcome for pair in comparison.pairs] == [Outcome.TIE, Outcome.WIN]


def test_a_loss_in_every_case_is_a_regression(tmp_path: Path):
    comparison = compared(tmp_path, scored([0.9] * 12), scored([0.5 + n / 100 for n in range(12)]))
    decision = decide(comparison)
    assert comparison.conclusion is Conclusion.WORSE
    assert comparison.interval is not None
    assert comparison.interval.high < 0
    assert decision.exit_code == 1
    assert "excludes 0" in decision.reasons[0]


def test_a_win_in_every_case_is_not_a_regression(tmp_path: Path):
    comparison = compared(tmp_path, scored([0.5] * 12), scored([0.9] * 12))
    assert (comparison.conclusion, decide(comparison).exit_code) == (Conclusion.BETTER, 0)
    assert comparison.gain == 0.8


def test_a_difference_that_may_be_chance_is_not_a_regression(tmp_path: Path):
    random = Random(2)
    one = [random.random() for _ in range(40)]
    comparison = compared(tmp_path, scored(one), scored(random.sample(one, len(one))))
    assert (comparison.conclusion, decide(comparison).exit_code) == (Conclusion.UNCLEAR, 0)


def test_a_conclusion_needs_at_least_six_cases(tmp_path: Path):
    few = compared(tmp_path, scored([0.9] * 5), scored([0.1] * 5))
    assert (few.conclusion, few.interval, decide(few).exit_code) == (Conclusion.TOO_FEW, None, 0)
    assert "too few" in decide(few).reasons[0]
    assert compared(tmp_path, scored([0.9] * 6), scored([0.1] * 6)).conclusion is Conclusion.WORSE


def test_equal_scores_are_reported_as_the_same(tmp_path: Path):
    comparison = compared(tmp_path, scored([0.9] * 9), scored([0.9] * 9))
    assert (comparison.conclusion, decide(comparison).exit_code) == (Conclusion.SAME, 0)
    assert comparison.to_dict()["summary"]["sign_test_p"] == 1.0


@pytest.mark.parametrize(("limit", "code"), [(0.1, 0), (0.0999999, 1), (0.2, 0)])
def test_a_drop_of_exactly_the_limit_is_allowed(tmp_path: Path, limit: float, code: int):
    comparison = compared(tmp_path, scored([0.3, 0.5, 0.8]), scored([0.2, 0.4, 0.7]))
    assert comparison.mean_delta == -0.1
    decision = decide(comparison, max_drop=limit)
    assert decision.exit_code == code
    assert code == 0 or "fell by 0.100, more than" in decision.reasons[0]


# -- errored cases


def test_an_errored_case_is_reported_separately_and_not_as_a_loss(tmp_path: Path):
    one, two = scored([0.9] * 8), [*scored([0.9] * 7), error_row("case-7", "the judge is down", stage="evaluator")]
    comparison = compared(tmp_path, one, two)
    assert (len(comparison.pairs), comparison.count(Outcome.LOSS), comparison.mean_delta) == (7, 0, 0.0)
    assert [case.candidate_error for case in comparison.unjudged] == ["the judge is down"]
    decision = decide(comparison)
    assert decision.exit_code == 3
    assert "1 case scored in the baseline errored in the candidate" in decision.reasons[0]
    assert decide(comparison, allow_errors=True).exit_code == 0


def test_errors_only_in_the_baseline_do_not_fail_the_candidate(tmp_path: Path):
    comparison = compared(tmp_path, [*scored([0.9] * 7), error_row("case-7", "down")], scored([0.9] * 8))
    assert decide(comparison).exit_code == 0
    assert comparison.unjudged[0].baseline_error == "down"


def test_an_errored_attempt_is_reported_and_the_other_attempts_are_compared(tmp_path: Path):
    two = [row("a", 0.4), error_row("a", "down", attempt=2)]
    comparison = compared(tmp_path, [row("a", 0.5), row("a", 0.5, attempt=2)], two)
    assert [pair.delta for pair in comparison.pairs] == [-0.1]
    assert comparison.unjudged[0].compared
    assert decide(comparison).exit_code == 3
    assert comparison.to_dict()["summary"]["total"] == 1


def test_an_error_takes_precedence_over_a_regression_and_both_are_reported(tmp_path: Path):
    comparison = compared(tmp_path, scored([0.9] * 8), [*scored([0.1] * 7), error_row("case-7", "down")])
    decision = decide(comparison, max_drop=0.1)
    assert decision.exit_code == 3
    assert len(decision.reasons) == 3


def test_no_scored_case_in_common_exits_with_3(tmp_path: Path):
    comparison = compared(tmp_path, [error_row("a", "down")], [error_row("a", "down")])
    assert decide(comparison, allow_errors=True).exit_code == 3
    assert "errored" not in render_comparison(comparison, decide(comparison), Look()).splitlines()[0]


# -- output


def test_json_has_the_keys_of_the_npm_package(tmp_path: Path):
    comparison = compared(tmp_path, scored([0.2, 0.5, 0.9]), [*scored([0.9, 0.5, 0.2]), row("new")])
    data = json.loads(json.dumps(comparison.to_dict(), allow_nan=False))
    assert {"eval_id", "score1", "score2", "delta", "outcome"} <= data["matched"][0].keys()
    assert [match["outcome"] for match in data["matched"]] == ["win", "tie", "loss"]
    assert data["unmatched"] == {"file1": 0, "file2": 1}
    summary = {name: data["summary"][name] for name in ("total", "matched", "wins", "losses", "ties", "mean_delta")}
    assert summary == {"total": 4, "matched": 3, "wins": 1, "losses": 1, "ties": 1, "mean_delta": 0.0}


def hostile(folder: Path, *, names: bool = True):
    name = HOSTILE if names else "x"
    one = [row(f"{name}{n}", 0.9, suite=name, target=name, misses=(HOSTILE,)) for n in range(8)]
    two = [row(f"{name}{n}", 0.1, suite=name, target=name, misses=(HOSTILE,)) for n in range(6)]
    two += [error_row(f"{name}6", HOSTILE, suite=name, target=name), row(f"{name}x", 1.0, suite=name, target=name)]
    return compared(folder, one, two)


@pytest.mark.parametrize("unicode", [True, False])
def test_text_from_rows_cannot_control_a_terminal_or_ci_log(tmp_path: Path, unicode: bool):
    comparison = hostile(tmp_path)
    for text in (
        render_comparison(comparison, decide(comparison), Look(unicode=unicode)),
        render_comparison_markdown(comparison, decide(comparison)),
    ):
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
        assert not re.search(r"^\s*::", text, re.MULTILINE)
        assert "##[" not in text
        assert "set-env" in text


@pytest.mark.parametrize("width", [72, 80, 120])
def test_lines_fit_the_width(tmp_path: Path, width: int):
    one = [row(f"{'long-' * 40}{n}", 0.9, misses=("word " * 90,)) for n in range(9)]
    two = [row(f"{'long-' * 40}{n}", 0.2, misses=("word " * 90,)) for n in range(8)]
    comparison = compared(tmp_path, one, [*two, error_row(f"{'long-' * 40}8", "message " * 90)])
    lines = render_comparison(comparison, decide(comparison), Look(width=width)).splitlines()
    names = ("  baseline   ", "  candidate  ")
    assert max(len(line) for line in lines if not line.startswith(names)) <= width


def test_color_does_not_change_the_text(tmp_path: Path):
    comparison = hostile(tmp_path, names=False)
    colored = render_comparison(comparison, decide(comparison), Look(color=True))
    assert "\x1b[" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == render_comparison(comparison, decide(comparison), Look())


def test_regressions_show_the_reason_from_the_candidate_and_wins_from_the_baseline(tmp_path: Path):
    one = [row("down", 0.9, misses=("fine then",)), row("up", 0.1, misses=("wrong then",))]
    two = [row("down", 0.1, misses=("wrong now",)), row("up", 0.9, misses=("fine now",))]
    comparison = compared(tmp_path, one, two)
    text = render_comparison(comparison, decide(comparison), Look())
    assert re.search(r"0\.90 → 0\.10 +-0\.800  down\n +· missed: wrong now", text)
    assert re.search(r"0\.10 → 0\.90 +\+0\.800  up\n +· was missing: wrong then", text)


def test_normalised_gain_is_printed_only_if_it_is_meaningful(tmp_path: Path):
    for baseline, candidate, gain, printed in ((0.5, 0.75, 0.5, "+0.50"), (0.5, 0.25, -0.5, "-0.50")):
        comparison = compared(tmp_path, scored([baseline] * 6), scored([candidate] * 6))
        assert comparison.to_dict()["summary"]["normalised_gain"] == gain
        assert f"normalised gain {printed}" in render_comparison(comparison, decide(comparison), Look())
        assert f"normalised gain {printed}" in render_comparison_markdown(comparison, decide(comparison))
    close_to_one = compared(tmp_path, scored([0.99] * 6), scored([0.73] * 6))
    assert close_to_one.to_dict()["summary"]["normalised_gain"] == -26.0
    assert "normalised gain" not in render_comparison(close_to_one, decide(close_to_one), Look())
    assert "normalised gain" not in render_comparison_markdown(close_to_one, decide(close_to_one))


def test_newly_passed_and_newly_failed_count_only_changed_verdicts(tmp_path: Path):
    comparison = compared(tmp_path, scored([0.9, 0.9, 0.1, 0.1, 0.1]), scored([0.9, 0.1, 0.9, 0.9, 0.1]))
    summary = comparison.to_dict()["summary"]
    assert (comparison.passed, comparison.flips) == ((2, 3), (2, 1))
    assert (summary["newly_passed"], summary["newly_failed"], summary["mcnemar_p"]) == (2, 1, 1.0)


def test_a_drop_just_over_the_limit_is_printed_with_enough_digits(tmp_path: Path):
    comparison = compared(tmp_path, scored([0.5] * 3), scored([0.3996] * 3))
    assert decide(comparison, max_drop=0.1).reasons[0] == "the mean score fell by 0.1004, more than the allowed 0.1"
    comparison = compared(tmp_path, scored([0.5] * 3), scored([0.25] * 3))
    assert decide(comparison, max_drop=0.1).reasons[0] == "the mean score fell by 0.250, more than the allowed 0.1"


def test_a_note_explains_how_repeated_cases_count(tmp_path: Path):
    twice = [row("a", 0.5, attempt=number) for number in (1, 2)]
    assert any("each case counts once" in note for note in compared(tmp_path, twice, twice).notes())
    assert compared(tmp_path, twice[:1], twice[:1]).notes() == []
    failed = [row("a", 0.5), error_row("a", "down", attempt=2)]
    assert any("2 attempts in the baseline and 1" in note for note in compared(tmp_path, failed, twice[:1]).notes())


def test_the_first_error_and_the_first_lowest_attempt_are_reported(tmp_path: Path):
    misses = ("fine", "wrong first", "wrong later")
    attempts = [row("a", 0.9 if miss == "fine" else 0.2, attempt=n, misses=(miss,)) for n, miss in enumerate(misses, 1)]
    errors = [error_row("a", "down", attempt=4), error_row("a", "up", attempt=5)]
    comparison = compared(tmp_path, [row("a")], [*attempts, *errors])
    assert "wrong first" in comparison.pairs[0].reason
    assert comparison.unjudged[0].candidate_error == "down"
    perfect = row("a", 1.0, misses=("a trifle",))
    assert compared(tmp_path, [perfect], [perfect]).pairs[0].reason == ""


@pytest.mark.parametrize(("count", "listed"), [(5, "t0, t1, t2, t3, t4)"), (6, "t0, t1, t2, t3, t4 and 1 more)")])
def test_at_most_five_targets_are_listed(tmp_path: Path, count: int, listed: str):
    one = [row("a", target=f"t{number}") for number in range(count)]
    with pytest.raises(UsageError) as error:
        compared(tmp_path, one, [row("a", target="other")])
    assert f"--target-a ({listed}" in str(error.value)


def test_a_tie_shows_the_reason_from_the_candidate(tmp_path: Path):
    comparison = compared(tmp_path, [row("a", 0.5, misses=("wrong then",))], [row("a", 0.5, misses=("wrong now",))])
    assert "wrong now" in comparison.pairs[0].reason


def test_changes_below_the_threshold_are_listed_only_without_larger_ones(tmp_path: Path):
    comparison = compared(tmp_path, scored([0.5] * 5), scored([0.3, 0.1, 0.45, 0.55, 0.9]))
    assert [pair.delta for pair in comparison.worst(5)] == [-0.4, -0.2]
    assert [pair.delta for pair in comparison.best(5)] == [0.4]
    small = compared(tmp_path, scored([0.5] * 4), scored([0.45, 0.44, 0.56, 0.55]))
    assert [pair.delta for pair in small.worst(1)] == [-0.06]
    assert [pair.delta for pair in small.best(5)] == [0.06, 0.05]


@pytest.mark.parametrize(("judged", "allow_errors", "code"), [(7, False, 3), (7, True, 0), (8, False, 0)])
def test_an_unfinished_candidate_is_an_error_if_cases_are_missing(
    tmp_path: Path, judged: int, allow_errors: bool, code: int
):
    one = write_run(tmp_path / "one", scored([0.5] * 8))
    two = write_run(tmp_path / "two", scored([0.5] * judged), status="interrupted")
    comparison = compare(read_compared_run(source_of(one)), read_compared_run(source_of(two)))
    decision = decide(comparison, allow_errors=allow_errors)
    assert decision.exit_code == code
    assert ("lacks 1 case of the baseline" in decision.reasons[0]) is (code == 3)


def test_scripted_and_unfinished_runs_are_labelled(tmp_path: Path):
    one = write_run(tmp_path / "one", scored([0.5] * 3), scripted=True)
    two = write_run(tmp_path / "two", scored([0.5] * 3), status="interrupted")
    comparison = compare(read_compared_run(source_of(one)), read_compared_run(source_of(two)))
    text = render_comparison(comparison, decide(comparison), Look(width=120))
    assert "scripted model: the baseline comes from the mock provider" in text
    assert "the candidate run is incomplete (interrupted)" in text


def test_a_small_difference_is_never_printed_as_zero():
    assert format_delta(-0.0004) == "-0.0004"
    assert format_delta(0.0006) == "+0.001"
    assert format_delta(0.0) == "0.000"
    assert format_delta(0.12) == "+0.120"
