from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from agentv.errors import ProviderError, TargetUnavailableError
from agentv.http.urls import proxy_for
from agentv.messages import Message, TokenUsage, ToolCall
from agentv.redact import Redactor
from agentv.targets.gate import TargetGate
from agentv.targets.provider import TargetSettings
from agentv.testing.model_server import Failure, FakeModelServer, completion
from tests.targets.support import ask, make

HERE = Path()
KEY = "sk-test-0123456789abcdef"


class client:  # noqa: N801 - reads as a function: `async with client(server) as provider`
    """A provider against the server, closed at the end."""

    def __init__(self, server: FakeModelServer, provider: str = "openai_compatible", **settings: Any) -> None:
        settings.setdefault("base_url", server.url)
        self.provider = make(HERE, provider, model="m", **settings)

    async def __aenter__(self) -> Any:
        return self.provider

    async def __aexit__(self, *_: object) -> None:
        await self.provider.aclose()


async def failure(server: FakeModelServer, **settings: Any) -> ProviderError:
    async with client(server, **settings) as provider:
        with pytest.raises(ProviderError) as caught:
            await provider.invoke(ask())
    return caught.value


def body_of(server: FakeModelServer) -> dict[str, Any]:
    body: dict[str, Any] = server.requests[-1].body
    return body


# -- a call


async def test_a_call_sends_the_question_and_returns_the_answer():
    async with FakeModelServer("Paris is it", api_key=KEY) as server:
        async with client(
            server, api_key=KEY, temperature=0.5, max_output_tokens=9, headers={"X-Team": "a"}
        ) as provider:
            reply = await provider.invoke(ask("capital?", system_prompt="Be brief."))
        assert reply.text == "Paris is it"
        assert reply.token_usage == TokenUsage(10, 3)
        assert (reply.finish_reason, reply.cost_usd, reply.duration_ms) == ("stop", None, None)
        assert reply.model == "fake", "the model that answered, not the configured name"
        assert body_of(server) == {
            "model": "m",
            "temperature": 0.5,
            "max_tokens": 9,
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "capital?"}],
        }
        sent = server.requests[0]
        assert sent.path == "/v1/chat/completions"
        assert sent.headers["Authorization"] == f"Bearer {KEY}"
        assert sent.headers["X-Team"] == "a"


async def test_what_is_not_set_is_not_sent():
    async with FakeModelServer() as server:
        async with client(server) as provider:
            await provider.invoke(ask())
        assert sorted(body_of(server)) == ["messages", "model"]
        assert "Authorization" not in server.requests[0].headers


async def test_extra_body_is_sent_and_a_judge_replaces_its_response_format():
    extra = {"top_k": 5, "response_format": {"type": "text"}, "temperature": 0.9}
    async with (
        FakeModelServer("{}") as server,
        client(server, extra_body=extra, temperature=0.1, top_p=0.5) as provider,
    ):
        await provider.invoke(ask())
        body = body_of(server)
        assert (body["top_k"], body["top_p"]) == (5, 0.5)
        assert (body["response_format"], body["temperature"]) == ({"type": "text"}, 0.1)
        await provider.invoke(ask(schema={"type": "object"}))
        assert body_of(server)["response_format"]["type"] == "json_schema"


async def test_openai_uses_max_completion_tokens_and_reads_its_variables():
    async with FakeModelServer(api_key=KEY) as server:
        scope = {"environment": {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.url}}
        async with client(server, "openai", base_url=None, scope=scope, maxTokens=5) as provider:
            await provider.invoke(ask())
        assert body_of(server)["max_completion_tokens"] == 5


