"""Requests of client libraries, which choose options without knowing the target: what of them the target gets.

One rule: a setting of the target overrides the option of a request. Other options are passed on if the target supports
them, and left out if not. A schema that the target cannot enforce is described in the prompt.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agentv.jsonio import dump_line
from agentv.messages import NO_OPTIONS, OPTIONS, GenerationOptions, Message
from agentv.targets.provider import Provider, Reply, Request

FIXED = "set by the target"
UNSUPPORTED = "not supported by the target"
NOT_PASSED_ON = "not passed on to targets"
IN_THE_PROMPT = "described in the prompt"
SCHEMA = "response_schema"


@dataclass(frozen=True, slots=True)
class Fitted:
    """A request as its target gets it."""

    messages: tuple[Message, ...]
    options: GenerationOptions
    dropped: Mapping[str, str] = field(default_factory=dict)
    """Requested options that are not passed on -> the reason."""


def fitted(messages: tuple[Message, ...], options: GenerationOptions, provider: Provider) -> Fitted:
    """The request with the options that this target gets."""
    dropped = {name: FIXED for name in options.requested if name in provider.fixes}
    dropped |= {name: UNSUPPORTED for name in options.requested if name not in provider.honours and name not in dropped}
    schema = options.response_schema
    if SCHEMA in dropped and schema is not None and provider.follows_prompts:
        messages = _describing(messages, schema)
        dropped[SCHEMA] = IN_THE_PROMPT
    left = without_options(options, dropped)
    return Fitted(messages, left if left.requested else NO_OPTIONS, dropped)


def without_options(options: GenerationOptions, names: Collection[str]) -> GenerationOptions:
    """The options without these."""
    changes: dict[str, Any] = {name: getattr(NO_OPTIONS, name) for name in OPTIONS if name in names}
    return replace(options, **changes) if changes else options


def is_any_object(schema: Mapping[str, Any]) -> bool:
    """Whether the schema allows every object."""
    return dict(schema) == {"type": "object"}


def has_open_objects(schema: Any) -> bool:
    """Whether an object in the schema may have any properties. Libraries for strict schemas would forbid them all."""
    if isinstance(schema, list):
        return any(map(has_open_objects, schema))
    if not isinstance(schema, Mapping):
        return False
    is_open = schema.get("additionalProperties", False) is not False or not schema.get("properties")
    return (schema.get("type") == "object" and is_open) or any(map(has_open_objects, schema.values()))


def dropped_reasons(reply: Reply) -> Mapping[str, str]:
    """The options that a provider did not send -> the reason."""
    return {name: IN_THE_PROMPT if name == SCHEMA else UNSUPPORTED for name in reply.dropped_options}


def describing_schema(request: Request) -> Request:
    """The request with its schema described in the prompt, for a server that does not enforce it."""
    schema = request.options.response_schema
    return request if schema is None else replace(request, messages=_describing(request.messages, schema))


def _describing(messages: tuple[Message, ...], schema: Mapping[str, Any]) -> tuple[Message, ...]:
    """The conversation with a last instruction to reply with an object that matches a schema."""
    text = "Reply with exactly one JSON object, and nothing else."
    if not is_any_object(schema):
        text += f" It must match this JSON Schema:\n{dump_line(schema)}"
    last = messages[-1]
    if last.role != "user" or not isinstance(last.content, str):
        return (*messages, Message("user", text))
    return (*messages[:-1], replace(last, content=f"{last.content}\n\n{text}"))
