"""Gemini's generateContent: `POST /v1beta/models/MODEL:generateContent`, and `:streamGenerateContent`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from agentv.messages import GenerationOptions, Message, TokenLogprob, TokenUsage, ToolCall
from agentv.wire.apis.api import (
    CUT_OFF,
    FILTERED,
    Api,
    ApiReply,
    ApiRequest,
    ApiRequestError,
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
from agentv.wire.apis.openai import ANY_OBJECT, LONGEST_TOKENS, ONLY_TEXT, Schema, both, chosen_function

_PATH = re.compile(r"/v1(?:alpha|beta)?/models/([^/:]{1,200}):(generateContent|streamGenerateContent)")
_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    502: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_WITHOUT_EFFECT = ("safetySettings", "labels", "cachedContent")
_UNUSED = ("topK", "presencePenalty", "frequencyPenalty", "thinkingConfig", "mediaResolution", "enableAffectiveDialog")


def error_body(status: int, code: str, message: str, parameter: str | None) -> dict[str, Any]:
    del parameter
    reason = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": code.upper(), "domain": "agentv"}
    state = _STATUS.get(status, "UNKNOWN")
    return {"error": {"code": status, "message": message, "status": state, "details": [reason]}}


def _camel_case(name: str) -> str:
    """The name as in JSON: clients may also send it as in Python."""
    first, *more = name.lstrip("_").split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in more)


class _Fields(Fields):
    def __init__(self, data: Any, where: str = "") -> None:
        super().__init__(
            {_camel_case(name): value for name, value in data.items()} if isinstance(data, Mapping) else data, where
        )


class GenerateContent(Api):
    """Content as one reply or as a stream. Every reply is one candidate."""

    def parse(self, path: str, body: bytes) -> ApiRequest:
        named = _PATH.fullmatch(path)
        if named is None:
            message = "use `models/MODEL:generateContent` or `models/MODEL:streamGenerateContent`"
            raise ApiRequestError(message, code="not_supported")
        fields = _Fields.of_body(body)
        fields.accept(*_WITHOUT_EFFECT)
        system = fields.object("systemInstruction")
        messages = [] if system is None else [Message("system", _texts(system))]
        count = len(messages)
        for content in fields.objects("contents"):
            messages += _messages(content)
        if len(messages) == count:
            raise fields.wrong("contents", "a list of at least one content")
        config = fields.object("generationConfig") or _Fields({}, "generationConfig")
        function = _chosen(fields)
        schema = _schema(config)
        if schema is not None and function is not None:
            raise both("generationConfig.responseSchema", "tools", fields)
        request = ApiRequest(
            unquote(named[1]),
            tuple(messages),
            _options(config, schema if function is None else function[1]),
            count=config.whole("candidateCount", 1, 8) or 1,
            unused=tuple(f"generationConfig.{name}" for name in config.unused(*_UNUSED)),
            function=None if function is None else function[0],
            stream=named[2] != "generateContent",
        )
        config.end()
        fields.end()
        return request

    def render(self, request: ApiRequest, replies: Sequence[ModelReply], model: str) -> ApiReply:
        content = {
            "candidates": [_candidate(request, reply, index) for index, reply in enumerate(replies)],
            "usageMetadata": _usage(usage_of(replies)),
            "modelVersion": model,
            "responseId": identifier(""),
        }
        if request.stream:
            return event_reply([json_event(content, large=request.large)])
        return json_reply(content, large=request.large)


def _texts(content: Fields) -> str:
    content.accept("role")
    text = "\n".join(_text(part) for part in content.objects("parts"))
    content.end()
    return text


def _text(part: Fields) -> str:
    text = part.text("text")
    if text is None:
        raise part.unsupported("text", f"is missing: a part {ONLY_TEXT}")
    part.accept("thought", "thoughtSignature")
    part.end()
    return text


def _messages(content: Fields) -> list[Message]:
    role = {"user": "user", "model": "assistant", None: "user", "function": "user"}.get(content.text("role"))
    if role is None:
        raise content.wrong("role", "`user` or `model`")
    texts: list[str] = []
    calls: list[ToolCall] = []
    results: list[Message] = []
    for part in content.objects("parts"):
        call, response = part.object("functionCall"), part.object("functionResponse")
        if call is not None:
            name = call.required("name", "the name of the function")
            calls.append(ToolCall(name, call.mapping("args"), id=call.text("id")))
        elif response is not None:
            name = response.required("name", "the name of the function")
            data = response.mapping("response") or {}
            results.append(Message("tool", dict(data), name=name))
        else:
            texts.append(_text(part))
    content.end()
    own = [Message(role, "\n".join(texts) or None, tool_calls=tuple(calls))] if texts or calls else []
    return [*results, *own]


def _chosen(fields: Fields) -> tuple[Function, Schema] | None:
    functions: list[tuple[str, Schema]] = []
    for tool in fields.objects("tools"):
        for declared in tool.objects("functionDeclarations"):
            name = declared.required("name", "the name of the function")
            schema = declared.mapping("parametersJsonSchema") or _json_schema(declared.mapping("parameters"))
            description = declared.text("description")
            declared.accept("behavior", "response", "responseJsonSchema")
            declared.end()
            functions.append((name, {"description": description, **schema} if description else schema))
        tool.end()
    config = fields.object("toolConfig")
    choice: Any = None
    if config is not None:
        calling = config.object("functionCallingConfig")
        if calling is not None:
            allowed = calling.words("allowedFunctionNames")
            mode = (calling.text("mode") or "AUTO").upper()
            choice = {"NONE": "none", "ANY": "required"}.get(mode, "auto")
            if choice == "required" and len(allowed) == 1:
                choice = {"name": allowed[0]}
            calling.end()
        config.end()
    return chosen_function(functions, choice, fields)


def _schema(config: Fields) -> Schema | None:
    kind = config.text("responseMimeType")
    schema = config.mapping("responseJsonSchema")
    own = config.mapping("responseSchema")
    if kind not in (None, "text/plain", "application/json"):
        raise config.unsupported("responseMimeType", "must be `application/json` or `text/plain`")
    if schema is None and own is not None:
        schema = _json_schema(own)
    return ANY_OBJECT if schema is None and kind == "application/json" else schema


def _json_schema(schema: Any) -> Any:
    """A schema with Google's spelling of types (`STRING`) and of nullable values as JSON Schema."""
    if schema is None:
        return {"type": "object", "properties": {}}
    if isinstance(schema, list):
        return [_json_schema(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    converted: dict[str, Any] = {}
    for name, value in schema.items():
        key = _camel_case(name) if name.isidentifier() and not name.startswith("_") else name
        if key == "type" and isinstance(value, str):
            converted[key] = value.lower()
        elif key == "properties" and isinstance(value, Mapping):
            converted[key] = {own: _json_schema(item) for own, item in value.items()}
        elif key in ("items", "anyOf"):
            converted[key] = _json_schema(value)
        elif key not in ("nullable", "propertyOrdering"):
            converted[key] = value
    if schema.get("nullable") and isinstance(converted.get("type"), str):
        converted["type"] = [converted["type"], "null"]
    return converted


def _options(config: Fields, schema: Schema | None) -> GenerationOptions:
    wants_logprobs = config.flag("responseLogprobs")
    alternatives = config.whole("logprobs", 0, 20)
    return GenerationOptions(
        temperature=config.number("temperature", 0, 2),
        top_p=config.number("topP", 0, 1),
        max_output_tokens=config.whole("maxOutputTokens", 1, LONGEST_TOKENS),
        seed=config.whole("seed", -(2**31), 2**31 - 1),
        stop=config.words("stopSequences"),
        response_schema=schema,
        logprobs=(alternatives or 0) if wants_logprobs else None,
    )


# -- replies


def _candidate(request: ApiRequest, reply: ModelReply, index: int) -> dict[str, Any]:
    text = as_object(reply.text) if request.wants_json else reply.text
    arguments = None if request.function is None else object_in(text)
    part: dict[str, Any] = {"text": text}
    if request.function is not None and arguments is not None:
        part = {"functionCall": {"name": request.function.name, "args": arguments}}
    finish = {CUT_OFF: "MAX_TOKENS", FILTERED: "SAFETY"}.get(reply.ending, "STOP")
    candidate = {"content": {"parts": [part], "role": "model"}, "finishReason": finish, "index": index}
    if request.options.logprobs is None or reply.logprobs is None or text != reply.text:
        return candidate
    return {**candidate, "logprobsResult": _logprobs(reply.logprobs)}


def _logprobs(tokens: Sequence[TokenLogprob]) -> dict[str, Any]:
    return {
        "chosenCandidates": [_token(token.token, token.logprob) for token in tokens],
        "topCandidates": [{"candidates": [_token(*one) for one in token.alternatives]} for token in tokens],
    }


def _token(text: str, logprob: float) -> dict[str, Any]:
    return {"token": text, "logProbability": logprob}


def _usage(usage: TokenUsage) -> dict[str, Any]:
    prompt = usage.input + (usage.cached or 0)
    return {
        "promptTokenCount": prompt,
        "cachedContentTokenCount": usage.cached or 0,
        "candidatesTokenCount": usage.output,
        "totalTokenCount": prompt + usage.output,
    }
