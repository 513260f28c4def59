"""Expected tool calls: how the arguments and the duration of a call are compared with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from agentv.evaluators.json_values import same_json
from agentv.messages import ToolCall
from agentv.results import Score
from agentv.suite.models import FileModel
from agentv.text import quoted

ArgsMatch = Literal["exact", "superset", "subset", "ignore"] | Annotated[list[str], Field(min_length=1)]
ARGS_MATCH = (
    "How arguments are compared: `superset` (the call has at least those listed), `exact`, `subset` (the call has no "
    "others), `ignore`, or a list of the fields to compare, such as `filter.year`."
)
_ABSENT = object()


class ExpectedCall(FileModel):
    """A tool call that is expected."""

    tool: str = Field(min_length=1, description="Name of the tool.")
    args: Literal["any"] | dict[str, Any] | None = Field(
        None, description="Arguments that the call must have. Default: `any` arguments."
    )
    args_match: ArgsMatch | None = Field(None, description="Overrides `args_match` of the evaluator for this call.")
    max_duration_ms: float | None = Field(
        None, ge=0, description="Time limit of the call, for `in_order` and `exact`: one more check, if it is known."
    )
    input: Any = Field(None, description="Ignored; accepted for AgentV compatibility. Use `args`.")
    output: Any = Field(None, description="Ignored; accepted for AgentV compatibility.")

    @field_validator("args", mode="before")
    @classmethod
    def _are_arguments(cls, args: Any) -> Any:
        if args is not None and args != "any" and not isinstance(args, dict):
            raise ValueError("must be `any` or a mapping of arguments")
        return args

    @property
    def wanted(self) -> Mapping[str, Any]:
        """The arguments that are compared."""
        return self.args if isinstance(self.args, dict) and self.args_match != "ignore" else {}

    @property
    def compares(self) -> bool:
        """Whether the arguments of a call matter."""
        return isinstance(self.args, dict) and (bool(self.wanted) or self.args_match in ("exact", "subset"))

    def fits(self, call: ToolCall) -> bool:
        """Whether a call is the expected one."""
        if call.tool != self.tool:
            return False
        if not self.compares:
            return True
        arguments = {} if call.input is None else call.input
        if not isinstance(arguments, Mapping):
            return False
        if self.args_match == "exact":
            return same_json(dict(self.wanted), dict(arguments))
        if self.args_match == "subset":
            return _holds(arguments, self.wanted)
        if isinstance(self.args_match, list):
            fields = [(field, _at(self.wanted, field)) for field in self.args_match]
            return all(
                value is _ABSENT or ((actual := _at(arguments, field)) is not _ABSENT and same_json(value, actual))
                for field, value in fields
            )
        return _holds(self.wanted, arguments)

    def __str__(self) -> str:
        names = ", ".join(self.wanted)
        return f"{quoted(self.tool)} with the expected {names}" if names else quoted(self.tool)


def _holds(fewer: Mapping[str, Any], more: Mapping[str, Any]) -> bool:
    return all(key in more and same_json(value, more[key]) for key, value in fewer.items())


def _at(arguments: Any, field: str) -> Any:
    """The value of a field like `filter.year`."""
    for part in field.split("."):
        if not isinstance(arguments, Mapping) or part not in arguments:
            return _ABSENT
        arguments = arguments[part]
    return arguments


# -- modes without an order


def superset(expected: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> Score:
    """Score the share of the expected calls that were made, in any order. Other calls are allowed."""
    free = list(calls)
    hits, misses = [], []
    for each in expected:
        found = next((call for call in free if each.fits(call)), None)
        if found is None:
            misses.append(f"{each} was not called")
        else:
            free.remove(found)
            hits.append(f"{each} was called")
    reasoning = f"{len(hits)} of {len(expected)} expected calls were made"
    return Score(len(hits) / len(expected), tuple(hits), tuple(misses), reasoning)


def subset(expected: Sequence[ExpectedCall], calls: Sequence[ToolCall], most: int) -> Score:
    """Score the share of the calls that are expected. Not all expected calls must be made."""
    if not calls:
        return Score(1.0, (), (), "no tools were called, so none that is not allowed")
    others = [call for call in calls if not any(each.fits(call) for each in expected)]
    hits = tuple(f"{quoted(name)} is allowed" for name in dict.fromkeys(each.tool for each in expected))
    named = [f"{quoted(call.tool, 200)} is not among the expected calls" for call in others[:most]]
    more = [f"{len(others) - most:,} more calls are not among the expected calls"] if len(others) > most else []
    allowed = len(calls) - len(others)
    reasoning = f"{allowed} of {len(calls)} calls are allowed"
    return Score(allowed / len(calls), hits if allowed else (), (*named, *more), reasoning)


# -- durations


def with_durations(score: Score, expected: Sequence[ExpectedCall], calls: Mapping[int, ToolCall]) -> Score:
    """The score with one more check for each time limit; `calls` are the calls that were made, by expected call.

    The limit of a call that was not made is not kept. A call without a known duration has no check.
    """
    hits: list[str] = []
    misses: list[str] = []
    for index, each in enumerate(expected):
        if each.max_duration_ms is None:
            continue
        limit = f"(limit: {each.max_duration_ms:g} ms)"
        call = calls.get(index)
        if call is None:
            misses.append(f"{index + 1}. {quoted(each.tool)} was not made within its time {limit}")
        elif call.duration_ms is not None:
            in_time = call.duration_ms <= each.max_duration_ms
            (hits if in_time else misses).append(
                f"{index + 1}. {quoted(each.tool)} took {call.duration_ms:g} ms {limit}"
            )
    checks = len(hits) + len(misses)
    if not checks:
        return score
    value = (score.score * len(expected) + len(hits)) / (len(expected) + checks)
    reasoning = f"{score.reasoning}; {len(hits)} of {checks} within their time"
    return Score(value, (*score.hits, *hits), (*score.misses, *misses), reasoning)
