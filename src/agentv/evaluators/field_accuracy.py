"""`field_accuracy`: compares fields of the answer's JSON with the expected data."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

from pydantic import Field, field_validator

from agentv.errors import EvaluatorError
from agentv.evaluators.base import EvaluationContext, Evaluator
from agentv.evaluators.field_dates import NotADateError, directives, read_date
from agentv.evaluators.json_values import find_data, same_json, shown
from agentv.evaluators.strict_json import IN_LINE_LENGTH, TIMEOUT_SECONDS, NotJsonError, read_json, too_large
from agentv.results import Score
from agentv.suite.models import FileModel
from agentv.text import kind_of

_DECIMAL = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)", re.ASCII)
MAX_DIGITS = 400
"""Longer strings are not read as numbers."""
MISSING: Any = object()
"""The value of a path that does not exist. Not None, because null is a value."""

_NAME = re.compile(r"[^.\[\]\"']+")
_PLACE = re.compile(r"[0-9]{1,9}")
_BRACKET = re.compile(r"""\[(?:(?P<index>[0-9]{1,9})|(?P<double>"(?:[^"\\]|\\.)*")|'(?P<single>[^']*)')\]""")
_RULE = (
    'separate keys with dots and index lists with [n], like `invoice.lines[0].amount`; quote keys with dots: `["a.b"]`'
)


class FieldRule(FileModel):
    """A field and how to compare its value."""

    path: str = Field(
        min_length=1, description='Path of the value: `a.b[0].c`; quote keys that contain dots: `["a.b"]`.'
    )
    match: Literal["exact", "numeric_tolerance", "date"] = Field(description="How to compare the values.")
    tolerance: float = Field(0.0, ge=0, description="Allowed difference between numbers.")
    relative: bool = Field(False, description="Tolerance is relative to the expected number: 0.05 is 5 %.")
    formats: list[str] | None = Field(
        None,
        min_length=1,
        description="Date formats such as `DD/MM/YYYY` or `%d/%m/%Y`; the first that matches is used.",
    )
    required: bool = Field(
        True, description="Score 0 if the answer lacks the field; `false` ignores the field instead."
    )
    weight: float = Field(1.0, ge=0, description="Weight in the score; with 0 it is compared but does not count.")

    @field_validator("path")
    @classmethod
    def _is_a_path(cls, path: str) -> str:
        parse_path(path)
        return path

    @field_validator("formats")
    @classmethod
    def _are_formats(cls, formats: list[str] | None) -> list[str] | None:
        for each in formats or ():
            directives(each)
        return formats


@dataclass(frozen=True, slots=True)
class _Compared:
    """The result for one field. It is ignored in the score when `counts` is False."""

    matches: bool
    words: str
    counts: bool = True
    warning: str | None = None


class FieldAccuracy(Evaluator):
    """Checks that fields of the answer's JSON have the expected values."""

    WAITS = False

    type: Literal["field_accuracy"] = "field_accuracy"
    fields: list[FieldRule] = Field(min_length=1, description="Fields to compare; see below.")
    aggregation: Literal["weighted_average", "all_or_nothing"] = Field(
        "weighted_average",
        description="`weighted_average`: the weighted share of matching fields; `all_or_nothing`: 1 or 0.",
    )

    async def evaluate(self, context: EvaluationContext) -> Score:
        sides = _Sides.of(context)
        if sides.characters <= IN_LINE_LENGTH:
            return scored(self, sides)
        from agentv import workers  # noqa: PLC0415 - only long answers need it

        try:
            return await workers.call(scored, self, sides, seconds=TIMEOUT_SECONDS)
        except workers.WorkerError as error:
            raise too_large(sides.answer, error) from None

    def score_of(self, expected: Any, candidate: Any) -> Score:
        """Compare the fields of two values."""
        compared = [(rule, _compare(rule, expected, candidate)) for rule in self.fields]
        counted = [(rule, result) for rule, result in compared if result.counts and rule.weight > 0]
        matching = sum(result.matches for _, result in counted)
        return Score(
            self._score([(rule.weight, result.matches) for rule, result in counted]),
            tuple(_line(rule, result) for rule, result in compared if result.matches),
            tuple(_line(rule, result) for rule, result in compared if not result.matches and result.counts),
            _summary(compared, len(counted), matching, all_needed=self.aggregation == "all_or_nothing"),
            warnings=tuple(f"{rule.path}: {result.warning}" for rule, result in compared if result.warning),
        )

    def _score(self, counted: list[tuple[float, bool]]) -> float:
        if not counted:
            return 0.0
        if self.aggregation == "all_or_nothing":
            return float(all(matches for _, matches in counted))
        heaviest = max(weight for weight, _ in counted)
        share = math.fsum(weight / heaviest for weight, matches in counted if matches)
        return min(1.0, round(share / math.fsum(weight / heaviest for weight, _ in counted), 12))


