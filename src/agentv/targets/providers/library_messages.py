"""A conversation -> the message model of pydantic-ai, and its response -> a `Reply`. Imports pydantic-ai."""

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
from agentv.targets.providers.chat import received_arguments, received_logprobs

# -- request


def to_library(messages: list[dict[str, Any]], *, late_system: bool) -> list[ModelMessage]:
    """Messages of chat completions -> requests and responses; what comes between two responses is one request.

    Where the API has no place for a system message after the first ones, it stays in its place in a tag.
    """
    found: list[ModelMessage] = []
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
                found.append(ModelRequest(parts=waiting))
                waiting = []
            names |= {call["id"]: call["function"]["name"] for call in message.get("tool_calls", ())}
            found.append(ModelResponse(parts=list(_said(message))))
        else:
            waiting.append(_asked(message, names))
    if waiting:
        found.append(ModelRequest(parts=waiting))
    return found


def _said(message: Mapping[str, Any]) -> Iterator[ModelResponsePart]:
    content = message["content"]
    if isinstance(content, list):
        content = "".join(part.get("text", "") for part in content)
    if content:
        yield TextPart(content)
    for call in message.get("tool_calls", ()):
        yield ToolCallPart(call["function"]["name"], _arguments(call), tool_call_id=call["id"])


def _arguments(call: Mapping[str, Any]) -> dict[str, Any]:
    """APIs take objects only."""
    arguments = received_arguments(call["function"]["arguments"])
    return arguments if isinstance(arguments, dict) else {"input": arguments}


def _asked(message: Mapping[str, Any], names: Mapping[str, str]) -> ModelRequestPart:
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
            raise ProviderError(f"an image of the conversation cannot be sent: {error}") from None
    raise ProviderError(
        f"a part of the conversation has the type '{kind}', which cannot be sent to this provider",
        next_step="Write parts of type `text`, `file` or `image_url`.",
    )


def parameters(
    model: Model[Any], messages: list[dict[str, Any]], options: GenerationOptions, *, declare_tools: bool
) -> ModelRequestParameters:
    """What is asked for besides the conversation: tools, and a JSON object where the model can be held to a schema."""
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
    if schema is None or not model.profile.get("supports_json_schema_output", False):
        return ModelRequestParameters(function_tools=tools)
    wanted = OutputObjectDefinition(dict(schema), name="answer", strict=True)
    return ModelRequestParameters(function_tools=tools, output_mode="native", output_object=wanted)


_SAMPLING = ("temperature", "top_p", "logprobs")


def dropped_options(model: Model[Any], options: GenerationOptions) -> list[str]:
    """Requested options that the library would leave out with no more than a warning: some models take no sampling."""
    profile: Mapping[str, Any] = model.profile
    efforts = profile.get("openai_reasoning_efforts")
    can_answer_at_once = (
        profile.get("openai_supports_reasoning_effort_none") if efforts is None else "none" in efforts
    ) and not profile.get("thinking_enabled_by_default")
    takes_none = (
        (profile.get("openai_supports_reasoning") and not can_answer_at_once)
        or profile.get("anthropic_disallows_sampling_settings")
        or profile.get("bedrock_disallows_sampling_settings")
    )
    return [name for name in options.requested if name in _SAMPLING] if takes_none else []


_ANY: dict[str, Any] = {"type": "object", "additionalProperties": True}


def _tools(messages: list[dict[str, Any]]) -> list[str]:
    calls = (call for message in messages for call in message.get("tool_calls", ()))
    return list(dict.fromkeys(call["function"]["name"] for call in calls))


# -- reply


def from_library(response: ModelResponse, pricer: Pricer, model: str) -> Reply:
    """What the model said. Raises `ProviderError` when that is nothing that can be graded."""
    # A part of a kind the library does not know yet comes as text that is None.
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
            f"the reply holds neither text nor tool calls (finish_reason: {finish})",
            token_usage=usage,
            cost_usd=cost,
            next_step="When the reason is `length`, raise `max_output_tokens`.",
        )
    return Reply(
        (Message("assistant", text or (None if calls else ""), tool_calls=calls),),
        token_usage=usage,
        cost_usd=cost,
        finish_reason="tool_calls" if calls and finish in _CALLED else finish,
        logprobs=_logprobs(response),
    )


def _logprobs(response: ModelResponse) -> tuple[TokenLogprob, ...] | None:
    """OpenAI's library keeps them with each text, Google's with the response."""
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
"""What libraries say where chat completions say `tool_calls`."""


def _usage(response: ModelResponse) -> TokenUsage | None:
    """Libraries count cached tokens among the input; here they are counted apart."""
    counts = response.usage
    if not counts.has_values():
        return None
    cached = counts.cache_read_tokens
    return TokenUsage(max(0, counts.input_tokens - cached), counts.output_tokens, cached or None)
