"""Text for a terminal: safe to print, cut to columns, coloured only where that is wanted.

Ids, answers and reasons come from models and scripts. Whatever they hold, no control character, escape
sequence or bidirectional override reaches the terminal through `clean`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x80-\x9f]*+(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*+[0-~]"
)
_SPACE = re.compile(r"[\s\x1c-\x1f\x85\u2028\u2029]+")
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")

_STYLES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "magenta": 35, "cyan": 36}


def clean(text: str) -> str:
    """The text on one line, without anything a terminal would obey instead of showing."""
    if text.isprintable():
        return text
    text = _SPACE.sub(" ", _SEQUENCE.sub("", text)).strip()
    return _SURROGATE.sub("\ufffd", _UNSAFE.sub("", text))


def masked(text: str) -> str:
    """The text with each unsafe character replaced by a visible one, so that columns stay as they are."""
    return text if text.isprintable() else _SURROGATE.sub("\ufffd", _UNSAFE.sub("\ufffd", text))


def columns(text: str) -> int:
    """How many columns the text takes."""
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def _columns_of(char: str) -> int:
    if unicodedata.category(char) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _fitting(text: str, width: int) -> int:
    """How many characters of the text fit into the width."""
    taken = 0
    for index, char in enumerate(text):
        taken += _columns_of(char)
        if taken > width:
            return index
    return len(text)


_COMMAND = re.compile(r"(?<!\S)::")


def no_commands(text: str) -> str:
    """Text that a CI system shows and does not obey, wherever on a line it stands."""
    text = text.replace("##[", "# #[").replace("##vso[", "# #vso[")
    return _COMMAND.sub(": :", text) if "::" in text else text


@dataclass(frozen=True, slots=True)
class Look:
    """How to write for one terminal."""

    color: bool = False
    width: int = 80
    unicode: bool = True

    def text(self, value: str) -> str:
        """Foreign text, safe to print here."""
        safe = no_commands(clean(value))
        return safe if self.unicode else safe.encode("ascii", "backslashreplace").decode("ascii")

    def mark(self, symbol: str, ascii_symbol: str) -> str:
        return symbol if self.unicode else ascii_symbol

    def style(self, text: str, *names: str) -> str:
        if not self.color or not names or not text:
            return text
        return f"\x1b[{';'.join(str(_STYLES[name]) for name in names)}m{text}\x1b[0m"

    def cut(self, text: str, width: int) -> str:
        """The text in at most this many columns; an ellipsis says that something is missing."""
        if columns(text) <= width:
            return text
        more = self.mark("…", "...")
        return text[: _fitting(text, max(0, width - len(more)))].rstrip() + more

    def wrap(self, text: str, width: int, *, most: int) -> list[str]:
        """The text on at most this many lines."""
        lines = [""]
        for word in text.split():
            joined = f"{lines[-1]} {word}" if lines[-1] else word
            if columns(joined) <= width:
                lines[-1] = joined
                continue
            rest = word
            if not lines[-1]:
                lines.pop()
            while rest and len(lines) <= most:
                fits = max(1, _fitting(rest, width))
                lines.append(no_commands(rest[:fits]))
                rest = rest[fits:]
            if len(lines) > most:
                break
        if len(lines) <= most:
            return lines
        return [*lines[: most - 1], self.cut(f"{lines[most - 1]} {lines[most]}", width)]


def pad(text: str, width: int, *, right: bool = False) -> str:
    """The text filled up with spaces to this many columns."""
    space = " " * max(0, width - columns(text))
    return space + text if right else text + space


def can_print_unicode(stream: TextIO) -> bool:
    """Whether the stream's encoding has the marks and bars used here."""
    try:
        "✓✗━…·".encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def wants_color(stream: TextIO, env: Mapping[str, str]) -> bool:
    """`NO_COLOR` wins over `FORCE_COLOR`, which wins over what the stream is."""
    if env.get("NO_COLOR"):
        return False
    if is_set(env, "FORCE_COLOR"):
        return True
    return is_terminal(stream) and env.get("TERM") != "dumb"


def is_set(env: Mapping[str, str], name: str) -> bool:
    """Whether a switch of the environment is on; `0` and `false` say no."""
    return env.get(name, "").lower() not in {"", "0", "false"}
