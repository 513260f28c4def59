"""The tokenizer of BERT (uncased): splits text into the word pieces that MiniLM was trained with.

The vocabulary, `minilm_vocab.txt`, is that of all-MiniLM-L6-v2 (Apache License 2.0, see NOTICE).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

VOCABULARY = Path(__file__).with_name("minilm_vocab.txt")
LONGEST_WORD = 100
_CJK = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)


@lru_cache(maxsize=1)
def _vocabulary() -> dict[str, int]:
    lines = VOCABULARY.read_text("utf-8").split("\n")
    return {piece: number for number, piece in enumerate(lines) if piece}


def token_ids(text: str, most: int) -> tuple[list[int], bool]:
    """The first `most` tokens of a text, with `[CLS]` and `[SEP]`, and whether more tokens were left out."""
    vocabulary = _vocabulary()
    ids = [vocabulary["[CLS]"]]
    cut = False
    for word in _words(text):
        ids += _pieces(word, vocabulary)
        if len(ids) > most - 1:
            cut = True
            break
    return [*ids[: most - 1], vocabulary["[SEP]"]], cut


def _words(text: str) -> Iterator[str]:
    """Lower-case words without accents. Each punctuation mark and each Chinese character is a word."""
    word: list[str] = []
    for character in _normalized(text):
        if character.isspace():
            separate = False
        elif _is_punctuation(character) or _is_cjk(character):
            separate = True
        else:
            word.append(character)
            continue
        if word:
            yield "".join(word)
            word.clear()
        if separate:
            yield character
    if word:
        yield "".join(word)


def _normalized(text: str) -> Iterator[str]:
    for original in text:
        if original in "\t\n\r" or unicodedata.category(original) == "Zs":
            yield " "
        elif original not in "\0�" and not unicodedata.category(original).startswith("C"):
            for part in unicodedata.normalize("NFD", original):
                if unicodedata.category(part) != "Mn":
                    yield from part.lower()


def _is_punctuation(character: str) -> bool:
    is_symbol = character.isascii() and character.isprintable() and not character.isalnum()
    return is_symbol or unicodedata.category(character).startswith("P")


def _is_cjk(character: str) -> bool:
    return any(first <= ord(character) <= last for first, last in _CJK)


def _pieces(word: str, vocabulary: dict[str, int]) -> list[int]:
    """The longest pieces from left to right; `[UNK]` if the vocabulary does not cover the word."""
    if len(word) > LONGEST_WORD:
        return [vocabulary["[UNK]"]]
    pieces: list[int] = []
    start = 0
    while start < len(word):
        prefix = "##" if start else ""
        ends = range(len(word), start, -1)
        end = next((end for end in ends if prefix + word[start:end] in vocabulary), None)
        if end is None:
            return [vocabulary["[UNK]"]]
        pieces.append(vocabulary[prefix + word[start:end]])
        start = end
    return pieces
