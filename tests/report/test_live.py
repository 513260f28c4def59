"""The live bar, drawn on a real pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from agentv.report.live import LiveProgress, bar_lines
from agentv.report.progress import FURTHER_FAILURES, Pace
from agentv.report.terminal import Look, columns
from agentv.results import CaseResult
from tests.report.rows import error_row, row


@pytest.fixture(autouse=True)
def a_terminal_that_can_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever runs the tests may have no terminal, or a dumb one."""
    monkeypatch.setenv("TERM", "xterm")
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)


class Screen:
    """As much of a terminal as a bar needs: text, line feeds, cursor up, erase line."""

    TOKEN = re.compile(r"\x1b\[(\??[\d;]*)([A-Za-z])|(\r|\n)|([^\x1b\r\n]+)")

    def __init__(self) -> None:
        self.lines = [""]
        self.row = self.column = 0
        self.cursor_shown = True

    def feed(self, text: str) -> None:
        position = 0
        for match in self.TOKEN.finditer(text):
            assert match.start() == position, f"unknown output {text[position : match.start()]!r}"
            position = match.end()
            argument, command, newline, printed = match.groups()
            if printed:
                line = self.lines[self.row].ljust(self.column)
                self.lines[self.row] = line[: self.column] + printed + line[self.column + len(printed) :]
                self.column += len(printed)
            elif newline == "\r":
                self.column = 0
            elif newline == "\n":
                self.row += 1
                self.lines += [""] * (self.row + 1 - len(self.lines))
            elif command == "A":
                self.row -= int(argument or 1)
            elif command == "K":
                self.lines[self.row] = ""
            elif command in "hl" and argument == "?25":
                self.cursor_shown = command == "h"
            else:
                assert command == "m", f"unknown sequence {match.group()!r}"
        assert position == len(text)

    @property
    def text(self) -> list[str]:
        """Every line down to the cursor; below it there must be nothing."""
        assert not any(self.lines[self.row + 1 :])
        return [line.rstrip() for line in self.lines[: self.row + 1]]


class Terminal:
    """A pseudo-terminal of 80 by 24 with somebody reading it."""

    def __init__(self) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.stream = os.fdopen(slave, "w", encoding="utf-8")
        self.seen = bytearray()
        self._more = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        try:
            while data := os.read(self.master, 65536):
                self.seen += data
                self._more.set()
        except OSError:  # the other end is closed
            pass

    def wait_for(self, last_line: str) -> Screen:
        """The screen once its last line is this one and nothing is half drawn."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            self._more.wait(1)
            self._more.clear()
            screen = Screen()
            with suppress(AssertionError, UnicodeDecodeError):
                screen.feed(bytes(self.seen).decode())
                if screen.text[-1] == last_line:
                    return screen
        raise AssertionError(f"never drawn: {last_line!r}, but {bytes(self.seen)!r}")

    def finish(self) -> str:
        self.stream.close()
        self._reader.join()
        os.close(self.master)
        return self.seen.decode()


@contextmanager
def on_terminal(color: bool = False, unicode: bool = True) -> Iterator[tuple[LiveProgress, Terminal]]:
    terminal = Terminal()
    progress = LiveProgress(terminal.stream, color=color, unicode=unicode)
    try:
        yield progress, terminal
    finally:
        progress.close()


def test_failures_stay_on_the_screen_and_the_bar_goes():
    with on_terminal() as (progress, terminal):
        progress.start(60, 0)
        for i in range(57):
            progress.row(row(f"case-{i}", cost_usd=0.01))
        progress.row(row("paris", 0.2, misses=("names Lyon\x1b[2J, not Paris; " * 9,)))
        progress.row(error_row("rome", "target is down.\nStart it."))
        progress.note("assistant: 429, trying again in 2 s")
        progress.row(row("last", 0.7, misses=("nearly",)))
    drawn = terminal.finish()
    screen = Screen()
    screen.feed(drawn)
    reason = "fail   0.20  paris  (assistant)  " + "names Lyon, not Paris; " * 9
    assert screen.text == [
        reason[:78].rstrip() + "…",
        "error  -     rome  (assistant)  target is down. Start it.",
        "assistant: 429, trying again in 2 s",
        "border 0.70  last  (assistant)  nearly",
        "",
        "",
    ]
    assert screen.cursor_shown
    assert "60/60  100%" in drawn
    assert "57 passed  1 borderline  1 failed  1 error  $0.5700" in drawn


def test_the_bar_stands_below_the_failures_while_the_run_goes_on():
    terminal = Terminal()
    progress = LiveProgress(terminal.stream, color=False)
    progress.start(4, 1)
    progress.row(row("paris", 0.2, misses=("wrong",)))
    progress.row(row("rome"))
    screen = terminal.wait_for("1 passed  1 failed")
    assert screen.text[0] == "fail   0.20  paris  (assistant)  wrong"
    assert re.fullmatch(r"━{20,40}─{10,}  3/4  75%  .*ETA .*", screen.text[1])
    assert screen.text[2] == "1 passed  1 failed"
    assert not screen.cursor_shown
    progress.close()
    progress.close()
    terminal.finish()


def test_without_color_no_color_is_sent_and_without_unicode_only_ascii():
    for color, unicode in [(True, True), (False, False)]:
        with on_terminal(color=color, unicode=unicode) as (progress, terminal):
            progress.start(2, 0)
            progress.row(row("paris", 0.2, misses=("日",)))
        drawn = terminal.finish()
        assert (re.search(r"\x1b\[[\d;]*m", drawn) is not None) is color
        assert drawn.isascii() is not unicode


def test_a_row_costs_next_to_nothing_and_failures_do_not_flood_the_screen():
    rows = [row(f"case-{i}", i % 2, misses=("m",)) for i in range(2000)]
    with on_terminal() as (progress, terminal):
        progress.start(len(rows), 0)
        started = time.perf_counter()
        for each in rows:
            progress.row(each)
        taken = time.perf_counter() - started
    drawn = terminal.finish()
    screen = Screen()
    screen.feed(drawn)
    assert taken < 20
    assert drawn.count("ETA") < len(rows) / 4, "the bar is drawn a few times a second, and not for every row"
    assert len([line for line in screen.text if line.startswith("fail")]) == 50
    assert FURTHER_FAILURES in screen.text


def test_a_terminal_that_goes_away_does_not_end_the_run():
    master, slave = pty.openpty()
    stream = os.fdopen(slave, "w", encoding="utf-8")
    progress = LiveProgress(stream)
    os.close(master)
    progress.start(2, 0)
    progress.row(row("a", 0.1))
    progress.close()
    with pytest.raises(OSError, match="Input/output"):  # the stream is as dead as the test means it to be
        os.write(stream.fileno(), b"x")
    with suppress(OSError):
        stream.close()


def test_closing_what_never_started_is_fine():
    with on_terminal() as (_, terminal):
        pass
    assert terminal.finish() == ""


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_the_bar_fits(width: int):
    pace = Pace(123_456, 0, lambda: 0.0)
    pace.add(row("a"))
    first, _ = bar_lines(pace, Look(width=width))
    assert columns(first) < width


def test_rows_recorded_earlier_do_not_count_into_the_rate():
    now = [0.0]
    pace = Pace(100, 90, lambda: now[0])
    now[0] = 10.0
    one: CaseResult = row("a")
    for _ in range(5):
        pace.add(one)
    assert pace.speed() == "30.0/min  ETA 10 s"
    assert pace.position == 95
