"""The state of a run that is being written, killed, resumed, retried and removed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentv.record.rows import encode_row
from agentv.view.library import Library
from agentv.view.listing import UnknownRunError
from agentv.view.live_state import Pace
from tests.report.rows import error_row, ledger, result, row
from tests.view.records import WrittenRun, some_rows

ID = "20261101-090000-000000001"
_HOLD = """
import sys
from pathlib import Path
from agentv.record.run_dir import RunDirectory
with RunDirectory(Path(sys.argv[1])).lock():
    print("locked", flush=True)
    sys.stdin.read()
"""


@contextmanager
def writer_of(run: WrittenRun) -> Iterator[subprocess.Popen[str]]:
    """Another process that has locked the run."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(run.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def running(root: Path, *scores: float) -> WrittenRun:
    return WrittenRun(
        root, ID, some_rows(ID, *scores), status="running", summary=None, finished_at=None, total=10, options={}
    )


def test_rows_of_a_running_run_are_counted(tmp_path: Path) -> None:
    run = running(tmp_path)
    run.write_manifest(options={"max_cost": 2, "max_judge_calls": 50})
    library = Library(tmp_path)
    with writer_of(run):
        state = library.live(ID)
        assert state == {
            "status": "running",
            "generation": "empty",
            "rows": 0,
            "planned": 10,
            "errors": 0,
            "spent_usd": 0.0,
            "limit_usd": 2.0,
            "judge_calls": 0,
            "limit_calls": 50,
            "rows_per_second": None,
            "eta_seconds": None,
        }
        judged = result(judge=ledger(3, 0.25))
        run.append(row("c0", run_id=ID, cost_usd=0.5, evaluator_results=(judged,)), error_row("c1", "down", run_id=ID))
        state = library.live(ID)
        assert (state["rows"], state["errors"]) == (2, 1)
        assert (state["spent_usd"], state["judge_calls"]) == (0.75, 3)


def test_a_killed_run_is_interrupted_and_can_be_resumed(tmp_path: Path) -> None:
    run = running(tmp_path, 1.0)
    library = Library(tmp_path)
    line = encode_row(row("c1", 0.5, run_id=ID))
    with writer_of(run) as process:
        first = library.live(ID)
        run.append(line[:40])
        process.send_signal(signal.SIGKILL)
        process.wait()
    state = library.live(ID)
    assert (state["status"], state["rows"], state["generation"]) == ("interrupted", 1, first["generation"])
    with writer_of(run):  # a resumed run removes the incomplete line
        os.truncate(run.directory.results, run.directory.results.stat().st_size - 40)
        run.append(line)
        state = library.live(ID)
        assert (state["status"], state["rows"], state["generation"]) == ("running", 2, first["generation"])
    run.write_manifest(status="finished")
    assert library.live(ID)["status"] == "finished"


def test_retried_errors_are_another_generation(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path, ID, [*some_rows(ID, 1.0), error_row("c1", "down", run_id=ID)])
    library = Library(tmp_path)
    before = library.live(ID)
    with writer_of(run):
        run.write_rows(some_rows(ID, 1.0))
        during = library.live(ID)
        assert (during["status"], during["rows"], during["errors"]) == ("running", 1, 0)
        assert during["generation"] != before["generation"]
        run.append(row("c1", 0.9, run_id=ID))
        after = library.live(ID)
        assert (after["rows"], after["generation"]) == (2, during["generation"])


def test_what_was_spent_on_superseded_rows_counts(tmp_path: Path) -> None:
    budget = {"spent_usd": 4.5, "judge_calls": 7}
    WrittenRun(tmp_path, ID, [row("c0", run_id=ID, cost_usd=0.5)], budget=budget)
    state = Library(tmp_path).live(ID)
    assert (state["spent_usd"], state["judge_calls"]) == (4.5, 7)


def test_a_run_that_vanishes_is_unknown(tmp_path: Path) -> None:
    run = running(tmp_path, 1.0)
    library = Library(tmp_path, [ID])
    assert library.live(ID)["rows"] == 1
    shutil.rmtree(run.path)
    with pytest.raises(UnknownRunError):
        library.live(ID)
    running(tmp_path, 1.0, 0.5)
    assert library.live(ID)["rows"] == 2


# -- how fast


def test_the_pace_is_that_of_the_last_minute() -> None:
    pace = Pace()
    assert pace.rate("a", 100, 0.0) is None
    assert pace.rate("a", 101, 0.5) is None  # too early
    assert pace.rate("a", 110, 5.0) == 2.0
    assert pace.rate("a", 110, 10.0) == 1.0  # nothing arrived since
    rates = [pace.rate("a", 110 + 10 * step, 10.0 + step) for step in range(1, 200)]
    assert rates[-1] == pytest.approx(10.0, rel=0.02)


def test_the_pace_of_a_slow_run() -> None:
    pace = Pace()
    rates = [pace.rate("a", 1 + int(second // 300), float(second)) for second in range(0, 3_600, 2)]
    assert rates[-1] == pytest.approx(1 / 300, rel=0.2)


def test_the_pace_begins_again_when_rows_were_replaced() -> None:
    pace = Pace()
    pace.rate("a", 100, 0.0)
    assert pace.rate("a", 200, 10.0) == 10.0
    assert pace.rate("b", 50, 11.0) is None
    assert pace.rate("b", 60, 21.0) == 1.0
    assert pace.rate("b", 10, 22.0) is None  # fewer rows: another file
    pace.stop()
    assert pace.rate("b", 500, 1_000.0) is None  # the hour between two parts of a run does not count
    assert pace.rate("b", 510, 1_010.0) == 1.0


def test_the_time_that_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("agentv.view.live_state.time.monotonic", lambda: now[0])
    run = running(tmp_path, 1.0, 1.0)
    library = Library(tmp_path)
    with writer_of(run):
        library.live(ID)
        run.append(*some_rows(ID, *[1.0] * 6)[2:])
        now[0] += 8
        state = library.live(ID)
        assert (state["rows_per_second"], state["eta_seconds"]) == (0.5, 8.0)
        run.append(*some_rows(ID, *[1.0] * 10)[6:])
        assert library.live(ID)["eta_seconds"] is None
    assert library.live(ID)["rows_per_second"] is None
