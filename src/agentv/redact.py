"""Mask secret values as `[redacted]` in everything that leaves this process.

Secrets are found raw, percent-encoded, JSON- or repr-escaped (even several times) and base64-encoded, alone or inside
longer encoded text. Mask text before truncating it; `head` and `tail` do both in this order.
"""

from __future__ import annotations

import base64
import json
import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import groupby
from typing import Any, TypeVar

from agentv.jsonio import MAX_WRITTEN_DEPTH

MASK = "[redacted]"
SHORTEST_SECRET = 8
SHORTEST_LINE = 16
SHORTEST_FRAGMENT = 4
BEGINNING = 16

_PLAIN = frozenset(string.ascii_letters + string.digits)
_SHORT_ESCAPES = {
    "\n": "n",
    "\r": "r",
    "\t": "t",
    "\b": "b",
    "\f": "f",
    "\v": "v",
    "\a": "a",
    '"': '"',
    "'": "'",
    "/": "/",
}
_ESCAPE = r"\\\\{0,14}"
"""1 to 15 backslashes, for text that was escaped several times; bounded, so that long runs stay cheap."""
_WRAP = r"(?:\r?\n|(?:\\{1,7}r)?\\{1,7}n)?"
"""A line break in wrapped base64, which always comes after a multiple of four characters."""
_BASE64_END = r"[A-Za-z0-9+/_-]?(?:=|%3[dD]){0,2}"
_PEM_ARMOUR = re.compile(r"-----(BEGIN|END) [A-Z0-9 ]+-----")

_NESTED = (Mapping, list, tuple)
_as_json = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode
_Tokens = tuple[str, ...]
_T = TypeVar("_T")


class Redactor:
    """Masks the given secret values. Values shorter than 8 characters are ignored: they would match ordinary text."""

    def __init__(self, values: Iterable[str]) -> None:
        self._secrets = tuple(sorted(set(_secrets(values))))

    def __repr__(self) -> str:
        return f"Redactor({len(self._secrets)} values)"

    @property
    def active(self) -> bool:
        """Whether there are any secrets to mask."""
        return bool(self._secrets)

    @cached_property
    def _forms(self) -> set[_Tokens]:
        return _spelled_forms(self._secrets)

    @cached_property
    def _suspects(self) -> Callable[[str], re.Match[str] | None]:
        """Search for the beginning of any encoded form. Almost all text is clean, and this regular expression
        compiles ten times faster than the full one."""
        return re.compile(_any_of({form[:BEGINNING] for form in self._forms})).search

    @cached_property
    def _search(self) -> Callable[..., re.Match[str] | None]:
        return re.compile(_any_of(self._forms)).search

    def finds(self, text: str) -> bool:
        """Whether the text, plain or as JSON, contains a secret."""
        return bool(self._secrets) and self._suspects(text) is not None and self._search(text) is not None

    def text(self, text: str, *, cut_start: bool = False, cut_end: bool = False) -> str:
        """The text with every secret masked.

        Set `cut_start` or `cut_end` if the text was truncated there before masking: then a fragment of a secret at
        that edge is masked too.
        """
        if not self._secrets:
            return text
        if cut_start or cut_end:
            text = self._mask_fragments(text, cut_start, cut_end)
        found = self._search(text) if self._suspects(text) else None
        if found is None:
            return text
        pieces: list[str] = []
        done, start, end = 0, found.start(), found.end()
        # Each search starts inside the previous match: secrets may overlap, and all of them must be masked completely.
        while (found := self._search(text, found.start() + 1)) is not None:
            if found.start() >= end:
                pieces += (text[done:start], MASK)
                done, start = end, found.start()
            end = max(end, found.end())
        pieces += (text[done:start], MASK, text[end:])
        return "".join(pieces)

    def head(self, text: str, length: int) -> str:
        """The masked text truncated to its first `length` characters; a mask is never split."""
        masked = self.text(text)
        if len(masked) <= length:
            return masked
        split = _mask_across(masked, length)
        return masked[: length if split is None else split]

    def tail(self, text: str, length: int, *, cut_start: bool = False) -> str:
        """The masked text truncated to its last `length` characters; a mask is never split."""
        masked = self.text(text, cut_start=cut_start)
        start = len(masked) - length
        if start <= 0:
            return masked
        split = _mask_across(masked, start)
        return masked[start if split is None else split + len(MASK) :]

    def value(self, value: _T) -> _T:
        """A JSON-like value with all its strings and keys masked; the same object when there is nothing to mask."""
        if not self._secrets or self._is_clean(value):
            return value
        masked: _T = self._value(value, 0)
        return masked

    def _is_clean(self, value: Any) -> bool:
        """Whether the value certainly contains no secret. One search is enough for almost all values."""
        try:
            text = value if isinstance(value, str) else _as_json(value)
        except (TypeError, ValueError, RecursionError):
            return False
        return self._suspects(text) is None

    def _value(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, _NESTED) and depth >= MAX_WRITTEN_DEPTH:
            return "(omitted: nested too deeply)"
        if isinstance(value, Mapping):
            return self._mapping(value, depth + 1)
        if isinstance(value, list | tuple):
            items = [self._value(item, depth + 1) for item in value]
            if all(new is old for new, old in zip(items, value, strict=True)):
                return value
            return items if isinstance(value, list) else tuple(items)
        return value

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> Mapping[Any, Any]:
        pairs = [(self._value(key, depth), self._value(item, depth)) for key, item in value.items()]
        same = all(
            new_key is key and new is old for (new_key, new), (key, old) in zip(pairs, value.items(), strict=True)
        )
        if same:
            return value
        masked: dict[Any, Any] = {}
        for key, item in pairs:
            name, count = key, 1
            while name in masked:
                count += 1
                name = f"{key} ({count})"
            masked[name] = item
        return masked

    def _mask_fragments(self, text: str, cut_start: bool, cut_end: bool) -> str:
        forms = [form for secret in self._secrets for form in (secret, *_base64_cores(secret))]
        if cut_start:
            longest = max((_overlap(form, text) for form in forms), default=0)
            text = MASK + text[longest:] if longest else text
        if cut_end:
            longest = max((_overlap(text, form) for form in forms), default=0)
            text = text[:-longest] + MASK if longest else text
        return text


