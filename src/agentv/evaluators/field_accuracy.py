"""`field_accuracy`: fields of the answer's JSON against the expected data."""

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
from agentv.evaluators.is_json import NotJsonError, read_json
from agentv.evaluators.json_values import find_data, same_json, shown
from agentv.results import Score
from agentv.suite.models import FileModel
from agentv.text import kind_of

_DECIMAL = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)", re.ASCII)
MAX_DIGITS = 400
"""A longer string of digits is not taken as a number."""
MISSING: Any = object()
"""The value of a path that leads nowhere. Not None: null is a value."""

_NAME = re.compile(r"[^.\[\]\"']+")
_PLACE = re.compile(r"[0-9]{1,9}")
_BRACKET = re.compile(r"""\[(?:(?P<index>[0-9]{1,9})|(?P<double>"(?:[^"\\]|\\.)*")|'(?P<single>[^']*)')\]""")
_RULE = (
    'write names with dots and places in lists with [n], like `invoice.lines[0].amount`; a key with a dot is `["a.b"]`'
)


class FieldRule(FileModel):
    """One field, and how its value is compared."""

    path: str = Field(
        min_length=1, description='Where the value is: `a.b[0].c`; a key with a dot is written `["a.b"]`.'
    )
    match: Literal["exact", "numeric_tolerance", "date"] = Field(description="How values are compared.")
    tolerance: float = Field(0.0, ge=0, description="How far off a number may be.")
    relative: bool = Field(False, description="The tolerance is a share of the expected number: 0.05 is 5 %.")
    formats: list[str] | None = Field(
        None, min_length=1, description="How dates are written: `DD/MM/YYYY`, or `%d/%m/%Y`. The first that fits."
    )
    required: bool = Field(True, description="A field missing in the answer scores 0. `false`: it is left out.")
    weight: float = Field(1.0, ge=0, description="Share in the score. 0 is compared but does not count.")

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
    """One field's word: whether it matches, and why. It does not count when `counts` is False."""

    matches: bool
    words: str
    counts: bool = True
    warning: str | None = None


class FieldAccuracy(Evaluator):
    """Fields of the JSON in the answer have the expected values."""

    WAITS = False

    type: Literal["field_accuracy"] = "field_accuracy"
    fields: list[FieldRule] = Field(min_length=1, description="What is compared; see below.")
    aggregation: Literal["weighted_average", "all_or_nothing"] = Field(
        "weighted_average", description="`weighted_average`: the share of fields that match; `all_or_nothing`: 1 or 0."
    )

    async def evaluate(self, context: EvaluationContext) -> Score:
        expected = _expected_data(context)
        try:
            candidate = _candidate_data(context)
        except NotJsonError as error:
            return Score(0.0, (), (f"holds no JSON data: {error}",), f"the answer holds no JSON data: {error}")
        compared = [(rule, _compare(rule, expected, candidate)) for rule in self.fields]
        counted = [(rule, found) for rule, found in compared if found.counts and rule.weight > 0]
        matching = sum(found.matches for _, found in counted)
        return Score(
            self._score([(rule.weight, found.matches) for rule, found in counted]),
            tuple(_line(rule, found) for rule, found in compared if found.matches),
            tuple(_line(rule, found) for rule, found in compared if not found.matches and found.counts),
            _summary(compared, len(counted), matching, all_needed=self.aggregation == "all_or_nothing"),
            warnings=tuple(f"{rule.path}: {found.warning}" for rule, found in compared if found.warning),
        )

    def _score(self, counted: list[tuple[float, bool]]) -> float:
        if not counted:
            return 0.0
        if self.aggregation == "all_or_nothing":
            return float(all(matches for _, matches in counted))
        heaviest = max(weight for weight, _ in counted)
        share = math.fsum(weight / heaviest for weight, matches in counted if matches)
        return min(1.0, round(share / math.fsum(weight / heaviest for weight, _ in counted), 12))


def _line(rule: FieldRule, found: _Compared) -> str:
    return f"{rule.path}: {found.words}" + ("" if rule.weight > 0 else " (weight 0: does not count)")


def _summary(compared: list[tuple[FieldRule, _Compared]], counted: int, matching: int, *, all_needed: bool) -> str:
    if not counted:
        return "no field counts: all are optional and missing in the answer, or have weight 0"
    text = f"{matching} of {counted} fields match" + ("; all are needed" if all_needed else "")
    left_out = len(compared) - counted
    return text + (f"; {left_out} left out (missing and optional, or of weight 0)" if left_out else "")


# -- the two sides


def _expected_data(context: EvaluationContext) -> Any:
    for message in reversed(context.case.expected_messages):
        if message.role == "assistant":
            found = message.content if isinstance(message.content, Mapping) else _parsed(message.text)
            if found is not None:
                return found
    found = _parsed(context.case.reference_answer or "")
    if found is None:
        raise EvaluatorError(
            "there is no expected data to compare the fields with",
            next_step="Give the case an assistant message in `expected_messages` whose `content` is an object "
            "(or JSON text), or a `reference_answer` that is JSON.",
        )
    return found


