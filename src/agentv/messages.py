"""The message model: what goes to a target and what comes back, everywhere in agentv."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call of an assistant. `input` and `output` are user data and are never rewritten."""

    tool: str
    input: Any = None
    output: Any = None
    id: str | None = None
    timestamp: str | None = None

    def to_dict(self) -> dict[str, Any]:
        optional = {"input": self.input, "output": self.output, "id": self.id, "timestamp": self.timestamp}
        return {"tool": self.tool, **{k: v for k, v in optional.items() if v is not None}}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ToolCall:
        return cls(
            tool=data["tool"],
            input=data.get("input"),
            output=data.get("output"),
            id=data.get("id"),
            timestamp=data.get("timestamp"),
        )


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `content` is text, a list of content parts, or one structured object."""

    role: str
    content: Any = None
    name: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    timestamp: str | None = None
    metadata: Mapping[str, Any] | None = None

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
        data: dict[str, Any] = {"role": self.role}
        if self.name is not None:
            data["name"] = self.name
        if self.content is not None:
            data["content"] = self.content
        if self.tool_calls:
            data["tool_calls"] = [call.to_dict() for call in self.tool_calls]
        if self.timestamp is not None:
            data["timestamp"] = self.timestamp
        if self.metadata is not None:
            data["metadata"] = dict(self.metadata)
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Message:
        return cls(
            role=data["role"],
            content=data.get("content"),
            name=data.get("name"),
            tool_calls=tuple(ToolCall.from_dict(call) for call in data.get("tool_calls") or ()),
            timestamp=data.get("timestamp"),
            metadata=data.get("metadata"),
        )


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
    cached: int | None = None

    @property
    def total(self) -> int:
        return self.input + self.output + (self.cached or 0)

    def __add__(self, other: TokenUsage) -> TokenUsage:
        cached = None if self.cached is other.cached is None else (self.cached or 0) + (other.cached or 0)
        return TokenUsage(self.input + other.input, self.output + other.output, cached)

    def to_dict(self) -> dict[str, int]:
        data = {"input": self.input, "output": self.output}
        return data if self.cached is None else {**data, "cached": self.cached}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TokenUsage:
        return cls(input=data.get("input", 0), output=data.get("output", 0), cached=data.get("cached"))
