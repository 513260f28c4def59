"""The live progress bar on a real pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from agentv.report.live import LiveProgress, bar_lines
from agentv.report.progress import FURTHER_FAILURES, Pace
from agentv.report.terminal import Look, StatusLines, columns
from agentv.results import CaseResult
from tests.conftest import AGENTV, Project, signals_heard
from tests.report.rows import error_row, row


@pytest.fixture(autouse=True)
def a_terminal_that_can_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set TERM, because the tests may run without a terminal or on a dumb one."""
    monkeypatch.setenv("TERM", "xterm")
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)


class Screen:
    """A minimal terminal: text, line feeds, cursor up, erase to the right and below."""

    TOKEN = re.compile(r"\x1b\[(\??[\d;]*)([A-Za-z])|(\r|\n)|([^\x1b\r\n]+)")

    def __init__(self) -> None:
        self.lines = [""]
        self.row = self.column = 0
        self.cursor_shown = self.wraps = True

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
            elif command in "KJ":
                assert argument == ""
                self.lines[self.row] = self.lines[self.row][: self.column]
                del self.lines[self.row + 1 if command == "J" else len(self.lines) :]
            elif command in "hl" and argument in ("?25", "?7"):
                self.cursor_shown = command == "h" if argument == "?25" else self.cursor_shown
                self.wraps = command == "h" if argument == "?7" else self.wraps
            else:
                assert command == "m", f"unknown sequence {match.group()!r}"
        assert position == len(text)

    @property
    def text(self) -> list[str]:
        return [line.rstrip() for line in self.lines]


class Terminal:
    """A pseudo-terminal of 80 x 24 that is being read."""

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
        """Wait for a complete frame that ends with `last_line` and return the screen."""
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


def test_failures_stay_on_the_screen_and_the_bar_is_removed():
    with on_terminal() as (progress, terminal):
        progress.start(60, 0)
        for i in range(57):
            progress.row(row(f"case-{i}", cost_usd=0.01))
        progress.row(row("paris", 0.2, misses=("names Lyon\x1b[2J, not Paris; " * 9,)))
        progress.row(error_row("rome", "target is down.\nStart it."))
        progress.note("assistant: 429, retrying in 2 s")
        progress.row(row("last", 0.7, misses=("nearly",)))
    drawn = terminal.finish()
    screen = Screen()
    screen.feed(drawn)
    reason = "fail   0.20  paris  (assistant)  " + "missed: " + "names Lyon, not Paris; " * 9
    assert screen.text == [
        reason[:78].rstrip() + "…",
        "error  -     rome  (assistant)  target is down. Start it.",
        "assistant: 429, retrying in 2 s",
        "border 0.70  last  (assistant)  missed: nearly",
        "",
        "",
    ]
    assert screen.cursor_shown
    assert screen.wraps
    assert "60/60  100%" in drawn
    assert "57 passed  1 borderline  1 failed  1 error  $0.5700" in drawn


def test_third_line_says_what_the_run_waits_for():
    with on_terminal() as (progress, terminal):
        progress.start(4, 0)
        waits = "waiting for judge 'gpt\x1b[2J' (1 at a time, 12 calls queued)"
        progress.waiting(f"{waits}; {waits}")
        shown = "waiting for judge 'gpt' (1 at a time, 12 calls queued); waiting for judge 'gpt"
        assert len(terminal.wait_for(f"{shown}…").text) == 3
        progress.waiting("")
        assert len(terminal.wait_for("0 passed").text) == 2
    terminal.finish()


def test_bar_is_below_the_failures_during_the_run():
    terminal = Terminal()
    progress = LiveProgress(terminal.stream, color=False)
    progress.start(4, 1)
    progress.row(row("paris", 0.2, misses=("wrong",)))
    progress.row(row("rome"))
    screen = terminal.wait_for("1 passed  1 failed")
    assert screen.text[0] == "fail   0.20  paris  (assistant)  missed: wrong"
    assert re.fullmatch(r"━{20,40}─{10,}  3/4  75%  .*ETA .*", screen.text[1])
    assert screen.text[2] == "1 passed  1 failed"
    assert not screen.cursor_shown
    progress.close()
    progress.close()
    terminal.finish()


