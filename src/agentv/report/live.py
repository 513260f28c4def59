"""The live bar. Rows only change counters; one thread draws, so a slow terminal never holds up a run."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, TextIO

from agentv.report.progress import (
    FURTHER_FAILURES,
    FURTHER_NOTES,
    Cap,
    Clock,
    Pace,
    PlainProgress,
    Progress,
    QuietProgress,
    case_line,
    is_failure,
)
from agentv.report.terminal import Look, can_print_unicode, columns, is_set, is_terminal, wants_color
from agentv.results import CaseResult

if TYPE_CHECKING:
    from rich.live import Live

FRAME_SECONDS = 0.1


class LiveProgress:
    """Two lines at the bottom of a terminal; cases that did not pass stay above them."""

    def __init__(
        self, stream: TextIO, *, color: bool = True, unicode: bool = True, clock: Clock = time.monotonic
    ) -> None:
        self._stream = stream
        self._color = color
        self._unicode = unicode
        self._clock = clock
        self._pace = Pace(0, 0, clock)
        self._failures = Cap(FURTHER_FAILURES)
        self._notes = Cap(FURTHER_NOTES)
        self._waiting: deque[CaseResult | str] = deque()
        self._printed = False
        self._counting = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._live: Live | None = None

    def start(self, total: int, done: int) -> None:
        from rich.console import Console  # noqa: PLC0415 - a run without a terminal does not pay for it
        from rich.live import Live  # noqa: PLC0415

        self._pace = Pace(total, done, self._clock)
        console = Console(
            file=self._stream,
            force_terminal=True,
            force_interactive=True,
            color_system="standard" if self._color else None,
            highlight=False,
        )
        self._live = Live(
            console=console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._thread = threading.Thread(target=self._draw, name="agentv-progress", daemon=True)
        self._thread.start()

    def row(self, row: CaseResult) -> None:
        with self._counting:
            self._pace.add(row)
        if is_failure(row) and (shown := self._failures.take(row)) is not None:
            self._waiting.append(shown)

    def note(self, message: str) -> None:
        if (shown := self._notes.take(message)) is not None:
            self._waiting.append(shown)

    def close(self) -> None:
        """Draw what is left and take the bar away; the summary says the rest. Safe to call twice."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _draw(self) -> None:
        assert self._live is not None  # noqa: S101 - set before the thread starts
        try:
            with self._live as live:
                self._frame(live)
                while not self._stop.wait(FRAME_SECONDS):
                    self._frame(live)
                self._frame(live)
                if self._printed:
                    live.console.print()  # sets apart what comes next
        except (OSError, ValueError):
            pass  # the terminal is gone; the run goes on

    def _frame(self, live: Live) -> None:
        from rich.text import Text  # noqa: PLC0415

        look = self._measure(live)
        with self._counting:
            bar = "\n".join(bar_lines(self._pace, look))
        live.update(Text.from_ansi(bar, no_wrap=True, overflow="crop"))
        lines, room = [], look.width - 1
        while self._waiting:
            item = self._waiting.popleft()
            if isinstance(item, str):
                lines.append(look.cut(look.text(item), room))
            else:
                lines.append(case_line(item, look, room=room))
        if lines:
            self._printed = True
            live.console.print(Text.from_ansi("\n".join(lines)), no_wrap=True, overflow="crop")
        live.refresh()

    def _measure(self, live: Live) -> Look:
        """The size of the terminal behind this stream; rich would ask stdin and stdout."""
        try:
            width, height = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError):
            width, height = 80, 24
        # Some terminals say 0 until they are laid out.
        live.console.size = (width or 80, height or 24)
        return Look(color=self._color, width=width or 80, unicode=self._unicode)


def bar_lines(pace: Pace, look: Look) -> list[str]:
    """The bar with position and speed, and below it the counts and the spend."""
    full, empty = look.mark("━", "="), look.mark("─", "-")
    numbers = f"{pace.position:,}/{pace.total:,}  {pace.share:.0%}"
    speed = pace.speed()
    state = f"{numbers}  {speed}" if speed else numbers
    room = look.width - 1
    length = min(40, room - columns(state) - 2)
    if length >= 8:
        filled = int(length * pace.share)
        bar = look.style(full * filled, "green") + look.style(empty * (length - filled), "dim")
        state = f"{bar}  {state}"
    spent = pace.spent()
    counts = pace.counts(look) + (f"  {look.style(spent, 'dim')}" if spent else "")
    return [state, counts]


def choose_progress(stream: TextIO, quiet: bool, env: Mapping[str, str]) -> Progress:
    """A live bar on a terminal that can draw one, plain lines elsewhere, nothing with `quiet`."""
    if quiet:
        return QuietProgress()
    color, unicode = wants_color(stream, env), can_print_unicode(stream)
    if is_set(env, "CI") or not is_terminal(stream) or env.get("TERM") == "dumb":
        return PlainProgress(stream, color=color, unicode=unicode)
    return LiveProgress(stream, color=color, unicode=unicode)
