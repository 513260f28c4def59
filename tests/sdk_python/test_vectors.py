"""Every conformance vector, against a real loopback server and real judge processes."""

from __future__ import annotations

import json
from typing import Any

import pytest

import agentv_eval
from agentv_eval import wire
from agentv_eval.fence import MARK_LENGTH, fence
from tests.sdk_python.reference import ResultError, read_result
from tests.sdk_python.support import TOKEN, Answer, Server, ask, http_answer, run_judge, snake, vectors

KINDS = ("sync", "async")


def named(items: list[dict[str, Any]]) -> list[Any]:
    return [pytest.param(item, id=item["name"]) for item in items]


def check_error(error: agentv_eval.JudgeProxyError, vector: dict[str, Any]) -> None:
    assert isinstance(error, agentv_eval.JudgeProxyError)
    got = {"class": type(error).__name__, "status": error.status, "code": error.code}
    assert got == vector["error"], error.message
    assert str(error) == error.message
    for part in vector.get("message_has", ()):
        assert part in error.message
    assert TOKEN not in error.message


@pytest.mark.parametrize("vector", named(vectors("environment.json")))
def test_environment_vectors(vector):
    creators = (agentv_eval.create_judge_proxy_client, agentv_eval.create_async_judge_proxy_client)
    for create in creators:
        if "error" in vector:
            with pytest.raises(agentv_eval.JudgeProxyError) as caught:
                create(environ=vector["environ"])
            check_error(caught.value, vector)
        elif vector["client"] is None:
            assert create(environ=vector["environ"]) is None
        else:
            client = create(environ=vector["environ"])
            access = wire.read_access(vector["environ"])
            assert access is not None
            assert {"host": access.host, "port": access.port} == vector["client"]
            assert client is not None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("vector", named(vectors("requests.json")))
def test_request_vectors(vector, kind):
    info = {"targetName": "t", "maxCalls": 1, "callCount": 0, "availableTargets": []}
    item = {"outputMessages": [], "rawText": ""}
    count = len(vector["arguments"].get("requests") or ())
    answers = {"/info": info, "/invoke": item, "/invokeBatch": {"responses": [item] * count}}
    with Server(lambda seen: Answer(http_answer(200, answers[seen.path]))) as server:
        if "error" in vector:
            with pytest.raises(agentv_eval.JudgeProxyError) as caught:
                ask(kind, server.environ, vector["call"], vector["arguments"])
            check_error(caught.value, vector)
            assert server.seen == []
            return
        ask(kind, server.environ, vector["call"], vector["arguments"])
    (seen,) = server.seen
    assert (seen.method, seen.path) == (vector["method"], vector["path"])
    assert (json.loads(seen.body.decode()) if seen.body else None) == vector["body"]
    assert seen.headers["authorization"] == f"Bearer {TOKEN}"
    assert seen.headers["host"] == f"127.0.0.1:{server.port}"
    assert "origin" not in seen.headers
    assert "content-encoding" not in seen.headers


def answer_of(vector: dict[str, Any]) -> Answer:
    if "raw" in vector:
        return Answer(then="silence") if vector["raw"] is None else Answer(vector["raw"].encode(), "close")
    return Answer(http_answer(vector["status"], vector["body"], vector["headers"]), "close")


def as_python(fields: dict[str, Any]) -> dict[str, Any]:
    """Expected fields in the spelling of this SDK."""
    spelled = {snake(name): value for name, value in fields.items()}
    if "output_messages" in spelled:
        spelled["output_messages"] = [
            {"tool_calls" if name == "toolCalls" else name: value for name, value in message.items()}
            for message in spelled["output_messages"]
        ]
    return spelled


def fields_of(value: Any) -> dict[str, Any]:
    return {name: field_of(value, name) for name in (slot.lstrip("_") for slot in type(value).__slots__)}


