"""Regular expressions from suites and configurations, on text from models: compiling and searching with a bound.

A search that could take long runs in a worker, because the interpreter cannot be interrupted while it matches.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from agentv.text import quoted

if TYPE_CHECKING:
    import regex

TIMEOUT_SECONDS = 5.0
"""Longest search of one pattern."""
IN_LINE_SECONDS = 0.005
"""Nearly every search finishes within this time. Slower searches are moved to a worker."""
IN_LINE_LENGTH = 100_000
IN_LINE_STEPS = 300_000
"""Steps of Python's matcher that take a few milliseconds."""
MAX_LENGTH = 20_000
MAX_REPEATS = 10_000
"""Largest product of nested counted repeats: a compiled pattern contains each repeated part N times."""
MAX_PARTS = 200_000
"""Most parts of a pattern with all its counted repeats written out."""
SHORT_LENGTH = 2_000
"""Shorter patterns compile quickly, whatever they contain. Longer ones are first compiled in a worker."""
COMPILE_SECONDS = 1.0
BACKTRACK_LESS = (
    "Reduce backtracking: avoid nested repeats like (a+)+, anchor the pattern with ^, "
    "or use a possessive repeat (a++) or an atomic group (?>...)."
)


# -- the syntax of the `regex` library


@lru_cache(maxsize=1024)
def compiled(pattern: str, letters: str) -> regex.Pattern[str]:
    """Compile a pattern of the `regex` library. Raises ValueError with the position of the error."""
    import regex  # noqa: PLC0415 - slow to import, and few suites need it

    refuse_bomb(pattern, verbose="x" in letters)
    _try_to_compile(pattern, letters)
    try:
        return _compile(pattern, letters)
    except regex.error as error:
        raise ValueError(f"not a valid regular expression: {where_it_breaks(pattern, error)}") from None
    except (RecursionError, OverflowError, ValueError) as error:
        raise ValueError(f"not a usable regular expression: {error}") from None


@lru_cache(maxsize=1024)
def _compile(pattern: str, letters: str) -> regex.Pattern[str]:
    import regex  # noqa: PLC0415

    flags = 0
    for letter in letters:
        flags |= getattr(regex, letter.upper())
    return regex.compile(pattern, flags)


_slow: set[tuple[str, str]] = set()
"""Patterns that have exceeded `IN_LINE_SECONDS`."""


async def search(pattern: str, letters: str, text: str) -> int | None:
    """Return where the pattern first matches. Raises TimeoutError after `TIMEOUT_SECONDS`."""
    if len(text) <= IN_LINE_LENGTH and (pattern, letters) not in _slow:
        try:
            match = compiled(pattern, letters).search(text, timeout=IN_LINE_SECONDS)
        except TimeoutError:
            _slow.add((pattern, letters))
        else:
            return None if match is None else match.start()
    from agentv import workers  # noqa: PLC0415 - most runs need no worker

    try:
        return await workers.call(search_here, pattern, letters, text, TIMEOUT_SECONDS, seconds=TIMEOUT_SECONDS + 1)
    except workers.TookTooLongError:
        raise TimeoutError from None


def search_here(pattern: str, letters: str, text: str, seconds: float) -> int | None:
    """Do the same in this process, blocking it. Raises TimeoutError."""
    match = _compile(pattern, letters).search(text, timeout=seconds)
    return None if match is None else match.start()


def where_it_breaks(pattern: str, error: Any) -> str:
    """Describe an error in a pattern, with its position."""
    position = getattr(error, "pos", None)
    if position is None:
        return f"{error} in {quoted(pattern)}"
    start, end = max(0, position - 40), position + 40
    before = ("…" if start else "") + pattern[start:position]
    after = pattern[position:end] + ("…" if end < len(pattern) else "")
    spot = f"{before} <-- HERE {after}".rstrip()
    return f"{error.msg} at position {position}, marked by <-- HERE in {quoted(spot, 200)}"


# -- the syntax of Python's `re`


@dataclass(frozen=True, slots=True)
class PythonPattern:
    """A pattern of Python's `re`, with an upper bound of the steps that a search takes."""

    pattern: re.Pattern[str]
    size: float
    """Steps per character of the text, or infinity."""
    power: int
    """How often the length of the text is multiplied on top: once for every `*` or `+`."""

    def steps(self, length: int) -> float:
        """The most steps that a search of a text of this length takes."""
        return self.size * float(length + 1) ** (min(self.power, 20) + 1)


