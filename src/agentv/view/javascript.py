"""Split JavaScript into tokens, as far as removing comments and finding imports needs it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_SPACE = re.compile(r"\s+")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'', re.DOTALL)
_WORD = re.compile(r"[\w$#]+")
_REGEX = re.compile(r"/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[a-z]*")
_TEMPLATE = re.compile(r"(?:[^`\\$]|\\.|\$(?!\{))*", re.DOTALL)
_BEFORE_REGEX = frozenset(
    ("return", "typeof", "case", "in", "delete", "void", "throw", "new", "else", "do", "instanceof", "yield", "await")
)
_WITH_CONDITION = frozenset(("if", "while", "for"))
_OPENING, _CLOSING = "([{", ")]}"


class LinkError(Exception):
    """A module contains something that cannot be joined."""


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a module. Strings, regular expressions, and the text of a template around its expressions are one
    piece each."""

    kind: str
    text: str
    start: int
    depth: int
    """How many brackets are open."""

    @property
    def is_space(self) -> bool:
        return self.kind in {"space", "comment"}


def tokens(name: str, source: str) -> Iterator[Token]:
    """The pieces of a module, in order and complete. Raises LinkError if a `/` can be read in two ways."""
    return _Scanner(name, source).tokens()


def error_at(name: str, source: str, position: int, problem: str) -> LinkError:
    """A LinkError with the line of a position."""
    return LinkError(f"{name} line {source.count(chr(10), 0, position) + 1}: {problem}")


class _Scanner:
    def __init__(self, name: str, source: str) -> None:
        self._name, self._source = name, source
        self._brackets: list[str] = []
        """Open brackets: `if` for the parenthesis of a condition, a backtick for an expression in a template."""
        self._last = self._before_last = ""
        """The last two pieces that are not space; the kind instead of the text for strings and the like."""

    def tokens(self) -> Iterator[Token]:
        source, position = self._source, 0
        while position < len(source):
            start, depth = position, len(self._brackets)
            if found := _SPACE.match(source, start) or _COMMENT.match(source, start):
                position = found.end()
                yield Token("space" if found.re is _SPACE else "comment", found.group(), start, depth)
                continue
            kind, position = self._piece(start)
            text = source[start:position]
            yield Token(kind, text, start, depth)
            self._before_last = self._last
            self._last = text if kind in {"word", "other"} else kind
            if kind == "template" and text.endswith("${"):
                self._last = "("
        if self._brackets:
            raise self._error(len(source), "a bracket is not closed")

    def _piece(self, start: int) -> tuple[str, int]:
        """The kind and the end of the piece that starts here."""
        char = self._source[start]
        if char in "\"'":
            return "string", self._matched(_STRING, start, "the string is not closed")
        if char == "`":
            return "template", self._template(start + 1)
        if char == "}" and self._brackets and self._brackets[-1] == "`":
            self._brackets.pop()
            return "template", self._template(start + 1)
        if char == "/" and self._is_regex(start):
            return "regex", self._matched(_REGEX, start, "the regular expression is not closed")
        if found := _WORD.match(self._source, start):
            return "word", found.end()
        return self._bracket(start, char), start + 1

    def _bracket(self, start: int, char: str) -> str:
        if char in _OPENING:
            condition = char == "(" and self._last in _WITH_CONDITION and self._before_last != "."
            self._brackets.append("if" if condition else char)
        elif char in _CLOSING:
            if not self._brackets or self._brackets[-1] == "`":
                raise self._error(start, f"{char!r} closes nothing")
            if self._brackets.pop() == "if":
                return "condition"
        return "other"

    def _template(self, start: int) -> int:
        """The end of a part of a template."""
        end = self._matched(_TEMPLATE, start, "the template is not closed")
        if self._source[end : end + 2] == "${":
            self._brackets.append("`")
            return end + 2
        if self._source[end : end + 1] != "`":
            raise self._error(start, "the template is not closed")
        return end + 1

    def _is_regex(self, start: int) -> bool:
        last, before = self._last, self._before_last
        if last == "}" or (last == "of" and before != ".") or (last in {"+", "-"} and before == last):
            raise self._error(start, f"a / after {last} can be read in two ways; use parentheses or a variable")
        if last in {"string", "template", "regex", ")", "]"}:
            return False
        if last in _BEFORE_REGEX:
            return before != "."
        return last == "condition" or _WORD.fullmatch(last) is None

    def _matched(self, pattern: re.Pattern[str], start: int, problem: str) -> int:
        if (found := pattern.match(self._source, start)) is None:
            raise self._error(start, problem)
        return found.end()

    def _error(self, position: int, problem: str) -> LinkError:
        return error_at(self._name, self._source, position, problem)
