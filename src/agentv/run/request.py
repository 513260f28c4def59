"""An eval case -> the request its target gets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from agentv.messages import Message, part_text
from agentv.suite.case import EvalCase
from agentv.suite.files import SuiteFiles
from agentv.targets.provider import Request


def build_request(case: EvalCase, attempt: int, files: SuiteFiles) -> Request:
    """The conversation with its files read in, and the same as one text for targets that take one."""
    attached = _Attached(iter(case.attachments), frozenset(case.guideline_files), files)
    messages = tuple(_with_files(message, attached) for message in case.input_messages)
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
        guidelines="\n\n".join(_tagged(path, files) for path in case.guideline_files),
    )


class _Attached(NamedTuple):
    paths: Iterator[Path]
    guidelines: frozenset[Path]
    files: SuiteFiles


def _with_files(message: Message, attached: _Attached) -> Message:
    if not isinstance(message.content, list):
        return message
    text = "\n\n".join(text for part in message.content if (text := _part(part, attached)))
    return Message(message.role, text, message.name, message.tool_calls, message.timestamp, message.metadata)


def _part(part: Any, attached: _Attached) -> str:
    if isinstance(part, dict) and part.get("type") == "file":
        path = next(attached.paths)
        if path in attached.guidelines:
            return f"<Attached: {_shown(path, attached.files)}>"
        return _tagged(path, attached.files)
    return part_text(part)


def _tagged(path: Path, files: SuiteFiles) -> str:
    return f'<file path="{_shown(path, files)}">\n{files.read_text(path)}\n</file>'


def _shown(path: Path, files: SuiteFiles) -> Path:
    return path.relative_to(files.root) if path.is_relative_to(files.root) else path


def _as_one_text(messages: Sequence[Message]) -> str:
    """One message as it is; several turns each under a line that names the speaker."""
    if len(messages) == 1:
        return messages[0].text
    return "\n\n".join(f"@[{message.role.capitalize()}]:\n{message.text}" for message in messages)
