"""`tool_trajectory`: checks which tools were called, and in which order."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Annotated, Literal

from pydantic import Field, model_validator

from agentv.errors import EvaluatorError
from agentv.evaluators.base import Candidate, EvaluationContext, Evaluator
from agentv.evaluators.expected_calls import (
    ARGS_MATCH,
    ArgsMatch,
    ExpectedCall,
    subset,
    superset,
    with_durations,
)
from agentv.evaluators.json_values import WholeNumber
from agentv.messages import ToolCall
from agentv.results import Score
from agentv.text import quoted

IGNORED = frozenset({"input", "output"})
LONGEST_NAME = 200
IN_LINE_PAIRS = 10_000
"""Pairs of an expected and an actual call that are compared in the event loop."""
MOST_UNEXPECTED = 100
"""Unexpected calls that are listed one by one."""
_NO_LIMITS: Mapping[str, int] = {}


class ToolTrajectory(Evaluator):
    """Checks that the expected tools were called."""

    WAITS = False

    type: Literal["tool_trajectory"] = "tool_trajectory"
    mode: Literal["any_order", "in_order", "exact", "superset", "subset"] = Field(
        description="`any_order`: each tool often enough; `in_order`: the expected calls in this order, with other "
        "calls allowed in between; `exact`: exactly the expected calls in this order; `superset`: at least the "
        "expected calls; `subset`: no other calls."
    )
    minimums: dict[str, Annotated[WholeNumber, Field(ge=0)]] | None = Field(
        None, description="For `any_order`: minimum number of calls by tool."
    )
    maximums: dict[str, Annotated[WholeNumber, Field(ge=0)]] | None = Field(
        None, description="For `any_order`: maximum number of calls by tool."
    )
    args_match: ArgsMatch | None = Field(None, description=f"{ARGS_MATCH} Default: `superset`.")
    all_or_nothing: bool = Field(False, description="Score 1 if everything is as expected, else 0, without shares.")
    expected: list[ExpectedCall] | None = Field(
        None, description="Expected calls: `tool` and optional `args`. Not needed for `any_order` with `minimums`."
    )

    @model_validator(mode="after")
    def _requires_something(self) -> ToolTrajectory:
        if self.expected is None and self.mode != "any_order":
            raise ValueError(f"`mode: {self.mode}` requires `expected`, a list of calls like `{{tool: search}}`")
        if self.expected is None and self.minimums is None:
            raise ValueError("`mode: any_order` requires `minimums`, like `{search: 1}`, or `expected`")
        return self

    @model_validator(mode="after")
    def _has_one_way_to_compare(self) -> ToolTrajectory:
        if self.args_match is not None and self.expected:
            own = [
                each if each.args_match is not None else each.model_copy(update={"args_match": self.args_match})
                for each in self.expected
            ]
            object.__setattr__(self, "expected", own)  # frozen; this is part of its validation
        return self

    async def evaluate(self, context: EvaluationContext) -> Score:
        score = await self._judged(context)
        value = float(score.score >= 1.0) if self.all_or_nothing else score.score
        return Score(value, score.hits, score.misses, score.reasoning, warnings=self._doubts())

    async def _judged(self, context: EvaluationContext) -> Score:
        candidate = context.candidate
        calls = [call for message in candidate.output_messages for call in message.tool_calls]
        counts = Counter(call.tool for call in calls) if calls else _counts_alone(candidate)
        if counts is None:
            no_trace = "the answer has no trace: neither output messages nor a trace summary"
            return Score(0.0, (), ("has no trace of tool calls",), no_trace)
        if self.mode == "any_order" and self.minimums is not None:
            score = _by_minimums(self.minimums, counts, self.maximums or {})
        elif not self.expected and (self.mode not in ("exact", "subset") or not counts):
            score = _nothing_required()
        else:
            expected = self.expected or []
            self._refuse_counts_alone(expected, calls, counts)
            score = await self._compared(expected, calls, counts)
        no_calls = "; no tools were called" if score.misses and not counts else ""
        return Score(score.score, score.hits, score.misses, score.reasoning + no_calls)

    async def _compared(self, expected: list[ExpectedCall], calls: list[ToolCall], counts: Counter[str]) -> Score:
        if len(expected) * len(calls) <= IN_LINE_PAIRS:
            return self._by_calls(expected, calls, counts)
        # A thread is enough: the comparison is plain Python, and its length is limited by the suite.
        return await asyncio.to_thread(self._by_calls, expected, calls, counts)

    def _by_calls(self, expected: list[ExpectedCall], calls: list[ToolCall], counts: Counter[str]) -> Score:
        if self.mode == "exact":
            score = _exactly(expected, calls)
            is_too_long = len(calls) > len(expected)
            return score if is_too_long else with_durations(score, expected, _by_position(expected, calls))
        if self.mode == "in_order":
            return _in_order(expected, calls)
        if self.mode == "superset":
            return superset(expected, calls)
        if self.mode == "subset":
            return subset(expected, calls, MOST_UNEXPECTED)
        if not calls:
            return _by_minimums(Counter(each.tool for each in expected), counts)
        return _in_any_order(expected, calls)

    def _refuse_counts_alone(self, expected: list[ExpectedCall], calls: list[ToolCall], counts: Counter[str]) -> None:
        if calls or not counts:
            return
        if self.mode == "any_order" and not any(each.compares for each in expected):
            return
        raise EvaluatorError(
            "the target reported only the number of tool calls, not their order or arguments",
            next_step="Use a target that returns `output_messages` with `tool_calls`, or use `mode: any_order` with "
            "`minimums`.",
        )

    def _doubts(self) -> tuple[str, ...]:
        """Warnings about options that are ignored."""
        doubts = []
        by_minimums = self.mode == "any_order" and self.minimums is not None
        if by_minimums and self.expected:
            doubts.append("`expected` is ignored: `mode: any_order` uses `minimums`; keep only one of them")
        if not by_minimums and self.minimums:
            doubts.append(f"`minimums` is ignored: `mode: {self.mode}` uses `expected`")
        ignored = {name for each in self.expected or () for name in each.model_fields_set & IGNORED}
        doubts += [f"`{name}` of an expected call is ignored; only `args` is compared" for name in sorted(ignored)]
        return tuple(doubts)


def _counts_alone(candidate: Candidate) -> Counter[str] | None:
    """Return the number of calls by tool from the trace summary, or None if the answer has no trace."""
    summary = candidate.trace_summary
    by_name = (summary or {}).get("tool_calls_by_name")
    if isinstance(by_name, Mapping):
        counts = {name: n for name, n in by_name.items() if isinstance(n, int) and not isinstance(n, bool) and n > 0}
        return Counter(counts)
    return Counter() if candidate.output_messages or summary is not None else None


def _nothing_required() -> Score:
    return Score(1.0, (), (), "no tool calls are required")


# -- any order


def _by_minimums(minimums: Mapping[str, int], counts: Counter[str], maximums: Mapping[str, int] = _NO_LIMITS) -> Score:
    if not minimums and not maximums:
        return _nothing_required()
    hits, misses = [], []
    for tool in dict.fromkeys((*minimums, *maximums)):
        words, least, most = f"{quoted(tool)} was {_called(counts[tool])}", minimums.get(tool, 0), maximums.get(tool)
        if counts[tool] < least:
            misses.append(f"{words}; expected at least {least}")
        elif most is not None and counts[tool] > most:
            misses.append(f"{words}; expected at most {most}")
        else:
            hits.append(f"{words} ({f'at least {least}' if most is None else f'from {least} to {most}'})")
    return _share_of_tools(hits, misses)


def _in_any_order(expected: list[ExpectedCall], calls: list[ToolCall]) -> Score:
    """Score the share of tools for which every expected call is matched by a different actual call."""
    hits, misses = [], []
    for tool in dict.fromkeys(each.tool for each in expected):
        wanted = [each for each in expected if each.tool == tool]
        actual = [call for call in calls if call.tool == tool]
        matched = len(pair_up(wanted, actual))
        if matched == len(wanted):
            hits.append(f"{quoted(tool)} was {_called(len(actual))} (at least {len(wanted)})")
        else:
            arguments = " with the expected arguments" if any(each.compares for each in wanted) else ""
            misses.append(f"{quoted(tool)} was {_called(matched)}{arguments}; expected at least {len(wanted)}")
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
    waiting, made = 0, dict[int, ToolCall]()
    for call in calls:
        if waiting < len(expected) and expected[waiting].fits(call):
            made[waiting] = call
            waiting += 1
    if waiting == len(expected):
        hits = tuple(f"{n}. {each} was called in order" for n, each in numbered)
        score = Score(1.0, hits, (), f"all {len(expected)} expected calls were made in order")
        return with_durations(score, expected, made)
    pairs = pair_up(expected, calls)
    if len(pairs) == len(expected):
        words = [f"{n}. {each} was {'' if n <= waiting else 'not '}called in order" for n, each in numbered]
        reasoning = "all expected calls were made, but in a different order"
        return Score(0.0, tuple(words[:waiting]), tuple(words[waiting:]), reasoning)
    hits = tuple(f"{n}. {each} was called" for n, each in numbered if n - 1 in pairs)
    misses = tuple(f"{n}. {each} was not called{_nearly(each, calls)}" for n, each in numbered if n - 1 not in pairs)
    reasoning = f"{len(pairs)} of {len(expected)} expected calls were made"
    score = Score(len(pairs) / len(expected), hits, misses, reasoning)
    return with_durations(score, expected, {index: calls[at] for index, at in pairs.items()})


def _exactly(expected: list[ExpectedCall], calls: list[ToolCall]) -> Score:
    hits, misses = [], []
    for number, each in enumerate(expected, 1):
        call = calls[number - 1] if number <= len(calls) else None
        if call is not None and each.fits(call):
            hits.append(f"call {number} is {each}")
        elif call is None:
            misses.append(f"call {number} must be {each}, but is missing")
        else:
            arguments = " with different arguments" if call.tool == each.tool else ""
            misses.append(f"call {number} must be {each}, got {_name(call)}{arguments}")
    extra = len(calls) - len(expected)
    if extra > 0:
        unexpected = list(enumerate(calls, 1))[len(expected) :]
        misses += [f"call {n} is {_name(call)}, which is unexpected" for n, call in unexpected[:MOST_UNEXPECTED]]
        if extra > MOST_UNEXPECTED:
            misses.append(f"{extra - MOST_UNEXPECTED:,} more calls are unexpected")
        return Score(0.0, tuple(hits), tuple(misses), f"{_calls(extra)} more than the {len(expected)} expected")
    matched = f"{len(hits)} of {len(expected)} calls are as expected"
    return Score(len(hits) / len(expected), tuple(hits), tuple(misses), matched)


def _by_position(expected: list[ExpectedCall], calls: list[ToolCall]) -> dict[int, ToolCall]:
    """The calls that are as expected, by position."""
    pairs = enumerate(zip(expected, calls, strict=False))
    return {index: call for index, (each, call) in pairs if each.fits(call)}


def _calls(count: int) -> str:
    return "1 call" if count == 1 else f"{count} calls"


def _nearly(expected: ExpectedCall, calls: list[ToolCall]) -> str:
    if not expected.compares or all(call.tool != expected.tool for call in calls):
        return ""
    return " with these arguments" if all(not expected.fits(call) for call in calls) else " often enough"


def _name(call: ToolCall) -> str:
    """Return the quoted tool name of a call. A long name is not cut, because a secret in it could not be masked."""
    return quoted(call.tool, LONGEST_NAME) if len(call.tool) <= LONGEST_NAME else "a tool with a very long name"


def pair_up(expected: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> dict[int, int]:
    """Match as many expected calls as possible with different actual calls (maximum bipartite matching).

    Returns the index of the actual call by the index of the expected call.
    """
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
    """Return the first `most` calls that match. More than the number of expected calls are never needed."""
    return list(islice((at for at, call in enumerate(calls) if expected.fits(call)), most))


def _hand_over(at: int, reached_from: dict[int, int], holds: dict[int, int], held_by: dict[int, int]) -> None:
    """Augment the matching along the path that ends at the free call `at`."""
    while True:
        index = reached_from[at]
        before = holds.get(index)
        holds[index], held_by[at] = at, index
        if before is None:
            return
        at = before
