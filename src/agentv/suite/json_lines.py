"""JSON Lines read strictly, one value at a time, with the line's number."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

MAX_LINE_BYTES = 64 * 1024 * 1024
MAX_DEPTH = 100


class DuplicateKeyError(ValueError):
    """A JSON object names a key twice."""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise DuplicateKeyError(f"the key `{twice}` occurs twice in one object")
    return data


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_decoder = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant)


def parse_json(text: str) -> Any:
    """One strict JSON value: no NaN, no duplicate keys, no lone surrogates, no bottomless nesting."""
    try:
        value = _decoder.decode(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"not valid JSON: {error.msg} at column {error.colno}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if "\\u" in text:
        _refuse_surrogates(value)
    if text.count("[") + text.count("{") > MAX_DEPTH:
        _refuse_depth(value)
    return value


def _refuse_surrogates(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("a lone surrogate (\\ud800 to \\udfff) is not text") from None


def _refuse_depth(value: Any) -> None:
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise ValueError(f"nested more than {MAX_DEPTH} levels deep")
        level = [
            child
            for node in level
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
        ]


def iterate_lines(stream: Iterable[bytes]) -> Iterator[tuple[int, Any, str | None]]:
    """`(line number, value, None)` or `(line number, None, what is wrong)`; blank lines are skipped."""
    for number, raw in enumerate(stream, 1):
        if not raw.strip():
            continue
        try:
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            yield number, parse_json(text.strip()), None
        except UnicodeDecodeError as error:
            yield number, None, f"not UTF-8 (byte {error.start} of the line)"
        except ValueError as error:
            yield number, None, str(error)
