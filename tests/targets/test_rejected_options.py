"""Options of client libraries that a model rejects: the request is sent again without them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentv.errors import ProviderError
from agentv.messages import GenerationOptions
from agentv.targets.provider import NO_HOOKS, Request
from agentv.targets.providers.rejected_options import rejected_option
from agentv.testing.model_server import Failure, FakeModelServer
from tests.targets.support import make
from tests.targets.test_library import ANTHROPIC
from tests.targets.vendor_server import Answer, VendorServer

OPTIONS = GenerationOptions(temperature=0.01, top_p=0.1, max_output_tokens=9, stop=("END",), logprobs=2)
REASONING = "Unsupported value: 'temperature' does not support 0.01 with this model. Only the default (1) is supported."
BOTH = "`temperature` and `top_p` cannot both be specified for this model. Please use only one."


@pytest.mark.parametrize(
    ("message", "option"),
    [
        (REASONING, "temperature"),
        ("Unsupported parameter: 'logprobs' is not supported with this model.", "logprobs"),
        ("Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens'.", "max_output_tokens"),
        (BOTH, "top_p"),
        ("Logprobs is not enabled for models/gemini-2.5-flash", "logprobs"),
        ("Unsupported parameter: 'seed' is not supported with this model.", None),
        ("temperature must be from 0 to 1", None),
        ("Unsupported parameter: 'reasoning'", None),
    ],
)
def test_rejected_option_is_known_from_the_message_of_the_server(message: str, option: str | None) -> None:
    shown = f"target 't': http://stop.example/v1 returned HTTP 400: {message}"
    assert rejected_option(ProviderError(shown, status=400), OPTIONS) == option
    assert rejected_option(ProviderError(shown, status=500), OPTIONS) is None


async def test_options_that_a_model_rejects_are_left_out_with_best_effort() -> None:
    def answer(body: Any) -> Any:
        for field, message in (("temperature", REASONING), ("logprobs", "'logprobs' is not supported with this model")):
            if field in body:
                return Failure(400, body=json.dumps({"error": {"message": message}}).encode())
        return "yes"

    asked = Request("q", options=OPTIONS, best_effort=True)
    async with FakeModelServer(answer) as server:
        target = make(Path(), "openai_compatible", model="m", base_url=server.url)
        for _ in range(2):
            reply = await target.call(asked, NO_HOOKS)
            assert (reply.text, reply.dropped_options) == ("yes", ("temperature", "logprobs"))
        sent = [request.body for request in server.requests]
        with pytest.raises(ProviderError, match="'temperature' does not support"):
            await target.call(Request("q", options=OPTIONS), NO_HOOKS)
        await target.aclose()
    assert ["temperature" in body for body in sent] == [True, False, False, False]
    assert ["logprobs" in body for body in sent] == [True, True, False, False]
    assert all(body["top_p"] == 0.1 for body in sent)


async def test_one_of_two_options_that_exclude_each_other_is_left_out() -> None:
    rejected = Answer(400, {"type": "error", "error": {"type": "invalid_request_error", "message": BOTH}})
    options = GenerationOptions(temperature=0.01, top_p=0.1)
    async with VendorServer(rejected, ANTHROPIC.reply("yes")) as server, ANTHROPIC.against(server) as provider:
        reply = await provider.call(Request("q", options=options, best_effort=True), NO_HOOKS)
        assert [(call.body.get("temperature"), call.body.get("top_p")) for call in server.calls] == [
            (0.01, 0.1),
            (0.01, None),
        ]
    assert (reply.text, reply.dropped_options) == ("yes", ("top_p",))


@pytest.mark.parametrize("mode", ["auto", "json_schema"])
@pytest.mark.parametrize("message", ["Invalid schema for response_format 'answer'", "Failed to parse grammar"])
async def test_invalid_schema_does_not_end_structured_output_for_other_requests(mode: str, message: str) -> None:
    def answer(body: Any) -> Any:
        if body.get("response_format", {}).get("json_schema", {}).get("schema") == {"type": "objekt"}:
            return Failure(400, body=json.dumps({"error": {"message": message}}).encode())
        return "{}"

    bad, good = ({"type": "objekt"}, {"type": "object"})
    async with FakeModelServer(answer) as server:
        target = make(Path(), "openai_compatible", model="m", base_url=server.url, structured_output=mode)
        options = [GenerationOptions(response_schema=schema) for schema in (bad, good)]
        described = await target.call(Request("q", options=options[0], best_effort=True), NO_HOOKS)
        enforced = await target.call(Request("q", options=options[1]), NO_HOOKS)
        formats = ["response_format" in request.body for request in server.requests]
        await target.aclose()
    assert formats == [True, False, True]
    assert (described.dropped_options, enforced.dropped_options) == (("response_schema",), ())
