"""The vectors of `conformance/apis.json`: requests as libraries send them, their judge calls, and the replies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from anthropic.types import Message as AnthropicMessage
from google.genai.types import GenerateContentResponse
from openai.types import CreateEmbeddingResponse
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response as OpenAIResponse
from openai.types.responses import ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter

from agentv.evidence import JudgeCallRecord
from agentv.judge.proxy import JudgeProxy
from agentv.judge.recording import Recording
from agentv.messages import TokenLogprob, TokenUsage
from agentv.targets.provider import Reply
from agentv.wire.apis.registry import APIS
from tests.judge.support import Embedder, Judge, Response, make_session, request, send

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "conformance" / "apis.json").read_text(encoding="utf-8")
)
GOOD = [vector for vector in VECTORS if "error" not in vector]
BAD = [vector for vector in VECTORS if "error" in vector]
TYPES: Mapping[str, type[BaseModel]] = {
    "/v1/chat/completions": ChatCompletion,
    "/chat/completions": ChatCompletion,
    "/v1/responses": OpenAIResponse,
    "/responses": OpenAIResponse,
    "/v1/embeddings": CreateEmbeddingResponse,
    "/v1/messages": AnthropicMessage,
    "/v1beta": GenerateContentResponse,
}
"""The types of the vendors' clients, by the beginning of the path."""
EVENTS: Mapping[str, TypeAdapter[Any]] = {
    "/v1/chat/completions": TypeAdapter(ChatCompletionChunk),
    "/v1/responses": TypeAdapter(ResponseStreamEvent),
}


def reply_of(scripted: Any) -> Reply:
    """The judge's reply in a vector: text, or an object with the text and more."""
    if isinstance(scripted, str):
        return Reply.of_text(scripted)
    reply = Reply.of_text(scripted["text"])
    usage, tokens = scripted.get("usage"), scripted.get("logprobs")
    return Reply(
        reply.output_messages,
        token_usage=None if usage is None else TokenUsage.from_dict(usage),
        finish_reason=scripted.get("finish_reason"),
        logprobs=None if tokens is None else tuple(map(TokenLogprob.from_dict, tokens)),
    )


def at(body: Any, pointer: str) -> Any:
    for step in pointer.split("/")[1:]:
        body = body[int(step)] if isinstance(body, list) else body[step]
    return body


def body_of(reply: Response, vector: Mapping[str, Any]) -> Any:
    """The object in a reply, or the list of those in the events of a stream."""
    if vector["body"].get("stream") is not True:
        return reply.json
    assert reply.headers["content-type"].startswith("text/event-stream")
    lines = [line.removeprefix("data: ") for line in reply.body.decode().splitlines() if line.startswith("data: ")]
    if vector["path"] == "/v1/chat/completions":
        assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("vector", GOOD, ids=lambda vector: vector["name"])
async def test_request_becomes_judge_calls_and_the_reply_has_the_form_of_the_api(vector: dict[str, Any]) -> None:
    embeds = vector["path"].endswith("/embeddings")
    replies = iter(vector["replies"])
    judge, vectors = Judge(lambda _: reply_of(next(replies))), Embedder()
    records: list[JudgeCallRecord] = []
    recording = Recording(records.append)
    session = make_session(judge, others={"vectors": vectors}, embeddings="vectors", recording=recording)
    async with JudgeProxy(session) as proxy:
        reply = await send(proxy, request(proxy, "POST", vector["path"], vector["body"]))
    assert reply.status == 200, reply.body
    ledger = session.ledger.to_dict()["embeddings"] if embeds else session.ledger.to_dict()
    assert ledger["call_count"] == vector["count"]
    assert len(judge.requests) + len(vectors.requests) == vector["count"]
    for sent in [*judge.requests, *vectors.requests]:
        assert [message.to_dict() for message in sent.messages] == vector["messages"]
        assert sent.options.to_dict() == vector["options"]
    body = body_of(reply, vector)
    for pointer, value in vector["reply"].items():
        assert at(body, pointer) == value, pointer
    assert ledger["models"] == {vector["model"]: {"vectors" if embeds else "strict": vector["count"]}}
    assert {record.asked_model for record in records} == {vector["model"]}
    assert sorted(records[0].dropped_options or {}) == vector.get("dropped", [])
    if vector["body"].get("stream") is True:
        for event in body:
            EVENTS[vector["path"]].validate_python(event, strict=True)
    elif vector["body"].get("encoding_format") != "base64":  # the client decodes that before it has the type
        known = next(type_ for path, type_ in TYPES.items() if vector["path"].startswith(path))
        known.model_validate(body, strict=known not in (AnthropicMessage, GenerateContentResponse))


@pytest.mark.parametrize("vector", BAD, ids=lambda vector: vector["name"])
async def test_request_that_no_judge_can_answer_is_rejected_and_costs_no_call(vector: dict[str, Any]) -> None:
    expected = vector["error"]
    async with JudgeProxy(make_session()) as proxy:
        reply = await send(proxy, request(proxy, "POST", vector["path"], vector["body"]))
        assert proxy.session.remaining == proxy.session.max_calls
    error = reply.json["error"]
    assert reply.status == expected["status"], error
    assert reply.headers["x-should-retry"] == "false"
    for text in expected["message_has"]:
        assert text in error["message"]
    if vector["path"].startswith("/v1beta"):
        assert error["details"][0]["reason"] == expected["code"].upper()
        return
    assert error["code"] == expected["code"]
    if not vector["path"].startswith("/v1/messages"):
        assert set(error) == {"message", "type", "param", "code"}
        assert error["param"] == expected["param"]


def test_vectors_cover_every_api() -> None:
    covered = {"/v1beta/models/{}" if vector["path"].startswith("/v1beta") else vector["path"] for vector in VECTORS}
    assert covered >= set(APIS) - {"/v1/models/{}", "/v1alpha/models/{}", "/embeddings"}
