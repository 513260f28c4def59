"""`regex`: searches the answer for a regular expression, with a timeout so that no pattern can hang a run."""

from __future__ import annotations

import asyncio
import re
from functools import lru_cache
from typing import Any, Literal

import regex
from pydantic import Field, ValidationInfo, field_validator, model_validator

from agentv.errors import EvaluatorError
from agentv.evaluators.base import EvaluationContext, Evaluator
from agentv.evaluators.text import quoted
from agentv.results import Score

TIMEOUT_SECONDS = 5.0
IN_LINE_SECONDS = 0.01
"""Nearly every search finishes within this time. Slower searches are moved to a thread."""
IN_LINE_LENGTH = 100_000
BACKTRACK_LESS = (
    "Reduce backtracking: avoid nested repeats like (a+)+, anchor the pattern with ^, "
    "or use a possessive repeat (a++) or an atomic group (?>...)."
)

FLAGS = {
    "ignorecase": "i",
    "multiline": "m",
    "dotall": "s",
    "verbose": "x",
    "ascii": "a",
}


class Regex(Evaluator):
    """Checks that the pattern matches somewhere in the answer."""

    type: Literal["regex"] = "regex"
    flags: str | list[str] = Field(
        [],
        description="`i` (`ignorecase`), `m` (`multiline`), `s` (`dotall`), `x` (`verbose`), `a` (`ascii`): "
        "a string like `im`, or a list.",
    )
    pattern: str | None = Field(None, description="Regular expression in Python syntax.")
    value: str | None = Field(None, description="Alias of `pattern`.")

    @field_validator("flags")
    @classmethod
    def _flags_exist(cls, flags: str | list[str]) -> str | list[str]:
        flag_letters(flags)
        return flags

    @field_validator("pattern", "value")
    @classmethod
    def _compiles(cls, pattern: str | None, info: ValidationInfo) -> str | None:
        if pattern is None:
            return None
        if info.field_name == "value" and info.data.get("pattern") is not None:
            raise ValueError("`value` is an alias of `pattern`; use only one of them")
        if not pattern:
            raise ValueError("must not be empty, because an empty pattern matches every answer and would always pass")
        compiled(pattern, flag_letters(info.data.get("flags", [])))
        return pattern

    @model_validator(mode="after")
    def _has_a_pattern(self) -> Regex:
        if self.pattern is None and self.value is None:
            raise ValueError("`pattern` is missing; set it to a regular expression")
        return self

    @property
    def expression(self) -> str:
        """The regular expression, from `pattern` or `value`."""
        return self.pattern or self.value or ""

    async def evaluate(self, context: EvaluationContext) -> Score:
        answer = context.candidate.answer
        match = await self._search(compiled(self.expression, flag_letters(self.flags)), answer)
        pattern = quoted(self.expression)
        if match is None:
            return Score(0.0, (), (f"does not match {pattern}",), f"the answer does not match {pattern}")
        return Score(1.0, (f"matches {pattern}",), (), f"the answer matches {pattern} at character {match.start() + 1}")

    async def _search(self, pattern: regex.Pattern[str], answer: str) -> regex.Match[str] | None:
        if len(answer) <= IN_LINE_LENGTH:
            try:
                return pattern.search(answer, timeout=IN_LINE_SECONDS)
            except TimeoutError:
                pass
        try:
            # concurrent=True releases the GIL, so that the event loop keeps running during the search
            return await asyncio.to_thread(pattern.search, answer, concurrent=True, timeout=TIMEOUT_SECONDS)
        except TimeoutError:
            raise EvaluatorError(
                f"the pattern {quoted(self.expression)} timed out after {TIMEOUT_SECONDS:g} s "
                f"on an answer of {len(answer):,} characters",
                next_step=BACKTRACK_LESS,
            ) from None


@lru_cache(maxsize=1024)
def compiled(pattern: str, letters: str) -> regex.Pattern[str]:
    """Compile a pattern. Raises ValueError with the position of the error."""
    flags = 0
    for letter in letters:
        flags |= getattr(regex, letter.upper())
    try:
        return regex.compile(pattern, flags)
    except regex.error as error:
        raise ValueError(f"not a valid regular expression: {where_it_breaks(pattern, error)}") from None
    except (RecursionError, OverflowError, ValueError) as error:
        raise ValueError(f"not a usable regular expression: {error}") from None


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


def flag_letters(flags: str | list[str]) -> str:
    """Return the flags as letters (`im`). Names and letters can be mixed. Raises ValueError for unknown flags."""
    words = re.split(r"[\s,|]+", flags) if isinstance(flags, str) else [word.strip() for word in flags]
    letters: dict[str, None] = {}
    for word in filter(None, words):
        lower = word.lower()
        if lower in FLAGS:
            letters[FLAGS[lower]] = None
        elif set(lower) <= set(FLAGS.values()):
            letters.update(dict.fromkeys(lower))
        else:
            known = ", ".join(f"{letter} ({name})" for name, letter in FLAGS.items())
            raise ValueError(f"unknown flag {quoted(word)}; available: {known}")
    return "".join(sorted(letters))
