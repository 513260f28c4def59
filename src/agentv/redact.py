"""The one redactor: secret values leave this process as `[redacted]`, however they were spelled on the way.

A secret is found raw, percent-encoded, JSON- or repr-escaped (also several times over) and base64-encoded,
alone or inside a longer encoded text. Mask first, cut to length after: `head` and `tail` do both in order.
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
"""One backslash or, where text was escaped again, up to fifteen; bounded, so that long runs stay cheap."""
_WRAP = r"(?:\r?\n|(?:\\{1,7}r)?\\{1,7}n)?"
"""Base64 is often broken into lines, always between groups of four."""
_BASE64_END = r"[A-Za-z0-9+/_-]?(?:=|%3[dD]){0,2}"
_PEM_ARMOUR = re.compile(r"-----(BEGIN|END) [A-Z0-9 ]+-----")

_NESTED = (Mapping, list, tuple)
_as_json = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode
_Tokens = tuple[str, ...]
_T = TypeVar("_T")


class Redactor:
    """Masks the given secret values. Values under 8 characters are ignored: too much would look like them."""

    def __init__(self, values: Iterable[str]) -> None:
        self._secrets = tuple(sorted(set(_secrets(values))))

    def __repr__(self) -> str:
        return f"Redactor({len(self._secrets)} values)"

    @property
    def active(self) -> bool:
        """Whether there is anything to mask."""
        return bool(self._secrets)

    @cached_property
    def _forms(self) -> set[_Tokens]:
        return _spelled_forms(self._secrets)

    @cached_property
    def _suspects(self) -> Callable[[str], re.Match[str] | None]:
        """Finds the beginning of any form. Nearly every text is clean, and this compiles ten times faster."""
        return re.compile(_any_of({form[:BEGINNING] for form in self._forms})).search

    @cached_property
    def _search(self) -> Callable[..., re.Match[str] | None]:
        return re.compile(_any_of(self._forms)).search

    def finds(self, text: str) -> bool:
        """Whether the text, or what it is the JSON encoding of, holds a secret."""
        return bool(self._secrets) and self._suspects(text) is not None and self._search(text) is not None

    def text(self, text: str, *, cut_start: bool = False, cut_end: bool = False) -> str:
        """The text with every secret masked.

        `cut_start` and `cut_end` say that the text had been cut there before anybody could mask it: the rest
        of a secret at that edge is masked too.
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
        # Each search begins inside the match before it: secrets may overlap, and none may leave a rest.
        while (found := self._search(text, found.start() + 1)) is not None:
            if found.start() >= end:
                pieces += (text[done:start], MASK)
                done, start = end, found.start()
            end = max(end, found.end())
        pieces += (text[done:start], MASK, text[end:])
        return "".join(pieces)

    def head(self, text: str, length: int) -> str:
        """The first characters of the masked text; a mask is kept whole or left out."""
        masked = self.text(text)
        if len(masked) <= length:
            return masked
        split = _mask_across(masked, length)
        return masked[: length if split is None else split]

    def tail(self, text: str, length: int, *, cut_start: bool = False) -> str:
        """The last characters of the masked text; a mask is kept whole or left out."""
        masked = self.text(text, cut_start=cut_start)
        start = len(masked) - length
        if start <= 0:
            return masked
        split = _mask_across(masked, start)
        return masked[start if split is None else split + len(MASK) :]

    def value(self, value: _T) -> _T:
        """A JSON-like value with every string in it masked, keys too; the same object when nothing was."""
        if not self._secrets or self._is_clean(value):
            return value
        masked: _T = self._value(value, 0)
        return masked

    def _is_clean(self, value: Any) -> bool:
        """Whether it certainly holds no secret: nearly every value, and one search tells."""
        try:
            text = value if isinstance(value, str) else _as_json(value)
        except (TypeError, ValueError, RecursionError):
            return False
        return self._suspects(text) is None

    def _value(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, _NESTED) and depth >= MAX_WRITTEN_DEPTH:
            return "(nested too deep to be shown)"
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
    """Where a mask begins that a cut at this place would split."""
    start = masked.find(MASK, max(0, cut - len(MASK) + 1), cut + len(MASK) - 1)
    return start if 0 <= start < cut else None


def _overlap(left: str, right: str) -> int:
    """How many characters at the end of `left` are the beginning of `right`, short of all of either."""
    for length in range(min(len(left), len(right)), SHORTEST_FRAGMENT - 1, -1):
        if left.endswith(right[:length]):
            return length
    return 0


def _spelled_forms(secrets: Iterable[str]) -> set[_Tokens]:
    """Every form of every secret as regular expression tokens, one per character."""
    forms: set[_Tokens] = set()
    for secret in secrets:
        forms |= _with_plain_start(_text_spellings(secret), ())
        for skipped, core, ragged in _aligned_base64(secret):
            tokens = [_base64_spellings(character) for character in core]
            ending = (_BASE64_END,) if ragged else (r"(?:=|%3[dD]){0,2}",)
            forms |= _with_plain_start(tokens, ending, first_wrap=4 - skipped)
    return forms


def _with_plain_start(units: list[list[str]], ending: _Tokens, first_wrap: int | None = None) -> set[_Tokens]:
    """One form per spelling of the first character, so that each begins with a literal: that is what makes
    searching fast."""
    rest: list[str] = []
    for position, unit in enumerate(units):
        if position and first_wrap is not None and (position - first_wrap) % 4 == 0:
            rest.append(_WRAP)
        if position:
            rest.append(unit[0] if len(unit) == 1 else f"(?:{'|'.join(unit)})")
    return {(first, *rest, *ending) for first in units[0]}


def _text_spellings(secret: str) -> list[list[str]]:
    """The spellings of each character; a run of backslashes is one unit, with those of the escape after it.

    Two neighbours that can share backslashes between them would make the search exponential.
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
    """The base64 characters made of nothing but the secret, after 0, 1 or 2 bytes of something else.

    With each: how many characters of its first group of four come before, and whether one more character
    follows that is made of the secret's end and of what comes next.
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
    """One expression for all forms: what they share at the start is written once, the longest tried first."""
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
"""Masks nothing, at no cost."""
