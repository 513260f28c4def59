"""Where the nodes of a JSON text stand, and what strict JSON has against them. Slow: for texts with mistakes only."""

from __future__ import annotations

import json.decoder
import re
from typing import Any

Path = tuple[str | int, ...]

MAX_DEPTH = 100
MAX_DIGITS = 4000
_SPACE = re.compile(r"[ \t\n\r]*")
_SCALAR = re.compile(r"[^\s,:\[\]{}\"]+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_scan_string: Any = json.decoder.scanstring  # type: ignore[attr-defined]


class JsonError(ValueError):
    """A text is not strict JSON, and at which column (from 1)."""

    def __init__(self, message: str, column: int, *, duplicate: bool = False) -> None:
        super().__init__(f"{message} (column {column})")
        self.message, self.column, self.duplicate = message, column, duplicate


class JsonPlaces:
    """`columns`: node -> the columns of its value and of its key. Reading ends where the text is not JSON."""

    def __init__(self, text: str) -> None:
        self.columns: dict[Path, tuple[int, int]] = {}
        self.mistakes: list[JsonError] = []
        self._text = text
        try:
            self._value(0, (), None, 1)
        except (ValueError, IndexError, StopIteration):
            return

    def first_mistake(self) -> JsonError:
        return self.mistakes[0] if self.mistakes else JsonError("not strict JSON", 1)

    def _value(self, at: int, path: Path, key_column: int | None, depth: int) -> int:
        at = self._skip(at)
        column = at + 1
        self.columns[path] = (column, key_column or column)
        first = self._text[at]
        if first in "[{":
            if depth > MAX_DEPTH:
                self.mistakes.append(JsonError(f"nested more than {MAX_DEPTH} levels deep", column))
                raise ValueError
            return self._object(at, path, depth) if first == "{" else self._array(at, path, depth)
        if first == '"':
            return self._string(at)[1]
        return self._scalar(at)

    def _object(self, at: int, path: Path, depth: int) -> int:
        seen: set[str] = set()
        at = self._skip(at + 1)
        while self._text[at] != "}":
            key_column = at + 1
            key, at = self._string(at)
            if key in seen:
                what = f"the key `{key[:60]}` is here twice in one object"
                self.mistakes.append(JsonError(what, key_column, duplicate=True))
            seen.add(key)
            at = self._value(self._expect(":", at), (*path, key), key_column, depth + 1)
            at = self._next_item(at, "}")
        return at + 1

    def _array(self, at: int, path: Path, depth: int) -> int:
        index = 0
        at = self._skip(at + 1)
        while self._text[at] != "]":
            at = self._next_item(self._value(at, (*path, index), None, depth + 1), "]")
            index += 1
        return at + 1

    def _string(self, at: int) -> tuple[str, int]:
        if self._text[at] != '"':
            raise ValueError
        text, end = _scan_string(self._text, at + 1)
        if _SURROGATE.search(text):
            self.mistakes.append(JsonError("a lone surrogate (\\ud800 to \\udfff) is not text", at + 1))
        return text, end

    def _scalar(self, at: int) -> int:
        found = _SCALAR.match(self._text, at)
        if found is None:
            raise ValueError
        word = found.group()
        if word in ("NaN", "Infinity", "-Infinity"):
            self.mistakes.append(JsonError(f"{word} is not JSON", at + 1))
        elif word[-1].isdigit() and len(word) > MAX_DIGITS:
            self.mistakes.append(JsonError(f"a number of {len(word):,} digits is too long", at + 1))
        elif word[-1].isdigit() and float(word) in (float("inf"), float("-inf")):
            self.mistakes.append(JsonError(f"the number {word[:40]} is too large", at + 1))
        return found.end()

    def _next_item(self, at: int, end: str) -> int:
        at = self._skip(at)
        return at if self._text[at] == end else self._skip(self._expect(",", at))

    def _expect(self, character: str, at: int) -> int:
        at = self._skip(at)
        if self._text[at] != character:
            raise ValueError
        return at + 1

    def _skip(self, at: int) -> int:
        found = _SPACE.match(self._text, at)
        return found.end() if found else at
