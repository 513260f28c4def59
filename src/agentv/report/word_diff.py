"""Words that differ between two strings, and lines of words in which they are marked."""

from __future__ import annotations

import itertools
import re
from collections.abc import Hashable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple, TypeVar

from agentv.report.terminal import Look, columns, lines_of, no_commands, pieces_of

T = TypeVar("T", bound=Hashable)

_TOKENS = re.compile(r"\n|[^\S\n]+|\w+|[^\w\s]+")
_MOST_WORDS = 4_000
"""Longer strings are compared line by line: comparing words takes quadratic time."""
_MOST_LINES = 4_000


class Word(NamedTuple):
    """A word, a space or a line break, with its style if it differs."""

    text: str
    style: str | None = None


def tokens_of(text: str, look: Look) -> list[str]:
    """Words, spaces and line breaks, safe to print."""
    safe = "\n".join(lines_of(text))
    return _TOKENS.findall(safe if look.unicode else safe.encode("ascii", "backslashreplace").decode("ascii"))


def _changes(one: Sequence[str], two: Sequence[str]) -> Iterator[tuple[bool, Sequence[str], Sequence[str]]]:
    """Runs of tokens: whether they are equal, those of the first and those of the second string."""
    if max(len(one), len(two)) > _MOST_WORDS:
        lines = [_joined(one), _joined(two)]
        if max(map(len, lines)) > _MOST_LINES:
            yield list(one) == list(two), one, two
            return
        for equal, left, right in _matched(*lines):
            yield equal, [token for line in left for token in line], [token for line in right for token in line]
        return
    yield from _matched(one, two)


def _matched(one: Sequence[T], two: Sequence[T]) -> Iterator[tuple[bool, Sequence[T], Sequence[T]]]:
    for kind, start, end, other_start, other_end in SequenceMatcher(None, one, two, autojunk=False).get_opcodes():
        yield kind == "equal", one[start:end], two[other_start:other_end]


def _joined(tokens: Sequence[str]) -> list[tuple[str, ...]]:
    """The tokens of each line."""
    lines: list[list[str]] = [[]]
    for word in tokens:
        lines[-1].append(word)
        if word == "\n":
            lines.append([])
    return [tuple(line) for line in lines]


def both_sides(one: str, two: str, look: Look) -> tuple[list[Word], list[Word]]:
    """The words of both strings, for columns: words that the other string does not have are styled."""
    left: list[Word] = []
    right: list[Word] = []
    for equal, before, after in _changes(tokens_of(one, look), tokens_of(two, look)):
        left += [Word(token, None if equal else "red") for token in before]
        right += [Word(token, None if equal else "green") for token in after]
    return left, right


def merged(one: str, two: str, look: Look) -> list[Word]:
    """Both strings as one: `[-removed-]` and `{+added+}` words."""
    words: list[Word] = []
    for equal, before, after in _changes(tokens_of(one, look), tokens_of(two, look)):
        if equal:
            words += [Word(token) for token in before]
            continue
        words += _marked(before, "[-", "-]", "red")
        words += _marked(after, "{+", "+}", "green")
    return words


def _marked(tokens: Sequence[str], opening: str, closing: str, style: str) -> list[Word]:
    """The words between two marks. Spaces and line breaks around them stay outside."""
    places = [place for place, token in enumerate(tokens) if not token.isspace()]
    if not places:
        return []
    words = list(tokens)
    words[places[0]] = opening + words[places[0]]
    words[places[-1]] += closing
    return [Word(token, style if places[0] <= place <= places[-1] else None) for place, token in enumerate(words)]


def flow(words: Sequence[Word], width: int, look: Look) -> list[tuple[str, int]]:
    """Lines of at most `width` columns, each with the number of columns that it takes."""
    lines: list[tuple[str, int]] = [("", 0)]
    space, is_start = "", True
    for text, group in itertools.groupby(words, key=_kind):
        if text == "word":
            pieces = list(group)
            length = sum(columns(piece.text) for piece in pieces)
            if not is_start and lines[-1][1] + len(space) + length > width:
                lines.append(("", 0))
                space = ""
            _append(lines, [Word(space[: width // 2]), *pieces], width, look)
            space, is_start = "", False
        elif text == "space":
            space = "".join(piece.text for piece in group)
        else:
            lines += [("", 0)] * len(list(group))
            space, is_start = "", True
    return lines


def _kind(word: Word) -> str:
    return "break" if word.text == "\n" else "space" if word.text.isspace() else "word"


def _append(lines: list[tuple[str, int]], words: Sequence[Word], width: int, look: Look) -> None:
    """Add words to the last line. What does not fit is continued on the next."""
    for text, style in words:
        left = text
        while left:
            line, taken = lines[-1]
            piece = pieces_of(left, width - taken)[0] if taken < width else ""
            shown = look.style(no_commands(piece), *([style] if style else []))
            lines[-1] = (line + shown, taken + columns(piece))
            left = left[len(piece) :]
            if left:
                lines.append(("", 0))
