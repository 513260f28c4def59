"""Fences evidence between marker lines that it cannot contain, as a defense against prompt injection.

The runtime and the TypeScript SDK implement the same function. `conformance/fences.json` keeps all three identical.
"""

from __future__ import annotations

import hashlib
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MARK_LENGTH = 12

_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def fence(
    parts: Sequence[tuple[str, str]], around: Sequence[str] = (), mark_length: int = MARK_LENGTH
) -> tuple[str, str]:
    """The fenced text and its mark. Each part is between `--- NAME MARK ---` and `--- end of NAME MARK ---`.

    The mark does not occur in any part or in `around`, ignoring case. It is derived from them, so that the same parts
    always give the same prompt (which caches need) and a text cannot contain its own mark.
    """
    named = [(_CONTROLS.sub(" ", name), text) for name, text in parts]
    mark = _mark([*around, *(text for part in named for text in part)], mark_length)
    lines = (f"--- {name} {mark} ---\n{text}\n--- end of {name} {mark} ---" for name, text in named)
    return "\n\n".join(lines), mark


def _mark(texts: Sequence[str], length: int) -> str:
    # Unpaired surrogates count as U+FFFD, as in JavaScript.
    texts = [text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for text in texts]
    seed = "\0".join(f"{len(text)}:{text}" for text in texts).encode("utf-8")
    lower = [text.lower() for text in texts]
    while True:
        seed = hashlib.sha256(seed).hexdigest().encode("ascii")
        mark = seed[:length].decode("ascii")
        if not any(mark in text for text in lower):
            return mark
