"""Progress of a running evaluation: a live bar on a terminal, plain lines elsewhere, or no output.

Progress is written to stderr. If stderr is closed, progress stops and the run continues.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, TextIO, TypeVar

from agentv.report.accumulate import RunSpend, Tally, error_text, why
from agentv.report.format import format_cost, format_duration, format_rate, format_score
from agentv.report.terminal import Look
from agentv.results import CaseResult, Verdict
from agentv.text import plural

SMALL_RUN = 200
LINES_SHOWN = 50
WAITING_SECONDS = 30.0
"""How often a log says what the run is waiting for, at most."""
FURTHER_FAILURES = "further failures are in results.jsonl"
FURTHER_NOTES = "further notices are not shown"
EQUAL_SHOWN = 3
FURTHER_EQUAL = "further cases with this error are not shown"

Clock = Callable[[], float]
Item = TypeVar("Item")

_LABELS = {Verdict.PASS: "pass", Verdict.BORDERLINE: "border", Verdict.FAIL: "fail"}
_STYLES = {"pass": "green", "border": "yellow", "fail": "red", "error": "magenta"}


class Progress(Protocol):
    """Receives the events of a run. `total` is the number of rows in the run, `done` those recorded earlier."""

    def start(self, total: int, done: int) -> None: ...

    def row(self, row: CaseResult) -> None: ...

    def shrink(self, rows: int) -> None:
        """Subtract rows that are not needed from the total."""

    def note(self, message: str) -> None: ...

    def waiting(self, what: str) -> None:
        """What the run waits for, every second; an empty string for nothing."""

    def close(self) -> None: ...


class QuietProgress:
    """Prints nothing."""

    def start(self, total: int, done: int) -> None: ...

    def row(self, row: CaseResult) -> None: ...

    def shrink(self, rows: int) -> None: ...

    def note(self, message: str) -> None: ...

    def waiting(self, what: str) -> None: ...

    def close(self) -> None: ...


class Pace:
    """The state of a run: rows by outcome, rate, remaining time and cost."""

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
        """The rate and the remaining time; empty before the first row."""
        elapsed = self.elapsed
        if not self._finished or elapsed <= 0:
            return ()
        rate = self._finished / elapsed
        left = max(0, self.total - self.position)
        return (format_rate(rate), f"ETA {format_duration(left / rate)}") if left else (format_rate(rate),)

    def counts(self, *, short: bool = False) -> list[tuple[str, str]]:
        """The number of rows for each outcome, with its style. Passed rows come first and are shown even if 0."""
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
    """One line for a finished case: outcome, score, id, target, and the reason if it did not pass."""
    label = "error" if row.error is not None else _LABELS[row.verdict]
    score = "-   " if row.error is not None else format_score(row.score)
    where = row.variant if row.attempt == 1 else f"{row.variant}, attempt {row.attempt}"
    text = f"{label:<6} {score}  {look.text(row.eval_id)}  ({look.text(where)})"
    reason = _why_not(row)
    if reason:
        text += f"  {look.text(reason)}"
    if room is not None:
        text = look.cut(text, room)
    return look.style(text[:6], _STYLES[label]) + text[6:]


def _why_not(row: CaseResult) -> str:
    if row.error is not None:
        return error_text(row.error)[:300]
    return "" if row.verdict is Verdict.PASS else why(row)[1][:300]


def is_failure(row: CaseResult) -> bool:
    return row.error is not None or row.verdict is not Verdict.PASS


class Cap:
    """Limits the lines of one kind: after `LINES_SHOWN` items, it returns `more` once and then nothing."""

    def __init__(self, more: str) -> None:
        self._left = LINES_SHOWN
        self._more = more

    def take(self, item: Item) -> Item | str | None:
        """The item, or the `more` message the first time the limit is exceeded, or None after that."""
        self._left -= 1
        if self._left >= 0:
            return item
        return self._more if self._left == -1 else None


class Repeats:
    """Limits the lines with the same message to `EQUAL_SHOWN`, so that a target that is down does not fill the log."""

    _MESSAGES = 500
    """How many different messages are counted; others are always shown."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, ...], int] = {}

    def count(self, *message: str) -> int:
        """How often the message has occurred, including this time. Messages that are not counted occur once."""
        if message not in self._counts and len(self._counts) >= self._MESSAGES:
            return 1
        self._counts[message] = self._counts.get(message, 0) + 1
        return self._counts[message]

    def take(self, row: CaseResult) -> CaseResult | str | None:
        """The row or, once its error has been shown `EQUAL_SHOWN` times, one line about further rows and then None."""
        if row.error is None or (count := self.count(row.error.stage, row.error.message)) <= EQUAL_SHOWN:
            return row
        return f"{FURTHER_EQUAL}: {row.error.message[:100]}" if count == EQUAL_SHOWN + 1 else None


