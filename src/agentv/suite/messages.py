"""Read the messages of a suite file and resolve the files they refer to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentv.messages import Message, ToolCall, part_text
from agentv.suite.files import FileReferenceError, SuiteFiles
from agentv.suite.findings import Findings
from agentv.suite.models import MessageModel
from agentv.suite.validation import show
from agentv.suite.yaml import NodePath
from agentv.text import did_you_mean

NO_CONTENT = "`content` is missing: a message needs `content` or `tool_calls`"


class MessageReader:
    """Reads the messages of one case and reports problems; `files` lists the files that its parts refer to, in order.

    With `include_text`, the text of each file is added to the part that refers to it, for comparisons.
    """

    def __init__(self, suite_files: SuiteFiles, findings: Findings, *, include_text: bool = False) -> None:
        self.files: list[Path] = []
        self._include_text = include_text
        self._suite_files = suite_files
        self.findings = findings

    def read(self, models: Sequence[MessageModel], at: NodePath) -> tuple[Message, ...]:
        return tuple(self._message(model, (*at, index)) for index, model in enumerate(models))

    def check_parts(self, raw: Any, at: NodePath) -> None:
        """Check the content of messages that are invalid for another reason."""
        for index, message in enumerate(raw if isinstance(raw, list) else ()):
            if not isinstance(message, dict):
                continue
            if isinstance(message.get("content"), list):
                self._parts(message["content"], (*at, index, "content"))
            elif _is_empty(message) and message.keys() <= MessageModel.model_fields.keys():
                self.findings.add((*at, index), NO_CONTENT)

    def _message(self, model: MessageModel, at: NodePath) -> Message:
        content = model.content
        calls = tuple(ToolCall(c.tool, c.input, c.output, c.id, c.timestamp) for c in model.tool_calls or ())
        if content is None:
            if not calls:
                self.findings.add(at, NO_CONTENT)
        elif isinstance(content, list):
            content = self._parts(content, (*at, "content"))
        elif not isinstance(content, str | dict):
            content = self.findings.as_written((*at, "content"), content)
        return Message(model.role, content, model.name, calls, model.timestamp, model.metadata)

    def _parts(self, parts: list[Any], at: NodePath) -> list[Any]:
        return [self._part(part, (*at, number)) for number, part in enumerate(parts)]

    def _part(self, part: Any, at: NodePath) -> Any:
        if not isinstance(part, dict):
            self.findings.add(
                at, f"a content part must be a mapping like `{{type: text, value: ...}}`, got {show(part)}"
            )
            return part
        if part.get("type") not in ("text", "file"):
            return part
        key = "value" if "value" in part or "text" not in part else "text"
        value = self.findings.as_written((*at, key), part.get(key))
        if key not in part:
            near = next((name for name in part if did_you_mean(name, ["value"])), None)
            hint = f" (did you mean `value` instead of `{near}`?)" if near else ""
            self.findings.add(at, f"`value` of a {part['type']} part is missing{hint}")
        elif not isinstance(value, str):
            self.findings.add((*at, key), f"`{key}` of a {part['type']} part must be a string, got {show(value)}")
        elif part["type"] == "file":
            file = self._file(value, (*at, key))
            if file is not None and self._include_text and key == "value":
                return {**part, key: value, "path": value, "text": file[1], "resolved_path": str(file[0])}
        return {**part, key: value} if part.get(key) is not value else part

    def _file(self, reference: str, at: NodePath) -> tuple[Path, str] | None:
        try:
            if self._suite_files.running and not self._include_text:
                path, text = self._suite_files.locate(reference), ""  # read outside the event loop, when it is sent
            else:
                path, text = self._suite_files.attach(reference)
        except FileReferenceError as error:
            self.findings.add(at, str(error))
            return None
        self.files.append(path)
        return path, text


def _is_empty(message: dict[str, Any]) -> bool:
    return message.get("content") is None and not message.get("tool_calls")


def _without_paths(part: Any) -> Any:
    """A file part with its name and text only: the location of the file is not part of an answer."""
    if not isinstance(part, dict) or part.get("type") != "file":
        return part
    return {key: value for key, value in part.items() if key not in ("path", "resolved_path")}


def question_of(messages: Sequence[Message]) -> str:
    """All text of all input messages, joined by a space."""
    texts: list[str] = []
    for message in messages:
        if isinstance(message.content, list):
            texts.extend(part_text(part).strip() for part in message.content)
        else:
            texts.append(message.text.strip())
    return " ".join(text for text in texts if text)


def answer_of(messages: Sequence[Message]) -> str | None:
    """The reference answer that follows from the expected messages: the content of the last one."""
    if not messages:
        return None
    last = messages[-1]
    if isinstance(last.content, str):
        return last.content
    content = last.content if last.content is not None else [call.to_dict() for call in last.tool_calls]
    if isinstance(content, list):
        content = [_without_paths(part) for part in content]
    return json.dumps(content, indent=2, ensure_ascii=False)
