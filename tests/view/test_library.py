"""Everything that pages can ask about runs, in every state that a run can have."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agentv.errors import AgentVError, RecordError
from agentv.record.line_index import JudgeCallIndex
from agentv.results import PassIf, Trials
from agentv.view import open_run
from agentv.view.library import Library
from agentv.view.listing import UnknownRunError
from agentv.view.open_run import OpenRun
from agentv.view.packed_columns import plain, unpack
from tests.report.rows import error_row, row
from tests.view.bookshop import Bookshop
from tests.view.records import WrittenRun, call_of, case_of, printed, some_rows, suite_of, summary_of

ONE, TWO, THREE = (f"2026110{n}-090000-00000000{n}" for n in (1, 2, 3))
ELSEWHERE = [
    "",
    "../x",
    "..",
    ".",
    "%2e%2e",
    "/etc/passwd",
    "a/b",
    f"{ONE}/",
    f"../runs/{ONE}",
    "x\0y",
    "\ud800",
    ONE[:9],
]


def addresses(library: Library) -> list[str]:
    return [head["address"] for head in library.runs()["runs"]]


def head_of(library: Library, address: str) -> dict[str, Any]:
    return next(head for head in library.runs()["runs"] if head["address"] == address)


# -- the list


def test_runs_are_those_of_the_command(rich_project: Bookshop) -> None:
    expected, _ = printed(rich_project.root, "runs")
    library = Library(rich_project.root)
    heads = library.runs()["runs"]
    assert [head["address"] for head in heads] == list(rich_project.runs.values())[::-1]
    for head, run in zip(heads, expected, strict=True):
        del run["run_dir"]
        assert {name: head[name] for name in run} == run
        scored = run["passed"] + run["borderline"] + run["failed"]
        low, high = head["pass_interval"]
        assert 0 <= low <= run["passed"] / scored <= high <= 1
    json.dumps(heads, allow_nan=False)


def test_runs_that_appear_and_vanish_are_followed(tmp_path: Path) -> None:
    library = Library(tmp_path)
    assert addresses(library) == []
    WrittenRun(tmp_path, ONE)
    assert library.generation(ONE) == "empty"  # found although it was not listed yet
    second = WrittenRun(tmp_path, TWO)
    assert addresses(library) == [TWO, ONE]
    shutil.rmtree(second.path)
    with pytest.raises(UnknownRunError):
        library.info(TWO)
    assert addresses(library) == [ONE]


@pytest.mark.parametrize("address", ELSEWHERE)
def test_addresses_that_are_not_listed_are_unknown(tmp_path: Path, address: str) -> None:
    WrittenRun(tmp_path, ONE)
    WrittenRun(tmp_path / "other", TWO)
    library = Library(tmp_path)
    for ask in (library.info, library.columns, library.live, library.labels, library.judges, library.directory):
        with pytest.raises(UnknownRunError, match="there is no run"):
            ask(address)
    with pytest.raises(UnknownRunError):
        library.detail(address, 0)
    with pytest.raises(UnknownRunError):
        library.compare(ONE, address)
    with pytest.raises(UnknownRunError):
        library.add_label(address, {})


def test_named_runs_only(own_project: Bookshop, tmp_path: Path) -> None:
    elsewhere = WrittenRun(tmp_path / "elsewhere", ONE)
    library = Library(
        own_project.root, ["latest", "baseline", str(elsewhere.path), "latest", own_project.runs["first"]]
    )
    latest = own_project.runs["small-budget"]
    assert addresses(library) == [latest, own_project.runs["baseline"], own_project.runs["first"], ONE]
    with pytest.raises(UnknownRunError):
        library.info(own_project.runs["new-prompt"])
    WrittenRun(own_project.root, "20261201-000000-000000001")
    assert addresses(library)[0] == latest  # what `latest` means does not change
    with pytest.raises(RecordError, match="run 'nothing' not found"):
        Library(own_project.root, ["nothing"])


def test_directories_with_equal_names_have_distinct_addresses(tmp_path: Path) -> None:
    for name, started in (("a", "2026-11-01T00:00:00Z"), ("b", "2026-11-03T00:00:00Z"), ("c", "2026-11-02T00:00:00Z")):
        made = WrittenRun(tmp_path / name, ONE, some_rows(ONE, *[1.0] * len(name)), started_at=started, note=name)
        made.path.rename(tmp_path / name / "nightly")
    library = Library(tmp_path, [f"{name}/nightly" for name in "abc"])
    notes = {head["address"]: head["note"] for head in library.runs()["runs"]}
    assert list(notes.items()) == [("nightly~2", "b"), ("nightly~3", "c"), ("nightly", "a")]
    assert {address: library.info(address)["head"]["note"] for address in notes} == notes


def test_names_of_directories_are_text(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path, ONE, some_rows(ONE, 1.0))
    run.path.rename(run.path.with_name(os.fsdecode(b"caf\xe9 <b>%2e")))
    library = Library(tmp_path)
    (address,) = addresses(library)
    assert address == "caf\N{REPLACEMENT CHARACTER} <b>%2e"
    assert library.info(address)["head"]["address"] == address
    json.dumps(library.runs(), ensure_ascii=False).encode("utf-8")


@pytest.mark.parametrize("contents", [None, "", "{", "[]", '{"run_id": NaN}', "link"])
def test_broken_runs_are_listed_with_their_problem(tmp_path: Path, contents: str | None) -> None:
    run = WrittenRun(tmp_path, ONE, some_rows(ONE, 1.0))
    WrittenRun(tmp_path, TWO)
    run.directory.manifest.unlink()
    if contents == "link":
        run.directory.manifest.symlink_to("/etc/passwd")
    elif contents is not None:
        run.directory.manifest.write_text(contents)
    library = Library(tmp_path)
    head = head_of(library, ONE)
    assert (head["status"], head["total"], head["passed"], head["pass_interval"]) == ("broken", None, None, None)
    assert head["problem"]
    assert addresses(library) == [TWO, ONE]
    assert library.info(TWO)["baselines"] == []
    if contents in (None, "link"):
        with pytest.raises(RecordError):
            library.columns(ONE)


def test_hostile_manifests_keep_the_types(tmp_path: Path) -> None:
    bad: Any = {"passed": -5, "borderline": True, "failed": 1e300, "errors": [], "mean_score": "x", "repeats": 3}
    run = WrittenRun(
        tmp_path,
        ONE,
        some_rows(ONE, 1.0),
        summary=bad,
        suites=[None, {"name": 5}, {"name": "s", "path": 1, "cases": "many", "targets": {"t": [1, "j"]}}],
        total="all",
        finished_at=7,
        agentv=[],
        budget={"spent_usd": "much", "judge_calls": None},
        options={"max_cost": True, "max_judge_calls": "x"},
        git=5,
        name="latest~1",
    )
    run.write_manifest(summary_notes=[1, "note"])
    library = Library(tmp_path)
    head, info = head_of(library, ONE), library.info(ONE)
    assert head["pass_interval"] is None
    assert (head["name"], head["finished_at"], head["agentv"], head["git"]) == (None, None, None, None)
    assert (info["planned"], info["budget"], info["repeats"]) == (None, None, None)
    assert info["suites"] == [{"name": "s", "path": "", "cases": 0, "judges": ["j"]}]
    assert "note" in info["notes"]
    json.dumps(info, allow_nan=False)


def test_unfinished_runs_are_counted_from_their_rows(tmp_path: Path) -> None:
    trials = Trials(3, PassIf.ANY)
    rows = [
        row("c0", 1.0, run_id=ONE, cost_usd=0.5),
        row("c1", 0.7, run_id=ONE, cost_usd=0.25),
        error_row("c2", "down", run_id=ONE),
        row("c3", 0.1, run_id=ONE, trials=trials),
        row("c4", 0.9, run_id=ONE, trials=trials),
        row("c4", 0.1, run_id=ONE, trials=trials, attempt=2),
    ]
    WrittenRun(tmp_path, ONE, rows, status="running", summary=None, finished_at=None, total=9)
    head = head_of(Library(tmp_path), ONE)
    assert head["status"] == "interrupted"
    counts = {name: head[name] for name in ("total", "passed", "borderline", "failed", "errors")}
    # c3 has no verdict yet: it is neither a failure nor an error.
    assert counts == {"total": 4, "passed": 2, "borderline": 1, "failed": 0, "errors": 1}
    assert head["mean_score"] == pytest.approx((1.0 + 0.7 + 0.5) / 3)
    assert (head["cost_usd"], head["cost_complete"]) == (0.75, False)


def test_a_run_that_is_being_written_is_counted_again(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path, ONE, some_rows(ONE, 1.0), summary=summary_of(1), total=3)
    library = Library(tmp_path)
    with run.directory.lock():  # resumed: the summary is that of before
        run.append(row("c1", 0.0, run_id=ONE))
        head = head_of(library, ONE)
        assert (head["status"], head["total"], head["failed"]) == ("running", 2, 1)
        run.append(row("c2", 0.0, run_id=ONE))
        assert head_of(library, ONE)["failed"] == 2
        assert library.info(ONE)["ledger"] == []
    assert head_of(library, ONE)["failed"] == 2  # killed: rows were added after the summary was written
    run.write_manifest(summary=summary_of(1, 2))
    assert head_of(library, ONE)["status"] == "finished"


def test_old_unfinished_runs_do_not_delay_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1, 4):
        run_id = f"2026110{number}-090000-000000001"
        WrittenRun(tmp_path, run_id, some_rows(run_id, 1.0), status="failed", summary=None)
    monkeypatch.setattr("agentv.view.run_heads._COUNTING", -1.0)
    library = Library(tmp_path)
    assert [head["passed"] for head in library.runs()["runs"]] == [None, None, None]
    monkeypatch.setattr("agentv.view.run_heads._COUNTING", 60.0)
    assert [head["passed"] for head in library.runs()["runs"]] == [1, 1, 1]


# -- one run


def test_baseline_is_the_last_finished_run_of_the_same_cases(tmp_path: Path) -> None:
    def made(day: int, cases: int, **more: Any) -> str:
        run_id = f"202611{day:02}-090000-000000001"
        more = {"suites": [suite_of(cases=cases)], **more}
        run = WrittenRun(tmp_path, run_id, some_rows(run_id, *[1.0] * cases), **more)
        run.add_cases(*(case_of(f"c{number}") for number in range(cases)))
        return run_id

    oldest = made(1, 10)
    good = made(2, 8)
    few = made(3, 7)
    unfinished = made(4, 10, status="failed")
    replayed = made(5, 10, replayed={"run_id": oldest})
    other = made(6, 10, suites=[suite_of("history", 10)])
    latest = made(7, 10)
    later = made(8, 10)
    library = Library(tmp_path)
    assert library.info(latest)["baseline"] == good
    assert library.info(later)["baseline"] == latest
    assert library.info(good)["baseline"] == oldest
    assert library.info(oldest)["baseline"] is None
    assert library.info(other)["baseline"] is None
    expected = [later, replayed, unfinished, few, good, oldest]
    assert [head["address"] for head in library.info(latest)["baselines"]] == expected


def test_other_cases_with_equal_names_of_suites_are_not_a_baseline(tmp_path: Path) -> None:
    for run_id, prefix in ((ONE, "x"), (TWO, "y")):
        run = WrittenRun(tmp_path, run_id, [row(f"{prefix}{n}", run_id=run_id) for n in range(3)])
        if run_id == TWO:
            run.add_cases(*(case_of(f"{prefix}{n}") for n in range(3)))
    assert Library(tmp_path).info(TWO)["baseline"] is None


def test_notes_warn_about_everything_that_is_not_measured(rich_project: Bookshop) -> None:
    notes = Library(rich_project.root).info(rich_project.runs["small-budget"])["notes"]
    assert notes[0].startswith("the run is incomplete (out of budget): ")
    assert any(note.startswith("scripted judge: ") for note in notes)
    assert any(note.startswith("budget: ") for note in notes)


def test_budget_of_a_run_with_limits(rich_project: Bookshop) -> None:
    library = Library(rich_project.root)
    budget = library.info(rich_project.runs["small-budget"])["budget"]
    assert (budget["calls"], budget["limit_calls"], budget["limit_usd"]) == (30, 30, None)
    assert library.info(rich_project.runs["baseline"])["budget"] is None


def test_commands_can_be_run(own_project: Bookshop, monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner  # noqa: PLC0415

    from agentv.cli.program import program  # noqa: PLC0415

    monkeypatch.chdir(own_project.root)
    library = Library(own_project.root)
    commands = {each["title"]: each["command"] for each in library.info(own_project.runs["small-budget"])["commands"]}
    assert commands["resume this run"].endswith(" --max-judge-calls MORE")
    for command in commands.values():
        words = command.replace("MORE", "1000").split()
        assert words[0] == "agentv"
        done = CliRunner().invoke(program, words[1:], standalone_mode=False, catch_exceptions=True)
        assert not isinstance(done.exception, AgentVError), (command, done.exception)


def test_the_ledger_has_the_hashes_of_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = WrittenRun(tmp_path, ONE, some_rows(ONE, 1.0))
    library = Library(tmp_path)
    contents = run.directory.results.read_bytes()
    expected = [{"name": "results.jsonl", "sha256": hashlib.sha256(contents).hexdigest(), "bytes": len(contents)}]
    assert library.info(ONE)["ledger"] == library.ledger(ONE) == expected
    run.append(row("c9", run_id=ONE))
    assert library.ledger(ONE) != expected
    monkeypatch.setattr("agentv.view.library._QUICKLY_HASHED", 10)
    other = Library(tmp_path)
    assert other.info(ONE)["ledger"] == []  # too much for a page
    assert other.ledger(ONE) == library.ledger(ONE)
    assert other.info(ONE)["ledger"] == library.ledger(ONE)


def test_repeats_come_from_the_summary(rich_project: Bookshop) -> None:
    repeats = Library(rich_project.root).info(rich_project.runs["summaries"])["repeats"]
    assert (repeats["count"], set(repeats["pass_at_k"])) == (4, {"1", "2", "3", "4"})


# -- rows


def test_details_are_those_of_the_command(rich_project: Bookshop) -> None:
    library = Library(rich_project.root)
    for name in ("new-prompt", "summaries"):
        address = rich_project.runs[name]
        columns = library.column_data(address)
        for number in range(0, columns["count"], 5):
            suite, target = columns["suites"][columns["suite"][number]], columns["targets"][columns["target"][number]]
            case = f"{suite}/{columns['eval_id'][number]}"
            chosen = ("--target", target, "--attempt", str(columns["attempt"][number]))
            expected, _ = printed(rich_project.root, "show", address, case, *chosen)
            detail = library.detail(address, number)
            assert {part: detail[part] for part in ("run_id", "row", "case", "judge_calls")} == {
                part: expected[part] for part in ("run_id", "row", "case", "judge_calls")
            }
            assert detail["arithmetic"]


def test_a_row_that_was_judged_again_has_all_its_calls(tmp_path: Path) -> None:
    failed, fixed = error_row("c0", "judge down", "evaluator", run_id=ONE), row("c0", run_id=ONE)
    run = WrittenRun(tmp_path, ONE, [fixed, row("c1", run_id=ONE)])
    run.directory.superseded.write_bytes(b"")
    library = Library(tmp_path)
    assert library.detail(ONE, 0)["judge_calls"] == []
    run.add_calls(call_of(failed, status="failed"), call_of(row("c1", run_id=ONE)))
    assert [call["status"] for call in library.detail(ONE, 0)["judge_calls"]] == ["failed"]
    WrittenRun(tmp_path, TWO, [failed]).directory.results.replace(run.directory.superseded)
    run.add_calls(call_of(fixed, execution=2, index=2), call_of(fixed, execution=2))
    detail = library.detail(ONE, 0)
    assert [(call["status"], call.get("execution"), call["index"]) for call in detail["judge_calls"]] == [
        ("failed", None, 1),
        ("ok", 2, 1),
        ("ok", 2, 2),
    ]
    assert detail["execution"] == 2


def test_replaced_judge_calls_are_indexed_again(tmp_path: Path) -> None:
    only = row("c0", run_id=ONE)
    run = WrittenRun(tmp_path, ONE, [only])
    run.add_calls(call_of(only), call_of(only, index=2))
    library = Library(tmp_path)
    assert len(library.detail(ONE, 0)["judge_calls"]) == 2
    lines = run.directory.judge_calls.read_bytes().splitlines(keepends=True)
    (run.path / "new").write_bytes(lines[1])
    (run.path / "new").replace(run.directory.judge_calls)
    assert [call["index"] for call in library.detail(ONE, 0)["judge_calls"]] == [2]
    run.directory.judge_calls.unlink()
    assert library.detail(ONE, 0)["judge_calls"] == []


def test_row_does_not_wait_for_the_index_of_a_large_run(
    rich_project: Bookshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [rich_project.runs[name] for name in ("new-prompt", "summaries", "small-budget")]
    library = Library(rich_project.root)
    rows = [(run, row) for run in runs for row in range(library.column_data(run)["count"])]
    expected = [library.detail(*each) for each in rows]
    assert any(len(detail["judge_calls"]) > 1 for detail in expected)

    def refuse(*_: object) -> None:
        pytest.fail("the file of judge calls was indexed")

    monkeypatch.setattr(open_run, "_LARGE", 0)
    monkeypatch.setattr(OpenRun, "_index", lambda _: None)
    monkeypatch.setattr(JudgeCallIndex, "refresh", refuse)
    library = Library(rich_project.root)
    assert [library.detail(*each) for each in rows] == expected


def test_rows_that_are_not_there_are_refused(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path, ONE, some_rows(ONE, 1.0, 0.5))
    library = Library(tmp_path)
    assert library.detail(ONE, 1)["row"]["eval_id"] == "c1"
    for number in (-1, 2):
        with pytest.raises(RecordError, match="no row"):
            library.detail(ONE, number)
    run.write_rows(some_rows(ONE, 0.3))
    assert library.detail(ONE, 0)["row"]["score"] == 0.3
    with pytest.raises(RecordError, match="no row 1"):
        library.detail(ONE, 1)


def test_columns_follow_a_run(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path, ONE, some_rows(ONE, 1.0))
    library = Library(tmp_path)
    before = library.generation(ONE)
    run.append(row("late", 0.5, run_id=ONE))
    more = unpack(library.columns(ONE, 1)[0])
    assert (more["start"], more["eval_id"].strings, more["generation"]) == (1, ["late"], before)
    run.write_rows(some_rows(ONE, 0.0))
    assert library.generation(ONE) != before


def test_few_runs_stay_open(tmp_path: Path) -> None:
    for number in range(1, 9):
        run_id = f"2026110{number}-090000-000000001"
        WrittenRun(tmp_path, run_id, some_rows(run_id, 1.0))
    library = Library(tmp_path)
    for address in addresses(library):
        library.columns(address)
    assert len(library._open) == 4


def test_runs_that_are_being_written_stay_open(tmp_path: Path) -> None:
    runs = [WrittenRun(tmp_path, f"2026110{n}-090000-000000001", some_rows(f"r{n}", 1.0)) for n in range(1, 8)]
    library = Library(tmp_path)
    with ExitStack() as locks:
        for run in runs[:6]:
            locks.enter_context(run.directory.lock())
        for _ in range(2):
            opened = [library._opened(run.id) for run in runs]
        assert [library._opened(run.id) for run in runs[:6]] == opened[:6]


# -- labels


def test_labels_are_of_the_answer_that_was_shown(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path, ONE, [row("c0", run_id=ONE, candidate_answer="Paris"), row("c1", run_id=ONE)])
    library = Library(tmp_path)
    label = {"suite": "geography", "eval_id": "c0", "target": "assistant", "attempt": 1, "label": "pass", "note": "ok"}
    saved = library.add_label(ONE, {**label, "at": "1999", "current": False}, by="ada")
    assert (saved["by"], saved["current"], saved["label"]) == ("ada", True, "pass")
    assert saved["answer_sha256"] == hashlib.sha256(b"Paris").hexdigest()
    assert not saved["at"].startswith("1999")
    assert library.labels(ONE) == [saved]
    library.add_label(ONE, {**label, "label": "fail", "answer_sha256": saved["answer_sha256"]}, by="ada")
    library.add_label(ONE, {**label, "label": "unsure"}, by="bob")
    assert [(each["by"], each["label"]) for each in library.labels(ONE)] == [("ada", "fail"), ("bob", "unsure")]
    library.add_label(ONE, {**label, "label": None}, by="bob")
    run.write_rows([row("c0", run_id=ONE, candidate_answer="Lyon.")])
    assert [(each["by"], each["current"]) for each in library.labels(ONE)] == [("ada", False)]
    with pytest.raises(AgentVError, match="has changed since"):
        library.add_label(ONE, {**label, "answer_sha256": saved["answer_sha256"]}, by="ada")


@pytest.mark.parametrize(
    "changes",
    [{"eval_id": "nope"}, {"attempt": 2}, {"attempt": "1"}, {"label": "great"}, {"note": "x" * 3_000}, {"suite": None}],
)
def test_labels_that_are_not_valid_are_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    run = WrittenRun(tmp_path, ONE, some_rows(ONE, 1.0))
    label = {"suite": "geography", "eval_id": "c0", "target": "assistant", "attempt": 1, "label": "pass", "note": ""}
    with pytest.raises(AgentVError):
        Library(tmp_path).add_label(ONE, {**label, **changes}, by="ada")
    assert not run.directory.labels.exists()


# -- trend


def test_the_trend_is_that_of_the_command(rich_project: Bookshop) -> None:
    expected, _ = printed(rich_project.root, "trend", "--last", "30")
    lines = [line for line in expected["lines"] if len(line["points"]) > 1]
    library = Library(rich_project.root)
    assert library.trend()["lines"] == lines
    assert library.trend() is library.trend()  # not computed again


def test_a_trend_that_is_not_complete_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for day in range(1, 7):
        run_id = f"2026110{day}-090000-000000001"
        WrittenRun(tmp_path, run_id, some_rows(run_id, *[1.0] * 3), suites=[suite_of()])
    (line,) = Library(tmp_path).trend()["lines"]
    assert len(line["points"]) == 6
    monkeypatch.setattr("agentv.view.trends.MOST_POINTS", 3)
    (line,) = Library(tmp_path).trend()["lines"]
    assert len(line["points"]) == 3
    assert "only the latest 3 runs are shown" in line["note"]
    monkeypatch.undo()
    monkeypatch.setattr("agentv.view.trends.MOST_BYTES", 1)
    (line,) = Library(tmp_path).trend()["lines"]
    assert len(line["points"]) == 2
    assert "4 older runs not shown" in line["note"]


# -- threads


def test_questions_of_many_threads_are_answered_while_a_run_is_written(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path, ONE, some_rows(ONE, 1.0), status="running", total=200)
    WrittenRun(tmp_path, TWO, some_rows(TWO, *[0.5] * 50))
    library = Library(tmp_path)
    finished = threading.Event()

    def write() -> None:
        with run.directory.lock():
            for number in range(1, 200):
                run.append(row(f"c{number}", 0.5, run_id=ONE))
        finished.set()

    def ask(number: int) -> None:
        while True:
            is_last = finished.is_set()
            data = plain(unpack(library.columns(ONE)[0]))
            assert data["eval_id"] == [f"c{n}" for n in range(data["count"])]
            last = data["count"] - 1
            assert library.detail(ONE, last)["row"]["eval_id"] == f"c{last}"
            assert library.live(ONE)["rows"] >= data["count"]
            assert library.compare(TWO, ONE)["summary"]["matched"] >= min(data["count"], 50)
            assert [rows[-1] for _, rows in library.search(ONE, "c0", lambda: False)]
            assert library.history(ONE, 0)[0]["is_this"]
            library.runs()
            if is_last:
                assert data["count"] == 200
                return

    with ThreadPoolExecutor(5) as threads:
        asking = [threads.submit(ask, number) for number in range(4)]
        threads.submit(write).result()
        for each in asking:
            each.result()
