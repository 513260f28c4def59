"""GitHub annotations: the right lines, and no commands injected by rows."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from agentv.report.annotations import MOST, Place, command, render_annotations
from agentv.report.terminal import no_commands
from agentv.results import RowKey
from tests.report.rows import error_row, row
from tests.report.sources import HOSTILE

LINE = re.compile(r"::(error|warning|notice) ([^:]*)::(.*)")


def parsed(line: str) -> tuple[str, dict[str, str], str]:
    """Parse a workflow command as the GitHub runner does."""
    match = LINE.fullmatch(line)
    assert match, line
    properties = dict(pair.split("=", 1) for pair in match[2].split(","))
    for code, text in (("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
        properties = {name: value.replace(code, text) for name, value in properties.items()}
    data = match[3].replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")
    return match[1], properties, data


def test_failed_is_an_error_borderline_a_warning_and_the_total_a_notice():
    def locate(key: RowKey) -> Place:
        return Place("evals/a,b:c.yaml", 12)

    rows = [
        row("good"),
        row("near", 0.7, misses=("almost",)),
        row("bad", 0.1, misses=("100% wrong",)),
        error_row("e", "down\nfix it"),
    ]
    lines = [parsed(line) for line in render_annotations(rows, locate)]
    assert [(level, data) for level, _, data in lines] == [
        ("error", "accuracy: missed: 100% wrong"),
        ("error", "down\nfix it"),
        ("warning", "accuracy: missed: almost"),
        ("notice", "4 results: 1 failed, 1 borderline, 1 errored"),
    ]
    assert lines[0][1] == {"file": "evals/a,b:c.yaml", "line": "12", "title": "bad (assistant): fail, score 0.10"}
    assert lines[1][1]["title"] == "e (assistant): errored"


def test_annotation_has_no_file_if_the_case_is_not_located():
    assert parsed(next(render_annotations([row("bad", 0.1)])))[1].keys() == {"title"}


def test_worst_cases_come_first_and_half_of_the_limit_is_left_for_errors():
    rows = [row(f"bad-{n}", n / 1000) for n in range(300, 0, -1)] + [error_row(f"e-{n}", "down") for n in range(50)]
    lines = [parsed(line) for line in render_annotations(rows)]
    errors = [properties["title"] for level, properties, _ in lines if level == "error"]
    assert len(errors) == MOST
    assert errors[0].startswith("bad-1 ")
    assert sum("errored" in title for title in errors) == MOST // 2
    assert lines[-1][2] == "350 results: 300 failed, 50 errored"


@given(st.text(), st.text(), st.text())
def test_any_text_in_a_row_gives_one_line_with_one_command(title: str, file: str, message: str):
    line = command("error", message, title=title, place=Place(file, 1))
    assert "\n" not in line
    assert "\r" not in line
    level, properties, data = parsed(line)
    assert (level, properties["title"], data) == ("error", title, message)


def test_commands_in_a_reason_are_escaped():
    rows = [row(HOSTILE, 0.1, target=HOSTILE, misses=(HOSTILE,)), error_row(HOSTILE, HOSTILE)]
    lines = list(render_annotations(rows))
    text = "\n".join(lines)
    assert len(text.splitlines()) == len(lines) == 3
    assert all(parsed(line) for line in lines)
    assert "\x1b" not in text


def test_text_at_the_start_of_a_line_is_not_a_command():
    assert not no_commands("  ::error::x").lstrip().startswith("::")
    assert "##[" not in no_commands("a ##[group]")
    assert no_commands("a::b") == "a::b"


def test_incomplete_run_starts_with_a_warning():
    lines = [parsed(line) for line in render_annotations([row("a")], gap=lambda rows: f"{9 - rows} are missing")]
    assert [(level, data) for level, _, data in lines] == [
        ("warning", "8 are missing"),
        ("notice", "1 result, all passed"),
    ]


def test_warning_about_missing_rows_counts_towards_the_limit():
    rows = [row(f"case-{n:02}", 0.7) for n in range(20)]
    levels = [parsed(line)[0] for line in render_annotations(rows, gap=lambda _: "rows are missing")]
    assert levels == ["warning"] * MOST + ["notice"]


def test_scripted_model_is_labelled_and_an_empty_run_is_not_a_success():
    (line,) = render_annotations([], scripted=True)
    level, _, data = parsed(line)
    assert level == "notice"
    assert data.startswith("no results (scripted model")
