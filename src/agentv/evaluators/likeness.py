"""Similarity of two strings, from 0 to 1, by several metrics."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from agentv.errors import EvaluatorError
from agentv.evaluators.edit_distance import common_subsequence, levenshtein, token_set_similarity

Metric = Literal["levenshtein", "token_set", "jaccard", "rouge_l"]

# Each of these limits corresponds to two or three seconds of work at most.
MAX_CHARACTER_PAIRS = 10**10
MAX_WORD_PAIRS = 10**9
MAX_CHARACTERS = 4_000_000

_WORD = re.compile(r"\w+")


def likeness(metric: Metric, answer: str, expected: str) -> float:
    """Return the similarity of two strings in [0, 1]. Equal strings, including empty ones, have similarity 1."""
    if answer == expected:
        return 1.0
    return min(1.0, max(0.0, _METRICS[metric](answer, expected)))


def _levenshtein(answer: str, expected: str) -> float:
    _refuse_beyond(len(answer) * len(expected), MAX_CHARACTER_PAIRS, "levenshtein", answer, expected)
    return 1 - levenshtein(answer, expected) / max(len(answer), len(expected))


def _token_set(answer: str, expected: str) -> float:
    _refuse_beyond(len(answer) * len(expected), MAX_CHARACTER_PAIRS, "token_set", answer, expected)
    ours, theirs = _words("token_set", answer, expected)
    if not ours or not theirs:
        return _without_words(answer, expected, ours, theirs)
    return token_set_similarity(set(ours), set(theirs))


def _jaccard(answer: str, expected: str) -> float:
    ours, theirs = _words("jaccard", answer, expected)
    if not ours or not theirs:
        return _without_words(answer, expected, ours, theirs)
    one, other = set(ours), set(theirs)
    return len(one & other) / len(one | other)


def _rouge_l(answer: str, expected: str) -> float:
    ours, theirs = _words("rouge_l", answer, expected)
    if not ours or not theirs:
        return _without_words(answer, expected, ours, theirs)
    _refuse_beyond(len(ours) * len(theirs), MAX_WORD_PAIRS, "rouge_l", answer, expected)
    return 2 * common_subsequence(ours, theirs) / (len(ours) + len(theirs))


_METRICS: dict[Metric, Callable[[str, str], float]] = {
    "levenshtein": _levenshtein,
    "token_set": _token_set,
    "jaccard": _jaccard,
    "rouge_l": _rouge_l,
}


def _words(metric: Metric, answer: str, expected: str) -> tuple[list[str], list[str]]:
    _refuse_beyond(len(answer) + len(expected), MAX_CHARACTERS, metric, answer, expected)
    return _WORD.findall(answer.lower()), _WORD.findall(expected.lower())


def _without_words(answer: str, expected: str, ours: list[str], theirs: list[str]) -> float:
    """Compare strings when one has no words (symbols, emoji): 1 if neither has any and they are equal, else 0."""
    return float(not ours and not theirs and answer.strip() == expected.strip())


def _refuse_beyond(work: int, most: int, metric: Metric, answer: str, expected: str) -> None:
    if work <= most:
        return
    advice = "Compare shorter strings." if metric == "jaccard" else "Use `metric: jaccard`, or compare shorter strings."
    raise EvaluatorError(
        f"the answer ({len(answer):,} characters) and the expected string "
        f"({len(expected):,} characters) are too long for `metric: {metric}`",
        next_step=advice,
    )
