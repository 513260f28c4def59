"""Progress while a run goes on: a live bar on a terminal, plain lines elsewhere, or nothing.

Progress goes to stderr and is never worth a run: when nobody reads any more, it falls silent.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, TextIO, TypeVar

from agentv.report.accumulate import RunSpend, Tally, why
from agentv.report.format import format_cost, format_duration, format_rate, format_score
from agentv.report.terminal import Look
from agentv.results import CaseResult, Verdict
from agentv.text import plural

SMALL_RUN = 200
LINES_SHOWN = 50
FURTHER_FAILURES = "further failures are in results.jsonl"
FURTHER_NOTES = "further notices are not shown"

Clock = Callable[[], float]
Item = TypeVar("Item")

_LABELS = {Verdict.PASS: "pass", Verdict.BORDERLINE: "border", Verdict.FAIL: "fail"}
_STYLES = {"pass": "green", "border": "yellow", "fail": "red", "error": "magenta"}


class Progress(Protocol):
    """Told about a run as it happens. `total` counts every row of the run, `done` those recorded earlier."""

    def start(self, total: int, done: int) -> None: ...

    def row(self, row: CaseResult) -> None: ...

    def note(self, message: str) -> None: ...

    def close(self) -> None: ...


class QuietProgress:
    """Says nothing."""

    def start(self, total: int, done: int) -> None: ...

    def row(self, row: CaseResult) -> None: ...

    def note(self, message: str) -> None: ...

    def close(self) -> None: ...


class Pace:
    """How far a run is: rows by outcome, rate, time left, spend."""

    def __init__(self, total: int, done: int, clock: Clock) -> None:
        self.total = total
        self.done = done
        self.tally = Tally()
        self._finished = 0
        self._spend = RunSpend()
        self._clock = clock
        self._started = clock()

    def add(self, row: CaseResult) -> None:
        self._finished += 1
        self.tally.add(row)
        self._spend.add(row)

    @property
    def position(self) -> int:
        return self.done + self._finished

    @property
    def elapsed(self) -> float:
        return self._clock() - self._started

    @property
    def share(self) -> float:
        return min(1.0, self.position / self.total) if self.total else 1.0

    def speed(self) -> tuple[str, ...]:
        """Rate and time left; empty until the first row."""
        elapsed = self.elapsed
        if not self._finished or elapsed <= 0:
            return ()
        rate = self._finished / elapsed
        left = max(0, self.total - self.position)
        return (format_rate(rate), f"ETA {format_duration(left / rate)}") if left else (format_rate(rate),)

    def counts(self, *, short: bool = False) -> list[tuple[str, str]]:
        """The rows by outcome, each with its style; rows that passed come first, also when there are none."""
        tally = self.tally
        errors = (tally.errors, "error", "error" if tally.errors == 1 else "errors")
        counts = [(tally.passed, "pass", "passed"), (tally.borderline, "border", "borderline")]
        counts += [(tally.failed, "fail", "failed"), errors]
        return [
            (f"{count:,} {label if short else word}", _STYLES[label])
            for count, label, word in counts
            if count or label == "pass"
        ]

    def spent(self) -> str:
        cost, usage = self._spend.cost_usd, self._spend.target.token_usage
        if cost is not None:
            return format_cost(cost)
        return "" if usage is None else plural(usage.total, "token")


def case_line(row: CaseResult, look: Look, *, room: int | None = None) -> str:
    """One finished case: its outcome, score, id and target, and why it did not pass."""
    label = "error" if row.error is not None else _LABELS[row.verdict]
    score = "-   " if row.error is not None else format_score(row.score)
    where = row.target if row.attempt == 1 else f"{row.target}, attempt {row.attempt}"
    text = f"{label:<6} {score}  {look.text(row.eval_id)}  ({look.text(where)})"
    reason = _why_not(row)
    if reason:
        text += f"  {look.text(reason)}"
    if room is not None:
        text = look.cut(text, room)
    return look.style(text[:6], _STYLES[label]) + text[6:]


def _why_not(row: CaseResult) -> str:
    if row.error is not None:
        return row.error.message[:300]
    return "" if row.verdict is Verdict.PASS else why(row)[1][:300]


def is_failure(row: CaseResult) -> bool:
    return row.error is not None or row.verdict is not Verdict.PASS


class Cap:
    """Lets a number of things through, then says once that there are more."""

    def __init__(self, more: str) -> None:
        self._left = LINES_SHOWN
        self._more = more

    def take(self, item: Item) -> Item | str | None:
        """The item itself, or in its place the word that there are more, or None when that is said."""
        self._left -= 1
        if self._left >= 0:
            return item
        return self._more if self._left == -1 else None


class PlainProgress:
    """Plain lines, for logs: each case of a small run; of a large one its failures and how far it is."""

    def __init__(
        self, stream: TextIO, *, color: bool = False, unicode: bool = True, clock: Clock = time.monotonic
    ) -> None:
        self._stream = stream
        self._look = Look(color=color, unicode=unicode)
        self._clock = clock
        self._pace = Pace(0, 0, clock)
        self._failures = Cap(FURTHER_FAILURES)
        self._notes = Cap(FURTHER_NOTES)
        self._told_at = 0.0
        self._told_share = 0.0
        self._wrote = False
        self._broken = False

    def start(self, total: int, done: int) -> None:
        self._pace = Pace(total, done, self._clock)
        self._told_at, self._told_share = 0.0, self._pace.share
        if done:
            self._say(f"{plural(done, 'row')} of {total:,} recorded earlier, {total - done:,} to run")

    def row(self, row: CaseResult) -> None:
        pace = self._pace
        pace.add(row)
        if pace.total <= SMALL_RUN:
            self._say(f"{self._position()} {case_line(row, self._look)}")
            return
        shown = self._failures.take(row) if is_failure(row) else None
        if shown is not None:
            more = isinstance(shown, str)
            self._say(FURTHER_FAILURES if more else f"{self._position()} {case_line(row, self._look)}")
        if self._is_time():
            self._tell()

    def note(self, message: str) -> None:
        shown = self._notes.take(message)
        if shown is not None:
            self._say(self._look.text(shown))

    def close(self) -> None:
        """An empty line sets apart what comes next. Safe to call twice."""
        if self._wrote:
            self._wrote = False
            self._write("")

    def _position(self) -> str:
        total = str(self._pace.total)
        return f"[{self._pace.position:>{len(total)}}/{total}]"

    def _is_time(self) -> bool:
        # Every 5 seconds at first; rarer in a run of hours, whose log would be nothing else.
        elapsed, pace = self._pace.elapsed, self._pace
        return (
            elapsed - self._told_at >= max(5.0, elapsed / 60)
            or pace.share - self._told_share >= 0.05
            or pace.position == pace.total
        )

    def _tell(self) -> None:
        pace = self._pace
        self._told_at, self._told_share = pace.elapsed, pace.share
        counts = [self._look.style(text, style) for text, style in pace.counts()]
        parts = [f"{self._position()} {pace.share:4.0%}", *counts, *pace.speed(), pace.spent()]
        self._say("  ".join(part for part in parts if part))

    def _say(self, line: str) -> None:
        self._wrote = True
        self._write(line)

    def _write(self, line: str) -> None:
        if self._broken:
            return
        try:
            self._stream.write(line + "\n")
            self._stream.flush()
        except BrokenPipeError:
            self._broken = True
            _forget(self._stream)
        except (OSError, ValueError):  # the disk is full, or the stream is closed
            self._broken = True


def _forget(stream: TextIO) -> None:
    """Send what is left in the stream's buffer nowhere: flushed at the end, it would spoil the exit code."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
