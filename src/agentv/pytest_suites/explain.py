"""Why a case did not pass, for the failure report of pytest: question, answer and reasons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from agentv.errors import RecordError
from agentv.evidence import CaseRecord
from agentv.record.reading import RunReader
from agentv.record.run_dir import RunDirectory
from agentv.report.accumulate import why
from agentv.report.case_commands import CaseCommands
from agentv.report.case_view import format_threshold
from agentv.report.format import format_score
from agentv.report.junit import judgment
from agentv.report.questions import question_of
from agentv.report.show_case import Page
from agentv.report.terminal import Look, clean, terminal_width
from agentv.results import CaseResult, Verdict
from agentv.text import short_path

_LONGEST = 2_000
_MOST_ATTEMPTS = 3


class Explained(NamedTuple):
    """The explanation, and the same in one line."""

    text: str
    line: str


def explain_failure(rows: Sequence[CaseResult], directory: RunDirectory | None) -> Explained:
    """Why a case failed or is borderline."""
    unmet = [row for row in rows if row.error is None and row.verdict is not Verdict.PASS]
    return _explained(rows, unmet or rows, directory)


def explain_error(rows: Sequence[CaseResult], directory: RunDirectory | None) -> Explained:
    """Why a case could not be judged."""
    return _explained(rows, [row for row in rows if row.error is not None] or rows, directory)


def _explained(rows: Sequence[CaseResult], unmet: Sequence[CaseResult], directory: RunDirectory | None) -> Explained:
    first = unmet[0]
    case, commands = _recorded(first, directory)
    page = Page(Look(width=terminal_width()))
    page.lines.append(f"{clean(first.eval_id)}: {_outcome(first)}{_place(case)}, target {clean(first.target)}")
    if len(rows) > 1:
        page.lines.append(f"{len(unmet)} of {len(rows)} attempts did not pass")
    page.lines.append("")
    asked = [] if case is None else _asked(case, first)
    if len(rows) == 1:
        page.fields([*asked, *_facts(first)])
    else:
        page.fields(asked)
        for row in unmet[:_MOST_ATTEMPTS]:
            page.heading(f"attempt {row.attempt}", _outcome(row))
            page.fields(_facts(row))
    if commands is not None:
        page.lines += ["", page.look.text(commands.show(first)[0])]
    return Explained("\n".join(page.lines), _reason(first))


def _recorded(row: CaseResult, directory: RunDirectory | None) -> tuple[CaseRecord | None, CaseCommands | None]:
    """The case, and the commands about it; None if the record cannot be read."""
    if directory is None:
        return None, None
    reader = RunReader(directory)
    try:
        several = len(reader.manifest.get("targets") or ()) > 1
        return reader.case(row.key, row.case_sha256), CaseCommands(reader, several_targets=several)
    except RecordError:
        return None, None


def _asked(case: CaseRecord, row: CaseResult) -> list[tuple[str, str]]:
    return [
        ("question", _cut(question_of(case, row))),
        ("expected", _cut(case.expected_outcome or case.reference_answer or "")),
    ]


def _place(case: CaseRecord | None) -> str:
    return f", {clean(str(short_path(Path(case.file), Path.cwd())))}:{case.line}" if case and case.file else ""


def _outcome(row: CaseResult) -> str:
    if row.error is not None:
        return f"errored, not judged ({row.error.stage} error)"
    needed = f", needs {format_threshold(row.threshold)}" if row.threshold is not None else ""
    return f"{row.verdict.value}, score {format_score(row.score)}{needed}"


def _facts(row: CaseResult) -> Iterator[tuple[str, str]]:
    if row.error is not None:
        yield "error", row.error.message
    if row.candidate_answer or row.error is None:
        yield "answer", _cut(row.candidate_answer) or "(empty)"
    if row.error is not None:
        return
    for result in row.evaluator_results:
        if result.verdict is not Verdict.PASS:
            yield "reason", _cut("\n".join(judgment(result)))
    if not row.evaluator_results:
        yield "reason", _cut("\n".join([*(f"missed: {miss}" for miss in row.misses), row.reasoning]))


def _reason(row: CaseResult) -> str:
    if row.error is not None:
        return clean(row.error.message)
    evaluator, reason = why(row)
    return clean(f"{': '.join(filter(None, (evaluator, reason)))} ({_outcome(row)})").lstrip()


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
