"""`agentv compare` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentv.results import CaseResult
from tests.conftest import Project
from tests.report.rows import error_row, row
from tests.report.sources import HOSTILE, write_rows

GOOD = [row(f"case-{n}", 0.9) for n in range(8)]
WORSE = [row(f"case-{n}", 0.2 + n / 100, misses=("names Lyon",)) for n in range(8)]


def files(project: Project, one: list[CaseResult], two: list[CaseResult]) -> tuple[str, str]:
    write_rows(project.root / "a.jsonl", one)
    write_rows(project.root / "b.jsonl", two)
    return "a.jsonl", "b.jsonl"


def test_regression_exits_with_1_and_prints_the_reason(project: Project):
    done = project.run("compare", *files(project, GOOD, WORSE))
    assert done.returncode == 1
    assert done.stdout.startswith("✗ the candidate is worse over 8 cases: mean score -0.665\n")
    assert "exit code 1: statistically significant regression: the interval of the difference excludes 0" in done.stdout
    assert "names Lyon" in done.stdout
    assert "\x1b" not in done.stdout


def test_no_regression_exits_with_0(project: Project):
    done = project.run("compare", *files(project, WORSE, GOOD))
    assert done.returncode == 0
    assert "exit code 0: no regression" in done.stdout


@pytest.mark.parametrize(("limit", "code"), [("0.1", 0), ("0.09", 1)])
def test_max_drop_is_checked_separately(project: Project, limit: str, code: int):
    names = files(project, [row("a", 0.3), row("b", 0.9)], [row("a", 0.2), row("b", 0.8)])
    done = project.run("compare", *names, "--max-drop", limit)
    assert done.returncode == code
    assert done.stdout.startswith("? too few cases: 2 compared, at least 6 needed")


def test_errors_only_in_candidate_exit_with_3_unless_allowed(project: Project):
    names = files(project, GOOD, [*GOOD[:7], error_row("case-7", "the judge is down", stage="evaluator")])
    done = project.run("compare", *names)
    assert done.returncode == 3
    assert "the judge is down" in done.stdout
    assert project.run("compare", *names, "--allow-errors").returncode == 0


def test_json_output_is_complete_and_alone_on_stdout(project: Project):
    names = files(project, GOOD, [row(f"case-{n}", 0.2, misses=(HOSTILE,)) for n in range(8)])
    done = project.run("compare", *names, "--json")
    data = json.loads(done.stdout)
    assert done.returncode == data["exit_code"] == 1
    assert data["summary"]["losses"] == 8
    assert data["matched"][0]["reason"] == f"missed: {HOSTILE}"
    assert "##[" not in done.stdout
    assert project.run("compare", *names, "--format", "json").stdout == done.stdout


def test_markdown_output_fits_pull_requests(project: Project):
    done = project.run("compare", *files(project, GOOD, WORSE), "-f", "markdown")
    assert done.returncode == 1
    assert "| mean score | 0.900 | 0.235 | -0.665 |" in done.stdout
    assert "Exit code 1:" in done.stdout


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("a.jsonl", "gone.jsonl"), "results file not found: gone.jsonl"),
        (("a.jsonl", "no-such-run"), "run 'no-such-run' not found"),
        (("a.jsonl", "other.jsonl"), "have no cases in common"),
        (("a.jsonl", "twice.jsonl"), "two rows for the same case: lines 1 and 2"),
        (("a.jsonl", "text.jsonl"), "line 1 is not a valid row: not JSON"),
        (("a.jsonl", "empty.jsonl"), "has no rows"),
    ],
)
def test_incomparable_runs_exit_with_2(project: Project, names: tuple[str, str], message: str):
    files(project, GOOD, WORSE)
    write_rows(project.root / "other.jsonl", [row("another")])
    write_rows(project.root / "twice.jsonl", [row("case-0"), row("case-0", 0.1)])
    (project.root / "text.jsonl").write_text("hello\n")
    (project.root / "empty.jsonl").write_text("")
    done = project.run("compare", *names)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_two_targets_of_one_run_can_be_compared_by_run_id(capitals: Project):
    capitals.write(
        "agentv.config.yaml",
        """\
        targets:
          old: {provider: mock, response: I do not know.}
          new: {provider: mock, response: "Paris, Rome. Madrid."}
        """,
    )
    assert capitals.run("eval", "capitals.yaml", "--target", "old", "--target", "new", "--quiet").returncode == 1
    run = capitals.run_dirs()[-1].name
    done = capitals.run("compare", run, run, "--target-a", "old", "--target-b", "new", "--json")
    data = json.loads(done.stdout)
    assert done.returncode == 0
    assert (data["summary"]["matched"], data["summary"]["wins"]) == (3, 3)
    assert data["baseline"]["scripted"]
    assert any("scripted model" in note for note in data["notes"])


def test_color_is_used_on_terminals_or_on_request(project: Project):
    names = files(project, GOOD, WORSE)
    assert "\x1b[" in project.run("compare", *names, env={"NO_COLOR": "", "FORCE_COLOR": "1"}).stdout


def test_large_comparison_is_resampled_in_groups(project: Project):
    one = [row(f"case-{n}", (n % 97) / 100, evaluator_results=()) for n in range(3_000)]
    two = [row(f"case-{n}", (n % 97) / 100 + (n % 31) / 1000, evaluator_results=()) for n in range(3_000)]
    done = project.run("compare", *files(project, one, two), "--json")
    summary = json.loads(done.stdout)["summary"]
    assert (done.returncode, summary["conclusion"]) == (0, "better")
    low, high = summary["interval"]
    assert low < summary["mean_delta"] < high < low + 0.01


def test_paths_are_relative_to_the_working_directory(project: Project, tmp_path: Path):
    write_rows(project.root / "sub" / "a.jsonl", GOOD)
    done = project.run("compare", "a.jsonl", "a.jsonl", cwd=project.root / "sub")
    assert done.returncode == 0
    assert "no difference: all 8 cases scored the same" in done.stdout


@pytest.mark.parametrize("option", ["--max-drop", "--threshold", "--confidence"])
def test_nan_limits_are_rejected(project: Project, option: str):
    done = project.run("compare", *files(project, GOOD, WORSE), option, "nan")
    assert done.returncode == 2
    assert "nan is not a finite number." in done.stderr


def test_drop_just_over_the_limit_is_printed_with_enough_digits(project: Project):
    done = project.run("compare", *files(project, [row("a", 0.9)], [row("a", 0.79999)]), "--max-drop", "0.1")
    assert done.returncode == 1
    assert "the mean score fell by 0.10001, more than the allowed 0.1" in done.stdout


def test_incomplete_candidate_run_is_not_a_pass(project: Project) -> None:
    project.write(
        "agentv.config.yaml", "targets: {paid: {provider: mock, rules: [{match: x, response: x, cost_usd: 1}]}}\n"
    )
    project.write(
        "suite.yaml",
        "execution: {evaluators: [{type: contains, value: x}]}\nevalcases:\n"
        + "".join(f"- {{id: case-{n}, input: x}}\n" for n in range(8)),
    )
    assert project.run("eval", "suite.yaml", "--run-dir", "whole").returncode == 0
    assert project.run("eval", "suite.yaml", "--run-dir", "part", "--max-cost", "6").returncode == 3
    done = project.run("compare", "whole", "part")
    assert done.returncode == 3
    assert "the candidate run is incomplete (out of budget): it lacks 2 cases of the baseline" in done.stdout
    assert project.run("compare", "whole", "part", "--allow-errors").returncode == 0
    assert project.run("compare", "part", "whole").returncode == 0
