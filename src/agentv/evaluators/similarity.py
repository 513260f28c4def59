"""`similarity`: how close the answer is to a text, from 0 to 1, without a model."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Literal

from pydantic import Field, field_validator

from agentv.errors import EvaluatorError
from agentv.evaluators.base import EvaluationContext, Evaluator
from agentv.evaluators.edit_distance import common_subsequence, levenshtein, token_set_similarity
from agentv.evaluators.text import quoted
from agentv.results import Score

Metric = Literal["levenshtein", "token_set", "jaccard", "rouge_l"]

# Each of these bounds is two or three seconds of work at worst.
MAX_CHARACTER_PAIRS = 10**10
MAX_WORD_PAIRS = 10**9
MAX_CHARACTERS = 4_000_000
LONG = 3_000
"""Characters of both strings from which a thread compares them; shorter ones take a few milliseconds."""

_WORD = re.compile(r"\w+")


class Similarity(Evaluator):
    """Likeness of the answer to `value`, else to the case's reference answer."""

    type: Literal["similarity"] = "similarity"
    value: str | None = Field(None, description="The text to compare with; default: the case's reference answer.")
    metric: Metric = Field(
        "levenshtein",
        description="`levenshtein`: edits between the texts; `token_set`: edits between their sets of words; "
        "`jaccard`: shared words among all words; `rouge_l`: F1 of the words they share in order.",
    )

    @field_validator("value")
    @classmethod
    def _says_something(cls, value: str | None) -> str | None:
        if value == "":
            raise ValueError(
                "an empty text is like no answer; write the text, or leave `value` out to compare with "
                "the case's reference answer"
            )
        return value

    async def evaluate(self, context: EvaluationContext) -> Score:
        expected = context.case.reference_answer if self.value is None else self.value
        if expected is None:
            raise EvaluatorError(
                "there is no text to compare the answer with",
                next_step="Give the evaluator a `value`, or the case a `reference_answer`.",
            )
        answer = context.candidate.answer
        if len(answer) + len(expected) < LONG:
            score = likeness(self.metric, answer, expected)
        else:
            score = await asyncio.to_thread(likeness, self.metric, answer, expected)
        words = f"{score:.2f} like {quoted(expected)} ({self.metric})"
        if score >= self.threshold:
            return Score(score, (f"is {words}",), (), f"the answer is {words}")
        return Score(score, (), (f"is only {words}",), f"the answer is {words}")


def likeness(metric: Metric, answer: str, expected: str) -> float:
    """How alike two texts are, in [0, 1]; 1 for the same text, also when both are empty."""
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
    """Texts without any word (signs, emoji) are alike when they are the same, not because both lack words."""
    return float(not ours and not theirs and answer.strip() == expected.strip())


def _refuse_beyond(work: int, most: int, metric: Metric, answer: str, expected: str) -> None:
    if work <= most:
        return
    advice = "Compare shorter texts." if metric == "jaccard" else "Use `metric: jaccard`, or compare shorter texts."
    raise EvaluatorError(
        f"the answer ({len(answer):,} characters) and the text it is compared with "
        f"({len(expected):,} characters) are too long for `metric: {metric}`",
        next_step=advice,
    )
