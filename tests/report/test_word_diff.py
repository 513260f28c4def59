"""Words that differ are marked, whatever the strings contain."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from agentv.report.terminal import Look, columns
from agentv.report.word_diff import Word, both_sides, flow, merged, tokens_of

LOOK = Look(width=80)
TEXTS = st.text(st.sampled_from("ab .,\n\té中\x1b\u202e:#["), max_size=60)


def text_of(words: list[Word], *left_out: str) -> str:
    return "".join(word.text for word in words if word.style not in left_out)


@given(TEXTS, TEXTS)
def test_both_sides_keep_their_text(one: str, two: str):
    left, right = both_sides(one, two, LOOK)
    assert text_of(left) == "".join(tokens_of(one, LOOK))
    assert text_of(right) == "".join(tokens_of(two, LOOK))
    assert text_of(left, "red") == text_of(right, "green")


@given(TEXTS, TEXTS, st.integers(10, 40))
def test_lines_keep_all_words_within_the_width(one: str, two: str, width: int):
    words = merged(one, two, LOOK)
    lines = flow(words, width, LOOK)
    assert all(columns(line) - line.count(": :") - line.count("# #") <= width for line, _ in lines)
    kept = "".join("".join(line for line, _ in lines).split()).replace(": :", "::")
    assert kept == re.sub(r"\s+", "", text_of(words)).replace(": :", "::")


def test_removed_and_added_words_are_marked():
    words = merged("within 14 days.", "within 30 days, sir.", LOOK)
    assert "".join(word.text for word in words) == "within [-14-]{+30+} days{+, sir+}."


def test_long_strings_are_compared_by_line():
    one = "\n".join(f"line {number} of the text" for number in range(1000))
    left, right = both_sides(one, one.replace("line 500 ", "row 500 "), LOOK)
    assert text_of([word for word in left if word.style]).strip() == "line 500 of the text"
    assert text_of([word for word in right if word.style]).strip() == "row 500 of the text"
    huge = "x\n" * 5000
    assert not any(word.style for word in both_sides(huge, huge, LOOK)[0])
    assert all(word.style for word in both_sides(huge, huge + "y", LOOK)[0])
