"""Edit distance and longest common subsequence of two sequences.

Uses the bit-parallel algorithms of Hyyrö (2003, 2004): each column of the dynamic-programming table is one Python
integer. An element of the shorter sequence costs a few operations on integers with one bit per element of the longer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence


def levenshtein(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """The smallest number of insertions, deletions and replacements that turns one sequence into the other."""
    one, other = _without_common_ends(one, other)
    rows, columns = (one, other) if len(one) >= len(other) else (other, one)
    occurrences = _occurrences(rows)
    full = (1 << len(rows)) - 1
    rises, falls = full, 0  # where the column grows by 1 from one row to the next, and where it shrinks by 1
    for element in columns:
        match = occurrences.get(element, 0)
        diagonal = ((((match & rises) + rises) ^ rises) | match | falls) & full
        right_rises = falls | (full ^ (diagonal | rises))
        right_falls = diagonal & rises
        right_rises = (right_rises << 1 | 1) & full
        rises = (right_falls << 1 & full) | (full ^ (diagonal | right_rises))
        falls = right_rises & diagonal
    return len(columns) + rises.bit_count() - falls.bit_count()


def common_subsequence(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """The length of the longest common subsequence."""
    rows, columns = (one, other) if len(one) >= len(other) else (other, one)
    occurrences = _occurrences(rows)
    full = (1 << len(rows)) - 1
    column = full
    for element in columns:
        if match := occurrences.get(element, 0):
            matched = column & match
            column = ((column + matched) | (column - matched)) & full
    return len(rows) - column.bit_count()


def token_set_similarity(one: set[str], other: set[str]) -> float:
    """Similarity of two sets of words, from 0 to 1, by insertions and deletions.

    Returns the best of three comparisons of sorted words: the shared words with each whole set, and both whole sets.
    """
    shared, only_one, only_other = (" ".join(sorted(words)) for words in (one & other, one - other, other - one))
    if shared and not (only_one and only_other):
        return 1.0
    gap = len(shared) + bool(shared)
    edits = len(only_one) + len(only_other) - 2 * common_subsequence(only_one, only_other)
    whole = 1 - edits / (2 * gap + len(only_one) + len(only_other))
    if not shared:
        return whole
    return max(whole, *(1 - (1 + len(rest)) / (len(shared) + gap + len(rest)) for rest in (only_one, only_other)))


def _occurrences(sequence: Sequence[Hashable]) -> dict[Hashable, int]:
    """For each element, an integer with a bit set at every position where it occurs."""
    places: defaultdict[Hashable, list[int]] = defaultdict(list)
    for place, element in enumerate(sequence):
        places[element].append(place)
    return {element: _bits(found) for element, found in places.items()}


def _bits(places: list[int]) -> int:
    bits = bytearray(places[-1] // 8 + 1)
    for place in places:
        bits[place >> 3] |= 1 << (place & 7)
    return int.from_bytes(bits, "little")


def _without_common_ends(
    one: Sequence[Hashable], other: Sequence[Hashable]
) -> tuple[Sequence[Hashable], Sequence[Hashable]]:
    shorter = min(len(one), len(other))
    start = next((place for place in range(shorter) if one[place] != other[place]), shorter)
    end = next((place for place in range(shorter - start) if one[-1 - place] != other[-1 - place]), shorter - start)
    return one[start : len(one) - end], other[start : len(other) - end]
