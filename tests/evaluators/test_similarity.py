from __future__ import annotations

import asyncio
import time

import pytest

from agentv.evaluators import likeness
from tests.evaluators.support import an_answer, an_evaluator, judged, problem_of, without_waiting

METRICS = ["levenshtein", "token_set", "jaccard", "rouge_l"]


@pytest.mark.parametrize(
    ("metric", "answer", "value", "score"),
    [
        ("levenshtein", "kitten", "sitting", 4 / 7),  # 3 edits, 7 letters
        ("levenshtein", "Paris", "paris", 4 / 5),
        ("levenshtein", "", "abc", 0.0),
        ("levenshtein", "abc", "xyz", 0.0),
        ("token_set", "york new mets new", "New York Mets", 1.0),
        ("token_set", "New York Mets won", "new york mets", 1.0),  # all words of the value are in the answer
        (
            "token_set",
            "cat dog",
            "cat cow",
            10 / 14,
        ),  # 'cat dog' and 'cat cow' have 'cat o' in common: 2 * 5 / (7 + 7)
        ("token_set", "", "cat", 0.0),
        ("jaccard", "The cat sat", "the cat ran fast", 2 / 5),
        ("jaccard", "cat cat cat", "cat", 1.0),
        ("jaccard", "cat, dog!", "dog cat", 1.0),
        ("jaccard", "cat", "dog", 0.0),
        ("rouge_l", "police kill the gunman", "Police killed the gunman", 0.75),  # 3 of 4 and 3 of 4
        (
            "rouge_l",
            "the gunman kill police",
            "police killed the gunman",
            0.5,
        ),  # the gunman: 2 of 4 and 2 of 4
        ("rouge_l", "the cat", "the big cat sat on", 4 / 7),  # precision 1, recall 2/5
        ("rouge_l", "cat", "", 0.0),
    ],
)
async def test_scores_match_manual_calculation(metric, answer, value, score):
    if value:
        assert (await judged(answer, "similarity", value=value, metric=metric)).score == pytest.approx(score)
    assert (await judged(answer, "similarity", reference=value, metric=metric)).score == pytest.approx(score)
    assert (await judged(value, "similarity", reference=answer, metric=metric)).score == pytest.approx(score)


@pytest.mark.parametrize("metric", METRICS)
async def test_identical_strings_score_one_including_empty_strings(metric):
    for text in ("", "the cat", "?!", "the cat " * 500_000):
        assert (await judged(text, "similarity", reference=text, metric=metric)).score == 1.0


@pytest.mark.parametrize("metric", ["token_set", "jaccard", "rouge_l"])
async def test_different_strings_without_words_score_zero(metric):
    assert (await judged("👍", "similarity", reference="👎", metric=metric)).score == 0.0
    assert (await judged("👍\n", "similarity", reference="👍", metric=metric)).score == 1.0


async def test_levenshtein_is_the_default_and_value_overrides_the_reference_answer():
    assert (await judged("kitten", "similarity", value="sitting", reference="kitten")).score == pytest.approx(4 / 7)


async def test_missing_value_and_reference_answer_is_an_error_with_advice():
    result = await judged("kitten", "similarity")
    assert result.score == 0.0
    assert result.error is not None
    assert "`value`" in result.error
    assert "`reference_answer`" in result.error


async def test_result_reads_as_a_sentence():
    low = await judged("kitten", "similarity", value="sitting")
    high = await judged("kitten", "similarity", value="kittens")
    assert low.misses == ("similarity 0.57 to 'sitting' (levenshtein) is below the threshold 0.8",)
    assert high.hits == ("similarity 0.86 to 'kittens' (levenshtein)",)
    assert high.reasoning == "similarity 0.86 to 'kittens' (levenshtein)"


async def test_threshold_of_the_evaluator_decides_between_hit_and_miss():
    assert (await judged("kitten", "similarity", value="sitting", threshold=0.5)).hits != ()


@pytest.mark.parametrize("metric", METRICS)
async def test_comparing_megabytes_does_not_stall_the_run(metric):
    started = time.monotonic()
    result = await judged("ab " * 350_000, "similarity", reference="ba " * 350_000, metric=metric)
    assert time.monotonic() - started < 30
    if metric == "jaccard":
        assert (result.score, result.error) == (0.0, None)
    else:
        assert result.error is not None
        assert "1,050,000 characters" in result.error
        assert "metric: jaccard" in result.error


async def test_jaccard_rejects_strings_above_the_length_limit(monkeypatch):
    monkeypatch.setattr(likeness, "MAX_CHARACTERS", 10)
    result = await judged("one two three", "similarity", value="four five six", metric="jaccard")
    assert result.error is not None
    assert "too long for `metric: jaccard`" in result.error


@pytest.mark.parametrize("metric", ["levenshtein", "token_set", "rouge_l"])
async def test_long_answer_is_compared_with_a_short_value(metric):
    assert (await judged("ab " * 100_000, "similarity", value="ab ba", metric=metric)).error is None


def test_empty_value_and_unknown_metric_are_rejected():
    loc, message = problem_of("similarity", value="")
    assert loc == ("value",)
    assert "remove `value`" in message
    assert problem_of("similarity", metric="cosine")[0] == ("metric",)


def test_short_strings_are_compared_without_a_thread():
    evaluator = an_evaluator("similarity", value="x")
    assert without_waiting(evaluator.evaluate(an_answer("x"))).score == 1.0


async def test_concurrent_comparisons_are_independent():
    words = ["kitten", "sitting", "mitten"]
    results = await asyncio.gather(*(judged(word, "similarity", value=word) for word in words))
    assert [result.score for result in results] == [1.0, 1.0, 1.0]
