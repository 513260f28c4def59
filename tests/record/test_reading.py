"""A run is listed by the first bytes of its lines, with the same result as decoding them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.codec import encode
from agentv.errors import RecordError
from agentv.evidence import CaseRecord, JudgeCallRecord
from agentv.jsonio import dump_line
from agentv.messages import Message, TokenUsage
from agentv.record import reading
from agentv.record.reading import RowHead, RunReader
from agentv.record.rows import decode_row, encode_row
from agentv.record.run_dir import RunDirectory
from agentv.results import CaseError, CaseKey, CaseResult, RowKey, Verdict
from tests.record.rows import make_row

NASTY = st.text(
    st.sampled_from('"\\{},:[]ab/u0\n\r\t\x00\x1f\x7f\x85\u2028\u2029\u00e9\u4e2d\U0001f600 ') | st.characters()
)
ROWS = st.builds(
    lambda run_id, eval_id, suite, target, attempt, score, verdict, error: make_row(
        eval_id, run_id=run_id, suite=suite, target=target, attempt=attempt, score=score, verdict=verdict, error=error
    ),
    NASTY,
    NASTY,
    NASTY,
    NASTY,
    st.integers(1, 2**63 - 1),
    st.floats(0, 1) | st.sampled_from([0, 1, 0.1, 1e-7, 5e-324]),
    st.sampled_from(list(Verdict)),
    st.none() | st.builds(CaseError, st.just("target"), NASTY),
)


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(tmp_path / "run", {"run_id": "run"})


def head(row: CaseResult, offset: int, length: int) -> RowHead:
    return RowHead(row.key, row.score, row.verdict, row.error is not None, offset, length)


@given(ROWS)
def test_head_equals_the_decoded_row(row: CaseResult):
    line = encode_row(row)
    assert reading._head(7, line, {}) == head(decode_row(line), 7, len(line))


@given(st.builds(make_row, NASTY), st.data())
def test_head_of_a_damaged_line_is_never_another_case(row: CaseResult, data: st.DataObject):
    line = encode_row(row)
    at = data.draw(st.integers(0, len(line) - 2))
    found = reading._head(0, line[:at] + b"\n", {})
    assert found is None or found.key == row.key


def test_heads_and_rows_are_read_in_order_and_damaged_lines_are_counted(run: RunDirectory):
    older = encode_row(make_row("older")).replace(b'"verdict"', b'"made_by":"an older version","verdict"')
    lines = [
        encode_row(make_row('a "quoted" \\ \n id', score=0.25, verdict=Verdict.FAIL)),
        b"garbage\n",
        older,
        b"\n",
        encode_row(make_row("errored", score=0.0, verdict=Verdict.FAIL, error=CaseError("target", "no"))),
        encode_row(make_row("torn"))[:-1],
    ]
    run.results.write_bytes(b"".join(lines))
    reader = RunReader.open(run.path)
    assert [(head.key.eval_id, head.score, head.errored) for head in reader.heads()] == [
        ('a "quoted" \\ \n id', 0.25, False),
        ("older", 1.0, False),
        ("errored", 0.0, True),
    ]
    assert reader.damaged["results.jsonl"] == 2
    assert [row.key for row in reader.rows()] == reader.keys()
    older_row = reader.row(RowKey("suite", "older", "target", 1))
    assert older_row is not None
    assert older_row.candidate_answer == "Paris"
    assert reader.row_of(reader.heads()[1]) == older_row
    assert reader.row(RowKey("suite", "torn", "target", 1)) is None


def test_rows_are_found_after_the_file_was_replaced(run: RunDirectory):
    run.results.write_bytes(encode_row(make_row("one")) + encode_row(make_row("two")))
    reader = RunReader.open(run.path)
    assert len(reader.heads()) == 2
    run.results.write_bytes(encode_row(make_row("two", "Rome")))
    row = reader.row(RowKey("suite", "two", "target", 1))
    assert row is not None
    assert row.candidate_answer == "Rome"


def test_damaged_row_is_reported(run: RunDirectory):
    line = encode_row(make_row("one"))
    run.results.write_bytes(line.replace(b'"hits"', b"'hits\""))
    reader = RunReader.open(run.path)
    with pytest.raises(RecordError, match=r"the row of 'one' in .* is damaged"):
        reader.row(reader.keys()[0])


def test_cases_and_judge_calls_are_found_by_their_key(run: RunDirectory):
    key = RowKey('s"uite', "één\u2028", "target", 2)
    case = CaseRecord(key.suite, key.eval_id, "abc", (Message("user", "Why?"),), threshold=0.5, tags=("slow",))
    other = CaseRecord(key.suite, f"{key.eval_id}2", "def", (Message("user", "What?"),))
    run.cases.write_text(f"{dump_line(encode(other))}\n{dump_line(encode(case))}\n", encoding="utf-8")
    calls = [
        JudgeCallRecord(
            *key, "judge", index, "grader", "ok", token_usage=TokenUsage(1, 2), question=f"question {index}"
        )
        for index in (1, 2)
    ]
    # Lines of older versions lack most fields.
    old = {"suite": key.suite, "eval_id": key.eval_id, "case_target": "target", "case_attempt": 2, "index": 3}
    old |= {"evaluator": "judge", "target": "grader", "status": "ok", "retries": 0}
    unrelated = JudgeCallRecord(key.suite, key.eval_id, "target", 22, "judge", 1, "grader", "ok")
    written = [dump_line(encode(record)) for record in (calls[0], unrelated, calls[1])]
    damaged = written[0].replace("question 1", "question \x01")
    text = "\n".join([*written, dump_line(old), damaged, written[0][:-5]])
    run.judge_calls.write_text(text, encoding="utf-8")

    reader = RunReader.open(run.path)
    assert reader.case(key) == case
    assert reader.case(key._replace(eval_id="unknown")) is None
    reader.index_cases()
    assert reader.case(key) == case
    assert reader.case(key._replace(eval_id=other.eval_id)) == other
    assert reader.case(key._replace(eval_id="unknown")) is None
    assert reader.judge_calls(key)[:2] == calls
    assert [call.index for call in reader.judge_calls(key)] == [1, 2, 3]
    assert reader.damaged["judge_calls.jsonl"] == 2
    assert reader.judge_calls(key._replace(suite="\ud800")) == []


@pytest.mark.parametrize("size", [1, 2, 7, 20, 64, 1000])
def test_lines_are_found_wherever_a_chunk_of_the_file_ends(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, size: int
):
    monkeypatch.setattr(reading, "_BUFFER", size)
    cases = [CaseRecord("s", name, "0" * 64, (Message("user", "q" * length),)) for length, name in enumerate("abac")]
    run.cases.write_text("".join(f"{dump_line(encode(case))}\n" for case in cases) + '{"suite":"s","eval_id":"b",')
    reader = RunReader(run)
    found = {name: reader.case(CaseKey("s", name, "t")) for name in "abcd"}
    assert found == {"a": cases[2], "b": cases[1], "c": cases[3], "d": None}


def test_judge_calls_are_searched_near_their_row_first(run: RunDirectory, monkeypatch: pytest.MonkeyPatch):
    rows = [make_row(f"case-{number}") for number in range(100)]
    run.results.write_bytes(b"".join(map(encode_row, rows)))
    calls = [JudgeCallRecord(*row.key, "judge", index, "grader", "ok") for row in rows for index in (1, 2)]
    lines = [f"{dump_line(encode(call))}\n" for call in calls]
    run.judge_calls.write_text("".join(lines), encoding="utf-8")
    monkeypatch.setattr(reading, "_WINDOWS", (1000,))
    reader = RunReader.open(run.path)
    for head in reader.heads():
        assert [call.index for call in reader.judge_calls(head.key, near=head, expected=2)] == [1, 2]
    # A call that is elsewhere, because the run was resumed, is found too.
    run.judge_calls.write_text("".join([*lines[1:], lines[0]]), encoding="utf-8")
    head = reader.heads()[0]
    assert [call.index for call in reader.judge_calls(head.key, near=head, expected=2)] == [2, 1]


def test_runs_without_cases_and_judge_calls_are_readable(run: RunDirectory):
    reader = RunReader.open(run.path)
    key = RowKey("suite", "one", "target", 1)
    assert reader.heads() == []
    assert reader.case(CaseKey("suite", "one", "t")) is None
    assert reader.judge_calls(key) == []
    assert reader.execution(key) == 1
    run.superseded.write_bytes(encode_row(make_row("one")) * 2 + encode_row(make_row("two")))
    assert reader.execution(key) == 3
    run.results.unlink()
    assert RunReader.open(run.path).heads() == []


@pytest.mark.parametrize("name", ["results.jsonl", "cases.jsonl", "judge_calls.jsonl"])
def test_links_and_pipes_are_refused(run: RunDirectory, name: str):
    (run.path / name).unlink(missing_ok=True)
    os.mkfifo(run.path / name)
    with pytest.raises(RecordError, match="must be a regular file, got a named pipe"):
        RunReader.open(run.path)
    (run.path / name).unlink()
    reader = RunReader.open(run.path)
    (run.path / name).symlink_to("/etc/hostname")
    with pytest.raises(RecordError, match="must be a regular file, got a symbolic link"):
        (reader.heads(), reader.case(CaseKey("s", "e", "t")), reader.judge_calls(RowKey("s", "e", "t", 1)))
