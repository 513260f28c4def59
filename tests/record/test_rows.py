"""Every row is encoded as exactly one line, regardless of its contents."""

from __future__ import annotations

import json
import re
from types import MappingProxyType
from typing import Any

import pytest

from agentv.messages import Message, ToolCall
from agentv.record.rows import decode_row, encode_row, recorded_key
from agentv.redact import MASK, Redactor
from agentv.results import CaseError, EvaluatorResult, RowKey, Verdict
from tests.record.rows import make_row

KEY = 'sk-"quoted"-0123456789'


@pytest.mark.parametrize(
    "text",
    [
        "👩‍👩‍👧‍👦 🏳️‍🌈",
        "\u05e9\u05dc\u05d5\u05dd \u202e\u05e2\u05d5\u05dc\u05dd\u202c \u0645\u0631\u062d\u0628\u0627",
        "e\u0301 a\u0308\u0323",
        "nul \x00 and \x1b[31m",
        "\u2028\u2029\x85\x0b\x0c\x1c\r\n",
        "\ufeff\uffff\U0010ffff",
        "x" * 1_000_000 + "é",
        '"\\/\b\f\t',
    ],
)
def test_any_text_round_trips_on_one_line(text: str):
    row = make_row(answer=text, metadata={text: [text]})
    line = encode_row(row)
    assert line.endswith(b"\n")
    assert len(line.decode("utf-8").splitlines()) == 1
    assert decode_row(line) == row


def test_row_with_all_fields_round_trips():
    member = EvaluatorResult("m", "contains", 0.0, 1.0, Verdict.FAIL, error="no", judge_proxy={"target": "t"})
    row = make_row(
        error=CaseError("evaluator", "could not judge"),
        hits=("a",),
        misses=("b",),
        evaluator_results=(
            EvaluatorResult("c", "composite", 0.5, 2.0, Verdict.FAIL, evaluator_results=(member,), required=True),
        ),
        conversation_id="talk",
    )
    assert decode_row(encode_row(row)) == row


def test_plain_row_is_encoded_as_its_dictionary():
    row = make_row()
    assert json.loads(encode_row(row)) == row.to_dict()


def deep(levels: int) -> Any:
    value: Any = "bottom"
    for _ in range(levels):
        value = [value]
    return value


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def test_values_that_are_not_json_are_replaced():
    circle: dict[str, Any] = {}
    circle["again"] = [circle, circle]
    awkward = {
        "nan": float("nan"),
        "inf": [float("inf"), float("-inf")],
        "surrogate": "a\ud800b",
        1: "one",
        "1": "text one",
        None: "none",
        (1, 2): "tuple",
        "object": Unprintable(),
        "set": {1},
        "huge": 10**5000,
        "proxy": MappingProxyType({"a": 1}),
        "circle": circle,
        "deep": deep(5000),
        "bytes": b"\xff",
    }
    details = decode_row(encode_row(make_row(metadata=awkward))).metadata
    assert details["nan"] == "NaN"
    assert details["inf"] == ["Infinity", "-Infinity"]
    assert details["surrogate"] == "a\ufffdb"
    assert details["1"] == "text one"
    assert details["1 (2)"] == "one"
    assert details["null"] == "none"
    assert details["(1, 2)"] == "tuple"
    assert details["object"] == "(Unprintable object that cannot be printed)"
    assert details["set"] == [1]
    assert "bits" in details["huge"]
    assert details["proxy"] == {"a": 1}
    assert "circular reference" in json.dumps(details["circle"])
    assert "deep" in json.dumps(details["deep"]).removeprefix("[" * 190)
    assert details["bytes"] == "b'\\xff'"


def test_deep_nesting_is_cut():
    kept, cut = make_row(metadata={"d": deep(190)}), make_row(metadata={"d": deep(900)})
    assert decode_row(encode_row(kept)) == kept
    assert b"nested more than 200 levels deep" in encode_row(cut)
    decode_row(encode_row(cut))


