"""The message model: what goes to a target and what comes back, everywhere in agentv."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from agentv.codec import OMIT_DEFAULT, decode, encode

OptionalText = Annotated[str | None, OMIT_DEFAULT]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call of an assistant. `input` and `output` are user data and are never rewritten."""

    tool: str
    input: Annotated[Any, OMIT_DEFAULT] = None
    output: Annotated[Any, OMIT_DEFAULT] = None
    id: OptionalText = None
    timestamp: OptionalText = None

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
        """All text of this message, its text parts joined; one structured object as JSON."""
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
    """The text of one content part: `{type: text, value: ...}`, or `text:` as model APIs spell it."""
    if isinstance(part, str):
        return part
    if isinstance(part, Mapping) and part.get("type", "text") == "text":
        value = part.get("value", part.get("text"))
        return value if isinstance(value, str) else ""
    return ""


def final_text(messages: Iterable[Message]) -> str:
    """The text of the last assistant message: the answer."""
    answer = ""
    for message in messages:
        if message.role == "assistant":
            answer = message.text if message.content is not None else ""
    return answer


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of one or more calls."""

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
