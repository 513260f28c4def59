"""Terminal output: safe text, column widths, colours, tables, and status lines redrawn in place.

Ids, answers and reasons come from models and scripts. `clean` removes control characters, escape sequences and
bidirectional overrides from them.
"""

from __future__ import annotations

import os
import re
import select
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TextIO

from agentv.text import ESCAPE_SEQUENCE

_SPACE = re.compile(r"[\s\x1c-\x1f\x85\u2028\u2029]+")
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")

DEFAULT_WIDTH = 100
_LONGEST_PART = 30
"""Characters of a word that are dropped to cut a text at a word; longer words are cut."""
_STYLES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "magenta": 35, "cyan": 36}


def clean(text: str) -> str:
    """The text on one line, without control characters and escape sequences."""
    if text.isprintable():
        return text
    text = _SPACE.sub(" ", ESCAPE_SEQUENCE.sub("", text)).strip()
    return _SURROGATE.sub("\ufffd", _UNSAFE.sub("", text))


def masked(text: str) -> str:
    """The text with each unsafe character replaced by a visible one, so that column positions do not change."""
    return text if text.isprintable() else _SURROGATE.sub("\ufffd", _UNSAFE.sub("\ufffd", text))


_PICTURES = {code: 0x2400 + code for code in range(0x20)} | {0x7F: 0x2421}
"""Visible symbols for control characters, such as `␛` for an escape."""


def lines_of(text: str) -> list[str]:
    """The lines of a text, safe to print: control characters and bidirectional overrides become visible marks."""
    return [masked(line.expandtabs(4).translate(_PICTURES)) for line in text.splitlines()]


def columns(text: str) -> int:
    """The width of the text in columns."""
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def _columns_of(char: str) -> int:
    if unicodedata.category(char) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _fitting(text: str, width: int) -> int:
    """The number of leading characters that fit into the width."""
    taken = 0
    for index, char in enumerate(text):
        taken += _columns_of(char)
        if taken > width:
            return index
    return len(text)


_BULLET = re.compile(r" *(?:[-*+•] |\d{1,3}[.)] )?")