class PlainProgress:
    """Plain lines for logs: every case of a small run, or failures and periodic totals of a large one."""

    def __init__(
        self, stream: TextIO, *, color: bool = False, unicode: bool = True, clock: Clock = time.monotonic
    ) -> None:
        self._stream = stream
        self._look = Look(color=color, unicode=unicode)
        self._clock = clock
        self._pace = Pace(0, 0, clock)
        self._failures = Cap(FURTHER_FAILURES)
        self._equal = Repeats()
        self._notes = Cap(FURTHER_NOTES)
        self._reported_at = 0.0
        self._reported_share = 0.0
        self._waiting_shown_at = float("-inf")
        self._wrote = False
        self._broken = False

    def start(self, total: int, done: int) -> None:
        self._pace = Pace(total, done, self._clock)
        self._reported_at, self._reported_share = 0.0, self._pace.share
        if done:
            self._print(f"{done:,} of {plural(total, 'row')} already recorded, {total - done:,} to run")

    def row(self, row: CaseResult) -> None:
        pace = self._pace
        pace.add(row)
        line = self._equal.take(row)
        if pace.total > SMALL_RUN and line is not None:
            line = self._failures.take(line) if is_failure(row) else None
        if line is not None:
            shown = (
                self._look.text(line) if isinstance(line, str) else f"{self._position()} {case_line(row, self._look)}"
            )
            self._print(shown)
        if pace.total > SMALL_RUN and self._is_time():
            self._report()

    def shrink(self, rows: int) -> None:
        self._pace.total -= rows

    def note(self, message: str) -> None:
        line = self._notes.take(message)
        if line is not None:
            self._print(self._look.text(line))

    def waiting(self, what: str) -> None:
        now = self._clock()
        if what and now - self._waiting_shown_at >= WAITING_SECONDS:
            self._waiting_shown_at = now
            self._print(self._look.text(what))

    def close(self) -> None:
        """Print an empty line to separate the following output. Safe to call twice."""
        if self._wrote:
            self._wrote = False
            self._write("")

    def _position(self) -> str:
        total = str(self._pace.total)
        return f"[{self._pace.position:>{len(total)}}/{total}]"

    def _is_time(self) -> bool:
        # Every 5 seconds at first, then less often, so that a run of several hours does not flood the log.
        elapsed, pace = self._pace.elapsed, self._pace
        return (
            elapsed - self._reported_at >= max(5.0, elapsed / 60)
            or pace.share - self._reported_share >= 0.05
            or pace.position == pace.total
        )

    def _report(self) -> None:
        pace = self._pace
        self._reported_at, self._reported_share = pace.elapsed, pace.share
        counts = [self._look.style(text, style) for text, style in pace.counts()]
        parts = [f"{self._position()} {pace.share:4.0%}", *counts, *pace.speed(), pace.spent()]
        self._print("  ".join(part for part in parts if part))

    def _print(self, line: str) -> None:
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
    """Discard the stream's buffer: flushing it at exit would fail and change the exit code."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
