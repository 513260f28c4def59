"""Words: how far apart they are."""

from __future__ import annotations


def edits_apart(one: str, other: str) -> int:
    """How many letters must be added, dropped or changed to make one word the other."""
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        before, row[0] = row[0], i
        for j, wanted in enumerate(other, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (letter != wanted))
    return row[-1]


def is_typo(word: str, known: str) -> bool:
    """Within two edits of a known word, one for words of five letters or fewer; a plural is no typo."""
    if word in (f"{known}s", f"{known}es") or abs(len(word) - len(known)) > 2:
        return False
    return edits_apart(word, known) <= (1 if len(word) <= 5 else 2)
