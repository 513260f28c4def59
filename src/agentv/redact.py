"""Mask secret values as `[redacted]` in everything that leaves this process.

Secrets are found raw, with any of their characters percent-encoded, backslash-escaped or written as HTML entities (also
mixed and several times), and base64-encoded, alone or inside longer encoded text. Mask text before truncating it:
`head` and `tail` do both in this order.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from agentv.escapes import KINDS, Decoded, Escapes, without_line_breaks
from agentv.jsonio import MAX_WRITTEN_DEPTH

MASK = "[redacted]"
SHORTEST_SECRET = 8
SHORTEST_LINE = 16
SHORTEST_FRAGMENT = 4
WINDOW = 64 * 1024
"""Long text is searched in parts of this size."""

_BASE64_END = re.compile(rb"[A-Za-z0-9+/_-]?={0,2}")
_BASE64_CHARACTERS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=-_")
_PADDING = re.compile(rb"={0,2}")
_PARTIAL_ESCAPE, _EDGE = 12, 1024
_PEM_ARMOUR = re.compile(r"-----(BEGIN|END) [A-Z0-9 ]+-----")

_NESTED = (Mapping, list, tuple)
_as_json = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode
_T = TypeVar("_T")


class _Needle(NamedTuple):
    """One form of a secret to search for, in text without escapes."""

    data: bytes
    ending: re.Pattern[bytes] | None = None
    """What may follow and belongs to the secret. None if the form is not base64."""


class Redactor:
    """Masks the given secret values. Values shorter than 8 characters are ignored: they would match ordinary text."""

    def __init__(self, values: Iterable[str]) -> None:
        self._secrets = tuple(sorted(set(_secrets(values))))

    def __repr__(self) -> str:
        return f"Redactor({len(self._secrets)} values)"

    def adding(self, values: Iterable[str]) -> Redactor:
        """A redactor that masks these values as well."""
        return Redactor([*self._secrets, *values])

    @property
    def active(self) -> bool:
        """Whether there are any secrets to mask."""
        return bool(self._secrets)

    @cached_property
    def _needles(self) -> list[_Needle]:
        return _needles(self._secrets)

    @cached_property
    def _raw(self) -> list[str]:
        """The needles that text can contain, as strings."""
        return [needle.data.decode() for needle in self._needles if _is_utf8(needle.data)]

    @cached_property
    def _base64(self) -> list[str]:
        return [needle.data.decode() for needle in self._needles if needle.ending is not None]

    @cached_property
    def _escapes(self) -> tuple[Escapes, ...]:
        """What undoes escapes, in each of the ways in which they can be read."""
        characters = {*_BASE64_CHARACTERS, *(byte for needle in self._needles for byte in needle.data)}
        ways = [Escapes(characters)]
        if not all(secret.isascii() for secret in self._secrets):
            ways.append(Escapes(characters, latin=True))
        if self._contain_escapes:
            ways += (Escapes(characters, kinds=bytes([kind])) for kind in KINDS)
        return tuple(ways)

    @cached_property
    def _contain_escapes(self) -> bool:
        """Whether a secret contains a character that begins escapes, which the text around it may contain too."""
        return any(chr(kind) in secret for kind in KINDS for secret in self._secrets)

    @cached_property
    def _contain_breaks(self) -> bool:
        """Whether a secret contains a line break or a quotation mark, which JSON escapes."""
        return any(char in secret for char in '\r\n"' for secret in self._secrets)

    @cached_property
    def _line_escapes(self) -> Escapes:
        """Also undoes escaped line breaks, which wrapped base64 contains."""
        return Escapes({*_BASE64_CHARACTERS, *b"\r\n"})

    @cached_property
    def _reach(self) -> int:
        """How much two parts of a long text overlap: a secret is never longer, however it is escaped."""
        return WINDOW // 4 + 12 * max(len(needle.data) for needle in self._needles)

    def _windows(self, text: str) -> Iterator[tuple[int, str]]:
        """The text in overlapping parts with their offsets. A thread that searches them never blocks others for long:
        a single search in a long text would hold the interpreter lock until it ends."""
        if len(text) <= 2 * WINDOW:
            yield 0, text
            return
        for start in range(0, max(1, len(text) - self._reach), WINDOW):
            yield start, text[start : start + WINDOW + self._reach]

    def finds(self, text: str) -> bool:
        """Whether the text, plain or as JSON, contains a secret."""
        if not self._secrets or len(text) < SHORTEST_SECRET:
            return False
        return any(self._finds_in(part) for _, part in self._windows(text))

    def _finds_in(self, text: str) -> bool:
        if any(needle in text for needle in self._raw):
            return True
        bare = text
        if "\\" in text:  # most backslashes are those of line breaks and quotation marks in JSON
            bare = text.replace("\\n", "").replace("\\r", "").replace('\\"', "")
        if (bare is not text or "\n" in text) and self._finds_unwrapped(bare):
            return True
        if "%" not in text and "&" not in text and "\\" not in (text if self._contain_breaks else bare):
            return False
        data = _encoded(text)
        levels = [level for escapes in self._escapes for level in escapes.levels(data)]
        return any(needle.data in level for level in levels for needle in self._needles) or any(
            self._finds_unwrapped(level.decode("latin-1").replace("\\n", "").replace("\\r", "")) for level in levels
        )

    def _finds_unwrapped(self, bare: str) -> bool:
        """Whether text without escaped line breaks contains base64 of a secret once it is on one line."""
        line = bare.replace("\\", "").replace("\n", "").replace("\r", "")
        return any(needle in line for needle in self._base64)

    def finds_in_json(self, line: str) -> bool:
        """Whether the strings of a JSON value may contain a secret. Rarely true if they do not."""
        return (self._contain_escapes and any(chr(kind) in line for kind in KINDS)) or self.finds(line)

    def text(self, text: str, *, cut_start: bool = False, cut_end: bool = False) -> str:
        """The text with every secret masked.

        Set `cut_start` or `cut_end` if the text was truncated there before masking: then a fragment of a secret at
        that edge is masked too.
        """
        if not self._secrets:
            return text
        spans: list[tuple[int, int]] = []
        for offset, part in self._windows(text):
            at_start, at_end = cut_start and offset == 0, cut_end and offset + len(part) >= len(text)
            if at_start or at_end or self._finds_in(part):
                data = _encoded(part)
                found = [*self._spans(data), *self._fragments(data, at_start, at_end)]
                spans += [(offset + start, offset + end) for start, end in _in_characters(data, found)]
        return _masked(text, spans) if spans else text

    def _spans(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Where the text contains secrets. The spans may overlap."""
        for escapes in (*self._escapes, self._line_escapes):
            for level, undone in _each_level(data, escapes):
                for start, end in self._found(level, self._needles):
                    yield _source(start, end, undone)
                if b"\n" in level:
                    wrapped = without_line_breaks(level)
                    for start, end in self._found(wrapped.data, [each for each in self._needles if each.ending]):
                        yield _source(start, end, [*undone, wrapped])

    @staticmethod
    def _found(data: bytes, needles: Iterable[_Needle]) -> Iterator[tuple[int, int]]:
        for needle, ending in needles:
            start, begin, end = data.find(needle), 0, 0
            while start >= 0:
                if start >= end:
                    if end:
                        yield begin, end
                    begin = start
                end = start + len(needle)
                following = ending.match(data, end) if ending else None
                end = following.end() if following else end
                start = data.find(needle, start + 1)
            if end:
                yield begin, end

    def _fragments(self, data: bytes, cut_start: bool, cut_end: bool) -> Iterator[tuple[int, int]]:
        """Where the text begins with the end of a secret, or ends with the beginning of one."""
        edge = _EDGE + 6 * max(len(needle.data) for needle in self._needles)
        # The text may begin or end inside an escape or a character, so a part of it is skipped.
        if cut_end:
            entity = data.rfind(b"&", max(0, len(data) - _EDGE))
            for end in {*range(max(0, len(data) - _PARTIAL_ESCAPE), len(data)), len(data), max(0, entity)}:
                at = max(0, end - edge)
                for level, undone in self._levels(data[at:end]):
                    if longest := max(_overlap(level, needle.data) for needle in self._needles):
                        start, _ = _source(len(level) - longest, len(level), undone)
                        yield at + start, len(data)
        if cut_start:
            entity = data.find(b";", 0, _EDGE) + 1
            for start in {*range(_PARTIAL_ESCAPE), entity}:
                for level, undone in self._levels(data[start : start + edge]):
                    if longest := max(_overlap(needle.data, level) for needle in self._needles):
                        _, end = _source(0, longest, undone)
                        yield 0, start + end

    def _levels(self, data: bytes) -> Iterator[tuple[bytes, list[Decoded]]]:
        for escapes in self._escapes:
            yield from _each_level(data, escapes)

    def head(self, text: str, length: int, *, cut_end: bool = False) -> str:
        """The masked text truncated to its first `length` characters; a mask is never split."""
        window = length + WINDOW
        if len(text) > window:
            masked = self.text(text[:window], cut_end=True)
            if len(masked) < length:  # almost all of it was masked
                masked = self.text(text, cut_end=cut_end)
        else:
            masked = self.text(text, cut_end=cut_end)
        if len(masked) <= length:
            return masked
        split = _mask_across(masked, length)
        return masked[: length if split is None else split]

    def tail(self, text: str, length: int, *, cut_start: bool = False) -> str:
        """The masked text truncated to its last `length` characters; a mask is never split."""
        window = length + WINDOW
        if len(text) > window:
            masked = self.text(text[-window:], cut_start=True)
            if len(masked) < length:
                masked = self.text(text, cut_start=cut_start)
        else:
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
        if isinstance(value, str):
            return not self.finds(value)
        try:
            return not self.finds_in_json(_as_json(value))
        except (TypeError, ValueError, RecursionError):
            return False

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


