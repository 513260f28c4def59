"""JSON Lines read strictly, one value at a time, with the line's number."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import isfinite
from typing import IO, Any

from agentv.suite.json_places import MAX_DEPTH, JsonError, JsonPlaces
from agentv.suite.yaml_scalars import written_float

MAX_LINE_BYTES = 32 * 1024 * 1024


class _OddError(ValueError):
    """The decoder met something that strict JSON does not have."""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        raise _OddError
    return data


def _refuse(name: str) -> Any:
    raise _OddError(name)


def _finite(text: str) -> float:
    value = float(text)
    return value if isfinite(value) else _refuse(text)


def _written(text: str) -> float:
    value = written_float(text)
    return value if isfinite(value) else _refuse(text)


_plain = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_refuse, parse_float=_finite)
_as_written = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_refuse, parse_float=_written)
_last_wins = json.JSONDecoder(parse_float=_written)


@dataclass(frozen=True, slots=True)
class JsonLine:
    """One line that is not blank. With mistakes the value is None, unless all of them are about duplicate keys."""

    number: int
    value: Any
    mistakes: tuple[JsonError, ...] = ()

    @property
    def readable(self) -> bool:
        return not self.mistakes or self.value is not None


def parse_json(text: str, decoder: json.JSONDecoder = _plain) -> Any:
    """One strict JSON value: no NaN, no duplicate keys, no lone surrogates, no bottomless nesting."""
    try:
        value = decoder.decode(text)
        if text.count("[") + text.count("{") > MAX_DEPTH:
            _refuse_depth(value)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError as error:
        raise _syntax(error, text) from None
    except (ValueError, RecursionError):
        raise JsonPlaces(text).first_mistake() from None
    return value


def _refuse_depth(value: Any) -> None:
    level, depth = [value], 0
    while level := [node for node in level if isinstance(node, dict | list)]:
        depth += 1
        if depth > MAX_DEPTH:
            raise _OddError
        level = [child for node in level for child in (node.values() if isinstance(node, dict) else node)]


def read_lines(stream: IO[bytes]) -> Iterator[JsonLine]:
    """Every line that is not blank."""
    for number, raw in enumerate(bounded_lines(stream), 1):
        if raw.strip():
            yield _line(number, raw, _as_written)


def iterate_lines(stream: Iterable[bytes]) -> Iterator[tuple[int, Any, str | None]]:
    """`(line number, value, None)` or `(line number, None, what is wrong)`; blank lines are skipped."""
    for number, raw in enumerate(stream, 1):
        if raw.strip():
            line = _line(number, raw, _plain)
            yield (number, None, str(line.mistakes[0])) if line.mistakes else (number, line.value, None)


def _line(number: int, raw: bytes, decoder: json.JSONDecoder) -> JsonLine:
    if len(raw) > MAX_LINE_BYTES:
        return JsonLine(number, None, (JsonError(f"the line is longer than {MAX_LINE_BYTES // 2**20} MiB", 1),))
    try:
        text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        column = len(raw[: error.start].decode("utf-8", "replace")) + 1
        return JsonLine(number, None, (JsonError("not UTF-8; save the file as UTF-8", column),))
    try:
        return JsonLine(number, parse_json(text.rstrip("\r\n"), decoder))
    except JsonError as error:
        return _with_mistakes(number, text, error)


def _with_mistakes(number: int, text: str, first: JsonError) -> JsonLine:
    """Duplicate keys leave a value that can be checked on: its other mistakes are told in the same breath."""
    mistakes = JsonPlaces(text).mistakes
    if not mistakes or not all(mistake.duplicate for mistake in mistakes):
        return JsonLine(number, None, (first,))
    try:
        return JsonLine(number, _last_wins.decode(text), tuple(mistakes))
    except json.JSONDecodeError as error:
        return JsonLine(number, None, (*mistakes, _syntax(error, text)))


def bounded_lines(stream: IO[bytes]) -> Iterator[bytes]:
    """The lines; of one that is too long only the start, and more of it than is allowed."""
    while raw := stream.readline(MAX_LINE_BYTES + 1):
        yield raw
        while len(raw) > MAX_LINE_BYTES and not raw.endswith(b"\n"):
            raw = stream.readline(MAX_LINE_BYTES + 1)


def _syntax(error: json.JSONDecodeError, text: str) -> JsonError:
    column = error.pos - text.rfind("\n", 0, error.pos)
    return JsonError(f"not valid JSON: {error.msg[:1].lower()}{error.msg[1:]}", column)
