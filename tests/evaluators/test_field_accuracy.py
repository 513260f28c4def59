from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentv.evaluators.base import Candidate, EvaluationContext
from agentv.evaluators.field_accuracy import parse_path
from agentv.evaluators.json_values import find_data, same_json
from agentv.evaluators.scoring import judge
from agentv.messages import Message
from agentv.results import EvaluatorResult
from agentv.suite.suite import EvalCase
from tests.evaluators.support import an_evaluator, problem_of, without_waiting


def compared(answer: Any, expected: Any, *fields: dict[str, Any], **options: Any) -> EvaluatorResult:
    """Result of comparing the answer with the expected data; an answer that is not a string is sent as JSON."""
    text = answer if isinstance(answer, str) else json.dumps(answer)
    case = EvalCase("case", "question", (), expected_messages=(Message("assistant", expected),))
    evaluator = an_evaluator("field_accuracy", fields=list(fields), **options)
    return without_waiting(judge(evaluator, EvaluationContext(case, Candidate(text))))


def field(path: str = "v", match: str = "exact", **options: Any) -> dict[str, Any]:
    return {"path": path, "match": match, **options}


def of_value(given_: Any, expected: Any, match: str = "exact", **options: Any) -> EvaluatorResult:
    """Result of comparing a single field `v`."""
    return compared({"v": given_}, {"v": expected}, field("v", match, **options))


# -- exact


@pytest.mark.parametrize(
    ("given_", "expected", "score"),
    [
        ("Acme", "Acme", 1.0),
        ("acme", "Acme", 0.0),
        ("12", 12, 0.0),
        (12, 12.0, 1.0),
        (True, 1, 0.0),
        (True, True, 1.0),
        (None, None, 1.0),
        (None, 0, 0.0),
        ([1, {"a": None}], [1, {"a": None}], 1.0),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, 1.0),
        ({"a": 1}, {"a": 1, "b": 2}, 0.0),
        ([1, 2], [2, 1], 0.0),
    ],
)
def test_exact_compares_json_values(given_, expected, score):
    assert of_value(given_, expected).score == score


# -- numbers


@pytest.mark.parametrize(
    ("given_", "expected", "tolerance", "relative", "score"),
    [
        (10.5, 10, 0.5, False, 1.0),
        (10.51, 10, 0.5, False, 0.0),
        (9.5, 10, 0.5, False, 1.0),
        (0.4, 0.1, 0.3, False, 1.0),  # in binary floating point, 0.4 - 0.1 is more than 0.3
        (1.1, 1.0, 0.1, False, 1.0),
        (105, 100, 0.05, True, 1.0),
        (105.01, 100, 0.05, True, 0.0),
        (-105, -100, 0.05, True, 1.0),
        (1.1, 1.0, 0.1, True, 1.0),
        (0.04, 0, 0.05, True, 1.0),  # relative to 0, the absolute difference is used
        (0.06, 0, 0.05, True, 0.0),
        (3, 3.0, 0, False, 1.0),
        (2**53 + 1, 2**53, 0, False, 0.0),
        (1e300, 1e-300, 0, False, 0.0),
        ("12.50", 12.5, 0, False, 1.0),
        (" 12.5 ", "12.50", 0, False, 1.0),
        ("-.5", -0.5, 0, False, 1.0),
        ("12abc", 12, 0, False, 0.0),
        ("1,234.5", 1234.5, 0, False, 0.0),
        ("1e3", 1000, 0, False, 0.0),
        ("٣", 3, 0, False, 0.0),
        ("", 0, 0, False, 0.0),
        ("nan", 0, 1e9, False, 0.0),
        ("inf", 0, 1e9, False, 0.0),
        (True, 1, 0, False, 0.0),
        (None, 0, 1, False, 0.0),
        ([1], 1, 0, False, 0.0),
        ("9" * 5000, 9, 0, False, 0.0),
    ],
)
def test_numbers_are_compared_by_their_decimal_notation(given_, expected, tolerance, relative, score):
    result = of_value(given_, expected, "numeric_tolerance", tolerance=tolerance, relative=relative)
    assert (result.score, result.error) == (score, None)


@pytest.mark.parametrize("huge", ["1e400", "-1e400"])
def test_number_too_large_for_a_float_never_matches(huge):
    result = compared(f'{{"v": {huge}}}', {"v": 1}, field(match="numeric_tolerance", tolerance=1e308))
    assert (result.score, result.error) == (0.0, None)


