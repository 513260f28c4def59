"""Run all workloads in all tools, in turns; the results are one JSON object."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.peers.running import Installed, NotRunError, Server, install, model_server, run
from benchmarks.peers.tools import OWN, Tool
from benchmarks.peers.workloads import Workload
from benchmarks.report import machine

Say = Callable[[str], None]
MODEL_CALLS = ("assistant", "judge")


def contest(
    tools: Sequence[Tool], workloads: Sequence[Workload], turns: int, keep: Path, say: Say
) -> Iterator[dict[str, Any]]:
    """Install missing tools, run each once as a warm-up, then measure; yields the results after each turn."""
    about = {"measured_at": datetime.now(UTC).isoformat(timespec="seconds"), "machine": _machine()}
    ready, rows = _install_all(tools, keep, say)
    runs: dict[str, dict[str, Any]] = {workload.name: {} for workload in workloads}
    temporary = tempfile.TemporaryDirectory(prefix="agentv-peers-", ignore_cleanup_errors=True)
    with temporary as scratch, model_server() as server:
        for installed in ready:
            say(f"{installed.tool.name}: warm-up")
            rows[installed.tool.key]["outward"] = _warm_up(installed, workloads, server, Path(scratch))
        for turn in range(turns):
            order = ready[:: 1 if turn % 2 == 0 else -1]
            for workload in workloads:
                say(f"turn {turn + 1} of {turns}: {workload.name}")
                _take_turn(order, workload, runs[workload.name], server, Path(scratch))
            descriptions = [{**asdict(workload), "ideal": workload.ideal} for workload in workloads]
            results = {"tools": list(rows.values()), "workloads": descriptions, "runs": runs}
            yield {**about, "turns": turn + 1, "load_after": os.getloadavg()[0], **results}


def _install_all(tools: Sequence[Tool], keep: Path, say: Say) -> tuple[list[Installed], dict[str, dict[str, Any]]]:
    ready: list[Installed] = []
    rows: dict[str, dict[str, Any]] = {}
    for tool in tools:
        say(f"{tool.name}: installing")
        row: dict[str, Any] = {"key": tool.key, "name": tool.name, "only": tool.only}
        try:
            ready.append(install(tool, keep))
            row["version"] = ready[-1].version
        except NotRunError as error:
            row["error"] = f"could not be installed: {error}"
        rows[tool.key] = row
    return ready, rows


def _warm_up(installed: Installed, workloads: Sequence[Workload], server: Server, scratch: Path) -> list[str]:
    """Run each workload once, unmeasured; returns other hosts that the tool tried to reach."""
    tool = installed.tool
    name = tool.only[0] if tool.only else "one-case"
    workload = next(one for one in workloads if one.name == name)
    try:
        if tool.key == OWN:  # the first run of a checkout writes compiled files
            run(installed, workload, server, scratch)
        calls = run(installed, workload, server, scratch, watched=True).calls
    except NotRunError:
        return []  # the measured run reports why
    return sorted(set(calls) - set(MODEL_CALLS))


def _take_turn(
    order: Sequence[Installed], workload: Workload, runs: dict[str, Any], server: Server, scratch: Path
) -> None:
    """Run every tool once, except those that failed this workload in an earlier turn."""
    for installed in order:
        tool = installed.tool
        if tool.only is not None and workload.name not in tool.only:
            continue
        entry = runs.setdefault(tool.key, {"runs": [], "error": None})
        if entry["error"] is not None:
            continue
        try:
            entry["runs"].append(run(installed, workload, server, scratch).to_dict())
        except NotRunError as error:
            entry["error"] = str(error)


def _machine() -> dict[str, Any]:
    node = shutil.which("node")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout if node else ""
    return {**machine(), "node": version.strip().removeprefix("v") or None}
