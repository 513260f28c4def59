"""A full disk fails the run with an error, loses no rows, and the run can be resumed later."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentv.record.recovery import recover
from agentv.record.rows import encode_row
from agentv.record.run_dir import RunDirectory
from agentv.record.writer import RowWriter
from tests.record.rows import make_row


def run_child(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.record.children", *arguments]
    report: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return report


def assert_exact(run: RunDirectory, report: dict[str, Any], word: str) -> None:
    """Assert that the file contains exactly the acknowledged rows and that both errors name the cause."""
    assert len(report["errors"]) == 2
    for error in report["errors"]:
        assert word in error
        assert str(run.results) in error
        assert "agentv eval --resume" in error
    expected = b"".join(encode_row(make_row(name, "x" * 5000)) for name in report["acknowledged"])
    assert report["acknowledged"]
    assert run.results.read_bytes() == expected


def test_size_limit_fails_the_run_without_losing_rows(tmp_path: Path):
    run = RunDirectory.create(tmp_path / "run", {})
    report = run_child("limited", str(run.path), "200000")
    assert_exact(run, report, "EFBIG: file too large")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "agentv-test", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("mounting a small disk requires root and permission to mount")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


async def test_run_can_be_resumed_after_a_full_disk(small_disk: Path):
    run = RunDirectory.create(small_disk / "run", {"cases": "many"})
    report = run_child("fill", str(run.path))
    assert_exact(run, report, "ENOSPC: no space left on device")
    assert run.read_manifest() == {"cases": "many"}

    subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
    done = recover(run).done
    assert {key.eval_id for key in done} == set(report["acknowledged"])
    before = run.results.read_bytes()
    async with RowWriter(run) as writer:
        await writer.append(make_row("after"))
    assert run.results.read_bytes() == before + encode_row(make_row("after"))
