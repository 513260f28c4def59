"""JSON that every strict parser reads: what is at the edge of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentv import jsonio


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


def depth_of(value: Any) -> int:
    return 1 + depth_of(value[0]) if isinstance(value, list) and value else int(isinstance(value, list))


def test_what_is_nested_as_deep_as_allowed_stays_and_deeper_is_left_out() -> None:
    at_the_limit = nested(jsonio.MAX_WRITTEN_DEPTH)
    assert json.loads(jsonio.dump_line(at_the_limit)) == at_the_limit
    deeper = json.loads(jsonio.dump_line([nested(jsonio.MAX_WRITTEN_DEPTH), 1, float("nan")]))
    assert depth_of(deeper) == jsonio.MAX_WRITTEN_DEPTH
    assert deeper[1:] == [1, "NaN"]


@pytest.mark.parametrize("bits", [14_000, 14_001, 14_300, 20_000])
def test_a_whole_number_of_any_size_can_be_stored(bits: int) -> None:
    stored = json.loads(jsonio.dump_line({"n": 1 << (bits - 1), "nan": float("nan")}))["n"]
    assert stored == (1 << (bits - 1) if bits <= 14_000 else f"(a whole number of {bits} bits)")


@pytest.mark.parametrize("text", [r'"\ud800"', r'"\uD800"', r'"\udC00x"', r'"\uDfFf"'])
def test_a_lone_surrogate_is_refused_however_it_is_spelled(text: str) -> None:
    with pytest.raises(ValueError, match="a lone surrogate"):
        jsonio.load(text.encode())
    assert jsonio.load(rb'"\uD83D\uDE00"') == "\U0001f600"


@pytest.mark.parametrize("key", [1, -2, 1.5, 1e100, 1e-7, True, False, None])
def test_a_key_that_is_not_a_string_is_never_there_twice(key: Any) -> None:
    name = json.dumps(key)
    assert json.loads(jsonio.dump_line({key: "a"})) == {name: "a"}
    assert json.loads(jsonio.dump_line({"x": [{key: "a", name: "b"}]})) == {"x": [{name: "b", f"{name} (2)": "a"}]}
    assert jsonio.strict_line([{key: "a"}]) is None
    assert jsonio.strict_line([{name: "a"}]) == f'[{{"{name}":"a"}}]'
