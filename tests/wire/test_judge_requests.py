"""Parsing judge requests, and the messages for invalid ones."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.wire.judge import InvalidRequestError, JudgeCall, parse_batch, parse_invoke

VECTORS = Path(__file__).parents[2] / "conformance" / "requests.json"


def test_question_alone_is_a_valid_call() -> None:
    assert parse_invoke(b'{"question": "q"}') == JudgeCall("q")


def test_all_fields_are_parsed() -> None:
    body = {"question": "q", "systemPrompt": "s", "evalCaseId": "c", "attempt": 2, "target": "t"}
    assert parse_invoke(json.dumps(body).encode()) == JudgeCall("q", "s", "c", 2, "t")


def test_null_is_the_same_as_a_missing_field() -> None:
    body = {"question": "q", "systemPrompt": None, "evalCaseId": None, "attempt": None, "target": None}
    assert parse_invoke(json.dumps(body).encode()) == JudgeCall("q")


def test_empty_system_prompt_is_allowed() -> None:
    assert parse_invoke(b'{"question": "q", "systemPrompt": ""}').system_prompt == ""


def test_attempt_may_be_a_whole_number_with_a_decimal_point() -> None:
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
        (b'{"question": {"a": 1, "a": 2}}', ["`question`", "duplicate key `a`"]),
        (b'{"question": "q", "question": "r"}', ["`question`", "duplicate"]),
        (b'{"question": "\\ud800"}', ["`question`", "surrogate"]),
        (b'{"question": "q", "systemPrompt": {}}', ["`systemPrompt`", "an object"]),
        (b'{"question": "q", "systemPrompt": "\\udfff"}', ["`systemPrompt`", "surrogate"]),
        (b'{"question": "q", "target": []}', ["`target`", "a list"]),
        (b'{"question": "q", "provider": 5}', ["`provider`", "a number"]),
        (b'{"question": "q", "target": "a", "provider": "b"}', ["`target` and `provider`", "only one"]),
        (b'{"question": "q", "evalCaseId": 7}', ["`evalCaseId`", "a number"]),
        (b'{"question": "q", "attempt": "x"}', ["`attempt`", "text"]),
        (b'{"question": "q", "attempt": true}', ["`attempt`", "got true"]),
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
def test_invalid_request_error_names_the_field(body: bytes, parts: list[str]) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_invoke(body)
    message = str(caught.value)
    assert all(part in message for part in parts), message
    assert len(message) < 400
    message.encode("utf-8")


def test_batch_keeps_its_order() -> None:
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
        (b'{"requests": [{"question": "a"}, {"question": "b", "question": "c"}]}', ["requests[1]", "duplicate"]),
        (b'{"requests": [{"question": "a"}], "requests": []}', ["`requests`", "duplicate"]),
        (b'{"requests": [{"question": "a", "attempt": "1"}]}', ["`requests[0].attempt`"]),
    ],
)
def test_invalid_batch_error_names_the_item(body: bytes, parts: list[str]) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_batch(body)
    assert all(part in str(caught.value) for part in parts), str(caught.value)


def test_requests_of_the_sdks_are_accepted() -> None:
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
def test_arbitrary_bytes_do_not_crash_the_parser(body: bytes) -> None:
    for parse in (parse_invoke, parse_batch):
        with contextlib.suppress(InvalidRequestError):
            parse(body)


@given(st.text(st.characters(codec="utf-8"), min_size=1), st.text(st.characters(codec="utf-8")))
def test_question_and_system_prompt_arrive_unchanged(question: str, system: str) -> None:
    body = json.dumps({"question": question, "systemPrompt": system}).encode()
    call = parse_invoke(body)
    assert (call.question, call.system_prompt) == (question, system)


@pytest.mark.parametrize(
    "sent", ['"provider": "a"', '"provider": "a", "target": null', '"provider": "a", "target": "a"']
)
def test_provider_is_another_name_of_target(sent: str) -> None:
    assert parse_invoke(f'{{"question": "q", {sent}}}'.encode()).target == "a"
