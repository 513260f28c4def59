"""Tool correctness: were the expected tools called?

Needs: tool calls in `output_messages`, and expected ones in `expected_messages` or the option `expected`
Judge calls: none
Formula: expected calls that were made / expected calls; with `mode: exact`, 1 or 0

`mode: any_order` (the default) ignores the order and other calls, `in_order` takes the longest series of expected
calls in their order, and `exact` allows nothing else. With `arguments: true`, the arguments in `expected_messages`
must have the same values; `args` of `expected` are always compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentv.metrics.support import option, short
from agentv_eval import code_judge
from agentv_eval.material import fail, tool_calls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentv_eval import CodeJudgeInput

    Call = dict[str, Any]


def expected_calls(case: CodeJudgeInput) -> list[Call]:
    """The expected calls, each with `tool` and the `args` to compare."""
    expected = option(case, "expected")
    if expected is not None:
        return [
            {"tool": call["tool"], "args": call["args"] if isinstance(call.get("args"), dict) else {}}
            for call in expected
        ]
    compare = option(case, "arguments", default=False)
    calls = [call for message in case.expected_messages for call in message.get("tool_calls") or []]
    return [{"tool": call.get("tool"), "args": call.get("input") if compare else {}} for call in calls]


def fits(expected: Call, made: Call) -> bool:
    """Whether a call is the expected one: the tool, and the arguments that are expected."""
    if expected["tool"] != made.get("tool"):
        return False
    wanted, given = expected["args"] or {}, made.get("input")
    if not isinstance(wanted, dict):
        return bool(wanted == given)
    return not wanted or (isinstance(given, dict) and all(given.get(key) == value for key, value in wanted.items()))


def any_order(expected: Sequence[Call], made: Sequence[Call]) -> list[bool]:
    """For each expected call, whether there is a call for it alone (a maximum matching)."""
    taken: dict[int, int] = {}

    def place(index: int, tried: set[int]) -> bool:
        for other, call in enumerate(made):
            if other not in tried and fits(expected[index], call):
                tried.add(other)
                if other not in taken or place(taken[other], tried):
                    taken[other] = index
                    return True
        return False

    for index in range(len(expected)):
        place(index, set())
    return [index in taken.values() for index in range(len(expected))]


def in_order(expected: Sequence[Call], made: Sequence[Call]) -> list[bool]:
    """For each expected call, whether it is in the longest common subsequence."""
    longest = [[0] * (len(made) + 1) for _ in range(len(expected) + 1)]
    for i in reversed(range(len(expected))):
        for j in reversed(range(len(made))):
            skip = max(longest[i + 1][j], longest[i][j + 1])
            longest[i][j] = max(skip, longest[i + 1][j + 1] + 1) if fits(expected[i], made[j]) else skip
    found, i, j = [False] * len(expected), 0, 0
    while i < len(expected) and j < len(made):
        if fits(expected[i], made[j]) and longest[i][j] == longest[i + 1][j + 1] + 1:
            found[i] = True
            i, j = i + 1, j + 1
        elif longest[i + 1][j] >= longest[i][j + 1]:
            i += 1
        else:
            j += 1
    return found


def described(call: Call) -> str:
    if not isinstance(call["args"], dict | None):
        return short(f"{call['tool']}({call['args']!r})")
    return short(f"{call['tool']}({', '.join(f'{key}={value!r}' for key, value in (call['args'] or {}).items())})")


@code_judge
def tool_correctness(case: CodeJudgeInput) -> dict[str, Any]:
    expected, made = expected_calls(case), tool_calls(case)
    if not expected:
        fail("no expected tool calls; set `tool_calls` in `expected_messages` of the case, or the option `expected`")
    mode = option(case, "mode", "any_order")
    found = any_order(expected, made) if mode == "any_order" else in_order(expected, made)
    names = ", ".join(str(call.get("tool")) for call in made) or "none"
    misses = [f"{described(call)} was not called" for call, was in zip(expected, found, strict=True) if not was]
    score = sum(found) / len(found)
    if mode == "exact":
        if len(made) > len(expected):
            misses.append(f"{len(made)} calls were made, expected {len(expected)}")
        score = 0.0 if misses else 1.0
    return {
        "score": score,
        "hits": [f"{described(call)} was called" for call, was in zip(expected, found, strict=True) if was],
        "misses": misses,
        "reasoning": f"{sum(found)} of {len(found)} expected calls were made; called: {names}",
        "details": {"mode": mode, "expected": expected, "called": [str(call.get("tool")) for call in made]},
    }
