"""An acknowledged row is completely on disk and visible to other processes."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agentv.errors import RecordError, RunLockedError
from agentv.record import files
from agentv.record.rows import encode_row
from agentv.record.run_dir import RunDirectory
from agentv.record.writer import RowWriter
from agentv.redact import Redactor
from tests.record.rows import make_row


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(tmp_path / "run", {})


async def test_acknowledged_row_is_visible_to_another_process(run: RunDirectory):
    command = [sys.executable, "-m", "tests.record.children", "see", str(run.results)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"ready\n"

        def seen(eval_id: str) -> bytes:
            assert reader.stdin is not None
            assert reader.stdout is not None
            reader.stdin.write(eval_id.encode() + b"\n")
            reader.stdin.flush()
            return reader.stdout.readline()

        assert seen("unknown") == b"no\n"
        numbers = iter(range(1000))
        async with RowWriter(run) as writer:

            async def work() -> None:
                for number in numbers:
                    await writer.append(make_row(f"case-{number}"))
                    # Nothing is awaited between the acknowledgement and the check by the other process.
                    assert seen(f"case-{number}") == b"yes\n"

            await asyncio.gather(*(work() for _ in range(10)))
        reader.stdin.close()


async def test_rows_are_written_in_append_order(run: RunDirectory):
    rows = [make_row(f"case-{n}", "é" * n) for n in range(200)]
    async with RowWriter(run) as writer:
        await asyncio.gather(*map(writer.append, rows))
    assert run.results.read_bytes() == b"".join(map(encode_row, rows))


async def test_rows_that_arrive_during_a_sync_share_the_next_sync(run: RunDirectory, monkeypatch: pytest.MonkeyPatch):
    first_started, go_on, syncs = threading.Event(), threading.Event(), []

    def slow_sync(descriptor: int) -> None:
        syncs.append(run.results.read_bytes().count(b"\n"))
        first_started.set()
        assert go_on.wait(30)

    async with RowWriter(run) as writer:
        monkeypatch.setattr("agentv.record.appender.sync_data", slow_sync)
        first = asyncio.create_task(writer.append(make_row("first")))
        await asyncio.to_thread(first_started.wait, 30)
        others = [asyncio.create_task(writer.append(make_row(f"case-{n}"))) for n in range(30)]
        await asyncio.sleep(0)
        assert not first.done()
        go_on.set()
        await asyncio.gather(first, *others)
    assert syncs == [1, 31]


async def test_secrets_are_masked_on_disk(run: RunDirectory):
    async with RowWriter(run, redactor=Redactor(["hunter2-hunter2"])) as writer:
        recorded = await writer.append(make_row(answer="it is hunter2-hunter2"))
        assert recorded.candidate_answer == "it is [redacted]"
        clean = make_row("clean")
        assert await writer.append(clean) is clean
    assert b"hunter2" not in run.results.read_bytes()


async def test_only_an_incomplete_last_line_is_removed_on_open(run: RunDirectory):
    whole = encode_row(make_row("one")) + b"not even json\n"
    for torn in (b"", b"{", encode_row(make_row("two", "x" * 200_000))[:-1]):
        run.results.write_bytes(whole + torn)
        async with RowWriter(run):
            pass
        assert run.results.read_bytes() == whole
    run.results.write_bytes(b"never a whole line")
    async with RowWriter(run) as writer:
        await writer.append(make_row("one"))
    assert run.results.read_bytes() == encode_row(make_row("one"))


async def test_short_writes_are_completed(run: RunDirectory, monkeypatch: pytest.MonkeyPatch):
    real_write, sizes = os.write, []

    def short_write(descriptor: int, data: memoryview) -> int:
        sizes.append(len(data))
        return real_write(descriptor, bytes(data[: max(1, len(data) // 3)]))

    rows = [make_row(f"case-{n}", "x" * 3000) for n in range(20)]
    async with RowWriter(run) as writer:
        monkeypatch.setattr(os, "write", short_write)
        await asyncio.gather(*map(writer.append, rows))
        monkeypatch.undo()
    assert len(sizes) > 20
    assert run.results.read_bytes() == b"".join(map(encode_row, rows))


async def test_failed_write_is_rolled_back_and_fails_all_queued_rows(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
):
    real_write, failing = os.write, threading.Event()

    def full_after_a_part(descriptor: int, data: memoryview) -> int:
        if failing.is_set():
            raise OSError(28, "No space left on device")
        failing.set()
        return real_write(descriptor, bytes(data[:100]))

    async with RowWriter(run) as writer:
        await writer.append(make_row("safe"))
        monkeypatch.setattr(os, "write", full_after_a_part)
        waiting = [writer.append(make_row(f"case-{n}")) for n in range(5)]
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        monkeypatch.undo()
        with pytest.raises(RecordError, match="ENOSPC"):
            await writer.append(make_row("later"))
    assert len(outcomes) == 5
    for outcome in outcomes:
        assert isinstance(outcome, RecordError)
        assert "ENOSPC: no space left on device" in outcome.message
        assert str(run.results) in outcome.message
        assert outcome.exit_code == 3
        assert outcome.next_step is not None
        assert run.resume_command in outcome.next_step
    assert run.results.read_bytes() == encode_row(make_row("safe"))


async def test_row_is_not_acknowledged_when_the_sync_fails(run: RunDirectory, monkeypatch: pytest.MonkeyPatch):
    def broken(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    async with RowWriter(run) as writer:
        monkeypatch.setattr("agentv.record.appender.sync_data", broken)
        with pytest.raises(RecordError, match="EIO"):
            await writer.append(make_row())
    assert run.results.read_bytes() == b""


async def test_cancelled_append_still_writes_its_row(run: RunDirectory):
    async with RowWriter(run) as writer:
        tasks = [asyncio.create_task(writer.append(make_row(f"case-{n}"))) for n in range(10)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert run.results.read_bytes().count(b"\n") == 10


async def test_closing_writes_queued_rows_even_when_cancelled(run: RunDirectory, monkeypatch: pytest.MonkeyPatch):
    syncing, go_on = threading.Event(), threading.Event()

    def slow_sync(descriptor: int) -> None:
        syncing.set()
        assert go_on.wait(30)
        files.sync_data(descriptor)

    async def use() -> None:
        async with RowWriter(run) as writer:
            monkeypatch.setattr("agentv.record.appender.sync_data", slow_sync)
            task = asyncio.create_task(writer.append(make_row()))
            await asyncio.to_thread(syncing.wait, 30)
            task.cancel()

    using = asyncio.create_task(use())
    await asyncio.to_thread(syncing.wait, 30)
    await asyncio.sleep(0.05)
    using.cancel()
    threading.Timer(0.05, go_on.set).start()
    with pytest.raises(asyncio.CancelledError):
        await using
    assert run.results.read_bytes() == encode_row(make_row())
    with run.lock():
        pass


async def test_run_has_only_one_writer(run: RunDirectory):
    async with RowWriter(run):
        with pytest.raises(RunLockedError, match=f"process {os.getpid()}"):
            async with RowWriter(RunDirectory.open(run.path)):
                pass
    async with RowWriter(RunDirectory.open(run.path)) as writer:
        await writer.append(make_row())


async def test_writer_accepts_rows_only_while_open(run: RunDirectory):
    writer = RowWriter(run)
    with pytest.raises(RuntimeError, match="async with"):
        await writer.append(make_row())
    async with writer:
        pass
    with pytest.raises(RuntimeError, match="async with"):
        await writer.append(make_row())


async def test_writers_leak_no_descriptors_or_threads(run: RunDirectory, tmp_path: Path):
    async def once() -> None:
        async with RowWriter(run, out=tmp_path / "out.jsonl") as writer:
            await writer.append(make_row())

    await once()
    gc.collect()  # garbage of other tests must not be freed while we count
    before = len(list(Path("/proc/self/fd").iterdir())), {t.name for t in threading.enumerate()}
    for _ in range(20):
        await once()
    after = len(list(Path("/proc/self/fd").iterdir())), {t.name for t in threading.enumerate()}
    assert before[0] == after[0]
    assert not any(name.startswith("agentv") for name in after[1] - before[1])
