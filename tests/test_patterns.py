"""Patterns are bounded before they are compiled, and searched with the result of the library."""

from __future__ import annotations

import re

import pytest

from agentv import patterns
from agentv.patterns import PythonPatterns, python_pattern, refuse_bomb

TEXTS = ["", "aaab", "a" * 50 + "!", "Which capital?\nFrance", "12-34", "ⅷ² naïve\u2003x", "x" * 2_000 + "y"]


@pytest.mark.parametrize(
    "pattern",
    [
        r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}",
        r"[A-Z]{2}\d{2}(?: ?[0-9A-Z]{4}){7}",
        r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(,\s*[0-9a-f]{64}){3}",
        r"[\s\S]{0,50000}",
        r"\{10000000\}",
        r"[{99999}]",
        "(?#{99999})a",
        "(a{100}){100}",
        "|".join(f"word{n}" for n in range(2_000)),
    ],
)
def test_ordinary_counts_are_accepted(pattern):
    refuse_bomb(pattern)
    assert patterns.compiled(pattern, "") is not None


@pytest.mark.parametrize("pattern", ["[a" * 9_000, "(" + "{" + " " * 19_000, "(?#" * 6_000, "a" + "{1}" * 6_000])
@pytest.mark.timeout(20)
def test_checking_a_pattern_is_not_a_bomb_itself(pattern):
    with pytest.raises(ValueError, match="expression"):
        patterns.compiled(pattern, "")


def test_comment_of_a_verbose_pattern_is_not_a_count():
    refuse_bomb("a # {99999}\n b", verbose=True)
    with pytest.raises(ValueError, match="got 99,999"):
        refuse_bomb("a # {99999}\n b")


@pytest.mark.parametrize(
    "pattern",
    [
        r"France",
        r"a|b",
        r"a.*b",
        r"(\w+\s?)+!$",
        r"\w\s",
        r"^\d{2}-(\d+)$",
        r"(?i)FRANCE$",
        r"(a)\1",
        "x*y",
        r"[^\W\d]+²",
    ],
)
@pytest.mark.parametrize("steps", [0, patterns.IN_LINE_STEPS])
async def test_rules_match_like_python_in_line_and_in_a_worker(monkeypatch, pattern, steps):
    monkeypatch.setattr(patterns, "IN_LINE_STEPS", steps)
    monkeypatch.setattr(patterns, "TIMEOUT_SECONDS", 60)
    for text in TEXTS:
        if "+\\s?)+" in pattern and len(text) > 1_000:
            continue  # without end
        index = await PythonPatterns(["never{7}", pattern]).first_match(text)
        assert index == (1 if re.search(pattern, text) else None)


def test_nested_repeats_have_no_bound_and_words_have_a_small_one():
    assert python_pattern("France|Italy").steps(1_000) < patterns.IN_LINE_STEPS
    assert python_pattern(r"Question: .*").steps(100) < patterns.IN_LINE_STEPS
    for slow in (r"(a+)+", r"(a|ab)*c", r"(?=.*x)", r"(a)\1", r".*.*.*x"):
        assert python_pattern(slow).steps(1_000) > patterns.IN_LINE_STEPS
