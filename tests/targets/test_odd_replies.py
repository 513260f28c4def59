"""Unusual replies that vendors, and servers that imitate them, are known to send."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from agentv.errors import ProviderError
from agentv.messages import TokenUsage, ToolCall
from agentv.targets.gate import TargetGate
from agentv.targets.provider import CallHooks, Provider, Reply, Request, TargetSettings
from agentv.testing.model_server import Failure, FakeModelServer, completion
from tests.conftest import Project
from tests.targets.support import ask, make
from tests.targets.test_library import ANTHROPIC, BEDROCK, RESPONSES, VENDORS, Vendor, every_vendor
from tests.targets.test_library import failure as library_failure
from tests.targets.test_openai_compatible import client, failure
from tests.targets.vendor_server import Answer, VendorServer, responses_reply
from tests.targets.virtual import VirtualTime


async def reply_to(body: Any, **settings: Any) -> Reply:
    async with FakeModelServer(body) as server, client(server, **settings) as provider:
        reply: Reply = await provider.invoke(ask())
    return reply


def said(content: Any, finish: str = "stop", **message: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"content": content, **message}, "finish_reason": finish}]}


# -- content of replies


@pytest.mark.parametrize("content", ["", "Par"])
async def test_an_error_inside_a_choice_is_an_error_and_not_an_answer(content):
    choice = {
        "error": {"code": 502, "message": "Provider disconnected"},
        "message": {"content": content},
        "finish_reason": "error",
    }
    async with FakeModelServer({"choices": [choice]}) as server:
        error = await failure(server)
    assert (error.status, error.retryable) == (502, True)
    assert "Provider disconnected" in error.message


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"code": "429"}, 429),
        ({"code": "rate_limit_exceeded"}, 429),
        ({"code": None, "type": "overloaded_error"}, 529),
    ],
)
async def test_the_status_in_an_error_body_can_be_a_string_or_a_code(fields, status):
    async with FakeModelServer({"error": {"message": "slow down", **fields}}) as server:
        error = await failure(server)
    assert (error.status, error.retryable) == (status, True)


@pytest.mark.parametrize("content", [None, ""])
async def test_a_refusal_is_the_answer_if_there_is_no_content(content):
    reply = await reply_to(said(content, refusal="I cannot."))
    assert (reply.text, reply.finish_reason) == ("I cannot.", "refusal")


async def test_an_empty_text_is_an_answer_unless_there_was_no_room_for_one():
    assert (await reply_to(said(""))).text == ""
    async with FakeModelServer(said("", "length")) as server:
        error = await failure(server)
    assert "neither text nor tool calls (finish_reason: length)" in error.message
    assert "max_output_tokens" in str(error)


@pytest.mark.parametrize(
    ("message", "call"),
    [
        ({"function_call": {"name": "f", "arguments": '{"a": 1}'}}, ToolCall("f", {"a": 1})),
        (
            {"tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "f", "input": "a b"}}]},
            ToolCall("f", "a b", id="c"),
        ),
    ],
)
async def test_tool_calls_of_other_shapes_are_understood(message, call):
    assert (await reply_to(said(None, **message))).output_messages[0].tool_calls == (call,)


@pytest.mark.parametrize("calls", [5, {"name": "f"}])
async def test_tool_calls_that_are_not_a_list_are_an_error(calls):
    async with FakeModelServer(said("x", tool_calls=calls)) as server:
        assert "`tool_calls` of the reply must be a list" in (await failure(server)).message


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": "10", "completion_tokens": "2"}, TokenUsage(10, 2)),
        ({"prompt_tokens": 10.0, "completion_tokens": None}, TokenUsage(10, 0)),
        ({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": "4"}}, TokenUsage(6, 0, 4)),
        ({"prompt_tokens": "ten", "completion_tokens": 2}, None),
        ({"prompt_tokens": 1.5, "completion_tokens": 2}, None),
        ({"prompt_tokens": True, "completion_tokens": 2}, None),
    ],
)
async def test_tokens_are_counted_however_their_number_is_written(usage, expected):
    assert (await reply_to({**said("x"), "usage": usage})).token_usage == expected


@pytest.mark.parametrize("status", [200, 201, 203])
async def test_a_reply_with_another_good_status_and_a_byte_order_mark_is_read(status):
    body = b"\xef\xbb\xbf" + json.dumps(completion("ok")).encode()
    assert (await reply_to(Failure(status, body=body))).text == "ok"


async def test_unrequested_streams_are_distinguished_from_web_pages():
    body = b'data: {"choices": [{"delta": {"content": "Par"}}]}\n\ndata: [DONE]\n\n'
    async with FakeModelServer(Failure(200, body=body, headers={"Content-Type": "text/event-stream"})) as server:
        error = await failure(server)
    assert "The server streams its replies" in str(error)


# -- the same through libraries


@every_vendor
async def test_libraries_accept_other_success_statuses_and_a_byte_order_mark(vendor: Vendor):
    answer = Answer(201, b"\xef\xbb\xbf" + json.dumps(vendor.reply("ok")).encode())
    async with VendorServer(answer) as server, vendor.against(server) as provider:
        assert (await provider.invoke(ask())).text == "ok"


@every_vendor
async def test_a_reply_without_counts_is_an_answer_with_unknown_usage(vendor: Vendor):
    body = {name: value for name, value in vendor.reply("ok").items() if name not in ("usage", "usageMetadata")}
    async with VendorServer(body) as server, vendor.against(server) as provider:
        reply = await provider.invoke(ask())
    assert (reply.text, reply.token_usage, reply.cost_usd) == ("ok", None, None)


@every_vendor
async def test_an_error_body_with_http_200_is_an_error_for_libraries(vendor: Vendor):
    error = await library_failure(vendor, {"error": {"code": 503, "message": "overloaded"}})
    assert (error.status, error.retryable) == (503, True)


@pytest.mark.parametrize("vendor", [ANTHROPIC, BEDROCK], ids=lambda vendor: vendor.provider)
async def test_a_model_that_has_nothing_to_say_gives_an_empty_answer(vendor: Vendor):
    async with VendorServer(vendor.reply("")) as server, vendor.against(server) as provider:
        assert (await provider.invoke(ask())).text == ""


async def test_a_part_of_a_kind_that_is_not_known_yet_is_passed_over():
    body = {**ANTHROPIC.reply(""), "content": [{"type": "of_tomorrow", "x": 1}, {"type": "text", "text": "ok"}]}
    async with VendorServer(body) as server, ANTHROPIC.against(server) as provider:
        assert (await provider.invoke(ask())).text == "ok"


async def test_a_refusal_through_responses_is_the_answer():
    parts = [{"type": "refusal", "refusal": "I cannot."}]
    message = {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": parts}
    body = {**responses_reply(""), "output": [message]}
    async with VendorServer(body) as server, RESPONSES.against(server) as provider:
        reply = await provider.invoke(ask())
    assert (reply.text, reply.finish_reason) == ("I cannot.", "refusal")


# -- headers


@pytest.mark.parametrize("name", ["Authorization", "authorization"])
async def test_a_header_of_the_target_replaces_ours_however_it_is_spelled(name):
    async with FakeModelServer("ok", api_key="other") as server:
        headers = {name: "Bearer other", "user-agent": "me"}
        async with client(server, api_key="sk-mine-0123456789", headers=headers) as provider:
            assert (await provider.invoke(ask())).text == "ok"
        received = server.requests[0].headers  # one that was sent twice would be joined with a comma
    assert (received["User-Agent"], received["Authorization"]) == ("me", "Bearer other")


@every_vendor
async def test_headers_of_the_target_override_those_of_a_library(vendor: Vendor):
    headers = {"user-agent": "me", "X-Team": "équipe"}
    async with VendorServer(vendor.reply("ok")) as server, vendor.against(server, headers=headers) as provider:
        assert (await provider.invoke(ask())).text == "ok"
        sent = {name.lower(): value for name, value in server.calls[0].headers.items()}
    assert (sent["user-agent"], sent["x-team"]) == ("me", "équipe")


# -- time, rate, money


class Slow(Provider):
    """Slow to prepare, immediate to answer."""

    def __init__(self) -> None:
        self.prepared = 0

    async def prepare(self) -> None:
        await asyncio.sleep(0.1)
        self.prepared += 1

    async def invoke(self, request: Request) -> Reply:
        return Reply.of_text(f"{request.question} {self.prepared}")


async def test_loading_a_provider_does_not_count_towards_the_deadline():
    limits = TargetSettings(provider="x", timeout_seconds=0.05, total_timeout_seconds=0.05)
    assert (await TargetGate(Slow(), limits, name="t").invoke(ask())).text == "q 1"


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.provider)
async def test_a_library_is_loaded_before_the_first_call_begins(vendor: Vendor):
    async with VendorServer(vendor.reply("ok")) as server, vendor.against(server) as provider:
        gate = TargetGate(provider, TargetSettings(provider="x"), name="t")
        loaded: list[bool] = []
        library = getattr(provider, "_responses", provider)
        await gate.call(ask(), CallHooks(on_start=lambda: loaded.append(library._model is not None)))
    assert loaded == [True]


SCHEMA = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
NOT_SUPPORTED = Failure(400, body=b'{"error": {"message": "response_format is not supported"}}')


async def test_the_fallback_request_without_a_schema_respects_the_rate_limit():
    time = VirtualTime()
    asked: list[tuple[float, bool]] = []

    def answer(body: Any) -> str | Failure:
        asked.append((time.now - 1000.0, "response_format" in body))
        return NOT_SUPPORTED if "response_format" in body else "{}"

    async with FakeModelServer(answer) as server, client(server) as provider:
        limits = TargetSettings(provider="x", requests_per_minute=6)
        gate = TargetGate(provider, limits, name="t", sleep=time.sleep, clock=time.clock)
        calls = [asyncio.create_task(gate.invoke(ask(schema=SCHEMA))) for _ in range(3)]
        while not all(call.done() for call in calls):
            await asyncio.sleep(0.01)
            await time.run_out()
        assert [(await call).text for call in calls] == ["{}"] * 3
    starts = [start for start, _ in asked]
    assert all(later - start >= 10.0 for start, later in itertools.pairwise(starts))
    assert [wanted for _, wanted in asked].count(False) == 3


async def test_a_reply_that_cannot_be_used_is_paid_for(project: Project):
    body = {**said(None, "length"), "usage": {"prompt_tokens": 10, "completion_tokens": 100}}
    cases = "".join(f"  - {{id: c{number}, input: q}}\n" for number in range(4))
    async with FakeModelServer(body) as server:
        settings = f"provider: openai_compatible, model: m, base_url: '{server.url}', prices: {{input: 10, output: 10}}"
        project.write("agentv.config.yaml", f"targets:\n  t: {{{settings}}}\n")
        project.write("s.yaml", f"execution: {{evaluators: [{{type: contains, value: x}}]}}\nevalcases:\n{cases}")
        arguments = ("eval", "s.yaml", "--run-dir", "run", "--max-cost", "0.0025", "--json")
        done = await asyncio.to_thread(project.run, *arguments)
        assert server.calls == 2, done.stderr
    directory: Path = project.root / "run"
    rows = [json.loads(line) for line in (directory / "results.jsonl").read_text().splitlines()]
    assert [row["cost_usd"] for row in rows] == pytest.approx([0.0011, 0.0011])
    assert rows[0]["token_usage"] == {"input": 10, "output": 100}
    assert rows[0]["error"]["stage"] == "target"
    assert json.loads((directory / "run.json").read_text())["budget"]["spent_usd"] == pytest.approx(0.0022)


# -- proxies and connections


async def unreachable(url: str, **environment: str) -> ProviderError:
    provider = make(Path(), "openai_compatible", model="m", base_url=url, scope={"environment": environment})
    with pytest.raises(ProviderError) as caught:
        await provider.invoke(ask())
    await provider.aclose()
    return caught.value


async def test_a_proxy_without_a_scheme_is_http_and_gets_credentials():
    async with FakeModelServer("through") as proxy:
        environment = {"HTTP_PROXY": proxy.url.removeprefix("http://").removesuffix("/v1")}
        scope = {"environment": environment}
        provider = make(Path(), "openai_compatible", model="m", base_url="http://model.invalid/v1", scope=scope)
        assert (await provider.invoke(ask())).text == "through"
        await provider.aclose()
        assert proxy.requests[0].headers["User-Agent"].startswith("agentv/")


@pytest.mark.parametrize(
    ("proxy", "words", "retryable"),
    [
        ("http://user:password-of-mine@127.0.0.1:9", "through the proxy http://127.0.0.1:9: Connection refused", True),
        ("http://user:password-of-mine@proxy.invalid:9", "through the proxy http://proxy.invalid:9: ", True),
        ("socks5://127.0.0.1:9", "through the proxy socks5://127.0.0.1:9: its URL must look like", False),
    ],
)
async def test_proxy_errors_name_the_proxy_without_its_password(proxy, words, retryable):
    error = await unreachable("https://model.invalid/v1", HTTPS_PROXY=proxy)
    assert words in error.message
    assert "password-of-mine" not in str(error)
    assert "Check HTTPS_PROXY" in str(error)
    assert error.retryable is retryable


async def test_a_proxy_that_refuses_is_quoted():
    async with FakeModelServer() as proxy:  # answers 404 to CONNECT
        error = await unreachable("https://model.invalid/v1", HTTPS_PROXY=proxy.url.removesuffix("/v1"))
    assert "through the proxy" in error.message
    assert "it answered HTTP 404" in error.message
    assert not error.retryable


async def test_a_refused_connection_is_reported_with_the_system_error():
    assert "/v1/chat/completions: Connection refused" in (await unreachable("http://127.0.0.1:9/v1")).message


async def test_a_server_without_tls_is_an_error_with_a_next_step():
    async with FakeModelServer() as server:
        url = server.url.replace("http:", "https:")
        error = await unreachable(url)
    assert f"the TLS connection to {url}/chat/completions failed" in error.message
    assert "must start with http://" in str(error)


# -- secrets


@pytest.mark.parametrize(("provider", "name"), [("anthropic", "ANTHROPIC_AUTH_TOKEN"), ("openai", "OPENAI_ADMIN_KEY")])
async def test_variables_of_vendor_libraries_are_hidden_from_commands(project: Project, provider: str, name: str):
    config = f"targets:\n  model: {{provider: {provider}, model: m, api_key: k}}\n"
    project.write("agentv.config.yaml", f"{config}  t: {{provider: cli, command: [sh, -c, 'echo seen=${name}.']}}\n")
    project.write("s.yaml", "evalcases: [{id: a, input: q, evaluators: [{type: equals, value: seen=.}]}]\n")
    env = {name: "token-0123456789"}
    done = await asyncio.to_thread(project.run, "eval", "s.yaml", "--target", "t", "--json", env=env)
    assert json.loads(done.stdout)["passed"] == 1, done.stderr
