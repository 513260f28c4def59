"""`contains`, `icontains`, `equals`, `starts_with`, `ends_with`: compare the answer with strings."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Literal

from pydantic import Field, field_validator

from agentv.errors import EvaluatorError
from agentv.evaluators.base import EvaluationContext, Evaluator
from agentv.evaluators.strict_json import TIMEOUT_SECONDS, too_large
from agentv.results import Score
from agentv.text import quoted

IN_LINE_CHARACTERS = 2_000_000
"""Characters of the answer times strings to compare with; more are compared in a worker."""


class TextCheck(Evaluator):
    """Base of checks for one string, or for all or any of several strings."""

    WAITS = False
    HIT: ClassVar[str]
    MISS: ClassVar[str]

    value: str | list[str] | None = Field(
        None,
        description="String or list of strings to compare with, exactly as written. Default: the reference answer of "
        "the case.",
    )
    match: Literal["all", "any"] | None = Field(
        None,
        description="For a list: whether `all` strings must match or `any` one of them; the score is 1 or 0. "
        "Default: `all`; with `negate`, `any`, so that none of the strings may match.",
    )

    @field_validator("value")
    @classmethod
    def _says_something(cls, value: str | list[str] | None) -> str | list[str] | None:
        if value is None:
            return None
        if value == []:
            raise ValueError("must contain at least one string, because an empty list would always pass")
        cls._refuse_empty_text([value] if isinstance(value, str) else value)
        return value

    @classmethod
    def _refuse_empty_text(cls, values: list[str]) -> None:
        if "" in values:
            raise ValueError("must not be empty, because an empty string is part of every answer and would always pass")

    @property
    def needs_reference(self) -> bool:
        return self.value is None

    @abstractmethod
    def holds(self, answer: str, value: str) -> bool:
        """Whether the answer matches one string."""

    async def evaluate(self, context: EvaluationContext) -> Score:
        answer = context.candidate.answer
        value = expected_of(self.value, context)
        values = [value] if isinstance(value, str) else value
        verdicts = list(zip(values, await self._verdicts(answer, values), strict=True))
        hits = tuple(f"{self.HIT} {quoted(value)}" for value, matched in verdicts if matched)
        misses = tuple(f"{self.MISS} {quoted(value)}" for value, matched in verdicts if not matched)
        if len(values) == 1:
            return Score(float(bool(hits)), hits, misses, f"the answer {(hits or misses)[0]}")
        reasoning = self._reasoning(len(hits), len(values))
        if self._any_is_enough:
            passed = bool(hits)
            return Score(float(passed), hits, () if passed else misses, reasoning)
        return Score(float(not misses), hits, misses, reasoning, warnings=self.doubts())

    async def _verdicts(self, answer: str, values: list[str]) -> list[bool]:
        if len(answer) * len(values) <= IN_LINE_CHARACTERS:
            return [self.holds(answer, value) for value in values]
        from agentv import workers  # noqa: PLC0415 - only long answers need it

        try:
            return await workers.call(all_verdicts, self, answer, values, seconds=TIMEOUT_SECONDS)
        except workers.WorkerError as error:
            raise too_large(answer, error) from None

    @property
    def _any_is_enough(self) -> bool:
        return self.match == "any" or (self.match is None and self.negate)

    def _reasoning(self, matching: int, total: int) -> str:
        count = str(matching) if matching else "none"
        if not self.negate:
            return f"{count} of the {total} strings matched; {'one is' if self._any_is_enough else 'all are'} required"
        if self._any_is_enough:
            return f"{count} of the {total} forbidden strings {'was' if matching < 2 else 'were'} found"
        return f"{count} of the {total} strings matched; not all may match"

    def doubts(self) -> tuple[str, ...]:
        """Warnings about options that are valid but unlikely to be intended."""
        return ()


def expected_of(value: str | list[str] | None, context: EvaluationContext) -> str | list[str]:
    """What the answer is compared with: `value`, else the reference answer of the case."""
    return reference_of(context) if value is None else value


def reference_of(context: EvaluationContext) -> str:
    """The reference answer of the case. A suite with a case that lacks it is not run."""
    if context.case.reference_answer is None:
        raise EvaluatorError(
            "no expected string to compare the answer with",
            next_step="Set `value` of the evaluator, or `reference_answer` of the case.",
        )
    return context.case.reference_answer


def all_verdicts(check: TextCheck, answer: str, values: list[str]) -> list[bool]:
    """Whether the answer matches, for each string."""
    return [check.holds(answer, value) for value in values]


class Contains(TextCheck):
    """Checks that the answer contains the string."""

    HIT, MISS = "contains", "does not contain"

    type: Literal["contains"] = "contains"

    def holds(self, answer: str, value: str) -> bool:
        return value in answer


class IContains(TextCheck):
    """Checks that the answer contains the string, case-insensitive (`STRASSE` matches `Straße`)."""

    HIT, MISS = "contains (ignoring case)", "does not contain (ignoring case)"

    type: Literal["icontains"] = "icontains"

    def holds(self, answer: str, value: str) -> bool:
        return value.casefold() in answer.casefold()


class Trimmed(TextCheck):
    """Base of checks that can ignore white space around both strings."""

    trim: bool = Field(False, description="Ignore white space around the answer and around the string.")

    def holds(self, answer: str, value: str) -> bool:
        return self.matches(answer.strip(), value.strip()) if self.trim else self.matches(answer, value)

    @abstractmethod
    def matches(self, answer: str, value: str) -> bool:
        """Whether the answer matches the string, both as they are to be compared."""


class Equals(Trimmed):
    """Checks that the answer equals the string exactly, including whitespace."""

    HIT, MISS = "equals", "does not equal"

    type: Literal["equals"] = "equals"

    @classmethod
    def _refuse_empty_text(cls, values: list[str]) -> None:
        """Allow an empty string: the answer must then be empty."""

    def matches(self, answer: str, value: str) -> bool:
        return answer == value

    def doubts(self) -> tuple[str, ...]:
        if self.negate or self.value is None or len(set(self.value)) < 2:
            return ()
        return ("an answer cannot equal several different strings, so this never passes; did you mean `match: any`?",)


class StartsWith(Trimmed):
    """Checks that the answer starts with the string."""

    HIT, MISS = "starts with", "does not start with"

    type: Literal["starts_with"] = "starts_with"

    def matches(self, answer: str, value: str) -> bool:
        return answer.startswith(value)


class EndsWith(Trimmed):
    """Checks that the answer ends with the string."""

    HIT, MISS = "ends with", "does not end with"

    type: Literal["ends_with"] = "ends_with"

    def matches(self, answer: str, value: str) -> bool:
        return answer.endswith(value)
