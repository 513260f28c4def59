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

from agentv.wire.output import OutputError, parse_output

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
        "clamped": bool(result.warnings),
    } == vector["result"]


def test_score_outside_the_range_is_clamped_with_a_warning() -> None:
    assert parse_output(b'{"score": 1.5}').warnings == ("the script's score 1.5 is outside 0 to 1; recorded as 1",)


def test_lines_that_only_start_like_an_object_are_ignored() -> None:
    assert parse_output(b'{not json}\n{"score": 1}\n{\n').score == 1.0


def test_invalid_utf8_is_replaced() -> None:
    assert parse_output(b'\xff\xfe log\n{"score": 1, "reasoning": "a\xffb"}\n').reasoning == "a?b"


def test_error_quotes_output_without_an_object() -> None:
    with pytest.raises(OutputError, match=r"It printed: score is 0\.5"):
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

    assert seconds(4 * 2**20) < 8 * seconds(2**20) + 0.05


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
