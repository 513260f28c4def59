"""Run directories written by hand, line by line, to look at every state that a viewer can meet."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from agentv.cli.program import program
from agentv.codec import encode
from agentv.evidence import CaseRecord, JudgeCallRecord, encoded_case
from agentv.jsonio import dump_line
from agentv.messages import Message
from agentv.record.rows import encode_row
from agentv.record.run_dir import RunDirectory
from agentv.results import CaseResult
from tests.report.rows import row

RUNS = Path(".agentv") / "runs"


def suite_of(name: str = "geography", cases: int = 3, **more: Any) -> dict[str, Any]:
    """A suite as it is recorded in `run.json`."""
    trials = {"count": 1, "pass_if": "majority", "stop_early": False}
    facts = {"path": f"{name}.yaml", "name": name, "cases": cases, "all_cases": cases, "trials": trials}
    return {**facts, "targets": {"assistant": ["judge"]}, "config": None, "files": [], **more}


def summary_of(passed: int = 0, failed: int = 0, errors: int = 0, **more: Any) -> dict[str, Any]:
    counts = {"total": passed + failed + errors, "passed": passed, "borderline": 0, "failed": failed, "errors": errors}
    return {**counts, "mean_score": None, **more}


class WrittenRun:
    """A run in `.agentv/runs` of a project, with the manifest of a finished run unless fields of it are given."""

    def __init__(self, root: Path, run_id: str, rows: Iterable[CaseResult] = (), **manifest: Any) -> None:
        self.id = run_id
        self.path = root / RUNS / run_id
        self.path.mkdir(parents=True)
        self.directory = RunDirectory(self.path)
        stamp = f"{run_id[:4]}-{run_id[4:6]}-{run_id[6:8]}T{run_id[9:11]}:{run_id[11:13]}:{run_id[13:15]}+00:00"
        self.manifest: dict[str, Any] = {
            "run_id": run_id,
            "status": "finished",
            "started_at": stamp,
            "finished_at": stamp,
            "agentv": "0.1.0",
            "cwd": str(root),
            "options": {},
            "scripted": False,
            "suites": [suite_of()],
            "total": 3,
            "digests": {},
            "configuration": {},
            "summary": summary_of(3),
            **manifest,
        }
        self.write_rows(rows)
        self.write_manifest()

    def write_manifest(self, **changes: Any) -> None:
        self.manifest |= changes
        self.directory.manifest.write_text(json.dumps(self.manifest, indent=2))

    def write_rows(self, rows: Iterable[CaseResult]) -> None:
        """Replace all rows, as a run that retries its errors does."""
        new = self.path / ".new"
        new.write_bytes(b"".join(map(encode_row, rows)))
        new.replace(self.directory.results)

    def append(self, *rows: CaseResult | bytes) -> None:
        with self.directory.results.open("ab") as file:
            for each in rows:
                file.write(each if isinstance(each, bytes) else encode_row(each))

    def add_cases(self, *cases: CaseRecord) -> None:
        with self.directory.cases.open("a") as file:
            file.writelines(f"{encoded_case(case).text}\n" for case in cases)

    def add_calls(self, *calls: JudgeCallRecord) -> None:
        with self.directory.judge_calls.open("a") as file:
            file.writelines(f"{dump_line(encode(call))}\n" for call in calls)


def case_of(eval_id: str, question: str = "What is the capital?", **fields: Any) -> CaseRecord:
    return CaseRecord("geography", eval_id, "", (Message("user", question),), **fields)


def call_of(result: CaseResult, **fields: Any) -> JudgeCallRecord:
    facts: Mapping[str, Any] = {"evaluator": "accuracy", "index": 1, "target": "judge", "status": "ok", **fields}
    return JudgeCallRecord(result.suite, result.eval_id, result.target, result.attempt, **facts)


def some_rows(run_id: str, *scores: float) -> list[CaseResult]:
    """Rows of the cases `c0`, `c1` and so on."""
    return [row(f"c{number}", score, run_id=run_id) for number, score in enumerate(scores)]


def printed(root: Path, *arguments: str) -> Any:
    """The JSON that a command prints in a project, and its exit code."""
    before = Path.cwd()
    os.chdir(root)
    try:
        done = CliRunner().invoke(program, [*arguments, "--json"], standalone_mode=False)
    finally:
        os.chdir(before)
    if done.exception is not None:
        raise done.exception
    return json.loads(done.stdout), done.return_value
