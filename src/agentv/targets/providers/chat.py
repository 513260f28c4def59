"""The chat completions format: converts a request to the JSON body and the JSON of a reply to a `Reply`. No HTTP."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

from agentv.errors import ProviderError
from agentv.messages import GenerationOptions, Message, TokenLogprob, TokenUsage, Tool, ToolCall, part_text
from agentv.regular_files import FileUnusableError, as_text, read_regular
from agentv.suite.files import MAX_FILE_BYTES
from agentv.targets.prices import Pricer
from agentv.targets.provider import Reply, Request
from agentv.targets.structured import named_model, received_arguments

# -- request


def wire_messages(request: Request) -> list[dict[str, Any]]:
    """The messages for chat completions: the system prompt comes first and every tool call has a result."""
    messages: list[dict[str, Any]] = []
    if request.instructions:
        messages.append({"role": "system", "content": request.instructions})
    files, waiting = list(request.files), list[ToolCall]()
    for message in request.turns:
        if message.role == "tool":
            messages.append(_tool_result(message, waiting, files))
            continue
        messages += _unanswered(waiting)
        wired: dict[str, Any] = {"role": message.role, "content": _content(message.content, files)}
        calls = [_with_id(call, len(messages), index) for index, call in enumerate(message.tool_calls)]
        if calls:
            wired["tool_calls"] = [_tool_call(call) for call in calls]
            wired["content"] = wired["content"] or None
        messages.append(wired)
        messages += [_result(call, _as_text(call.output)) for call in calls if call.output is not None]
        waiting = [call for call in calls if call.output is None]
    return [*messages, *_unanswered(waiting)]


def _content(content: Any, files: list[Path]) -> Any:
    """A string if all parts are text, else a list of parts. Parts of unknown type are passed on unchanged."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        return _as_text(content)
    parts = [_part(part, files) for part in content]
    if all(isinstance(part, str) for part in parts):
        return "\n".join(part for part in parts if part)
    return [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]


def _part(part: Any, files: list[Path]) -> Any:
    if isinstance(part, Mapping) and part.get("type") == "file" and isinstance(part.get("value"), str):
        return _attached(part["value"], files)
    text = part_text(part)
    return text if text or not isinstance(part, Mapping) or part.get("type", "text") == "text" else part


def _attached(reference: str, files: list[Path]) -> str:
    """The content of the file that the suite resolved this reference to, in a tag with its path."""
    file = next((path for path in files if path.name == PurePath(reference).name), None)
    if file is None:
        return f'<file path="{reference}"/>'
    files.remove(file)
    try:
        text = as_text(read_regular(file.resolve(), MAX_FILE_BYTES))
    except FileUnusableError as error:
        raise ProviderError(f"cannot send the file: {file} {error}", next_step="Attach text files only.") from None
    return f'<file path="{reference}">\n{text}\n</file>'


def _with_id(call: ToolCall, message: int, index: int) -> ToolCall:
    if call.id is not None:
        return call
    return ToolCall(call.tool, call.input, call.output, f"call_{message}_{index}")


def _tool_call(call: ToolCall) -> dict[str, Any]:
    arguments = call.input if isinstance(call.input, str) else json.dumps({} if call.input is None else call.input)
    return {"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": arguments}}


def _tool_result(message: Message, waiting: list[ToolCall], files: list[Path]) -> dict[str, Any]:
    """The message as the result of the call it names, else of the first call without a result."""
    content = _content(message.content, files)
    call_id = (message.metadata or {}).get("tool_call_id")
    matches = [c for c in waiting if call_id == c.id or (call_id is None and message.name in (None, c.tool))]
    if not matches:  # APIs reject tool messages without a matching call
        name = f" of {message.name}" if message.name else ""
        return {"role": "user", "content": f"Tool result{name}:\n{_as_text(content)}"}
    waiting.remove(matches[0])
    return _result(matches[0], content)


def _result(call: ToolCall, content: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call.id, "content": content}


def _unanswered(waiting: list[ToolCall]) -> Iterator[dict[str, Any]]:
    for call in waiting:
        yield _result(call, "")
    waiting.clear()


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def wire_options(options: GenerationOptions, *, limit_name: str, seed_name: str) -> dict[str, Any]:
    """The options as fields of the body, except `response_schema`, which becomes `response_format`."""
    body: dict[str, Any] = {
        "temperature": options.temperature,
        "top_p": options.top_p,
        limit_name: options.max_output_tokens,
        seed_name: options.seed,
        "stop": list(options.stop) or None,
        "tools": [{"type": "function", "function": tool.to_dict()} for tool in options.tools] or None,
        "tool_choice": options.tool_choice,
    }
    if isinstance(options.tool_choice, Tool):
        body["tool_choice"] = {"type": "function", "function": {"name": options.tool_choice.name}}
    if options.logprobs is not None:
        body |= {"logprobs": True, "top_logprobs": options.logprobs or None}
    return {name: value for name, value in body.items() if value is not None}


