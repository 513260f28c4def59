"""The command of a `cli` target.

Without a shell, values are inserted into the arguments. With a shell, the command text refers to environment variables
that hold the values, so that a value is never parsed.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from agentv.command import split_command, with_own_python
from agentv.targets.providers.cli_code import VALUE, Word, check_commands
from agentv.targets.providers.cli_shell import PLACEHOLDER, Slot, read_shell_command

PLACEHOLDERS = ("PROMPT", "PROMPT_FILE", "EVAL_ID", "ATTEMPT", "FILES", "OUTPUT_FILE", "GUIDELINES")
DEFAULT_FILES_FORMAT = "{path}"

PREFIX = "AGENTV_"
"""`{PROMPT}` is in the environment variable AGENTV_PROMPT."""

_VARIABLE = re.compile(PREFIX + f"({'|'.join(PLACEHOLDERS)})(?![A-Za-z0-9_])")
_OUR_VARIABLES = re.compile(PREFIX + f"(?:{'|'.join(PLACEHOLDERS)}|FILES_[0-9]+)")
_FILE_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_OWN_PYTHON = re.compile(r"\s*python3?(?=\s|$)")


@dataclass(frozen=True, slots=True)
class CommandTemplate:
    """A validated command: its words or, for a shell, its text and the placeholders in it."""

    parts: tuple[str | Slot, ...]
    by_shell: bool
    files_format: tuple[str, ...]
    names: frozenset[str]
    """The placeholders that the command uses, also through their variables."""

    @classmethod
    def parse(
        cls, command: str | Sequence[str], *, by_shell: bool, files_format: str = DEFAULT_FILES_FORMAT
    ) -> CommandTemplate:
        """Parse a command. Raises `ValueError` with the problem and how to fix it."""
        text = command if isinstance(command, str) else " ".join(command)
        if not text.strip() or (not isinstance(command, str) and not command[0].strip()):
            raise ValueError("the command must not be empty; name a program")
        variables = frozenset(_VARIABLE.findall(text))
        parts: tuple[str | Slot, ...]
        if by_shell:
            if not isinstance(command, str):
                raise ValueError("with `shell: true` the command must be a string, got a list")
            parts, names = _by_shell(command, variables)
        else:
            words = tuple(_words(command) if isinstance(command, str) else command)
            parts, names = words, _known(PLACEHOLDER.findall(" ".join(words)))
            if names:
                check_commands([[_word(word) for word in words]], _shown(names), by_shell=False)
        return cls(parts, by_shell, parse_files_format(files_format), names | variables)

    def fixed_words(self) -> list[str]:
        """The words before the first placeholder. Without a shell only."""
        return with_own_python(list(takewhile(lambda part: not PLACEHOLDER.search(part), self._texts())))

    def argv(self, values: Mapping[str, str], files: Sequence[Path]) -> list[str]:
        """The program and its arguments. Without a shell, with all values inserted verbatim."""
        if self.by_shell:
            return ["/bin/sh", "-c", self._script(files)]
        argv: list[str] = []
        for part in self._texts():
            if part == "{FILES}":
                argv += self._file_words(files)
            else:
                argv.append(PLACEHOLDER.sub(lambda match: self._value(match[1], values, files), part))
        return with_own_python(argv)

    def variables(self, values: Mapping[str, str], files: Sequence[Path]) -> dict[str, str]:
        """The environment variables with the values that a shell, or a script in the command, refers to."""
        if not self.by_shell and not any(_VARIABLE.search(part) for part in self._texts()):
            return {}
        variables = {PREFIX + name: self._value(name, values, files) for name in self.names}
        if "FILES" in self.names:
            words = enumerate(self._file_words(files), 1)
            variables |= {f"{PREFIX}FILES_{number}": word for number, word in words}
        return variables

    def _texts(self) -> list[str]:
        return [part for part in self.parts if isinstance(part, str)]

    def _script(self, files: Sequence[Path]) -> str:
        """The text for the shell. It depends on the number of files, and on no value."""
        script = "".join(part if isinstance(part, str) else self._reference(part, files) for part in self.parts)
        return _OWN_PYTHON.sub(lambda _: shlex.quote(sys.executable), script, count=1) if _own(script) else script

    def _reference(self, slot: Slot, files: Sequence[Path]) -> str:
        if slot.name == "FILES" and slot.alone:
            count = len(self._file_words(files))
            return " ".join(f'"${{{PREFIX}FILES_{number}}}"' for number in range(1, count + 1))
        reference = f"${{{PREFIX}{slot.name}}}"
        return reference if slot.quoted else f'"{reference}"'

    def _value(self, name: str, values: Mapping[str, str], files: Sequence[Path]) -> str:
        return " ".join(self._file_words(files)) if name == "FILES" else values[name]

    def _file_words(self, files: Sequence[Path]) -> list[str]:
        return [
            _FILE_PLACEHOLDER.sub(lambda match, path=path: _file_value(match[1], path), word)  # type: ignore[misc]
            for path in files
            for word in self.files_format
        ]


def _by_shell(command: str, variables: frozenset[str]) -> tuple[tuple[str | Slot, ...], frozenset[str]]:
    """The parts of a command for a shell, and its placeholders."""
    if not variables and not PLACEHOLDER.search(command):
        return (command,), frozenset()
    shell = read_shell_command(command)
    names = _known(part.name for part in shell.parts if isinstance(part, Slot))
    if names | variables:
        check_commands(shell.commands, _shown(names | variables), by_shell=True)
    return shell.parts, names


def _known(names: Iterable[str]) -> frozenset[str]:
    names = frozenset(names)
    unknown = sorted(names - set(PLACEHOLDERS))
    if unknown:
        known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
        raise ValueError(f"unknown placeholder {{{unknown[0]}}}; available: {known}")
    return names


def _shown(names: frozenset[str]) -> str:
    """One of the placeholders, for messages."""
    return f"{{{min(names, key=PLACEHOLDERS.index)}}}"


def _word(text: str) -> Word:
    filled, count = PLACEHOLDER.subn(VALUE, text)
    return Word(filled, filled=count > 0)


def _own(script: str) -> bool:
    return _OWN_PYTHON.match(script) is not None


def _words(command: str) -> list[str]:
    try:
        return split_command(command)
    except ValueError as error:
        raise ValueError(f"{error}; or set `shell: true`, or write `[sh, -c, ...]`") from None


def without_inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without variables of this name, which come from outside and not from the case."""
    return {name: value for name, value in environment.items() if not _OUR_VARIABLES.fullmatch(name)}


def parse_files_format(text: str) -> tuple[str, ...]:
    """The words for one file. Raises `ValueError` for placeholders other than `{path}` and `{basename}`."""
    unknown = sorted(set(re.findall(r"\{(\w*)\}", text)) - {"path", "basename"})
    if unknown:
        raise ValueError(f"unknown placeholder {{{unknown[0]}}}; available: {{path}} and {{basename}}")
    return tuple(split_command(text))


def _file_value(name: str, path: Path) -> str:
    return str(path) if name == "path" else path.name
