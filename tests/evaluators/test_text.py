from __future__ import annotations

import pytest

from tests.evaluators.support import an_answer, an_evaluator, judged, problem_of, without_waiting

ANSWER = "The capital of France is Paris."


@pytest.mark.parametrize(
    ("kind", "value", "score"),
    [
        ("contains", "Paris", 1.0),
        ("contains", "paris", 0.0),
        ("contains", "Rome", 0.0),
        ("icontains", "PARIS", 1.0),
        ("icontains", "rome", 0.0),
        ("equals", ANSWER, 1.0),
        ("equals", ANSWER + "\n", 0.0),
        ("equals", "Paris", 0.0),
        ("starts_with", "The capital", 1.0),
        ("starts_with", "the capital", 0.0),
        ("starts_with", "Paris", 0.0),
        ("ends_with", "Paris.", 1.0),
        ("ends_with", "Paris", 0.0),
    ],
)
async def test_single_value_scores_zero_or_one(kind, value, score):
    result = await judged(ANSWER, kind, value=value)
    assert result.score == score
    assert (len(result.hits), len(result.misses)) == ((1, 0) if score else (0, 1))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("contains", ["Paris", "France", "Rome"]),
        ("icontains", ["PARIS", "france", "ROME"]),
        ("starts_with", ["T", "The", "A"]),
        ("ends_with", [".", "Paris.", "Rome."]),
    ],
)
async def test_match_all_needs_every_value(kind, values):
    assert (await judged(ANSWER, kind, value=values)).score == 0.0
    assert (await judged(ANSWER, kind, value=values[:2])).score == 1.0
    assert (await judged(ANSWER, kind, value=values[:2], match="all")).score == 1.0
    assert (await judged(ANSWER, kind, value=values[2:])).score == 0.0


@pytest.mark.parametrize("kind", ["contains", "icontains", "equals", "starts_with", "ends_with"])
async def test_match_any_scores_one_when_one_value_matches(kind):
    assert (await judged("yes", kind, value=["no", "yes"], match="any")).score == 1.0
    assert (await judged("maybe", kind, value=["no", "yes"], match="any")).score == 0.0


async def test_match_any_reports_misses_only_when_nothing_matched():
    passed = await judged("yes", "equals", value=["no", "yes"], match="any")
    failed = await judged("maybe", "equals", value=["no", "yes"], match="any")
    assert (passed.hits, passed.misses) == (("equals 'yes'",), ())
    assert (failed.hits, failed.misses) == ((), ("does not equal 'no'", "does not equal 'yes'"))


@pytest.mark.parametrize(
    ("answer", "value"),
    [("STRASSE", "straße"), ("straße", "STRASSE"), ("ΣΊΣΥΦΟΣ", "σίσυφος"), ("ŒUVRE", "œuvre")],
)
async def test_icontains_ignores_case_in_any_script(answer, value):
    assert (await judged(f"... {answer} ...", "icontains", value=value)).score == 1.0
    assert (await judged(f"... {answer} ...", "contains", value=value)).score == 0.0


async def test_hits_misses_and_reasoning_read_as_sentences():
    result = await judged(ANSWER, "contains", value=["Paris", "Rome"])
    assert result.hits == ("contains 'Paris'",)
    assert result.misses == ("does not contain 'Rome'",)
    assert result.reasoning == "1 of the 2 strings matched; all are required"
    assert (await judged(ANSWER, "starts_with", value="Rome")).reasoning == "the answer does not start with 'Rome'"


async def test_long_or_invisible_value_is_shortened_to_one_line():
    (miss,) = (await judged("", "contains", value="line one\nline two" + "x" * 5000)).misses
    assert miss.startswith("does not contain 'line one\\nline two")
    assert miss.endswith("…'")
    assert len(miss) < 120
    (miss,) = (await judged("", "contains", value="\ud800")).misses
    assert miss == "does not contain '\\ud800'"


async def test_negate_forbids_strings():
    clean = await judged("fine", "contains", value=["badly", "worse"], negate=True)
    dirty = await judged("badly worse", "contains", value=["badly", "worse"], negate=True)
    assert (clean.score, clean.hits) == (1.0, ("does not contain 'badly'", "does not contain 'worse'"))
    assert (dirty.score, dirty.misses) == (0.0, ("contains 'badly'", "contains 'worse'"))


@pytest.mark.parametrize(
    ("match", "negate", "score"),
    [
        (None, False, 0.0),
        ("all", False, 0.0),
        ("any", False, 1.0),
        (None, True, 0.0),
        ("all", True, 1.0),
        ("any", True, 0.0),
    ],
)
async def test_list_of_which_one_string_matches_is_all_or_nothing(match, negate, score):
    options = {"value": ["Paris", "Rome", "Oslo", "Bern", "Riga"], "negate": negate}
    result = await judged(ANSWER, "contains", **(options if match is None else {**options, "match": match}))
    assert result.score == score


@pytest.mark.parametrize("kind", ["contains", "icontains", "starts_with", "ends_with"])
def test_empty_string_that_would_always_pass_is_rejected(kind):
    for value in ("", ["x", ""]):
        loc, message = problem_of(kind, value=value)
        assert loc == ("value",)
        assert "would always pass" in message


@pytest.mark.parametrize("kind", ["contains", "equals"])
def test_empty_list_that_would_always_pass_is_rejected(kind):
    loc, message = problem_of(kind, value=[])
    assert loc == ("value",)
    assert "would always pass" in message


async def test_equals_empty_string_matches_only_an_empty_answer():
    assert (await judged("", "equals", value="")).score == 1.0
    assert (await judged(" ", "equals", value="")).score == 0.0


async def test_equals_all_of_several_values_gets_a_warning():
    (warning,) = (await judged("a", "equals", value=["a", "b"])).warnings
    assert "match: any" in warning
    assert (await judged("a", "equals", value=["a", "b"], match="any")).warnings == ()
    assert (await judged("a", "equals", value=["a", "b"], negate=True)).warnings == ()
    assert (await judged("a", "equals", value=["a"])).warnings == ()


@pytest.mark.parametrize(
    "options",
    [{"value": "x", "match": "some"}, {"value": "x", "vlaue": "y"}, {"value": "x", "weight": -1}],
)
def test_invalid_options_are_rejected(options):
    loc, message = problem_of("contains", **options)
    assert loc[0] in {"value", "match", "vlaue", "weight"}
    assert message


def test_text_checks_never_wait():
    for kind in ("contains", "icontains", "equals", "starts_with", "ends_with"):
        evaluator = an_evaluator(kind, value="x")
        assert not evaluator.WAITS
        assert without_waiting(evaluator.evaluate(an_answer("x"))).score == 1.0


@pytest.mark.parametrize(("kind", "value"), [("equals", " Paris "), ("starts_with", " Pa"), ("ends_with", "ris\t")])
async def test_trim_ignores_white_space_around_both_strings(kind, value):
    assert (await judged("\n Paris  ", kind, value=value, trim=True)).score == 1.0
    assert (await judged("\n Paris  ", kind, value=value)).score == 0.0
