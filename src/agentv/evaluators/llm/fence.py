"""Evidence between two lines that it cannot contain: the defence against text that addresses the judge.

Both SDKs have the same function. `conformance/fences.json` pins all three.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import NamedTuple

MARK_LENGTH = 12

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


class Fenced(NamedTuple):
    """Parts of a prompt, and the mark in the lines around them."""

    text: str
    mark: str


def fence(parts: Sequence[tuple[str, str]], around: Sequence[str] = (), mark_length: int = MARK_LENGTH) -> Fenced:
    """Each part (a name and its text) between a line `--- NAME MARK ---` and a line `--- end of NAME MARK ---`.

    The mark occurs in no part and in no text of `around`, whatever their case. It is computed from them: the same
    parts give the same prompt, which caches need, and no author can write a text that contains its own mark.
    """
    named = [(_CONTROLS.sub(" ", name), text) for name, text in parts]
    mark = _mark([*around, *(text for part in named for text in part)], mark_length)
    lines = (f"--- {name} {mark} ---\n{text}\n--- end of {name} {mark} ---" for name, text in named)
    return Fenced("\n\n".join(lines), mark)


def _mark(texts: Sequence[str], length: int) -> str:
    # Unpaired surrogates count as U+FFFD, as they do in JavaScript.
    texts = [text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for text in texts]
    seed = "\0".join(f"{len(text)}:{text}" for text in texts).encode("utf-8")
    lower = [text.lower() for text in texts]
    while True:
        seed = hashlib.sha256(seed).hexdigest().encode("ascii")
        mark = seed[:length].decode("ascii")
        if not any(mark in text for text in lower):
            return mark
