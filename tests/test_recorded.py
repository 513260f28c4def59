"""The summary of a run matches the rows on disk, however the run ends."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import pytest

from agentv.plan.build import build_plan
from agentv.plan.options import RunOptions
from agentv.record import appender, files
from agentv.recorded import start_run

CONFIG = "targets: {scripted: {provider: mock, response: ok}}\n"
SUITE = "evalcases:\n" + "".join(
    f"- {{id: case-{n}, input: go, evaluators: [{{type: equals, value: ok}}]}}\n" for n in range(5)
)


async def test_rows_being_written_when_the_run_is_cancelled_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agentv.config.yaml").write_text(CONFIG)
    (tmp_path / "suite.yaml").write_text(SUITE)
    syncing, release, sync = threading.Event(), threading.Event(), files.sync_data

    def held(descriptor: int) -> None:
        syncing.set()
        release.wait(30)
        sync(descriptor)

    monkeypatch.setattr(appender, "sync_data", held)
    run = start_run(build_plan(RunOptions(paths=("suite.yaml",)), tmp_path), "stopped", tmp_path / "run", tmp_path)
    task = asyncio.ensure_future(run.run())
    await asyncio.to_thread(syncing.wait, 30)
    task.cancel()
    asyncio.get_running_loop().call_later(0.05, release.set)
    outcome = await task
    rows = (tmp_path / "run" / "results.jsonl").read_text().splitlines()
    assert outcome.interrupted
    assert outcome.summary.total == len(rows) > 0
    assert json.loads((tmp_path / "run" / "run.json").read_text())["summary"]["total"] == len(rows)
