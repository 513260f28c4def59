"""Converts a conversation to pydantic-ai messages, and a pydantic-ai response to a `Reply`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.tools import ToolDefinition

from agentv.errors import ProviderError
from agentv.messages import GenerationOptions, Message, TokenLogprob, TokenUsage, ToolCall
from agentv.targets.prices import Pricer
from agentv.targets.provider import Reply
from agentv.targets.providers.chat import received_logprobs
from agentv.targets.structured import named_model, received_arguments

# -- request


def to_library(messages: list[dict[str, Any]], *, late_system: bool) -> list[ModelMessage]:
    """Convert chat completions messages to requests and responses. Messages between two responses form one request.

    If the API accepts system messages only at the start (not `late_system`), later ones become `<system>` tags.
    """
    converted: list[ModelMessage] = []
    started = False
    waiting: list[ModelRequestPart] = []
    names: dict[str, str] = {}
    for message in messages:
        if message["role"] == "system" and started and not late_system:
            waiting.append(UserPromptPart(f"<system>\n{_as_text(message['content'])}\n</system>"))
            continue
        started = started or message["role"] != "system"
        if message["role"] == "assistant":
            if waiting:
                converted.append(ModelRequest(parts=waiting))
                waiting = []
            names |= {call["id"]: call["function"]["name"] for call in message.get("tool_calls", ())}
            converted.append(ModelResponse(parts=list(_response_parts(message))))
        else:
            waiting.append(_request_part(message, names))
    if waiting:
        converted.append(ModelRequest(parts=waiting))
    return converted


def _response_parts(message: Mapping[str, Any]) -> Iterator[ModelResponsePart]:
    content = message["content"]
    if isinstance(content, list):
        content = "".join(part.get("text", "") for part in content)
    if content:
        yield TextPart(content)
    for call in message.get("tool_calls", ()):
        yield ToolCallPart(call["function"]["name"], _arguments(call), tool_call_id=call["id"])


def _arguments(call: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as an object, which is all that APIs accept."""
    arguments = received_arguments(call["function"]["arguments"])
    return arguments if isinstance(arguments, dict) else {"input": arguments}


def _request_part(message: Mapping[str, Any], names: Mapping[str, str]) -> ModelRequestPart:
    role, content = message["role"], message["content"]
    if role == "system":
        return SystemPromptPart(_as_text(content))
    if role == "tool":
        identity = message["tool_call_id"]
        return ToolReturnPart(names.get(identity, "tool"), _as_text(content), tool_call_id=identity)
    return UserPromptPart([_content(part) for part in content] if isinstance(content, list) else content)


def _as_text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(part.get("text", "") or json.dumps(part, ensure_ascii=False) for part in content)
    return str(content)


def _content(part: Mapping[str, Any]) -> UserContent:
    kind, image = part.get("type"), part.get("image_url")
    if kind == "text":
        return str(part.get("text", ""))
    url = image.get("url") if isinstance(image, Mapping) else image
    if kind == "image_url" and isinstance(url, str):
        try:
            return BinaryContent.from_data_uri(url) if url.startswith("data:") else ImageUrl(url)
        except ValueError as error:
            raise ProviderError(f"cannot send an image of the conversation: {error}") from None
    raise ProviderError(
        f"a message part has the type '{kind}', which this provider does not support",
        next_step="Use parts of type `text`, `file` or `image_url`.",
    )


def parameters(
    model: Model[Any], messages: list[dict[str, Any]], options: GenerationOptions, *, declare_tools: bool
) -> ModelRequestParameters:
    """Request parameters besides the conversation: tools, and the response schema if the model supports one."""
    tools = [
        ToolDefinition(
            name=tool.name, description=tool.description or None, parameters_json_schema=dict(tool.parameters)
        )
        for tool in options.tools
    ]
    if declare_tools:
        offered = {tool.name for tool in options.tools}
        earlier = (name for name in _tools(messages) if name not in offered)
        tools += [ToolDefinition(name=name, parameters_json_schema=_ANY) for name in earlier]
    schema = options.response_schema
    if schema is None or not takes_schemas(model):
        return ModelRequestParameters(function_tools=tools)
    output = OutputObjectDefinition(dict(schema), name="answer", strict=True)
    return ModelRequestParameters(function_tools=tools, output_mode="native", output_object=output)


