"""What the YAML parser complains about, in words a person can act on."""

from __future__ import annotations

from typing import Any

import yaml

_HINTS = {
    "mapping values are not allowed in this context": "text with `: ` inside needs quotes, or the indentation is wrong",
    "found character that cannot start any token": "indent with spaces, not tabs; quote text that starts with % @ or `",
    "did not find expected key": "check the indentation of this line, and quotes that end too early",
    "did not find expected '-' indicator": "the items of a list start in the same column",
    "could not find expected ':'": "a key is followed by `: `",
    "did not find expected ',' or ']'": "a `[` list is not closed, or a comma is missing",
    "did not find expected ',' or '}'": "a `{` mapping is not closed, or a comma is missing",
    "did not find expected <document start>": "check the indentation; keys of the file start in the first column",
    "found unexpected end of stream": "a quote is never closed",
    "found unknown escape character": "write \\\\ for a backslash, or use single quotes",
}


class YamlProblem(Exception):  # noqa: N818 - a mistake in a user's file, turned into a Problem by the reader
    """The text is not YAML that agentv reads."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.message, self.line, self.column = message, line, column


def problem_at(event: Any, message: str) -> YamlProblem:
    return YamlProblem(message, event.start_mark.line + 1, event.start_mark.column + 1)


def as_problem(error: Exception, stream: Any) -> YamlProblem:
    """An error of the parser, placed. The stream is at its end for the parser: it may be read again."""
    if isinstance(error, yaml.MarkedYAMLError):
        return _syntax(error)
    if isinstance(error, yaml.reader.ReaderError):
        line, column = _place_of(error.position, stream)
        if "control" in error.reason:
            what = f"the character #x{_code(error.character):02x} is not allowed in YAML; remove it"
        else:
            what = f"the file is not UTF-8 ({error.reason}); save it as UTF-8"
        return YamlProblem(what, line, column)
    return YamlProblem(f"not valid YAML: {' '.join(str(error).split())[:200]}", 1, 1)


def _syntax(error: yaml.MarkedYAMLError) -> YamlProblem:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    said = error.problem or "cannot be parsed"
    where = ""
    if error.context and error.context_mark and error.context_mark.line + 1 != line:
        where = f" ({error.context}, which starts at line {error.context_mark.line + 1})"
    elif error.context:
        where = f" ({error.context})"
    hint = f"; {_HINTS[said]}" if said in _HINTS else ""
    return YamlProblem(f"not valid YAML: {said}{where}{hint}", line, column)


def _place_of(offset: int, stream: Any) -> tuple[int, int]:
    """The line and column of a byte."""
    if isinstance(stream, str):
        return 1, 1
    if isinstance(stream, bytes):
        before = stream[:offset]
    else:
        stream.seek(0)
        before = stream.read(offset)
    last = before[before.rfind(b"\n") + 1 :]
    return before.count(b"\n") + 1, len(last.decode("utf-8", "replace").lstrip("\ufeff")) + 1


def _code(character: Any) -> int:
    return character if isinstance(character, int) else ord(character)
