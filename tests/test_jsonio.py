"""Edge cases of reading and writing strict JSON."""

from __future__ import annotations

import json
import math
import time
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


def test_nesting_beyond_the_limit_is_omitted() -> None:
    at_the_limit = nested(jsonio.MAX_WRITTEN_DEPTH)
    assert json.loads(jsonio.dump_line(at_the_limit)) == at_the_limit
    deeper = json.loads(jsonio.dump_line([nested(jsonio.MAX_WRITTEN_DEPTH), 1, float("nan")]))
    assert depth_of(deeper) == jsonio.MAX_WRITTEN_DEPTH
    assert deeper[1:] == [1, "NaN"]


@pytest.mark.parametrize("bits", [14_000, 14_001, 14_300, 20_000])
def test_integer_of_any_size_can_be_stored(bits: int) -> None:
    stored = json.loads(jsonio.dump_line({"n": 1 << (bits - 1), "nan": float("nan")}))["n"]
    assert stored == (1 << (bits - 1) if bits <= 14_000 else f"(a whole number of {bits} bits)")


@pytest.mark.parametrize("text", [r'"\ud800"', r'"\uD800"', r'"\udC00x"', r'"\uDfFf"'])
def test_lone_surrogate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a lone surrogate"):
        jsonio.load(text.encode())
    assert jsonio.load(rb'"\uD83D\uDE00"') == "\U0001f600"


@pytest.mark.parametrize("key", [1, -2, 1.5, 1e100, 1e-7, True, False, None])
def test_keys_that_are_not_strings_do_not_collide(key: Any) -> None:
    name = json.dumps(key)
    assert json.loads(jsonio.dump_line({key: "a"})) == {name: "a"}
    assert json.loads(jsonio.dump_line({"x": [{key: "a", name: "b"}]})) == {"x": [{name: "b", f"{name} (2)": "a"}]}
    assert jsonio.strict_line([{key: "a"}]) is None
    assert jsonio.strict_line([{name: "a"}]) == f'[{{"{name}":"a"}}]'


@pytest.mark.parametrize(
    ("source", "kind", "message"),
    [
        (b'{"a": "\xff"}', "encoding", "not UTF-8 at byte 7"),
        ("", "empty", "it is empty"),
        (" \n", "empty", "it is empty"),
        ('{"a":\n 1,}', "syntax", "expecting property name enclosed in double quotes at line 2, column 4"),
        ("1 2", "syntax", "more text after the JSON value at line 1, column 3"),
        (
            '[{"a": 1, "b": {"a": 2}, "a": 3}]',
            "duplicate",
            "the key `a` occurs twice in one object at line 1, column 26",
        ),
        ('{"' + "k" * 61 + '": 1, "' + "k" * 61 + '": 1}', "duplicate", "a key occurs twice in one object at"),
        ('["NaN",\n-Infinity]', "constant", "-Infinity is not a JSON number at line 2, column 1"),
        ("[" * 101 + "]" * 101, "depth", "nested more than 100 levels deep at line 1, column 101"),
        ("[" * 100_000, "depth", "nested more than 100 levels deep at line 1, column 101"),
        ("[1, " + "9" * 5_000 + "]", "digits", "a number of 5,000 digits is too long at line 1, column 5"),
        ("[-1e999]", "infinite", "the number -1e999 is too large at line 1, column 2"),
        ("[" + "9" * 400 + ".0]", "infinite", "too large at line 1, column 2"),
        (r'["\ud83d\ude00", "\ud800"]', "surrogate", "is not text at line 1, column 18"),
    ],
)
def test_invalid_json_is_refused_with_its_location(source: str | bytes, kind: str, message: str) -> None:
    with pytest.raises(jsonio.JsonError) as caught:
        jsonio.read(source)
    assert caught.value.kind == kind
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        '"' + "[" * 1_000 + '"',
        "[" * 100 + "]" * 100,
        '"1e999 NaN"',
        r'"\ud83d\ude00"',
        "1e100",
        "[1e-999]",
        "9" * 4_000,
    ],
)
def test_valid_json_that_looks_invalid_is_read(text: str) -> None:
    assert jsonio.read(text) == json.loads(text)


def test_caller_can_relax_rules() -> None:
    assert jsonio.read("1e999", infinite=True) == math.inf
    assert jsonio.read(r'"\ud800"', surrogates=True) == "\ud800"
    assert jsonio.read("[" * 300 + "]" * 300, max_depth=300)
    assert jsonio.read("[" * 300 + "]" * 300, max_depth=None)


def test_offsets_of_values_and_keys_are_reported() -> None:
    text = ' {"a": [10, {}], "b c" : {"d": null} }'
    offsets: dict[Any, tuple[int, int]] = {}
    assert list(jsonio.find_problems(text, offsets)) == []
    starts = {path: (text[value:][:2], text[key:][:2]) for path, (value, key) in offsets.items()}
    assert starts == {
        (): ('{"', '{"'),
        ("a",): ("[1", '"a'),
        ("a", 0): ("10", "10"),
        ("a", 1): ("{}", "{}"),
        ("b c",): ('{"', '"b'),
        ("b c", "d"): ("nu", '"d'),
    }


def test_problems_are_found_in_order_up_to_the_first_syntax_error() -> None:
    text = '{"a": NaN, "a": {"b": 1, "b": 1e999}, "c": oops, "a": 1'
    assert [(problem.kind, problem.path) for problem in jsonio.find_problems(text)] == [
        ("constant", ()),
        ("duplicate", ()),
        ("duplicate", ("a",)),
        ("infinite", ()),
        ("duplicate", ()),
    ]


@pytest.mark.parametrize(
    "piece",
    ['["', '\\"', '"a":', "[1,", "[NaN,", '{"a":1,"a":1},', "1e999,", "9", r'"\ud800",', "{}[]"],
    ids=repr,
)
def test_reading_time_is_linear(piece: str) -> None:
    """Four times the text takes four times as long; quadratic reading would take sixteen times as long."""

    def seconds(size: int) -> float:
        text, best = "[" + piece * (size // len(piece)), math.inf
        for _ in range(3):
            started = time.process_time()
            with pytest.raises(jsonio.JsonError):
                jsonio.read(text)
            best = min(best, time.process_time() - started)
        return best

    assert seconds(2**20) < 8 * seconds(2**18) + 0.05
