from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.evaluators.strict_json import MAX_DEPTH, NotJsonError, read_json
from tests.evaluators.support import an_answer, an_evaluator, judged, problem_of, without_waiting


@pytest.mark.parametrize(
    "answer",
    [
        '{"a": 1}',
        " \r\n\t[1, 2.5e3, null]\n",
        '"text"',
        "0",
        "true",
        "null",
        '{"a": {"a": 1}, "b": [{"a": 1}]}',
        '"NaN"',
    ],
)
async def test_single_json_value_passes(answer):
    result = await judged(answer, "is_json")
    assert (result.score, result.hits, result.misses) == (1.0, ("is JSON",), ())


@pytest.mark.parametrize(
    ("answer", "where"),
    [
        ("", "it is empty"),
        (" \n", "it is empty"),
        ("Sure! {}", "at line 1, column 1"),
        ('{"a": 1} and so on', "more text after the JSON value at line 1, column 10"),
        ('{"a": 1}\n{"b": 2}', "more text after the JSON value at line 2, column 1"),
        ('{"a":\n {"b": 1,}}', "at line 2, column 10"),
        ("{'a': 1}", "at line 1, column 2"),
        ("[1, 2", "at line 1, column 6"),
        ("[NaN]", "NaN is not a JSON number at line 1, column 2"),
        ('["NaN",\n Infinity]', "Infinity is not a JSON number at line 2, column 2"),
        ("[-Infinity]", "-Infinity is not a JSON number at line 1, column 2"),
        ('{"a": 1, "b": 2, "a": 3}', "the key `a` occurs twice in one object at line 1, column 18"),
        ('[{"k": {"x": 1,\n"\\u0078": 2}}]', "the key `x` occurs twice in one object at line 2, column 1"),
        ("```json\n{}\n```", "code fence"),
        ("01", "more text after the JSON value at line 1, column 2"),
        ('"\x01"', "at line 1, column 2"),
        ("1" * 5000, "a number of 5,000 digits is too long at line 1, column 1"),
    ],
)
async def test_invalid_json_is_a_miss_with_the_position(answer, where):
    result = await judged(answer, "is_json")
    (miss,) = result.misses
    assert (result.score, result.error) == (0.0, None)
    assert miss.startswith("is not JSON: ")
    assert where in miss


@pytest.mark.parametrize(
    "answer", ["[" * 200_000, "[" * 100_000 + "]" * 100_000, '{"a":' * 100_000 + "1" + "}" * 100_000]
)
async def test_very_deep_nesting_is_a_miss_not_a_crash(answer):
    (miss,) = (await judged(answer, "is_json")).misses
    assert f"nested more than {MAX_DEPTH} levels deep at line 1" in miss


async def test_nesting_up_to_the_limit_passes_and_ignores_brackets_in_strings():
    assert (await judged("[" * MAX_DEPTH + "]" * MAX_DEPTH, "is_json")).score == 1.0
    assert (await judged(json.dumps(["[{" * 10_000, '"' * 10_000]), "is_json")).score == 1.0
    assert (await judged("[" + "[]," * 10_000 + "[]]", "is_json")).score == 1.0


async def test_megabyte_of_hostile_text_is_rejected_quickly():
    started = time.monotonic()
    for answer in ('\\"' * 500_000, '"' + '\\"' * 500_000, '["' * 300_000, '"a"' * 300_000, "[1," * 300_000):
        assert (await judged(answer, "is_json")).score == 0.0
    assert time.monotonic() - started < 30


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=20,
    )
)
def test_output_of_json_dumps_is_read_back(value):
    assert read_json(json.dumps(value)) == value
    assert read_json(json.dumps(value, ensure_ascii=False, indent=2)) == value


@given(st.text(alphabet='{}[]",:\\ntrue1NaI-efiy \n'))
def test_any_text_is_read_like_json_loads_or_rejected(text):
    try:
        value = read_json(text)
    except NotJsonError:
        return
    assert json.loads(text) == value


def test_is_json_rejects_options_and_never_waits():
    assert problem_of("is_json", value="x")[0] == ("value",)
    evaluator = an_evaluator("is_json")
    assert not evaluator.WAITS
    assert without_waiting(evaluator.evaluate(an_answer("{}"))).score == 1.0
