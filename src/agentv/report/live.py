"""The live progress bar. A separate thread draws it, so that a slow terminal never blocks a run."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TextIO

from agentv.report.progress import (
    FURTHER_FAILURES,
    FURTHER_NOTES,
    Cap,
    Clock,
    Pace,
    PlainProgress,
    Progress,
    QuietProgress,
    Repeats,
    case_line,
    is_failure,
)
from agentv.report.terminal import Look, StatusLines, can_print_unicode, columns, is_set, is_terminal, wants_color
from agentv.results import CaseResult

FRAME_SECONDS = 0.1


class LiveProgress:
    """Status lines at the bottom of a terminal: the bar, the counts and, if calls are held up, what they wait for.

    Cases that did not pass are printed above them.
    """

    def __init__(
        self, stream: TextIO, *, color: bool = True, unicode: bool = True, clock: Clock = time.monotonic
    ) -> None:
        self._color = color
        self._unicode = unicode
        self._clock = clock
        self._pace = Pace(0, 0, clock)
        self._failures = Cap(FURTHER_FAILURES)
        self._equal = Repeats()
        self._notes = Cap(FURTHER_NOTES)
        self._waiting: deque[CaseResult | str] = deque()
        self._waits = ""
        self._printed = False
        self._counting = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._status = StatusLines(stream)

    def start(self, total: int, done: int) -> None:
        self._pace = Pace(total, done, self._clock)
        self._thread = threading.Thread(target=self._draw, name="agentv-progress", daemon=True)
        self._thread.start()

    def row(self, row: CaseResult) -> None:
        with self._counting:
            self._pace.add(row)
        line = self._equal.take(row) if is_failure(row) else None
        if line is not None and (line := self._failures.take(line)) is not None:
            self._waiting.append(line)

    def shrink(self, rows: int) -> None:
        with self._counting:
            self._pace.total -= rows

    def note(self, message: str) -> None:
        if (line := self._notes.take(message)) is not None:
            self._waiting.append(line)

    def waiting(self, what: str) -> None:
        self._waits = what

    def close(self) -> None:
        """Print pending lines and remove the bar. Safe to call twice."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _draw(self) -> None:
        try:
            self._frame()
            while not self._stop.wait(FRAME_SECONDS):
                self._frame()
            self._frame()
            self._status.close(after="\n" if self._printed else "")  # an empty line before the summary
        except (OSError, ValueError):
            pass  # the terminal is gone; the run continues

    def _frame(self) -> None:
        look = Look(color=self._color, width=self._status.size()[0], unicode=self._unicode)
        above, room = [], look.width - 1
        while self._waiting:
            item = self._waiting.popleft()
            if isinstance(item, str):
                above.append(look.cut(look.text(item), room))
            else:
                above.append(case_line(item, look, room=room))
        self._printed = self._printed or bool(above)
        with self._counting:
            lines = bar_lines(self._pace, look)
        if waits := self._waits:
            lines.append(look.style(look.cut(look.text(waits), room), "dim"))
        self._status.draw(lines, above)


def bar_lines(pace: Pace, look: Look) -> list[str]:
    """The bar with position and speed on one line; counts and cost on the next."""
    room = look.width - 1
    position, *speed = (f"{pace.position:,}/{pace.total:,}  {pace.share:.0%}", *pace.speed())
    # On a narrow terminal, drop the rate first, then the remaining time.
    states = ["  ".join([position, *speed[skipped:]]) for skipped in range(len(speed) + 1)]
    state = next((state for state in states if columns(state) <= room), look.cut(position, room))
    length = min(max(40, room // 2), room - columns(state) - 2)
    if length >= 8:
        filled = int(length * pace.share)
        full, empty = look.mark("━", "=") * filled, look.mark("─", "-") * (length - filled)
        state = f"{look.style(full, 'green')}{look.style(empty, 'dim')}  {state}"
    spent = [(text, "dim") for text in [pace.spent()] if text]
    choices = [[*pace.counts(), *spent], [*pace.counts(short=True), *spent], pace.counts(short=True)]
    return [state, _fitting_parts(choices, room, look)]


def _fitting_parts(choices: Sequence[Sequence[tuple[str, str]]], room: int, look: Look) -> str:
    """The first choice that fits on a line, otherwise as much of the last choice as fits."""
    parts = next((parts for parts in choices if _width(parts) <= room), choices[-1])
    while len(parts) > 1 and _width(parts) > room:
        parts = parts[:-1]
    return "  ".join(look.style(look.cut(text, room), style) for text, style in parts)


def _width(parts: Sequence[tuple[str, str]]) -> int:
    return sum(columns(text) + 2 for text, _ in parts) - 2


def choose_progress(stream: TextIO, quiet: bool, env: Mapping[str, str]) -> Progress:
    """A live bar on a capable terminal, plain lines elsewhere, and no output if `quiet`."""
    if quiet:
        return QuietProgress()
    color, unicode = wants_color(stream, env), can_print_unicode(stream)
    if is_set(env, "CI") or not is_terminal(stream) or env.get("TERM") == "dumb":
        return PlainProgress(stream, color=color, unicode=unicode)
    return LiveProgress(stream, color=color, unicode=unicode)