def takes_schemas(model: Model[Any]) -> bool:
    """Whether the model can be asked for output that matches a schema."""
    return bool(model.profile.get("supports_json_schema_output", False))


_SAMPLING = ("temperature", "top_p", "logprobs")


def dropped_options(model: Model[Any], options: GenerationOptions) -> list[str]:
    """Requested options that the library would drop with only a warning: some models reject sampling options."""
    profile: Mapping[str, Any] = model.profile
    efforts = profile.get("openai_reasoning_efforts")
    can_skip_reasoning = (
        profile.get("openai_supports_reasoning_effort_none") if efforts is None else "none" in efforts
    ) and not profile.get("thinking_enabled_by_default")
    rejects_sampling = (
        (profile.get("openai_supports_reasoning") and not can_skip_reasoning)
        or profile.get("anthropic_disallows_sampling_settings")
        or profile.get("bedrock_disallows_sampling_settings")
    )
    return [name for name in options.requested if name in _SAMPLING] if rejects_sampling else []


_ANY: dict[str, Any] = {"type": "object", "additionalProperties": True}


def _tools(messages: list[dict[str, Any]]) -> list[str]:
    calls = (call for message in messages for call in message.get("tool_calls", ()))
    return list(dict.fromkeys(call["function"]["name"] for call in calls))


# -- reply


def from_library(response: ModelResponse, pricer: Pricer, model: str) -> Reply:
    """The reply in a response. Raises `ProviderError` if it contains nothing that can be graded."""
    # Parts of a kind that the library does not know become text parts with None.
    text = "".join(part.content or "" for part in response.parts if isinstance(part, TextPart))
    finish: str | None = response.finish_reason
    if not text and (refusal := (response.provider_details or {}).get("refusal")):
        text, finish = str(refusal), "refusal"
    calls = tuple(
        ToolCall(part.tool_name, received_arguments(part.args), id=part.tool_call_id)
        for part in response.parts
        if isinstance(part, ToolCallPart)
    )
    usage, cost = _usage(response), None
    if usage is not None:
        cost = pricer.cost(usage, (response.model_name, model), response.usage)
    if not text and not calls and finish != "stop":
        raise ProviderError(
            f"the reply has neither text nor tool calls (finish_reason: {finish})",
            token_usage=usage,
            cost_usd=cost,
            next_step="If the reason is `length`, raise `max_output_tokens`.",
        )
    return Reply(
        (Message("assistant", text or (None if calls else ""), tool_calls=calls),),
        token_usage=usage,
        cost_usd=cost,
        finish_reason="tool_calls" if calls and finish in _CALLED else finish,
        logprobs=_logprobs(response),
        model=named_model(response.model_name),  # Bedrock does not report it: there it is the requested model
    )


def _logprobs(response: ModelResponse) -> tuple[TokenLogprob, ...] | None:
    """The log probabilities. OpenAI's library stores them in each text part, Google's in the response."""
    google = (response.provider_details or {}).get("logprobs")
    if isinstance(google, Mapping):
        return _google_logprobs(google)
    tokens: list[Any] = []
    for part in response.parts:
        if isinstance(part, TextPart):
            tokens += (part.provider_details or {}).get("logprobs") or []
    return received_logprobs(tokens)


def _google_logprobs(result: Mapping[str, Any]) -> tuple[TokenLogprob, ...] | None:
    chosen, top = result.get("chosen_candidates") or (), result.get("top_candidates") or ()
    tokens = []
    for at, candidate in enumerate(chosen):
        others = (top[at].get("candidates") or ()) if at < len(top) else ()
        alternatives = [{"token": other["token"], "logprob": other["log_probability"]} for other in others]
        tokens.append(
            {"token": candidate["token"], "logprob": candidate["log_probability"], "top_logprobs": alternatives}
        )
    return received_logprobs(tokens)


_CALLED = ("stop", "tool_call")
"""Finish reasons of libraries where chat completions have `tool_calls`."""


def _usage(response: ModelResponse) -> TokenUsage | None:
    """The token usage. Libraries include cached tokens in the input; here they are counted separately."""
    counts = response.usage
    if not counts.has_values():
        return None
    cached = counts.cache_read_tokens
    return TokenUsage(max(0, counts.input_tokens - cached), counts.output_tokens, cached or None)