def _secrets(values: Iterable[str]) -> Iterator[str]:
    for value in values:
        stripped = value.strip()
        secret = stripped if len(stripped) >= SHORTEST_SECRET else value
        if len(secret) < SHORTEST_SECRET or secret in MASK:
            continue
        yield secret
        lines = [line.strip() for line in secret.splitlines()]
        if len(lines) > 1:
            yield from (line for line in lines if len(line) >= SHORTEST_LINE and not _PEM_ARMOUR.fullmatch(line))


def _mask_across(masked: str, cut: int) -> int | None:
    """The start of the mask that truncating at `cut` would split; None if there is none."""
    start = masked.find(MASK, max(0, cut - len(MASK) + 1), cut + len(MASK) - 1)
    return start if 0 <= start < cut else None


def _overlap(left: str, right: str) -> int:
    """Length of the longest end of `left` that is a beginning of `right`; 0 if it is too short to matter."""
    for length in range(min(len(left), len(right)), SHORTEST_FRAGMENT - 1, -1):
        if left.endswith(right[:length]):
            return length
    return 0


def _spelled_forms(secrets: Iterable[str]) -> set[_Tokens]:
    """Every encoded form of every secret, as regular expression tokens, one per character."""
    forms: set[_Tokens] = set()
    for secret in secrets:
        forms |= _with_plain_start(_text_spellings(secret), ())
        for skipped, core, ragged in _aligned_base64(secret):
            tokens = [_base64_spellings(character) for character in core]
            ending = (_BASE64_END,) if ragged else (r"(?:=|%3[dD]){0,2}",)
            forms |= _with_plain_start(tokens, ending, first_wrap=4 - skipped)
    return forms


def _with_plain_start(units: list[list[str]], ending: _Tokens, first_wrap: int | None = None) -> set[_Tokens]:
    """One form per spelling of the first character, so that each form begins with a literal, which makes searching
    fast."""
    rest: list[str] = []
    for position, unit in enumerate(units):
        if position and first_wrap is not None and (position - first_wrap) % 4 == 0:
            rest.append(_WRAP)
        if position:
            rest.append(unit[0] if len(unit) == 1 else f"(?:{'|'.join(unit)})")
    return {(first, *rest, *ending) for first in units[0]}


