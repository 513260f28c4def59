"""The judge call log is written in groups and loses no calls."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from agentv.errors import RecordError
from agentv.record.judge_calls import JudgeCallLog
from agentv.record.run_dir import RunDirectory
from agentv.record.writer import RowWriter
from tests.record.rows import make_row


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def test_concurrent_calls_are_one_write_and_closing_writes_all(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    with JudgeCallLog(path) as log:
        for index in range(100):
            log.append({"index": index})
        assert lines_of(path) == []
    assert [line["index"] for line in lines_of(path)] == list(range(100))


async def test_call_is_written_soon_without_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentv.record.judge_calls.SOON", 0.001)
    path = tmp_path / "calls.jsonl"
    with JudgeCallLog(path) as log:
        for index in range(3):
            log.append({"index": index})
            async with asyncio.timeout(20):
                while len(lines_of(path)) != index + 1:
                    await asyncio.sleep(0.001)


def test_call_is_written_immediately_outside_of_an_event_loop(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    with JudgeCallLog(path) as log:
        log.append({"index": 1})
        assert lines_of(path) == [{"index": 1}]


async def test_calls_of_a_row_are_on_disk_before_the_row(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "run", {})
    with JudgeCallLog(run.judge_calls) as log:
        async with RowWriter(run, before=log.flush) as writer:
            for index in range(20):
                log.append({"index": index})
                await writer.append(make_row(f"case-{index}"))
                assert lines_of(run.judge_calls)[-1] == {"index": index}


def test_no_call_is_lost_when_a_thread_flushes_concurrently(tmp_path: Path) -> None:
    path, done = tmp_path / "calls.jsonl", threading.Event()

    def flush_all_the_time() -> None:
        while not done.is_set():
            log.flush()

    async def append_all() -> None:
        for index in range(5_000):
            log.append({"index": index})
            if index % 50 == 0:
                await asyncio.sleep(0)

    with JudgeCallLog(path) as log:
        flusher = threading.Thread(target=flush_all_the_time)
        flusher.start()
        asyncio.run(append_all())
        done.set()
        flusher.join()
    assert [line["index"] for line in lines_of(path)] == list(range(5_000))


async def test_unwritable_log_raises_when_closed(tmp_path: Path) -> None:
    log = JudgeCallLog(tmp_path / "nowhere" / "calls.jsonl")
    with pytest.raises(RecordError, match="Result rows are not affected"), log:
        log.append({"index": 1})


def test_incomplete_line_is_removed_before_the_next(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_text('{"index":1}\n{"ind')
    with JudgeCallLog(path) as log:
        log.append({"index": 2})
    assert lines_of(path) == [{"index": 1}, {"index": 2}]


def test_log_stops_after_a_failed_write(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "calls.jsonl"
    log = JudgeCallLog(path)
    log.append({"index": 1})
    path.parent.mkdir()
    log.append({"index": 2})
    assert not path.exists()
    with pytest.raises(RecordError, match="ENOENT"):
        log.__exit__(None)
