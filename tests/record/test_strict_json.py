"""JSON that every strict parser reads: what is at the edge of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentv.record import strict_json


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


def depth_of(value: Any) -> int:
    return 1 + depth_of(value[0]) if isinstance(value, list) and value else int(isinstance(value, list))


def test_what_is_nested_as_deep_as_allowed_stays_and_deeper_is_left_out() -> None:
    at_the_limit = nested(strict_json.DEEPEST)
    assert json.loads(strict_json.dump_line(at_the_limit)) == at_the_limit
    deeper = json.loads(strict_json.dump_line([nested(strict_json.DEEPEST), 1, float("nan")]))
    assert depth_of(deeper) == strict_json.DEEPEST
    assert deeper[1:] == [1, "NaN"]


@pytest.mark.parametrize("bits", [14_000, 14_001, 14_300, 20_000])
def test_a_whole_number_of_any_size_can_be_stored(bits: int) -> None:
    stored = json.loads(strict_json.dump_line({"n": 1 << (bits - 1), "nan": float("nan")}))["n"]
    assert stored == (1 << (bits - 1) if bits <= 14_000 else f"(a whole number of {bits} bits)")


@pytest.mark.parametrize("text", [r'"\ud800"', r'"\uD800"', r'"\udC00x"', r'"\uDfFf"'])
def test_a_lone_surrogate_is_refused_however_it_is_spelled(text: str) -> None:
    with pytest.raises(ValueError, match="a lone surrogate"):
        strict_json.load(text.encode())
    assert strict_json.load(rb'"\uD83D\uDE00"') == "\U0001f600"
