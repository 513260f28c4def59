"""`contains`, `icontains`, `equals`, `starts_with`, `ends_with`: the answer against texts, as written."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Literal

from pydantic import Field, field_validator

from agentv.evaluators.base import EvaluationContext, Evaluator
from agentv.results import Score

LONGEST_QUOTE = 80


def quoted(text: str, longest: int = LONGEST_QUOTE) -> str:
    """A text of the suite in quotes, for people: shortened, on one line, nothing invisible.

    Not for the answer: what is cut here could no longer be recognised as a secret and masked.
    """
    shown = text if len(text) <= longest else text[: longest - 1] + "…"
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in shown)
    return f"'{shown}'"


class TextCheck(Evaluator):
    """One text, or several of which all or any are wanted."""

    WAITS = False
    HIT: ClassVar[str]
    MISS: ClassVar[str]

    value: str | list[str] = Field(description="The text, or a list of texts, compared exactly as written.")
    match: Literal["all", "any"] = Field(
        "all", description="For a list: `all` scores the share of texts that match, `any` is 1 when one does."
    )

    @field_validator("value")
    @classmethod
    def _says_something(cls, value: str | list[str]) -> str | list[str]:
        if value == []:
            raise ValueError("an empty list checks nothing and would always pass; list at least one text")
        cls._refuse_empty_text([value] if isinstance(value, str) else value)
        return value

    @classmethod
    def _refuse_empty_text(cls, values: list[str]) -> None:
        if "" in values:
            raise ValueError("an empty text is part of every answer and would always pass; write the text to look for")

    @abstractmethod
    def holds(self, answer: str, value: str) -> bool:
        """Whether the answer passes for one text."""

    async def evaluate(self, context: EvaluationContext) -> Score:
        answer = context.candidate.answer
        values = [self.value] if isinstance(self.value, str) else self.value
        verdicts = [(value, self.holds(answer, value)) for value in values]
        hits = tuple(f"{self.HIT} {quoted(value)}" for value, held in verdicts if held)
        misses = tuple(f"{self.MISS} {quoted(value)}" for value, held in verdicts if not held)
        if len(values) == 1:
            return Score(float(bool(hits)), hits, misses, f"the answer {(hits or misses)[0]}")
        counted = f"{len(hits)} of {len(values)} texts match"
        if self.match == "any":
            passed = bool(hits)
            return Score(float(passed), hits, () if passed else misses, f"{counted}; one is enough")
        return Score(len(hits) / len(values), hits, misses, f"{counted}; all are wanted", warnings=self.doubts())

    def doubts(self) -> tuple[str, ...]:
        """What is odd about these options, although they can be used."""
        return ()


class Contains(TextCheck):
    """The answer contains the text."""

    HIT, MISS = "contains", "does not contain"

    type: Literal["contains"] = "contains"

    def holds(self, answer: str, value: str) -> bool:
        return value in answer


class IContains(TextCheck):
    """The answer contains the text, upper and lower case being the same (`STRASSE` is `Straße`)."""

    HIT, MISS = "contains (in any case)", "does not contain (in any case)"

    type: Literal["icontains"] = "icontains"

    def holds(self, answer: str, value: str) -> bool:
        return value.casefold() in answer.casefold()


class Equals(TextCheck):
    """The answer is the text, to the last character, white space included."""

    HIT, MISS = "equals", "does not equal"

    type: Literal["equals"] = "equals"

    @classmethod
    def _refuse_empty_text(cls, values: list[str]) -> None:
        """An empty text means something here: the answer must be empty."""

    def holds(self, answer: str, value: str) -> bool:
        return answer == value

    def doubts(self) -> tuple[str, ...]:
        if self.negate or len(set(self.value)) < 2:
            return ()
        return ("an answer can equal only one of several texts, so this can not pass; did you mean `match: any`?",)


class StartsWith(TextCheck):
    """The answer begins with the text."""

    HIT, MISS = "starts with", "does not start with"

    type: Literal["starts_with"] = "starts_with"

    def holds(self, answer: str, value: str) -> bool:
        return answer.startswith(value)


class EndsWith(TextCheck):
    """The answer ends with the text."""

    HIT, MISS = "ends with", "does not end with"

    type: Literal["ends_with"] = "ends_with"

    def holds(self, answer: str, value: str) -> bool:
        return answer.endswith(value)