async def test_tool_calls_and_cached_tokens_are_understood():
    reply_body = completion(
        None,
        tool_calls=[
            {"id": "1", "name": "search", "arguments": '{"userId": [1]}'},
            {"id": "2", "name": "broken", "arguments": '{"x": '},
            {"id": "3", "name": "nan", "arguments": '{"x": NaN}'},
        ],
    )
    reply_body["usage"] = {
        "prompt_tokens": 100,
        "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 60},
        "cost": 0.25,
    }
    async with FakeModelServer(reply_body) as server, client(server) as provider:
        reply = await provider.invoke(ask())
    assert reply.output_messages == (
        Message(
            "assistant",
            tool_calls=(
                ToolCall("search", {"userId": [1]}, id="1"),
                ToolCall("broken", '{"x": ', id="2"),
                ToolCall("nan", '{"x": NaN}', id="3"),
            ),
        ),
    )
    assert reply.token_usage == TokenUsage(40, 7, 60)
    assert reply.token_usage.total == 107
    assert (reply.cost_usd, reply.finish_reason, reply.text) == (0.25, "tool_calls", "")


async def test_a_conversation_is_sent_with_its_roles_tools_and_files(tmp_path):
    (tmp_path / "notes.md").write_text("# Notes")
    image = {"type": "image_url", "image_url": {"url": "data:x"}}
    messages = (
        Message("user", [{"type": "text", "value": "Read"}, {"type": "file", "value": "docs/notes.md"}]),
        Message(
            "assistant",
            None,
            tool_calls=(ToolCall("a", {"x": 1}, id="A"), ToolCall("b"), ToolCall("c", output={"y": 2})),
        ),
        Message("tool", "result b", name="b"),
        Message("user", [{"type": "text", "value": "look"}, image]),
        Message("tool", "unrequested", name="z"),
        Message("user", {"structured": True}),
    )
    async with FakeModelServer() as server:
        async with client(server) as provider:
            await provider.invoke(ask(messages=messages, files=(tmp_path / "notes.md",)))
        sent = body_of(server)["messages"]
    assert sent[0] == {"role": "user", "content": 'Read\n<file path="docs/notes.md">\n# Notes\n</file>'}
    calls = sent[1]["tool_calls"]
    assert sent[1]["content"] is None
    assert [(call["function"]["name"], call["function"]["arguments"]) for call in calls] == [
        ("a", '{"x": 1}'),
        ("b", "{}"),
        ("c", "{}"),
    ]
    ids = [call["id"] for call in calls]
    assert len(set(ids)) == 3
    answered = {message["tool_call_id"]: message["content"] for message in sent[2:5]}
    assert answered == {"A": "", ids[1]: "result b", ids[2]: '{"y": 2}'}
    assert sent[5] == {"role": "user", "content": [{"type": "text", "text": "look"}, image]}
    assert sent[6] == {"role": "user", "content": "Tool result of z:\nunrequested"}
    assert sent[7] == {"role": "user", "content": '{"structured": true}'}


async def test_two_hundred_calls_share_one_session():
    class Together(FakeModelServer):
        """Holds back all answers until more than a hundred requests have arrived."""

        many = asyncio.Event()

        async def _answer(self, *arguments: Any) -> Any:
            if self.in_flight > 100:
                self.many.set()
            await self.many.wait()
            return await super()._answer(*arguments)

    async with Together(lambda body: body["messages"][0]["content"]) as server, asyncio.timeout(60):
        async with client(server) as provider:
            replies = await asyncio.gather(*(provider.invoke(ask(str(n))) for n in range(200)))
        assert [reply.text for reply in replies] == [str(n) for n in range(200)]


# -- Azure


async def test_azure_names_the_deployment_in_the_path_and_the_key_in_its_header():
    async with FakeModelServer("hi", api_key=KEY) as server:
        endpoint = server.url.removesuffix("/v1")
        provider = make(HERE, "azure", endpoint=endpoint + "/", deployment="gpt 4", version="v9", api_key=KEY)
        reply = await provider.invoke(ask())
        await provider.aclose()
        assert reply.text == "hi"
        assert server.requests[0].path == "/openai/deployments/gpt%204/chat/completions?api-version=v9"
        assert server.requests[0].headers["api-key"] == KEY
        assert "Authorization" not in server.requests[0].headers


