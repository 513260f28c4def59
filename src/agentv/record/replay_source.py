"""A recorded run that is replayed: its rows, cases and judge calls, found by key."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentv.errors import UsageError
from agentv.evidence import CaseRecord, JudgeCallRecord
from agentv.record.files import failure, open_recorded
from agentv.record.line_index import CaseIndex, JudgeCallIndex
from agentv.record.reading import RunReader, heads_of
from agentv.record.run_dir import RunDirectory
from agentv.results import CaseResult, RowKey

_PIECE = 1 << 20


class RunReplaySource:
    """The record of one run. Everything is indexed when it is opened, so that threads can read it."""

    def __init__(self, directory: RunDirectory) -> None:
        self._reader = RunReader(directory)
        self.manifest = self._reader.manifest
        self.run_id = str(self.manifest.get("run_id") or directory.path.name)
        self.directory = directory
        self._keys: dict[str, list[RowKey]] = {}
        for head in self._reader.heads():
            self._keys.setdefault(head.key.eval_id, []).append(head.key)
        self._cases, self._calls = CaseIndex(directory), JudgeCallIndex(directory)
        self._cases.refresh()
        self._calls.refresh()
        superseded = (head for _, head in heads_of(directory.superseded))
        self._executions = Counter(head.key for head in superseded if head is not None)

    def row(self, key: RowKey) -> CaseResult | None:
        return self._reader.row(key)

    def keys_of(self, eval_id: str) -> list[RowKey]:
        return self._keys.get(eval_id, [])

    def case(self, key: RowKey) -> CaseRecord | None:
        return self._cases.case(key)

    def judge_calls(self, key: RowKey) -> list[JudgeCallRecord]:
        execution = 1 + self._executions[key]
        return [call for call in self._calls.calls(key) if (call.execution or 1) == execution]

    def all_judge_calls(self) -> Iterator[JudgeCallRecord]:
        for keys in self._keys.values():
            for key in keys:
                yield from self.judge_calls(key)

    def refuse_without_judge_io(self) -> None:
        """UsageError if the prompts and replies of judge calls were not all recorded."""
        options = self.manifest.get("options")
        recorded = options if isinstance(options, dict) else {}
        kept = recorded.get("judge_io") or ("all" if recorded.get("record_judge_io") else "none")
        if kept != "all":
            raise UsageError(
                f"run {self.run_id} cannot be replayed: it was recorded with --judge-io {kept}, "
                "so the replies of its judge are missing.",
                next_step="Record the run again with --judge-io all, which is the default.",
            )

    def to_dict(self) -> dict[str, Any]:
        """What `run.json` of the new run says about this one."""
        return {"run_id": self.run_id, "path": str(self.directory.path), "sha256": self.digests()}

    @property
    def note(self) -> str:
        """The label of results that are made from this record."""
        return f"replayed: answers and judge replies come from run {self.run_id}; no model was called"

    def digests(self) -> dict[str, str]:
        """SHA-256 of the files that are replayed, by absolute path."""
        paths = (self.directory.results, self.directory.cases, self.directory.judge_calls)
        return {str(path.resolve()): _digest(path) for path in paths if path.is_file()}


def _digest(path: Path) -> str:
    total = hashlib.sha256()
    try:
        with open_recorded(path) as file:
            while piece := file.read(_PIECE):
                total.update(piece)
    except OSError as error:
        raise failure("read", path, error) from error
    return total.hexdigest()
