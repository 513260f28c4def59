"""Columns as bytes: what is packed is unpacked again, in Python and in the browser, in one piece or in many."""

from __future__ import annotations

import json
import math
import re
from array import array
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from playwright.sync_api import Page

from agentv.view import assets
from agentv.view.packed_columns import LATER, NUMBERS, STRINGS, Columns, TextColumn, after, masked, pack, plain, unpack

READ = """async ({packed, size}) => {
  const {readColumns} = await import("/packed_columns.js");
  const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
  let place = 0;
  const data = await readColumns(new ReadableStream({pull(stream) {
    if (place >= bytes.length) return stream.close();
    stream.enqueue(bytes.slice(place, (place += size)));
  }}));
  const strings = (column) => [...column.index].map((_, row) => column.at(row));
  const before = {eval_id: strings(data.eval_id), reason: strings(data.reason)};
  const outcome = await data.complete().then(() => "complete", (error) => error.message);
  const numbers = (column) => [...column].map((one) => Number.isNaN(one) ? null : one);
  return {before, outcome, score: numbers(data.score), attempt: numbers(data.attempt),
    threshold: numbers(data.threshold),
    scores: data.evaluator_scores.map(numbers),
    metadata: Object.entries(data.metadata_index).map(([key, values]) => [key, [...values]]),
    question: strings(data.question), reason: strings(data.reason), found: data.eval_id.find("Ω😀") ?? null,
    kinds: [data.attempt.constructor.name, data.score.constructor.name]};
}"""


def columns(count: int, **changed: Any) -> Columns:
    """Columns with some rows."""
    numbers = {name: array("i", range(count)) for name in NUMBERS}
    strings = {
        name: TextColumn(array("i", (n % 3 for n in range(count))), [f"{name} {n}" for n in range(3)])
        for name in STRINGS
    }
    dictionaries = {name: ["x"] for name in ("suites", "targets", "evaluators", "stages", "tags", "tools")}
    whole = {
        "format": 2,
        "generation": "g",
        "start": 0,
        "count": count,
        **dictionaries,
        "metadata": {"__proto__": ["a", "b"], "key": ["c"]},
        **numbers,
        **strings,
        "score": array("d", (n / 7 for n in range(count))),
        "evaluator_scores": [array("d", (math.nan if n % 2 else n / 3 for n in range(count)))],
        "tool_calls": [array("i", bytes(4 * count))],
        "metadata_index": {"__proto__": array("h", (n % 2 for n in range(count))), "key": array("h", [-1] * count)},
    }
    return {**whole, **changed}


def test_packed_namesare_the_same_when_they_are_unpacked() -> None:
    data = columns(5)
    assert plain(unpack(pack(data))) == plain(data)
    assert list(unpack(pack(data))) == [*(name for name in data if name not in LATER), *LATER]
    assert plain(unpack(pack(columns(0)))) == plain(columns(0))


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), unique=True, max_size=12),
    st.sampled_from(["i", "q", "h"]),
    st.lists(st.integers(-(2**15), 2**15 - 1), max_size=20),
)
def test_strings_and_integers_of_all_lengths_are_kept(strings: list[str], kind: str, integers: list[int]) -> None:
    index = array("i", range(len(strings)))
    data = {"count": 0, **{name: TextColumn(index, strings) for name in STRINGS}, "answer": array(kind, integers)}
    again = unpack(pack(data))
    assert all(again[name].strings == strings for name in STRINGS)
    assert list(again["answer"]) == integers


def test_integers_take_as_few_bytes_as_they_need() -> None:
    for values, kind in (([0, 127], "b"), ([-129, 0], "h"), ([2**15], "i"), ([2**31], "d"), ([-(2**31)], "i")):
        assert unpack(pack(columns(1, attempt=array("q", values))))["attempt"].typecode == kind
    assert plain(unpack(pack(columns(1, attempt=array("q", [2**53 - 1])))))["attempt"] == [2**53 - 1]