async def test_azure_reads_its_variables_and_has_a_default_version():
    async with FakeModelServer("hi", api_key=KEY) as server:
        environment = {"AZURE_OPENAI_API_KEY": KEY, "AZURE_OPENAI_ENDPOINT": server.url.removesuffix("/v1")}
        provider = make(HERE, "azure", model="d", scope={"environment": environment})
        await provider.invoke(ask())
        await provider.aclose()
        assert server.requests[0].path.endswith("/openai/deployments/d/chat/completions?api-version=2024-12-01-preview")


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        ("myres", "https://myres.openai.azure.com/openai/deployments/d/chat/completions?api-version=v"),
        ("https://h/openai", "https://h/openai/deployments/d/chat/completions?api-version=v"),
        ("https://h/openai/v1/", "https://h/openai/v1/chat/completions"),
        ("https://h/openai/deployments/x", "https://h/openai/deployments/x/chat/completions?api-version=v"),
    ],
)
def test_azure_accepts_an_endpoint_or_a_resource(base_url, url):
    provider = make(HERE, "azure", resource=base_url, model="d", version="v", api_key=KEY)
    assert provider._url == url


# -- unavailable targets


@pytest.mark.parametrize(
    ("provider", "settings", "message"),
    [
        ("openai", {}, "set `api_key` or OPENAI_API_KEY"),
        ("groq", {}, "set `api_key` or GROQ_API_KEY"),
        ("mistral", {}, "set `api_key` or MISTRAL_API_KEY"),
        ("openrouter", {}, "set `api_key` or OPENROUTER_API_KEY"),
        ("azure", {"endpoint": "x"}, "set `api_key` or AZURE_OPENAI_API_KEY"),
        ("azure", {"api_key": KEY}, "set `base_url`"),
        ("openai_compatible", {}, "set `base_url`"),
        ("openai_compatible", {"base_url": "localhost:80"}, "must be a URL like"),
    ],
)
def test_a_target_without_key_or_url_is_unavailable(provider, settings, message):
    with pytest.raises(TargetUnavailableError, match=message):
        make(HERE, provider, model="m", scope={"environment": {}}, **settings)


def test_ollama_needs_no_key():
    assert make(HERE, "ollama", model="m")._url == "http://127.0.0.1:11434/v1/chat/completions"


@pytest.mark.parametrize(
    "settings",
    [{}, {"model": ""}, {"model": "m", "base_url": "ftp://x"}, {"model": "m", "headers": {"a b": "x"}},
     {"model": "m", "headers": {"a": "x\r\ny: z"}}, {"model": "m", "max_output_tokens": 0}],
)  # fmt: skip
def test_invalid_settings_are_rejected(settings):
    with pytest.raises(ValidationError):
        make(HERE, "openai_compatible", **settings)


def test_the_key_is_not_in_the_representation():
    kind = make(HERE, "openai", model="m", api_key=KEY).Settings
    assert KEY not in repr(kind(provider="openai", model="m", api_key=KEY, headers={"X-Key": KEY}))


# -- failure


@pytest.mark.parametrize(
    ("status", "retryable"),
    [
        (400, False),
        (401, False),
        (404, False),
        (408, True),
        (409, False),
        (429, True),
        (500, True),
        (503, True),
    ],
)
async def test_a_status_is_an_error_with_the_message_of_the_server(status, retryable):
    body = json.dumps({"error": {"message": "the server says no"}}).encode()
    async with FakeModelServer(Failure(status, body=body)) as server:
        error = await failure(server)
        assert f"target 't': {server.url}/chat/completions returned HTTP {status}: the server says no" in error.message
    assert (error.status, error.retryable, error.retry_after) == (status, retryable, None)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error": "plain"}', "plain"),
        (b'{"message": "at the top"}', "at the top"),
        (b'{"detail": "as FastAPI does"}', "as FastAPI does"),
        (b"<html>Bad Gateway</html>", "<html>Bad Gateway</html>"),
        (b"", "no reason given"),
    ],
)
async def test_error_bodies_of_every_kind_are_quoted(body, words):
    async with FakeModelServer(Failure(502, body=body)) as server:
        assert f"HTTP 502: {words}" in (await failure(server)).message


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "Retry-After": "9"}, 0.25),
        ({"Retry-After": "-3"}, 0.0),
        ({"Retry-After": "inf"}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ],
)
async def test_retry_after_is_read(headers, expected):
    async with FakeModelServer(Failure(429, headers=headers)) as server:
        assert (await failure(server)).retry_after == expected


