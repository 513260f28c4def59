"""GitHub annotations: workflow commands that mark the suite lines of cases that did not pass."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from agentv.report.accumulate import why
from agentv.report.console import SCRIPTED
from agentv.report.format import format_score
from agentv.report.terminal import clean
from agentv.report.trials import RepeatedCases, passes_of
from agentv.results import CaseKey, CaseResult, RowKey, Verdict
from agentv.text import plural
from agentv.trials import Attempts

MOST = 10
"""The number of errors, and of warnings, that GitHub shows per step. It drops the rest."""
_ATTEMPTS_KEPT = 1_000
"""The lowest-scoring attempts whose reasons are kept."""
_MESSAGE = 1_000
_TITLE = 200


class Place(NamedTuple):
    """The file and line of a case."""

    file: str
    line: int


Locate = Callable[[RowKey], Place | None]
"""Returns the place of a row's case, or None if it is unknown."""


Gap = Callable[[int], str | None]
"""Takes the number of rows and describes the rows that are missing; None if the run is complete."""


def no_gap(rows: int) -> str | None:  # noqa: ARG001 - one signature for all
    """A `Gap` for rows whose expected number is unknown."""
    return None


def nowhere(key: RowKey) -> Place | None:  # noqa: ARG001 - one signature for all
    """A `Locate` for rows whose suite is not available."""
    return None


def escape_data(text: str) -> str:
    """Escape the message of a workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escape_property(text: str) -> str:
    """Escape a property value of a workflow command."""
    return escape_data(text).replace(":", "%3A").replace(",", "%2C")


def command(level: str, message: str, *, title: str, place: Place | None = None) -> str:
    """A workflow command on a single line."""
    properties = {"title": title}
    if place is not None:
        properties = {"file": place.file, "line": str(place.line), **properties}
    written = ",".join(f"{name}={escape_property(value)}" for name, value in properties.items())
    return f"::{level} {written}::{escape_data(message)}"


@dataclass(frozen=True, slots=True, order=True)
class _Annotation:
    score: float
    key: RowKey
    title: str
    message: str


class _Lowest:
    """The annotations with the lowest scores, and the number of all that were added."""

    def __init__(self, most: int = MOST) -> None:
        self.kept: list[_Annotation] = []
        self.count = 0
        self._most = most

    def add(self, row: CaseResult) -> None:
        if len(self.kept) == self._most and (row.score, row.key) >= (self.kept[-1].score, self.kept[-1].key):
            self.count += 1
            return
        self.keep(_annotation(row))

    def keep(self, annotation: _Annotation) -> None:
        self.count += 1
        bisect.insort(self.kept, annotation)
        del self.kept[self._most :]


def render_annotations(
    rows: Iterable[CaseResult],
    locate: Locate = nowhere,
    gap: Gap = no_gap,
    *,
    scripted: bool = False,
    repeated: RepeatedCases | None = None,
) -> Iterator[str]:
    """A warning if the run is incomplete, the worst cases (as many as GitHub shows), and a notice with the counts."""
    failed, borderline, errors = _Lowest(), _Lowest(), _Lowest()
    repeated = repeated or RepeatedCases(every=True)
    attempts = _Lowest(_ATTEMPTS_KEPT), _Lowest(_ATTEMPTS_KEPT)
    count = single = 0
    for row in rows:
        count += 1
        if repeated.add(row):
            if row.error is not None or row.verdict is not Verdict.PASS:
                attempts[row.error is not None].add(row)
            continue
        single += 1
        if row.error is not None:
            errors.add(row)
        elif row.verdict is not Verdict.PASS:
            (borderline if row.verdict is Verdict.BORDERLINE else failed).add(row)
    worst: dict[CaseKey, _Annotation] = {}
    for annotation in (*attempts[0].kept, *attempts[1].kept):
        worst.setdefault(annotation.key.case, annotation)
    for key, case in repeated.cases.items():
        if case.verdict is not Verdict.PASS:
            group = {None: errors, Verdict.BORDERLINE: borderline, Verdict.FAIL: failed}[case.verdict]
            group.keep(_of_case(key, case, worst.get(key)))
    total = single + len(repeated.cases)
    room = MOST - min(len(errors.kept), max(MOST // 2, MOST - len(failed.kept)))
    as_errors = [*failed.kept[:room], *errors.kept[: MOST - min(room, len(failed.kept))]]
    missing = gap(count)
    if missing is not None:
        yield command("warning", missing, title="agentv")
        del borderline.kept[MOST - 1 :]
    for level, kept in (("error", as_errors), ("warning", borderline.kept)):
        for annotation in kept:
            yield command(level, annotation.message, title=annotation.title, place=locate(annotation.key))
    closing = _closing(total, failed, borderline, errors)
    yield command("notice", f"{closing} ({SCRIPTED})" if scripted else closing, title="agentv")


def _of_case(key: CaseKey, case: Attempts, worst: _Annotation | None) -> _Annotation:
    """The annotation of a case that may have several attempts, with the reason of its worst attempt."""
    if case.count == 1 and worst is not None:
        return worst
    name = f"{clean(key.eval_id)} ({clean(key.target)})"[:_TITLE]
    if case.is_incomplete:
        outcome = f"{case.missing:,} of {case.count:,} attempts are missing"
    elif case.verdict is None:
        outcome = f"{case.errors:,} of {case.count:,} attempts errored"
    else:
        outcome = f"{case.verdict.value}, score {format_score(case.score)}, {passes_of(case)}"
    message = f"attempt {worst.key.attempt}: {worst.message}" if worst is not None else outcome
    return _Annotation(case.score or 0.0, RowKey(*key, 1), f"{name}: {outcome}", message)


def _closing(total: int, failed: _Lowest, borderline: _Lowest, errors: _Lowest) -> str:
    counts = [(failed.count, "failed"), (borderline.count, "borderline"), (errors.count, "errored")]
    not_passed = ", ".join(f"{count:,} {word}" for count, word in counts if count)
    if not total:
        return "no results"
    return f"{plural(total, 'result')}: {not_passed}" if not_passed else f"{plural(total, 'result')}, all passed"


def _annotation(row: CaseResult) -> _Annotation:
    name = clean(row.eval_id)
    where = f"{name} ({clean(row.variant)}{f', attempt {row.attempt}' if row.attempt > 1 else ''})"
    if row.error is not None:
        outcome, message = "errored", row.error.message
    else:
        evaluator, reason = why(row)
        outcome = f"{row.verdict.value}, score {format_score(row.score)}"
        message = f"{evaluator}: {reason}" if evaluator and reason else reason
    text = "\n".join(clean(line) for line in message[:_MESSAGE].splitlines()).strip() or "no reason given"
    return _Annotation(row.score, row.key, f"{where[:_TITLE]}: {outcome}", text)
