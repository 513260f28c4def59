"""The command of a `cli` target. Placeholders are filled in once; values are never expanded again."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentv.command import split_command, with_own_python

PLACEHOLDERS = ("PROMPT", "PROMPT_FILE", "EVAL_ID", "ATTEMPT", "FILES", "OUTPUT_FILE", "GUIDELINES")
DEFAULT_FILES_FORMAT = "{path}"

_PLACEHOLDER = re.compile(r"(?<!\$)\{([A-Z][A-Z0-9_]*)\}")
_FILE_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_OWN_PYTHON = re.compile(r"\s*python3?(?=\s|$)")
_SHELL_PIECE = re.compile(
    r"""
      (?P<escape>\\.)
    | (?P<comment>(?:(?<=[\s;&|(])|\A)\#[^\n]*)
    | (?P<ansi>\$')
    | (?P<single>'[^']*')
    | (?P<double>"(?:[^"\\]|\\.)*")
    | (?P<backtick>`(?:[^`\\]|\\.)*`)
    | (?P<here_string><<<)
    | (?P<here_document><<)
    | (?P<placeholder>(?<!\$)\{[A-Z][A-Z0-9_]*\})
    | (?P<unclosed>['"`])
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class CommandTemplate:
    """A validated command. `parts` are the words; with a shell, text and placeholder names alternate."""

    parts: tuple[str, ...]
    by_shell: bool
    files_format: tuple[str, ...]
    names: frozenset[str]
    """The placeholders used in the command."""

    @classmethod
    def parse(
        cls, command: str | Sequence[str], *, by_shell: bool, files_format: str = DEFAULT_FILES_FORMAT
    ) -> CommandTemplate:
        """Parse a command. Raises `ValueError` with the problem and how to fix it."""
        if by_shell:
            if not isinstance(command, str):
                raise ValueError("with `shell: true` the command must be a string, got a list")
            parts = _shell_parts(command)
        else:
            parts = tuple(_words(command) if isinstance(command, str) else command)
        if not parts or not parts[0].strip():
            raise ValueError("the command must not be empty; name a program")
        text = command if isinstance(command, str) else " ".join(command)
        names = frozenset(_PLACEHOLDER.findall(text))
        unknown = sorted(names - set(PLACEHOLDERS))
        if unknown:
            known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
            raise ValueError(f"unknown placeholder {{{unknown[0]}}}; available: {known}")
        return cls(parts, by_shell, parse_files_format(files_format), names)

    def argv(self, values: Mapping[str, str], files: Sequence[Path]) -> list[str]:
        """The program and its arguments, with all values inserted verbatim."""
        if self.by_shell:
            return ["/bin/sh", "-c", self._script(values, files)]
        argv: list[str] = []
        for part in self.parts:
            if part == "{FILES}":
                argv += self._file_words(files)
            else:
                argv.append(_PLACEHOLDER.sub(lambda match: self._value(match[1], values, files), part))
        return with_own_python(argv)

    def _script(self, values: Mapping[str, str], files: Sequence[Path]) -> str:
        script = ""
        for index, part in enumerate(self.parts):
            if index % 2 == 0:
                script += part
            elif part == "FILES":
                script += shlex.join(self._file_words(files))
            else:
                script += shlex.quote(values[part])
        return _OWN_PYTHON.sub(lambda _: shlex.quote(sys.executable), script, count=1) if _own(script) else script

    def _value(self, name: str, values: Mapping[str, str], files: Sequence[Path]) -> str:
        return " ".join(self._file_words(files)) if name == "FILES" else values[name]

    def _file_words(self, files: Sequence[Path]) -> list[str]:
        return [
            _FILE_PLACEHOLDER.sub(lambda match, path=path: _file_value(match[1], path), word)  # type: ignore[misc]
            for path in files
            for word in self.files_format
        ]


def _own(script: str) -> bool:
    return _OWN_PYTHON.match(script) is not None


def _words(command: str) -> list[str]:
    try:
        return split_command(command)
    except ValueError as error:
        raise ValueError(f"{error}; or set `shell: true`, or write `[sh, -c, ...]`") from None


def parse_files_format(text: str) -> tuple[str, ...]:
    """The words for one file. Raises `ValueError` for placeholders other than `{path}` and `{basename}`."""
    unknown = sorted(set(re.findall(r"\{(\w*)\}", text)) - {"path", "basename"})
    if unknown:
        raise ValueError(f"unknown placeholder {{{unknown[0]}}}; available: {{path}} and {{basename}}")
    return tuple(split_command(text))


def _file_value(name: str, path: Path) -> str:
    return str(path) if name == "path" else path.name


def _shell_parts(command: str) -> tuple[str, ...]:
    """Text and placeholder names, alternating.

    Values are quoted as separate words, which does not protect them inside other quotes. So a placeholder may be quoted
    on its own (those quotes are dropped), but not as part of a longer quoted string.
    """
    parts = [""]
    here_document = False
    for piece, kind in _shell_pieces(command):
        name = _PLACEHOLDER.fullmatch(piece[1:-1] if kind in ("single", "double") else piece)
        if name is not None and kind in ("single", "double", "placeholder") and not here_document:
            parts += (name[1], "")
            continue
        if kind == "unclosed":
            raise ValueError(f"the quote {piece} is not closed")
        if kind != "comment" and (match := _PLACEHOLDER.search(piece)):
            raise ValueError(
                f"{match[0]} is inside quotes or a here-document, where its value could run as a "
                f"command; write it on its own and without quotes: agentv quotes it"
            )
        if kind == "ansi" and _PLACEHOLDER.search(command):
            raise ValueError("`$'...'` cannot be used together with placeholders; use plain quotes")
        here_document = here_document or kind == "here_document"
        parts[-1] += piece
    return tuple(parts)


def _shell_pieces(command: str) -> list[tuple[str, str]]:
    pieces: list[tuple[str, str]] = []
    done = 0
    for match in _SHELL_PIECE.finditer(command):
        pieces.append((command[done : match.start()], "plain"))
        pieces.append((match[0], match.lastgroup or ""))
        done = match.end()
    return [*pieces, (command[done:], "plain")]
