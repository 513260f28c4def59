"""The message model used throughout agentv for requests to targets and their replies."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal

from agentv.codec import OMIT_DEFAULT, decode, encode

OptionalText = Annotated[str | None, OMIT_DEFAULT]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call of an assistant. `input` and `output` are user data and are never modified."""

    tool: str
    input: Annotated[Any, OMIT_DEFAULT] = None
    output: Annotated[Any, OMIT_DEFAULT] = None
    id: OptionalText = None
    timestamp: OptionalText = None
    duration_ms: Annotated[float | None, OMIT_DEFAULT] = None

    def to_dict(self) -> dict[str, Any]:
        return encode(self)


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `content` is text, a list of content parts, or one structured object."""

    role: str
    content: Annotated[Any, OMIT_DEFAULT] = None
    name: OptionalText = None
    tool_calls: Annotated[tuple[ToolCall, ...], OMIT_DEFAULT] = ()
    timestamp: OptionalText = None
    metadata: Annotated[Mapping[str, Any] | None, OMIT_DEFAULT] = None

    @property
    def text(self) -> str:
        """All text of this message: text parts are joined, and a structured object is encoded as JSON."""
        if isinstance(self.content, str):
            return self.content
        if isinstance(self.content, Mapping):
            return json.dumps(dict(self.content), ensure_ascii=False)
        if isinstance(self.content, Sequence):
            return "".join(part_text(part) for part in self.content)
        return ""

    def to_dict(self) -> dict[str, Any]:
        return encode(self)


def part_text(part: Any) -> str:
    """The text of one content part: `{type: text, value: ...}`, or `text: ...` as in model APIs."""
    if isinstance(part, str):
        return part
    if isinstance(part, Mapping) and part.get("type", "text") == "text":
        value = part.get("value", part.get("text"))
        return value if isinstance(value, str) else ""
    return ""


def final_text(messages: Iterable[Message]) -> str:
    """The text of the last assistant message, which is the answer."""
    answer = ""
    for message in messages:
        if message.role == "assistant":
            answer = message.text if message.content is not None else ""
    return answer


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Token usage of one or more calls."""

    input: int = 0
    output: int = 0
    cached: Annotated[int | None, OMIT_DEFAULT] = None

    @property
    def total(self) -> int:
        return self.input + self.output + (self.cached or 0)

    def __add__(self, other: TokenUsage) -> TokenUsage:
        cached = None if self.cached is other.cached is None else (self.cached or 0) + (other.cached or 0)
        return TokenUsage(self.input + other.input, self.output + other.output, cached)

    def to_dict(self) -> dict[str, int]:
        return encode(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TokenUsage:
        return decode(cls, data)


# -- a conversation


class Conversation:
    """Base class for objects with `messages`; splits them into the system prompt and the turns that follow."""

    __slots__ = ()
    messages: tuple[Message, ...]

    @property
    def turns(self) -> tuple[Message, ...]:
        """The messages after the system prompt."""
        return self.messages[self._system_messages() :]

    @property
    def system_prompt(self) -> str | None:
        """The text of the leading system messages; None when there are none."""
        count = self._system_messages()
        return "\n\n".join([whole_text(message) for message in self.messages[:count]]) if count else None

    @property
    def question(self) -> str:
        """The turns as text: a single message unchanged, several messages each after a line with its role."""
        turns = self.turns
        if len(turns) == 1:
            return whole_text(turns[0])
        return "\n\n".join(f"@[{message.role.capitalize()}]:\n{whole_text(message)}" for message in turns)

    def _system_messages(self) -> int:
        """Number of leading system messages."""
        count = 0
        for message in self.messages:
            if message.role != "system":
                break
            count += 1
        return count


def as_messages(question: str | None, system_prompt: str | None, messages: Sequence[Message]) -> tuple[Message, ...]:
    """A conversation from either a question with an optional system prompt, or `messages`."""
    if question is None:
        if not messages:
            raise ValueError("either a question or messages are required, got neither")
        if system_prompt is not None:
            raise ValueError("`system_prompt` requires a question; with messages, use a message with the role `system`")
        return tuple(messages)
    if messages:
        raise ValueError("either a question or messages are required, got both")
    asked = Message("user", question)
    return (asked,) if system_prompt is None else (Message("system", system_prompt), asked)


def whole_text(message: Message) -> str:
    """The message as text. Tool calls and parts that are not text are encoded as JSON."""
    if isinstance(message.content, str) and not message.tool_calls:
        return message.content
    if isinstance(message.content, list):
        parts = [part_text(part) or json.dumps(part, ensure_ascii=False) for part in message.content]
    else:
        parts = [message.text] if message.text else []
    calls = "\n".join(json.dumps(call.to_dict(), ensure_ascii=False) for call in message.tool_calls)
    return "\n\n".join([*parts, calls] if calls else parts)


# -- how a model answers


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model can call. `parameters` is the JSON Schema of its arguments."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}


@dataclass(frozen=True, slots=True)
class GenerationOptions:
    """Options for a model's answer. None or an empty value leaves the choice to the target."""

    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    response_schema: Mapping[str, Any] | None = None
    """JSON Schema that the answer should match."""
    tools: tuple[Tool, ...] = ()
    tool_choice: Literal["auto", "none", "required"] | Tool | None = None
    """Whether the model must call a tool, or which one of `tools` it must call."""
    logprobs: int | None = None
    """Report the log probability of each token and of this number of alternatives (0 for none)."""

    def __post_init__(self) -> None:
        if self.tool_choice is not None and not self.tools:
            raise ValueError("`tool_choice` requires `tools`")
        if isinstance(self.tool_choice, Tool) and self.tool_choice not in self.tools:
            raise ValueError(f"`tool_choice` must be one of `tools`, got '{self.tool_choice.name}'")

    @property
    def requested(self) -> tuple[str, ...]:
        """Names of the options that are set."""
        return tuple(name for name in OPTIONS if getattr(self, name) not in (None, ()))

    def to_dict(self) -> dict[str, Any]:
        """The options that are set, as JSON values."""
        values = {name: getattr(self, name) for name in self.requested}
        if self.stop:
            values["stop"] = list(self.stop)
        if self.tools:
            values["tools"] = [tool.to_dict() for tool in self.tools]
        if isinstance(self.tool_choice, Tool):
            values["tool_choice"] = {"name": self.tool_choice.name}
        return values


OPTIONS = tuple(option.name for option in fields(GenerationOptions))
"""Names of all generation options."""
NO_OPTIONS = GenerationOptions()


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token of a reply, its log probability, and alternative tokens."""

    token: str
    logprob: float
    alternatives: tuple[tuple[str, float], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {"token": self.token, "logprob": self.logprob, "alternatives": [list(one) for one in self.alternatives]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TokenLogprob:
        alternatives = tuple((str(token), float(logprob)) for token, logprob in data["alternatives"])
        return cls(str(data["token"]), float(data["logprob"]), alternatives)