def field_of(value: Any, name: str) -> Any:
    if name != "raw_text" or value.error is None:
        return getattr(value, name)
    with pytest.raises(agentv_eval.JudgeProxyError) as caught:
        value.raw_text  # noqa: B018
    error = caught.value
    assert error.message == value.error
    return {"raises": {"class": type(error).__name__, "status": error.status, "code": error.code}}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("vector", named(vectors("replies.json")))
def test_reply_vectors(vector, kind):
    arguments: dict[str, Any] = {"getInfo": {}, "invoke": {"question": "q"}}.get(vector["call"], {})
    if vector["call"] == "invokeBatch":
        arguments = {"requests": [{"question": "q"}] * vector["questions"]}
    timeout = 0.5 if vector.get("raw", "") is None else 20
    with Server(lambda seen: answer_of(vector)) as server:
        if "error" in vector:
            with pytest.raises(agentv_eval.JudgeProxyError) as caught:
                ask(kind, server.environ, vector["call"], arguments, timeout)
            check_error(caught.value, vector)
        else:
            got = ask(kind, server.environ, vector["call"], arguments, timeout)
            if vector["call"] == "invokeBatch":
                assert [fields_of(item) for item in got] == [as_python(item) for item in vector["replies"]]
            else:
                assert fields_of(got) == as_python(vector["info" if "info" in vector else "reply"])
    after_timeout = ["/info"] if vector.get("raw", "") is None else []
    assert [seen.path for seen in server.seen][1:] == after_timeout


SHOW_INPUT = """
import sys
from agentv_eval import define_code_judge
def show(input):
    names = [n for n in type(input).__slots__ if n != "raw"]
    missing = [n for n in sys.argv[1:] if not hasattr(input, n)]
    return {"score": 1, "details": {"attributes": {n: getattr(input, n) for n in names}, "raw": input.raw,
                                    "missing": missing}}
define_code_judge(show)
"""


@pytest.mark.parametrize("vector", named(vectors("payloads.json")))
def test_payload_vectors(vector):
    refused = vector.get("not_attributes", [])
    done = run_judge(SHOW_INPUT, vector["stdin"], *refused)
    if "error" in vector:
        assert (done.code, done.stdout) == (1, "")
        assert "stdin must contain one JSON object" in done.last_line
        return
    details = done.result["details"]
    assert details["attributes"] == vector["attributes"]
    assert details["raw"] == json.loads(vector["stdin"])
    assert details["missing"] == refused


RETURN_VECTOR = """
import json, sys
from agentv_eval import define_code_judge
def revive(value):
    if isinstance(value, dict):
        return float(value["$number"]) if "$number" in value else {k: revive(v) for k, v in value.items()}
    return value
define_code_judge(lambda input: revive(json.loads(sys.argv[1])))
"""


@pytest.mark.parametrize("vector", named(vectors("results.json")["handlers"]))
def test_handler_result_vectors(vector):
    done = run_judge(RETURN_VECTOR, "{}", json.dumps(vector["returns"]))
    if "failure_has" in vector:
        assert (done.code, done.stdout) == (1, "")
        assert all(part in done.last_line for part in vector["failure_has"]), done.stderr
        return
    assert done.code == 0, done.stderr
    assert done.result == vector["printed"]
    assert done.stdout.count("\n") == 1
    assert read_result(done.stdout)["reasoning"] == vector["printed"]["reasoning"]


@pytest.mark.parametrize("vector", named(vectors("results.json")["stdout"]))
def test_stdout_vectors_agree_with_the_reference_reader(vector):
    if "error" in vector:
        with pytest.raises(ResultError) as caught:
            read_result(vector["stdout"])
        assert caught.value.kind == vector["error"]
    else:
        assert read_result(vector["stdout"]) == vector["result"]


@pytest.mark.parametrize("vector", named(vectors("fences.json")))
def test_fence_vectors(vector):
    parts = [(name, text) for name, text in vector["parts"]]
    assert fence(parts, vector["around"], vector["markLength"]) == (vector["text"], vector["mark"])
    assert MARK_LENGTH == 12
