"""The benchmarks run, report missed goals, and never time a command that failed."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from benchmarks.measure import FailedError, Usage, evaluate, run, take_turns
from benchmarks.report import Figure, Report
from benchmarks.workload import write_config, write_suite

from tests.view.browsers import chromium

ROOT = Path(__file__).resolve().parent.parent.parent
NAMES = (
    "startup",
    "throughput",
    "latency",
    "memory",
    "loading",
    "runs",
    "looking",
    "viewer",
    "scripts",
    "warm",
    "reuse",
    "inline",
    "nodes",
    "proxy",
    "clients",
    "llm_judge",
    "masking",
)

SHORT = ("loading", "masking")
"""Benchmarks that take a few seconds with `--quick`."""
IN_A_BROWSER = ("viewer",)


def benchmarks(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    env = {
        **os.environ,
        "AGENTV_CHROMIUM": chromium() or "",
    }  # benchmarks prefer the browser with windows, which is slow
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def check_quick_run(directory: Path, names: Sequence[str], *chosen: str) -> None:
    done = benchmarks(*chosen, "--quick", "--results", str(directory))
    assert done.returncode == 0, done.stderr
    assert sorted(path.stem for path in directory.glob("*.json")) == sorted(names)
    for name in names:
        data = json.loads((directory / f"{name}.json").read_text())
        assert data["name"] == name
        assert data["quick"] is True
        assert data["figures"]
        assert all(math.isfinite(figure["value"]) for figure in data["figures"])
        assert all(figure["name"] in done.stdout for figure in data["figures"])


@pytest.mark.soak
@pytest.mark.timeout(400)  # a minute on a quiet machine
def test_every_benchmark_runs_and_writes_valid_json(tmp_path: Path) -> None:
    able = [name for name in NAMES if chromium() or name not in IN_A_BROWSER]
    check_quick_run(tmp_path, able, *able)


@pytest.mark.timeout(400)
def test_short_benchmarks_run_and_write_valid_json(tmp_path: Path) -> None:
    check_quick_run(tmp_path, SHORT, *SHORT)


def test_quick_run_checks_no_goals(tmp_path: Path) -> None:
    done = benchmarks("memory", "--quick", "--check", "--results", str(tmp_path))
    assert done.returncode == 0, done.stderr
    figures = json.loads((tmp_path / "memory.json").read_text())["figures"]
    assert [figure["met"] for figure in figures] == [None] * len(figures)


def test_unknown_benchmark_is_an_error_that_lists_the_available_ones() -> None:
    done = benchmarks("speed")
    assert done.returncode == 2
    assert "unknown benchmark 'speed'" in done.stderr
    assert all(name in done.stderr for name in NAMES)


def test_goal_is_an_upper_or_lower_bound() -> None:
    assert Figure("cost", 1.0, goal=1.0).met is True
    assert Figure("cost", 1.1, goal=1.0).met is False
    assert Figure("efficiency", 0.6, goal=0.6, better="higher").met is True
    assert Figure("efficiency", 0.5, goal=0.6, better="higher").met is False
    assert Figure("seconds", 3.0).met is None


def test_table_marks_missed_goals() -> None:
    report = Report("speed", [Figure("a", 1.0, "ms", goal=2.0), Figure("b", 3.0, "ms", goal=2.0)])
    _, _, first, second = report.table().splitlines()
    assert first.split() == ["a", "1", "ms", "<=", "2", "ms", "met"]
    assert second.split() == ["b", "3", "ms", "<=", "2", "ms", "missed"]


def test_cpu_and_memory_of_the_command_are_measured() -> None:
    used = run([sys.executable, "-c", "data = b'x' * 100_000_000; print(len(data))"])
    assert used.output == "100000000\n"
    assert used.peak_mb > 95
    assert used.cpu > 0
    assert used.wall > 0


def test_failed_command_is_not_timed() -> None:
    with pytest.raises(FailedError, match="exit code 7"):
        run([sys.executable, "-c", "raise SystemExit(7)"])


def test_run_with_failed_cases_is_not_timed(tmp_path: Path) -> None:
    write_config(tmp_path)
    suite = write_suite(tmp_path / "suite.yaml", 2)
    assert json.loads(evaluate(suite, 2).output)["passed"] == 2
    with pytest.raises(FailedError, match=r"all 3 cases .* must pass, got 2"):
        evaluate(suite, 3)


def test_contestants_take_turns_in_alternating_order() -> None:
    order: list[str] = []

    def contestant(name: str) -> Usage:
        order.append(name)
        return Usage(1.0, 1.0, 1.0)

    measured = take_turns({"a": lambda: contestant("a"), "b": lambda: contestant("b")}, 3)
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert {name: len(usages) for name, usages in measured.items()} == {"a": 3, "b": 3}


def test_table_replaces_what_is_between_the_marks_of_a_page(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- sizes: begin -->\nold\n<!-- sizes: end -->\nafter\n")
    report = Report("sizes", [Figure("code", 70, "kB", goal=60), Figure("rows", 3)], notes=["of one run"])
    report.write_to(page)
    text = page.read_text()
    assert text.startswith("before\n<!-- sizes: begin -->\nPython ")
    assert (
        "| code | 70.0 kB: **missed** | <= 60 kB |\n| rows | 3 |  |\n\n- of one run\n<!-- sizes: end -->\nafter\n"
        in text
    )
    with pytest.raises(ValueError, match="must have one line"):
        Report("other", []).write_to(page)