def _overlap(left: bytes, right: bytes) -> int:
    """Length of the longest end of `left` that is a beginning of `right`; 0 if it is too short to matter."""
    for length in range(min(len(left), len(right)), SHORTEST_FRAGMENT - 1, -1):
        if left.endswith(right[:length]):
            return length
    return 0


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _each_level(data: bytes, escapes: Escapes) -> Iterator[tuple[bytes, list[Decoded]]]:
    """The text as it is, then with each level of escapes undone, with what maps positions back to the text."""
    undone: list[Decoded] = []
    yield data, undone
    for _ in escapes.levels(data):
        undone = [*undone, escapes.undo(undone[-1].data if undone else data)]
        yield undone[-1].data, undone


def _source(start: int, end: int, undone: list[Decoded]) -> tuple[int, int]:
    for decoded in reversed(undone):
        start, end = decoded.source(start, end)
    return start, end


def _in_characters(data: bytes, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans of UTF-8 data as spans of its characters."""
    if not spans or data.isascii():
        return spans
    at = characters = 0
    places: dict[int, int] = {}
    for position in sorted({position for span in spans for position in span}):
        characters += len(data[at:position].decode("utf-8", "surrogatepass"))
        at = position
        places[position] = characters
    return [(places[start], places[end]) for start, end in spans]


def _masked(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """The text with each span masked; overlapping spans become one mask."""
    pieces: list[str] = []
    done, start, end = 0, -1, -1
    for next_start, next_end in sorted(spans):
        if next_start >= end:
            if end >= 0:
                pieces += (text[done:start], MASK)
                done = end
            start = next_start
        end = max(end, next_end)
    pieces += (text[done:start], MASK, text[end:])
    return "".join(pieces)


# -- forms of secrets


def _needles(secrets: Iterable[str]) -> list[_Needle]:
    """Every form of every secret to search for."""
    forms: dict[bytes, re.Pattern[bytes] | None] = {}
    for secret in secrets:
        data = _encoded(secret)
        forms |= dict.fromkeys(_spellings(data))
        for core, ending in _aligned_base64(data):
            forms.setdefault(core, ending)
            forms.setdefault(core.replace(b"+", b"-").replace(b"/", b"_"), ending)
    return [_Needle(data, ending) for data, ending in forms.items()]


def _spellings(data: bytes) -> Iterator[bytes]:
    yield data
    yield data.replace(b" ", b"+")
    # A secret that contains escapes, in text where other characters of it are escaped.
    for level in Escapes({*_BASE64_CHARACTERS, *data}).levels(data):
        if len(level) >= SHORTEST_SECRET:
            yield level


def _aligned_base64(data: bytes) -> Iterator[tuple[bytes, re.Pattern[bytes]]]:
    """The base64 characters that depend on the secret alone, for each alignment (0, 1 or 2 preceding bytes), and what
    may follow: padding, and a character that encodes both the end of the secret and the text after it."""
    for before in range(3):
        skipped = -(-8 * before // 6)
        whole, left_over = divmod(8 * (before + len(data)), 6)
        yield base64.b64encode(bytes(before) + data)[skipped:whole], _BASE64_END if left_over else _PADDING


NO_SECRETS = Redactor(())
"""A redactor that masks nothing, at no cost."""