def _line(rule: FieldRule, result: _Compared) -> str:
    return f"{rule.path}: {result.words}" + ("" if rule.weight > 0 else " (weight 0: does not count)")


def _summary(compared: list[tuple[FieldRule, _Compared]], counted: int, matching: int, *, all_needed: bool) -> str:
    if not counted:
        return "no field counts: all are optional and missing from the answer, or have weight 0"
    text = f"{matching} of {counted} fields match" + ("; all must match" if all_needed else "")
    ignored = len(compared) - counted
    return text + (f"; {ignored} ignored (missing and optional, or weight 0)" if ignored else "")


# -- the two sides


@dataclass(frozen=True, slots=True)
class _Sides:
    """What is compared, before it is parsed."""

    expected: tuple[Any, ...]
    """Strings or objects; the first that is an object or list counts."""
    answer: str
    structured: Mapping[str, Any] | None
    """The answer of a target that returned an object instead of a text."""

    @classmethod
    def of(cls, context: EvaluationContext) -> _Sides:
        case, candidate = context.case, context.candidate
        messages = [message for message in reversed(case.expected_messages) if message.role == "assistant"]
        contents = [each.content if isinstance(each.content, Mapping) else each.text for each in messages]
        structured = None
        if not candidate.answer.strip():
            final = next((each for each in reversed(candidate.output_messages) if each.role == "assistant"), None)
            structured = final.content if final is not None and isinstance(final.content, Mapping) else None
        return cls((*contents, case.reference_answer or ""), candidate.answer, structured)

    @property
    def characters(self) -> int:
        return len(self.answer) + sum(len(each) for each in self.expected if isinstance(each, str))


def scored(evaluator: FieldAccuracy, sides: _Sides) -> Score:
    """Parse both sides and compare their fields."""
    expected = next((found for each in sides.expected if (found := _parsed(each)) is not None), None)
    if expected is None:
        raise EvaluatorError(
            "the case has no expected data to compare the fields with",
            next_step="Add an assistant message to `expected_messages` whose `content` is an object (or JSON text), or "
            "a `reference_answer` that is JSON.",
        )
    try:
        candidate = find_data(sides.answer) if sides.structured is None else sides.structured
    except NotJsonError as error:
        return Score(0.0, (), (f"contains no JSON data: {error}",), f"the answer contains no JSON data: {error}")
    return evaluator.score_of(expected, candidate)


def _parsed(source: Any) -> Any:
    if not isinstance(source, str):
        return source
    try:
        value = read_json(source)
    except NotJsonError:
        return None
    return value if isinstance(value, dict | list) else None


# -- one field


def _compare(rule: FieldRule, expected: Any, candidate: Any) -> _Compared:
    steps = parse_path(rule.path)
    wanted, actual = value_at(expected, steps), value_at(candidate, steps)
    if wanted is MISSING:
        return _Compared(
            True, "no expected value", warning="the expected data has no such field, so nothing was compared"
        )
    if actual is MISSING:
        if not rule.required:
            return _Compared(False, "is missing and optional", counts=False)
        return _Compared(False, f"is missing; expected {shown(wanted)}")
    if rule.match == "numeric_tolerance":
        return _compare_numbers(rule, wanted, actual)
    if rule.match == "date":
        return _compare_dates(rule, wanted, actual)
    if same_json(wanted, actual):
        return _Compared(True, f"is {shown(actual)}")
    hint = f" ({kind_of(actual)} instead of {kind_of(wanted)})" if _other_kind(wanted, actual) else ""
    return _Compared(False, f"is {shown(actual)}; expected {shown(wanted)}{hint}")


