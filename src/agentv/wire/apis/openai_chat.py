"""OpenAI's chat completions: `POST /v1/chat/completions`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from agentv.messages import GenerationOptions, Message, TokenUsage, ToolCall
from agentv.wire.apis.api import (
    Api,
    ApiReply,
    ApiRequest,
    ModelReply,
    as_object,
    event_reply,
    identifier,
    json_event,
    json_reply,
    usage_of,
)
from agentv.wire.apis.fields import Fields
from agentv.wire.apis.openai import (
    LONGEST_TOKENS,
    MOST_REPLIES,
    Schema,
    both,
    call_of,
    chosen_function,
    content_of,
    format_schema,
    function_schema,
    logprob_items,
    only,
    tool_message,
)

_DONE = b"data: [DONE]\n\n"
_WITHOUT_EFFECT = (
    "metadata",
    "parallel_tool_calls",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "store",
    "user",
)
_UNUSED = ("frequency_penalty", "logit_bias", "presence_penalty", "reasoning_effort", "verbosity")


class ChatCompletions(Api):
    """Chat completions. Every reply is one choice."""

    def parse(self, path: str, body: bytes) -> ApiRequest:
        del path
        fields = Fields.of_body(body)
        fields.accept(*_WITHOUT_EFFECT)
        only([["text"]], fields, "modalities", "must be `text`; judges write text only")
        messages = tuple(_message(message) for message in fields.objects("messages"))
        if not messages:
            raise fields.wrong("messages", "a list of at least one message")
        schema = format_schema(fields.object("response_format"), nested=True)
        function = chosen_function(
            [_function(tool) for tool in fields.objects("tools")], fields.raw("tool_choice"), fields
        )
        if schema is not None and function is not None:
            raise both("response_format", "tools", fields)
        stream_options = fields.object("stream_options")
        include_usage = False
        if stream_options is not None:
            include_usage = stream_options.flag("include_usage")
            stream_options.accept("include_obfuscation")
            stream_options.end()
        request = ApiRequest(
            fields.required("model", "the name of a model or of a target"),
            messages,
            _options(fields, schema if function is None else function[1]),
            count=fields.whole("n", 1, MOST_REPLIES) or 1,
            unused=fields.unused(*_UNUSED),
            function=None if function is None else function[0],
            stream=fields.flag("stream"),
            stream_usage=include_usage,
        )
        fields.end()
        return request

    def render(self, request: ApiRequest, replies: Sequence[ModelReply], model: str) -> ApiReply:
        choices = [_choice(request, reply, index) for index, reply in enumerate(replies)]
        head = {"id": identifier("chatcmpl-"), "created": int(time.time()), "model": model}
        usage = _usage(usage_of(replies))
        if request.stream:
            return event_reply(_chunks({**head, "object": "chat.completion.chunk"}, choices, usage, request))
        return json_reply(
            {**head, "object": "chat.completion", "choices": choices, "usage": usage, "system_fingerprint": None},
            large=request.large,
        )


def _message(fields: Fields) -> Message:
    role = fields.text("role")
    if role not in ("system", "developer", "user", "assistant", "tool", "function"):
        raise fields.wrong("role", "`system`, `developer`, `user`, `assistant` or `tool`", role)
    content, name = content_of(fields, "content"), fields.text("name")
    calls: tuple[ToolCall, ...] = ()
    if role == "assistant":
        calls = tuple(_call(call) for call in fields.objects("tool_calls"))
        fields.accept("refusal", "annotations", "reasoning_content")
        only((), fields, "audio", "must be text; judges get no audio")
        only((), fields, "function_call", "is not supported; send `tool_calls`")
    call_id = fields.text("tool_call_id") if role == "tool" else None
    fields.end()
    if role in ("tool", "function"):
        return tool_message(content, call_id, name)
    if content is None and not calls and role != "assistant":
        raise fields.wrong("content", "a string or a list of text parts")
    return Message("system" if role == "developer" else role, content, name=name, tool_calls=calls)


def _call(fields: Fields) -> ToolCall:
    identity = fields.text("id")
    only(["function"], fields, "type", "must be `function`")
    function = fields.object("function")
    if function is None:
        raise fields.wrong("function", "an object with `name` and `arguments`")
    name, arguments = function.required("name", "the name of the function"), function.text("arguments")
    function.end()
    fields.accept("index")
    fields.end()
    return call_of(name, arguments, identity)


def _function(tool: Fields) -> tuple[str, Schema]:
    only(["function"], tool, "type", "must be `function`; hosted and custom tools are not supported")
    function = tool.object("function")
    if function is None:
        raise tool.wrong("function", "an object with `name` and `parameters`")
    tool.end()
    named = function_schema(function)
    function.end()
    return named


def _options(fields: Fields, schema: Schema | None) -> GenerationOptions:
    wants_logprobs = fields.flag("logprobs")
    alternatives = fields.whole("top_logprobs", 0, 20)
    longest, newer = (fields.whole(name, 1, LONGEST_TOKENS) for name in ("max_tokens", "max_completion_tokens"))
    return GenerationOptions(
        temperature=fields.number("temperature", 0, 2),
        top_p=fields.number("top_p", 0, 1),
        max_output_tokens=longest if newer is None else newer,
        seed=fields.whole("seed", -(2**63), 2**63 - 1),
        stop=fields.words("stop"),
        response_schema=schema,
        logprobs=(alternatives or 0) if wants_logprobs else None,
    )


# -- replies


def _choice(request: ApiRequest, reply: ModelReply, index: int) -> dict[str, Any]:
    text = as_object(reply.text) if request.wants_json else reply.text
    function, finish = request.function, reply.ending
    message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
    if function is not None:
        call = {"name": function.name, "arguments": text}
        message |= {"content": None, "tool_calls": [{"id": identifier("call_"), "type": "function", "function": call}]}
        if finish == "stop" and not function.named:
            finish = "tool_calls"
    tokens = reply.logprobs if request.options.logprobs is not None and text == reply.text else None
    return {
        "index": index,
        "message": message,
        "finish_reason": finish,
        "logprobs": None if tokens is None else {"content": logprob_items(tokens), "refusal": None},
    }


def _usage(usage: TokenUsage) -> dict[str, Any]:
    prompt = usage.input + (usage.cached or 0)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": usage.output,
        "total_tokens": prompt + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached or 0},
    }


def _chunks(
    head: dict[str, Any], choices: list[dict[str, Any]], usage: dict[str, Any], request: ApiRequest
) -> Iterator[bytes]:
    """The reply as a stream: the whole text of a choice is one chunk, because targets reply with their whole text."""
    common = {**head, "system_fingerprint": None, **({"usage": None} if request.stream_usage else {})}
    for choice in choices:
        index, message = choice["index"], choice["message"]
        calls = [{"index": at, **call} for at, call in enumerate(message.get("tool_calls", ()))]
        delta = {"role": "assistant", "content": message["content"], **({"tool_calls": calls} if calls else {})}
        first = {"index": index, "delta": delta, "logprobs": choice["logprobs"], "finish_reason": None}
        last = {"index": index, "delta": {}, "logprobs": None, "finish_reason": choice["finish_reason"]}
        yield json_event({**common, "choices": [first]}, large=request.large)
        yield json_event({**common, "choices": [last]}, large=request.large)
    if request.stream_usage:
        yield json_event({**common, "choices": [], "usage": usage}, large=request.large)
    yield _DONE