def response_format(mode: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The `response_format` that requests a JSON object: with this schema, or of any shape."""
    if mode == "json_object":
        return {"type": "json_object"}
    wanted = {"name": "answer", "schema": schema, "strict": _is_strict(schema)}
    return {"type": "json_schema", "json_schema": wanted}


class ResponseFormats:
    """Caches `response_format` as JSON text. A run uses few schemas, each of them very often."""

    MOST = 64

    def __init__(self) -> None:
        self._cached: dict[tuple[str, int], tuple[Mapping[str, Any], str]] = {}

    def text(self, mode: str, schema: Mapping[str, Any]) -> str:
        """The JSON text for a schema. The cache keeps the schema alive, so that its `id` stays unique."""
        key = (mode, id(schema))
        if key not in self._cached:
            if len(self._cached) >= self.MOST:
                self._cached.clear()
            self._cached[key] = (schema, json.dumps(response_format(mode, schema)))
        return self._cached[key][1]


def _is_strict(schema: Any) -> bool:
    """Whether every object forbids other properties and requires all of its own, as strict mode demands."""
    if isinstance(schema, list):
        return all(map(_is_strict, schema))
    if not isinstance(schema, Mapping):
        return True
    properties = schema.get("properties")
    if schema.get("type") == "object" or isinstance(properties, Mapping):
        named = set(properties) if isinstance(properties, Mapping) else set()
        if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != named:
            return False
    return all(map(_is_strict, schema.values()))


# -- reply


def parse_completion(data: Any, pricer: Pricer, model: str) -> Reply:
    """The reply in a chat completion. Raises `ProviderError` if it contains nothing that can be graded."""
    choices = data.get("choices") if isinstance(data, dict) else None
    if not isinstance(choices, list) or not choices:
        raise ProviderError("the reply has no `choices`", next_step="Is this a chat completions endpoint?")
    choice = choices[0]
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict):
        raise ProviderError("the first choice of the reply has no `message`")
    finish = choice.get("finish_reason")
    calls = tuple(_received_call(call) for call in _received_calls(message))
    content = message.get("content")
    if not content and message.get("refusal"):
        content, finish = message["refusal"], "refusal"
    if not isinstance(content, str | list | None):
        raise ProviderError("the content of the reply must be a string or a list of parts")
    usage = _usage(data.get("usage"))
    cost = _cost(data.get("usage"))
    if cost is None and usage is not None:
        cost = pricer.cost(usage, (data.get("model"), model))
    # An empty string is a valid answer, unless the token limit left no room for one.
    if not calls and (content is None or (not content and finish == "length")):
        raise ProviderError(
            f"the reply has neither text nor tool calls (finish_reason: {finish})",
            token_usage=usage,
            cost_usd=cost,
            next_step="If the reason is `length`, raise `max_output_tokens`.",
        )
    return Reply(
        (Message("assistant", content, tool_calls=calls),),
        token_usage=usage,
        cost_usd=cost,
        finish_reason=finish if isinstance(finish, str) else None,
        logprobs=received_logprobs(choice.get("logprobs")),
        model=named_model(data.get("model")),
    )


def received_logprobs(logprobs: Any) -> tuple[TokenLogprob, ...] | None:
    """Parses `{"content": [{"token", "logprob", "top_logprobs"}]}`; None if there are none or the shape differs."""
    tokens = logprobs.get("content") if isinstance(logprobs, Mapping) else logprobs
    if not isinstance(tokens, list) or not tokens:
        return None
    with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
        return tuple(
            TokenLogprob(
                str(token["token"]),
                float(token["logprob"]),
                tuple((str(other["token"]), float(other["logprob"])) for other in token.get("top_logprobs") or ()),
            )
            for token in tokens
        )
    return None


def choice_error(data: Any) -> Any:
    """The upstream error that a gateway reports inside the first choice of a reply, if there is one."""
    choices = data.get("choices") if isinstance(data, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    return choice.get("error") if isinstance(choice, dict) else None


def _received_calls(message: Mapping[str, Any]) -> list[Any]:
    """The tool calls, including the single `function_call` of older servers."""
    calls, older = message.get("tool_calls"), message.get("function_call")
    if not calls:
        return [{"function": older}] if older else []
    if not isinstance(calls, list):
        raise ProviderError("`tool_calls` of the reply must be a list")
    return calls


def _received_call(call: Any) -> ToolCall:
    function = call.get("function") or call.get("custom") if isinstance(call, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str) or not isinstance(function, dict):
        raise ProviderError("a tool call of the reply has no name")
    arguments = function["input"] if "input" in function else function.get("arguments")
    identity = call.get("id")
    return ToolCall(name, received_arguments(arguments), id=identity if isinstance(identity, str) else None)


def _usage(usage: Any) -> TokenUsage | None:
    """The token usage. Vendors include cached tokens in the prompt tokens; here they are counted separately."""
    if not isinstance(usage, dict):
        return None
    details = usage.get("prompt_tokens_details")
    cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else None
    prompt, completion = _count(usage.get("prompt_tokens")), usage.get("completion_tokens")
    completion = 0 if completion is None else _count(completion)
    if prompt is None or completion is None:
        return None
    if cached is None or cached > prompt:
        return TokenUsage(prompt, completion)
    return TokenUsage(prompt - cached, completion, cached)


def _count(value: Any) -> int | None:
    """A number of tokens. Some servers send it as a string or a float."""
    if isinstance(value, str) and re.fullmatch("[0-9]{1,15}", value):
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        return None
    return int(value) if value == int(value) else None


def _cost(usage: Any) -> float | None:
    """The cost of the call if the server reports it, as OpenRouter does."""
    cost = usage.get("cost") if isinstance(usage, dict) else None
    if isinstance(cost, bool) or not isinstance(cost, int | float):
        return None
    return cost if 0 <= cost < math.inf else None
