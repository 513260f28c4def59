"""Prompts of a suite: each is a variant, sent with the variables of every case.

A prompt is a string (one user message), a list of messages, or a mapping with `id` and one of `template`, `messages`,
`file`; `system_prompt` can be added. Prompts without a user message are followed by the input of the case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from agentv.jsonio import JsonError
from agentv.jsonio import read as read_json
from agentv.messages import Message
from agentv.regular_files import FileUnusableError, as_text, read_regular
from agentv.suite.files import MAX_FILE_BYTES, FileReferenceError, SuiteFiles
from agentv.suite.findings import PLAIN_TEXT, AllFindings, Findings
from agentv.suite.messages import MessageReader
from agentv.suite.models import MessageModel
from agentv.suite.validation import show, validate
from agentv.suite.variables import CaseValues
from agentv.suite.yaml import ROOT, NodePath, YamlProblem, YamlWalk
from agentv.templates import TemplateError, compile_template, has_template

TEXT_KEYS = ("template", "messages", "file")
KEYS = ("id", *TEXT_KEYS, "system_prompt")
FILE = "file:"
"""How a string begins that names a file, for example `file://` in promptfoo."""
STRUCTURED = (".json", ".yaml", ".yml")
"""Prompt files that contain messages; others contain the text of one user message."""


class Place(NamedTuple):
    """Where a message of a prompt is written."""

    path: Path | None
    """The file; None for the suite."""
    node: NodePath | None
    """The node in the file; None in a file that is text."""

    def inside(self, node: NodePath) -> Place:
        """The place of a node in the message."""
        return self if self.node is None else self._replace(node=(*self.node, *node))

    def report(self, found: AllFindings, suite: Path, message: str, line: int) -> None:
        """Add a problem of the message. `line` is the line of its text."""
        path = self.path or suite
        if self.node is None:
            found.of(path, PLAIN_TEXT).add_at(line, 1, message)
        else:
            found.of(path).add(self.node, message, line=line)


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt: messages whose strings are templates."""

    id: str
    messages: tuple[MessageModel, ...]
    where: str
    """Where it is written, for messages about it."""
    places: tuple[Place, ...] = ()
    """Where each of the messages is written."""
    names: frozenset[str] = frozenset()
    """The variables it uses."""

    @property
    def has_user(self) -> bool:
        return any(message.role == "user" for message in self.messages)

    def asked(
        self,
        values: CaseValues,
        own: tuple[Message, ...],
        reader: MessageReader,
        at: NodePath,
        *,
        must_use: bool,
        needs_input: bool,
        reported: set[Any],
        case_id: str,
        report: Callable[[Place, str, int], None],
    ) -> tuple[Message, ...]:
        """The messages of a case with this prompt. `own` is the input of the case, if it has one.

        With `must_use`, it is a problem if the prompt does not use the input, which would be lost. Problems in
        `reported` are not reported again; `report` gets those in the text of the prompt.
        """
        filled = []
        for message, place in zip(self.messages, self.places, strict=True):
            findings = Findings(reader.findings.path)
            content = values.filled(message.content, findings, ())
            filled.append(message.model_copy(update={"content": content}))
            for node, problem, _, line in findings.by_node():
                if (place, problem) not in reported:
                    reported.add((place, problem))
                    report(place.inside(node), f"prompt '{self.id}', for case {show(case_id)}: {problem}", line or 1)
        asked = reader.read(filled, at)
        if not self.has_user:
            if not own and needs_input:
                reader.findings.add(
                    at, f"the case has no input: add `input: ...`, or a user message to prompt '{self.id}'"
                )
            return (*asked, *own)
        if must_use and "input" not in self.names:
            reader.findings.add(
                (*at, "input"),
                f"prompt '{self.id}' ({self.where}) does not use the input of the case: write `{{{{ input }}}}` in it, "
                "or remove `input`",
            )
        return asked


class PromptFileError(ValueError):
    """A prompt file cannot be used: what is wrong, and where in the file."""

    def __init__(self, path: Path, problem: str, line: int = 1, column: int = 1) -> None:
        super().__init__(f"{path.name}:{line}:{column}: {problem}")
        self.problem, self.line, self.column = problem, line, column