async def test_retry_after_may_be_a_date():
    when = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    async with FakeModelServer(Failure(429, headers={"Retry-After": when})) as server:
        retry_after = (await failure(server)).retry_after
    assert retry_after is not None
    assert 20 < retry_after <= 60


async def test_the_gate_waits_for_retry_after():
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    failures = [Failure(429, headers={"Retry-After": "3"}), Failure(reset=True)]
    async with FakeModelServer("ok", failures=failures) as server, client(server) as provider:
        timing: Any = {"sleep": sleep, "clock": lambda: sum(slept), "jitter": lambda: 0.0}
        gate = TargetGate(provider, TargetSettings(provider="x"), name="t", **timing)
        reply = await gate.invoke(ask())
        assert (reply.text, reply.retries, server.calls) == ("ok", 2, 3)
    assert slept == [3.0, 0.0]


async def test_a_connection_reset_before_the_reply_is_retryable():
    async with FakeModelServer(Failure(reset=True)) as server:
        error = await failure(server)
    assert error.retryable
    assert "closed the connection before" in error.message


async def test_a_connection_reset_during_the_reply_is_retryable():
    async with FakeModelServer(Failure(reset=True, body=b'{"choices": [')) as server:
        error = await failure(server)
    assert error.retryable
    assert "before the reply was complete" in error.message


async def test_connection_errors_name_the_server():
    async with FakeModelServer() as server:
        pass
    error = await failure(server)
    assert error.retryable
    assert f"could not connect to {server.url}/chat/completions: Connect call failed" in error.message or (
        "Connection refused" in error.message
    )
    assert "Check that the server is running" in str(error)


@pytest.mark.parametrize(
    "body", [b"<!doctype html><title>Sign in</title>", b'{"choices": [{"mess', b"", b"[" * 100_000]
)
async def test_a_reply_that_is_not_json_is_shown(body):
    async with FakeModelServer(Failure(200, body=body, headers={"Content-Type": "text/html"})) as server:
        error = await failure(server)
    assert "is not JSON (text/html)" in error.message
    assert body[:30].decode() in error.message
    assert len(error.message) < 500
    assert not error.retryable


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"choices": []}, "no `choices`"),
        ({}, "no `choices`"),
        ([], "no `choices`"),
        ({"choices": ["x"]}, "no `message`"),
        (
            {"choices": [{"message": {"content": None}, "finish_reason": "length"}]},
            "neither text nor tool calls (finish_reason: length)",
        ),
        ({"choices": [{"message": {"content": 5}}]}, "must be a string or a list of parts"),
        ({"choices": [{"message": {"tool_calls": [{}]}}]}, "tool call of the reply has no name"),
    ],
)  # fmt: skip
async def test_a_reply_without_content_is_an_error(body, message):
    async with FakeModelServer(Failure(200, body=json.dumps(body).encode())) as server:
        assert message in (await failure(server)).message


async def test_an_error_body_with_http_200_is_an_error():
    async with FakeModelServer({"error": {"message": "upstream busy", "code": 429}}) as server:
        error = await failure(server)
    assert (error.status, error.retryable) == (429, True)
    assert "upstream busy" in error.message


async def test_a_lone_surrogate_in_a_reply_is_rejected():
    async with FakeModelServer(Failure(200, body=b'{"choices": [{"message": {"content": "a\\ud83d"}}]}')) as server:
        assert "half a character" in (await failure(server)).message
    async with FakeModelServer("\N{PARTY POPPER}") as server, client(server) as provider:
        assert (await provider.invoke(ask())).text == "\N{PARTY POPPER}"


async def test_redirects_are_not_followed_and_do_not_get_the_key():
    async with FakeModelServer("stolen") as thief:
        there = Failure(307, headers={"Location": f"{thief.url}/chat/completions?token=hidden"})
        async with FakeModelServer(there) as server:
            error = await failure(server, api_key=KEY)
        assert thief.calls == 0
    assert "a redirect to" in error.message
    assert "hidden" not in error.message
    assert not error.retryable