def python_pattern(pattern: str) -> PythonPattern:
    """Compile a pattern for `re.search`. Raises ValueError if it is invalid or too expensive."""
    refuse_bomb(pattern)
    _try_to_compile(pattern, None)
    try:
        ways, power, length = _bound(re._parser.parse(pattern))  # type: ignore[attr-defined] # noqa: SLF001
        return PythonPattern(re.compile(pattern), ways * (length + 1), power)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"invalid regular expression: {error}") from None


_ONE_STEP = frozenset({"LITERAL", "NOT_LITERAL", "ANY", "AT"})
_UNBOUNDED = (float("inf"), 0, 0)


def _bound(parts: Any) -> tuple[float, int, int]:
    """Bound the steps that a parsed pattern takes at one place of a text: the ways to match it, times its length.

    The ways are the first number, times the length of the text to the power of the second. The third is its length.
    """
    ways, power, length = 1.0, 0, 0
    for operation, argument in parts:
        kind = str(operation)
        if kind in _ONE_STEP:
            length += 1
            continue
        if kind == "IN":
            length += len(argument)
            continue
        if kind == "BRANCH":
            bounds = [_bound(branch) for branch in argument[1]]
            bound = sum(each[0] for each in bounds), max(each[1] for each in bounds), sum(each[2] for each in bounds)
        elif kind == "SUBPATTERN":
            bound = _bound(argument[-1])
        elif kind in ("MAX_REPEAT", "MIN_REPEAT"):
            bound = _bound_of_repeat(*argument)
        else:  # references, assertions and others that are rare in rules
            return _UNBOUNDED
        ways, power, length = ways * bound[0], power + bound[1], length + bound[2]
    return ways, power, length


def _bound_of_repeat(least: int, most: Any, parts: Any) -> tuple[float, int, int]:
    ways, power, length = _bound(parts)
    if most == 1:
        return ways + 1, power, length
    if power or len(parts) != 1 or parts.getwidth() != (1, 1):
        return _UNBOUNDED
    if most == re._constants.MAXREPEAT:  # type: ignore[attr-defined] # noqa: SLF001
        return ways, 1, length + least
    return ways * (int(most) - least + 1), 0, length + least


