"""Regular expressions of JavaScript in Python's syntax."""

from __future__ import annotations

import re

_PIECE = re.compile(r"\\(?:u\{[0-9a-fA-F]+\}|[\s\S])|\(\?<(?![=!])|\[\^?\]?|[$\]]|[\s\S]")
_BACK_REFERENCE = re.compile(r"\\k<(\w+)>")
_CODE_POINT = re.compile(r"\\u\{([0-9a-fA-F]+)\}")
_SPACES = r"\s\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_CLASSES = {"d": "0-9", "w": "A-Za-z0-9_", "s": _SPACES}
"""The members of classes: digits, words and white space."""
_BOUNDARIES = {"b": r"(?a:\b)", "B": r"(?a:\B)"}
_UNKNOWN = frozenset("AGKLMNORQUVXZaeghijlmqyz")
"""Letters that mean themselves after a backslash, and have another meaning in Python."""


def from_javascript(pattern: str, flags: str) -> tuple[str, str]:
    r"""The pattern and its flags. Without `m`, `$` matches only at the very end; `\d`, `\w` and `\b` are ASCII."""
    parts: list[str] = []
    in_class = False
    for match in _PIECE.finditer(_BACK_REFERENCE.sub(r"(?P=\1)", pattern)):
        piece = match[0]
        if piece.startswith("\\"):
            parts.append(_escape(piece, in_class=in_class))
        elif in_class:
            in_class = piece != "]"
            parts.append(piece.replace("[", "\\["))
        elif piece in _ALONE:
            parts.append(_ALONE[piece])
        elif piece == "$":
            parts.append("$" if "m" in flags else r"\Z")
        else:
            in_class = piece.startswith("[")
            parts.append(piece)
    return "".join(parts), flags


_ALONE = {"[]": "(?!)", "[^]": r"[\s\S]", "(?<": "(?P<"}
"""Parts with another form: a class without members matches nothing, and its opposite everything."""


def _escape(piece: str, *, in_class: bool) -> str:
    letter = piece[1]
    if (code := _CODE_POINT.fullmatch(piece)) is not None:
        return re.escape(chr(int(code[1], 16)))
    if letter.lower() in _CLASSES and not (in_class and letter.isupper()):
        members = _CLASSES[letter.lower()]
        return members if in_class else f"[{'^' if letter.isupper() else ''}{members}]"
    if letter in _BOUNDARIES and not in_class:
        return _BOUNDARIES[letter]
    return letter if letter in _UNKNOWN else piece
