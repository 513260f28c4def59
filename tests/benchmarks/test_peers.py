"""The comparison with other tools: it runs, measures all processes, reports failures, and draws a chart."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from benchmarks.peers.__main__ import BEGIN, END, PAGE, PICTURE, write
from benchmarks.peers.contest import contest
from benchmarks.peers.plot import OURS, THEIRS, plot
from benchmarks.peers.running import WATCH
from benchmarks.peers.table import report, rows_of
from benchmarks.peers.tools import TOOLS, Tool, printed_count
from benchmarks.peers.workloads import QUICK, Workload

ROOT = Path(__file__).resolve().parent.parent.parent
SVG = "{http://www.w3.org/2000/svg}"


def peers(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.peers", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.soak
def test_all_workloads_run_in_agentv_and_all_cases_pass(tmp_path: Path) -> None:
    done = peers("--quick", "--tools", "agentv,agentv-warm", "--results", str(tmp_path / "peers.json"))
    assert done.returncode == 0, done.stderr
    data = json.loads((tmp_path / "peers.json").read_text())
    rows = {(row.tool, row.workload): row for row in rows_of(data)}
    work = ["version", "one-case", "contains", "llm-judge", "script", "script-judge"]
    assert set(rows) == {
        *(("agentv", name) for name in work),
        ("agentv-warm", "script"),
        ("agentv-warm", "script-judge"),
    }
    assert {row.error for row in rows.values()} == {None}
    assert {row.failed for row in rows.values()} == {0}
    assert [rows["agentv", name].calls for name in work] == [None, 1, 1, 2, 1, 2]
    assert rows["agentv-warm", "script-judge"].calls == 2
    places = {workload.name: workload.in_flight for workload in QUICK}
    assert all(row.most <= places[row.workload] for row in rows.values())
    assert "| script that asks the judge, 6 cases | agentv (this project) |" in done.stdout


def test_unknown_tool_is_an_error_that_lists_the_available_ones() -> None:
    done = peers("--tools", "ours")
    assert done.returncode == 2
    assert "unknown tool 'ours'" in done.stderr
    assert all(tool.key in done.stderr for tool in TOOLS)


def test_quick_numbers_are_not_written_to_the_page() -> None:
    done = peers("--quick", "--write", "--tools", "agentv")
    assert done.returncode == 2
    assert "cannot be combined with --quick" in done.stderr


def tool(key: str, program: str, **more: Any) -> Tool:
    """A tool that runs a program with this Python."""
    command = ["{bin}/python", "-c", program]
    return Tool(key, key.title(), lambda *_: command, printed_count, version=tuple(command), **more)


def test_failed_tool_is_reported_and_the_others_continue(tmp_path: Path) -> None:
    missing = tmp_path / "no-such-package"
    missing.mkdir()
    (missing / "complete").touch()
    tools = [
        tool("agentv", "print('passed 2')"),
        tool("absent", "pass", packages=("no-such-package",)),
        tool("broken", "raise SystemExit('out of order')"),
        tool("partly", "print('passed 1')"),
        tool("none", "print('passed 0')"),
    ]
    one, two = Workload("one-case", "one", 1, 1, 1), Workload("contains", "two", 2, 1, 1)
    (data,) = contest(tools, [one, two], 1, tmp_path, lambda _: None)
    rows = {row.tool: row for row in rows_of(data) if row.workload == "contains"}
    assert rows["agentv"].error is None
    assert "could not be installed" in (rows["absent"].error or "")
    assert "out of order" in (rows["broken"].error or "")
    assert "no case passed" in (rows["none"].error or "")
    assert (rows["partly"].error, rows["partly"].failed) == (None, 1)
    text = report(data)
    assert text.count("did not run: ") == 4
    assert "- Absent: `could not be installed: " in text


LEAVES_A_CHILD = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", '''
import os
data = b"x" * 150_000_000
os.write(1, b"ready")
os.close(1)
import time
time.sleep(600)
'''], stdout=subprocess.PIPE, start_new_session=True)
child.stdout.read()
print(child.pid, flush=True)
import os
os._exit(0)
"""


def test_orphaned_child_is_measured_and_killed(tmp_path: Path) -> None:
    command = [sys.executable, str(WATCH), "100", sys.executable, "-c", LEAVES_A_CHILD]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    spent = json.loads(done.stdout)
    assert spent["exit_code"] == 0
    assert spent["peak_mb"] > 140
    left = (tmp_path / "output.txt").read_text().strip()
    assert not Path(f"/proc/{left}").exists()