def test_floats_that_repeat_are_written_once() -> None:
    values = array("d", [0.1, math.nan, 1 / 3, -0.0] * 50)
    packed = pack(columns(200, score=values))
    assert unpack(packed)["score"].tobytes() == values.tobytes()
    assert len(packed) < len(pack(columns(200))) - 1_000
    body, (kind, (_, start, length), table) = _head(packed)
    assert (kind, table[2]) == ("t", 4)
    damaged = bytearray(packed)
    damaged[body + start : body + start + length] = b"\x7f" * length
    with pytest.raises(ValueError, match="not packed columns"):
        unpack(bytes(damaged))


def _head(packed: bytes) -> tuple[int, Any]:
    """Where the columns begin, and the place of the scores."""
    start = 4 + int.from_bytes(packed[:4], "little")
    return start, json.loads(packed[4:start])["score"]


def test_rows_that_continue_others_have_only_new_strings() -> None:
    data = columns(5, reason=TextColumn(array("i", [0, 1, 0, 2, 1]), ["a", "b", "c"]))
    later = unpack(pack(after(data, 3)))
    assert (later["start"], later["count"], list(later["score"])) == (3, 2, list(data["score"][3:]))
    assert (later["reason"].first, later["reason"].strings, list(later["reason"].index)) == (2, ["c"], [2, 1])
    assert later["metadata"] == data["metadata"]
    with pytest.raises(ValueError, match="continue others"):
        plain(later)
    assert after(data, 0) is data
    assert after(after(data, 2), 1)["start"] == 3


def test_names_are_masked_in_strings_and_dictionaries() -> None:
    data = columns(
        3, suites=["of grace"], metadata={"grace": ["by grace"]}, metadata_index={"grace": array("h", [0, 0, 0])}
    )
    data = {**data, "question": TextColumn(array("i", [0, 1, 0]), ["Who is grace?", "Why?"])}
    hidden = plain(masked(data, lambda text: text.replace("grace", "[user]")))
    assert "grace" not in json.dumps(hidden)
    assert hidden["question"] == ["Who is [user]?", "Why?", "Who is [user]?"]
    assert (hidden["metadata"], hidden["metadata_index"]) == ({"[user]": ["by [user]"]}, {"[user]": [0, 0, 0]})


@pytest.mark.parametrize("damaged", [b"", b"\x05\0\0\0{}   ", pack(columns(9))[:-9], b"\xff" * 40])
def test_bytes_that_are_not_namesare_refused(damaged: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        unpack(damaged)


def test_browser_knows_the_same_columns() -> None:
    module = assets.read("packed_columns.js").decode("utf-8")
    for name, names in (("NUMBERS", NUMBERS), ("STRINGS", STRINGS)):
        found = re.search(rf"export const {name} = .*?\(\[(.*?)\]\)", module, re.DOTALL)
        assert found is not None
        assert tuple(re.findall(r'"(\w+)"', found.group(1))) == names


def read(page: Page, packed: bytes, size: int) -> Any:
    return page.evaluate(READ, {"packed": b64encode(packed).decode("ascii"), "size": size})


@pytest.mark.parametrize("size", [1, 1_000, 1 << 20])
def test_browser_reads_the_same_namesin_pieces_of_any_size(module_page: Page, size: int) -> None:
    ids = TextColumn(array("i", [0, 1, 0, 2]), ["Ω😀", "\ufeffplain", ""])
    lines = array("d", [0.8] * 3 + [math.nan] * 5)  # in a table
    data = columns(4, eval_id=ids, threshold=lines, reason=TextColumn(array("i", [1, 1, 0, 0]), ["日本 😀 text", "x"]))
    found, expected = read(module_page, pack(data), size), plain(data)
    assert found["outcome"] == "complete"
    assert found["before"] == {"eval_id": expected["eval_id"], "reason": [""] * 4}
    for name in ("score", "threshold", "attempt", "question", "reason"):
        assert found[name] == expected[name], name
    assert found["scores"] == expected["evaluator_scores"]
    assert found["metadata"] == [[key, value] for key, value in expected["metadata_index"].items()]
    assert (found["found"], found["kinds"]) == (0, ["Int8Array", "Float64Array"])


def test_browser_says_that_strings_are_missing(module_page: Page) -> None:
    packed = pack(columns(200))
    found = read(module_page, packed[:-8], 64)
    assert (found["outcome"], len(found["score"])) == ("The columns are incomplete.", 200)