async def test_a_reply_over_the_size_limit_is_rejected(monkeypatch):
    monkeypatch.setattr("agentv.targets.providers.exchange.REPLY_CAP", 100_000)
    async with FakeModelServer("x" * 200_000) as server:
        assert "larger than" in (await failure(server)).message


async def test_a_key_echoed_by_the_server_is_masked_in_the_error():
    echoed = json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}"}}).encode()
    async with FakeModelServer(Failure(401, body=echoed, headers={"X-Echo": KEY})) as server:
        message = str(await failure(server, api_key=KEY))
    assert KEY not in message
    assert "HTTP 401" in message
    assert "Incorrect API key provided" in message
    other = "another-secret-value"
    cut = b"<html>" + b"x" * 190 + other.encode()
    async with FakeModelServer(Failure(200, body=cut)) as server:
        message = str(await failure(server, scope={"redactor": Redactor([other])}))
    assert "anot" not in message


async def test_keys_in_the_address_are_not_shown():
    async with FakeModelServer(Failure(500)) as server:
        base = server.url.replace("http://", "http://user:hunter22@") + "?sig=hidden"
        message = str(await failure(server, base_url=base))
        assert server.requests[0].path == "/v1/chat/completions?sig=hidden"
    assert "hunter22" not in message
    assert "hidden" not in message


async def test_a_hanging_server_is_left_at_the_deadline_and_the_session_closes():
    async with FakeModelServer(Failure(hang=True)) as server, client(server) as provider:
        gate = TargetGate(provider, TargetSettings(provider="x", timeout_seconds=0.2), name="t")
        with pytest.raises(ProviderError, match=r"within 0\.2 s"):
            await gate.invoke(ask())
        for _ in range(3000):
            if not server.in_flight:
                break
            await asyncio.sleep(0.01)
        assert server.in_flight == 0  # the server saw the client leave


# -- proxies


@pytest.mark.parametrize(
    ("url", "environment", "proxy"),
    [
        ("https://api.example/v1", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("https://api.example/v1", {"https_proxy": "http://p:1", "NO_PROXY": ".example"}, None),
        ("https://api.example/v1", {"HTTP_PROXY": "http://p:1"}, None),
        ("http://127.0.0.1:9/v1", {"HTTP_PROXY": "http://p:1"}, None),
        ("http://localhost:9/v1", {"HTTP_PROXY": "http://p:1"}, None),
        ("http://[::1]:9/v1", {"HTTP_PROXY": "http://p:1"}, None),
        ("http://host:9/v1", {"HTTP_PROXY": "http://p:1"}, "http://p:1"),
        ("http://host:9/v1", {"HTTP_PROXY": "p:1"}, "http://p:1"),
        ("http://host:9/v1", {"HTTP_PROXY": "http://p:1", "NO_PROXY": "host:9"}, None),
        ("http://host:9/v1", {"HTTP_PROXY": "http://p:1", "NO_PROXY": "host:8"}, "http://p:1"),
        ("http://[fe80::1]:9/v1", {"HTTP_PROXY": "http://p:1", "NO_PROXY": "fe80::1"}, None),
    ],
)
def test_proxies_of_the_environment_are_used_but_never_for_loopback(url, environment, proxy):
    assert proxy_for(url, environment) == proxy


async def test_a_proxy_gets_the_call():
    async with FakeModelServer("through the proxy") as proxy:
        environment = {"HTTP_PROXY": proxy.url.removesuffix("/v1")}
        provider = make(
            HERE,
            "openai_compatible",
            model="m",
            base_url="http://model.invalid/v1",
            scope={"environment": environment},
        )
        assert (await provider.invoke(ask())).text == "through the proxy"
        await provider.aclose()
        assert proxy.requests[0].headers["Host"] == "model.invalid"


# -- structured output

SCHEMA = {
    "type": "object",
    "properties": {"score": {"type": "number"}},
    "required": ["score"],
    "additionalProperties": False,
}
NOT_SUPPORTED = json.dumps({"error": {"message": "response_format json_schema is not supported"}}).encode()


@pytest.mark.parametrize("provider", ["openai", "openrouter", "mistral", "groq", "ollama", "openai_compatible"])
async def test_structured_output_sends_the_schema(provider):
    async with FakeModelServer('{"score": 1}') as server:
        async with client(server, provider, api_key=KEY) as target:
            await target.invoke(ask(schema=SCHEMA))
            assert body_of(server)["response_format"] == {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True},
            }
            await target.invoke(ask())
        assert "response_format" not in body_of(server)