def _wrapped(line: str, width: int) -> list[str]:
    """The words of a line on several lines. The text of a list item and of indented lines stays aligned."""
    indent = line[: len(line) - len(line.lstrip(" "))][: width // 2]
    start = _BULLET.match(line)
    margin = " " * min(width // 2, start.end() if start else 0)
    lines, taken = [indent], len(indent)
    is_empty = True
    for word in line.split():
        length = columns(word)
        if is_empty or taken + 1 + length <= width:
            pieces = pieces_of(word, width - taken) if is_empty else [f" {word}"]
        else:
            lines.append(margin)
            taken = len(margin)
            pieces = pieces_of(word, width - taken)
        lines[-1] += pieces[0]
        lines += [margin + piece for piece in pieces[1:]]
        taken, is_empty = columns(lines[-1]), False
    return lines


def pieces_of(word: str, width: int) -> list[str]:
    """The word in pieces of at most `width` columns."""
    if columns(word) <= width:
        return [word]
    if word.isascii():
        return [word[start : start + width] for start in range(0, len(word), width)]
    pieces, start = [], 0
    while start < len(word):
        end = start + max(1, _fitting(word[start : start + width + 1], width))
        pieces.append(word[start:end])
        start = end
    return pieces


_COMMAND = re.compile(r"(?<!\S)::")


def no_commands(text: str) -> str:
    """The text with CI workflow commands (`::`, `##[`) broken up, so that a CI system does not run them."""
    text = text.replace("##[", "# #[").replace("##vso[", "# #vso[")
    return _COMMAND.sub(": :", text) if "::" in text else text


@dataclass(frozen=True, slots=True)
class Look:
    """The capabilities of a terminal, and text formatted for it."""

    color: bool = False
    width: int = 80
    unicode: bool = True

    def text(self, value: str) -> str:
        """Untrusted text, made safe to print on this terminal."""
        safe = no_commands(clean(value))
        return safe if self.unicode else safe.encode("ascii", "backslashreplace").decode("ascii")

    def mark(self, symbol: str, ascii_symbol: str) -> str:
        return symbol if self.unicode else ascii_symbol

    def style(self, text: str, *names: str) -> str:
        if not self.color or not names or not text:
            return text
        return f"\x1b[{';'.join(str(_STYLES[name]) for name in names)}m{text}\x1b[0m"

    def cut(self, text: str, width: int, *, at_word: bool = False) -> str:
        """The text in at most `width` columns, with an ellipsis if it was cut."""
        if columns(text) <= width:
            return text
        more = self.mark("…", "...")
        fits = _fitting(text, max(0, width - len(more)))
        if at_word and not text[fits : fits + 1].isspace():
            space = text.rfind(" ", fits - _LONGEST_PART, fits)
            fits = space if space > 0 else fits
        return text[:fits].rstrip() + more

    def block(self, text: str, width: int) -> list[str]:
        """Untrusted text with its own line breaks and indentation, wrapped at words, safe to print."""
        lines: list[str] = []
        for safe in map(no_commands, lines_of(text)):
            line = safe if self.unicode else safe.encode("ascii", "backslashreplace").decode("ascii")
            lines.extend([line.rstrip()] if columns(line) <= width else _wrapped(line, max(width, 10)))
        return [no_commands(line) for line in lines]

    def wrap(self, text: str, width: int, *, most: int) -> list[str]:
        """The text on at most `most` lines, with an ellipsis if it was cut."""
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
        return [*lines[: most - 1], self.cut(f"{lines[most - 1]} {lines[most]}", width, at_word=True)]


def terminal_width() -> int:
    """The width of the terminal: from COLUMNS, else from stdout, else `DEFAULT_WIDTH`."""
    with suppress(KeyError, ValueError):
        if (width := int(os.environ["COLUMNS"])) > 0:
            return width
    with suppress(OSError, ValueError):  # stdout is not a terminal, or is closed
        return os.get_terminal_size(sys.stdout.fileno()).columns or DEFAULT_WIDTH
    return DEFAULT_WIDTH


def pad(text: str, width: int, *, right: bool = False) -> str:
    """The text padded with spaces to `width` columns."""
    space = " " * max(0, width - columns(text))
    return space + text if right else text + space


def align(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """The cells padded with spaces, so that each column is as wide as its widest cell."""
    widths = [max(columns(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [[pad(cell, width) for cell, width in zip(row, widths, strict=True)] for row in rows]


INDENT = "  "


def render_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], styles: Sequence[Sequence[str | None]], look: Look
) -> list[str]:
    """A table of names and right-aligned numbers, with a style per cell (such as `red` or `bold red`).

    Long names are cut if the terminal is narrow; columns without numbers are omitted.
    """
    used = [i for i in range(len(header)) if i == 0 or any(row[i] != "-" for row in rows)]
    widths = [max(columns(row[i]) for row in [header, *rows]) for i in used]
    room = look.width - len(INDENT) - sum(2 + width for width in widths[1:])
    widths[0] = min(widths[0], max(8, room))

    def line(cells: Sequence[str], cell_styles: Sequence[str | None]) -> str:
        padded = [pad(look.cut(cells[0], widths[0]), widths[0])]
        padded += [pad(cells[i], width, right=True) for i, width in zip(used[1:], widths[1:], strict=True)]
        chosen = ["dim" if cells[i] == "-" else cell_styles[i] for i in used]
        styled = [look.style(cell, *(style or "").split()) for cell, style in zip(padded, chosen, strict=True)]
        return (INDENT + "  ".join(styled)).rstrip()

    titles = ["bold" if header[0] else "dim", *["dim"] * (len(header) - 1)]
    return [line(header, titles), *(line(row, style) for row, style in zip(rows, styles, strict=True))]


_HIDE, _SHOW = "\x1b[?25l", "\x1b[?25h"
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"
_ERASE_LINE, _ERASE_BELOW = "\x1b[K", "\x1b[J"


class StatusLines:
    """Lines at the bottom of a terminal that are redrawn in place; text printed above them is kept.

    Between frames the cursor is at the start of the first line. A terminal that rewraps the lines when resized moves
    the cursor with them, so the next frame starts at the right place and erases everything below it. All other frames
    overwrite the text in a single write, to avoid flicker.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._last: tuple[list[str], int, int] | None = None
        self.is_open = False

    def size(self) -> tuple[int, int]:
        """Columns and rows of this terminal, or 80 x 24 if unknown; some terminals report 0 at first."""
        try:
            width, height = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError):
            width, height = 0, 0
        return width or 80, height or 24

    def draw(self, lines: Sequence[str], above: Sequence[str] = ()) -> None:
        """Print the lines `above`, then the status lines. Each line must be narrower than the terminal."""
        width, height = self.size()
        visible = list(lines[: max(1, height - 1)])
        frame = (visible, width, height)
        if not above and frame == self._last:
            return
        resized = self._last is not None and frame[1:] != self._last[1:]
        self._last = frame
        parts = ["" if self.is_open else _HIDE, _NO_WRAP, "\r", _ERASE_BELOW if resized else ""]
        parts += [f"{line}{_ERASE_LINE}\r\n" for line in (*above, *visible[:-1])]
        parts += [visible[-1], _ERASE_BELOW, "\r", f"\x1b[{len(visible) - 1}A" if len(visible) > 1 else "", _WRAP]
        _open.add(self)
        self.is_open = True
        self._write("".join(parts))

    def close(self, after: str = "") -> None:
        """Erase the status lines and show the cursor again."""
        if self.is_open:
            self.is_open = False
            _open.discard(self)
            self._write(f"\r{_ERASE_BELOW}{after}{_SHOW}")

    def abandon(self) -> None:
        """Close before `os._exit`, without blocking; does nothing if the terminal does not accept output."""
        with suppress(OSError, ValueError):
            descriptor = self._stream.fileno()
            if select.select([], [descriptor], [], 0)[1]:
                os.write(descriptor, f"\r{_ERASE_BELOW}{_WRAP}{_SHOW}".encode("ascii"))

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


_open: set[StatusLines] = set()


def abandon_status_lines() -> None:
    """Close all status lines and show the cursor again, before `os._exit`."""
    for lines in list(_open):
        lines.abandon()


def can_print_unicode(stream: TextIO) -> bool:
    """Whether the stream's encoding supports the marks and bars used here."""
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
    """Whether to use colour: `NO_COLOR` overrides `FORCE_COLOR`, which overrides terminal detection."""
    if env.get("NO_COLOR"):
        return False
    if is_set(env, "FORCE_COLOR"):
        return True
    return is_terminal(stream) and env.get("TERM") != "dumb"


def is_set(env: Mapping[str, str], name: str) -> bool:
    """Whether an environment variable is set to something other than an empty string, `0` or `false`."""
    return env.get(name, "").lower() not in {"", "0", "false"}
