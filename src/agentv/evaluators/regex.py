"""`regex`: searches the answer for a regular expression, with a timeout so that no pattern can hang a run."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from agentv import patterns
from agentv.errors import EvaluatorError
from agentv.evaluators.base import EvaluationContext, Evaluator
from agentv.evaluators.javascript_pattern import from_javascript
from agentv.evaluators.text import reference_of
from agentv.results import Score
from agentv.text import quoted

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
    dialect: Literal["python", "javascript"] = Field(
        "python", description="Syntax of the pattern; in `javascript`, `\\d`, `\\w` and `\\b` are ASCII, too."
    )
    pattern: str | None = Field(
        None, description="Regular expression in the syntax of `dialect`. Default: the reference answer of the case."
    )
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
        patterns.compiled(*_in_python(pattern, info.data.get("flags", []), info.data.get("dialect", "python")))
        return pattern

    @property
    def needs_reference(self) -> bool:
        return self.expression is None

    @property
    def expression(self) -> str | None:
        """The regular expression, from `pattern` or `value`."""
        return self.pattern or self.value

    def _expected(self, context: EvaluationContext) -> str:
        if self.expression is not None:
            return self.expression
        expression = reference_of(context)
        try:
            patterns.compiled(*_in_python(expression, self.flags, self.dialect))
        except ValueError as error:
            raise EvaluatorError(
                f"the reference answer is not a valid pattern: {error}",
                next_step="Set `pattern`, or use `contains` to compare with the reference answer as text.",
            ) from None
        return expression

    async def evaluate(self, context: EvaluationContext) -> Score:
        answer, expression = context.candidate.answer, self._expected(context)
        pattern = quoted(expression)
        try:
            start = await patterns.search(*_in_python(expression, self.flags, self.dialect), answer)
        except TimeoutError:
            raise EvaluatorError(
                f"the pattern {pattern} timed out after {patterns.TIMEOUT_SECONDS:g} s "
                f"on an answer of {len(answer):,} characters",
                next_step=patterns.BACKTRACK_LESS,
            ) from None
        if start is None:
            return Score(0.0, (), (f"does not match {pattern}",), f"the answer does not match {pattern}")
        return Score(1.0, (f"matches {pattern}",), (), f"the answer matches {pattern} at character {start + 1}")


def _in_python(pattern: str, flags: str | list[str], dialect: str) -> tuple[str, str]:
    """The pattern and the letters of its flags, in Python's syntax."""
    letters = flag_letters(flags)
    return (pattern, letters) if dialect == "python" else from_javascript(pattern, letters)


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