def _other_kind(wanted: Any, actual: Any) -> bool:
    """Whether two values look the same but have different types: `"12"` and 12."""
    return str(wanted) == str(actual) and kind_of(wanted) != kind_of(actual)


def _compare_numbers(rule: FieldRule, wanted: Any, actual: Any) -> _Compared:
    expected, number = _number(wanted), _number(actual)
    if expected is None:
        return _Compared(
            False,
            f"the expected value {shown(wanted)} is not a number",
            warning=f"the expected value {shown(wanted)} is not a number; correct it, or use `match: exact`",
        )
    if number is None:
        return _Compared(False, f"is {shown(actual)}, which is not a number; expected {shown(wanted)}")
    limit = Fraction(repr(float(rule.tolerance)))
    share = rule.relative and expected != 0
    within = abs(number - expected) <= (limit * abs(expected) if share else limit)
    allowed = f"{rule.tolerance * 100:g} %" if share else f"{rule.tolerance:g}"
    if within:
        near = "" if number == expected else f", within {allowed} of {shown(wanted)}"
        return _Compared(True, f"is {shown(actual)}{near}")
    off = f"; expected {shown(wanted)}" + (f" ± {allowed}" if limit else "")
    return _Compared(False, f"is {shown(actual)}{off}")


def _number(value: Any) -> Fraction | None:
    """The exact decimal value: 0.3 is three tenths, not the nearest binary fraction."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return Fraction(value)
    if isinstance(value, float):
        return Fraction(repr(float(value))) if math.isfinite(value) else None
    if isinstance(value, str) and len(value) <= MAX_DIGITS and _DECIMAL.fullmatch(value.strip()):
        return Fraction(value.strip())
    return None


def _compare_dates(rule: FieldRule, wanted: Any, actual: Any) -> _Compared:
    formats = tuple(rule.formats or ())
    try:
        expected = read_date(_text(wanted), formats)
    except NotADateError as error:
        words = f"the expected value {shown(wanted)} {error}"
        return _Compared(False, words, warning=words)
    try:
        day = read_date(_text(actual), formats)
    except NotADateError as error:
        return _Compared(False, f"is {shown(actual)}, which {error}; expected {expected.isoformat()}")
    if day == expected:
        return _Compared(True, f"is {expected.isoformat()}")
    return _Compared(False, f"is {day.isoformat()}; expected {expected.isoformat()}")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise NotADateError("is not a string")
    return value


# -- paths: `invoice.lines[0].amount`, and `["a.b"]` for a key that contains a dot


@lru_cache(maxsize=4096)
def parse_path(path: str) -> tuple[str | int, ...]:
    """Split a path into keys and list indices. Raises ValueError if the path is invalid."""
    steps: list[str | int] = []
    at = 0
    while at < len(path) or not steps:
        bracket = _BRACKET.match(path, at)
        if bracket is not None:
            steps.append(_step(bracket, path))
            at = bracket.end()
            continue
        if steps:
            if path[at] != ".":
                raise ValueError(f"invalid path '{path}' at '{path[at:]}'; {_RULE}")
            at += 1
        name = _NAME.match(path, at)
        if name is None:
            where = f"after '{path[:at]}'" if path[:at] else "at the start"
            raise ValueError(f"invalid path '{path}': a key is missing {where}; {_RULE}")
        steps.append(name[0])
        at = name.end()
    return tuple(steps)


def _step(bracket: re.Match[str], path: str) -> str | int:
    if bracket["index"] is not None:
        return int(bracket["index"])
    if bracket["single"] is not None:
        return bracket["single"]
    try:
        return str(json.loads(bracket["double"]))
    except ValueError as error:
        raise ValueError(f"invalid path '{path}': the quoted key is not a valid string: {error}") from None


def value_at(data: Any, steps: Sequence[str | int]) -> Any:
    """Return the value at a path, or MISSING."""
    for step in steps:
        if isinstance(data, Mapping):
            data = data.get(str(step), MISSING)
        elif isinstance(data, list | tuple) and _PLACE.fullmatch(str(step)):
            data = data[int(step)] if int(step) < len(data) else MISSING
        else:
            return MISSING
    return data