def _text_spellings(secret: str) -> list[list[str]]:
    """The spellings of each character. Consecutive backslashes, including those of a following escape, are one unit:
    two adjacent patterns that can match the same backslashes would make the search exponential.
    """
    units: list[list[str]] = []
    escape = _ESCAPE
    for part in re.findall(r"\\+|[^\\]", secret):
        if part[0] == "\\":
            count = len(part)
            units.append([rf"\\\\{{{count - 1},{16 * count - 1}}}+", f"(?:%5[cC]){{{count}}}"])
            escape = ""
        else:
            units.append(_spellings(part, escape))
            escape = _ESCAPE
    return units


def _spellings(character: str, escape: str) -> list[str]:
    if character in _PLAIN:
        return [character]
    code, encoded = ord(character), character.encode("utf-8", "surrogatepass")
    units = character.encode("utf-16-be", "surrogatepass")
    first, *more = (units[i : i + 2].hex() for i in range(0, len(units), 2))
    spelled = [
        re.escape(character),
        "".join("%" + _hex(f"{byte:02x}") for byte in encoded),
        f"{escape}u{_hex(first)}" + "".join(f"{_ESCAPE}u{_hex(unit)}" for unit in more),
        f"{escape}x" + f"{_ESCAPE}x".join(_hex(f"{byte:02x}") for byte in encoded),
    ]
    if character in _SHORT_ESCAPES and (escape or character not in "\"'/"):
        spelled.append(escape + _SHORT_ESCAPES[character])
    if character == " ":
        spelled.append(r"\+")
    if 0x80 <= code < 0x100:
        spelled.append(f"{escape}x{_hex(f'{code:02x}')}")
    if code > 0xFFFF:
        spelled.append(f"{escape}U{_hex(f'{code:08x}')}")
    return spelled


def _hex(digits: str) -> str:
    return "".join(f"[{digit}{digit.upper()}]" if digit in "abcdef" else digit for digit in digits)


def _base64_spellings(character: str) -> list[str]:
    if character == "+":
        return [r"\+", "-", "%2[bB]"]
    if character == "/":
        return ["/", "_", "%2[fF]", _ESCAPE + "/"]
    return [character]


def _aligned_base64(secret: str) -> Iterator[tuple[int, str, bool]]:
    """The base64 characters that depend on the secret alone, for each alignment (0, 1 or 2 preceding bytes).

    Each with the number of preceding characters in its first group of four, and whether it is followed by a character
    that encodes both the end of the secret and the text after it.
    """
    data = secret.encode("utf-8", "surrogatepass")
    for before in range(3):
        skipped = -(-8 * before // 6)
        whole, left_over = divmod(8 * (before + len(data)), 6)
        encoded = base64.b64encode(bytes(before) + data).decode("ascii")
        yield skipped, encoded[skipped:whole], left_over > 0


def _base64_cores(secret: str) -> Iterator[str]:
    for _, core, _ in _aligned_base64(secret):
        yield core
        yield core.replace("+", "-").replace("/", "_")


def _any_of(forms: Iterable[_Tokens]) -> str:
    """One regular expression that matches any of the forms: common prefixes are factored out, longest form first."""
    ordered = sorted(forms)
    shared = _shared_start(ordered)
    prefix, rests = "".join(ordered[0][:shared]), [form[shared:] for form in ordered]
    if len(rests) == 1:
        return prefix + "".join(rests[0])
    branches = []
    for first, group in groupby(rests, key=lambda form: form[:1]):
        members = list(group)
        branches.append((max(map(len, members)), _any_of(members) if first else ""))
    branches.sort(key=lambda branch: -branch[0])
    return f"{prefix}(?:{'|'.join(branch for _, branch in branches)})"


def _shared_start(ordered: list[_Tokens]) -> int:
    first, last = ordered[0], ordered[-1]
    pairs = zip(first, last, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(first), len(last)))


NO_SECRETS = Redactor(())
"""A redactor that masks nothing, at no cost."""
