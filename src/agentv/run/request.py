"""An eval case -> the request its target gets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from agentv.messages import Message, part_text
from agentv.suite.case import EvalCase
from agentv.suite.files import SuiteFiles
from agentv.targets.provider import Request


def build_request(case: EvalCase, attempt: int, files: SuiteFiles) -> Request:
    """The conversation with its files read in, and the same as one text for targets that take one."""
    paths = iter(case.input_files)
    messages = tuple(_with_files(message, paths, files) for message in case.input_messages)
    spoken = [message for message in messages if message.role != "system"]
    system = "\n\n".join(message.text for message in messages if message.role == "system")
    return Request(
        question=_as_one_text(spoken),
        system_prompt=system or None,
        messages=tuple(spoken),
        eval_id=case.id,
        attempt=attempt,
        files=case.input_files,
        directory=files.directory,
    )


def _with_files(message: Message, paths: Iterator[Path], files: SuiteFiles) -> Message:
    if not isinstance(message.content, list):
        return message
    text = "\n\n".join(text for part in message.content if (text := _part(part, paths, files)))
    return Message(message.role, text, message.name, message.tool_calls, message.timestamp, message.metadata)


def _part(part: Any, paths: Iterator[Path], files: SuiteFiles) -> str:
    if isinstance(part, dict) and part.get("type") == "file":
        path = next(paths)
        shown = path.relative_to(files.root) if path.is_relative_to(files.root) else path
        return f'<file path="{shown}">\n{files.read_text(path)}\n</file>'
    return part_text(part)


def _as_one_text(messages: Sequence[Message]) -> str:
    """One message as it is; several turns each under a line that names the speaker."""
    if len(messages) == 1:
        return messages[0].text
    return "\n\n".join(f"@[{message.role.capitalize()}]:\n{message.text}" for message in messages)