def test_no_color_codes_without_color_and_only_ascii_without_unicode():
    for color, unicode in [(True, True), (False, False)]:
        with on_terminal(color=color, unicode=unicode) as (progress, terminal):
            progress.start(2, 0)
            progress.row(row("paris", 0.2, misses=("日",)))
        drawn = terminal.finish()
        assert (re.search(r"\x1b\[[\d;]*m", drawn) is not None) is color
        assert drawn.isascii() is not unicode


def test_rows_are_cheap_and_failures_do_not_flood_the_screen():
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
    assert drawn.count("ETA") < len(rows) / 4, "the bar must be drawn a few times per second, not for every row"
    assert len([line for line in screen.text if line.startswith("fail")]) == 50
    assert FURTHER_FAILURES in screen.text


def test_run_continues_when_the_terminal_closes():
    master, slave = pty.openpty()
    stream = os.fdopen(slave, "w", encoding="utf-8")
    progress = LiveProgress(stream)
    os.close(master)
    progress.start(2, 0)
    progress.row(row("a", 0.1))
    progress.close()
    with pytest.raises(OSError, match="Input/output"):  # the terminal really is gone
        os.write(stream.fileno(), b"x")
    with suppress(OSError):
        stream.close()


def test_close_without_start_does_nothing():
    with on_terminal() as (_, terminal):
        pass
    assert terminal.finish() == ""


@pytest.mark.parametrize("width", [1, 2, 10, 20, 40, 60, 80, 200])
def test_bar_is_narrower_than_the_terminal(width: int):
    now = [0.0]
    pace = Pace(123_456, 0, lambda: now[0])
    for each in (row("a", cost_usd=1234.5), row("b", 0.7), row("c", 0.1), error_row("d", "down")):
        pace.add(each)
    now[0] = 3.0
    assert all(columns(line) < max(width, 2) for line in bar_lines(pace, Look(width=width)))


def test_narrow_terminals_show_position_remaining_time_and_short_counts():
    now = [0.0]
    pace = Pace(1000, 0, lambda: now[0])
    for each in (row("a", cost_usd=0.5), row("b", 0.7), row("c", 0.1), error_row("d", "down")):
        pace.add(each)
    now[0] = 4.0
    long = ["4/1,000  0%  1.0/s  ETA 16 min 36 s", "1 passed  1 borderline  1 failed  1 error  $0.5000"]
    assert [line.split("─  ")[-1] for line in bar_lines(pace, Look(width=80))] == long
    assert bar_lines(pace, Look(width=40)) == [long[0], "1 pass  1 border  1 fail  1 error"]
    assert bar_lines(pace, Look(width=32)) == ["4/1,000  0%  ETA 16 min 36 s", "1 pass  1 border  1 fail"]


def test_unchanged_frame_is_not_written():
    terminal = Terminal()
    status = StatusLines(terminal.stream)
    for _ in range(3):
        status.draw(["1/2", "1 passed"])
    status.close()
    assert terminal.finish().count("1/2") == 1


def test_frame_is_a_single_write_that_overwrites_without_clearing():
    writes: list[str] = []
    terminal = Terminal()
    terminal.stream.write = writes.append  # type: ignore[method-assign,assignment]
    status = StatusLines(terminal.stream)
    status.draw(["1/2", "1 passed"])
    status.draw(["2/2", "2 passed"], ["a note"])
    status.close()
    assert len(writes) == 3
    drawn = writes[1]
    assert drawn.index("a note") < drawn.index("\x1b[K") < drawn.index("2/2")
    assert drawn.index("2 passed") < drawn.index("\x1b[J")
    terminal.finish()


