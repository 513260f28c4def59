"""Parsing the output of judge scripts: all conformance vectors, and arbitrary bytes."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.wire.output import OutputError, explanation, parse_output

VECTORS = json.loads((Path(__file__).parents[2] / "conformance" / "results.json").read_text(encoding="utf-8"))["stdout"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_output_vectors(vector: dict[str, Any]) -> None:
    if "error" in vector:
        with pytest.raises(OutputError) as caught:
            parse_output(vector["stdout"].encode())
        assert caught.value.kind == vector["error"]
        assert str(caught.value)
        return
    result = parse_output(vector["stdout"].encode())
    assert {
        "score": result.score,
        "hits": list(result.hits),
        "misses": list(result.misses),
        "reasoning": result.reasoning,
        "details": result.details,
    } == vector["result"]


@pytest.mark.parametrize(
    ("score", "message"),
    [
        ("8", "score must be between 0 and 1, got 8; divide by the maximum of your scale."),
        ("1.000002", "score must be between 0 and 1, got 1.000002; divide by the maximum of your scale."),
        ("-0.2", "score must be between 0 and 1, got -0.2; map your scale to 0 (worst) to 1 (best)."),
        ("1e308", "score must be between 0 and 1, got 1e+308; divide by the maximum of your scale."),
        ("1" + "0" * 400, "score must be a finite number from 0 to 1, got inf."),
        ('"0.8"', 'score must be a number from 0 to 1, got "0.8".'),
        ("true", "score must be a number from 0 to 1, got true."),
    ],
)
def test_score_outside_the_range_is_an_error_with_its_value(score: str, message: str) -> None:
    with pytest.raises(OutputError) as caught:
        parse_output(f'{{"score": {score}}}'.encode())
    assert (caught.value.kind, str(caught.value)) == ("invalid_score", message)


@pytest.mark.parametrize(("score", "expected"), [("1.000001", 1.0), ("-0.000001", 0.0), ("1.0000000000000002", 1.0)])
def test_rounding_noise_is_removed_from_a_score(score: str, expected: float) -> None:
    result = parse_output(f'{{"score": {score}}}'.encode())
    assert (result.score, result.warnings) == (expected, ())


def test_lines_that_only_start_like_an_object_are_ignored() -> None:
    assert parse_output(b'{not json}\n{"score": 1}\n{\n').score == 1.0


def test_invalid_utf8_is_replaced() -> None:
    assert parse_output(b'\xff\xfe log\n{"score": 1, "reasoning": "a\xffb"}\n').reasoning == "a?b"


def test_error_quotes_output_without_an_object() -> None:
    with pytest.raises(OutputError, match=r"^the script printed no JSON object on its own line, but: score is 0\.5\n"):
        parse_output(b"score is 0.5\n")


def test_non_finite_numbers_in_details_are_rejected() -> None:
    with pytest.raises(OutputError, match="not finite"):
        parse_output(b'{"score": 1, "details": {"a": [NaN]}}')


def test_deeply_nested_details_are_rejected() -> None:
    deep = b'{"score": 1, "details": {"a": ' + b"[" * 500 + b"]" * 500 + b"}}"
    with pytest.raises(OutputError, match="nested"):
        parse_output(deep)


@pytest.mark.parametrize(
    "line",
    [b'{"a":\n', b"{\n", b'{"a": [\n', b"{" * 50 + b"\n", b'{"a": "b\n', b'{"a": {}},\n', b'{"a": 1}x\n'],
    ids=repr,
)
def test_parsing_time_is_linear_in_the_output(line: bytes) -> None:
    """Four times the output takes four times as long; quadratic parsing would take sixteen times as long."""

    def seconds(size: int) -> float:
        output, best = line * (size // len(line)), math.inf
        for _ in range(3):
            started = time.process_time()
            with pytest.raises(OutputError):
                parse_output(output)
            best = min(best, time.process_time() - started)
        return best

    assert seconds(2**18) < 8 * seconds(2**16) + 0.05


@given(st.binary(max_size=300))
def test_arbitrary_bytes_give_a_result_or_an_error(data: bytes) -> None:
    _check_result_or_error(data)


@given(
    st.lists(
        st.sampled_from(
            [b"{", b"}", b'"score"', b":", b"1", b"0.5", b"NaN", b"1e999", b",", b"\n", b" ", b"[", b"]", b"null"]
        ),
        max_size=30,
    )
)
def test_arbitrary_tokens_give_a_result_or_an_error(tokens: list[bytes]) -> None:
    _check_result_or_error(b"".join(tokens))


def _check_result_or_error(data: bytes) -> None:
    try:
        result = parse_output(data)
    except OutputError:
        return
    assert math.isfinite(result.score)
    assert 0.0 <= result.score <= 1.0


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ({"checks": [{"text": "a", "pass": True}, 5]}, "`checks[1]` must be an object, got a number."),
        ({"assertions": [{"text": "a"}]}, "`assertions[0].passed` must be true or false, got null."),
        ({"assertions": {}}, "`assertions` must be a list of objects, got an object."),
        ({"checks": [{"text": "a", "pass": True, "score": 7}]}, "`checks[0]`: "),
        ({"pass": "yes"}, "`pass` must be true or false, got text."),
        ({"assertions": []}, "no `score`"),
    ],
)
def test_invalid_checks_without_a_score_are_errors(printed: object, said: str) -> None:
    with pytest.raises(OutputError) as caught:
        parse_output(json.dumps(printed).encode())
    assert said in caught.value.message


@pytest.mark.parametrize(
    "printed",
    [
        {"score": 0, "assertions": [{"text": "Evaluation failed: boom", "passed": False}]},
        {
            "pass": False,
            "score": 0,
            "reason": "Evaluation failed: boom",
            "checks": [{"text": "run", "pass": False, "reason": "boom"}],
        },
    ],
)
def test_failure_that_an_sdk_of_agentv_prints_is_explained(printed: object) -> None:
    assert explanation(json.dumps(printed).encode()) == "Evaluation failed: boom"
