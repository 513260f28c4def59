"""Commands as people write them: a string split as a POSIX shell would, without ever running a shell."""

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
"""The program that runs a script file, by the suffix of its name."""

_PIECE = re.compile(
    r"""
      (?P<joined>\\\n)                              # a line continued
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
    """The words of a command. Quotes and backslashes mean what they mean in a shell; `$NAME` stays as it is.

    Raises `ValueError` for a quote that is not closed, and for whatever only a shell could do: pipes,
    redirections, several commands, command substitution.
    """
    words: list[str] = []
    word: str | None = None
    for piece in _PIECE.finditer(text.strip()):
        kind = piece.lastgroup or ""
        value = piece[kind]
        if kind in ("operator", "broken"):
            raise ValueError(_refusal(kind, value))
        if kind == "space":
            if word is not None:
                words.append(word)
            word = None
        elif kind != "joined":
            word = (word or "") + (_unescaped(value) if kind == "double" else value)
    return words if word is None else [*words, word]


def _unescaped(inner: str) -> str:
    found = _SUBSTITUTION.match(inner)
    if found:
        raise ValueError(_refusal("operator", found[1]))
    return _DOUBLE_ESCAPE.sub(lambda escape: "" if escape[1] == "\n" else escape[1], inner)


def _refusal(kind: str, value: str) -> str:
    if kind == "broken":
        named = {"'": "a single quote", '"': "a double quote"}.get(value, "a backslash at the end")
        return f"{named} is not closed" if value in "'\"" else f"{named} escapes nothing"
    named = {"\n": "a line break", "`": "a backtick"}.get(value, f"`{value}`")
    return f"{named} needs a shell, and no shell runs this command; quote it if it is meant as text"


def with_own_python(argv: Sequence[str]) -> list[str]:
    """`python` or `python3` as the first word is the interpreter that runs agentv: the SDK is there."""
    return [sys.executable, *argv[1:]] if argv and argv[0] in ("python", "python3") else list(argv)