def test_expected_value_that_is_not_a_number_is_a_miss_with_a_warning():
    result = of_value(12, "about 12", "numeric_tolerance")
    assert result.score == 0.0
    assert result.misses == ('v: the expected value "about 12" is not a number',)
    assert "correct it, or use `match: exact`" in result.warnings[0]


# -- dates


@pytest.mark.parametrize(
    ("given_", "expected", "score"),
    [
        ("2025-01-15", "2025-01-15", 1.0),
        ("2025-01-15T23:59:59.5Z", "2025-01-15", 1.0),
        (
            "2025-01-15T23:59:00-08:00",
            "2025-01-15T00:01:00+09:00",
            1.0,
        ),  # the day as written, without time zone conversion
        ("2025-01-15 08:00", "2025-01-15", 1.0),
        ("15-JAN-2025", "2025-01-15", 1.0),
        ("15 January 2025", "2025-01-15", 1.0),
        ("January 15, 2025", "2025-01-15", 1.0),
        ("2025/1/15", "2025-01-15", 1.0),
        ("15/01/2025", "2025-01-15", 1.0),
        ("01/15/2025", "2025-01-15", 1.0),
        ("15.01.2025", "2025-01-15", 1.0),
        ("05/05/2025", "2025-05-05", 1.0),  # not ambiguous: both readings are the same day
        ("2025-01-16", "2025-01-15", 0.0),
        ("2025-02-30", "2025-03-02", 0.0),
        ("2025-01-15T99:00", "2025-01-15", 0.0),
        ("15-Foo-2025", "2025-01-15", 0.0),
        ("soon", "2025-01-15", 0.0),
        (20250115, "2025-01-15", 0.0),
    ],
)
def test_dates_are_compared_by_calendar_day(given_, expected, score):
    assert of_value(given_, expected, "date").score == score


@pytest.mark.parametrize("ambiguous", ["03/04/2025", "3-4-2025"])
def test_ambiguous_date_is_a_miss_that_suggests_formats(ambiguous):
    for day in ("2025-04-03", "2025-03-04"):
        result = of_value(ambiguous, day, "date")
        assert result.score == 0.0
        assert "is ambiguous" in result.misses[0]
        assert "`formats: [DD" in result.misses[0]
    backwards = of_value("2025-04-03", ambiguous, "date")
    assert backwards.score == 0.0
    assert "`formats: [DD" in backwards.warnings[0]


@pytest.mark.parametrize(
    ("formats", "given_", "expected", "score"),
    [
        (["DD/MM/YYYY"], "03/04/2025", "3/4/2025", 1.0),
        (["MM/DD/YYYY"], "03/04/2025", "04/03/2025", 0.0),
        (["%d/%m/%Y"], "3/4/2025", "03/04/2025", 1.0),
        (["DD-MMM-YYYY"], "03-Apr-2025", "03-apr-2025", 1.0),
        (["D MMMM YYYY"], "3 April 2025", "3 april 2025", 1.0),
        (["DD.MM.YY"], "03.04.25", "03.04.25", 1.0),
        (["YYYY-MM-DDTHH:mm:ssZ"], "2025-04-03T23:00:00-08:00", "2025-04-03T01:00:00Z", 1.0),
        (["YYYY-MM-DD", "DD/MM/YYYY"], "03/04/2025", "2025-04-03", 1.0),
        (
            ["YYYY-MM-DD", "MM/DD/YYYY", "DD/MM/YYYY"],
            "03/04/2025",
            "2025-04-03",
            0.0,
        ),  # the first matching format is used
        (["YYYY-MM-DD", "MM/DD/YYYY", "DD/MM/YYYY"], "30/04/2025", "2025-04-30", 1.0),
        (["YYYY-MM-DD"], "April 3, 2025", "2025-04-03", 0.0),  # other formats are not accepted
    ],
)
def test_configured_date_formats_are_tried_in_order_and_exclusively(formats, given_, expected, score):
    assert of_value(given_, expected, "date", formats=formats).score == score


def test_date_miss_lists_the_configured_formats():
    result = of_value("April 3", "03/04/2025", "date", formats=["DD/MM/YYYY"])
    assert result.misses == ('v: is "April 3", which is not a date in the format DD/MM/YYYY; expected 2025-04-03',)


