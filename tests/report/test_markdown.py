"""Markdown for pull requests: valid tables and escaped text."""

from __future__ import annotations

import html
import re

from hypothesis import given
from hypothesis import strategies as st

from agentv.report.markdown import as_code, render_markdown
from agentv.results import CaseResult
from tests.golden.test_console_summary import error_rows, mixed_rows, summarize
from tests.report.rows import error_row, row
from tests.report.sources import HOSTILE


def rendered(rows: list[CaseResult], *, scripted: bool = False) -> str:
    return render_markdown(summarize(rows, scripted=scripted), name="runs/r1")


def tables(text: str) -> list[list[list[str]]]:
    """The cells of every table; an unescaped `|` in a cell would change the length of its row."""
    blocks = [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]
    return [[line.strip("| ").split(" | ") for line in block] for block in blocks]


def test_run_with_two_targets_has_a_table_of_targets():
    text = rendered(mixed_rows())
    assert text.startswith("## agentv: 3 of 8 results did not pass\n")
    assert "| target | results | passed | borderline | failed | errors | mean score |" in text
    assert "| <code>baseline-small</code> | 4 | 3 | 0 | 1 | 0 | 0.70 |" in text
    assert "| <code>capital-3</code> <code>baseline-small</code> | 0.00 | fail | <code>accuracy</code>: " in text


def test_errors_have_a_separate_section():
    text = rendered(error_rows())
    assert "4 of 6 cases errored" in text.splitlines()[0]
    assert "### Errors (4)" in text
    assert (
        "| 3 | <code>target</code> | <code>target 'assistant' answered 429 Too Many Requests after 3 attempts." in text
    )
    assert "Worst cases" not in text


def test_passed_and_scripted_runs_are_labelled():
    text = rendered([row("a"), row("b")], scripted=True)
    assert text.startswith("## agentv: all 2 cases passed\n")
    assert "scripted model" in text
    assert rendered([]).startswith("## agentv: no cases were run")


def test_untrusted_text_cannot_break_tables_or_create_markup():
    rows = [
        row(f"{HOSTILE}{n}", 0.1, target=f"{HOSTILE}{n}", misses=(HOSTILE,), candidate_answer=f"{HOSTILE}</details>")
        for n in range(2)
    ]
    text = rendered([*rows, error_row("e", HOSTILE)])
    for table in tables(text):
        assert len({len(line) for line in table}) == 1, table
    assert not re.search(r"<(?!/?code>|/?details>|/?summary>)", text)
    assert text.count("<details>") == text.count("</details>") == 1
    assert "@all" not in text
    assert "`c`" not in text
    assert not re.search(r"^\s*::", text, re.MULTILINE)
    assert "##[" not in text


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=80))
def test_escaped_text_is_preserved_and_contains_no_markup(text: str):
    code = as_code(text)
    inner = code.removeprefix("<code>").removesuffix("</code>")
    assert not re.search(r"[<>|\\`*_\[\]~@:$]|https?://|www\.", inner, re.IGNORECASE)
    assert "\n" not in code
    if text.isprintable() and text:
        assert html.unescape(inner) == text


def test_long_reason_is_truncated():
    assert len(as_code("x" * 10_000)) < 500
