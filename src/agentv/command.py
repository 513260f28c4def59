"""Split command strings as a POSIX shell does, without running a shell."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence

INTERPRETERS: Mapping[str, str] = {
    ".py": "python",
    ".sh": "bash",
    ".js": "node",
    ".mjs": "node",
    ".cjs": "node",
    ".ts": "node",
}
"""The program that runs a script, by file suffix."""

_PIECE = re.compile(
    r"""
      (?P<joined>\\\n)                              # line continuation
    | \\(?P<escaped>.)
    | '(?P<single>[^']*)'
    | "(?P<double>(?:[^"\\]|\\.)*)"
    | (?P<space>[ \t\r]+)
    | (?P<operator>\|\||&&|;;|>>|<<|\$\(|[|&;<>()`]|\n)
    | (?P<plain>[^\\'"\s|&;<>()`$]+|\$)
    | (?P<broken>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_DOUBLE_ESCAPE = re.compile(r'\\([$`"\\\n])')
_SUBSTITUTION = re.compile(r"(?:[^\\$`]|\\.|\$(?!\())*(`|\$\()", re.DOTALL)


def split_command(text: str) -> list[str]:
    """The words of a command. Quotes and backslashes work as in a shell; `$NAME` is not expanded.

    Raises `ValueError` for an unclosed quote and for anything that needs a shell: pipes, redirections, several
    commands, command substitution.
    """
    words: list[str] = []
    word: str | None = None
    for piece in _PIECE.finditer(text.strip()):
        kind = piece.lastgroup or ""
        value = piece[kind]
        if kind in ("operator", "broken"):
            raise ValueError(_error_message(kind, value))
        if kind == "space":
            if word is not None:
                words.append(word)
            word = None
        elif kind != "joined":
            word = (word or "") + (_unescaped(value) if kind == "double" else value)
    return words if word is None else [*words, word]


def _unescaped(inner: str) -> str:
    substitution = _SUBSTITUTION.match(inner)
    if substitution:
        raise ValueError(_error_message("operator", substitution[1]))
    return _DOUBLE_ESCAPE.sub(lambda escape: "" if escape[1] == "\n" else escape[1], inner)


def _error_message(kind: str, value: str) -> str:
    if kind == "broken":
        description = {"'": "a single quote", '"': "a double quote"}.get(value, "a backslash at the end")
        return f"{description} is not closed" if value in "'\"" else f"{description} escapes nothing"
    description = {"\n": "a line break", "`": "a backtick"}.get(value, f"`{value}`")
    return f"{description} needs a shell, but commands run without one; quote it to use it as plain text"


def runs_python(argv: object) -> bool:
    """Whether a command, as a string or a list of words, starts with `python` or `python3`."""
    words = argv.split() if isinstance(argv, str) else argv
    return isinstance(words, Sequence) and bool(words) and words[0] in ("python", "python3")


def with_own_python(argv: Sequence[str]) -> list[str]:
    """Replace `python` or `python3` as the first word by the interpreter that runs agentv, which has the SDK."""
    return [sys.executable, *argv[1:]] if runs_python(argv) else list(argv)