@pytest.mark.parametrize(
    ("change", "strict"),
    [
        ({}, True),
        ({"additionalProperties": True}, False),
        ({"required": []}, False),
        ({"properties": {"score": {"type": "object"}}}, False),
        ({"properties": {"score": {"type": "array", "items": {"type": "object", "properties": {}}}}}, False),
        ({"properties": {"score": {"anyOf": [{"type": "null"}, SCHEMA]}}}, True),
    ],
)
async def test_strict_mode_is_requested_if_the_schema_allows_it(change, strict):
    async with FakeModelServer("{}") as server, client(server) as target:
        await target.invoke(ask(schema={**SCHEMA, **change}))
        assert body_of(server)["response_format"]["json_schema"]["strict"] is strict


@pytest.mark.parametrize("status", [400, 422])
async def test_a_server_that_rejects_schemas_gets_none_from_then_on(status):
    async with FakeModelServer("{}", failures=[Failure(status, body=NOT_SUPPORTED)]) as server:
        async with client(server) as target:
            gate = TargetGate(target, TargetSettings(provider="x", max_retries=0), name="t")
            reply = await gate.invoke(ask(schema=SCHEMA))
            assert (reply.text, reply.retries, server.calls) == ("{}", 0, 2)
            await gate.invoke(ask(schema=SCHEMA))
        assert ["response_format" in request.body for request in server.requests] == [True, False, False]


async def test_a_schema_is_still_sent_after_a_model_failed_to_match_it():
    missed = json.dumps({"error": {"message": "Failed to generate JSON, see failed_generation", "code": "x"}}).encode()
    async with FakeModelServer("{}", failures=[Failure(400, body=missed)]) as server:
        async with client(server) as target:
            await target.invoke(ask(schema=SCHEMA))
            await target.invoke(ask(schema=SCHEMA))
        assert ["response_format" in request.body for request in server.requests] == [True, False, True]


async def test_other_refusals_are_not_hidden():
    body = json.dumps({"error": {"message": "the context is too long"}}).encode()
    async with FakeModelServer(Failure(400, body=body)) as server:
        async with client(server) as target:
            with pytest.raises(ProviderError, match="too long"):
                await target.invoke(ask(schema=SCHEMA))
        assert server.calls == 1


async def test_an_explicit_structured_output_mode_has_no_fallback():
    async with FakeModelServer(Failure(400, body=NOT_SUPPORTED)) as server:
        async with client(server, structured_output="json_schema") as target:
            with pytest.raises(ProviderError, match="Set `structured_output`"):
                await target.invoke(ask(schema=SCHEMA))
        assert server.calls == 1


@pytest.mark.parametrize(("setting", "sent"), [("json_object", {"type": "json_object"}), ("off", None)])
async def test_structured_output_can_be_json_object_or_off(setting, sent):
    async with FakeModelServer("{}") as server, client(server, structured_output=setting) as target:
        await target.invoke(ask(schema=SCHEMA))
        assert body_of(server).get("response_format") == sent


# -- next steps


@pytest.mark.parametrize(
    ("status", "said", "step"),
    [
        (401, "Incorrect API key provided", "Check `api_key` (or OPENAI_API_KEY) of the target."),
        (403, "no", "Check `api_key` (or OPENAI_API_KEY) of the target."),
        (404, "The model `m` does not exist", "the server does not know 'm'"),
        (400, "Invalid model: m", "the server does not know 'm'"),
        (404, "Not Found", "Check `base_url` and `model`"),
    ],
)
async def test_errors_have_a_next_step(status, said, step):
    body = json.dumps({"error": {"message": said}}).encode()
    async with FakeModelServer(Failure(status, body=body)) as server:
        assert step in str(await failure(server, provider="openai", api_key=KEY))
