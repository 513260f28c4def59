"""One thread appends lines to several files, in groups."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agentv.errors import RecordError
from agentv.record.appender import AppendedFile, Appender
from agentv.record.files import failure


class Text:
    """Strings as lines; those with 10 or more characters count as large, and `!` cannot be encoded."""

    def __init__(self) -> None:
        self.threads: list[str] = []

    def small(self, record: str) -> tuple[str, bytes] | None:
        return None if len(record) >= 10 else self.large(record)

    def large(self, record: str) -> tuple[str, bytes]:
        self.threads.append(threading.current_thread().name)
        if "!" in record:
            raise ValueError("not encodable")
        return record.upper(), record.encode() + b"\n"


def text_file(path: Path, *, synced: bool = True) -> AppendedFile[str]:
    return AppendedFile(path, Text(), lambda error: failure("write", path, error), synced=synced)


@asynccontextmanager
async def appending(*files: AppendedFile[str]) -> AsyncIterator[None]:
    appender = Appender()
    for file in files:
        appender.add(file)
    appender.start()
    try:
        yield
    finally:
        thread = appender.stop()
        assert thread is not None
        await asyncio.to_thread(thread.join)
        appender.close()


async def test_file_is_created_with_its_first_line_and_a_torn_line_is_removed(tmp_path: Path):
    empty, torn = text_file(tmp_path / "empty"), text_file(tmp_path / "torn")
    torn.path.write_bytes(b"whole\ntorn")
    async with appending(empty, torn):
        assert await torn.submit("next") == "NEXT"
    assert torn.path.read_bytes() == b"whole\nnext\n"
    assert not empty.path.exists()


async def test_large_records_are_encoded_in_the_writer_thread(tmp_path: Path):
    file = text_file(tmp_path / "file")
    async with appending(file):
        written = await asyncio.gather(file.submit("large record"), file.submit("small"))
    assert list(written) == ["LARGE RECORD", "SMALL"]
    assert isinstance(file.encoder, Text)
    assert sorted(file.encoder.threads) == ["MainThread", "agentv-writer"]


async def test_lines_synced_later_are_written_before_those_synced_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    rows, calls = text_file(tmp_path / "rows"), text_file(tmp_path / "calls", synced=False)
    log: list[tuple[str, str]] = []

    def note(did: str, descriptor: int) -> None:
        log.extend(
            (did, file.path.name) for file in (rows, calls) if os.path.samestat(file.path.stat(), os.fstat(descriptor))
        )

    def write(descriptor: int, data: bytes) -> None:
        note("write", descriptor)
        os.write(descriptor, data)

    monkeypatch.setattr("agentv.record.appender.write_all", write)
    monkeypatch.setattr("agentv.record.appender.sync_data", lambda descriptor: note("sync", descriptor))
    async with appending(rows, calls):
        rows.open()
        calls.open()
        await asyncio.gather(calls.submit("call 1"), rows.submit("row 1"), calls.submit("call 2"), rows.submit("row 2"))
        assert log == [("write", "calls"), ("write", "rows"), ("sync", "rows")]
    assert log[3:] == [("sync", "calls")]
    assert calls.path.read_bytes() == b"call 1\ncall 2\n"


async def test_lines_are_synced_later_without_further_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    synced = threading.Event()
    monkeypatch.setattr("agentv.record.appender.SYNC_SECONDS", 0.01)
    monkeypatch.setattr("agentv.record.appender.sync_data", lambda _: synced.set())
    file = text_file(tmp_path / "file", synced=False)
    async with appending(file):
        await file.submit("line")
        assert await asyncio.to_thread(synced.wait, 30)


@pytest.mark.parametrize("bad", ["cannot be encoded!", "has no directory"])
async def test_failed_file_refuses_lines_and_others_continue(tmp_path: Path, bad: str):
    broken = text_file(tmp_path / "missing" / "file" if bad == "has no directory" else tmp_path / "broken")
    sound = text_file(tmp_path / "sound")
    async with appending(broken, sound):
        outcomes = await asyncio.gather(broken.submit(bad), sound.submit("line"), return_exceptions=True)
        assert isinstance(outcomes[0], RecordError)
        assert outcomes[1] == "LINE"
        with pytest.raises(RecordError):
            broken.submit("later")
        assert await sound.submit("more") == "MORE"
    assert sound.path.read_bytes() == b"line\nmore\n"