def test_iso_date_is_accepted_in_addition_to_configured_formats():
    assert of_value("2025-04-03", "03/04/2025", "date", formats=["DD/MM/YYYY"]).score == 1


# -- paths


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("a", ("a",)),
        ("a.b.c", ("a", "b", "c")),
        ("a[0].b", ("a", 0, "b")),
        ("[2][10]", (2, 10)),
        ('["a.b"].c', ("a.b", "c")),
        ("a['b.c'][0]", ("a", "b.c", 0)),
        (r'["say \"hi\""]', ('say "hi"',)),
        ("First Name", ("First Name",)),
        ("a.0", ("a", "0")),
    ],
)
def test_path_is_parsed_into_keys_and_indexes(path, steps):
    assert parse_path(path) == steps


@pytest.mark.parametrize(
    "path",
    ["", ".", "a.", ".a", "a..b", "a[", "a[]", "a[x]", "a[-1]", "a]", "a[0]b", "a[0]bc", '["a]', '["\\q"]', 'a"b"'],
)
def test_malformed_path_is_rejected(path):
    where, _ = problem_of("field_accuracy", fields=[field(path)])
    assert where == ("fields", 0, "path")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("lines[1].price", 5),
        ("lines.1.price", 5),
        ('["a.b"].c', "dotted"),
        ("lines[0]", {"price": 3}),
    ],
)
def test_path_selects_the_value(path, value):
    data = {"lines": [{"price": 3}, {"price": 5}], "a.b": {"c": "dotted"}, "a": {"b": {"c": "other"}}}
    result = compared(data, data, field(path))
    assert result.score == 1.0
    assert result.hits == (f"{path}: is {json.dumps(value)}",)
    assert compared({}, data, field(path)).misses == (f"{path}: is missing; expected {json.dumps(value)}",)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("lines[2]", {"lines": [0, 1, 2]}),
        ("lines.price", {"lines": {"price": 3}}),
        ("name.first", {"name": {"first": "Ann"}}),
        ("lines[0].price.x", {"lines": [{"price": {"x": 3}}]}),
    ],
)
def test_field_is_missing_when_the_path_does_not_fit_the_data(path, expected):
    result = compared({"lines": [{"price": 3}, {"price": 5}], "name": "Ann"}, expected, field(path))
    assert (result.score, result.error) == (0.0, None)
    assert result.misses[0].startswith(f"{path}: is missing; expected ")


# -- missing values


def test_missing_field_is_a_miss_unless_optional():
    fields = [field("a"), field("b"), field("c", required=False)]
    result = compared({"a": 1}, {"a": 1, "b": 2, "c": 3}, *fields)
    assert result.score == 0.5
    assert result.misses == ("b: is missing; expected 2",)
    assert result.reasoning == "1 of 2 fields match; 1 ignored (missing and optional, or weight 0)"


def test_optional_field_must_match_when_present():
    assert compared({"a": 2}, {"a": 1}, field("a", required=False)).score == 0.0


def test_field_missing_from_expected_data_is_a_hit_with_a_warning():
    result = compared({"a": 1, "b": 2}, {"a": 2}, field("a"), field("b"))
    assert result.score == 0.5
    assert result.hits == ("b: no expected value",)
    assert result.warnings == ("b: the expected data has no such field, so nothing was compared",)


def test_score_is_zero_when_no_field_counts():
    for options in ({"required": False}, {"weight": 0}):
        for aggregation in ("weighted_average", "all_or_nothing"):
            answer = {} if "required" in options else {"a": 1}
            result = compared(answer, {"a": 1}, field("a", **options), aggregation=aggregation)
            assert result.score == 0.0
            assert "no field counts" in result.reasoning


# -- aggregation


def test_average_is_weighted():
    fields = [field("a", weight=3), field("b", weight=1), field("c", weight=0)]
    assert compared({"a": 1, "b": 0, "c": 0}, {"a": 1, "b": 1, "c": 1}, *fields).score == 0.75
    assert compared({"a": 0, "b": 1, "c": 1}, {"a": 1, "b": 1, "c": 1}, *fields).score == 0.25


def test_all_or_nothing_requires_every_counted_field():
    fields = [field("a"), field("b"), field("c", weight=0), field("d", required=False)]
    expected = {"a": 1, "b": 1, "c": 1, "d": 1}
    assert compared({"a": 1, "b": 1, "c": 2}, expected, *fields, aggregation="all_or_nothing").score == 1.0
    assert compared({"a": 1, "b": 2, "c": 1}, expected, *fields, aggregation="all_or_nothing").score == 0.0


