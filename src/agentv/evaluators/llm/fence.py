"""Fences around evidence in judge prompts, a defence against prompt injection.

The delimiter lines contain a mark that does not occur in the evidence. Both SDKs implement the same function;
`conformance/fences.json` pins all three.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import NamedTuple

MARK_LENGTH = 12

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


class Fenced(NamedTuple):
    """Fenced parts of a prompt, and the mark in their delimiter lines."""

    text: str
    mark: str


def fence(parts: Sequence[tuple[str, str]], around: Sequence[str] = (), mark_length: int = MARK_LENGTH) -> Fenced:
    """Put each part (a name and its text) between the lines `--- NAME MARK ---` and `--- end of NAME MARK ---`.

    The mark does not occur in any part or in `around` (case-insensitive). It is derived from their content: the same
    parts always produce the same prompt, which makes replies cacheable, and text cannot contain its own mark.
    """
    named = [(_CONTROLS.sub(" ", name), text) for name, text in parts]
    mark = _mark([*around, *(text for part in named for text in part)], mark_length)
    lines = (f"--- {name} {mark} ---\n{text}\n--- end of {name} {mark} ---" for name, text in named)
    return Fenced("\n\n".join(lines), mark)


def _mark(texts: Sequence[str], length: int) -> str:
    # Replace unpaired surrogates with U+FFFD, as JavaScript does.
    texts = [text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for text in texts]
    seed = "\0".join(f"{len(text)}:{text}" for text in texts).encode("utf-8")
    lower = [text.lower() for text in texts]
    while True:
        seed = hashlib.sha256(seed).hexdigest().encode("ascii")
        mark = seed[:length].decode("ascii")
        if not any(mark in text for text in lower):
            return mark
