"""The comparison of the viewer has the numbers of `agentv compare --json`."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentv.errors import UsageError
from agentv.results import PassIf, Trials
from agentv.view.library import Library
from tests.report.rows import error_row, row
from tests.view.bookshop import Bookshop
from tests.view.records import WrittenRun, case_of, printed, suite_of

A, B = "20261101-090000-000000001", "20261102-090000-000000002"


@pytest.mark.parametrize(
    ("one", "other"), [("baseline", "new-prompt"), ("first", "baseline"), ("longer-context", "small-budget")]
)
def test_numbers_are_those_of_the_command(rich_project: Bookshop, one: str, other: str) -> None:
    a, b = rich_project.runs[one], rich_project.runs[other]
    expected, code = printed(rich_project.root, "compare", a, b)
    data = Library(rich_project.root).compare(a, b)
    assert data["summary"] == expected["summary"]
    assert data["decision"]["exit_code"] == code
    pairs, matched = data["pairs"], expected["matched"]
    assert pairs["count"] == len(matched)
    shown = {(pairs["suite"][at], pairs["eval_id"][at]): at for at in range(pairs["count"])}
    for pair in matched:
        at = shown[pair["suite"], pair["eval_id"]]
        assert (pairs["score1"][at], pairs["score2"][at]) == (pair["score1"], pair["score2"])
        assert ["tie", "win", "loss"][pairs["outcome"][at]] == pair["outcome"]
    keys = [{"suite": each["suite"], "eval_id": each["eval_id"]} for each in data["only_a"]]
    assert keys == [
        {"suite": each["suite"], "eval_id": each["eval_id"]} for each in expected["unmatched_cases"]["file1"]
    ]
    assert (data["a"]["address"], data["b"]["address"]) == (a, b)


def test_rows_of_pairs_are_rows_of_their_cases(rich_project: Bookshop) -> None:
    library = Library(rich_project.root)
    a, b = rich_project.runs["baseline"], rich_project.runs["new-prompt"]
    pairs = library.compare(a, b)["pairs"]
    for address, rows in ((a, pairs["row1"]), (b, pairs["row2"])):
        columns = library.column_data(address)
        assert [columns["eval_id"][number] for number in rows] == pairs["eval_id"]


def test_changes_name_what_measures_the_scores(rich_project: Bookshop) -> None:
    data = Library(rich_project.root).compare(rich_project.runs["first"], rich_project.runs["baseline"])
    judge = next(change for change in data["changes"] if change["what"] == "file")
    assert (judge["ruler"], judge["text"]) == (True, "judges/precision.py changed")
    assert judge["before"] != judge["after"]


@pytest.fixture
def two_runs(tmp_path: Path) -> tuple[Library, WrittenRun, WrittenRun]:
    """Twelve cases of which some got better; one errors, one is missing in each run."""
    one = [row(f"c{n}", 0.5, run_id=A, metadata={"lang": "de" if n < 8 else "en"}) for n in range(12)]
    two = [row(f"c{n}", 0.5 + n / 24, run_id=B, metadata={"lang": "de" if n < 8 else "en"}) for n in range(12)]
    first = WrittenRun(
        tmp_path, A, [*one, row("only-a", run_id=A), error_row("e", "down\nEnd of stderr:\nx", run_id=A)]
    )
    second = WrittenRun(tmp_path, B, [*two, row("only-b", run_id=B), row("e", run_id=B)])
    second.add_cases(*(case_of(f"c{n}", tags=("new",) if n % 2 else ()) for n in range(12)))
    return Library(tmp_path), first, second


def test_errors_are_unjudged_and_missing_cases_listed(two_runs: tuple[Library, WrittenRun, WrittenRun]) -> None:
    data = two_runs[0].compare(A, B)
    assert [each["eval_id"] for each in data["only_a"]] == ["only-a"]
    assert [each["eval_id"] for each in data["only_b"]] == ["only-b"]
    assert data["unjudged"] == [
        {
            "suite": "geography",
            "eval_id": "e",
            "target": "assistant",
            "error1": "down",
            "error2": None,
            "compared": False,
            "target1": "assistant",
            "row1": 13,
            "row2": 13,
        }
    ]
    assert data["summary"]["matched"] == 12


def test_groups_are_comparisons_of_their_pairs(two_runs: tuple[Library, WrittenRun, WrittenRun]) -> None:
    library = two_runs[0]
    data = library.compare(A, B)
    groups = {(group["by"], group["name"]): group for group in data["groups"]}
    assert {name for name in groups if name[0] == "metadata.lang"} == {
        ("metadata.lang", "de"),
        ("metadata.lang", "en"),
    }
    assert groups["tag", "new"]["cases"] == 6
    pairs = data["pairs"]
    english = [at for at in range(pairs["count"]) if int(pairs["eval_id"][at][1:]) >= 8]
    deltas = [pairs["score2"][at] - pairs["score1"][at] for at in english]
    assert len(deltas) == groups["metadata.lang", "en"]["cases"] == 4
    assert groups["metadata.lang", "en"]["mean_delta"] == pytest.approx(sum(deltas) / 4)
    assert all(group["p_holm"] >= group["p"] for group in data["groups"])


def test_a_comparison_follows_both_runs(two_runs: tuple[Library, WrittenRun, WrittenRun]) -> None:
    library, first, second = two_runs
    before = library.compare(A, B)
    assert library.compare(A, B)["pairs"] is before["pairs"]  # not computed again
    first.append(row("late", 0.1, run_id=A))
    second.append(row("late", 0.9, run_id=B))
    after = library.compare(A, B)
    assert after["summary"]["matched"] == before["summary"]["matched"] + 1
    second.write_rows([row(f"c{n}", 0.5, run_id=B) for n in range(12)])
    assert library.compare(A, B)["summary"]["conclusion"] == "same"


def test_attempts_are_one_case(tmp_path: Path) -> None:
    trials = Trials(2, PassIf.ANY)
    for run_id, scores in ((A, (0.2, 0.4)), (B, (0.2, 0.9))):
        rows = [
            row("c0", score, run_id=run_id, attempt=attempt, trials=trials) for attempt, score in enumerate(scores, 1)
        ]
        WrittenRun(tmp_path, run_id, rows, suites=[suite_of(trials={"count": 2})])
    pairs = Library(tmp_path).compare(A, B)["pairs"]
    assert (pairs["count"], pairs["score1"], pairs["score2"]) == (1, [0.3], [0.55])
    assert (pairs["passed1"], pairs["passed2"], pairs["row2"]) == ([0], [1], [0])


def test_runs_without_common_cases_are_refused(tmp_path: Path) -> None:
    WrittenRun(tmp_path, A, [row("x", run_id=A)])
    WrittenRun(tmp_path, B, [row("y", run_id=B)])
    library = Library(tmp_path)
    with pytest.raises(UsageError, match="no cases in common"):
        library.compare(A, B)
    WrittenRun(tmp_path, "20261103-090000-000000003", [])
    with pytest.raises(UsageError, match="it has no rows"):
        library.compare("20261103-090000-000000003", B)