def test_command_that_times_out_is_killed_and_reported(tmp_path: Path) -> None:
    command = [sys.executable, str(WATCH), "0.1", sys.executable, "-c", "import time; time.sleep(600)"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout)["late"] is True


def runs(*spent: tuple[float, float], passed: int = 100, judge: int = 0) -> dict[str, Any]:
    calls = {"assistant": 100, "judge": judge}
    return {
        "error": None,
        "runs": [
            {
                "wall": wall,
                "cpu": cpu,
                "peak_mb": 50.0 + wall,
                "passed": passed,
                "calls": calls,
                "most": 50,
                "proxy": False,
            }
            for wall, cpu in spent
        ],
    }


@pytest.fixture
def data() -> dict[str, Any]:
    """Results of one workload in tools that ran and one that did not."""
    tools = [
        {"key": "agentv", "name": "agentv (this project)", "version": "1.0"},
        {"key": "agentv-npm", "name": "AgentV (npm)", "version": "2.0", "outward": ["CONNECT example.org:443"]},
        {"key": "deepeval", "name": "DeepEval", "version": "3.0"},
        {"key": "inspect", "name": "Inspect AI", "error": "could not be installed: no | network"},
    ]
    measured = {
        "agentv": runs((1.0, 0.2), (9.0, 0.1), (2.0, 0.3)),
        "agentv-npm": runs((20.0, 4.0), passed=90),
        "deepeval": runs((4.0, 2.0)),
    }
    return {
        "measured_at": "2026-11-15T12:00:00+00:00",
        "machine": {"python": "3.11.2", "cpus": 2, "load": 0.5, "node": "20.1.0"},
        "load_after": 1.25,
        "turns": 3,
        "tools": tools,
        "workloads": [{"name": "contains", "title": "`contains`, 100 cases", "cases": 100, "ideal": 1.0}],
        "runs": {"contains": measured},
    }


def test_figures_are_medians_and_ratios_are_relative_to_agentv(data: dict[str, Any]) -> None:
    own, *_ = rows_of(data)
    assert (own.wall, own.cpu, own.efficiency, own.peak_mb) == (2.0, 0.2, 0.5, 59.0)
    text = report(data)
    assert "| agentv (this project) | 2.0 s | 2.0 ms | 0.50 | 59 MB | 1 | 50 | 0 |" in text
    assert "| AgentV (npm) | 2.0 | 10x, 20x |" in text
    assert "| DeepEval | 3.0 | 2.0x, 10x |" in text


def test_agentv_comes_first_and_the_others_are_sorted_by_cpu_time(data: dict[str, Any]) -> None:
    assert [row.tool for row in rows_of(data)] == ["agentv", "deepeval", "agentv-npm", "inspect"]


def test_failures_and_calls_to_other_hosts_are_reported(data: dict[str, Any]) -> None:
    text = report(data)
    assert "| Inspect AI | - | did not run |" in text
    assert "- Inspect AI: `could not be installed: no / network`" in text
    assert "- AgentV (npm) tried to reach hosts other than the model: `CONNECT example.org:443`" in text
    assert next(row.failed for row in rows_of(data) if row.tool == "agentv-npm") == 10
    assert "the load was 0.5 before and 1.2 after" in text


def test_bars_are_proportional_and_tools_that_did_not_run_are_listed(data: dict[str, Any]) -> None:
    root = ET.fromstring(plot(data))
    bars = [bar for bar in root.iter(f"{SVG}rect") if bar.get("fill") in (OURS, THEIRS)]
    assert [bar.get("fill") for bar in bars] == [OURS, THEIRS, THEIRS]
    own, deepeval, npm = (float(bar.get("width", "0")) for bar in bars)
    assert deepeval / npm == pytest.approx(0.5, rel=0.01)
    assert own / npm == pytest.approx(0.05, rel=0.05)
    words = [text.text for text in root.iter(f"{SVG}text")]
    assert "20 ms, 10x" in words
    assert words[-2:] == ["Inspect AI", "did not run"]


def test_only_text_between_the_markers_is_rewritten(tmp_path: Path, data: dict[str, Any]) -> None:
    page, picture = tmp_path / "page.md", tmp_path / "peers.svg"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write(data, page, picture)
    write(data, page, picture)
    assert page.read_text() == f"before\n{BEGIN}\n{report(data)}\n{END}\nafter\n"
    ET.parse(picture)
    page.write_text("no markers\n")
    with pytest.raises(SystemExit, match="peers: begin"):
        write(data, page, picture)


def test_page_has_the_table_and_the_picture() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text.count(BEGIN) == text.count(END) == 1
    assert "images/peers.svg" in text
    assert all(one.name in text for one in TOOLS)
    ET.parse(PICTURE)