def test_every_hit_and_miss_is_kept():
    fields = [field(f"f{n}") for n in range(40)]
    result = compared({f"f{n}": n % 2 for n in range(40)}, {f"f{n}": 1 for n in range(40)}, *fields)
    assert (len(result.hits), len(result.misses), result.score) == (20, 20, 0.5)


def test_long_value_is_described_instead_of_truncated():
    result = of_value("x" * 1000, "y")
    assert result.misses == ('v: is text (1,002 characters); expected "y"',)


def test_miss_mentions_a_number_in_quotes():
    assert of_value("12", 12).misses == ('v: is "12"; expected 12 (text instead of a number)',)


# -- answer and expected data


@pytest.mark.parametrize(
    "answer",
    [
        '{"v": 1}',
        '  {"v": 1}\n',
        'Here it is:\n```json\n{"v": 1}\n```\nAnything else?',
        '```\r\n{"v": 1}\r\n```\r\n',
        'Sure! {"v": 1} is what I found, on a 5" disk.',
        'With {placeholders} around: {"v": 1}',
        '~~~\n{"v": 1}\n~~~\nand not {"v": 2}',
    ],
)
def test_data_is_extracted_from_the_answer(answer):
    assert compared(answer, {"v": 1}, field()).score == 1.0


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "it is empty"),
        ("I do not know.", "it does not contain a JSON object"),
        ("42", "it is a number, not an object"),
        ('"{}"', "it is text, not an object"),
        ('{"v": 1} or {"v": 2}', "it contains several JSON values"),
        ('```\n{"v": 1}\n```\n```\n{"v": 2}\n```', "it contains several JSON values"),
        ('{"v": 1, "v": 1}', "occurs twice"),
        ('{"v": {"v": 1},}', "at line 1, column 16"),
        ('{"x": {"v": 1}, "cut": ', "at line 1"),  # no partial object from truncated JSON
        ('{"v": NaN}', "NaN is not a JSON number"),
    ],
)
def test_answer_without_data_scores_zero_with_the_reason(answer, reason):
    result = compared(answer, {"v": 1}, field(), field("w", required=False))
    assert (result.score, result.error) == (0.0, None)
    assert reason in result.misses[0]


def test_structured_answer_is_compared_without_text():
    case = EvalCase("case", "question", (), reference_answer='{"v": 1}')
    candidate = Candidate("", (Message("assistant", {"v": 1}),))
    evaluator = an_evaluator("field_accuracy", fields=[field()])
    assert without_waiting(judge(evaluator, EvaluationContext(case, candidate))).score == 1.0


@pytest.mark.parametrize(
    ("messages", "reference"),
    [
        ((Message("assistant", {"v": 1}),), None),
        ((Message("assistant", '{"v": 1}'),), None),
        ((Message("assistant", [{"type": "text", "value": '{"v": 1}'}]),), None),
        ((Message("assistant", {"v": 2}), Message("assistant", {"v": 1}), Message("tool", '{"v": 3}')), None),
        ((Message("assistant", {"v": 1}), Message("assistant", "Done.")), "Done."),
        ((), '{"v": 1}'),
        ((Message("assistant", "No data here."),), '{"v": 1}'),
    ],
)
def test_expected_data_is_the_last_assistant_data_or_the_reference_answer(messages, reference):
    case = EvalCase("case", "question", (), expected_messages=messages, reference_answer=reference)
    evaluator = an_evaluator("field_accuracy", fields=[field()])
    assert without_waiting(judge(evaluator, EvaluationContext(case, Candidate('{"v": 1}')))).score == 1.0
    assert without_waiting(judge(evaluator, EvaluationContext(case, Candidate('{"v": 2}')))).score == 0.0


@pytest.mark.parametrize("reference", [None, "Paris", "42", ""])
def test_missing_expected_data_is_an_error(reference):
    case = EvalCase("case", "question", (), reference_answer=reference)
    evaluator = an_evaluator("field_accuracy", fields=[field()])
    result = without_waiting(judge(evaluator, EvaluationContext(case, Candidate('{"v": 1}'))))
    assert result.error is not None
    assert "the case has no expected data" in result.error
    assert "`expected_messages`" in result.error


# -- options