class PythonPatterns:
    """Patterns of Python's `re` of which the first match counts."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = [python_pattern(pattern) for pattern in patterns]
        self._in_line: dict[int, int] = {}

    async def first_match(self, text: str) -> int | None:
        """Return the index of the first pattern for which `re.search` finds a match. Raises TimeoutError."""
        in_line = self._searched_in_line(len(text))
        for index, each in enumerate(self._patterns[:in_line] if in_line < len(self._patterns) else self._patterns):
            if each.pattern.search(text):
                return index
        if in_line == len(self._patterns):
            return None
        from agentv import workers  # noqa: PLC0415 - most runs need no worker

        rest = [each.pattern.pattern for each in self._patterns[in_line:]]
        try:
            at = await workers.call(first_match_here, rest, text, seconds=TIMEOUT_SECONDS)
        except workers.TookTooLongError:
            raise TimeoutError from None
        return None if at is None else in_line + at

    def _searched_in_line(self, length: int) -> int:
        """How many of the patterns together take at most `IN_LINE_STEPS` on a text of this length."""
        bits = length.bit_length()
        if bits not in self._in_line:
            totals = accumulate(each.steps(1 << bits) for each in self._patterns)
            self._in_line[bits] = sum(total <= IN_LINE_STEPS for total in totals)
        return self._in_line[bits]


def first_match_here(patterns: Sequence[str], text: str) -> int | None:
    """Do the same in this process, blocking it."""
    return next((index for index, pattern in enumerate(patterns) if re.search(pattern, text)), None)


# -- patterns that take too long to compile

COUNTLESS = 10**12
_FLAGS = re.compile(r"\(\?[a-zA-Z0-9-]*")
_COUNT = re.compile(r"\{\s*+([0-9]*+)\s*+(,\s*+[0-9]*+\s*+)?+\}")
_SET = re.compile(r"\[\^?\]?(?:[^\]\\]|\\.)*+\]", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:[pPN]\{[^}]*\}|.)", re.DOTALL)
_NOTE = re.compile(r"\(\?#[^)]*\)")
_COMMENT = re.compile(r"#[^\n]*")


def refuse_bomb(pattern: str, *, verbose: bool = False) -> None:
    """Raise ValueError for a pattern that would take long to compile, without compiling it."""
    if len(pattern) > MAX_LENGTH:
        raise ValueError(f"a pattern must have at most {MAX_LENGTH:,} characters, got {len(pattern):,}; split it")
    everything = 1
    for count in _COUNT.finditer(pattern):
        everything = min(everything * max(1, int(count[1][:12] or 1)), COUNTLESS)
    if everything * len(pattern) <= MAX_REPEATS:
        return
    flags = "".join(_FLAGS.findall(pattern))
    if "V1" in flags or "[:" in pattern:  # sets in sets, which are not parsed here
        repeats = parts = everything
    else:
        ways = {verbose, "x" in flags} if not verbose or "-" in flags else {True}
        repeats, parts = map(max, zip(*(_expanded(pattern, verbose=way) for way in ways), strict=True))
    if repeats > MAX_REPEATS:
        raise ValueError(
            f"counted repeats like {{1000}} must multiply to at most {MAX_REPEATS:,}, got {repeats:,}; "
            "use * or + instead of large counts"
        )
    if parts > MAX_PARTS:
        raise ValueError(
            f"a pattern must have at most {MAX_PARTS:,} parts with its counted repeats written out, got {parts:,}; "
            "use * or + instead of large counts"
        )


def _expanded(pattern: str, *, verbose: bool) -> tuple[int, int]:
    """Return the largest product of nested counts, and the number of parts with all repeats written out."""
    # Of each open group, and of its last part: the largest product and the number of parts.
    outer: list[tuple[int, int]] = []
    most, parts, last_most, last_parts = 1, 0, 1, 0
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if character == "{" and (count := _COUNT.match(pattern, at)) and (count[1] or count[2]):
            # Only the smallest count is written out: a{0,1000} is compiled as a loop.
            times = max(1, int(count[1][:12] or 1))
            parts += last_parts * (times - 1)
            last_most, last_parts = min(last_most * times, COUNTLESS), min(last_parts * times, COUNTLESS)
            most, at = max(most, last_most), count.end()
            continue
        token = _token(pattern, at, character, verbose=verbose)
        if token is None and character == "[":
            break  # the set is never closed, so the pattern does not compile
        if token is not None and token[1]:
            at = token[0]
            continue
        if character == "(":
            outer.append((most, parts))
            most, parts, last_most, last_parts = 1, 0, 1, 0
        elif character == ")" and outer:
            last_most, last_parts = most, parts + 1
            before_most, before_parts = outer.pop()
            most, parts = max(before_most, last_most), before_parts + last_parts
        else:
            last_most, last_parts, parts = 1, 1, parts + 1
        at = at + 1 if token is None else token[0]
    for before_most, before_parts in reversed(outer):
        most, parts = max(most, before_most), parts + before_parts
    return most, parts


def _token(pattern: str, at: int, character: str, *, verbose: bool) -> tuple[int, bool] | None:
    """Return the end of a token that starts here and is longer than a character, and whether it is only a comment."""
    found: re.Match[str] | None = None
    comment = False
    if character == "\\":
        found = _ESCAPE.match(pattern, at)
    elif character == "[":
        found = _SET.match(pattern, at)
    elif character == "(":
        found, comment = _NOTE.match(pattern, at), True
    elif verbose and character == "#":
        found, comment = _COMMENT.match(pattern, at), True
    elif verbose and character.isspace():
        return at + 1, True
    return None if found is None else (found.end(), comment)


_compiles: set[tuple[str, str | None]] = set()
"""Long patterns that have been compiled in a worker."""


def _try_to_compile(pattern: str, letters: str | None) -> None:
    """Compile a long pattern in a worker first, which is killed when that takes too long. Other errors are ignored."""
    if len(pattern) <= SHORT_LENGTH or (pattern, letters) in _compiles:
        return
    from agentv import workers  # noqa: PLC0415 - most runs need no worker

    try:
        workers.call_blocking(compile_here, pattern, letters, seconds=COMPILE_SECONDS)
    except workers.WorkerError:
        raise ValueError(
            f"a pattern must compile within {COMPILE_SECONDS:g} s, but this one of {len(pattern):,} characters "
            "takes longer; split it"
        ) from None
    _compiles.add((pattern, letters))


def compile_here(pattern: str, letters: str | None) -> None:
    """Compile a pattern of the `regex` library, or of Python's `re` when `letters` is None."""
    with suppress(Exception):
        re.compile(pattern) if letters is None else _compile(pattern, letters)
