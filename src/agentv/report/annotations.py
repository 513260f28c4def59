"""GitHub annotations: the cases that did not pass, as workflow commands that mark the lines of the suite."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from agentv.report.accumulate import why
from agentv.report.console import SCRIPTED
from agentv.report.format import format_score
from agentv.report.terminal import clean
from agentv.results import CaseResult, RowKey, Verdict
from agentv.text import plural

MOST = 10
"""GitHub shows this many errors and this many warnings of a step, and drops the rest."""
_MESSAGE = 1_000
_TITLE = 200


class Place(NamedTuple):
    """Where a case stands."""

    file: str
    line: int


Locate = Callable[[RowKey], Place | None]
"""Where the case of a row stands; None when nobody knows."""


Gap = Callable[[int], str | None]
"""What is missing of a run when these many rows are there; None when nothing is."""


def no_gap(rows: int) -> str | None:  # noqa: ARG001 - one signature for all
    """For rows of which nobody knows how many there should be."""
    return None


def nowhere(key: RowKey) -> Place | None:  # noqa: ARG001 - one signature for all
    """For rows whose suite is not at hand."""
    return None


def escape_data(text: str) -> str:
    """The message of a workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escape_property(text: str) -> str:
    """A value among the properties of a workflow command."""
    return escape_data(text).replace(":", "%3A").replace(",", "%2C")


def command(level: str, message: str, *, title: str, place: Place | None = None) -> str:
    """One workflow command, on one line."""
    properties = {"title": title}
    if place is not None:
        properties = {"file": place.file, "line": str(place.line), **properties}
    written = ",".join(f"{name}={escape_property(value)}" for name, value in properties.items())
    return f"::{level} {written}::{escape_data(message)}"


@dataclass(frozen=True, slots=True, order=True)
class _Found:
    score: float
    key: RowKey
    title: str
    message: str


class _Few:
    """The lowest of many, and how many there were."""

    def __init__(self) -> None:
        self.kept: list[_Found] = []
        self.count = 0

    def add(self, row: CaseResult) -> None:
        self.count += 1
        if len(self.kept) == MOST and (row.score, row.key) >= (self.kept[-1].score, self.kept[-1].key):
            return
        bisect.insort(self.kept, _found(row))
        del self.kept[MOST:]


def render_annotations(
    rows: Iterable[CaseResult], locate: Locate = nowhere, gap: Gap = no_gap, *, scripted: bool = False
) -> Iterator[str]:
    """A line per case that did not pass, the worst first, as many as GitHub shows; then how many there are.

    Before them, what is missing of a run that is not complete.
    """
    failed, borderline, errors = _Few(), _Few(), _Few()
    total = 0
    for row in rows:
        total += 1
        if row.error is not None:
            errors.add(row)
        elif row.verdict is not Verdict.PASS:
            (borderline if row.verdict is Verdict.BORDERLINE else failed).add(row)
    room = MOST - min(len(errors.kept), max(MOST // 2, MOST - len(failed.kept)))
    as_errors = [*failed.kept[:room], *errors.kept[: MOST - min(room, len(failed.kept))]]
    missing = gap(total)
    if missing is not None:
        yield command("warning", missing, title="agentv")
        del borderline.kept[MOST - 1 :]
    for level, found in (("error", as_errors), ("warning", borderline.kept)):
        for each in found:
            yield command(level, each.message, title=each.title, place=locate(each.key))
    closing = _closing(total, failed, borderline, errors)
    yield command("notice", f"{closing} ({SCRIPTED})" if scripted else closing, title="agentv")


def _closing(total: int, failed: _Few, borderline: _Few, errors: _Few) -> str:
    counts = [(failed.count, "failed"), (borderline.count, "borderline"), (errors.count, "could not be judged")]
    said = ", ".join(f"{count:,} {word}" for count, word in counts if count)
    if not total:
        return "no results"
    return f"{plural(total, 'result')}: {said}" if said else f"{plural(total, 'result')}, all passed"


def _found(row: CaseResult) -> _Found:
    name = clean(row.eval_id)
    where = f"{name} ({clean(row.target)}{f', attempt {row.attempt}' if row.attempt > 1 else ''})"
    if row.error is not None:
        what, message = "could not be judged", row.error.message
    else:
        evaluator, reason = why(row)
        what = f"{row.verdict.value}, score {format_score(row.score)}"
        message = f"{evaluator}: {reason}" if evaluator and reason else reason
    text = "\n".join(clean(line) for line in message[:_MESSAGE].splitlines()).strip() or "no reason was given"
    return _Found(row.score, row.key, f"{where[:_TITLE]}: {what}", text)
