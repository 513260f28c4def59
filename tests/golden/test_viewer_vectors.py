"""The vectors that keep the pages of the viewer consistent with Python: `make golden` rewrites them."""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentv.messages import TokenUsage
from agentv.report.compare import format_delta
from agentv.report.comparison_numbers import format_p, percent
from agentv.report.format import format_cost, format_duration, format_score, format_tokens
from agentv.report.run_list import reach
from agentv.report.statistics import wilson
from agentv.report.terminal import Look
from agentv.report.word_diff import Word, both_sides
from agentv.text import plural

CONFORMANCE = Path(__file__).parents[2] / "conformance"
LOOK = Look(width=80)
SCORES = (0, 0.005, 0.125, 0.29, 0.5, 0.57, 0.6, 0.7999, 0.7999999999, 0.8, 0.995, 1 / 3, 2 / 3, 0.1 + 0.2, 1)
SECONDS = (0, 0.04, 0.05, 0.25, 1.25, 9.94, 9.95, 10.5, 59.4, 59.5, 61, 125.5, 3599.5, 3600, 7260, 90061)
COSTS = (0, 0.00004, 0.0001, 0.00025, 0.4217, 0.99996, 1, 1.125, 1234.5, 1234567.891)
SHARES = (0, 0.005, 0.015, 0.025, 0.125, 0.5, 0.994, 0.995, 1)
DELTAS = (0, 0.0005, 0.00049, -0.00049, 0.00004, -0.0000071, 1e-12, 0.0625, -0.0625, 0.1, -0.25, 1, -1, 0.0125)
P_VALUES = (0, 0.0009, 0.001, 0.0125, 0.05, 0.5, 1)
TOKENS = ((0, 0, None), (1, 0, None), (1, 12, 38), (1200, 34567, None), (5, 5, 0))
REACHES = ((0.5, (0.4, 0.6)), (0.5, (0.41, 0.5)), (0.9, (0.8, 1.0)), (0.25, (0.25, 0.25)), (1 / 3, (0.2, 0.4)))


def format_vectors() -> dict[str, list[dict[str, Any]]]:
    def of(values: Iterable[Any], function: Callable[[Any], str]) -> list[dict[str, Any]]:
        return [{"value": value, "text": function(value)} for value in values]

    return {
        "formatScore": of(SCORES, format_score),
        "formatDuration": of(SECONDS, format_duration),
        "formatCost": of(COSTS, format_cost),
        "formatPercent": of(SHARES, percent),
        "formatDelta": of(DELTAS, format_delta),
        "formatP": of(P_VALUES, format_p),
        "formatCount": of((0, 999, 1000, 1234567), lambda count: f"{count:,}"),
        "plural": [{"value": count, "more": ["case"], "text": plural(count, "case")} for count in (0, 1, 2, 2000)],
        "formatTokens": [
            {"value": {"input": a, "output": b, "cached": c}, "text": format_tokens(TokenUsage(a, b, c))}
            for a, b, c in TOKENS
        ],
        "formatReach": [
            {"value": mean, "more": [list(ends)], "text": reach(mean, ends, LOOK)} for mean, ends in REACHES
        ],
    }


def statistics_vectors() -> dict[str, list[dict[str, Any]]]:
    rates = [(0, 0), (0, 5), (5, 5), (1, 3), (17, 20), (999, 1000), (43210, 100_000)]
    return {"wilson": [{"arguments": list(pair), "value": list(wilson(*pair))} for pair in rates]}


DIFFS = {
    "equal": ("The same text.", "The same text."),
    "both empty": ("", ""),
    "added to nothing": ("", "a new answer"),
    "removed": ("an old answer", ""),
    "a number": ("You can return it within 14 days.", "You can return it within 30 days, sir."),
    "words that move": ("one two three four five six", "four five six one two three"),
    "repeated words": ("a b a b a b c a b", "b a b c a b a b a"),
    "nothing in common": ("alpha beta gamma", "один два три"),
    "lines": ("first line\n\nsecond line\nthird", "first line\nsecond  line\n\nthird line"),
    "scripts": ("naïve café 中文字 x² ½", "naive café 中文 x³ ½ ٣"),
    "emoji and marks": ("go 🚀 now e\u0301!", "go 🎉 now é!"),
    "code": ("def f(x):\n    return x + 1", "def f(x, y=2):\n    return x + y"),
    "under_scores-and-dashes": ("snake_case kebab-case", "snake_Case kebab_case"),
}


def runs_of(words: Sequence[Word]) -> list[list[Any]]:
    """Text that differs, or not, as `[text, differs]`."""
    groups = itertools.groupby(words, key=lambda word: word.style is not None)
    return [["".join(word.text for word in group), differs] for differs, group in groups]


def word_diff_vector(name: str, one: str, two: str) -> dict[str, Any]:
    left, right = both_sides(one, two, LOOK)
    return {"name": name, "one": one, "two": two, "left": runs_of(left), "right": runs_of(right)}


def word_diff_vectors() -> list[dict[str, Any]]:
    return [word_diff_vector(name, one, two) for name, (one, two) in DIFFS.items()]


def check_vectors(file: str, vectors: Any) -> None:
    path = CONFORMANCE / file
    text = json.dumps(vectors, indent=1, ensure_ascii=False) + "\n"
    if os.environ.get("AGENTV_REWRITE_GOLDEN") == "1":
        path.write_text(text, encoding="utf-8", newline="\n")
    assert _close(vectors, json.loads(path.read_text(encoding="utf-8"))), (
        f"Python no longer agrees with {path}; if this is intended, run `make golden` and review the diff"
    )


def _close(one: Any, two: Any) -> bool:
    if isinstance(one, float) and isinstance(two, int | float):
        return math.isclose(one, two, rel_tol=1e-9, abs_tol=1e-300)
    if isinstance(one, dict):
        return isinstance(two, dict) and one.keys() == two.keys() and all(_close(one[key], two[key]) for key in one)
    if isinstance(one, list):
        return isinstance(two, list) and len(one) == len(two) and all(map(_close, one, two))
    return bool(one == two)


@pytest.mark.parametrize(
    ("file", "vectors"),
    [
        ("format.json", format_vectors),
        ("statistics.json", statistics_vectors),
        ("word_diff.json", word_diff_vectors),
    ],
    ids=["format", "statistics", "word_diff"],
)
def test_vectors_of_the_viewer_agree_with_python(file: str, vectors: Callable[[], Any]) -> None:
    check_vectors(file, vectors())
