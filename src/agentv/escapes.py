"""Undo escapes in text: percent-encoding, backslash escapes and HTML entities, and map positions back to the source.

`redact.py` searches text with its escapes undone, level by level: `%2541` and `&amp;#65;` are escaped twice. All work
is linear in the length of the text.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

LEVELS = 6
"""Text that was escaped more often than this is not decoded completely."""
KINDS = b"\\%&"
"""The first characters of backslash escapes, percent-encoding and HTML entities."""
_SYNTAX = frozenset(b"%&\\#;{}uUxX0123456789abcdefABCDEF")
"""Characters that escapes consist of: an escape can itself be escaped."""
_SHORT = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f", b"v": b"\v", b"a": b"\a", b"0": b"\0"} | {
    character: character for character in (b'"', b"'", b"/", b"\\", b"`", b"$")
}
_CACHED_TOKEN = 12
_LINE_BREAK = re.compile(rb"\r?\n")


class Decoded(NamedTuple):
    """Text with one level of escapes undone. The four arrays have one entry per escape."""

    data: bytes
    starts: array[int]
    """Where the decoded character begins in `data`."""
    ends: array[int]
    source_starts: array[int]
    source_ends: array[int]

    def source(self, start: int, end: int) -> tuple[int, int]:
        """The span of the source that a span of `data` was decoded from."""
        return self._before(start), self._after(end)

    def _before(self, position: int) -> int:
        at = bisect_right(self.starts, position) - 1
        if at < 0:
            return position
        if position < self.ends[at]:
            return self.source_starts[at]
        return self.source_ends[at] + position - self.ends[at]

    def _after(self, position: int) -> int:
        at = bisect_right(self.starts, position - 1) - 1
        if at < 0:
            return position
        return self.source_ends[at] + max(0, position - self.ends[at])


class Escapes:
    """Undoes escapes of the given characters (bytes of UTF-8). Other escapes are left as they are, which is faster.

    `kinds` are the first characters of the escapes to undo. With `latin`, `\\xe9` is the character é, as in the output
    of `ascii()`; otherwise it is a byte.
    """

    def __init__(self, relevant: Iterable[int], *, kinds: bytes = KINDS, latin: bool = False) -> None:
        characters = frozenset(relevant)
        self._relevant = characters | _SYNTAX
        self._latin = latin
        self._starts = [start for kind in kinds for start in _starts(kind, characters)]
        self._token, self._hidden, self._names = _patterns(characters, kinds)
        self._decoded: dict[bytes, bytes] = {}

    def present(self, data: bytes) -> bool:
        """Whether the text contains an escape that could hide one of the characters."""
        return any(start in data for start in self._starts) and self._hidden.search(data) is not None

    def levels(self, data: bytes) -> list[bytes]:
        """The text with 1, 2, ... levels of escapes undone, up to the level without escapes."""
        levels: list[bytes] = []
        while len(levels) < LEVELS and self.present(data):
            decoded = self._token.sub(lambda found: self._meaning(found[0]), data)
            if decoded == data:
                break
            levels.append(data := decoded)
        return levels

    def undo(self, data: bytes) -> Decoded:
        """The text with one level of escapes undone, with positions."""
        return _replaced(data, self._token, self._meaning)

    def _meaning(self, token: bytes) -> bytes:
        known = self._decoded.get(token)
        if known is None:
            known = self._decode(token)
            if len(token) <= _CACHED_TOKEN:
                self._decoded[token] = known
        return known

    def _decode(self, token: bytes) -> bytes:
        """The bytes that an escape stands for; the escape itself if none of them is relevant."""
        if token[:1] == b"%":
            meaning = bytes([int(token[1:], 16)])
        elif token[:1] == b"\\":
            meaning = _backslash(token, self._latin)
        elif token[1:2] == b"#":
            digits = token[2:].rstrip(b";")
            meaning = _character(int(digits[1:], 16) if digits[:1] in b"xX" else int(digits))
        else:
            meaning = self._names[token[1:]]
        return meaning if self._relevant.issuperset(meaning) else token


def without_line_breaks(data: bytes) -> Decoded:
    """The text on one line, with positions."""
    return _replaced(data, _LINE_BREAK, lambda _: b"")


def _replaced(data: bytes, pattern: re.Pattern[bytes], meaning: Callable[[bytes], bytes]) -> Decoded:
    pieces: list[bytes] = []
    arrays = tuple(array("Q") for _ in range(4))
    starts, ends, source_starts, source_ends = arrays
    length = done = 0
    for found in pattern.finditer(data):
        start, end = found.span()
        replacement = meaning(found[0])
        length += start - done
        pieces += (data[done:start], replacement)
        starts.append(length)
        length += len(replacement)
        ends.append(length)
        source_starts.append(start)
        source_ends.append(end)
        done = end
    pieces.append(data[done:])
    return Decoded(b"".join(pieces), *arrays)


@lru_cache(maxsize=32)
def _patterns(
    characters: frozenset[int], kinds: bytes
) -> tuple[re.Pattern[bytes], re.Pattern[bytes], dict[bytes, bytes]]:
    """A pattern for escapes, one for those that can hide one of the characters, and the named HTML entities."""
    known = characters | _SYNTAX
    wide = max(known) >= 0x80
    byte = rb"[0-9a-fA-F]{2}" if wide else rb"(?:%b)" % _hex_of(known)
    short = b"".join(re.escape(letter) for letter, meaning in _SHORT.items() if meaning[0] in known)
    backslash = [
        rb"u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}",
        rb"u[0-9a-fA-F]{4}" if wide else rb"u00%b" % byte,
        rb"u\{0*[0-9a-fA-F]{1,6}\}",
        rb"U00[0-9a-fA-F]{6}",
        rb"x%b" % byte,
    ]
    decimal = rb"[1-9][0-9]{0,6}" if wide else rb"(?:%b)(?![0-9])" % b"|".join(b"%d" % each for each in sorted(known))
    names = _entity_names(known)
    by_letter = groupby(sorted(names, key=lambda name: (name[:1], -len(name))), key=lambda name: name[:1])
    listed = b"|".join(rb"%b(?:%b)" % (first, b"|".join(name[1:] for name in group)) for first, group in by_letter)
    # An escaped backslash or ampersand alone hides nothing, unless it begins another escape.
    hidden_short = short if ord("\\") in characters else short.replace(rb"\\", b"")
    hidden_listed = listed if ord("&") in characters else listed.replace(b"|a(?:mp;|mp", b"|a(?:mp;?(?=[#A-Za-z])")

    def pattern(short: bytes, listed: bytes) -> re.Pattern[bytes]:
        options = {
            ord("\\"): rb"\\(?:%b)" % b"|".join([*backslash, *([rb"[%b]" % short] if short else [])]),
            ord("%"): b"%" + byte,
            ord("&"): rb"&(?:#0*%b;?|#[xX]0*[1-9a-fA-F][0-9a-fA-F]{0,5};?|%b)" % (decimal, listed),
        }
        return re.compile(b"|".join(options[kind] for kind in kinds))

    return pattern(short, listed), pattern(hidden_short, hidden_listed), names


def _starts(kind: int, characters: frozenset[int]) -> list[bytes]:
    """How escapes of a kind that can hide one of the characters begin. Searching for them is faster than a pattern."""
    if kind != ord("\\"):
        return [bytes([kind])]
    short = [b"\\" + letter for letter, meaning in _SHORT.items() if meaning[0] in characters]
    return [rb"\u", rb"\U", rb"\x", *short]


def _hex_of(known: Iterable[int]) -> bytes:
    """A pattern of two hexadecimal digits that matches these bytes only."""
    by_high: dict[int, bytes] = {}
    for byte in sorted(known):
        digit = b"%x" % (byte & 15)
        by_high[byte >> 4] = by_high.get(byte >> 4, b"") + (digit if digit.isdigit() else digit + digit.upper())
    return b"|".join(rb"%x[%b]" % (high, low) for high, low in by_high.items())


def _backslash(token: bytes, latin: bool) -> bytes:
    kind = token[1:2]
    if kind in _SHORT:
        return _SHORT[kind]
    if kind == b"x" and not latin:
        return bytes.fromhex(token[2:].decode())
    if len(token) == 12:
        high, low = int(token[2:6], 16), int(token[8:], 16)
        return _character(0x10000 + ((high - 0xD800) << 10) + low - 0xDC00)
    return _character(int(token[2:].strip(b"{}"), 16))


def _character(code: int) -> bytes:
    return chr(code).encode("utf-8", "surrogatepass") if code <= 0x10FFFF else b"\xff"


def _entity_names(known: frozenset[int]) -> dict[bytes, bytes]:
    """Named HTML entities, such as `sol;`, and the relevant characters that they stand for."""
    from html.entities import html5  # noqa: PLC0415 - needed only when text contains escapes

    named = ((name.encode(), character.encode()) for name, character in html5.items())
    return {name: character for name, character in named if known.issuperset(character)}