class PromptFile(NamedTuple):
    """A file with one prompt."""

    path: Path
    messages: list[Any]
    node: NodePath | None
    """The node of the list of messages; None in a file that is text."""

    @classmethod
    def read(cls, path: Path, text: str) -> PromptFile:
        """The messages in a prompt file. PromptFileError if it is empty or has another form."""
        if not text.strip():
            raise PromptFileError(path, "the file is empty; write the prompt in it")
        if path.suffix not in STRUCTURED:
            return cls(path, _messages(text), None)
        try:
            data = read_json(text) if path.suffix == ".json" else YamlWalk(text).document()
        except JsonError as error:
            error = error.located(text)
            raise PromptFileError(path, f"not valid JSON: {error.problem}", error.line, error.column) from None
        except YamlProblem as problem:
            raise PromptFileError(path, problem.message, problem.line, problem.column) from None
        node: NodePath = (ROOT,)
        if isinstance(data, dict):
            data, node = data.get("messages"), ("messages",)
        if not isinstance(data, list) or not data:
            raise PromptFileError(path, "a prompt must be a list of messages like {role: user, content: ...}")
        return cls(path, data, node)

    def place(self, index: int) -> Place:
        """Where a message is written."""
        return Place(self.path, None if self.node is None else (*self.node, index, "content"))


