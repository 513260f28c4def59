"""An eval case -> the request its target gets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from agentv.messages import Message, part_text
from agentv.suite.case import EvalCase
from agentv.suite.files import SuiteFiles
from agentv.targets.provider import Asked, Request


def build_request(case: EvalCase, attempt: int, files: SuiteFiles) -> Request:
    """The conversation with its files read in, and the same as one text for targets that take one."""
    spoken, system = _conversation(case, files)
    return Request(
        question=_as_one_text(spoken),
        system_prompt=system or None,
        messages=tuple(spoken),
        eval_id=case.id,
        attempt=attempt,
        files=case.input_files,
        directory=files.directory,
        guidelines="\n\n".join(_tagged(path, files) for path in case.guideline_files),
        naming_files=_naming_files(case, files),
    )


def _naming_files(case: EvalCase, files: SuiteFiles) -> Asked | None:
    if not case.input_files:
        return None
    spoken, system = _conversation(case, files, named=True)
    return Asked(_as_one_text(spoken), system or None)


def _conversation(case: EvalCase, files: SuiteFiles, *, named: bool = False) -> tuple[list[Message], str]:
    """What is said, and the system prompt; files read in, or only named."""
    attached = _Attached(iter(case.attachments), frozenset(case.guideline_files), files, named)
    messages = [_with_files(message, attached) for message in case.input_messages]
    system = "\n\n".join(_said(message) for message in messages if message.role == "system")
    return [message for message in messages if message.role != "system"], system


class _Attached(NamedTuple):
    paths: Iterator[Path]
    guidelines: frozenset[Path]
    files: SuiteFiles
    named: bool


def _with_files(message: Message, attached: _Attached) -> Message:
    """The message with the texts of its files; parts of other kinds, like images, stay what they are."""
    if not isinstance(message.content, list):
        return message
    parts = [_part(part, attached) for part in message.content]
    content: Any = [{"type": "text", "value": part} if isinstance(part, str) else part for part in parts if part]
    if all(isinstance(part, str) for part in parts):
        content = "\n\n".join(part for part in parts if part)
    return Message(message.role, content, message.name, message.tool_calls, message.timestamp, message.metadata)


def _part(part: Any, attached: _Attached) -> Any:
    if isinstance(part, dict) and part.get("type") == "file":
        path = next(attached.paths)
        if path in attached.guidelines:
            return f"<Attached: {_shown(path, attached.files)}>"
        if attached.named:
            return f'<file path="{_shown(path, attached.files)}"/>'
        return _tagged(path, attached.files)
    return part if isinstance(part, dict) and part.get("type", "text") != "text" else part_text(part)


def _tagged(path: Path, files: SuiteFiles) -> str:
    return f'<file path="{_shown(path, files)}">\n{files.read_text(path)}\n</file>'


def _shown(path: Path, files: SuiteFiles) -> Path:
    return path.relative_to(files.root) if path.is_relative_to(files.root) else path


def _as_one_text(messages: Sequence[Message]) -> str:
    """One message as it is; several turns each under a line that names the speaker."""
    if len(messages) == 1:
        return _said(messages[0])
    return "\n\n".join(f"@[{message.role.capitalize()}]:\n{_said(message)}" for message in messages)


def _said(message: Message) -> str:
    """The message as text: what is none, parts of other kinds and tool calls, as JSON."""
    if isinstance(message.content, list):
        said = [part_text(part) or json.dumps(part, ensure_ascii=False) for part in message.content]
    else:
        said = [message.text] if message.text else []
    calls = "\n".join(json.dumps(call.to_dict(), ensure_ascii=False) for call in message.tool_calls)
    return "\n\n".join([*said, calls] if calls else said)
