"""Strict reading of JSON Lines, one value at a time, with line numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

from agentv.jsonio import JsonError, find_problems, read, strict_decoder, syntax_error
from agentv.suite.encodings import UTF_16, not_utf_8, utf_16_problem
from agentv.suite.yaml_scalars import written_float

MAX_LINE_BYTES = 32 * 1024 * 1024

_plain = strict_decoder()
_as_written = strict_decoder(parse_float=written_float)
_last_wins = json.JSONDecoder(parse_float=written_float)


@dataclass(frozen=True, slots=True)
class JsonLine:
    """One line that is not blank. If it has problems, the value is None, unless all of them are duplicate keys."""

    number: int
    value: Any
    problems: tuple[JsonError, ...] = ()

    @property
    def readable(self) -> bool:
        return not self.problems or self.value is not None


def read_lines(stream: IO[bytes]) -> Iterator[JsonLine]:
    """Every line that is not blank."""
    if utf_16_problem(stream) is not None:
        yield JsonLine(1, None, (JsonError("encoding", UTF_16),))
        return
    for number, raw in enumerate(bounded_lines(stream), 1):
        if raw.strip():
            yield _line(number, raw, _as_written)


def iterate_lines(stream: IO[bytes], limit: int = MAX_LINE_BYTES) -> Iterator[tuple[int, Any, str | None]]:
    """Yields `(line number, value, None)` or `(line number, None, error)`; blank lines are skipped."""
    for number, raw in enumerate(bounded_lines(stream, limit), 1):
        if raw.strip():
            line = _line(number, raw, _plain, limit)
            if line.problems:
                error = line.problems[0]
                yield number, None, f"{message_of(error)} (column {error.column})"
            else:
                yield number, line.value, None


def message_of(error: JsonError) -> str:
    return f"not valid JSON: {error.problem}" if error.kind == "syntax" else error.problem


def _line(number: int, raw: bytes, decoder: json.JSONDecoder, limit: int = MAX_LINE_BYTES) -> JsonLine:
    if len(raw) > limit:
        return JsonLine(number, None, (JsonError("size", f"the line is longer than {limit // 2**20} MiB"),))
    try:
        text = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        offset = len(raw[: error.start].decode("utf-8", "replace"))
        return JsonLine(number, None, (JsonError("encoding", not_utf_8(raw[error.start]), offset),))
    try:
        return JsonLine(number, read(text, decoder=decoder))
    except JsonError as error:
        return _with_problems(number, text, error)


def _with_problems(number: int, text: str, first: JsonError) -> JsonLine:
    """A line that is invalid. If its only problems are duplicate keys, it still has a value that can be checked."""
    if first.kind not in ("duplicate", "syntax"):
        return JsonLine(number, None, (first,))
    problems = list(find_problems(text))
    if not problems or not all(problem.kind == "duplicate" for problem in problems):
        return JsonLine(number, None, (first,))
    try:
        return JsonLine(number, _last_wins.decode(text), tuple(problems))
    except json.JSONDecodeError as error:
        return JsonLine(number, None, (*problems, syntax_error(error, text)))


def bounded_lines(stream: IO[bytes], limit: int = MAX_LINE_BYTES) -> Iterator[bytes]:
    """The lines of a stream. A line that is too long is cut after `limit` + 1 bytes."""
    while raw := stream.readline(limit + 1):
        yield raw
        while len(raw) > limit and not raw.endswith(b"\n"):
            raw = stream.readline(limit + 1)
