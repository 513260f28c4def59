"""Read promptfoo prompts: strings, files, and conversations in JSON or YAML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

from agentv import jsonio
from agentv.importing.source import FILE, Node, Notes, UnreadableError, entries, named_files, read_document, read_text
from agentv.importing.templates import UnsupportedTemplateError, converted
from agentv.templates import compile_template, has_template

PROGRAM = re.compile(r".*\.(?:[cm]?[jt]s|py|rb|go|sh)(?::\w+)?")
_PATH = re.compile(r"[^\n{}]+\.(?:txt|md|json|jsonl|ya?ml|j2)")
_ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "model": "assistant",
    "tool": "tool",
}
_QUOTED = re.compile(r'(?<!["\w])\{\{-?\s*([^{}|]+?)\s*\|\s*(?:dump|tojson)\s*-?\}\}')
PARTS = ("text", "image_url", "input_audio", "image")
"""Parts of the messages of chat completions and of Anthropic."""
Template = str | list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt: a template string or a list of message templates."""

    id: str
    template: Template
    node: Node
    names: frozenset[str] = frozenset()
    """How providers and tests refer to it."""

    def entry(self) -> dict[str, Any]:
        """The prompt as it is written in a suite."""
        return {"id": self.id, ("template" if isinstance(self.template, str) else "messages"): self.template}


class PromptReader:
    """Reads the prompts of one configuration."""

    def __init__(self, directory: Path, notes: Notes) -> None:
        self._directory, self._notes = directory, notes

    def read(self, node: Node | None) -> list[Prompt]:
        """Every prompt that can be imported."""
        prompts: dict[str, Prompt] = {}
        for item in node.items() if node is not None else ():
            for key, entry in entries(item):
                if key not in ("id", "label", "raw"):
                    self._notes.left_out(entry, f"`{key}` of a prompt is not imported")
            source = (item.get("raw") or item.get("id") or item) if item.is_mapping else item
            name = slug(str(item.raw("label") or item.raw("id") or "").removeprefix(FILE))
            try:
                for template in self._templates(source.value):
                    if isinstance(template, list) and any(isinstance(each["content"], list) for each in template):
                        message = "images and audio are sent as they are written; check that every target accepts them"
                        self._notes.look_at(source, message)
                    prompt_id = free(name or f"prompt-{len(prompts) + 1}", prompts)
                    prompts[prompt_id] = Prompt(prompt_id, converted(template), source, _names(item))
            except (UnreadableError, UnsupportedTemplateError) as error:
                self._notes.left_out(source, f"prompt: {error}")
        return list(prompts.values())

    def _templates(self, value: Any) -> Iterator[Template]:
        if not isinstance(value, str):
            raise UnreadableError("must be a string or a file name")
        if PROGRAM.fullmatch(value) or value.startswith("exec:"):
            raise UnreadableError(f"{value.removeprefix(FILE)} is a program that generates prompts; save them as text")
        if not (value.startswith(FILE) or (_PATH.fullmatch(value) and (self._directory / value).is_file())):
            yield _conversation(value) or value
            return
        for path in named_files(value, self._directory):
            if PROGRAM.fullmatch(path.name):
                raise UnreadableError(f"{path.name} is a program that generates prompts; save them as text")
            yield from _of_file(path)


def _names(item: Node) -> frozenset[str]:
    written = [item.value] if isinstance(item.value, str) else [item.raw("label"), item.raw("id"), item.raw("raw")]
    return frozenset(str(name).removeprefix(FILE) for name in written if name)


def matching(prompts: list[Prompt], node: Node | None) -> frozenset[str]:
    """The ids of the prompts that a provider or a test names; all of them if it names none."""
    if node is None:
        return frozenset(prompt.id for prompt in prompts)
    wanted = [str(item.value).removeprefix(FILE) for item in node.items()]
    return frozenset(prompt.id for prompt in prompts if any(_refers(each, prompt.names) for each in wanted))


def _refers(reference: str, names: frozenset[str]) -> bool:
    """Whether a reference names a prompt: its name, the start of its name before `*`, or its group (`Group:name`)."""
    start = reference[:-1] if reference.endswith("*") else f"{reference}:"
    return reference in names or any(name.startswith(start) for name in names)


def _of_file(path: Path) -> Iterator[Template]:
    if path.suffix in (".yaml", ".yml"):
        messages = _messages(read_document(path).value)
        if messages is None:
            raise UnreadableError(f"{path.name} must be a list of messages with `role` and `content`")
        yield messages
        return
    text = read_text(path)
    if path.suffix == ".json":
        parts = [text]
    else:
        parts = text.splitlines() if path.suffix == ".jsonl" else re.split(r"\n---\n", text)
    for part in parts:
        if part.strip():
            yield _conversation(part) or part.strip()


def _conversation(text: str) -> list[dict[str, Any]] | None:
    """The messages in JSON text; None if it is another text. Raises UnreadableError for messages without a form."""
    if not text.lstrip().startswith("["):
        return None
    for candidate in (text.strip(), _QUOTED.sub(r'"{{ \1 }}"', text.strip())):
        try:
            data = jsonio.read(candidate)
        except ValueError:
            continue
        return _messages(data)
    if '"role"' in text:
        raise UnreadableError("its messages are generated by a template; write them as a list of messages")
    return None


def _messages(value: Any) -> list[dict[str, Any]] | None:
    """The messages of a conversation; None for other data. Raises UnreadableError for content that is not text."""
    if not isinstance(value, list) or not value:
        return None
    messages: list[dict[str, Any]] = []
    for item in value:
        if not isinstance(item, dict) or item.get("role") not in _ROLES:
            return None
        messages.append({"role": _ROLES[item["role"]], "content": _content(item.get("content", item.get("parts")))})
    if not any(message["role"] == "user" for message in messages):
        raise UnreadableError("it has no user message")
    return messages


def _content(value: Any) -> str | list[Any]:
    """The text of a message. Parts that are not text, such as `image_url`, are sent as they are written."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(part, dict) for part in value):
        if all(isinstance(part.get("text"), str) for part in value):
            return "\n".join(part["text"] for part in value)
        if all(part.get("type") in PARTS for part in value):
            return value
    raise UnreadableError("its messages contain parts of another API, which are not imported")


def names_in_text(template: Template) -> set[str]:
    """The variables that a prompt uses outside of images and audio."""
    contents = [template] if isinstance(template, str) else [message["content"] for message in template]
    return {name for text in _texts(contents) if has_template(text) for name in compile_template(text).names}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        yield from chain.from_iterable(map(_texts, value))
    elif isinstance(value, dict) and value.get("type") not in ("image_url", "input_audio"):
        yield from chain.from_iterable(map(_texts, value.values()))


def slug(text: str) -> str:
    """Convert text to a short name."""
    return re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-.")[:60].strip("-.")


def free(wanted: str, taken: Any) -> str:
    """The name, or the name with a number if it is taken."""
    return next(name for name in chain((wanted,), (f"{wanted}-{n}" for n in count(2))) if name not in taken)
