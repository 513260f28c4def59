"""`tool_trajectory`: the tools an answer called, and in what order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from agentv.errors import EvaluatorError
from agentv.evaluators.base import Candidate, EvaluationContext, Evaluator
from agentv.evaluators.json_values import WholeNumber, same_json
from agentv.evaluators.text import quoted
from agentv.messages import ToolCall
from agentv.results import Score
from agentv.suite.models import FileModel

IGNORED = frozenset({"input", "output"})
LONGEST_NAME = 200


class ExpectedCall(FileModel):
    """One call that the answer should have made."""

    tool: str = Field(min_length=1, description="The tool's name.")
    args: Literal["any"] | dict[str, Any] | None = Field(
        None, description="Arguments the call must have, others being free; `any` or nothing: whatever they are."
    )
    input: Any = Field(None, description="Ignored: AgentV's suites may hold it. Use `args`.")
    output: Any = Field(None, description="Ignored: AgentV's suites may hold it.")

    @field_validator("args", mode="before")
    @classmethod
    def _are_arguments(cls, args: Any) -> Any:
        if args is not None and args != "any" and not isinstance(args, dict):
            raise ValueError("expected `any`, or a mapping of arguments that the call must have")
        return args

    @property
    def wanted(self) -> Mapping[str, Any]:
        """The arguments that matter."""
        return self.args if isinstance(self.args, dict) else {}

    def fits(self, call: ToolCall) -> bool:
        if call.tool != self.tool:
            return False
        if not self.wanted:
            return True
        given = call.input
        return isinstance(given, Mapping) and all(
            key in given and same_json(value, given[key]) for key, value in self.wanted.items()
        )

    def __str__(self) -> str:
        names = ", ".join(self.wanted)
        return f"{quoted(self.tool)} with the expected {names}" if names else quoted(self.tool)


class ToolTrajectory(Evaluator):
    """The tools that were called are the expected ones."""

    WAITS = False

    type: Literal["tool_trajectory"] = "tool_trajectory"
    mode: Literal["any_order", "in_order", "exact"] = Field(
        description="`any_order`: each tool often enough; `in_order`: the expected calls in their order, others "
        "between them being fine; `exact`: the expected calls and no others."
    )
    minimums: dict[str, Annotated[WholeNumber, Field(ge=0)]] | None = Field(
        None, description="For `any_order`: tool -> how often it is called at least."
    )
    expected: list[ExpectedCall] | None = Field(
        None, description="The calls, each with `tool` and maybe `args`. Needed but for `any_order` with `minimums`."
    )

    @model_validator(mode="after")
    def _requires_something(self) -> ToolTrajectory:
        if self.expected is None and self.mode != "any_order":
            raise ValueError(f"`mode: {self.mode}` needs `expected`: a list of calls like `{{tool: search}}`")
        if self.expected is None and self.minimums is None:
            raise ValueError("`mode: any_order` needs `minimums`, like `{search: 1}`, or `expected`")
        return self

    async def evaluate(self, context: EvaluationContext) -> Score:
        candidate = context.candidate
        calls = [call for message in candidate.output_messages for call in message.tool_calls]
        counts = Counter(call.tool for call in calls) if calls else _counts_alone(candidate)
        if counts is None:
            none = "the answer has no trace: neither messages nor a trace summary"
            return Score(0.0, (), ("has no trace of tool calls",), none, warnings=self._doubts())
        if self.mode == "any_order" and self.minimums is not None:
            score = _by_minimums(self.minimums, counts)
        elif not self.expected and (self.mode != "exact" or not counts):
            score = _nothing_required()
        else:
            expected = self.expected or []
            self._refuse_counts_alone(expected, calls, counts)
            score = self._by_calls(expected, calls, counts)
        none_made = "; the answer called no tool at all" if score.misses and not counts else ""
        return Score(score.score, score.hits, score.misses, score.reasoning + none_made, warnings=self._doubts())

    def _by_calls(self, expected: list[ExpectedCall], calls: list[ToolCall], counts: Counter[str]) -> Score:
        if self.mode == "exact":
            return _exactly(expected, calls)
        if self.mode == "in_order":
            return _in_order(expected, calls)
        if not calls:
            return _by_minimums(Counter(each.tool for each in expected), counts)
        return _in_any_order(expected, calls)

    def _refuse_counts_alone(self, expected: list[ExpectedCall], calls: list[ToolCall], counts: Counter[str]) -> None:
        if calls or not counts:
            return
        if self.mode == "any_order" and not any(each.wanted for each in expected):
            return
        raise EvaluatorError(
            "only the number of tool calls is known, neither their order nor their arguments",
            next_step="Let the target give `output_messages` with `tool_calls`, or use `mode: any_order` with "
            "`minimums`.",
        )

    def _doubts(self) -> tuple[str, ...]:
        """What the suite says and nothing looks at."""
        doubts = []
        by_minimums = self.mode == "any_order" and self.minimums is not None
        if by_minimums and self.expected:
            doubts.append("`expected` is not looked at: `mode: any_order` goes by `minimums`; keep one of them")
        if not by_minimums and self.minimums:
            doubts.append(f"`minimums` is not looked at: `mode: {self.mode}` goes by `expected`")
        ignored = {name for each in self.expected or () for name in each.model_fields_set & IGNORED}
        doubts += [f"`{name}` of an expected call is not compared; `args` is" for name in sorted(ignored)]
        return tuple(doubts)


def _counts_alone(candidate: Candidate) -> Counter[str] | None:
    """The calls by name that a trace summary holds; None without any trace."""
    summary = candidate.trace_summary
    by_name = (summary or {}).get("tool_calls_by_name")
    if isinstance(by_name, Mapping):
        counts = {name: n for name, n in by_name.items() if isinstance(n, int) and not isinstance(n, bool) and n > 0}
        return Counter(counts)
    return Counter() if candidate.output_messages or summary is not None else None


def _nothing_required() -> Score:
    return Score(1.0, (), (), "no tool calls are required")


# -- any order


def _by_minimums(minimums: Mapping[str, int], counts: Counter[str]) -> Score:
    if not minimums:
        return _nothing_required()
    words = {tool: f"{quoted(tool)} was {_called(counts[tool])}" for tool in minimums}
    hits = [f"{words[tool]} (at least {least})" for tool, least in minimums.items() if counts[tool] >= least]
    misses = [f"{words[tool]}; expected at least {n}" for tool, n in minimums.items() if counts[tool] < n]
    return _share_of_tools(hits, misses)


def _in_any_order(expected: list[ExpectedCall], calls: list[ToolCall]) -> Score:
    """A tool is satisfied when each of its expected calls has a call of its own."""
    hits, misses = [], []
    for tool in dict.fromkeys(each.tool for each in expected):
        wanted = [each for each in expected if each.tool == tool]
        made = [call for call in calls if call.tool == tool]
        found = len(pair_up(wanted, made))
        if found == len(wanted):
            hits.append(f"{quoted(tool)} was {_called(len(made))} (at least {len(wanted)})")
        else:
            arguments = " with the expected arguments" if any(each.wanted for each in wanted) else ""
            misses.append(f"{quoted(tool)} was {_called(found)}{arguments}; expected at least {len(wanted)}")
    return _share_of_tools(hits, misses)


def _share_of_tools(hits: list[str], misses: list[str]) -> Score:
    tools = len(hits) + len(misses)
    reasoning = f"{len(hits)} of {tools} tools were called often enough"
    return Score(len(hits) / tools, tuple(hits), tuple(misses), reasoning)


def _called(count: int) -> str:
    return {0: "never called", 1: "called once", 2: "called twice"}.get(count, f"called {count} times")


# -- in order, exactly


def _in_order(expected: list[ExpectedCall], calls: list[ToolCall]) -> Score:
    if not expected:
        return _nothing_required()
    numbered = list(enumerate(expected, 1))
    waiting = 0
    for call in calls:
        if waiting < len(expected) and expected[waiting].fits(call):
            waiting += 1
    if waiting == len(expected):
        hits = tuple(f"{n}. {each} was called in its turn" for n, each in numbered)
        return Score(1.0, hits, (), f"the {len(expected)} expected calls were made in their order")
    pairs = pair_up(expected, calls)
    if len(pairs) == len(expected):
        words = [f"{n}. {each} was {'' if n <= waiting else 'not '}called in its turn" for n, each in numbered]
        reasoning = "every expected call was made, but in another order"
        return Score(0.0, tuple(words[:waiting]), tuple(words[waiting:]), reasoning)
    hits = tuple(f"{n}. {each} was called" for n, each in numbered if n - 1 in pairs)
    misses = tuple(f"{n}. {each} was not called{_nearly(each, calls)}" for n, each in numbered if n - 1 not in pairs)
    found = f"{len(pairs)} of {len(expected)} expected calls were made"
    return Score(len(pairs) / len(expected), hits, misses, found)


def _exactly(expected: list[ExpectedCall], calls: list[ToolCall]) -> Score:
    hits, misses = [], []
    for number, each in enumerate(expected, 1):
        call = calls[number - 1] if number <= len(calls) else None
        if call is not None and each.fits(call):
            hits.append(f"call {number} is {each}")
        elif call is None:
            misses.append(f"call {number} should be {each}; there is none")
        else:
            arguments = " with other arguments" if call.tool == each.tool else ""
            misses.append(f"call {number} should be {each}, not {_name(call)}{arguments}")
    extra = len(calls) - len(expected)
    if extra > 0:
        misses += [f"call {n} is {_name(call)}, one too many" for n, call in enumerate(calls, 1) if n > len(expected)]
        return Score(0.0, tuple(hits), tuple(misses), f"{_calls(extra)} more than the {len(expected)} expected")
    matched = f"{len(hits)} of {len(expected)} expected calls are in their places"
    return Score(len(hits) / len(expected), tuple(hits), tuple(misses), matched)


def _calls(count: int) -> str:
    return "1 call" if count == 1 else f"{count} calls"


def _nearly(expected: ExpectedCall, calls: list[ToolCall]) -> str:
    if not expected.wanted or all(call.tool != expected.tool for call in calls):
        return ""
    return " with them" if all(not expected.fits(call) for call in calls) else " often enough"


def _name(call: ToolCall) -> str:
    """The tool of a call that was made. A long name is not cut: a secret in it could not be masked."""
    return quoted(call.tool, LONGEST_NAME) if len(call.tool) <= LONGEST_NAME else "a tool with a very long name"


def pair_up(expected: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> dict[int, int]:
    """The most expected calls that can each have a call of their own: index of the one -> index of the other."""
    choices = [_choices(each, calls, len(expected)) for each in expected]
    holds: dict[int, int] = {}
    held_by: dict[int, int] = {}
    for index in range(len(expected)):
        reached_from: dict[int, int] = {}
        waiting = [index]
        for each in waiting:
            free = next((at for at in choices[each] if at not in held_by), None)
            if free is not None:
                reached_from[free] = each
                _hand_over(free, reached_from, holds, held_by)
                break
            for at in choices[each]:
                if at not in reached_from:
                    reached_from[at] = each
                    waiting.append(held_by[at])
    return holds


def _choices(expected: ExpectedCall, calls: Sequence[ToolCall], most: int) -> list[int]:
    """Calls that fit. More than there are expected calls are never needed, which bounds the work for any trace."""
    return list(islice((at for at, call in enumerate(calls) if expected.fits(call)), most))


def _hand_over(at: int, reached_from: dict[int, int], holds: dict[int, int], held_by: dict[int, int]) -> None:
    """Give a free call to the expected call that reached it, what that one held to the one before, and so on."""
    while True:
        index = reached_from[at]
        before = holds.get(index)
        holds[index], held_by[at] = at, index
        if before is None:
            return
        at = before
