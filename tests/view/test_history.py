"""The same case with the same target in other runs, and what changed between them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from agentv.record.reading import RunReader
from agentv.results import CaseKey, CaseResult, PassIf, Trials
from agentv.view import history
from agentv.view.library import Library
from tests.report.rows import error_row, row
from tests.view.bookshop import Bookshop
from tests.view.records import WrittenRun, some_rows, suite_of


def day(number: int) -> str:
    return f"202611{number:02}-090000-000000001"


def made(root: Path, number: int, score: float | None, **more: Any) -> WrittenRun:
    run_id = day(number)
    only = error_row("c0", "down", run_id=run_id) if score is None else row("c0", score, run_id=run_id)
    return WrittenRun(root, run_id, [row("other", run_id=run_id), only], **more)


def test_runs_are_listed_oldest_first(tmp_path: Path) -> None:
    made(tmp_path, 1, 0.2)
    made(tmp_path, 2, None)
    made(tmp_path, 3, 0.9, name="named")
    made(tmp_path, 4, 0.7)
    entries = Library(tmp_path).history(day(3), 1)
    assert [(each["address"], each["score"], each["outcome"]) for each in entries] == [
        (day(1), 0.2, 2),
        (day(2), None, 3),
        (day(3), 0.9, 0),
        (day(4), 0.7, 1),
    ]
    assert [each["is_this"] for each in entries] == [False, False, True, False]
    assert [each["name"] for each in entries] == [None, None, "named", None]


def test_attempts_are_one_entry(tmp_path: Path) -> None:
    trials = Trials(3, PassIf.ALL)
    rows = [row("c0", score, run_id=day(1), attempt=n, trials=trials) for n, score in enumerate((0.9, 0.3, 0.9), 1)]
    WrittenRun(tmp_path, day(1), [*rows, row("c0", 0.0, run_id=day(1), target="other", trials=trials)])
    (entry,) = Library(tmp_path).history(day(1), 1)
    assert (entry["score"], entry["outcome"]) == (0.7, 2)
    assert (entry["attempts"], entry["passes"]) == (3, 2)


def test_other_cases_suites_and_targets_are_not_part_of_it(tmp_path: Path) -> None:
    made(tmp_path, 1, 0.5)
    WrittenRun(tmp_path, day(2), [row("c0", run_id=day(2), target="another")])
    WrittenRun(tmp_path, day(3), [row("c00", run_id=day(3)), row("c", run_id=day(3))])
    WrittenRun(tmp_path, day(4), [row("c0", run_id=day(4), suite="history")], suites=[suite_of("history")])
    made(tmp_path, 5, 1.0, replayed={"run_id": day(1)})
    WrittenRun(tmp_path, day(6)).directory.manifest.write_text("{")
    library = Library(tmp_path)
    assert [each["address"] for each in library.history(day(1), 1)] == [day(1)]
    assert [each["address"] for each in library.history(day(5), 1)] == [day(1), day(5)]


def test_what_changed_since_the_run_before(tmp_path: Path) -> None:
    def measured(number: int, sha256: str, script: str) -> None:
        digests = {str(tmp_path / "judge.py"): script, str(tmp_path / "geography.yaml"): sha256}
        run_id = day(number)
        suite = suite_of(files=list(digests))
        WrittenRun(tmp_path, run_id, [row("c0", run_id=run_id, case_sha256=sha256)], digests=digests, suites=[suite])

    measured(1, "1" * 64, "a")
    measured(2, "1" * 64, "b")
    measured(3, "2" * 64, "b")
    measured(4, "2" * 64, "b")
    entries = Library(tmp_path).history(day(4), 0)
    assert [each["changed"] for each in entries] == [[], ["judge.py changed"], ["case changed: c0"], []]


def test_a_changed_judge_of_real_runs(rich_project: Bookshop) -> None:
    library = Library(rich_project.root)
    entries = {each["name"]: each for each in library.history(rich_project.runs["new-prompt"], 0)}
    assert entries["baseline"]["changed"] == ["judges/precision.py changed"]
    assert entries["longer-context"]["changed"] == []
    assert next(iter(entries)) == "first"


def test_history_follows_the_runs(tmp_path: Path) -> None:
    first = made(tmp_path, 1, 0.5)
    made(tmp_path, 2, 0.6)
    library = Library(tmp_path)
    assert [each["score"] for each in library.history(day(2), 1)] == [0.5, 0.6]
    first.write_rows(some_rows(day(1), 0.1))
    assert [each["score"] for each in library.history(day(2), 1)] == [0.1, 0.6]
    shutil.rmtree(first.path)
    assert [each["score"] for each in library.history(day(2), 1)] == [0.6]


def test_only_the_newest_runs_are_read_and_only_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[Path] = []
    original = RunReader.rows_of_case

    def counted(reader: RunReader, case: CaseKey) -> Any:
        reads.append(reader.directory.path)
        return original(reader, case)

    monkeypatch.setattr(RunReader, "rows_of_case", counted)
    monkeypatch.setattr(history, "MOST_RUNS", 3)
    for number in range(1, 6):
        made(tmp_path, number, 0.5)
    library = Library(tmp_path)
    assert [each["address"] for each in library.history(day(5), 1)] == [day(3), day(4), day(5)]
    others = sorted(path.name for path in reads)
    assert others == [day(3), day(4)], "the run that is open is indexed"
    library.history(day(5), 1)
    assert len(reads) == 2


def test_cases_of_runs_are_read_only_if_there_is_something_to_compare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []
    original = RunReader.case_hashes

    def counted(reader: RunReader) -> Any:
        reads.append(reader.directory.path.name)
        return original(reader)

    monkeypatch.setattr(RunReader, "case_hashes", counted)
    made(tmp_path, 1, 0.5)
    library = Library(tmp_path)
    assert [each["changed"] for each in library.history(day(1), 1)] == [[]]
    assert reads == []
    made(tmp_path, 2, 0.5)
    for _ in range(2):
        assert len(library.history(day(2), 1)) == 2
    assert reads == [day(1), day(2)]


@pytest.mark.parametrize("eval_id", ['quote " and \\ slash', "zwölf 中", "line\nbreak", "", "x" * 5_000])
def test_unusual_names_are_found(tmp_path: Path, eval_id: str) -> None:
    for number in (1, 2):
        run_id = day(number)
        WrittenRun(tmp_path, run_id, [row(eval_id, number / 2, run_id=run_id)])
    assert [each["score"] for each in Library(tmp_path).history(day(2), 0)] == [0.5, 1.0]


def test_attempts_of_the_open_run_are_found_with_its_index(tmp_path: Path) -> None:
    def attempt(number: int, score: float, eval_id: str = "c0") -> CaseResult:
        return row(eval_id, score, run_id=day(1), attempt=number)

    run = WrittenRun(tmp_path, day(1), [attempt(2, 1.0), attempt(1, 0.0), attempt(1, 0.3, "c1")])
    library = Library(tmp_path)
    assert [(each["attempts"], each["score"]) for each in library.history(day(1), 0)] == [(2, 0.5)]
    assert [(each["attempts"], each["score"]) for each in library.history(day(1), 2)] == [(1, 0.3)]
    run.write_rows([attempt(2, 1.0), attempt(2_000, 0.5)])
    assert [(each["attempts"], each["score"]) for each in library.history(day(1), 0)] == [(2, 0.75)]
