"""Strict JSON: a reader with precise errors, extraction of objects from other text, and a writer that never fails.

Strict means: exactly one value, UTF-8, no duplicate keys, no NaN or Infinity, no numbers that overflow to infinity or
have thousands of digits, no lone surrogates, and nesting up to `MAX_DEPTH`.
"""

from __future__ import annotations

import json
import json.decoder
import math
import re
from collections.abc import Callable, Iterator, Mapping, Set
from itertools import accumulate
from typing import Any, NamedTuple

MAX_DEPTH = 100
"""Deepest nesting that agentv reads in suites, replies, requests and script output."""
MAX_WRITTEN_DEPTH = 2 * MAX_DEPTH
"""Deepest nesting that agentv writes: a row or reply adds levels around a value that was read."""
MAX_DIGITS = 4_300
"""Python's limit for converting between strings and integers."""
LONGEST_KEY = 60

Path = tuple[str | int, ...]

# An unclosed string matches up to the end instead of failing, so that one pass is enough for any text.
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*(?P<closed>")?'
_ANY_STRING = re.compile(_STRING, re.DOTALL)
_BRACKET = re.compile(r"[][{}]")
_BRACES = re.compile(rf"{_STRING}|[{{}}]", re.DOTALL)
_BRACES_AND_BRACKETS = re.compile(rf"{_STRING}|[][{{}}]", re.DOTALL)
_STEP = {"[": 1, "{": 1, "]": -1, "}": -1}
_SPACE = re.compile(r"[ \t\n\r]*")
_SCALAR = re.compile(r"[^\s,:\[\]{}\"]+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_FRACTION = re.compile(r"[.eE]")
"""Occurs in numbers that Python reads as floats; integers never overflow."""
_EXPONENT = re.compile(r"[0-9][eE]\+?[0-9]{3}")
_LONG_NUMBER = re.compile(r"[0-9]{309}")
_scan_string: Any = json.decoder.scanstring  # type: ignore[attr-defined]


class JsonError(ValueError):
    """Text is not strict JSON: what is wrong, and where.

    `kind` is `encoding`, `empty`, `syntax`, `duplicate`, `constant`, `depth`, `digits`, `infinite` or `surrogate`;
    `offset` is in characters from 0 (in bytes for `encoding`); `path` is the object that contains a duplicate `key`.
    """

    def __init__(self, kind: str, problem: str, offset: int = 0, *, path: Path = (), key: str = "") -> None:
        super().__init__(problem)
        self.kind, self.problem, self.offset, self.path, self.key = kind, problem, offset, path, key
        self.line, self.column = 1, offset + 1

    def located(self, text: str) -> JsonError:
        """The same error with line and column set and added to the message."""
        self.line = text.count("\n", 0, self.offset) + 1
        self.column = self.offset - text.rfind("\n", 0, self.offset)
        self.args = (f"{self.problem} at line {self.line}, column {self.column}",)
        return self


# -- reading


def read(
    source: str | bytes,
    *,
    max_depth: int | None = MAX_DEPTH,
    infinite: bool = False,
    surrogates: bool = False,
    decoder: json.JSONDecoder | None = None,
) -> Any:
    """Parse text that must be exactly one strict JSON value. JsonError describes the first problem.

    `infinite` and `surrogates` allow numbers such as 1e999 and lone surrogates, for callers that check them later.
    With `max_depth=None`, nesting is limited only by the stack; use it for files that agentv wrote itself.
    """
    text = source if isinstance(source, str) else _decoded(source)
    try:
        return _read(text, max_depth, decoder or _STRICT, infinite=infinite, surrogates=surrogates)
    except JsonError as error:
        raise (error if error.kind == "empty" else error.located(text)) from None


def _read(text: str, max_depth: int | None, decoder: json.JSONDecoder, *, infinite: bool, surrogates: bool) -> Any:
    if max_depth is not None and text.count("[") + text.count("{") > max_depth:
        _refuse_depth(text, max_depth)
    try:
        value = decoder.decode(text)
    except json.JSONDecodeError as error:
        raise syntax_error(error, text) from None
    except RecursionError:
        raise JsonError("depth", "nested too deeply") from None
    except ValueError as error:
        raise _first_problem(text, {"infinite", "surrogate"}) or _without_place(error) from None
    if not surrogates and _ESCAPED_SURROGATE.search(text) and not _is_utf8(value):
        raise _first_problem(text, {"infinite"}) or JsonError("surrogate", "a lone surrogate is not text")
    may_be_infinite = not infinite and (_EXPONENT.search(text) or (len(text) > 309 and _LONG_NUMBER.search(text)))
    if may_be_infinite and (problem := _first_problem(text, {"surrogate"})):
        raise problem
    return value


def load(data: bytes, *, unique: bool = True) -> Any:
    """Parse a document in a format that agentv writes: strict, but nested as deeply as the stack allows.

    Without `unique`, duplicate keys are not looked for, which is twice as fast.
    """
    try:
        return read(data, max_depth=None, infinite=True, decoder=None if unique else _QUICK)
    except JsonError as error:
        where = "" if error.kind in ("encoding", "depth", "empty") else f" at character {error.offset}"
        error.args = (f"not JSON: {error.problem}{where}",)
        raise


def _decoded(source: bytes) -> str:
    try:
        return source.decode("utf-8")
    except UnicodeDecodeError as error:
        raise JsonError("encoding", f"not UTF-8 at byte {error.start}", error.start) from None


def _is_utf8(value: Any) -> bool:
    try:
        _encode(value).encode("utf-8")
    except (UnicodeEncodeError, ValueError):
        return False
    return True


def syntax_error(error: json.JSONDecodeError, text: str) -> JsonError:
    """Convert an error of Python's decoder."""
    if not text.strip():
        return JsonError("empty", "it is empty")
    more = error.msg == "Extra data"
    problem = "more text after the JSON value" if more else f"{error.msg[:1].lower()}{error.msg[1:]}"
    return JsonError("syntax", problem, error.pos)


def _refuse_depth(text: str, max_depth: int) -> None:
    """JsonError when brackets outside of strings are nested more deeply than `max_depth`."""
    if max(accumulate(map(_STEP.__getitem__, _BRACKET.findall(_ANY_STRING.sub("", text)))), default=0) <= max_depth:
        return
    depth = 0
    for token in _BRACES_AND_BRACKETS.finditer(text):
        depth += _STEP.get(token[0], 0)
        if depth > max_depth:
            raise JsonError("depth", f"nested more than {max_depth} levels deep", token.start())


def _first_problem(text: str, allowed: set[str]) -> JsonError | None:
    return next((problem for problem in find_problems(text) if problem.kind not in allowed), None)


def _without_place(error: ValueError) -> JsonError:
    """An error raised by the decoder's hooks, or by Python for an integer with more than 4,300 digits."""
    return error if isinstance(error, JsonError) else JsonError("digits", "a number has thousands of digits")


def strict_decoder(parse_float: Callable[[str], Any] | None = None) -> json.JSONDecoder:
    """A decoder that raises JsonError, without a location, for duplicate keys and constants such as NaN."""
    return json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_float=parse_float)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        seen: set[str] = set()
        raise _duplicate(next(key for key, _ in pairs if key in seen or seen.add(key)))  # type: ignore[func-returns-value]
    return data


def _duplicate(key: str, offset: int = 0, path: Path = ()) -> JsonError:
    # A longer key is omitted rather than truncated: a truncated secret could not be masked.
    shown = f"the key `{key.encode('utf-8', 'replace').decode()}`" if len(key) <= LONGEST_KEY else "a key"
    return JsonError("duplicate", f"{shown} occurs twice in one object", offset, path=path, key=key)


def _refuse_constant(name: str) -> Any:
    raise JsonError("constant", f"{name} is not a JSON number")


_STRICT = strict_decoder()
_QUICK = json.JSONDecoder(parse_constant=_refuse_constant)
_UNIQUE_KEYS = json.JSONDecoder(object_pairs_hook=_unique)


def find_problems(text: str, offsets: dict[Path, tuple[int, int]] | None = None) -> Iterator[JsonError]:
    """All problems of JSON text except its depth, in order, up to the first syntax error. Slow; use it after an error.

    `offsets` is filled with the offsets of each value and of its key, by path.
    """
    try:
        yield from _walk(text, {} if offsets is None else offsets, keep=offsets is not None)
    except (ValueError, IndexError):  # not JSON from here on
        return


def _walk(text: str, offsets: dict[Path, tuple[int, int]], *, keep: bool) -> Iterator[JsonError]:
    path: list[str | int] = []
    objects: list[set[str] | None] = []  # the keys so far of each open object; None for a list
    at, key_at = _skip(text, 0), -1
    while True:
        # One value, or the bracket that opens one.
        if keep:
            offsets[tuple(path)] = (at, at if key_at < 0 else key_at)
        opening, is_first = text[at], False
        if opening in "[{":
            objects.append(set() if opening == "{" else None)
            path.append(-1)
            at = _skip(text, at + 1)
            is_first = text[at] != ("}" if opening == "{" else "]")
        else:
            _, at, problems = _string(text, at) if opening == '"' else _scalar(text, at)
            yield from problems
        # Closing brackets after it, then the key or index of the next value.
        while not is_first and objects and text[at] == ("]" if objects[-1] is None else "}"):
            objects.pop()
            path.pop()
            at = _skip(text, at + 1)
        if not objects:
            return
        at = at if is_first else _expect(text, at, ",")
        keys, key_at = objects[-1], -1
        if keys is None:
            path[-1] = int(path[-1]) + 1
        else:
            key_at = at
            key, at, problems = _string(text, at)
            yield from problems
            if key in keys:
                yield _duplicate(key, key_at, tuple(path[:-1]))
            keys.add(key)
            path[-1] = key
            at = _expect(text, at, ":")


def _string(text: str, at: int) -> tuple[str, int, list[JsonError]]:
    if text[at] != '"':
        raise ValueError
    value, end = _scan_string(text, at + 1)
    halves = _SURROGATE.search(value)
    problem = JsonError("surrogate", "a lone surrogate (\\ud800 to \\udfff) is not text", at)
    return value, _skip(text, end), [problem] if halves else []


def _scalar(text: str, at: int) -> tuple[str, int, list[JsonError]]:
    found = _SCALAR.match(text, at)
    if found is None:
        raise ValueError
    word, problem = found[0], None
    if word in ("NaN", "Infinity", "-Infinity"):
        problem = JsonError("constant", f"{word} is not a JSON number", at)
    elif word[-1].isdigit() and len(word) > MAX_DIGITS:
        problem = JsonError("digits", f"a number of {len(word):,} digits is too long", at)
    elif _FRACTION.search(word) and word[-1].isdigit() and math.isinf(float(word)):
        problem = JsonError("infinite", f"the number {word[:40]} is too large", at)
    return word, _skip(text, found.end()), [] if problem is None else [problem]


def _expect(text: str, at: int, character: str) -> int:
    if text[at] != character:
        raise ValueError
    return _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


# -- objects in other text

_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})([^\n`]*)$", re.MULTILINE)
_LINE_WITH_OBJECT = re.compile(r"""^[ \t]*(?=\{\s*["}])""", re.MULTILINE)
_REST_OF_LINE = re.compile(r"[^\S\n]*(?:\n|\Z)")
_FAILED_TRIES = 20_000
"""Lines that look like objects but are not, before the text is refused. Bounds the work, not the size of logs."""
_FAILED_CHARACTERS = 32 * 2**20
"""Characters parsed in such lines before the text is refused."""
_TOO_DEEP_COSTS = 64 * 2**10
_READ_AHEAD = 256 * 2**10
"""Parsed text is dropped after this number of characters, because each failed attempt counts the lines before it."""


def fenced(text: str) -> Iterator[str]:
    """The contents of Markdown code fences."""
    opened, start = "", 0
    for line in _FENCE.finditer(text):
        if not opened:
            opened, start = line[1], line.end()
        elif line[1].startswith(opened) and not line[2].strip():
            yield text[start : line.start()]
            opened = ""


class Span(NamedTuple):
    """Text from an opening brace to its closing brace, or to the end of the text."""

    text: str
    start: int
    closed: bool
    in_string: bool = False
    """The text ends inside a string."""


def braced(text: str, *, max_depth: int | None = None) -> Iterator[Span]:
    """All outermost `{...}` spans. Quotation marks are significant only inside braces.

    With `max_depth`, square brackets count as nesting too, and JsonError is raised when the limit is exceeded.
    """
    tokens = _BRACES if max_depth is None else _BRACES_AND_BRACKETS
    at = 0
    while (start := text.find("{", at)) >= 0:
        depth, end, in_string = 0, None, False
        for token in tokens.finditer(text, start):
            if token[0][0] == '"':
                in_string = token["closed"] is None
                continue
            depth += _STEP[token[0]]
            if max_depth is not None and depth > max_depth:
                raise JsonError("depth", f"nested more than {max_depth} levels deep", token.start())
            if depth == 0:
                end = token.end()
                break
        yield Span(text[start:end], start, end is not None, in_string)
        if end is None:
            return
        at = end


def objects_on_lines(text: str) -> list[dict[str, Any]]:
    """JSON objects that start on a new line and are followed only by whitespace; stops after the second one.

    Other lines are ignored, in linear time. JsonError of the kind `duplicate` or `digits` when an object has such a
    problem, and `syntax` when too many lines look like objects but are not. NaN and Infinity are accepted, so that the
    caller can decide whether the number matters.
    """
    found: list[dict[str, Any]] = []
    at = tries = characters = 0
    while len(found) < 2 and (match := _LINE_WITH_OBJECT.search(text, at)):
        start = match.end()
        try:
            value, end = _UNIQUE_KEYS.raw_decode(text, start)
        except (json.JSONDecodeError, RecursionError) as error:
            tries += 1
            characters += error.pos - start if isinstance(error, json.JSONDecodeError) else _TOO_DEEP_COSTS
            if tries > _FAILED_TRIES or characters > _FAILED_CHARACTERS:
                raise JsonError("syntax", "too many lines look like JSON but are not", start) from None
            at = start + 1
            if at > _READ_AHEAD:
                text, at = text[start:], 1
            continue
        except ValueError as error:
            raise _without_place(error) from None
        rest = _REST_OF_LINE.match(text, end)
        if rest is not None:
            found.append(value)
            at = rest.end() if rest.end() > end else len(text)
            if at >= len(text):
                break
        elif text.startswith("{", end):
            found += [value, value]
        else:
            at = end
    return found


# -- writing
#
# Values come from models, scripts and suites, so they can contain anything. A value that JSON cannot represent is
# replaced by text that describes it, so that no result is lost because of a value.

_HUGE_BITS = 14_000
"""No integer with this number of bits has more than MAX_DIGITS digits."""
_LINE_BREAKS = {"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_SCALARS = frozenset({str, int, float, bool, type(None)})
_LISTS = (list, tuple)
_MADE_KEY = re.compile(r'"(?:-?[0-9][-+.0-9e]*|true|false|null)":')
"""Matches keys that the encoder converted from other types; string keys may match too."""

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")).encode


PIECE = 64 * 1024


def _encode_in_pieces(value: Any) -> str:
    """Like `_encode`, with long strings encoded in pieces, so that other threads can run in between."""

    def encode_string(text: str) -> str:
        if len(text) <= PIECE:
            return _encode(text)
        return f'"{"".join([_encode(text[at : at + PIECE])[1:-1] for at in range(0, len(text), PIECE)])}"'

    make_encoder: Any = getattr(json.encoder, "c_make_encoder", None)
    if make_encoder is None:
        return _encode(value)
    return "".join(make_encoder(None, _not_json, encode_string, None, ":", ",", False, False, False)(value, 0))


def _not_json(value: object) -> None:
    raise TypeError(f"{type(value).__name__} is not a JSON type")


def strict_line(value: Any, *, in_pieces: bool = False) -> str | None:
    """The value as one line of JSON without a newline; None when strict JSON cannot represent it unchanged."""
    try:
        line = _encode_in_pieces(value) if in_pieces else _encode(value)
        if not line.isascii():
            line.encode("utf-8")
            for character, escape in _LINE_BREAKS.items():
                line = line.replace(character, escape)
    except (ValueError, TypeError, RecursionError):
        return None
    # Traversing the value takes half as long as encoding it, so only suspicious values are traversed.
    suspect = in_pieces or _MADE_KEY.search(line) or line.count("{") + line.count("[") > MAX_WRITTEN_DEPTH
    return line if not suspect or _has_plain_keys(value) else None


def _has_plain_keys(value: Any) -> bool:
    """Whether the depth is within the limit and every key is a string; converted keys could collide.

    For values that were encoded successfully, and therefore contain no cycles.
    """
    level, depth = [value], 0
    while level:
        below: list[Any] = []
        for node in level:
            if isinstance(node, dict):
                try:
                    "".join(node)  # faster than checking each key
                except TypeError:
                    return False
                below += [item for item in node.values() if type(item) not in _SCALARS and item]
            elif isinstance(node, _LISTS):
                below += [item for item in node if type(item) not in _SCALARS and item]
        level, depth = below, depth + 1
    return depth <= MAX_WRITTEN_DEPTH


def dump_line(value: Any, *, in_pieces: bool = False) -> str:
    """The value as one line of JSON without a newline. Never fails: what JSON cannot represent is replaced by text."""
    line = strict_line(value, in_pieces=in_pieces)
    if line is None:
        line = strict_line(storable(value), in_pieces=in_pieces)
        assert line is not None  # noqa: S101 - `storable` guarantees it
    return line


def dump_pretty(value: Any) -> str:
    """The value as indented JSON, for files that people read."""
    return json.dumps(storable(value), ensure_ascii=False, allow_nan=False, indent=2)


def storable(value: Any, depth: int = 0, parents: tuple[int, ...] = ()) -> Any:
    """The value with everything that strict JSON cannot represent replaced by text."""
    if isinstance(value, str):
        return _without_surrogates(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, Mapping | list | tuple | Set):
        if id(value) in parents:
            return "(circular reference)"
        if depth >= MAX_WRITTEN_DEPTH:
            return f"(omitted: nested more than {MAX_WRITTEN_DEPTH} levels deep)"
        parents = (*parents, id(value))
        if isinstance(value, Mapping):
            return _mapping(value, depth + 1, parents)
        return [storable(item, depth + 1, parents) for item in value]
    return _without_surrogates(_shown(value))


def _mapping(value: Mapping[Any, Any], depth: int, parents: tuple[int, ...]) -> dict[str, Any]:
    """String keys are unchanged; other keys become strings, with a number appended if the name is taken."""
    result: dict[str, Any] = {}
    for key, item in sorted(value.items(), key=lambda pair: not isinstance(pair[0], str)):
        wanted = _without_surrogates(key if isinstance(key, str) else _key_text(key))
        name, count = wanted, 1
        while name in result:
            count += 1
            name = f"{wanted} ({count})"
        result[name] = storable(item, depth, parents)
    return result


def _key_text(key: Any) -> str:
    if key is None or isinstance(key, bool | int | float):
        return json.dumps(_number(key) if isinstance(key, float) else key).strip('"')
    return _shown(key)


def _number(value: float) -> float | str:
    if isinstance(value, int):
        bits = value.bit_length()
        return int(value) if bits <= _HUGE_BITS else f"(a whole number of {bits} bits)"
    if math.isfinite(value):
        return float(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception:
        return f"({type(value).__name__} object that cannot be printed)"


def _without_surrogates(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
