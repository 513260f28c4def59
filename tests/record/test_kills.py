"""kill -9 at any moment does not lose, damage or duplicate rows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def kill_loop(what: str, directory: Path, kills: int) -> dict[str, int]:
    command = [sys.executable, "-m", "tests.record.kill_loop", what, str(directory), str(kills), "2026"]
    counts: dict[str, int] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return counts


def assert_no_row_suffered(counts: dict[str, int], kills: int) -> None:
    assert counts["kills"] >= kills
    harm = {name: counts[name] for name in ("lost", "changed", "corrupt", "duplicates", "torn_after_heal")}
    assert not any(harm.values()), harm


def test_rows_survive_kills(tmp_path: Path):
    assert_no_row_suffered(kill_loop("rows", tmp_path, 25), 25)


def test_manifest_is_valid_after_kills(tmp_path: Path):
    counts = kill_loop("manifest", tmp_path, 60)
    assert counts == {"kills": 60, "unreadable": 0, "neither_old_nor_new": 0, "left_over": 0}


def test_superseded_rows_survive_a_kill_at_every_system_call(tmp_path: Path):
    command = [sys.executable, "-m", "tests.record.kill_moves", str(tmp_path)]
    counts = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    assert counts.pop("kills") > 30
    assert not any(counts.values()), counts
