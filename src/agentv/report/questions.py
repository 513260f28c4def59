"""What was asked in the cases that a report names, from the record of the run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Any

from agentv.errors import RecordError
from agentv.evidence import CaseRecord
from agentv.messages import part_text, whole_text
from agentv.record.run_dir import RESULTS, RUNS, RunDirectory
from agentv.report.summary import Summary
from agentv.results import CaseResult, RowKey

_KEPT = 2_000


class Questions:
    """Returns the question of a row, or None if it was not recorded. Never fails: a report does without."""

    def __init__(self, results: Path, *, indexed: bool = True) -> None:
        """Without `indexed`, the file of cases is searched for each row: slower, but nothing is kept in memory."""
        from agentv.record.reading import RunReader  # noqa: PLC0415 - only runs with cases that did not pass need it

        self._reader = RunReader(RunDirectory(results.parent)) if results.name == RESULTS else None
        self._is_indexed = not indexed

    def __call__(self, key: RowKey) -> str | None:
        if self._reader is None:
            return None
        try:
            if not self._is_indexed:
                self._reader.index_cases()
                self._is_indexed = True
            case = self._reader.case(key)
            row = None if case is None or case.user is None else self._reader.row(key)
        except RecordError:
            self._reader = None
            return None
        return None if case is None else question_of(case, row)[:_KEPT]


def question_of(case: CaseRecord, row: CaseResult | None = None) -> str:
    """The last message of the user or, if there is none, the last message. `row` has those that a model wrote."""
    messages = row.turns[-1].input_messages if row is not None and row.turns else case.input_messages
    asked = [message for message in messages if message.role == "user"] or messages
    if not asked:
        return ""
    content = asked[-1].content
    return "\n".join(map(part_shown, content)) if isinstance(content, list) else whole_text(asked[-1])


def part_shown(part: Any) -> str:
    """A part of a message: its text, the path of a file, or anything else as JSON."""
    if isinstance(part, dict) and part.get("type") != "text" and isinstance(part.get("value"), str):
        return f"({part.get('type') or 'file'} {part['value']})"
    return part_text(part) or json.dumps(part, ensure_ascii=False, default=str)


def with_questions(summary: Summary, results: Path, *, indexed: bool = True) -> Summary:
    """The summary of a run with the questions of its worst cases. `indexed` is that of `Questions`."""
    if not summary.worst:
        return summary
    questions = Questions(results, indexed=indexed)
    worst = tuple(
        replace(case, question=questions(RowKey(case.suite, case.eval_id, case.target, case.attempt)))
        for case in summary.worst
    )
    return replace(summary, worst=worst) if worst else summary


def show_hint(summary: Summary, run: RunDirectory) -> str | None:
    """The command that shows the worst case of a run; None if all cases passed."""
    if summary.worst:
        suite, name = summary.worst[0].suite, summary.worst[0].eval_id
        name = f"{suite}/{name}" if len(summary.by_suite) > 1 else name
    elif summary.error_groups:
        name = summary.error_groups[0].eval_id
    else:
        return None
    # The run has just ended, so it is the latest one.
    command = "agentv show" if run.path.parent == Path.cwd() / RUNS else run.show_command
    return f"{command} {'-- ' if name.startswith('-') else ''}{quote(name)}"
