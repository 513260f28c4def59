"""Reads a shell command with placeholders, and decides how each placeholder can be passed to the shell.

A value never becomes part of the command text. A placeholder becomes a reference to an environment variable, which the
shell expands once and does not parse again, at any depth of quotes and substitutions. This reader only has to find out
whether a placeholder is inside double quotes. It covers the POSIX grammar of words; anything else is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from agentv.targets.providers.cli_code import RESERVED, VALUE, Word

PLACEHOLDER = re.compile(r"(?<!\$)\{([A-Z][A-Z0-9_]*)\}")
_EXPANSION = "\1"
"""In the text of a word: something that the shell expands."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]")
_PARAMETER = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*])(?P<operator>:?[-=+?]|##?|%%?)")
_PLAIN_PARAMETER = re.compile(r"#?(?:[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-])\}")
_DELIMITER = re.compile(
    r"""[ \t]*(?:(?P<plain>[\w.-]+)|'(?P<single>[\w.-]+)'|"(?P<double>[\w.-]+)"|\\(?P<escaped>[\w.-]+))"""
)
_REDIRECTION = re.compile(r"<<<|<<-?|<&|<>|<|>>|>&|>\||>")
_ARITHMETIC = re.compile(r"[\w\s+*/%<>=!&|^~?:,$#-]|\$\{\w+\}")


class ShellSyntaxError(ValueError):
    """A command that agentv cannot fill safely: the reason, and how to write it instead."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A placeholder in a command."""

    name: str
    quoted: bool
    """Whether it is inside double quotes, where the reference needs no quotes of its own."""
    alone: bool = False
    """Whether it is a whole word."""


@dataclass(slots=True)
class _Pending:
    """A word that is being read: its text, and where its unquoted slots are among the parts."""

    text: str = ""
    slots: list[int] = field(default_factory=list)


class _Document(NamedTuple):
    """A here-document whose text begins on the next line."""

    delimiter: str
    quoted: bool
    tabs: bool


@dataclass(slots=True)
class _Commands:
    """The state between the beginning and the end of a list of commands."""

    end: str | None
    words: list[Word] = field(default_factory=list)
    word: _Pending | None = None
    redirected: bool = False
    """Whether the next word is the file of a redirection."""
    depth: int = 0
    """Open parentheses."""
    has_case: bool = False
    """Whether there was a `case`, whose patterns end with a `)` of their own."""
    documents: list[_Document] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A command: text and slots in order, and the words of its simple commands."""

    parts: tuple[str | Slot, ...]
    commands: tuple[tuple[Word, ...], ...]


def read_shell_command(text: str) -> ShellCommand:
    """Raises `ShellSyntaxError` if a placeholder is where it cannot be filled, or if the syntax is not understood."""
    if "\0" in text or _EXPANSION in text:
        raise ShellSyntaxError("the command must not contain control characters")
    reader = _Reader(text)
    reader.commands(end=None)
    return ShellCommand(tuple(reader.parts), tuple(reader.found))


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.limit = len(text)
        self.parts: list[str | Slot] = []
        self.found: list[tuple[Word, ...]] = []
        self.filled = 0
        """Placeholders so far."""

    # -- text

    def _peek(self, length: int = 1) -> str:
        return self.text[self.at : min(self.at + length, self.limit)]

    def _take(self, length: int = 1) -> str:
        piece = self._peek(length)
        self.at += len(piece)
        if self.parts and isinstance(self.parts[-1], str):
            self.parts[-1] += piece
        else:
            self.parts.append(piece)
        return piece

    def _placeholder(self) -> str | None:
        match = PLACEHOLDER.match(self.text, self.at, self.limit)
        return None if match is None else match[1]

    def _slot(self, name: str, *, quoted: bool, length: int | None = None) -> int:
        self.at += len(name) + 2 if length is None else length
        self.filled += 1
        self.parts.append(Slot(name, quoted))
        return len(self.parts) - 1

    def _escape(self) -> str:
        """A backslash and the character after it."""
        self._take()
        if name := self._placeholder():
            raise ShellSyntaxError(f"there is a backslash before {{{name}}}; remove it: agentv quotes the value")
        return self._take()

    # -- commands

    def commands(self, end: str | None) -> bool:
        """Read commands up to `end`. Returns whether one of them has a placeholder."""
        before, state = self.filled, _Commands(end)
        while self.at < self.limit:
            char = self._peek()
            if char == ")" and state.depth == 0 and end == ")":
                self._finish_command(state)
                if state.documents:
                    raise ShellSyntaxError("a here-document inside `$(...)` must end before the `)`")
                self._take()
                return self.filled > before
            if char in " \t":
                self._finish_word(state)
                self._take()
            elif char == "\n":
                self._finish_command(state)
                self._take()
                while state.documents:
                    self._here_document(state.documents.pop(0))
            elif char == "#" and state.word is None:
                self._take(self._line_end() - self.at)
            elif self._peek(2) == "\\\n":
                self._take(2)
            elif char in "<>":
                self._redirection(state)
            elif char in ";&|()":
                self._operator(state, char)
            else:
                state.word = state.word or _Pending()
                self._piece(state.word)
        self._finish_command(state)
        if end is not None or state.documents:
            raise ShellSyntaxError(f"a `{end}` is missing" if end else "a here-document is not closed")
        return self.filled > before

    def _finish_word(self, state: _Commands) -> None:
        word = state.word
        if word is None:
            return
        if word.text == "case" and all(earlier.text in RESERVED for earlier in state.words):
            state.has_case = True
            if state.end is not None:
                raise ShellSyntaxError("`case` inside `$(...)` cannot be used together with placeholders")
        if not state.redirected:
            state.words.append(Word(word.text, VALUE in word.text, _EXPANSION in word.text))
            if len(word.slots) == 1 and word.text == VALUE:
                slot = self.parts[word.slots[0]]
                self.parts[word.slots[0]] = replace(slot, alone=True) if isinstance(slot, Slot) else slot
        state.word, state.redirected = None, False

    def _finish_command(self, state: _Commands) -> None:
        self._finish_word(state)
        state.redirected = False
        if state.words:
            self.found.append(tuple(state.words))
            state.words = []

    def _operator(self, state: _Commands, char: str) -> None:
        if self._peek(2) == "((":
            raise ShellSyntaxError("`((` cannot be used together with placeholders; use `$((...))` or `[ ... ]`")
        if char == "(":
            state.depth += 1
        elif char == ")" and state.depth:
            state.depth -= 1
        elif char == ")" and not state.has_case:
            raise ShellSyntaxError("there is a `)` without a `(` before it")
        self._finish_command(state)
        self._take()

    def _line_end(self) -> int:
        found = self.text.find("\n", self.at, self.limit)
        return self.limit if found < 0 else found

    def _piece(self, word: _Pending) -> None:
        """One piece of an unquoted word."""
        char = self._peek()
        if name := self._placeholder():
            word.slots.append(self._slot(name, quoted=False))
            word.text += VALUE
        elif char == "\\":
            word.text += self._escape()
        elif char == "'":
            self._single_quoted(word)
        elif char == '"':
            self._whole_double_quoted(word)
        elif char == "$":
            word.text += self._dollar(quoted=False)
        elif char == "`":
            word.text += self._backticks()
        else:
            word.text += self._take()

    def _single_quoted(self, word: _Pending) -> None:
        close = self.text.find("'", self.at + 1, self.limit)
        if close < 0:
            raise ShellSyntaxError("the quote ' is not closed")
        inner = self.text[self.at + 1 : close]
        whole = PLACEHOLDER.fullmatch(inner)
        if whole:
            word.slots.append(self._slot(whole[1], quoted=False, length=len(inner) + 2))
            word.text += VALUE
            return
        if match := PLACEHOLDER.search(inner):
            raise ShellSyntaxError(
                f"{match[0]} is inside single quotes, where a shell expands nothing; "
                f"use double quotes or none, or in code for another program the variable $AGENTV_{match[1]}"
            )
        self._take(len(inner) + 2)
        word.text += inner

    def _whole_double_quoted(self, word: _Pending) -> None:
        match = PLACEHOLDER.match(self.text, self.at + 1, self.limit)
        if match and self.text[match.end() : match.end() + 1] == '"' and match.end() < self.limit:
            # The quotes are dropped: {FILES} becomes several words, with or without quotes.
            word.slots.append(self._slot(match[1], quoted=False, length=len(match[0]) + 2))
            word.text += VALUE
            return
        self._take()
        word.text += self._double_quoted(until='"')

    def _double_quoted(self, until: str | None) -> str:
        """The text up to the closing quote, or up to the limit if `until` is None."""
        text = ""
        while self.at < self.limit:
            char = self._peek()
            if char == until:
                self._take()
                return text
            if name := self._placeholder():
                self._slot(name, quoted=True)
                text += VALUE
            elif char == "\\":
                text += self._escape()
            elif char == "$":
                text += self._dollar(quoted=True)
            elif char == "`":
                text += self._backticks()
            else:
                text += self._take()
        if until is not None:
            raise ShellSyntaxError(f"the quote {until} is not closed")
        return text

    # -- expansions

    def _dollar(self, *, quoted: bool) -> str:
        if self._peek(3) == "$((":
            return self._arithmetic()
        following = self._peek(2)[1:]
        if following == "(":
            self._take(2)
            return _EXPANSION + VALUE if self.commands(end=")") else _EXPANSION
        if following == "{":
            return self._parameter(quoted=quoted)
        if following == "[" or (following in ("'", '"') and following and not quoted):
            raise ShellSyntaxError(
                f"`${following}` cannot be used together with placeholders; use plain quotes, or `$((...))`"
            )
        self._take()
        if match := _NAME.match(self.text, self.at, self.limit):
            self._take(len(match[0]))
            return _EXPANSION
        return "$"

    def _arithmetic(self) -> str:
        self._take(3)
        depth = 0
        while self.at < self.limit:
            if self._peek(2) == "))" and depth == 0:
                self._take(2)
                return _EXPANSION
            if name := self._placeholder():
                if name != "ATTEMPT":
                    raise ShellSyntaxError(
                        f"{{{name}}} is inside `$((...))`, where some shells run its value as code; "
                        f"only {{ATTEMPT}}, which is a number, may be used there"
                    )
                self._slot(name, quoted=True)
            elif self._peek() in "()":
                depth += 1 if self._take() == "(" else -1
            elif match := _ARITHMETIC.match(self.text, self.at, self.limit):
                self._take(len(match[0]))
            else:
                break
        raise ShellSyntaxError("agentv does not understand this `$((...))`; move it to a script")

    def _parameter(self, *, quoted: bool) -> str:
        """`${NAME}`, or `${NAME:-word}` and the like, where the word may contain placeholders."""
        self._take(2)
        if match := _PLAIN_PARAMETER.match(self.text, self.at, self.limit):
            self._take(len(match[0]))
            return _EXPANSION
        match = _PARAMETER.match(self.text, self.at, self.limit)
        if match is None:
            raise ShellSyntaxError("agentv does not understand this `${...}`; move it to a script")
        self._take(len(match[0]))
        as_pattern = match["operator"][0] in "#%"
        before, word = self.filled, _Pending()
        while self.at < self.limit:
            char = self._peek()
            if char == "}":
                self._take()
                return _EXPANSION + VALUE if self.filled > before else _EXPANSION
            if char == "'" and quoted:
                raise ShellSyntaxError('a single quote inside `"${...}"` means different things in different shells')
            if (name := self._placeholder()) and quoted and not as_pattern:
                self._slot(name, quoted=True)
            elif char == '"' and quoted:
                self._take()
                self._double_quoted(until='"')
            else:
                self._piece(word)
        raise ShellSyntaxError("a `${` is not closed")

    def _backticks(self) -> str:
        close = re.compile(r"(?:[^`\\]|\\.)*`", re.DOTALL).match(self.text, self.at + 1, self.limit)
        if close is None:
            raise ShellSyntaxError("the quote ` is not closed")
        if "\\" in close[0]:
            if match := PLACEHOLDER.search(close[0]):
                raise ShellSyntaxError(
                    f"{match[0]} is inside backticks with a backslash; write `$(...)` instead of backticks"
                )
            self._take(len(close[0]) + 1)
            return _EXPANSION
        self._take()
        with self._only(close.end() - 1):
            filled = self.commands(end=None)
        self._take()
        return _EXPANSION + VALUE if filled else _EXPANSION

    # -- redirections

    def _redirection(self, state: _Commands) -> None:
        """Read an operator like `2>>` or `<<EOF`, without the file after it."""
        if state.word is not None and state.word.text.isdigit():
            state.word = None
        self._finish_word(state)
        match = _REDIRECTION.match(self.text, self.at, self.limit)
        operator = self._take(len(match[0]) if match else 1)
        if self._peek() == "(":
            raise ShellSyntaxError("`<(` and `>(` cannot be used together with placeholders; use a pipe or a file")
        if operator not in ("<<", "<<-"):
            state.redirected = True
            return
        delimiter = _DELIMITER.match(self.text, self.at, self.limit)
        if delimiter is None or self.text[delimiter.end() : delimiter.end() + 1] not in ("", *" \t\n;&|<>)"):
            raise ShellSyntaxError("the delimiter of a here-document must be one plain word like EOF")
        self._take(len(delimiter[0]))
        word = delimiter[delimiter.lastgroup or 0]
        state.documents.append(_Document(word, delimiter["plain"] is None, operator == "<<-"))

    def _here_document(self, document: _Document) -> None:
        delimiter = document.delimiter
        start, end = self.at, self.at
        while end < self.limit:
            stop = self.text.find("\n", end, self.limit)
            stop = self.limit if stop < 0 else stop
            line = self.text[end:stop]
            if (line.lstrip("\t") if document.tabs else line) == delimiter:
                break
            end = stop + 1
        else:
            raise ShellSyntaxError(f"the here-document is not closed: there is no line {delimiter}")
        body = self.text[start:end]
        if document.quoted:
            if match := PLACEHOLDER.search(body):
                raise ShellSyntaxError(
                    f"{match[0]} is in a here-document with a quoted delimiter, where a shell expands nothing; "
                    f"write <<{delimiter} without quotes"
                )
            self._take(len(body))
        else:
            if "\\\n" in body:
                raise ShellSyntaxError("a here-document must not contain a backslash at the end of a line")
            with self._only(end):
                self._double_quoted(until=None)
        self._take(stop + 1 - end)

    @contextmanager
    def _only(self, end: int) -> Iterator[None]:
        """Read no further than `end`."""
        limit, self.limit = self.limit, end
        try:
            yield
        finally:
            self.limit = limit
