"""An eval case -> the request its target gets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from agentv.messages import Message, part_text, whole_text
from agentv.suite.case import EvalCase
from agentv.suite.files import SuiteFiles
from agentv.targets.provider import Request
from agentv.text import short_path


def build_request(case: EvalCase, attempt: int, files: SuiteFiles) -> Request:
    """The conversation of the case with its files read in, the system messages joined at its beginning."""
    return Request(
        messages=_conversation(case, files),
        eval_id=case.id,
        attempt=attempt,
        files=case.input_files,
        directory=files.directory,
        guidelines="\n\n".join(_tagged(path, files) for path in case.guideline_files),
        naming_files=_conversation(case, files, named=True) if case.input_files else None,
    )


def _conversation(case: EvalCase, files: SuiteFiles, *, named: bool = False) -> tuple[Message, ...]:
    """The messages with their files read in, or only named."""
    attached = _Attached(iter(case.attachments), frozenset(case.guideline_files), files, named)
    messages = [_with_files(message, attached) for message in case.input_messages]
    system = "\n\n".join(whole_text(message) for message in messages if message.role == "system")
    turns = [message for message in messages if message.role != "system"] or [Message("user", "")]
    return (Message("system", system), *turns) if system else tuple(turns)


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
            return f"<Attached: {short_path(path, attached.files.root)}>"
        if attached.named:
            return f'<file path="{short_path(path, attached.files.root)}"/>'
        return _tagged(path, attached.files)
    return part if isinstance(part, dict) and part.get("type", "text") != "text" else part_text(part)


def _tagged(path: Path, files: SuiteFiles) -> str:
    return f'<file path="{short_path(path, files.root)}">\n{files.read_text(path)}\n</file>'
