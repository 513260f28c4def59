from __future__ import annotations

import asyncio
import time

import pytest

from agentv import patterns
from tests.evaluators.support import judged, problem_of

CATASTROPHE = {"pattern": r"^(?:x|xx)+$"}
LONG_NO = "x" * 200 + "y"


@pytest.mark.parametrize(
    ("pattern", "flags", "answer", "score"),
    [
        ("Par.s", [], "It is Paris.", 1.0),
        ("par.s", [], "It is Paris.", 0.0),
        ("par.s", "i", "It is Paris.", 1.0),
        ("par.s", "IGNORECASE", "It is Paris.", 1.0),
        ("^b", [], "a\nb", 0.0),
        ("^b", "m", "a\nb", 1.0),
        ("a.b", [], "a\nb", 0.0),
        ("a.b", ["dotall"], "a\nb", 1.0),
        ("a b # no space", "x", "ab", 1.0),
        ("^B.c", "ims", "a\nb\nc", 1.0),
        ("^B.c", ["i", "multiline", "S"], "a\nb\nc", 1.0),
        ("^B.c", "ignorecase, multiline | dotall", "a\nb\nc", 1.0),
        (r"\w", "a", "é", 0.0),
        (r"\w", [], "é", 1.0),
        (r"\A\Z", [], "", 1.0),
    ],
)
async def test_pattern_matches_anywhere_in_the_answer(pattern, flags, answer, score):
    assert (await judged(answer, "regex", pattern=pattern, flags=flags)).score == score
    assert (await judged(answer, "regex", value=pattern, flags=flags)).score == score


async def test_reasoning_includes_the_position_but_not_the_answer():
    result = await judged("key: sk-12345678", "regex", pattern=r"sk-\d+")
    assert result.hits == (r"matches 'sk-\d+'",)
    assert result.reasoning == r"the answer matches 'sk-\d+' at character 6"
    assert "12345678" not in repr(result)
    assert (await judged("none", "regex", pattern=r"sk-\d+")).misses == (r"does not match 'sk-\d+'",)


@pytest.mark.parametrize("option", ["pattern", "value"])
@pytest.mark.parametrize(
    ("pattern", "reason", "spot"),
    [
        ("(unclosed", "missing ) at position 9", "(unclosed <-- HERE"),
        ("ab**c", "multiple repeat at position 3", "ab* <-- HERE *c"),
        ("a" * 500 + "**" + "b" * 500, "multiple repeat at position 501", "a* <-- HERE *b"),
    ],
)
def test_invalid_pattern_is_rejected_with_the_position(option, pattern, reason, spot):
    loc, message = problem_of("regex", **{option: pattern})
    assert loc == (option,)
    assert reason in message
    assert spot in message
    assert len(message) < 300


def test_pattern_is_validated_with_its_flags():
    assert "regular expression" in problem_of("regex", pattern="a # (", flags="")[1]
    assert problem_of("regex", pattern="(", flags="x")[0] == ("pattern",)


async def test_comments_in_verbose_patterns_are_not_validated():
    assert (await judged("a", "regex", pattern="a # (", flags="x")).score == 1.0


@pytest.mark.parametrize("flags", ["g", "iz", ["ignorecas"], "ignore case"])
def test_unknown_flag_is_rejected_with_the_available_flags(flags):
    loc, message = problem_of("regex", pattern="a", flags=flags)
    assert loc == ("flags",)
    assert "i (ignorecase), m (multiline), s (dotall), x (verbose), a (ascii)" in message


def test_pattern_and_value_exclude_each_other():
    assert problem_of("regex", pattern="a", value="a") == (
        ("value",),
        "`value` is an alias of `pattern`; use only one of them",
    )
    assert "would always pass" in problem_of("regex", pattern="")[1]


async def test_catastrophic_pattern_is_an_error_with_advice(monkeypatch):
    monkeypatch.setattr(patterns, "TIMEOUT_SECONDS", 0.05)
    started = time.monotonic()
    result = await judged(LONG_NO, "regex", **CATASTROPHE, name="slow")
    assert time.monotonic() - started < 30
    assert (result.score, result.hits) == (0.0, ())
    assert result.error is not None
    assert "'^(?:x|xx)+$' timed out after 0.05 s on an answer of 201 characters" in result.error
    assert "Reduce backtracking" in result.error
    monkeypatch.undo()
    assert (await judged("x" * 200, "regex", **CATASTROPHE)).score == 1.0


async def test_classic_catastrophic_pattern_ends_quickly():
    started = time.monotonic()
    result = await judged("a" * 40 + "b", "regex", pattern="(a+)+$")
    assert time.monotonic() - started < 30
    assert (result.score, result.error) == (0.0, None)


async def test_event_loop_keeps_running_during_a_slow_search(monkeypatch):
    monkeypatch.setattr(patterns, "TIMEOUT_SECONDS", 2.0)
    search = asyncio.create_task(judged(LONG_NO, "regex", **CATASTROPHE))
    turns = 0
    while not search.done():
        await asyncio.sleep(0.005)
        turns += 1
    assert search.result().error is not None
    assert turns >= 5


async def test_long_answer_is_searched_in_a_worker_with_the_same_result():
    answer = "a" * (patterns.IN_LINE_LENGTH + 1) + "needle"
    assert (await judged(answer, "regex", pattern="needle$")).score == 1.0
    assert (await judged(answer, "regex", pattern="^needle")).score == 0.0
