"""The APIs of vendors on the judge proxy: requests become judge calls, replies have the vendor's form."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from base64 import b64decode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from struct import unpack
from typing import Any

import anthropic
import openai
import pytest
from google.genai import Client, errors
from google.genai.types import HttpOptions
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai.types import CreateEmbeddingResponse
from pydantic import BaseModel

from agentv.errors import ProviderError
from agentv.evidence import JudgeCallRecord
from agentv.judge.access import JudgeAccess
from agentv.judge.proxy import JudgeProxy
from agentv.judge.recording import Recording
from agentv.judge.session import JudgeSession
from agentv.judge.targets import JudgeTargets
from agentv.messages import TokenLogprob
from agentv.redact import Redactor
from agentv.targets.provider import Reply, Request
from agentv.testing.judge_proxy import ScriptedJudge
from agentv.testing.model_server import Failure, FakeModelServer
from agentv.wire.apis.openai_chat import ChatCompletions
from agentv.wire.apis.registry import VENDORS, api_at
from agentv.wire.judge import InvalidRequestError
from tests.judge.support import Embedder, Judge, Response, make_session, request, send
from tests.judge.test_api_vectors import VECTORS
from tests.targets.support import make

CHAT = "/v1/chat/completions"
Records = list[JudgeCallRecord]
QUESTION: dict[str, Any] = {"model": "gpt-4o", "messages": [{"role": "user", "content": "q"}]}


async def ask(proxy: JudgeProxy, path: str, body: Any, **headers: str | None) -> Response:
    return await send(proxy, request(proxy, "POST", path, body, headers=headers))


def error_of(reply: Response) -> Any:
    return reply.json["error"]


# -- limits and failures


async def test_limit_is_403_runs_nothing_and_fails_the_evaluator() -> None:
    judge = Judge()
    session = make_session(judge, max_calls=2)
    async with JudgeProxy(session) as proxy:
        assert (await ask(proxy, CHAT, QUESTION)).status == 200
        over = await ask(proxy, CHAT, {**QUESTION, "n": 2})
        invalid = await ask(proxy, CHAT, {**QUESTION, "n": 3, "colour": 1})
        assert (await ask(proxy, CHAT, QUESTION)).status == 200
        later = await ask(proxy, "/v1/responses", {"model": "m", "input": "q"})
    for reply in (over, later):
        assert reply.status == 403
        assert reply.headers["x-should-retry"] == "false"
        assert error_of(reply)["code"] == "max_calls_exceeded"
        assert "judge call limit of 2 for evaluator 'precision'" in error_of(reply)["message"]
    assert invalid.status == 400
    assert judge.calls == session.ledger.call_count == 2
    assert session.ledger.refused_calls == 3
    assert session.ledger.breached


async def test_concurrent_requests_never_pass_the_limit() -> None:
    judge = Judge()
    session = make_session(judge, max_calls=10)
    async with JudgeProxy(session) as proxy:
        replies = await asyncio.gather(*(ask(proxy, CHAT, {**QUESTION, "n": 2}) for _ in range(20)))
    assert sorted(reply.status for reply in replies) == [200] * 5 + [403] * 15
    assert judge.calls == session.ledger.call_count == 10


async def test_failed_judge_is_502_and_all_replies_of_a_request_fail_with_it() -> None:
    outcomes: Iterator[Any] = iter(["yes", ProviderError("HTTP 500: down", status=500)])

    def answer(_: Request) -> Reply:
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return Reply.of_text(outcome)

    session = make_session(Judge(answer))
    async with JudgeProxy(session) as proxy:
        reply = await ask(proxy, CHAT, {**QUESTION, "n": 2})
    assert (reply.status, reply.headers["x-should-retry"]) == (502, "false")
    assert error_of(reply)["type"] == "api_error"
    assert error_of(reply)["code"] == "judge_failed"
    assert "HTTP 500: down" in error_of(reply)["message"]
    assert (session.ledger.call_count, session.ledger.failed_calls) == (2, 1)
    assert not session.ledger.breached


async def test_slow_judge_is_504() -> None:
    async with JudgeProxy(make_session(Judge(held=True), timeout=0.01)) as proxy:
        reply = await ask(proxy, CHAT, QUESTION)
    assert (reply.status, reply.headers["x-should-retry"]) == (504, "false")
    assert error_of(reply)["code"] == "judge_timeout"


@pytest.mark.parametrize("header", ["x-stainless-read-timeout", "x-stainless-timeout"])
async def test_client_gets_504_before_it_would_give_up_and_ask_again(header: str) -> None:
    judge = Judge(held=True)
    session = make_session(judge)
    async with JudgeProxy(session) as proxy:
        reply = await ask(proxy, CHAT, {**QUESTION, "n": 2}, **{header: "0.05"})
        judge.let_go()
        for ignored in ("None", "-1", "nan", "inf", ""):
            assert (await ask(proxy, CHAT, QUESTION, **{header: ignored})).status == 200
    assert (reply.status, reply.headers["x-should-retry"]) == (504, "false")
    assert error_of(reply)["code"] == "judge_timeout"
    assert "raise its timeout" in error_of(reply)["message"]
    assert (session.ledger.call_count, session.ledger.failed_calls, judge.cancelled) == (7, 2, 2)


async def test_request_after_the_script_has_ended_is_503() -> None:
    async with JudgeProxy(make_session()) as proxy:
        proxy.session.close()
        reply = await ask(proxy, CHAT, QUESTION)
    assert (reply.status, reply.headers["x-should-retry"]) == (503, "false")


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"Authorization": None}, 401, "unauthorized"),
        ({"Host": "evil.example"}, 421, "misdirected"),
        ({"Origin": "http://evil.example"}, 403, "forbidden"),
        ({"Content-Encoding": "gzip"}, 415, "unsupported_encoding"),
        ({"Content-Length": str(9 * 2**20)}, 413, "payload_too_large"),
    ],
)
async def test_checks_are_those_of_invoke_with_errors_in_the_form_of_openai(
    headers: dict[str, str | None], status: int, code: str
) -> None:
    async with JudgeProxy(make_session()) as proxy:
        reply = await ask(proxy, CHAT, QUESTION, **headers)
    assert reply.status == status
    assert error_of(reply)["code"] == code
    assert reply.headers["x-should-retry"] == "false"


async def test_other_methods_are_405() -> None:
    async with JudgeProxy(make_session()) as proxy:
        reply = await send(proxy, request(proxy, "GET", CHAT))
    assert (reply.status, error_of(reply)["code"]) == (405, "method_not_allowed")


async def test_key_headers_are_accepted_only_where_their_clients_send_them() -> None:
    async with JudgeProxy(make_session()) as proxy:
        key = {"x-api-key": proxy.token, "Authorization": None}
        message = {"model": "claude", "max_tokens": 9, "messages": QUESTION["messages"]}
        assert (await ask(proxy, "/v1/messages", message, **key)).status == 200
        assert (await ask(proxy, CHAT, QUESTION, **key)).status == 401
        google = {"x-goog-api-key": proxy.token, "Authorization": None}
        contents = {"contents": [{"parts": [{"text": "q"}]}]}
        assert (await ask(proxy, "/v1beta/models/m:generateContent", contents, **google)).status == 200
        assert (await ask(proxy, "/invoke", {"question": "q"}, **google)).status == 401
        assert (await ask(proxy, "/v1/messages", message, **{**key, "x-api-key": "wrong"})).status == 401


# -- models


def choosing(**options: Any) -> JudgeSession:
    live = {"strict": Judge("strict"), "mild": Judge("mild"), "other": Judge("other")}
    return JudgeSession(JudgeTargets("strict", live, **options), evaluator="precision")


async def answered_by(proxy: JudgeProxy, model: str) -> str:
    return str((await ask(proxy, CHAT, {**QUESTION, "model": model})).json["choices"][0]["message"]["content"])


async def test_model_names_a_target_only_if_the_target_is_allowed() -> None:
    session = choosing(allowed=["mild"], models={"gpt-4o": "other"})
    async with JudgeProxy(session) as proxy:
        assert await answered_by(proxy, "mild") == "mild"
        assert await answered_by(proxy, "gpt-4o") == "other"
        assert await answered_by(proxy, "gpt-4o-mini") == "strict"
        listed = (await send(proxy, request(proxy, "GET", "/v1/models"))).json
    assert [model["id"] for model in listed["data"]] == ["gpt-4o", "mild", "other", "strict"]
    assert session.ledger.to_dict()["models"] == {
        "mild": {"mild": 1},
        "gpt-4o": {"other": 1},
        "gpt-4o-mini": {"strict": 1},
    }
    assert session.ledger.targets == {"mild": 1, "other": 1, "strict": 1}


async def test_target_that_is_not_allowed_is_the_judge_target() -> None:
    async with JudgeProxy(choosing(allowed=[])) as proxy:
        assert await answered_by(proxy, "mild") == "strict"
        listed = (await send(proxy, request(proxy, "GET", "/models"))).json
    assert [model["id"] for model in listed["data"]] == ["strict"]


async def test_model_names_a_target_that_is_unavailable_and_gets_the_reason() -> None:
    session = choosing(unavailable={"later": "KEY is not set"}, models={"gpt-4o": "later"})
    async with JudgeProxy(session) as proxy:
        for name in ("later", "gpt-4o"):
            refused = await ask(proxy, CHAT, {**QUESTION, "model": name})
            assert (refused.status, error_of(refused)["code"]) == (400, "unknown_target")
            assert error_of(refused)["param"] == "model"
            assert "KEY is not set" in error_of(refused)["message"]
        listed = (await send(proxy, request(proxy, "GET", "/v1/models"))).json
    assert [model["id"] for model in listed["data"]] == ["mild", "other", "strict"]
    async with JudgeProxy(choosing(unavailable={"later": "KEY is not set"}, allowed=[])) as proxy:
        assert await answered_by(proxy, "later") == "strict"


async def test_model_names_may_contain_a_colon() -> None:
    async with JudgeProxy(choosing(models={"llama3:8b-instruct": "mild"})) as proxy:
        found = await send(proxy, request(proxy, "GET", "/v1/models/llama3:8b-instruct"))
        missing = await send(proxy, request(proxy, "GET", "/v1/models/llama3:70b"))
    assert found.json["id"] == "llama3:8b-instruct"
    assert (missing.status, error_of(missing)["code"]) == (404, "model_not_found")


async def test_reply_names_the_model_that_answered() -> None:
    judge = Judge(lambda _: Reply(Reply.of_text("yes").output_messages, model="claude-sonnet-5"))
    async with JudgeProxy(make_session(judge, others={"mild": Judge()})) as proxy:
        assert (await ask(proxy, CHAT, QUESTION)).json["model"] == "claude-sonnet-5"
        assert (await ask(proxy, CHAT, {**QUESTION, "model": "mild"})).json["model"] == "mild"


# -- options


@asynccontextmanager
async def real_target(
    server: FakeModelServer, **setting: Any
) -> AsyncIterator[tuple[JudgeProxy, list[JudgeCallRecord]]]:
    """A proxy in front of an OpenAI-compatible target."""
    records: Records = []
    target = make(Path(), "openai_compatible", model="m", base_url=server.url, **setting)
    session = make_session(target, recording=Recording(records.append))
    async with JudgeProxy(session) as proxy:
        yield proxy, records
    await target.aclose()


ASKED = {**QUESTION, "temperature": 0.5, "max_tokens": 7, "seed": 3, "stop": ["END"], "top_p": 0.9}


async def test_options_reach_the_target_unless_its_settings_fix_them() -> None:
    async with (
        FakeModelServer("yes") as server,
        real_target(server, temperature=0, extra_body={"seed": 1}) as (proxy, records),
    ):
        assert (await ask(proxy, CHAT, ASKED)).status == 200
        (sent,) = [received.body for received in server.requests]
    assert (sent["temperature"], sent["seed"]) == (0, 1)
    assert (sent["max_tokens"], sent["stop"], sent["top_p"]) == (7, ["END"], 0.9)
    (record,) = records
    assert record.dropped_options == {"temperature": "set by the target", "seed": "set by the target"}
    assert record.options == {"top_p": 0.9, "max_output_tokens": 7, "stop": ["END"]}


async def test_options_that_the_target_does_not_support_are_left_out() -> None:
    judge = Judge()
    judge.honours = frozenset({"temperature"})
    records: list[JudgeCallRecord] = []
    session = make_session(judge, recording=Recording(records.append))
    async with JudgeProxy(session) as proxy:
        assert (await ask(proxy, CHAT, {**ASKED, "logprobs": True})).json["choices"][0]["logprobs"] is None
    assert judge.requests[0].options.to_dict() == {"temperature": 0.5}
    dropped = dict.fromkeys(("top_p", "max_output_tokens", "seed", "stop", "logprobs"), "not supported by the target")
    assert records[0].dropped_options == dropped


FORMAT = {"type": "json_schema", "json_schema": {"name": "v", "schema": {"type": "object", "required": ["score"]}}}


async def test_schema_is_enforced_or_described_in_the_prompt() -> None:
    body = {**QUESTION, "response_format": FORMAT}
    async with FakeModelServer('{"score": 1}') as server:
        async with real_target(server) as (proxy, _):
            await ask(proxy, CHAT, body)
        async with real_target(server, structured_output="off") as (proxy, records):
            await ask(proxy, CHAT, body)
        enforced, described = (received.body for received in server.requests)
    assert enforced["response_format"]["json_schema"]["schema"] == FORMAT["json_schema"]["schema"]  # type: ignore[index]
    assert enforced["messages"] == QUESTION["messages"]
    assert "response_format" not in described
    assert '"required":["score"]' in described["messages"][0]["content"]
    assert records[0].dropped_options == {"response_schema": "described in the prompt"}


async def test_schema_that_the_server_rejects_is_described_in_the_next_request() -> None:
    def answer(body: Any) -> Any:
        if "response_format" in body:
            return Failure(400, body=b'{"error": {"message": "response_format is not supported"}}')
        return 'So: {"score": 1}'

    async with FakeModelServer(answer) as server, real_target(server) as (proxy, _):
        reply = await ask(proxy, CHAT, {**QUESTION, "response_format": FORMAT})
        last = server.requests[-1].body
    assert reply.json["choices"][0]["message"]["content"] == '{"score": 1}'
    assert "JSON Schema" in last["messages"][0]["content"]


async def test_any_object_is_requested_as_json_object() -> None:
    async with FakeModelServer("{}") as server, real_target(server) as (proxy, _):
        await ask(proxy, CHAT, {**QUESTION, "response_format": {"type": "json_object"}})
        assert server.requests[0].body["response_format"] == {"type": "json_object"}


async def test_target_without_structured_output_gets_the_schema_in_its_prompt() -> None:
    judge = Judge('{"score": 1}')
    judge.honours = frozenset()
    async with JudgeProxy(make_session(judge)) as proxy:
        await ask(proxy, CHAT, {**QUESTION, "response_format": FORMAT})
        await ask(proxy, CHAT, {**QUESTION, "response_format": {"type": "json_object"}})
    schema, any_object = (str(sent.messages[-1].content) for sent in judge.requests)
    assert "JSON Schema" in schema
    assert any_object == "q\n\nReply with exactly one JSON object, and nothing else."


# -- secrets


async def test_secrets_in_replies_and_errors_are_masked() -> None:
    secret = "sk-secret-1234567890"
    tokens = (TokenLogprob("sk-", -0.1), TokenLogprob("secret-1234567890", -0.1))
    judge = Judge(lambda _: Reply(Reply.of_text(f"key: {secret}").output_messages, logprobs=tokens, model=secret))
    async with JudgeProxy(make_session(judge, redactor=Redactor([secret]))) as proxy:
        reply = await ask(proxy, CHAT, {**QUESTION, "logprobs": True})
        bad = await ask(proxy, CHAT, {**QUESTION, "response_format": {"type": secret}})
        token = await ask(proxy, CHAT, {**QUESTION, "response_format": {"type": proxy.token}})
        named = await ask(proxy, CHAT, {**QUESTION, "model": secret})
        assert secret not in json.dumps(proxy.session.ledger.to_dict())  # type: ignore[attr-defined]
        assert proxy.token.encode() not in token.body
        told = {"model": "m", "input": "q", "instructions": f"Use {secret}.", "metadata": {"key": secret}}
        repeated = await ask(proxy, "/v1/responses", told)
    assert repeated.json["instructions"] == "Use [redacted]."
    assert named.status == 200
    for seen in (reply, bad, named, repeated):
        assert secret.encode() not in seen.body
    assert reply.json["choices"][0]["logprobs"] is None


# -- large and odd bodies


async def test_large_bodies_are_parsed_and_answered() -> None:
    text = "x" * 600_000
    judge = Judge(lambda sent: Reply.of_text(sent.question + ' {"score": 1}'))
    async with JudgeProxy(make_session(judge)) as proxy:
        body = {**QUESTION, "messages": [{"role": "user", "content": text}], "response_format": {"type": "json_object"}}
        reply = await ask(proxy, CHAT, body)
        bad = await ask(proxy, CHAT, {**body, "colour": 1})
    assert reply.json["choices"][0]["message"]["content"] == '{"score": 1}'
    assert judge.requests[0].question == text
    assert error_of(bad)["param"] == "colour"


SCHEMA_OF_10_000 = {"type": "object", "properties": {f"p{at}": {"type": "string"} for at in range(5_000)}}


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        (CHAT, {**QUESTION, "messages": QUESTION["messages"] * 5_001}, "5,001 messages; send at most 5,000"),
        ("/v1/responses", {"model": "m", "input": QUESTION["messages"] * 5_001}, "5,001 messages"),
        (
            "/v1/responses",
            {"model": "m", "input": "q", "text": {"format": {"type": "json_schema", "schema": SCHEMA_OF_10_000}}},
            "the schema has more than 10,000 values",
        ),
    ],
)
async def test_requests_that_would_keep_the_runtime_busy_are_rejected(path: str, body: Any, message: str) -> None:
    async with JudgeProxy(make_session()) as proxy:
        reply = await ask(proxy, path, body)
    assert reply.status == 400
    assert message in error_of(reply)["message"]


async def test_replies_that_take_long_to_render_are_rendered_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    render = ChatCompletions.render

    def noted(self: ChatCompletions, *arguments: Any) -> Any:
        threads.append(threading.current_thread())
        return render(self, *arguments)

    monkeypatch.setattr(ChatCompletions, "render", noted)
    token = TokenLogprob("a", -0.1, (("b", -0.2),) * 20)
    judge = Judge(lambda _: Reply(Reply.of_text("a").output_messages, logprobs=(token,) * 60))
    async with JudgeProxy(make_session(judge)) as proxy:
        await ask(proxy, CHAT, QUESTION)
        await ask(proxy, CHAT, {**QUESTION, "messages": [{"role": "user", "content": "x" * 70_000}]})
    assert threading.current_thread() not in threads
    assert len(threads) == 2


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.data())
def test_mutated_requests_are_accepted_or_rejected_but_never_crash(data: st.DataObject) -> None:
    vector = data.draw(st.sampled_from([vector for vector in VECTORS if isinstance(vector["body"], dict)]))
    body = json.loads(json.dumps(vector["body"]))
    for _ in range(data.draw(st.integers(1, 3))):
        node = body
        while isinstance(node, dict | list) and node and data.draw(st.booleans()):
            child = node[data.draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node))))]
            if not isinstance(child, dict | list):
                break
            node = child
        if isinstance(node, dict):
            node[data.draw(st.sampled_from([*node, "n", "tools", "text"]))] = data.draw(JSON)
        elif node:
            node[0] = data.draw(JSON)
    api = api_at(vector["path"])
    if api is None:
        return
    try:
        parsed = api.parse(vector["path"], json.dumps(body).encode())
    except InvalidRequestError as error:
        assert str(error)  # noqa: PT017 - either outcome is right
    else:
        assert parsed.model


# -- client libraries


class Verdict(BaseModel):
    score: float


@contextmanager
def scripted(**options: Any) -> Iterator[ScriptedJudge]:
    def answer(call: Any) -> Any:
        if call.question == "fail":
            return ProviderError("HTTP 500", status=500)
        return '{"score": 0.5}' if call.options.response_schema else "yes, and that is all"

    with ScriptedJudge(answer, **options) as judge:
        yield judge


def test_openai_client_works_unchanged() -> None:
    user: Any = [{"role": "user", "content": "q"}]
    with scripted() as judge, openai.OpenAI(base_url=judge.environ["OPENAI_BASE_URL"], api_key=judge.token) as client:
        assert [model.id for model in client.models.list()] == ["judge"]
        assert client.models.retrieve("judge").id == "judge"
        with pytest.raises(openai.NotFoundError):
            client.models.retrieve("gpt-4o")
        assert client.chat.completions.create(model="gpt-4o", messages=user).choices[0].message.content
        parsed = client.chat.completions.parse(model="gpt-4o", messages=user, response_format=Verdict)
        assert parsed.choices[0].message.parsed == Verdict(score=0.5)
        options: Any = {"stream": True, "stream_options": {"include_usage": True}, "n": 2}
        chunks = list(client.chat.completions.create(model="gpt-4o", messages=user, **options))
        replies = ["", ""]
        for chunk in chunks:
            for choice in chunk.choices:
                replies[choice.index] += choice.delta.content or ""
        assert replies == ["yes, and that is all"] * 2
        assert chunks[-1].usage is not None
        with client.chat.completions.stream(model="gpt-4o", messages=user, response_format=Verdict) as stream:
            assert stream.get_final_completion().choices[0].message.parsed == Verdict(score=0.5)
        assert client.responses.create(model="gpt-5", input="q").output_text == "yes, and that is all"
        assert client.responses.parse(model="gpt-5", input="q", text_format=Verdict).output_parsed == Verdict(score=0.5)
        with client.responses.stream(model="gpt-5", input="q") as events:
            kinds = [each.type for each in events]
            assert events.get_final_response().output_text == "yes, and that is all"
        assert kinds[0] == "response.created"
        assert kinds[-1] == "response.completed"


def test_openai_client_sends_one_request_at_the_limit_and_for_a_failed_judge(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="openai")
    with scripted(max_calls=1) as judge, openai.OpenAI(base_url=f"{judge.url}/v1", api_key=judge.token) as client:
        with pytest.raises(openai.InternalServerError) as failed:
            client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": "fail"}])
        with pytest.raises(openai.PermissionDeniedError) as over:
            client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": "q"}])
        assert judge.ledger.call_count == judge.ledger.refused_calls == 1
    assert failed.value.code == "judge_failed"
    assert over.value.code == "max_calls_exceeded"


def test_anthropic_client_works_unchanged() -> None:
    user: Any = [{"role": "user", "content": "q"}]
    tool: Any = {"name": "grade", "input_schema": {"type": "object"}}
    with scripted(max_calls=4) as judge:
        client = anthropic.Anthropic(base_url=judge.environ["ANTHROPIC_BASE_URL"], api_key=judge.token)
        text: Any = client.messages.create(model="claude", max_tokens=9, messages=user, system="s").content[0]
        assert text.text == "yes, and that is all"
        choice: Any = {"type": "tool", "name": "grade"}
        called: Any = client.messages.create(
            model="claude", max_tokens=9, messages=user, tools=[tool], tool_choice=choice
        ).content[0]
        assert called.input == {"score": 0.5}
        with client.messages.stream(model="claude", max_tokens=9, messages=user) as stream:
            assert stream.get_final_text() == "yes, and that is all"
        with client.messages.stream(
            model="claude", max_tokens=9, messages=user, tools=[tool], tool_choice=choice
        ) as calls:
            final: Any = calls.get_final_message().content[0]
        assert final.input == {"score": 0.5}
        with pytest.raises(anthropic.PermissionDeniedError):
            client.messages.create(model="claude", max_tokens=9, messages=user)
        client.close()


def test_gemini_client_works_unchanged() -> None:
    with scripted(max_calls=3) as judge:
        options = HttpOptions(base_url=judge.environ["GOOGLE_GEMINI_BASE_URL"])
        client = Client(api_key=judge.token, http_options=options)
        generate = client.models.generate_content
        assert generate(model="gemini-2.5-flash", contents="q").text == "yes, and that is all"
        config: Any = {"response_mime_type": "application/json", "response_schema": Verdict}
        assert generate(model="gemini-2.5-flash", contents="q", config=config).parsed == Verdict(score=0.5)
        streamed = client.models.generate_content_stream(model="gemini-2.5-flash", contents="q")
        assert "".join(part.text or "" for part in streamed) == "yes, and that is all"
        with pytest.raises(errors.ClientError) as over:
            generate(model="gemini-2.5-flash", contents="q")
        assert over.value.code == 403
        client.close()


# -- embeddings


def embedding_session(**options: Any) -> JudgeSession:
    live = {"strict": Judge(), "vectors": Embedder()}
    targets = JudgeTargets("strict", live, allowed=[], embeddings="vectors")
    return JudgeSession(targets, evaluator="precision", **options)


async def test_embeddings_are_counted_in_a_ledger_of_their_own() -> None:
    session = embedding_session(max_calls=2)
    body = {"model": "text-embedding-3-small", "input": ["a", "b"]}
    async with JudgeProxy(session) as proxy:
        reply = await ask(proxy, "/v1/embeddings", {**body, "encoding_format": "base64"})
        floats = await ask(proxy, "/embeddings", {**body, "input": "a", "encoding_format": "float"})
        assert (await ask(proxy, CHAT, {**QUESTION, "n": 2})).status == 200
        over = await ask(proxy, "/v1/embeddings", body)
    CreateEmbeddingResponse.model_validate(floats.json, strict=True)
    assert [unpack("<2f", b64decode(item["embedding"])) for item in reply.json["data"]] == [(1.0, 2.0), (1.0, 2.0)]
    assert floats.json["data"][0]["embedding"] == [1.0, 2.0]
    assert reply.json["usage"] == {"prompt_tokens": 4, "total_tokens": 4}
    assert reply.json["model"] == "small"
    assert (over.status, error_of(over)["code"]) == (403, "max_calls_exceeded")
    ledger = session.ledger.to_dict()
    assert (ledger["call_count"], ledger["refused_calls"], ledger["targets"]) == (2, 0, {"strict": 2})
    embeddings = ledger["embeddings"]
    assert (embeddings["call_count"], embeddings["refused_calls"]) == (2, 1)
    assert embeddings["models"] == {"text-embedding-3-small": {"vectors": 2}}
    assert embeddings["cost_usd"] == 1.0
    assert session.ledger.breached


async def test_embeddings_target_cannot_be_chosen_as_a_judge() -> None:
    targets = JudgeTargets("strict", {"strict": Judge("strict"), "vectors": Embedder()}, embeddings="vectors")
    async with JudgeProxy(JudgeSession(targets, evaluator="precision")) as proxy:
        assert await answered_by(proxy, "vectors") == "strict"
        listed = (await send(proxy, request(proxy, "GET", "/v1/models"))).json
        refused = await ask(proxy, "/invoke", {"question": "q", "target": "vectors"})
    assert [model["id"] for model in listed["data"]] == ["strict"]
    assert (refused.status, refused.code) == (400, "unknown_target")
    assert "`judge.embeddings`" in refused.json["error"]


async def test_embeddings_without_a_target_say_how_to_set_one() -> None:
    async with JudgeProxy(make_session()) as proxy:
        reply = await ask(proxy, "/v1/embeddings", {"model": "m", "input": "a"})
    assert (reply.status, error_of(reply)["code"]) == (404, "not_supported")
    assert "judge: {embeddings: NAME}" in error_of(reply)["message"]


@pytest.mark.parametrize("strings", [[1, 2], [[1, 2]], "", [], ["a", ""], ["a"] * 3000, None])
async def test_embeddings_of_anything_but_text_are_rejected(strings: Any) -> None:
    session = embedding_session()
    async with JudgeProxy(session) as proxy:
        reply = await ask(proxy, "/v1/embeddings", {"model": "m", "input": strings})
    assert (reply.status, error_of(reply)["param"]) == (400, "input")
    assert session.ledger.to_dict()["embeddings"]["call_count"] == 0


async def test_embeddings_come_from_an_embeddings_target() -> None:
    def answer(body: Any) -> Any:
        data = [{"index": at, "embedding": [float(at), 1.0]} for at in range(len(body["input"]))]
        return {"data": data, "model": "small", "usage": {"prompt_tokens": 7}}

    async with FakeModelServer(answer) as server:
        target = make(Path(), "embeddings", model="m", base_url=server.url, api_key="k")
        targets = JudgeTargets("strict", {"strict": Judge(), "vectors": target}, embeddings="vectors")
        async with JudgeProxy(JudgeSession(targets, evaluator="precision")) as proxy:
            reply = await ask(proxy, "/v1/embeddings", {"model": "x", "input": ["a", "b", "c"]})
        await target.aclose()
    assert [item["embedding"] for item in reply.json["data"]] == [[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]]
    assert reply.json["usage"]["prompt_tokens"] == 7


def test_every_vendor_has_an_option_that_disables_its_variables() -> None:
    for name in VENDORS:
        assert name not in JudgeAccess.model_validate({name: False}).vendors
    assert JudgeAccess.model_validate({}).vendors == tuple(VENDORS)