def _parsed(text: str) -> Any:
    try:
        value = read_json(text)
    except NotJsonError:
        return None
    return value if isinstance(value, dict | list) else None


def _candidate_data(context: EvaluationContext) -> Any:
    candidate = context.candidate
    if not candidate.answer.strip():
        final = next((m for m in reversed(candidate.output_messages) if m.role == "assistant"), None)
        if final is not None and isinstance(final.content, Mapping):
            return final.content
    return find_data(candidate.answer)


# -- one field


def _compare(rule: FieldRule, expected: Any, candidate: Any) -> _Compared:
    steps = parse_path(rule.path)
    wanted, given = value_at(expected, steps), value_at(candidate, steps)
    if wanted is MISSING:
        return _Compared(
            True, "nothing is expected here", warning="the expected data has no such field, so nothing was compared"
        )
    if given is MISSING:
        if not rule.required:
            return _Compared(False, "is missing and optional", counts=False)
        return _Compared(False, f"is missing; expected {shown(wanted)}")
    if rule.match == "numeric_tolerance":
        return _compare_numbers(rule, wanted, given)
    if rule.match == "date":
        return _compare_dates(rule, wanted, given)
    if same_json(wanted, given):
        return _Compared(True, f"is {shown(given)}")
    hint = f" ({kind_of(given)} instead of {kind_of(wanted)})" if _other_kind(wanted, given) else ""
    return _Compared(False, f"is {shown(given)}; expected {shown(wanted)}{hint}")


def _other_kind(wanted: Any, given: Any) -> bool:
    """Values that look the same and are not: `"12"` and 12."""
    return str(wanted) == str(given) and kind_of(wanted) != kind_of(given)


def _compare_numbers(rule: FieldRule, wanted: Any, given: Any) -> _Compared:
    expected, found = _number(wanted), _number(given)
    if expected is None:
        return _Compared(
            False,
            f"the expected value {shown(wanted)} is not a number",
            warning=f"the expected value {shown(wanted)} is not a number: correct it, or use `match: exact`",
        )
    if found is None:
        return _Compared(False, f"is {shown(given)}, which is not a number; expected {shown(wanted)}")
    limit = Fraction(repr(float(rule.tolerance)))
    share = rule.relative and expected != 0
    within = abs(found - expected) <= (limit * abs(expected) if share else limit)
    allowed = f"{rule.tolerance * 100:g} %" if share else f"{rule.tolerance:g}"
    if within:
        near = "" if found == expected else f", within {allowed} of {shown(wanted)}"
        return _Compared(True, f"is {shown(given)}{near}")
    off = f"; expected {shown(wanted)}" + (f" give or take {allowed}" if limit else "")
    return _Compared(False, f"is {shown(given)}{off}")


def _number(value: Any) -> Fraction | None:
    """The exact number that is written: 0.3 is three tenths, not the nearest binary fraction."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return Fraction(value)
    if isinstance(value, float):
        return Fraction(repr(float(value))) if math.isfinite(value) else None
    if isinstance(value, str) and len(value) <= MAX_DIGITS and _DECIMAL.fullmatch(value.strip()):
        return Fraction(value.strip())
    return None


def _compare_dates(rule: FieldRule, wanted: Any, given: Any) -> _Compared:
    formats = tuple(rule.formats or ())
    try:
        expected = read_date(_text(wanted), formats)
    except NotADateError as error:
        words = f"the expected value {shown(wanted)} {error}"
        return _Compared(False, words, warning=words)
    try:
        found = read_date(_text(given), formats)
    except NotADateError as error:
        return _Compared(False, f"is {shown(given)}, which {error}; expected {expected.isoformat()}")
    if found == expected:
        return _Compared(True, f"is {expected.isoformat()}")
    return _Compared(False, f"is {found.isoformat()}; expected {expected.isoformat()}")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise NotADateError("is not text")
    return value


# -- paths: `invoice.lines[0].amount`, and `["a.b"]` for a key with a dot


@lru_cache(maxsize=4096)
def parse_path(path: str) -> tuple[str | int, ...]:
    """The steps of a path. ValueError says what is wrong with it."""
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
                raise ValueError(f"'{path[at:]}' in the path '{path}' is no step; {_RULE}")
            at += 1
        name = _NAME.match(path, at)
        if name is None:
            where = f"after '{path[:at]}' " if path[:at] else ""
            raise ValueError(f"the path '{path}' has no name {where}where one should be; {_RULE}")
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
        raise ValueError(f"the quoted key in the path '{path}' cannot be read: {error}") from None


def value_at(data: Any, steps: Sequence[str | int]) -> Any:
    """The value that a path leads to, or MISSING."""
    for step in steps:
        if isinstance(data, Mapping):
            data = data.get(str(step), MISSING)
        elif isinstance(data, list | tuple) and _PLACE.fullmatch(str(step)):
            data = data[int(step)] if int(step) < len(data) else MISSING
        else:
            return MISSING
    return data
