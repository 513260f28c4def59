"""What a judge request may look like, and how mistakes are named."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.wire.judge import InvalidRequestError, JudgeCall, parse_batch, parse_invoke

VECTORS = Path(__file__).parents[2] / "conformance" / "requests.json"


def test_a_question_alone_is_a_call() -> None:
    assert parse_invoke(b'{"question": "q"}') == JudgeCall("q")


def test_every_field_is_read() -> None:
    body = {"question": "q", "systemPrompt": "s", "evalCaseId": "c", "attempt": 2, "target": "t"}
    assert parse_invoke(json.dumps(body).encode()) == JudgeCall("q", "s", "c", 2, "t")


def test_null_is_the_same_as_absent() -> None:
    body = {"question": "q", "systemPrompt": None, "evalCaseId": None, "attempt": None, "target": None}
    assert parse_invoke(json.dumps(body).encode()) == JudgeCall("q")


def test_empty_texts_other_than_the_question_are_kept() -> None:
    assert parse_invoke(b'{"question": "q", "systemPrompt": ""}').system_prompt == ""


def test_a_whole_number_written_with_a_point_is_an_attempt() -> None:
    assert parse_invoke(b'{"question": "q", "attempt": 2.0}').attempt == 2


@pytest.mark.parametrize(
    ("body", "parts"),
    [
        (b"", ["empty"]),
        (b"  ", ["empty"]),
        (b"{", ["not JSON"]),
        (b"null", ["object", "null"]),
        (b"[]", ["object", "a list"]),
        (b'"x"', ["object", "text"]),
        (b"1", ["object", "a number"]),
        (b"true", ["object"]),
        (b'{"question": "q"} x', ["not JSON"]),
        (b"{'question': 'q'}", ["not JSON"]),
        (b'\xef\xbb\xbf{"question": "q"}', ["JSON"]),
        (b'{"question": "\xff"}', ["UTF-8"]),
        ('{"question": "q"}'.encode("utf-16"), ["UTF-8"]),
        (b'{"question": NaN}', ["NaN"]),
        (b'{"question": ' + b"9" * 5000 + b"}", ["not JSON", "a number of 5,000 digits is too long"]),
        (b"{}", ["`question`", "missing"]),
        (b'{"question": null}', ["`question`", "missing"]),
        (b'{"question": ""}', ["`question`", "empty"]),
        (b'{"question": 5}', ["`question`", "a number"]),
        (b'{"question": ["q"]}', ["`question`", "a list"]),
        (b'{"question": {"a": 1, "a": 2}}', ["`question`", "`a` occurs twice"]),
        (b'{"question": "q", "question": "r"}', ["`question`", "twice"]),
        (b'{"question": "\\ud800"}', ["`question`", "surrogate"]),
        (b'{"question": "q", "systemPrompt": {}}', ["`systemPrompt`", "an object"]),
        (b'{"question": "q", "systemPrompt": "\\udfff"}', ["`systemPrompt`", "surrogate"]),
        (b'{"question": "q", "target": []}', ["`target`", "a list"]),
        (b'{"question": "q", "evalCaseId": 7}', ["`evalCaseId`", "a number"]),
        (b'{"question": "q", "attempt": "x"}', ["`attempt`", "text"]),
        (b'{"question": "q", "attempt": true}', ["`attempt`", "not true"]),
        (b'{"question": "q", "attempt": 1.5}', ["`attempt`", "1.5"]),
        (b'{"question": "q", "attempt": 0}', ["`attempt`", "from 1"]),
        (b'{"question": "q", "attempt": 1e999}', ["`attempt`"]),
        (b'{"question": "q", "attempt": 99999999999}', ["`attempt`"]),
        (b'{"question": "q", "system_prompt": "s"}', ["`system_prompt`", "did you mean `systemPrompt`"]),
        (b'{"qustion": "q"}', ["`qustion`", "did you mean `question`"]),
        (b'{"question": "q", "zzz": 1}', ["`zzz`", "`question`", "`target`"]),
        (b'{"question": "q", "\\ud800": 1}', ["unknown key"]),
        (b'{"question": ' + b"[" * 100_000, ["nested"]),
    ],
)
def test_a_mistake_names_the_field(body: bytes, parts: list[str]) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_invoke(body)
    message = str(caught.value)
    assert all(part in message for part in parts), message
    assert len(message) < 400
    message.encode("utf-8")


def test_a_batch_keeps_its_order() -> None:
    body = {"requests": [{"question": "a"}, {"question": "b", "target": "t"}]}
    assert parse_batch(json.dumps(body).encode()) == (JudgeCall("a"), JudgeCall("b", target="t"))


@pytest.mark.parametrize(
    ("body", "parts"),
    [
        (b"{}", ["`requests`", "missing"]),
        (b'{"requests": null}', ["`requests`", "missing"]),
        (b'{"requests": []}', ["`requests`", "empty"]),
        (b'{"requests": {"question": "q"}}', ["`requests`", "list"]),
        (b'{"request": []}', ["`request`", "did you mean `requests`"]),
        (b'{"requests": [1]}', ["requests[0]", "object"]),
        (b'{"requests": [{"question": "a"}, {"question": ""}]}', ["`requests[1].question`", "empty"]),
        (b'{"requests": [{"question": "a"}, {"qestion": "b"}]}', ["requests[1]", "did you mean `question`"]),
        (b'{"requests": [{"question": "a"}, {"question": "b", "question": "c"}]}', ["requests[1]", "twice"]),
        (b'{"requests": [{"question": "a"}], "requests": []}', ["`requests`", "twice"]),
        (b'{"requests": [{"question": "a", "attempt": "1"}]}', ["`requests[0].attempt`"]),
    ],
)
def test_a_mistake_in_a_batch_names_the_item(body: bytes, parts: list[str]) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_batch(body)
    assert all(part in str(caught.value) for part in parts), str(caught.value)


def test_what_the_clients_send_is_understood() -> None:
    for vector in json.loads(VECTORS.read_text(encoding="utf-8")):
        body = vector.get("body")
        if not body:
            continue
        data = json.dumps(body).encode()
        refused = not body.get("question", "x") or body.get("requests") == []
        parse = parse_batch if vector["call"] == "invokeBatch" else parse_invoke
        if refused:
            with pytest.raises(InvalidRequestError):
                parse(data)
        else:
            assert parse(data)


@given(st.binary(max_size=200) | st.text(st.characters(codec="utf-8"), max_size=100).map(str.encode))
def test_no_bytes_crash_the_parser(body: bytes) -> None:
    for parse in (parse_invoke, parse_batch):
        with contextlib.suppress(InvalidRequestError):
            parse(body)


@given(st.text(st.characters(codec="utf-8"), min_size=1), st.text(st.characters(codec="utf-8")))
def test_every_text_arrives_unchanged(question: str, system: str) -> None:
    body = json.dumps({"question": question, "systemPrompt": system}).encode()
    call = parse_invoke(body)
    assert (call.question, call.system_prompt) == (question, system)
