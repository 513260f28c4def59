"""Text for messages: did-you-mean suggestions, lists of choices, counts, JSON types, short paths."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

LONGEST_WORD = 100
ESCAPE_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x80-\x9f]*+(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*+[0-~]"
)
"""A terminal escape sequence."""
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
LONGEST_QUOTE = 80


def edits_apart(one: str, other: str) -> int:
    """Edit distance (Levenshtein): the number of letters to add, remove or change to turn one word into the other."""
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        before, row[0] = row[0], i
        for j, wanted in enumerate(other, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (letter != wanted))
    return row[-1]


def is_typo(word: str, known: str) -> bool:
    """Whether `word` is within two edits of `known`, or one for words of up to five letters. Plurals are not typos."""
    if word in (f"{known}s", f"{known}es") or abs(len(word) - len(known)) > 2:
        return False
    return edits_apart(word, known) <= (1 if len(word) <= 5 else 2)


def did_you_mean(word: str, known: Iterable[str], *, any_case: bool = False) -> str:
    """` (did you mean `x`?)`, or an empty string when no known word is close.

    With `any_case`, case and underscores are ignored: `max_calls` and `MAXCALLS` match `maxCalls`.
    """
    if len(word) > LONGEST_WORD:
        return ""
    import difflib  # noqa: PLC0415 - needed only for unknown words

    names = {_folded(name): name for name in known} if any_case else {name: name for name in known}
    close = difflib.get_close_matches(_folded(word) if any_case else word, names, n=1, cutoff=0.6)
    return f" (did you mean `{names[close[0]]}`?)" if close else ""


def nearest(word: str, known: Iterable[str], *, most: int = 5) -> list[str]:
    """The known names that are most like the word, best first. Of two spellings of a name, only the first is used."""
    import difflib  # noqa: PLC0415 - needed only for unknown words

    names: dict[str, str] = {}
    for name in known:
        names.setdefault(_folded(name), name)
    matcher = difflib.SequenceMatcher(b=_folded(word[:LONGEST_WORD]), autojunk=False)
    likeness: dict[str, float] = {}
    for folded in names:
        matcher.set_seq1(folded)
        likeness[folded] = matcher.ratio()
    return [names[folded] for folded in sorted(names, key=lambda folded: -likeness[folded])[:most]]


def some_of(words: Sequence[str], *, near: str, most: int = 5) -> str:
    """All items, or those most like `near` if there are more than `most`: "`a`, `b`, `c` and 20 more"."""
    if len(words) <= most:
        return all_of(words)
    likely = nearest(near, words, most=most)
    left = len(words) - len(likely)
    return f"{', '.join(f'`{name}`' for name in likely)} and {left:,} more"


def _folded(word: str) -> str:
    return word.replace("_", "").lower()


def one_of(words: Sequence[str]) -> str:
    """A list of alternatives: "`a`, `b` or `c`"."""
    return _listed(words, "or")


def all_of(words: Sequence[str]) -> str:
    """A list of all items: "`a`, `b` and `c`"."""
    return _listed(words, "and")


def _listed(words: Sequence[str], last: str) -> str:
    quoted = [f"`{word}`" for word in words]
    return f" {last} ".join([", ".join(quoted[:-1]), quoted[-1]]) if len(quoted) > 1 else "".join(quoted)


def without_controls(text: str) -> str:
    """The text without escape sequences and control characters, except for tabs and line feeds: safe to print."""
    return text if text.isprintable() else _CONTROLS.sub("", ESCAPE_SEQUENCE.sub("", text))


def plural(count: int, noun: str) -> str:
    """A count with its noun: "1 row", "2,000 rows"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def kind_of(value: Any) -> str:
    """The type of a JSON value as a phrase, such as "a list"."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    return "text" if isinstance(value, str) else "a number"


def short_path(path: Path, root: Path) -> Path:
    """The path relative to `root` if it is inside, otherwise unchanged."""
    return path.relative_to(root) if path.is_relative_to(root) else path


def short_or_described(text: str, longest: int) -> str:
    """The text, or its length if it is longer than `longest`. If it were cut, a secret in it could not be masked."""
    return text if len(text) <= longest else f"({len(text):,} characters)"


def quoted(text: str, longest: int = LONGEST_QUOTE) -> str:
    """Quote a string from the suite for a message: shortened, on one line, with invisible characters escaped.

    Do not use it for the answer: a secret that is cut off could not be recognised and masked.
    """
    shown = text if len(text) <= longest else text[: longest - 1] + "…"
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in shown)
    return f"'{shown}'"


def first_difference(recorded: str, now: str, *, width: int = 100) -> str:
    """Where two strings begin to differ: `differs in line 3: recorded '...', now '...'`, cut around the difference."""
    if recorded == now:
        return "is the same"
    olds, news = recorded.split("\n"), now.split("\n")
    at = next(
        (i for i, (old, new) in enumerate(zip(olds, news, strict=False)) if old != new), min(len(olds), len(news))
    )
    old, new = (olds[at] if at < len(olds) else None), (news[at] if at < len(news) else None)
    column = next((i for i, (a, b) in enumerate(zip(old or "", new or "", strict=False)) if a != b), None)
    if column is None:
        column = min(len(old or ""), len(new or ""))
    start = max(0, column - width // 3)

    def part(line: str | None) -> str:
        if line is None:
            return "nothing"
        shown = line[start : start + width]
        before, after = "..." if start else "", "..." if len(line) > start + width else ""
        return f"'{before}{without_controls(shown)}{after}'"

    return f"differs in line {at + 1}: recorded {part(old)}, now {part(new)}"
