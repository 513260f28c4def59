from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any


class SingleTurnParams(Enum):
    INPUT = "input"
    ACTUAL_OUTPUT = "actual_output"
    EXPECTED_OUTPUT = "expected_output"
    RETRIEVAL_CONTEXT = "retrieval_context"
    EXPECTED_TOOLS = "expected_tools"


class ToolCallParams(Enum):
    OUTPUT = "output"


@dataclass
class ToolCall:
    name: str
    input_parameters: dict[str, Any] | None = None
    output: Any = None


@dataclass
class LLMTestCase:
    input: str
    actual_output: str | None = None
    expected_output: str | None = None
    context: list[str] | None = None
    retrieval_context: list[str] | None = None
    tools_called: list[ToolCall] | None = None
    expected_tools: list[ToolCall] | None = None


@dataclass
class Turn:
    role: str
    content: str
    tools_called: list[ToolCall] | None = None


@dataclass
class ConversationalTestCase:
    turns: list[Turn]
    context: list[str] | None = None
    expected_outcome: str | None = None
    chatbot_role: str | None = None
