"""Progress without a terminal: a limited number of plain lines, which can never stop a run."""

from __future__ import annotations

import io
import re
import subprocess
import sys

import pytest

from agentv.report.live import LiveProgress, choose_progress
from agentv.report.progress import (
    FURTHER_FAILURES,
    FURTHER_NOTES,
    PlainProgress,
    Progress,
    QuietProgress,
)
from tests.report.rows import error_row, row


class Time:
    """A clock that is advanced manually."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_small_run_prints_a_line_for_every_case():
    stream = io.StringIO()
    progress = PlainProgress(stream)
    progress.start(200, 11)
    progress.row(row("capital-of-france", 0.95))
    progress.row(row("b", 0.7, misses=("no date",), attempt=2))
    progress.row(error_row("c", "target is down.\nStart it."))
    progress.note("assistant: 429, retrying in 2 s")
    progress.close()
    assert stream.getvalue().splitlines() == [
        "11 of 200 rows already recorded, 189 to run",
        "[ 12/200] pass   0.95  capital-of-france  (assistant)",
        "[ 13/200] border 0.70  b  (assistant, attempt 2)  missed: no date",
        "[ 14/200] error  -     c  (assistant)  target is down. Start it.",
        "assistant: 429, retrying in 2 s",
        "",
    ]


def test_what_the_run_waits_for_is_printed_every_30_seconds():
    stream, time = io.StringIO(), Time()
    progress = PlainProgress(stream, clock=time)
    progress.start(200, 0)
    for second in range(70):
        progress.waiting(f"waiting for judge 'gpt' ({second})" if second >= 3 else "")
        time.now += 1
    assert stream.getvalue().splitlines() == [f"waiting for judge 'gpt' ({second})" for second in (3, 33, 63)]


def test_large_run_reports_every_five_percent_and_every_five_seconds():
    stream, time = io.StringIO(), Time()
    progress = PlainProgress(stream, clock=time)
    progress.start(1000, 0)
    for i in range(99):
        progress.row(row(f"c{i}", cost_usd=0.01))
    assert stream.getvalue() == "[  50/1000]   5%  50 passed  $0.5000\n"
    time.now += 5
    progress.row(row("c99", cost_usd=0.01))
    assert stream.getvalue().splitlines()[1:] == ["[ 100/1000]  10%  100 passed  20/s  ETA 45 s  $1.00"]
    time.now += 5
    progress.row(row("c100"))
    assert len(stream.getvalue().splitlines()) == 3


def test_long_run_reports_less_often():
    stream, time = io.StringIO(), Time()
    progress = PlainProgress(stream, clock=time)
    progress.start(10**9, 0)
    for i in range(10 * 3600 // 5):
        time.now += 5
        progress.row(row(f"c{i}"))
    assert len(stream.getvalue().splitlines()) < 400


def test_large_run_prints_fifty_failures_and_where_to_find_the_others():
    stream, time = io.StringIO(), Time()
    progress = PlainProgress(stream, clock=time)
    progress.start(1_000_000, 0)
    for i in range(200):
        progress.row(row(f"c{i}", 0.1, misses=("wrong",)) if i % 2 else error_row(f"c{i}", "down"))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 51
    assert lines[-1] == FURTHER_FAILURES
    assert lines[0].endswith("error  -     c0  (assistant)  down")


def test_notes_do_not_flood_a_log():
    stream = io.StringIO()
    progress = PlainProgress(stream)
    progress.start(10, 0)
    for i in range(500):
        progress.note(f"note {i}")
    assert stream.getvalue().splitlines()[-2:] == ["note 49", FURTHER_NOTES]


def test_control_characters_in_rows_are_removed():
    stream = io.StringIO()
    progress = PlainProgress(stream, unicode=False)
    progress.start(2, 0)
    progress.row(row("a\x1b[2J\u202e", 0.1, target="t\x9b1m", misses=("m\x1b]0;x\x07\r\n日",)))
    progress.note("n\x1b[31m\x07")
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", stream.getvalue())
    assert stream.getvalue().isascii()


@pytest.mark.parametrize(
    ("stream", "quiet", "env", "kind"),
    [
        (Terminal(), False, {"TERM": "xterm"}, LiveProgress),
        (Terminal(), False, {}, LiveProgress),
        (Terminal(), False, {"CI": "false"}, LiveProgress),
        (Terminal(), False, {"CI": "true"}, PlainProgress),
        (Terminal(), False, {"CI": "1"}, PlainProgress),
        (Terminal(), False, {"TERM": "dumb"}, PlainProgress),
        (io.StringIO(), False, {"TERM": "xterm"}, PlainProgress),
        (io.StringIO(), False, {"FORCE_COLOR": "1"}, PlainProgress),
        (Terminal(), True, {}, QuietProgress),
    ],
)
def test_live_bar_is_chosen_only_on_an_interactive_terminal(stream, quiet: bool, env: dict[str, str], kind: type):
    assert type(choose_progress(stream, quiet, env)) is kind


@pytest.mark.parametrize(("env", "colored"), [({}, False), ({"FORCE_COLOR": "1"}, True), ({"NO_COLOR": "1"}, False)])
def test_plain_lines_are_colored_only_on_request(env: dict[str, str], colored: bool):
    stream = io.StringIO()
    progress = choose_progress(stream, False, env)
    progress.start(1, 0)
    progress.row(row("a"))
    assert ("\x1b[32mpass  \x1b[0m" in stream.getvalue()) is colored


def test_quiet_prints_nothing(capfd: pytest.CaptureFixture[str]):
    progress: Progress = QuietProgress()
    progress.start(1, 0)
    progress.row(row("a", 0.1))
    progress.note("n")
    progress.close()
    assert capfd.readouterr() == ("", "")


READER_GONE = """
import sys
from agentv.report.live import choose_progress
from agentv.results import CaseResult, Verdict
sys.stdin.readline()
progress = choose_progress(sys.stderr, False, {})
progress.start(100, 0)
for i in range(100):
    progress.row(CaseResult("r", f"case-{i}", "s", "t", 1, 1.0, Verdict.PASS))
progress.note("n")
progress.close()
print("the run continued")
"""


def test_run_continues_when_stderr_is_closed():
    child = subprocess.Popen(
        [sys.executable, "-c", READER_GONE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stderr is not None
    child.stderr.close()
    child.stderr = None
    out, _ = child.communicate("go\n", timeout=30)
    assert (out, child.returncode) == ("the run continued\n", 0)


def test_run_continues_when_the_disk_of_the_log_is_full():
    full = open("/dev/full", "w", encoding="utf-8", buffering=1)  # noqa: PTH123, SIM115 - closing it fails
    progress = PlainProgress(full)
    progress.start(2, 0)
    progress.row(row("a"))
    progress.row(row("b"))
    progress.close()
    with pytest.raises(OSError, match="No space left"):
        full.close()
