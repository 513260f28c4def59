"""OpenAI's responses: `POST /v1/responses`. Nothing is stored, so a request contains the whole conversation."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from agentv.messages import GenerationOptions, Message, TokenUsage
from agentv.wire.apis.api import (
    CUT_OFF,
    FILTERED,
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

_WITHOUT_EFFECT = (
    "max_tool_calls",
    "parallel_tool_calls",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "store",
    "truncation",
    "user",
)
_UNUSED = ("reasoning",)
_STORED = "is not supported: nothing is stored; send the whole conversation as `input`"
_LOGPROBS = "message.output_text.logprobs"
_SENT_BACK = ("temperature", "top_p", "max_output_tokens", "tool_choice", "tools", "text", "metadata", "instructions")


class Responses(Api):
    """Responses. There is one judge call per request."""

    def parse(self, path: str, body: bytes) -> ApiRequest:
        del path
        fields = Fields.of_body(body)
        fields.accept(*_WITHOUT_EFFECT)
        for name in ("previous_response_id", "conversation", "prompt"):
            only((), fields, name, _STORED)
        only([False], fields, "background", "is not supported; the reply is sent when it is complete")
        instructions = fields.text("instructions")
        messages = (*(() if not instructions else (Message("system", instructions),)), *_input(fields))
        if not any(message.role != "system" for message in messages) and not fields.raw("input"):
            raise fields.wrong("input", "a string or a list of at least one item")
        text = fields.object("text")
        schema: Schema | None = None
        unused_text: tuple[str, ...] = ()
        if text is not None:
            schema = format_schema(text.object("format"), nested=False)
            unused_text = text.unused("verbosity")
            text.end()
        function = chosen_function(
            [_function(tool) for tool in fields.objects("tools")], fields.raw("tool_choice"), fields
        )
        if schema is not None and function is not None:
            raise both("text.format", "tools", fields)
        stream_options = fields.object("stream_options")
        if stream_options is not None:
            stream_options.accept("include_obfuscation")
            stream_options.end()
        request = ApiRequest(
            fields.required("model", "the name of a model or of a target"),
            messages,
            _options(fields, schema if function is None else function[1]),
            unused=(*fields.unused(*_UNUSED), *(f"text.{name}" for name in unused_text)),
            function=None if function is None else function[0],
            stream=fields.flag("stream"),
            echo={name: fields.raw(name) for name in _SENT_BACK},
        )
        fields.end()
        return request

    def render(self, request: ApiRequest, replies: Sequence[ModelReply], model: str) -> ApiReply:
        (reply,) = replies
        response = _response(request, reply, model)
        if request.stream:
            return event_reply(_events(response, large=request.large))
        return json_reply(response, large=request.large)


def _input(fields: Fields) -> list[Message]:
    value = fields.raw("input")
    if isinstance(value, str):
        return [Message("user", value)]
    if not isinstance(value, list):
        raise fields.wrong("input", "a string or a list of items")
    messages: list[Message] = []
    for item in fields.objects("input"):
        message = _item(item)
        last = messages[-1] if messages else None
        if message is None:
            continue
        if message.tool_calls and last is not None and last.role == "assistant":
            # Calls are items of their own there, and part of the assistant's message here.
            joined = Message("assistant", last.content, tool_calls=(*last.tool_calls, *message.tool_calls))
            messages[-1] = joined
        else:
            messages.append(message)
    return messages


def _item(item: Fields) -> Message | None:
    """A message of the conversation; None for an item that says nothing to a judge."""
    kind = item.text("type") or "message"
    item.accept("id", "status", "phase")
    if kind == "message":
        role = item.text("role")
        if role not in ("system", "developer", "user", "assistant"):
            raise item.wrong("role", "`system`, `developer`, `user` or `assistant`", role)
        content = content_of(item, "content")
        if content is None:
            raise item.wrong("content", "a string or a list of text parts")
        item.end()
        return Message("system" if role == "developer" else role, content)
    if kind == "function_call":
        name = item.required("name", "the name of the function")
        call = call_of(name, item.text("arguments"), item.text("call_id"))
        item.accept("namespace")
        item.end()
        return Message("assistant", None, tool_calls=(call,))
    if kind == "function_call_output":
        message = tool_message(content_of(item, "output"), item.text("call_id"))
        item.end()
        return message
    if kind == "reasoning":
        return None
    raise item.unsupported("type", f"{kind!r} is not supported; send messages, function calls and their outputs")


def _function(tool: Fields) -> tuple[str, Schema]:
    if tool.text("type") != "function":
        raise tool.unsupported("type", "must be `function`; hosted and custom tools are not supported")
    named = function_schema(tool)
    tool.accept("defer_loading")
    tool.end()
    return named


def _options(fields: Fields, schema: Schema | None) -> GenerationOptions:
    include = fields.words("include")
    alternatives = fields.whole("top_logprobs", 0, 20)
    return GenerationOptions(
        temperature=fields.number("temperature", 0, 2),
        top_p=fields.number("top_p", 0, 1),
        max_output_tokens=fields.whole("max_output_tokens", 1, LONGEST_TOKENS),
        response_schema=schema,
        logprobs=(alternatives or 0) if _LOGPROBS in include else None,
    )


# -- replies


def _response(request: ApiRequest, reply: ModelReply, model: str) -> dict[str, Any]:
    incomplete = {CUT_OFF: "max_output_tokens", FILTERED: "content_filter"}.get(reply.ending)
    status = "completed" if incomplete is None else "incomplete"
    echo = request.echo
    return {
        "id": identifier("resp_"),
        "object": "response",
        "created_at": int(time.time()),
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None if incomplete is None else {"reason": incomplete},
        "instructions": echo.get("instructions"),
        "max_output_tokens": echo.get("max_output_tokens"),
        "metadata": echo.get("metadata") or {},
        "model": model,
        "output": [_output(request, reply, status)],
        "parallel_tool_calls": False,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "temperature": echo.get("temperature"),
        "text": echo.get("text") or {"format": {"type": "text"}},
        "tool_choice": echo.get("tool_choice") or "auto",
        "tools": echo.get("tools") or [],
        "top_p": echo.get("top_p"),
        "truncation": "disabled",
        "usage": _usage(usage_of([reply])),
        "user": None,
    }


def _output(request: ApiRequest, reply: ModelReply, status: str) -> dict[str, Any]:
    text = as_object(reply.text) if request.wants_json else reply.text
    if request.function is not None:
        return {
            "type": "function_call",
            "id": identifier("fc_"),
            "call_id": identifier("call_"),
            "name": request.function.name,
            "arguments": text,
            "status": status,
        }
    wants = request.options.logprobs is not None and reply.logprobs is not None and text == reply.text
    part = {
        "type": "output_text",
        "text": text,
        "annotations": [],
        "logprobs": logprob_items(reply.logprobs or ()) if wants else [],
    }
    return {"type": "message", "id": identifier("msg_"), "role": "assistant", "status": status, "content": [part]}


def _usage(usage: TokenUsage) -> dict[str, Any]:
    prompt = usage.input + (usage.cached or 0)
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": usage.cached or 0, "cache_write_tokens": 0},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": prompt + usage.output,
    }


def _events(response: dict[str, Any], *, large: bool) -> Iterator[bytes]:
    """The response as a stream of events; the whole text or all arguments are one of them."""
    (item,) = response["output"]
    begun = {**response, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    events = [
        ("response.created", {"response": begun}),
        ("response.in_progress", {"response": begun}),
        *(_call_events(item) if item["type"] == "function_call" else _text_events(item)),
        ("response.output_item.done", {"output_index": 0, "item": item}),
        (f"response.{response['status']}", {"response": response}),
    ]
    for number, (name, data) in enumerate(events):
        yield json_event({"type": name, "sequence_number": number, **data}, large=large, name=name)


def _call_events(item: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    where = {"item_id": item["id"], "output_index": 0}
    arguments = item["arguments"]
    return [
        (
            "response.output_item.added",
            {"output_index": 0, "item": {**item, "arguments": "", "status": "in_progress"}},
        ),
        ("response.function_call_arguments.delta", {**where, "delta": arguments}),
        ("response.function_call_arguments.done", {**where, "name": item["name"], "arguments": arguments}),
    ]


def _text_events(item: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    (part,) = item["content"]
    where = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    text = {"text": part["text"], "logprobs": part["logprobs"]}
    return [
        ("response.output_item.added", {"output_index": 0, "item": {**item, "content": [], "status": "in_progress"}}),
        ("response.content_part.added", {**where, "part": {**part, "text": "", "logprobs": []}}),
        ("response.output_text.delta", {**where, "delta": part["text"], "logprobs": part["logprobs"]}),
        ("response.output_text.done", {**where, **text}),
        ("response.content_part.done", {**where, "part": part}),
    ]
