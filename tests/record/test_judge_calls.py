"""Judge calls are written before their replies are used; prompts and replies can be removed at the end."""

from __future__ import annotations

import json
import stat
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentv.errors import RecordError
from agentv.evidence import JudgeCallRecord, request_sha256
from agentv.messages import Message
from agentv.record.judge_calls import JudgeCallLog, drop_io_of_passed, encode_call
from agentv.record.reading import RunReader
from agentv.record.run_dir import RunDirectory
from agentv.record.writer import RowWriter
from agentv.redact import NO_SECRETS, Redactor
from agentv.results import CaseError, Verdict
from tests.record.rows import make_row

SECRET = "sk-very-secret-0123456789"


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def make_call(eval_id: str = "case", index: int = 1, **fields: Any) -> JudgeCallRecord:
    row = make_row(eval_id)
    fields = {"question": "Is it?", "reply": {"outputMessages": [], "rawText": "yes"}, "status": "ok", **fields}
    return JudgeCallRecord(row.suite, eval_id, row.target, row.attempt, "judge", index, "strict", **fields)


@asynccontextmanager
async def logging(tmp_path: Path, redactor: Redactor = NO_SECRETS) -> AsyncIterator[tuple[RowWriter, JudgeCallLog]]:
    run = RunDirectory.create(tmp_path / "run", {})
    writer = RowWriter(run, redactor=redactor)
    log = JudgeCallLog(run, writer.appender, redactor)
    async with writer:
        yield writer, log
    log.check()


async def test_call_is_in_the_file_when_it_is_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "run" / "judge_calls.jsonl"
    async with logging(tmp_path) as (_, log):
        assert not path.exists()
        for index in range(1, 4):
            written = log.append(make_call(index=index))
            assert written is not None
            await written
            assert [line["index"] for line in lines_of(path)] == list(range(1, index + 1))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    (first, *_) = lines_of(path)
    assert list(first)[:6] == ["suite", "eval_id", "case_target", "case_attempt", "evaluator", "index"]
    assert "execution" not in first


async def test_calls_of_a_row_are_on_disk_before_the_row(tmp_path: Path) -> None:
    path = tmp_path / "run" / "judge_calls.jsonl"
    async with logging(tmp_path) as (writer, log):
        for index in range(1, 21):
            log.append(make_call(index=index, status="cancelled"))
            await writer.append(make_row(f"case-{index}"))
            assert lines_of(path)[-1]["index"] == index


async def test_incomplete_line_is_removed_before_the_next(tmp_path: Path) -> None:
    path = tmp_path / "run" / "judge_calls.jsonl"
    async with logging(tmp_path) as (_, log):
        path.write_text('{"index":1}\n{"ind')
        log.append(make_call(index=2))
    assert [line["index"] for line in lines_of(path)] == [1, 2]


async def test_log_stops_after_a_failed_write_and_the_error_is_raised_at_the_end(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "run", {})
    writer = RowWriter(run)
    log = JudgeCallLog(run, writer.appender, NO_SECRETS)
    async with writer:
        run.judge_calls.mkdir()
        written = log.append(make_call())
        assert written is not None
        with pytest.raises(RecordError):
            await written
        assert log.append(make_call()) is None
        await writer.append(make_row("case"))
    with pytest.raises(RecordError, match="Result rows are not affected") as caught:
        log.check()
    assert caught.value.exit_code == 3


async def test_large_call_is_masked_in_the_writer_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []

    def observed(*arguments: Any, **options: Any) -> Any:
        threads.append(threading.current_thread().name)
        return encode_call(*arguments, **options)

    monkeypatch.setattr("agentv.record.judge_calls.encode_call", observed)
    async with logging(tmp_path, Redactor([SECRET])) as (_, log):
        log.append(make_call())
        log.append(make_call(question=f"{'x' * 100_000} {SECRET}"))
    assert threads == [threading.main_thread().name, "agentv-writer"]
    small, large = lines_of(tmp_path / "run" / "judge_calls.jsonl")
    assert large["question"].endswith("x [redacted]")
    assert len(small["request_sha256"]) == 64


def test_hash_of_a_request_does_not_depend_on_the_secret_that_is_masked_in_it() -> None:
    redactor = Redactor([SECRET])
    line = encode_call(make_call(question=f"Is it {SECRET}?", system_prompt="Be strict."), redactor)
    assert SECRET not in line.decode()
    data = json.loads(line)
    assert data["question"] == "Is it [redacted]?"
    masked = (Message("system", "Be strict."), Message("user", "Is it [redacted]?"))
    assert data["request_sha256"] == request_sha256("strict", masked, None, redactor)
    assert data["request_sha256"] != request_sha256("strict", masked, {"seed": 1}, redactor)


@pytest.mark.parametrize("name", ["question", "request_sha256", "judge_calls"])
def test_field_names_are_not_masked(name: str) -> None:
    line = encode_call(make_call(), Redactor([name, "outputMessages"]))
    data = json.loads(line)
    assert data["question"] == "Is it?"
    assert len(data["request_sha256"]) == 64


def test_text_that_looks_like_the_hash_is_not_changed() -> None:
    text = '"request_sha256":""'
    line = encode_call(make_call(question=text, reply={"request_sha256": ""}))
    data = json.loads(line)
    assert (data["question"], data["reply"]) == (text, {"request_sha256": ""})
    assert len(data["request_sha256"]) == 64


def test_call_without_a_prompt_has_no_hash() -> None:
    assert json.loads(encode_call(make_call(question=None, reply=None)))["request_sha256"] == ""


async def test_prompts_and_replies_of_passed_rows_are_removed(tmp_path: Path) -> None:
    old = {"suite": "suite", "eval_id": "passed", "case_target": "target", "case_attempt": 1, "note": "not a call"}
    calls = [
        make_call("passed"),
        make_call("passed", 2, status="failed", reply=None, error="HTTP 500"),
        make_call("passed", 1, execution=2),
        make_call("failed"),
        make_call("errored"),
        make_call("unfinished"),
    ]
    async with logging(tmp_path) as (writer, log):
        for call in calls:
            log.append(call)
        await writer.append(replace(make_row("passed"), score=1.0, verdict=Verdict.PASS))
        await writer.append(replace(make_row("failed"), score=0.0, verdict=Verdict.FAIL))
        error = CaseError("evaluator", "no")
        await writer.append(replace(make_row("errored"), score=1.0, verdict=Verdict.PASS, error=error))
    path = tmp_path / "run" / "judge_calls.jsonl"
    path.write_text(json.dumps(old) + "\n" + path.read_text())
    directory = RunDirectory.open(tmp_path / "run")
    drop_io_of_passed(directory, lambda _: 2)
    assert [("question" in line, "reply" in line) for line in lines_of(path)[1:]] == [
        (True, True),
        (True, False),
        (False, False),
        (True, True),
        (True, True),
        (True, True),
    ]
    assert lines_of(path)[0] == old
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    first, second, third = RunReader(directory).judge_calls(make_row("passed").key)
    assert (first.question, second.error, third.question, third.reply) == ("Is it?", "HTTP 500", None, None)
    assert third.request_sha256 == first.request_sha256
