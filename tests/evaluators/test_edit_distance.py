"""Results match rapidfuzz, an independent implementation that is only a test dependency."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz import fuzz
from rapidfuzz.distance import LCSseq, Levenshtein

from agentv.evaluators.edit_distance import common_subsequence, levenshtein, token_set_similarity
from agentv.evaluators.likeness import likeness
from tests.evaluators.support import judged

few_letters = st.text("ab c", max_size=150)
words = st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=12)


@given(few_letters | st.text(max_size=40), few_letters | st.text(max_size=40))
def test_levenshtein_equals_rapidfuzz(one: str, other: str) -> None:
    assert levenshtein(one, other) == Levenshtein.distance(one, other)


@given(few_letters, few_letters)
def test_common_subsequence_equals_rapidfuzz(one: str, other: str) -> None:
    assert common_subsequence(one, other) == LCSseq.similarity(one, other)
    assert common_subsequence(one.split(), other.split()) == LCSseq.similarity(one.split(), other.split())


@given(words, words)
def test_token_set_similarity_equals_rapidfuzz(one: list[str], other: list[str]) -> None:
    expected = fuzz.token_set_ratio(" ".join(one), " ".join(other)) / 100
    assert token_set_similarity(set(one), set(other)) == pytest.approx(expected)
    assert likeness("token_set", " ".join(one), " ".join(other)) == pytest.approx(expected)


def test_long_strings_are_compared_in_milliseconds() -> None:
    one, other = "abcdefg " * 1250, "gfe dcba" * 1250  # 10,000 characters each: 50 ms, or 40 s if computed cell by cell
    started = time.process_time()
    assert levenshtein(one, other) == Levenshtein.distance(one, other)
    assert time.process_time() - started < 2


async def test_event_loop_keeps_running_during_a_long_comparison() -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.005)
            ticks += 1

    ticking = asyncio.create_task(tick())
    one, other = "abcdefg " * 5000, "gfe dcba" * 5000
    assert 0 < (await judged(one, "similarity", reference=other, metric="levenshtein")).score < 1
    ticking.cancel()
    assert ticks >= 3
