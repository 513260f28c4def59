"""What the APIs of OpenAI have in common: errors, models, response formats and functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentv.messages import Message, TokenLogprob, ToolCall
from agentv.wire.apis.api import ApiRequestError, Function, object_in
from agentv.wire.apis.fields import Fields

ANY_OBJECT: Mapping[str, Any] = {"type": "object"}
"""The schema of `json_object`: any object."""
MOST_REPLIES = 128
LONGEST_TOKENS = 10_000_000
TEXT_PARTS = ("text", "input_text", "output_text")
ONLY_TEXT = "must be text; judges get no images, audio or files"
Schema = Mapping[str, Any]


def error_body(status: int, code: str, message: str, parameter: str | None) -> dict[str, Any]:
    kind = "invalid_request_error" if status < 500 else "api_error"
    return {"error": {"message": message, "type": kind, "param": parameter, "code": code}}


def models_body(names: Iterable[str]) -> dict[str, Any]:
    """The reply to `GET /v1/models`."""
    return {
        "object": "list",
        "data": [model_body(name) for name in names],
    }


def model_body(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "agentv"}


# -- messages


def content_of(owner: Fields, name: str) -> str | None:
    """The text of a message: a string, or a list of parts that are text."""
    value = owner.raw(name)
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise owner.wrong(name, "a string or a list of text parts")
    return "\n".join(_text_of(part) for part in owner.objects(name))


def _text_of(part: Fields) -> str:
    kind = part.text("type")
    if kind == "refusal":
        return part.required("refusal", "the text", most=None)
    if kind not in TEXT_PARTS:
        raise part.unsupported("type", f"{ONLY_TEXT} (got {kind!r})" if kind else ONLY_TEXT)
    part.accept("annotations", "logprobs", "prompt_cache_breakpoint", "cache_control")
    value = part.text("text")
    if value is None:
        raise part.wrong("text", "a string")
    part.end()
    return value


def call_of(name: str, arguments: str | None, identity: str | None) -> ToolCall:
    """A tool call of an earlier assistant message. Its arguments are an object encoded as a string."""
    parsed = object_in(arguments or "{}")
    return ToolCall(name, arguments if parsed is None else parsed, id=identity)


def tool_message(content: str | None, call: str | None, name: str | None = None) -> Message:
    return Message("tool", content or "", name=name, metadata=None if call is None else {"tool_call_id": call})


# -- structure


def format_schema(form: Fields | None, *, nested: bool) -> Schema | None:
    """The schema of a response format; None for text. With `nested`, the fields are in `json_schema`."""
    if form is None:
        return None
    kind = form.text("type")
    if kind == "text":
        form.end()
        return None
    if kind == "json_object":
        form.end()
        return ANY_OBJECT
    if kind != "json_schema":
        raise form.wrong("type", "`text`, `json_object` or `json_schema`", kind)
    inner = form.object("json_schema") if nested else form
    if inner is None:
        raise form.wrong("json_schema", "an object with `name` and `schema`")
    inner.accept("name", "strict", "description")
    schema = inner.mapping("schema")
    inner.end()
    form.end()
    return ANY_OBJECT if schema is None else schema


def chosen_function(
    functions: Sequence[tuple[str, Schema]], choice: Any, owner: Fields
) -> tuple[Function, Schema] | None:
    """The function whose arguments the judge writes: the one that is named, or the only one. None for a text."""
    if choice == "none" or not functions:
        if isinstance(choice, str) and choice == "required":
            raise owner.unsupported("tool_choice", "is `required`, but `tools` has no function")
        if isinstance(choice, Mapping):
            raise owner.wrong("tool_choice", "the name of a function in `tools`")
        return None
    if isinstance(choice, Mapping):
        inner = choice.get("function")
        name = inner.get("name") if isinstance(inner, Mapping) else choice.get("name")
        if choice.get("type") == "allowed_tools":
            raise owner.unsupported("tool_choice", "`allowed_tools` is not supported; name one function")
        matching = [function for function in functions if function[0] == name]
        if not matching:
            raise owner.wrong("tool_choice", "the name of a function in `tools`")
        return Function(matching[0][0], named=True), matching[0][1]
    if choice not in (None, "auto", "required"):
        raise owner.wrong("tool_choice", "`auto`, `none`, `required` or the name of a function", choice)
    if len(functions) > 1:
        raise owner.unsupported(
            "tool_choice", "must name one function: a judge cannot choose between several (`tools` has more than one)"
        )
    return Function(functions[0][0]), functions[0][1]


def function_schema(owner: Fields, parameters: str = "parameters") -> tuple[str, Schema]:
    """The name of a function and the schema of its arguments, with its description."""
    name = owner.required("name", "the name of the function")
    description = owner.text("description")
    schema = owner.mapping(parameters) or {"type": "object", "properties": {}}
    owner.accept("strict")
    if description and "description" not in schema:
        schema = {**schema, "description": description}
    return name, schema


def only(values: Sequence[Any], owner: Fields, name: str, why: str) -> None:
    """Reject values of a field that is accepted only without effect."""
    if owner.raw(name) not in (None, *values):
        raise owner.unsupported(name, why)


# -- replies


def logprob_items(tokens: Sequence[TokenLogprob]) -> list[dict[str, Any]]:
    return [
        {
            **_logprob(token.token, token.logprob),
            "top_logprobs": [_logprob(text, logprob) for text, logprob in token.alternatives],
        }
        for token in tokens
    ]


def _logprob(token: str, logprob: float) -> dict[str, Any]:
    return {"token": token, "logprob": logprob, "bytes": list(token.encode("utf-8", "replace"))}


def both(first: str, second: str, owner: Fields) -> ApiRequestError:
    return ApiRequestError(
        f"`{owner.named(first)}` and `{owner.named(second)}` cannot be combined; send one of them", first
    )
