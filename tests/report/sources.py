"""Write results files and run directories for tests."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agentv.record.rows import encode_row
from agentv.report.compare import Comparison, compare
from agentv.report.compared_run import read_compared_run
from agentv.report.row_source import RowSource, find_rows
from agentv.results import CaseResult

HOSTILE = (
    "\x1b[2J::set-env name=A::b\n::stop-commands::x\r\n##[add-mask]y "
    "<img src=x onerror=alert(1)> | `c` ]]> \u202e\x00 @all"
)


def write_rows(path: Path, rows: Iterable[CaseResult]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(map(encode_row, rows)))
    return path


def write_run(path: Path, rows: Iterable[CaseResult], **manifest: Any) -> Path:
    """Write a run directory with these rows."""
    write_rows(path / "results.jsonl", rows)
    (path / "run.json").write_text(json.dumps({"run_id": path.name, "status": "finished", **manifest}))
    return path


def source_of(path: Path) -> RowSource:
    return find_rows(str(path), path.parent)


def compared(
    folder: Path,
    one: Iterable[CaseResult],
    two: Iterable[CaseResult],
    *,
    targets: tuple[Any, Any] = (None, None),
    **how: Any,
) -> Comparison:
    """Write the rows to two results files and compare them."""
    paths = write_rows(folder / "a.jsonl", one), write_rows(folder / "b.jsonl", two)
    return compare(
        *(read_compared_run(source_of(path), target) for path, target in zip(paths, targets, strict=True)), **how
    )
