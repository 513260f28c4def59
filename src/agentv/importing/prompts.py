"""Read promptfoo prompts: strings, files, and conversations in JSON or YAML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentv import jsonio
from agentv.importing.source import FILE, Node, Notes, UnreadableError, entries, named_files, read_document, read_text
from agentv.importing.templates import missing, render, render_all

PROGRAMS = (".js", ".ts", ".mjs", ".cjs", ".py", ".j2")
_PATH = re.compile(r"[^\n{}]+\.(?:txt|md|json|ya?ml)")
ROLES = ("system", "user", "assistant", "tool")


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt: a template string or a list of message templates."""

    template: str | list[dict[str, Any]]
    label: str
    node: Node

    def input(self, values: Mapping[str, Any]) -> str | list[dict[str, Any]]:
        """The `input` of a case with these variables. Raises TemplateError."""
        if isinstance(self.template, str):
            return render(self.template, values)
        return [render_all(message, values) for message in self.template]

    def without_value(self, values: Mapping[str, Any]) -> list[str]:
        templates = [self.template] if isinstance(self.template, str) else [str(m["content"]) for m in self.template]
        return list(dict.fromkeys(name for text in templates for name in missing(text, values)))


def read_prompts(node: Node | None, directory: Path, notes: Notes) -> list[Prompt]:
    """Every prompt that can be imported."""
    prompts: list[Prompt] = []
    for item in node.items() if node is not None else ():
        for key, entry in entries(item):
            if key not in ("id", "label", "raw"):
                notes.left_out(entry, f"`{key}` of a prompt is not imported")
        source = (item.get("raw") or item.get("id") or item) if item.is_mapping else item
        label = str(item.raw("label") or item.raw("id") or "").removeprefix(FILE)
        try:
            prompts += [Prompt(template, label, source) for template in _templates(source.value, directory)]
        except UnreadableError as error:
            notes.left_out(source, f"prompt: {error}")
    return prompts


def _templates(value: Any, directory: Path) -> Iterator[str | list[dict[str, Any]]]:
    if not isinstance(value, str):
        raise UnreadableError("must be a string or a file name")
    is_file = value.startswith(FILE) or bool(_PATH.fullmatch(value) and (directory / value).is_file())
    if not is_file:
        yield _conversation(value) or value
        return
    for path in named_files(value, directory):
        if path.suffix in PROGRAMS or re.search(r"\.(?:js|ts|py):\w+$", path.name):
            raise UnreadableError(f"{path.name} is a program that generates prompts; save its output as text")
        if path.suffix in (".yaml", ".yml"):
            messages = _messages(read_document(path).value)
            if messages is None:
                raise UnreadableError(f"{path.name} must be a list of messages with `role` and `content`")
            yield messages
        else:
            for text in re.split(r"\n---\n", read_text(path)) if path.suffix != ".json" else [read_text(path)]:
                if text.strip():
                    yield _conversation(text) or text.strip()


def _conversation(text: str) -> list[dict[str, Any]] | None:
    if not text.lstrip().startswith("["):
        return None
    try:
        return _messages(jsonio.read(text.strip()))
    except ValueError:
        return None


def _messages(value: Any) -> list[dict[str, Any]] | None:
    """The messages of a conversation; None unless every message has a role and text."""
    if not isinstance(value, list) or not value:
        return None
    messages: list[dict[str, Any]] = []
    for item in value:
        if not isinstance(item, dict) or item.get("role") not in ROLES or not isinstance(item.get("content"), str):
            return None
        messages.append({"role": item["role"], "content": item["content"]})
    return messages
