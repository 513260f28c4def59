"""`--out`: a copy of the rows that can fail without affecting the run."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agentv.errors import RecordError
from agentv.record import mirror
from agentv.record.rows import encode_row
from agentv.record.run_dir import RunDirectory
from agentv.record.writer import RowWriter
from tests.record.rows import make_row


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(tmp_path / "run", {})


async def test_existing_file_is_replaced_and_rows_are_copied(run: RunDirectory, tmp_path: Path):
    out = tmp_path / "new" / "out.jsonl"
    out.parent.mkdir()
    out.write_text("old\n" * 10_000)
    async with RowWriter(run, out=out) as writer:
        for number in range(20):
            await writer.append(make_row(f"case-{number}"))
    assert writer.mirror_error is None
    assert out.read_bytes() == run.results.read_bytes()
    assert out.read_bytes().count(b"\n") == 20


async def test_new_file_is_private_and_its_directory_is_created(run: RunDirectory, tmp_path: Path):
    out = tmp_path / "a" / "b" / "out.jsonl"
    before = os.umask(0)
    try:
        async with RowWriter(run, out=out) as writer:
            await writer.append(make_row())
    finally:
        os.umask(before)
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


async def test_file_is_complete_after_a_resume(run: RunDirectory, tmp_path: Path):
    out = tmp_path / "out.jsonl"
    async with RowWriter(run, out=out) as writer:
        await writer.append(make_row("one"))
    out.write_bytes(b'{"torn": ')
    async with RowWriter(run, out=out) as writer:
        await writer.append(make_row("two"))
    assert out.read_bytes() == encode_row(make_row("one")) + encode_row(make_row("two"))


async def test_results_file_of_the_run_is_refused_and_unchanged(run: RunDirectory):
    async with RowWriter(run) as writer:
        await writer.append(make_row())
    with pytest.raises(RecordError, match="own results file"):
        async with RowWriter(run, out=run.results):
            pass
    assert run.results.read_bytes() == encode_row(make_row())


async def test_file_that_cannot_be_opened_is_refused_at_the_start(run: RunDirectory, tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match=r"--out .*(ENOTDIR|EEXIST)"):
        async with RowWriter(run, out=tmp_path / "file" / "out.jsonl"):
            pass
    with run.lock():
        pass


async def test_full_disk_under_the_copy_loses_no_row(run: RunDirectory):
    async with RowWriter(run, out=Path("/dev/full")) as writer:
        for number in range(20):
            await writer.append(make_row(f"case-{number}"))
    assert run.results.read_bytes().count(b"\n") == 20
    assert writer.mirror_error is not None
    assert "--out /dev/full: ENOSPC" in writer.mirror_error.message
    assert "results.jsonl" in str(writer.mirror_error.next_step)


async def test_fifo_receives_only_new_rows(run: RunDirectory, tmp_path: Path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    async with RowWriter(run) as writer:
        await writer.append(make_row("old"))
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(fifo.read_bytes()))
    async with RowWriter(run, out=fifo) as writer:
        await writer.append(make_row("before the reader opens", "x" * 300_000))
        reader.start()
        await writer.append(make_row("after"))
    reader.join(30)
    assert writer.mirror_error is None
    assert got == [encode_row(make_row("before the reader opens", "x" * 300_000)) + encode_row(make_row("after"))]


async def test_fifo_without_a_reader_does_not_block(run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mirror, "_STALLED_SECONDS", 0.1)
    never_opened, never_read = tmp_path / "one", tmp_path / "two"
    for fifo in (never_opened, never_read):
        os.mkfifo(fifo)
    reader = os.open(never_read, os.O_RDONLY | os.O_NONBLOCK)
    for number, fifo in enumerate((never_opened, never_read)):
        async with RowWriter(run, out=fifo) as writer:
            await writer.append(make_row(f"case-{number}", "x" * 1_000_000))
            await writer.append(make_row(f"last-{number}"))
        assert writer.mirror_error is not None
        assert "no process is reading it" in writer.mirror_error.message
    os.close(reader)
    assert run.results.read_bytes().count(b"\n") == 4


async def test_closed_reader_is_reported(run: RunDirectory, tmp_path: Path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    async with RowWriter(run, out=fifo) as writer:
        await writer.append(make_row("one"))
        while not os.get_blocking(reader) and not _some(reader):
            pass
        os.close(reader)
        await writer.append(make_row("two"))
    assert writer.mirror_error is not None
    assert "EPIPE" in writer.mirror_error.message
    assert run.results.read_bytes().count(b"\n") == 2


def _some(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 10_000_000)
    except BlockingIOError:
        return b""


@pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/fd/1"])
def test_rows_are_appended_to_standard_output(run: RunDirectory, tmp_path: Path, name: str):
    """Also when stdout is a file: reopening /dev/stdout would truncate it."""
    redirected = tmp_path / "redirected"
    script = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from agentv.record.run_dir import RunDirectory\n"
        "from agentv.record.writer import RowWriter\n"
        "from tests.record.rows import make_row\n"
        "async def main():\n"
        "    async with RowWriter(RunDirectory.open(Path(sys.argv[1])), out=Path(sys.argv[2])) as writer:\n"
        "        await writer.append(make_row())\n"
        "print('first', flush=True)\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-c", script, str(run.path), name]
    with redirected.open("wb") as stdout:
        subprocess.run(command, check=True, stdout=stdout)
    assert redirected.read_bytes() == b"first\n" + encode_row(make_row())
    piped = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    assert piped == b"first\n" + encode_row(make_row())
