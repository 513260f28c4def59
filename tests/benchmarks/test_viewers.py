"""The table of several viewers: medians, reports, other hosts, and viewers that were not measured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.browsing import percentile
from benchmarks.viewers.__main__ import BEGIN, END, PAGE, write
from benchmarks.viewers.measuring import write_samples
from benchmarks.viewers.table import table
from benchmarks.viewers.tools import VIEWERS, samples_in

ROOT = Path(__file__).resolve().parent.parent.parent


def figures(listed: list[float], opened: list[float], **more: Any) -> dict[str, Any]:
    return {"list_ms": listed, "sample_ms": opened, "written_bytes": None, "elsewhere": [], **more}


@pytest.fixture
def data() -> dict[str, Any]:
    viewers = {
        "a": {
            "name": "A",
            "version": "1.0",
            "interface_bytes": 2_550_000,
            "sizes": {
                "1000": figures([900.0, 100.0, 200.0], [20.0], elsewhere=["example.org"]),
                "10000": figures([2_500.0], [30.0, 40.0]),
            },
        },
        "b": {
            "name": "B",
            "version": "2.0",
            "interface_bytes": 8_000,
            "sizes": {"1000": figures([50.0], [5.0], written_bytes=2_100_000)},
            "error": "10,000 results: not ready after 60 s | list",
        },
    }
    about = {"measured_at": "2026-11-17T12:00:00+00:00", "browser": "156.0", "turns": 3, "sizes": [1000, 10000]}
    return {**about, "machine": {"cpus": 2, "load": 0.5}, "viewers": viewers}


def test_table_has_medians_and_what_was_noticed(data: dict[str, Any]) -> None:
    text = table(data)
    assert "| A | 1.0 | 2.55 MB | 200 ms | 20 ms | 2.5 s | 35 ms |" in text
    assert "| B | 2.0 | 8 kB | 50 ms | 5 ms | - | - |" in text
    assert "- A tried to reach other hosts, with telemetry turned off: `example.org`." in text
    assert "- B: the report has 2.1 MB with 1,000 results." in text
    assert "- B was not measured further: 10,000 results: not ready after 60 s / list" in text


def test_only_text_between_the_markers_is_rewritten(tmp_path: Path, data: dict[str, Any]) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write(data, page)
    write(data, page)
    assert page.read_text() == f"before\n{BEGIN}\n{table(data)}\n{END}\nafter\n"
    assert PAGE.read_text(encoding="utf-8").count(BEGIN) == 1


def test_samples_are_the_scored_rows_of_the_run(tmp_path: Path) -> None:
    write_samples(tmp_path / "run", 200)
    samples = samples_in(tmp_path / "run")
    assert 180 < len(samples) <= 200
    assert all(sample["answer"] and 0 <= sample["score"] <= 1 for sample in samples)
    assert len({sample["id"] for sample in samples}) == len(samples)


def test_unknown_viewer_is_an_error_that_lists_the_available_ones() -> None:
    command = [sys.executable, "-m", "benchmarks.viewers", "--viewers", "ours"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "unknown viewer 'ours'" in done.stderr
    assert all(viewer.key in done.stderr for viewer in VIEWERS)


def test_percentile_is_a_measured_value() -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.0
    assert percentile([float(n) for n in range(1, 101)], 0.95) == 95.0
    assert percentile([7.0], 0.99) == 7.0
