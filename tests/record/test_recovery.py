"""Recovery keeps valid rows and moves damaged lines to another file."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentv.errors import RecordError, RunLockedError
from agentv.record import recovery as recovery_module
from agentv.record.recovery import CorruptLine, DuplicateLine, read_rows, recover
from agentv.record.rows import encode_row
from agentv.record.run_dir import RunDirectory
from agentv.results import CaseResult, RowKey
from tests.record.rows import make_row


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(tmp_path / "run", {})


def line(name: str, answer: str = "Paris") -> bytes:
    return encode_row(make_row(name, answer))


def key(name: str) -> RowKey:
    return RowKey("suite", name, "target", 1)


def test_rows_are_read_one_at_a_time_with_their_line_numbers(run: RunDirectory):
    run.results.write_bytes(line("one") + b"garbage\n" + line("two") + b"\n" + line("torn")[:-1])
    read = list(read_rows(run.results))
    assert [number for number, _ in read] == [1, 2, 3, 4]
    rows = [row for _, row in read]
    assert rows[0] == make_row("one")
    assert isinstance(rows[1], CorruptLine)
    assert "not JSON" in rows[1].reason
    assert rows[2] == make_row("two")
    assert rows[3] == CorruptLine(4, "empty line")


def test_missing_file_is_reported_with_its_path(tmp_path: Path):
    with pytest.raises(RecordError, match=r"nothing\.jsonl: ENOENT"):
        list(read_rows(tmp_path / "nothing.jsonl"))


def test_valid_file_is_not_rewritten(run: RunDirectory):
    run.results.write_bytes(line("one") + line("two"))
    before = run.results.stat()
    rows: list[CaseResult] = []
    recovery = recover(run, rows.append)
    after = run.results.stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert recovery.done == {key("one"), key("two")}
    assert rows == [make_row("one"), make_row("two")]
    assert not recovery.corrupt
    assert not recovery.duplicates
    assert not run.corrupt.exists()


def test_incomplete_last_line_is_removed_and_not_done(run: RunDirectory):
    run.results.write_bytes(line("one") + line("two")[:-1])
    recovery = recover(run)
    assert recovery.done == {key("one")}
    assert recovery.torn_bytes == len(line("two")) - 1
    assert run.results.read_bytes() == line("one")


@pytest.mark.parametrize(
    "garbage",
    [b"{broken\n", b"\x00" * 5000 + b"\n", b"\xff\xfe\n", b"\n", b'{"eval_id": "two"}\n', line("two")[5:]],
)
def test_corrupt_line_is_moved_and_other_lines_keep_their_bytes(run: RunDirectory, garbage: bytes):
    unusual_but_valid = line("three").replace(b'"score":1.0', b'"score": 1.00')
    run.results.write_bytes(line("one") + garbage + unusual_but_valid + line("four"))
    rows: list[CaseResult] = []
    recovery = recover(run, rows.append)
    assert [corrupt.number for corrupt in recovery.corrupt] == [2]
    assert recovery.corrupt[0].reason
    assert recovery.done == {key("one"), key("three"), key("four")}
    assert [row.eval_id for row in rows] == ["one", "three", "four"]
    assert run.results.read_bytes() == line("one") + unusual_but_valid + line("four")
    assert run.corrupt.read_bytes() == garbage
    for path in (run.results, run.corrupt):
        assert path.stat().st_mode & 0o777 == 0o600
    assert not recover(run).corrupt


def test_first_of_two_duplicate_rows_is_kept(run: RunDirectory):
    run.results.write_bytes(line("one", "first") + line("two") + line("one", "second"))
    recovery = recover(run)
    assert recovery.duplicates == [DuplicateLine(3, key("one"))]
    assert run.results.read_bytes() == line("one", "first") + line("two")
    assert run.corrupt.read_bytes() == line("one", "second")


def test_corrupt_lines_are_appended_to_earlier_ones(run: RunDirectory):
    run.corrupt.write_bytes(b"earlier\nhalf a li")
    run.results.write_bytes(b"later\n")
    recover(run)
    assert run.corrupt.read_bytes() == b"earlier\nlater\n"
    assert run.results.read_bytes() == b""


def test_line_over_the_length_limit_is_moved(run: RunDirectory, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(recovery_module, "LONGEST_LINE", 10_000)
    endless = b"x" * 2_500_000 + b"\n"
    run.results.write_bytes(line("one") + endless + line("two") + line("torn", "y" * 20_000)[:-1])
    assert [n for n, _ in read_rows(run.results)] == [1, 2, 3]
    recovery = recover(run)
    assert [corrupt.number for corrupt in recovery.corrupt] == [2]
    assert run.results.read_bytes() == line("one") + line("two")
    assert run.corrupt.read_bytes() == endless


def test_run_killed_before_its_first_row_is_empty(run: RunDirectory):
    run.results.unlink()
    assert recover(run).done == set()
    assert run.results.read_bytes() == b""


def test_run_that_is_being_written_is_not_modified(run: RunDirectory):
    run.results.write_bytes(line("one") + b"half")
    with run.lock(), pytest.raises(RunLockedError):
        recover(RunDirectory.open(run.path))
    assert run.results.read_bytes() == line("one") + b"half"
