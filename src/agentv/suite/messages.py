"""Messages of a suite file -> the message model, with file references found."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from agentv.messages import Message, ToolCall, part_text
from agentv.suite.models import MessageModel
from agentv.suite.validation import as_written, show
from agentv.suite.yaml_events import Path as NodePath

Complain = Callable[[NodePath, str], None]
FindFile = Callable[[str], Path]


def build_messages(
    models: Sequence[MessageModel], find_file: FindFile, complain: Complain
) -> tuple[tuple[Message, ...], tuple[Path, ...]]:
    """The messages, and the files their parts refer to, in order."""
    files: list[Path] = []
    messages = tuple(_message(model, index, files, find_file, complain) for index, model in enumerate(models))
    return messages, tuple(files)


def _message(
    model: MessageModel, index: int, files: list[Path], find_file: FindFile, complain: Complain
) -> Message:
    content = as_written(model.content)
    if content is None and not model.tool_calls:
        complain((index,), "`content` is missing")
    if isinstance(content, list):
        for number, part in enumerate(content):
            _check_part(part, (index, "content", number), files, find_file, complain)
    return Message(
        role=model.role,
        content=content,
        name=model.name,
        tool_calls=tuple(ToolCall(c.tool, c.input, c.output, c.id, c.timestamp) for c in model.tool_calls),
        timestamp=model.timestamp,
        metadata=model.metadata,
    )


def _check_part(part: Any, at: NodePath, files: list[Path], find_file: FindFile, complain: Complain) -> None:
    if not isinstance(part, dict):
        complain(at, f"a content part is a mapping like `{{type: text, value: ...}}`, got {show(part)}")
        return
    if part.get("type") not in ("text", "file"):
        return
    value = part.get("value", part.get("text"))
    if not isinstance(value, str):
        complain((*at, "value"), f"`value` of a {part['type']} part: expected text, got {show(value)}")
    elif part["type"] == "file":
        try:
            files.append(find_file(value))
        except ValueError as error:
            complain((*at, "value"), str(error))


def question_of(messages: Sequence[Message]) -> str:
    """All text of all input messages, joined by a space."""
    texts: list[str] = []
    for message in messages:
        if isinstance(message.content, str):
            texts.append(message.content.strip())
        elif isinstance(message.content, list):
            texts.extend(part_text(part).strip() for part in message.content)
    return " ".join(text for text in texts if text)


def answer_of(messages: Sequence[Message]) -> str | None:
    """The reference answer the expected messages imply: the content of the last one."""
    if not messages:
        return None
    last = messages[-1]
    if isinstance(last.content, str):
        return last.content
    if last.content is not None:
        return json.dumps(last.content, indent=2, ensure_ascii=False)
    return json.dumps([call.to_dict() for call in last.tool_calls], indent=2, ensure_ascii=False)