@pytest.mark.parametrize(
    ("options", "place", "words"),
    [
        ({"fields": []}, ("fields",), "at least 1"),
        ({"fields": [{"path": "a"}]}, ("fields", 0, "match"), "required"),
        ({"fields": [field(match="fuzzy")]}, ("fields", 0, "match"), "'exact', 'numeric_tolerance' or 'date'"),
        ({"fields": [field(tolerance=-1)]}, ("fields", 0, "tolerance"), "greater than or equal to 0"),
        ({"fields": [field(weight=-1)]}, ("fields", 0, "weight"), "greater than or equal to 0"),
        ({"fields": [field(formats=[])]}, ("fields", 0, "formats"), "at least 1"),
        ({"fields": [field(formats=["%Q"])]}, ("fields", 0, "formats"), "bad directive"),
        ({"fields": [field(formats=["%d/%m/%Y %"])]}, ("fields", 0, "formats"), "invalid date format"),
        ({"fields": [field(formats=["HH:mm"])]}, ("fields", 0, "formats"), "must contain day, month and year"),
        ({"fields": [field(formats=["DD/MM/YYYY DD"])]}, ("fields", 0, "formats"), "twice"),
        ({"fields": [field(formats=["QQ YYYY"])]}, ("fields", 0, "formats"), "'QQ' in the date format"),
        ({"fields": [field()], "aggregation": "mean"}, ("aggregation",), "'weighted_average' or 'all_or_nothing'"),
    ],
)
def test_invalid_options_are_rejected(options, place, words):
    where, message = problem_of("field_accuracy", **options)
    assert where == place
    assert words in message


# -- properties

KEYS = st.sampled_from("abcd")
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.floats(-3, 3), st.sampled_from(["1", "2025-01-02", "01/02/2025"])
)
DATA = st.dictionaries(KEYS, VALUES, max_size=4)
FIELDS = st.lists(
    st.fixed_dictionaries(
        {"path": KEYS, "match": st.sampled_from(["exact", "numeric_tolerance", "date"])},
        optional={
            "weight": st.sampled_from([0.0, 0.1, 1.0, 3.0, 1e300]),
            "required": st.booleans(),
            "tolerance": st.floats(0, 2),
            "relative": st.booleans(),
        },
    ),
    min_size=1,
    max_size=5,
)
AGGREGATIONS = st.sampled_from(["weighted_average", "all_or_nothing"])


@settings(deadline=None)
@given(DATA, DATA, FIELDS, AGGREGATIONS, st.randoms())
def test_score_is_in_range_and_independent_of_field_order(answer, expected, fields, aggregation, random):
    one = compared(answer, expected, *fields, aggregation=aggregation)
    other = compared(answer, expected, *random.sample(fields, len(fields)), aggregation=aggregation)
    assert one.error is None
    assert 0.0 <= one.score <= 1.0
    assert one.score == other.score
    assert sorted(one.misses) == sorted(other.misses)


@settings(deadline=None)
@given(DATA, DATA, FIELDS, AGGREGATIONS, KEYS)
def test_field_of_weight_zero_does_not_change_the_score(answer, expected, fields, aggregation, path):
    idle = field(path, weight=0)
    with_idle = compared(answer, expected, *fields, idle, aggregation=aggregation)
    assert with_idle.score == compared(answer, expected, *fields, aggregation=aggregation).score


@settings(deadline=None)
@given(st.recursive(VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner)))
def test_every_value_matches_itself_after_a_json_round_trip(value):
    assert same_json(value, json.loads(json.dumps(value)))
    assert of_value(value, value).score == 1.0


@settings(deadline=None)
@given(st.text(alphabet='{}[]"`~\n\\ :,1a', max_size=60))
def test_any_text_is_searched_without_a_crash(text):
    result = compared(text, {"a": 1}, field("a"))
    assert result.error is None
    assert 0.0 <= result.score <= 1.0


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=3), VALUES), st.text(alphabet="abc .\n", max_size=10))
def test_only_object_in_a_text_is_found_for_any_content(data, around):
    assert same_json(find_data(f"{around}{json.dumps(data)}{around}"), data)


def test_text_full_of_brackets_is_searched_in_one_pass():
    for text in ("{" * 300_000, "{}" * 150_000 + "x", '{"' * 150_000, "```\n" * 100_000, "{ " + "}" * 300_000):
        assert compared(text, {"a": 1}, field("a")).score == 0.0