def test_non_finite_score_becomes_an_error():
    judged = EvaluatorResult("e", "t", float("nan"), float("inf"), Verdict.PASS, duration_ms=float("nan"))
    row = make_row(score=float("nan"), cost_usd=float("inf"), duration_ms=float("nan"), evaluator_results=(judged,))
    read = decode_row(encode_row(row))
    assert (read.score, read.verdict, read.cost_usd, read.duration_ms) == (0.0, Verdict.FAIL, None, None)
    assert read.error is not None
    assert "nan" in read.error.message
    assert read.evaluator_results[0].score == 0.0


def test_secrets_are_masked_everywhere_in_a_row():
    row = make_row(
        answer=f"the key is {KEY}",
        output_messages=(Message("assistant", [{"type": "text", "value": json.dumps([KEY])}]),),
        metadata={KEY: {"nested": [f"<{KEY}>", 5]}},
        error=CaseError("target", f"401: {KEY!r}"),
    )
    line = encode_row(row, Redactor([KEY]))
    assert b"0123456789" not in line
    read = decode_row(line)
    assert read.candidate_answer == f"the key is {MASK}"
    assert read.metadata == {MASK: {"nested": [f"<{MASK}>", 5]}}
    assert read.evaluator_results == row.evaluator_results
    assert decode_row(encode_row(row)) == row


@pytest.mark.parametrize("secret", ["candidate_answer", "evaluator_results", "borderline", "assistant"])
def test_secret_spelled_like_a_field_name_keeps_the_row_readable(secret: str):
    row = make_row(answer=f"say {secret}", verdict=Verdict.BORDERLINE, score=0.7)
    read = decode_row(encode_row(row, Redactor([secret])))
    assert read.candidate_answer == f"say {MASK}"
    assert read.verdict is Verdict.BORDERLINE


def test_secret_is_masked_in_a_row_with_replaced_values():
    row = make_row(metadata={1: KEY, "object": [ToolCall(KEY)], "n": float("nan")})
    line = encode_row(row, Redactor([KEY]))
    assert b"0123456789" not in line
    assert decode_row(line).metadata["1"] == MASK


def test_recorded_key_equals_the_key_that_is_read_back():
    redactor = Redactor([KEY])
    row = make_row(f"case {KEY}")
    assert decode_row(encode_row(row, redactor)).key == recorded_key(row.key, redactor)
    assert recorded_key(RowKey("s", "e", "t", 2), redactor) == RowKey("s", "e", "t", 2)


def changed(**fields: Any) -> bytes:
    return json.dumps(make_row().to_dict() | fields).encode() + b"\n"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "not JSON"),
        (b"\x00\x00\x00\n", "not JSON"),
        (b"null\n", "a row must be an object, got null"),
        (b'{"run_id": "r"}\n', "`eval_id`"),
        (encode_row(make_row())[:-20], "not JSON"),
        (encode_row(make_row()).replace(b"Paris", b"\xff"), "not UTF-8"),
        (encode_row(make_row()).replace(b'"score":1.0', b'"score":NaN'), "NaN"),
        (encode_row(make_row()).replace(b'"score":1.0', b'"score":1.0,"score":0'), "the key `score` occurs twice"),
        (encode_row(make_row()).replace(b"Paris", b"\\ud800"), "surrogate"),
        (encode_row(make_row()) + encode_row(make_row()), "not JSON"),
        (b"[" * 100_000 + b"]" * 100_000, "deep"),
        (changed(score=True), "`score`"),
        (changed(score=1.5), "`score`"),
        (changed(attempt=0), "`attempt`"),
        (changed(attempt=1.0), "`attempt`"),
        (changed(verdict="great"), "great"),
        (changed(metadata=[]), "`metadata`"),
        (changed(error="bad"), "`error`"),
        (changed(output_messages=["x"]), "output_messages[0]"),
        (changed(output_messages=[{"role": "a", "tool_calls": [{}]}]), "tool_calls[0]"),
        (changed(evaluator_results=[{"name": "n"}]), "`evaluator_results[0].type` is missing"),
        (changed(token_usage={"input": "3"}), "`token_usage.input` must be a whole number, got '3'"),
    ],
)
def test_invalid_row_is_refused_with_the_reason(line: bytes, reason: str):
    with pytest.raises(ValueError, match=re.escape(reason)):
        decode_row(line)
