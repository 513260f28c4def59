"""Providers that use vendors' libraries: what they send and receive over HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from agentv.errors import ProviderError, ProviderTimeoutError, TargetUnavailableError
from agentv.messages import Message, TokenUsage, ToolCall
from agentv.redact import Redactor
from agentv.targets.gate import TargetGate
from agentv.targets.provider import TargetSettings
from agentv.targets.providers.exchange import Exchange
from agentv.targets.registry import ALIASES, provider_class
from tests.targets.support import ask, make
from tests.targets.vendor_server import (
    Answer,
    VendorServer,
    anthropic_reply,
    bedrock_reply,
    gemini_reply,
    responses_reply,
)

HERE = Path()
KEY = "sk-test-0123456789abcdef"
SCHEMA = {
    "type": "object",
    "properties": {"score": {"type": "number"}},
    "required": ["score"],
    "additionalProperties": False,
}
AWS = {
    "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE12345678",
    "AWS_SECRET_ACCESS_KEY": "aws-secret-0123456789",
    "AWS_REGION": "eu-west-1",
}


@dataclass(frozen=True)
class Vendor:
    """The configuration and the replies of one vendor."""

    provider: str
    model: str
    reply: Callable[..., dict[str, Any]]
    settings: dict[str, Any] = field(default_factory=lambda: {"api_key": KEY})
    environment: dict[str, str] = field(default_factory=dict)

    @asynccontextmanager
    async def against(self, server: VendorServer, **more: Any) -> AsyncIterator[Any]:
        scope = {"environment": self.environment, **more.pop("scope", {})}
        settings = {"model": self.model, "base_url": server.url, **self.settings, **more}
        provider = make(HERE, self.provider, scope=scope, **settings)
        try:
            yield provider
        finally:
            await provider.aclose()


ANTHROPIC = Vendor("anthropic", "claude-sonnet-4-6", anthropic_reply)
GEMINI = Vendor("gemini", "gemini-2.5-flash", gemini_reply)
BEDROCK = Vendor("bedrock", "us.anthropic.claude-sonnet-4-6-v1:0", bedrock_reply, {}, AWS)
RESPONSES = Vendor("openai", "gpt-4o", responses_reply, {"api_key": KEY, "api": "responses"})
VENDORS = [ANTHROPIC, GEMINI, BEDROCK, RESPONSES]
every_vendor = pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.provider)


async def failure(vendor: Vendor, answer: Any, **more: Any) -> ProviderError:
    async with VendorServer(answer) as server, vendor.against(server, **more) as provider:
        with pytest.raises(ProviderError) as caught:
            await provider.invoke(ask())
        assert len(server.calls) == 1, "retries are the gate's"
    return caught.value


# -- a call


@every_vendor
async def test_a_call_sends_the_question_and_returns_the_answer(vendor: Vendor):
    answer = vendor.reply("Paris| is it", ("search", {"userId": [1]}))
    async with VendorServer(answer) as server, vendor.against(server) as provider:
        reply = await provider.invoke(ask("capital?"))
    calls = (ToolCall("search", {"userId": [1]}, id="call-1"),)
    assert reply.output_messages == (Message("assistant", "Paris is it", tool_calls=calls),)
    assert reply.text == "Paris is it"
    assert reply.token_usage == TokenUsage(100, 7, 60)
    assert (reply.finish_reason, reply.cost_usd, reply.retries) == ("tool_calls", None, 0)
    assert reply.model == {
        "anthropic": "claude-sonnet-4-5-20250929",
        "gemini": "gemini-2.5-flash",
        "bedrock": vendor.model,
        "openai": "gpt-4o-2024-08-06",
    }.get(vendor.provider), "the model that answered, not the configured name"


async def test_anthropic_gets_the_settings():
    async with VendorServer(anthropic_reply("ok")) as server:
        settings = {"temperature": 0.5, "max_output_tokens": 9, "headers": {"X-Team": "a"}}
        async with ANTHROPIC.against(server, **settings) as provider:
            reply = await provider.invoke(ask("capital?", system_prompt="Be brief."))
        call = server.calls[0]
    assert (call.method, call.path, call.headers["x-team"]) == ("POST", "/v1/messages", "a")
    assert KEY in (call.headers.get("Authorization", "").removeprefix("Bearer "), call.headers.get("x-api-key"))
    assert call.body == {
        "model": "claude-sonnet-4-6",
        "system": "Be brief.",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "capital?"}]}],
        "temperature": 0.5,
        "max_tokens": 9,
        "stream": False,
    }
    assert reply.finish_reason == "stop"


async def test_anthropic_thinks_with_a_budget_and_understands_other_names_of_the_model():
    async with VendorServer(anthropic_reply("ok")) as server:
        settings: dict[str, Any] = {
            "variant": "claude-sonnet-4-6",
            "thinkingBudget": 2000,
            "api_key": KEY,
            "base_url": server.url,
        }
        provider = make(HERE, "anthropic", **settings)
        await provider.invoke(ask())
        await provider.aclose()
        body = server.calls[0].body
    assert (body["model"], body["max_tokens"]) == ("claude-sonnet-4-6", 6096)
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 2000}


async def test_gemini_gets_the_settings_and_has_a_default_model():
    async with VendorServer(gemini_reply("ok")) as server:
        settings: dict[str, Any] = {"temperature": 0.5, "max_output_tokens": 9, "headers": {"X-Team": "a"}}
        provider = make(HERE, "gemini", base_url=server.url, api_key=KEY, **settings)
        await provider.invoke(ask("capital?", system_prompt="Be brief."))
        await provider.aclose()
        call = server.calls[0]
    assert call.path.endswith("/models/gemini-2.5-flash:generateContent")
    assert (call.headers["x-goog-api-key"], call.headers["x-team"]) == (KEY, "a")
    assert call.body["systemInstruction"]["parts"] == [{"text": "Be brief."}]
    assert call.body["contents"] == [{"role": "user", "parts": [{"text": "capital?"}]}]
    assert call.body["generationConfig"]["temperature"] == 0.5
    assert call.body["generationConfig"]["maxOutputTokens"] == 9
    assert ALIASES["google"] == ALIASES["google-gemini"] == "gemini"


async def test_bedrock_signs_with_the_variables_and_gets_the_settings():
    async with VendorServer(bedrock_reply("ok")) as server:
        settings = {"temperature": 0.5, "max_output_tokens": 9, "headers": {"X-Team": "a"}}
        async with BEDROCK.against(server, **settings) as provider:
            await provider.invoke(ask("capital?", system_prompt="Be brief."))
        call = server.calls[0]
    # The signature covers the URL: AWS rejects one that is spelled differently.
    assert call.path == "/model/us.anthropic.claude-sonnet-4-6-v1%3A0/converse"
    assert call.headers["X-Team"] == "a"
    assert "Credential=AKIAEXAMPLE12345678/" in call.headers["Authorization"]
    assert "/eu-west-1/bedrock/aws4_request" in call.headers["Authorization"]
    assert call.body == {
        "system": [{"text": "Be brief."}],
        "messages": [{"role": "user", "content": [{"text": "capital?"}]}],
        "inferenceConfig": {"temperature": 0.5, "maxTokens": 9},
    }


async def test_bedrock_accepts_an_api_key_and_a_region(monkeypatch: pytest.MonkeyPatch):
    sent: list[tuple[str, str]] = []

    async def record(self: Exchange, url: str, headers: dict[str, str], body: bytes) -> tuple[dict[str, str], bytes]:
        sent.append((url, headers["Authorization"]))
        return {}, json.dumps(bedrock_reply("ok")).encode()

    # boto3 sends API keys only over TLS, and there is no certificate for AWS here.
    monkeypatch.setattr(Exchange, "post_for_library", record)
    environment = {**AWS, "AWS_BEARER_TOKEN_BEDROCK": KEY}
    provider = make(HERE, "bedrock", scope={"environment": environment}, model="m", region="us-east-1")
    assert (await provider.invoke(ask())).text == "ok"
    await provider.aclose()
    assert sent == [("https://bedrock-runtime.us-east-1.amazonaws.com/model/m/converse", f"Bearer {KEY}")]


async def test_bedrock_sends_no_key_over_a_plain_connection():
    async with VendorServer(bedrock_reply("ok")) as server, BEDROCK.against(server, api_key=KEY) as provider:
        with pytest.raises(ProviderError, match="requires an HTTPS endpoint"):
            await provider.invoke(ask())
        assert server.calls == []


async def test_bedrock_reads_a_profile(tmp_path: Path):
    (tmp_path / "credentials").write_text(
        "[team]\naws_access_key_id = AKIAOFTHETEAM1234\naws_secret_access_key = another-secret-012345\n"
    )
    (tmp_path / "config").write_text("[profile team]\nregion = ap-south-1\n")
    environment = {
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
    }
    async with VendorServer(bedrock_reply("ok")) as server:
        settings = {"model": "m", "base_url": server.url, "profile": "team"}
        provider = make(HERE, "bedrock", scope={"environment": environment}, **settings)
        await provider.invoke(ask())
        await provider.aclose()
    assert "Credential=AKIAOFTHETEAM1234/" in server.calls[0].headers["Authorization"]
    assert "/ap-south-1/" in server.calls[0].headers["Authorization"]


async def test_responses_get_the_settings():
    async with VendorServer(responses_reply("ok")) as server:
        settings = {"temperature": 0.5, "max_output_tokens": 9, "headers": {"X-Team": "a"}}
        async with RESPONSES.against(server, **settings) as provider:
            await provider.invoke(ask("capital?", system_prompt="Be brief."))
        call = server.calls[0]
    assert (call.path, call.headers["Authorization"], call.headers["x-team"]) == ("/responses", f"Bearer {KEY}", "a")
    assert call.body == {
        "model": "gpt-4o",
        "input": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "capital?"}],
        "temperature": 0.5,
        "max_output_tokens": 9,
        "stream": False,
    }


@pytest.mark.parametrize(
    ("vendor", "extra", "sent"),
    [
        (RESPONSES, {"verbosity": "low"}, {"verbosity": "low"}),
        (ANTHROPIC, {"top_k": 5}, {"top_k": 5, "top_p": 0.5}),
        (GEMINI, {"generationConfig": {"topK": 5}}, {"generationConfig": {"topK": 5, "topP": 0.5}}),
        (BEDROCK, {"top_k": 5}, {"additionalModelRequestFields": {"top_k": 5}, "inferenceConfig": {"topP": 0.5}}),
    ],
)
async def test_extra_body_and_top_p_are_sent(vendor: Vendor, extra: dict[str, Any], sent: dict[str, Any]):
    async with VendorServer(vendor.reply("ok")) as server:
        async with vendor.against(server, extra_body=extra, top_p=0.5) as provider:
            await provider.invoke(ask())
        body = server.calls[0].body
    for name, value in sent.items():
        assert body[name] == value if not isinstance(value, dict) else value.items() <= body[name].items()


async def test_openai_calls_chat_completions_by_default():
    answer = {"choices": [{"message": {"content": "hi"}}]}
    async with VendorServer(answer) as server, RESPONSES.against(server, api="chat") as provider:
        await provider.invoke(ask())
    assert server.calls[0].path == "/chat/completions"


# -- the conversation

IMAGE = {"type": "image_url", "image_url": "data:image/png;base64,iVBORw0KGgo="}
CONVERSATION = (
    Message("user", [{"type": "text", "value": "Read"}, {"type": "file", "value": "docs/notes.md"}]),
    Message("assistant", None, tool_calls=(ToolCall("find", {"x": 1}, id="A"), ToolCall("list", [1], output={"y": 2}))),
    Message("tool", "found it", name="find"),
    Message("assistant", "So it is."),
    Message("system", "Hurry."),
    Message("user", [{"type": "text", "value": "look"}, IMAGE]),
)


@every_vendor
async def test_a_conversation_is_sent_with_its_roles_tools_and_files(vendor: Vendor, tmp_path: Path):
    (tmp_path / "notes.md").write_text("# Notes")
    async with VendorServer(vendor.reply("ok")) as server:
        async with vendor.against(server) as provider:
            await provider.invoke(ask(messages=CONVERSATION, files=(tmp_path / "notes.md",)))
        sent = server.calls[0].body
    turns = sent.get("messages") or sent.get("contents") or sent["input"]
    text = json.dumps(turns)
    in_order = ["# Notes", "find", "found it", "So it is.", "Hurry.", "look", "iVBORw0KGgo="]
    places = [text.index(word) for word in in_order]
    assert places == sorted(places)
    assert '\\"y\\": 2' in text or '\\\\\\"y\\\\\\": 2' in text
    assert "docs/notes.md" in text


@pytest.mark.parametrize("vendor", [ANTHROPIC, BEDROCK], ids=lambda vendor: vendor.provider)
async def test_tools_of_the_conversation_are_declared_where_the_api_wants_that_but_cannot_be_called(vendor: Vendor):
    async with VendorServer(vendor.reply("ok")) as server:
        async with vendor.against(server) as provider:
            await provider.invoke(ask(messages=CONVERSATION[1:]))
            await provider.invoke(ask("q"))
        looking_back, plain = (json.dumps(call.body) for call in server.calls)
    assert '"tool_choice": {"type": "none"}' in looking_back
    assert looking_back.count('"name": "find"') == 2
    assert "tool" not in plain


@every_vendor
async def test_a_part_that_cannot_be_sent_is_named(vendor: Vendor):
    messages = (Message("user", [{"type": "video", "url": "x"}]),)
    async with VendorServer(vendor.reply("ok")) as server, vendor.against(server) as provider:
        with pytest.raises(ProviderError, match="'video', which this provider does not support"):
            await provider.invoke(ask(messages=messages))
        assert server.calls == []


# -- structured output


@every_vendor
async def test_a_schema_is_sent_if_the_model_supports_it(vendor: Vendor):
    async with VendorServer(vendor.reply('{"score": 1}')) as server:
        async with vendor.against(server) as provider:
            reply = await provider.invoke(ask("q", schema=SCHEMA))
            await provider.invoke(ask("q"))
        with_schema, without = (json.dumps(call.body) for call in server.calls)
    assert reply.text == '{"score": 1}'
    assert "score" in with_schema
    assert "chema" in with_schema
    assert "chema" not in without


@pytest.mark.parametrize(
    ("vendor", "model", "setting"),
    [(ANTHROPIC, "claude-3-haiku-20240307", "auto"), (BEDROCK, "amazon.titan-text", "auto"), (GEMINI, "g", "off")],
)
async def test_no_schema_is_sent_if_unsupported_or_not_requested(vendor, model, setting):
    async with VendorServer(vendor.reply("ok")) as server:
        async with vendor.against(server, model=model, structured_output=setting) as provider:
            await provider.invoke(ask("q", schema=SCHEMA))
        assert "score" not in json.dumps(server.calls[0].body)


OPEN = {"type": "object", "properties": {"by_name": {"type": "object", "additionalProperties": {"type": "number"}}}}


@pytest.mark.parametrize(
    ("vendor", "changes", "schema"),
    [
        (ANTHROPIC, {"model": "claude-3-haiku-20240307"}, SCHEMA),
        (BEDROCK, {"model": "amazon.titan-text"}, SCHEMA),
        (GEMINI, {"structured_output": "off"}, SCHEMA),
        (ANTHROPIC, {}, OPEN),
        (RESPONSES, {}, OPEN),
    ],
)
async def test_schema_that_is_not_sent_or_would_be_changed_is_described_with_best_effort(
    vendor: Vendor, changes: dict[str, Any], schema: dict[str, Any]
):
    async with VendorServer(vendor.reply("{}")) as server:
        async with vendor.against(server, **changes) as provider:
            reply = await provider.invoke(ask("q", schema=schema, best_effort=True))
        sent = json.dumps(server.calls[0].body)
    assert sent.count("It must match this JSON Schema") == 1
    assert json.dumps(json.dumps(schema, separators=(",", ":")))[1:-1] in sent
    assert "json_schema" not in sent
    assert reply.dropped_options == ("response_schema",)


# -- unavailable targets


@pytest.mark.parametrize(
    ("provider", "module", "extra"),
    [("anthropic", "anthropic", "anthropic"), ("gemini", "google.genai", "google"), ("bedrock", "boto3", "bedrock"),
     ("openai", "openai", "openai"), ("anthropic", "pydantic_ai", "anthropic")],
)  # fmt: skip
def test_a_target_without_its_library_is_unavailable_with_install_instructions(
    provider, module, extra, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(
        "agentv.targets.providers.library.find_spec", lambda name: None if name == module else find_spec(name)
    )
    settings: dict[str, Any] = {"model": "m", "api_key": KEY, **({"api": "responses"} if provider == "openai" else {})}
    with pytest.raises(TargetUnavailableError, match=rf"pip install 'pydantic-ai-slim\[{extra}\]>="):
        make(HERE, provider, **settings)


@every_vendor
async def test_a_library_that_cannot_be_imported_should_be_reinstalled(vendor: Vendor, monkeypatch: pytest.MonkeyPatch):
    def broken(_: object) -> None:
        raise ImportError("cannot import name 'x'")

    async with VendorServer({}) as server, vendor.against(server) as provider:
        monkeypatch.setattr("agentv.targets.providers.library.LibraryProvider._open", broken)
        monkeypatch.setattr("agentv.targets.providers.bedrock.BedrockProvider._open", broken)
        with pytest.raises(ProviderError, match="its library cannot be imported: cannot import name") as caught:
            await provider.invoke(ask())
    assert "pip install --force-reinstall 'pydantic-ai-slim[" in str(caught.value.next_step)


@pytest.mark.parametrize(
    ("provider", "variable"), [("anthropic", "ANTHROPIC_API_KEY"), ("gemini", "GOOGLE_API_KEY"), ("openai", "OPENAI")]
)
def test_a_target_without_a_key_is_unavailable(provider, variable, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(variable, "of another target's process")
    settings = {"api": "responses"} if provider == "openai" else {}
    with pytest.raises(TargetUnavailableError, match=f"set `api_key` or {variable}"):
        make(HERE, provider, model="m", scope={"environment": {}}, **settings)


@pytest.mark.parametrize(
    ("vendor", "variables"),
    [
        (ANTHROPIC, ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL")),
        (GEMINI, ("GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL")),
        (RESPONSES, ("OPENAI_API_KEY", "OPENAI_BASE_URL")),
    ],
)
async def test_key_and_address_come_from_the_variables_of_the_target(
    vendor: Vendor, variables, monkeypatch: pytest.MonkeyPatch
):
    for name in variables:
        monkeypatch.setenv(name, "http://127.0.0.1:9/not-the-targets")
    async with VendorServer(vendor.reply("ok")) as server:
        environment = dict(zip(variables, (KEY, server.url), strict=True))
        settings = {"api_key": None, "base_url": None, "scope": {"environment": environment}}
        async with vendor.against(server, **settings) as provider:
            assert (await provider.invoke(ask())).text == "ok"
        assert KEY in json.dumps(dict(server.calls[0].headers))


@pytest.mark.parametrize(
    ("environment", "settings", "message"),
    [
        ({}, {"region": "eu-west-1"}, "no AWS credentials were found"),
        ({**AWS, "AWS_REGION": ""}, {"base_url": None}, "no AWS region is set"),
        (AWS, {"profile": "unknown"}, "unknown"),
    ],
)
async def test_missing_bedrock_credentials_are_reported(
    environment, settings, message, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, "/dev/null")
    async with VendorServer(bedrock_reply("ok")) as server:
        settings = {"base_url": server.url, **settings}
        provider = make(HERE, "bedrock", model="m", scope={"environment": environment}, **settings)
        with pytest.raises(ProviderError, match=message) as caught:
            await provider.invoke(ask())
        await provider.aclose()
    assert not caught.value.retryable
    assert "AWS_ACCESS_KEY_ID" in str(caught.value)


@pytest.mark.parametrize(
    ("provider", "settings"),
    [("anthropic", {"thinking_budget": 5}), ("bedrock", {"region": "a b"}), ("openai", {"api": "completions"}),
     ("gemini", {"structured_output": "json_object"}), ("gemini", {"prices": {"input": 1}})],
)  # fmt: skip
def test_invalid_settings_are_rejected(provider, settings):
    with pytest.raises(ValidationError):
        make(HERE, provider, model="m", api_key=KEY, **settings)


# -- failure


@every_vendor
@pytest.mark.parametrize(
    ("status", "retryable"), [(400, False), (401, False), (403, False), (404, False), (429, True), (529, True)]
)
async def test_a_status_is_an_error_with_the_message_of_the_server(vendor: Vendor, status: int, retryable: bool):
    error = await failure(vendor, Answer(status, {"error": {"message": "the server says no"}}, {"Retry-After": "7"}))
    assert (error.status, error.retryable, error.retry_after) == (status, retryable, 7.0)
    assert "target 't': http://127.0.0.1" in error.message
    assert f"returned HTTP {status}: the server says no" in error.message
    if status in (401, 403):
        assert "Check" in str(error)
        assert "API_KEY" in str(error) or "AWS_ACCESS_KEY_ID" in str(error)


@every_vendor
async def test_an_unknown_model_is_named(vendor: Vendor):
    error = await failure(vendor, Answer(404, {"error": {"message": "model: nope does not exist"}}))
    assert f"the server does not know '{vendor.model}'" in str(error)


async def test_the_retry_delay_in_a_google_error_body_is_respected():
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}]
    error = await failure(GEMINI, Answer(429, {"error": {"code": 429, "message": "slow down", "details": details}}))
    assert error.retry_after == 34.0


async def test_google_answers_a_wrong_key_with_400():
    error = await failure(GEMINI, Answer(400, {"error": {"message": "API key not valid."}}))
    assert "Check `api_key` (or GOOGLE_API_KEY)" in str(error)


@every_vendor
@pytest.mark.parametrize("body", [b"<!doctype html><title>Sign in</title>", b'{"content": [{"ty', b""])
async def test_a_reply_that_is_not_json_is_shown(vendor: Vendor, body: bytes):
    error = await failure(vendor, Answer(200, body, {"Content-Type": "text/html"}))
    assert "is not JSON (text/html)" in error.message
    assert body[:30].decode() in error.message
    assert not error.retryable


@every_vendor
@pytest.mark.parametrize("body", [{}, [], {"unexpected": True}, {"content": 5, "output": 5, "candidates": 5}])
async def test_a_reply_without_content_is_an_error_of_the_target(vendor: Vendor, body: Any):
    error = await failure(vendor, body)
    assert error.message.startswith("target 't': ")
    assert error.next_step
    assert not error.retryable


@every_vendor
async def test_a_plain_text_content_type_is_read_as_the_json_it_holds(vendor: Vendor):
    answer = Answer(200, vendor.reply("ok"), {"Content-Type": "text/plain"})
    async with VendorServer(answer) as server, vendor.against(server) as provider:
        assert (await provider.invoke(ask())).text == "ok"


@every_vendor
async def test_a_reset_connection_is_retryable(vendor: Vendor):
    error = await failure(vendor, Answer(reset=True))
    assert error.retryable
    assert "closed the connection before" in error.message


@every_vendor
async def test_connection_errors_name_the_server(vendor: Vendor):
    server = VendorServer({})
    with socket.socket() as taken:  # the port is reserved, and no process listens
        taken.bind(("127.0.0.1", 0))
        server._port = taken.getsockname()[1]
        async with vendor.against(server) as provider:
            with pytest.raises(ProviderError, match=f"could not connect to {server.url}") as caught:
                await provider.invoke(ask())
    assert caught.value.retryable
    assert "Check that the server is running" in str(caught.value)


@every_vendor
async def test_redirects_are_not_followed_and_do_not_get_the_key(vendor: Vendor):
    async with VendorServer(vendor.reply("stolen")) as thief:
        error = await failure(vendor, Answer(307, {}, {"Location": f"{thief.url}/x?token=hidden"}))
        assert thief.calls == []
    assert "a redirect to" in error.message
    assert "hidden" not in error.message


@every_vendor
async def test_a_key_echoed_by_the_server_is_masked_in_the_error(vendor: Vendor):
    secret = vendor.settings.get("api_key") or AWS["AWS_SECRET_ACCESS_KEY"]
    echoed = {"error": {"message": f"wrong key {secret}, and {'x' * 1990} other-secret-value"}}
    error = await failure(vendor, Answer(401, echoed), scope={"redactor": Redactor(["other-secret-value"])})
    assert secret not in str(error)
    assert "other-se" not in str(error)
    assert "wrong key [redacted]" in str(error)
    seen: BaseException | None = error
    while seen is not None:
        assert secret not in str(seen)
        seen = seen.__cause__ or seen.__context__ if not seen.__suppress_context__ else seen.__cause__


@every_vendor
async def test_a_hanging_call_ends_at_the_deadline_and_leaves_nothing_running(vendor: Vendor):
    async with VendorServer(vendor.reply("ok"), Answer(hang=True)) as server, vendor.against(server) as provider:
        await provider.invoke(ask())  # opened beforehand: importing takes its time
        busy = threading.active_count()
        gate = TargetGate(provider, TargetSettings(provider="x", timeout_seconds=0.3), name="t")
        with pytest.raises(ProviderTimeoutError):
            await gate.invoke(ask())
        await until(lambda: server.in_flight == 0)  # the server saw the client leave
        await until(lambda: threading.active_count() <= busy)


# -- connections


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not happened():
            await asyncio.sleep(0.01)


@every_vendor
async def test_calls_run_in_parallel_on_one_pool_that_is_closed(vendor: Vendor):
    async with VendorServer(vendor.reply("ok")) as server:
        server.gate = asyncio.Event()
        async with vendor.against(server) as provider:
            calls = [asyncio.create_task(provider.invoke(ask(str(n)))) for n in range(60)]
            await until(lambda: server.in_flight == 60)
            server.gate.set()
            assert [reply.text for reply in await asyncio.gather(*calls)] == ["ok"] * 60
            for _ in range(5):
                await provider.invoke(ask())
            assert server.connections == 60
        await until(lambda: not server._connections)


@every_vendor
async def test_proxies_of_the_environment_are_not_used_for_loopback(vendor: Vendor, monkeypatch: pytest.MonkeyPatch):
    async with VendorServer(vendor.reply("from the proxy")) as proxy, VendorServer(vendor.reply("direct")) as server:
        variables = dict.fromkeys(("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"), proxy.url)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        scope = {"environment": {**vendor.environment, **variables}}
        async with vendor.against(server, scope=scope) as provider:
            assert (await provider.invoke(ask())).text == "direct"
        assert proxy.calls == []
        async with vendor.against(server, scope=scope, base_url="http://model.invalid") as provider:
            assert (await provider.invoke(ask())).text == "from the proxy"


def test_settings_do_not_show_the_key():
    kind = provider_class("anthropic")
    assert kind is not None
    assert KEY not in repr(kind.Settings(provider="anthropic", model="m", api_key=KEY, headers={"X": KEY}))  # type: ignore[call-arg]


def test_naming_a_provider_imports_no_library():
    code = (
        "import sys\n"
        "from agentv.targets.registry import BUILT_IN, provider_class\n"
        "list(map(provider_class, BUILT_IN))\n"
        "heavy = {'pydantic_ai', 'anthropic', 'openai', 'google.genai', 'boto3', 'httpx2', 'genai_prices', 'aiohttp'}\n"
        "sys.exit(repr(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