def test_resize_redraws_from_the_cursor_position_with_the_new_width():
    terminal = Terminal()
    progress = LiveProgress(terminal.stream, color=False)
    progress.start(1000, 0)
    progress.row(row("paris"))
    terminal.wait_for("1 passed")
    before = len(terminal.seen)
    fcntl.ioctl(terminal.stream.fileno(), termios.TIOCSWINSZ, struct.pack("HHHH", 24, 30, 0, 0))
    deadline = time.monotonic() + 20
    while b"1 passed" not in terminal.seen[before:] and time.monotonic() < deadline:
        time.sleep(0.01)
    progress.close()
    frame = terminal.finish().encode()[before:].decode().split("\x1b[?7h")[0].removeprefix("\x1b[?7h")
    frame = frame[frame.rindex("\x1b[?7l") :]
    assert frame.startswith("\x1b[?7l\r\x1b[J"), "the frame must start at the cursor and erase everything below"
    assert all(columns(re.sub(r"\x1b\[\??[\d;]*[A-Za-z]", "", line).strip()) < 30 for line in frame.split("\r\n"))


def test_rows_are_not_blocked_by_a_terminal_that_does_not_read():
    master, slave = pty.openpty()
    stream = os.fdopen(slave, "w", encoding="utf-8")
    progress = LiveProgress(stream)
    progress.start(100_000, 0)
    done = threading.Event()

    def rows() -> None:
        for i in range(5000):
            progress.row(row(f"case-{i}", 0.1, misses=("m" * 200,)))
            progress.note("n" * 200)
        done.set()

    threading.Thread(target=rows, daemon=True).start()
    assert done.wait(60)
    reader = threading.Thread(target=_drain, args=(master,), daemon=True)
    reader.start()
    progress.close()
    stream.close()
    reader.join(20)


def _drain(master: int) -> None:
    with suppress(OSError):
        while os.read(master, 65536):
            pass


ABANDONED = """
import os, sys
from agentv.report.terminal import StatusLines, abandon_status_lines
StatusLines(sys.stderr).draw(["1/2", "1 passed"])
abandon_status_lines()
os._exit(0)
"""


def test_immediate_exit_leaves_a_visible_cursor_on_an_empty_line():
    terminal = Terminal()
    subprocess.run([sys.executable, "-c", ABANDONED], stderr=terminal.stream, check=True, timeout=60)
    screen = Screen()
    screen.feed(terminal.finish())
    assert (screen.text, screen.cursor_shown, screen.wraps) == ([""], True, True)


def test_ctrl_c_removes_the_bar_and_shows_the_cursor(project: Project):
    project.write("agentv.config.yaml", "targets: {a: {provider: mock, response: x, delay_ms: 60000}}")
    project.write("suite.yaml", "evalcases: [{id: a, input: x, evaluators: [{type: contains, value: x}]}]")
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))

    def controlling() -> None:
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

    with signals_heard():
        child = subprocess.Popen(
            [*AGENTV, "eval", "suite.yaml"],
            cwd=project.root,
            env={**project.environment(), "TERM": "xterm"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            preexec_fn=controlling,  # noqa: PLW1509 - the test has no other thread yet
        )
    os.close(slave)
    seen = b""
    pressed = False
    with suppress(OSError):
        while data := os.read(master, 65536):
            seen += data
            if not pressed and b"0 passed" in seen:
                pressed = True
                os.write(master, b"\x03")
    os.close(master)
    assert child.wait(60) == 130
    screen = Screen()
    screen.feed(seen.decode())
    assert screen.cursor_shown
    text = "\n".join(screen.text)
    assert "0/1" not in text
    assert "0 passed" not in text
    assert "! interrupted" in text
    assert "agentv eval --resume" in text


def test_rows_recorded_earlier_do_not_count_towards_the_rate():
    now = [0.0]
    pace = Pace(100, 90, lambda: now[0])
    now[0] = 10.0
    one: CaseResult = row("a")
    for _ in range(5):
        pace.add(one)
    assert pace.speed() == ("30.0/min", "ETA 10 s")
    assert pace.position == 95
