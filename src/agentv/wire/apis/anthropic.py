"""Anthropic's messages: `POST /v1/messages`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from agentv.jsonio import dump_line
from agentv.messages import GenerationOptions, Message, TokenUsage, ToolCall
from agentv.wire.apis.api import (
    CUT_OFF,
    FILTERED,
    Api,
    ApiReply,
    ApiRequest,
    Function,
    ModelReply,
    as_object,
    event_reply,
    identifier,
    json_event,
    json_reply,
    object_in,
    usage_of,
)
from agentv.wire.apis.fields import Fields
from agentv.wire.apis.openai import (
    LONGEST_TOKENS,
    ONLY_TEXT,
    Schema,
    both,
    chosen_function,
    format_schema,
    function_schema,
    tool_message,
)

_WITHOUT_EFFECT = ("metadata", "service_tier", "cache_control", "inference_geo")
_UNUSED = ("top_k", "thinking")
_ERRORS = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 413: "request_too_large"}


def error_body(status: int, code: str, message: str, parameter: str | None) -> dict[str, Any]:
    del parameter
    kind = _ERRORS.get(status) or ("invalid_request_error" if status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": message, "code": code}}


class Messages(Api):
    """Messages. There is one judge call per request."""

    def parse(self, path: str, body: bytes) -> ApiRequest:
        del path
        fields = Fields.of_body(body)
        fields.accept(*_WITHOUT_EFFECT)
        system = _blocks(fields, "system")
        messages = [Message("system", system)] if system else []
        count = len(messages)
        for message in fields.objects("messages"):
            messages += _messages(message)
        if len(messages) == count:
            raise fields.wrong("messages", "a list of at least one message")
        function, (schema, unused) = _chosen(fields), _output(fields)
        if schema is not None and function is not None:
            raise both("output_config.format", "tools", fields)
        request = ApiRequest(
            fields.required("model", "the name of a model or of a target"),
            tuple(messages),
            GenerationOptions(
                temperature=fields.number("temperature", 0, 1),
                top_p=fields.number("top_p", 0, 1),
                max_output_tokens=fields.whole("max_tokens", 1, LONGEST_TOKENS),
                stop=fields.words("stop_sequences"),
                response_schema=schema if function is None else function[1],
            ),
            unused=(*fields.unused(*_UNUSED), *unused),
            function=None if function is None else function[0],
            stream=fields.flag("stream"),
        )
        fields.end()
        return request

    def render(self, request: ApiRequest, replies: Sequence[ModelReply], model: str) -> ApiReply:
        (reply,) = replies
        block = _block(request, reply)
        stop = {CUT_OFF: "max_tokens", FILTERED: "refusal"}.get(reply.ending)
        message = {
            "id": identifier("msg_"),
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [block],
            "stop_reason": stop or ("tool_use" if block["type"] == "tool_use" else "end_turn"),
            "stop_sequence": None,
            "usage": _usage(usage_of([reply])),
        }
        if request.stream:
            return event_reply(_events(message, large=request.large))
        return json_reply(message, large=request.large)


def _blocks(fields: Fields, name: str) -> str | None:
    """The text of a field that is a string or a list of text blocks."""
    value = fields.raw(name)
    if value is None or isinstance(value, str):
        return value
    return "\n".join(_text(block) for block in fields.objects(name))


def _text(block: Fields) -> str:
    kind = block.text("type")
    if kind != "text":
        raise block.unsupported("type", f"{ONLY_TEXT} (got {kind!r})")
    text = block.text("text")
    block.accept("cache_control", "citations")
    block.end()
    return text or ""


def _messages(message: Fields) -> list[Message]:
    """One message; the results of tools, which are blocks of the user there, are messages here."""
    role = message.text("role")
    if role not in ("user", "assistant", "system"):
        raise message.wrong("role", "`user` or `assistant`", role)
    content = message.raw("content")
    if isinstance(content, str):
        message.end()
        return [Message(role, content)]
    texts: list[str] = []
    calls: list[ToolCall] = []
    results: list[Message] = []
    for block in message.objects("content"):
        kind = block.text("type")
        if kind == "tool_use":
            calls.append(
                ToolCall(block.required("name", "the name of the tool"), block.raw("input"), id=block.text("id"))
            )
            block.accept("cache_control", "caller")
            block.end()
        elif kind == "tool_result":
            results.append(tool_message(_blocks(block, "content"), block.text("tool_use_id")))
            block.accept("is_error", "cache_control")
            block.end()
        elif kind not in ("thinking", "redacted_thinking"):
            texts.append(_text(block))
    message.end()
    own = [Message(role, "\n".join(texts) or None, tool_calls=tuple(calls))] if texts or calls else []
    return [*results, *own]


def _chosen(fields: Fields) -> tuple[Function, Schema] | None:
    functions: list[tuple[str, Schema]] = []
    for tool in fields.objects("tools"):
        if tool.text("type") not in (None, "custom"):
            raise tool.unsupported("type", "must be `custom`; hosted tools are not supported")
        functions.append(function_schema(tool, "input_schema"))
        tool.accept("cache_control", "strict", "eager_input_streaming", "defer_loading", "input_examples")
        tool.end()
    choice = fields.mapping("tool_choice")
    kind = None if choice is None else choice.get("type")
    wanted: Any = {"any": "required", "tool": choice}.get(str(kind), kind)
    return chosen_function(functions, wanted, fields)


def _output(fields: Fields) -> tuple[Schema | None, tuple[str, ...]]:
    """The schema of structured output (`output_config.format`, earlier `output_format`), and options that no target
    gets."""
    config = fields.object("output_config")
    form = fields.object("output_format")
    unused: tuple[str, ...] = ()
    if config is not None:
        form = config.object("format") or form
        unused = tuple(f"output_config.{name}" for name in config.unused("effort"))
        config.end()
    return format_schema(form, nested=False), unused


# -- replies


def _block(request: ApiRequest, reply: ModelReply) -> dict[str, Any]:
    text = as_object(reply.text) if request.wants_json else reply.text
    arguments = None if request.function is None else object_in(text)
    if request.function is None or arguments is None:  # what is not an object cannot be the input of a tool
        return {"type": "text", "text": text, "citations": None}
    return {"type": "tool_use", "id": identifier("toolu_"), "name": request.function.name, "input": arguments}


def _usage(usage: TokenUsage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached or 0,
    }


def _events(message: dict[str, Any], *, large: bool) -> Iterator[bytes]:
    """The message as a stream of events; the whole text or input is one of them."""
    (block,) = message["content"]
    if block["type"] == "tool_use":
        empty: dict[str, Any] = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": dump_line(block["input"], in_pieces=large)}
    else:
        empty = {**block, "text": ""}
        delta = {"type": "text_delta", "text": block["text"]}
    usage = message["usage"]
    begun = {**message, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 0}}
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    for data in (
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ending, "usage": {"output_tokens": usage["output_tokens"]}},
        {"type": "message_stop"},
    ):
        yield json_event(data, large=large, name=str(data["type"]))