class PromptReader:
    """Reads the prompts of one suite, and reports every problem in them."""

    def __init__(self, files: SuiteFiles, found: AllFindings, suite: Path) -> None:
        self._files, self._found, self._suite = files, found, suite
        self._findings, self._name = found.of(suite), suite.name

    def read(self, entries: Sequence[Any], at: NodePath) -> tuple[Prompt, ...]:
        prompts: dict[str, Prompt] = {}
        for index, entry in enumerate(entries):
            prompt = self._prompt(entry, index, (*at, index))
            if prompt is None:
                continue
            if prompt.id in prompts:
                self._findings.add((*at, index), f"duplicate id {show(prompt.id)}: give each prompt its own `id`")
            prompts[prompt.id] = prompt
        return tuple(prompts.values())

    def _prompt(self, entry: Any, index: int, at: NodePath) -> Prompt | None:
        name, where = f"prompt-{index + 1}", f"{self._name}, prompt {index + 1}"
        if isinstance(entry, str | list):
            if isinstance(entry, str) and (path := self._path_in(entry)) is not None:
                instead = "" if entry.startswith(FILE) else f"; to send the name itself, write `{{template: {path}}}`"
                self._findings.add(at, f"a prompt in a file is written `{{file: {path}}}`{instead}")
                return None
            return self._built(name, where, _messages(entry), at, is_text=isinstance(entry, str))
        if not isinstance(entry, dict):
            self._findings.add(at, f"a prompt must be a string, a list of messages or a mapping, got {show(entry)}")
            return None
        if not self._keys_are_valid(entry, at):
            return None
        system = entry.get("system_prompt")
        texts = [key for key in TEXT_KEYS if entry.get(key) is not None]
        identity = entry.get("id")
        if not texts:
            return self._built(identity or name, where, [], at, system=system)
        value, node = entry[texts[0]], (*at, texts[0])
        if texts[0] != "file":
            is_text = isinstance(value, str)
            return self._built(identity or name, where, _messages(value), node, system=system, is_text=is_text)
        read = self._file(value, node)
        if read is None:
            return None
        return self._built(identity or read.path.stem, read.path.name, read.messages, node, system=system, source=read)

    def _path_in(self, text: str) -> str | None:
        """The path, if a string is that of a file instead of a prompt."""
        if text.startswith(FILE):
            return text.removeprefix(FILE).removeprefix("//").strip()
        if "\n" in text or not PurePath(text).suffix or has_template(text):
            return None
        try:
            return text if (self._files.directory / text).is_file() else None
        except (OSError, ValueError):
            return None

    def _keys_are_valid(self, entry: Mapping[str, Any], at: NodePath) -> bool:
        problems = len(self._findings)
        for key in entry:
            if key not in KEYS:
                self._findings.add((*at, key), f"unknown key `{key}`; a prompt has {', '.join(KEYS)}", at_key=True)
        texts = [key for key in TEXT_KEYS if entry.get(key) is not None]
        if len(texts) > 1:
            self._findings.add((*at, texts[1]), f"`{texts[0]}` and `{texts[1]}` exclude each other: keep one")
        if not texts and entry.get("system_prompt") is None and len(self._findings) == problems:
            self._findings.add(at, "a prompt needs `template`, `messages`, `file` or `system_prompt`")
        for key in ("id", "file", "system_prompt"):
            value = entry.get(key)
            if value is not None and (not isinstance(value, str) or not value.strip()):
                self._findings.add((*at, key), f"`{key}` must be a non-empty string, got {show(value)}")
        return len(self._findings) == problems

    def _file(self, reference: str, at: NodePath) -> PromptFile | None:
        try:
            return PromptFile.read(*self._files.attach(reference))
        except (FileReferenceError, ValueError) as error:
            self._findings.add(at, str(error))
            return None

    def given(self, paths: Sequence[Path]) -> tuple[Prompt, ...]:
        """The prompts in files of the command line. Their problems are problems of these files."""
        prompts: dict[str, Prompt] = {}
        files: dict[str, Path] = {}
        for path in paths:
            findings = self._found.of(path, None if path.suffix in STRUCTURED else PLAIN_TEXT)
            try:
                real = path.resolve()
                source = PromptFile.read(path, as_text(read_regular(real, MAX_FILE_BYTES)))
                self._files.fingerprints.note(real)
            except PromptFileError as error:
                findings.add_at(error.line, error.column, error.problem)
                continue
            except FileUnusableError as error:
                findings.add_at(1, 1, f"the file {error}")
                continue
            if path.stem in files:
                first = files[path.stem]
                clash = f"its id {path.stem!r} is also that of --prompt {first}: rename one of the files"
                findings.add_at(1, 1, "--prompt names this file twice; name it once" if first == path else clash)
                continue
            files[path.stem] = path
            prompt = self._built(path.stem, path.name, source.messages, (), source=source)
            if prompt is not None:
                prompts[prompt.id] = prompt
        return tuple(prompts.values())

    def _built(
        self,
        identity: str,
        where: str,
        messages: list[Any],
        at: NodePath,
        *,
        system: str | None = None,
        source: PromptFile | None = None,
        is_text: bool = False,
    ) -> Prompt | None:
        if "[" in identity or "]" in identity:
            problem = f"the id of a prompt must not contain brackets, got {show(identity)}"
            if source is not None and not at:
                self._found.of(source.path).add_at(1, 1, f"{problem}; rename the file")
            else:
                self._findings.add((*at[:-1], "id") if at and at[-1] in TEXT_KEYS else at, problem)
            return None
        problems = len(self._found)
        places = [Place(None, at if is_text else (*at, index, "content")) for index in range(len(messages))]
        if source is not None:
            places = [source.place(index) for index in range(len(messages))]
        if system is not None:
            messages = [{"role": "system", "content": system}, *messages]
            own = at if not at or at[-1] not in TEXT_KEYS else at[:-1]
            places = [Place(None, (*own, "system_prompt")), *places]
        models = [self._message(message, at, place) for message, place in zip(messages, places, strict=True)]
        names: set[str] = set()
        for message, place in zip(messages, places, strict=True):
            for text in strings(message.get("content") if isinstance(message, dict) else None):
                try:
                    names |= compile_template(text).names
                except TemplateError as error:
                    problem = f"prompt '{identity}': not a valid template: {error}"
                    place.report(self._found, self._suite, problem, error.line)
        if len(self._found) > problems:
            return None
        known = tuple(model for model in models if model is not None)
        return Prompt(identity, known, where, tuple(places), frozenset(names))

    def _message(self, message: Any, at: NodePath, place: Place) -> MessageModel | None:
        if place.path is None or place.node is None:
            return validate(MessageModel, message, self._findings, at)
        return validate(MessageModel, message, self._found.of(place.path), place.node[:-1])


def strings(value: Any) -> Iterator[str]:
    """All strings in a value that are templates."""
    if isinstance(value, str):
        if has_template(value):
            yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from strings(item)


def _messages(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [{"role": "user", "content": value}]
