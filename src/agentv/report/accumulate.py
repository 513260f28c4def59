"""Accumulators that summarise a run of any length in bounded memory.

Their results do not depend on the order of the rows.
"""

from __future__ import annotations

import bisect
import math
import re
from collections.abc import Iterator, Sequence
from typing import Protocol

from agentv.messages import TokenUsage
from agentv.results import CaseError, CaseResult, RowKey, Verdict, judge_ledgers

WORST_KEPT = 5
MESSAGES_KEPT = 200
_REASON_KEPT = 600
_ANSWER_KEPT = 2000
MISSES_ARE_CRITERIA = frozenset({"code_judge", "llm_judge", "rubric", "function", "composite"})
"""Evaluators whose misses can be criteria that the answer does not meet: "is brief" is not praise. The misses of others
say what is wrong."""
MISSED = "missed: "
"""Before misses that are criteria."""
_OUTPUT = re.compile(r"(?:\nEnd of stderr|; the end of its std(?:err|out)):\n.*", re.DOTALL)
"""The end of an error message, from where it quotes the output of a program."""
MESSAGE_LENGTH = 2000
LARGEST_TERM = 1e200
"""Larger numbers, infinity and NaN are not added: their sum could overflow."""


class ExactSum:
    """A sum that does not depend on the order of its terms: exact partial sums (Shewchuk), as in `math.fsum`."""

    __slots__ = ("_partials", "count")

    def __init__(self) -> None:
        self._partials: list[float] = []
        self.count = 0

    def add(self, value: float) -> None:
        if not abs(value) <= LARGEST_TERM:
            return
        self.count += 1
        used, x = 0, float(value)
        for partial in self._partials:
            big, small = (x, partial) if abs(x) >= abs(partial) else (partial, x)
            x = big + small
            rest = small - (x - big)
            if rest:
                self._partials[used] = rest
                used += 1
        self._partials[used:] = [x]

    @property
    def total(self) -> float:
        return math.fsum(self._partials)

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None


class Tally:
    """Rows or cases by outcome. One with an error counts in `errors` only."""

    __slots__ = ("borderline", "errors", "failed", "passed", "scores", "squares")

    def __init__(self, *, spread: bool = False) -> None:
        """With `spread`, the squares of the scores are added up, too."""
        self.passed = self.borderline = self.failed = self.errors = 0
        self.scores = ExactSum()
        self.squares = ExactSum() if spread else None

    def add(self, row: CaseResult) -> None:
        self.count(None if row.error is not None else row.verdict, row.score)

    def count(self, verdict: Verdict | None, score: float | None) -> None:
        """Count one outcome; without a verdict, it is an error."""
        if verdict is None:
            self.errors += 1
            return
        if score is not None:
            self.scores.add(score)
            if self.squares is not None:
                self.squares.add(score * score)
        if verdict is Verdict.PASS:
            self.passed += 1
        elif verdict is Verdict.BORDERLINE:
            self.borderline += 1
        else:
            self.failed += 1

    @property
    def total(self) -> int:
        return self.passed + self.borderline + self.failed + self.errors


class Spend:
    """Tokens and cost of a group of calls. `complete` is False if the price of any call is unknown."""

    __slots__ = ("_cost", "complete", "token_usage")

    def __init__(self) -> None:
        self._cost = ExactSum()
        self.complete = True
        self.token_usage: TokenUsage | None = None

    def add(self, usage: TokenUsage | None, cost_usd: float | None) -> None:
        if usage is not None:
            self.token_usage = usage if self.token_usage is None else self.token_usage + usage
        if cost_usd is None:
            self.complete = False
        else:
            self._cost.add(cost_usd)

    @property
    def cost_usd(self) -> float | None:
        return self._cost.total if self._cost.count else None


class RunSpend:
    """Tokens and cost of a run, separately for targets and judges."""

    __slots__ = ("judge", "judge_calls", "judge_calls_from_record", "judge_failed_calls", "target")

    def __init__(self) -> None:
        self.target = Spend()
        self.judge = Spend()
        self.judge_calls = self.judge_failed_calls = self.judge_calls_from_record = 0

    def add(self, row: CaseResult) -> None:
        if row.error is None or row.token_usage is not None or row.cost_usd is not None:
            self.target.add(row.token_usage, row.cost_usd)
        for turn in row.turns:  # a model that plays the user is a target, too
            if turn.user_token_usage is not None or turn.user_cost_usd is not None:
                self.target.add(turn.user_token_usage, turn.user_cost_usd if row.replayed is None else 0.0)
        for ledger in judge_ledgers(row.evaluator_results):
            calls = ledger.get("call_count") or 0
            if calls:
                self.judge_calls += calls
                self.judge_failed_calls += ledger.get("failed_calls") or 0
                self.judge_calls_from_record += ledger.get("from_record") or 0
                usage = ledger.get("token_usage")
                self.judge.add(TokenUsage.from_dict(usage) if usage else None, ledger.get("cost_usd"))

    @property
    def cost_usd(self) -> float | None:
        known = [cost for cost in (self.target.cost_usd, self.judge.cost_usd) if cost is not None]
        return sum(known) if known else None


class Worst:
    """The lowest-scoring cases that did not pass; cases with errors are excluded."""

    __slots__ = ("_kept", "_most")

    def __init__(self, most: int = WORST_KEPT) -> None:
        self._kept: list[tuple[float, RowKey, Verdict, str, str, str]] = []
        self._most = most

    def add(self, row: CaseResult) -> None:
        if row.error is not None or row.verdict is Verdict.PASS:
            return
        place = (row.score, row.key)
        if len(self._kept) == self._most and place >= self._kept[-1][:2]:
            return
        evaluator, reason = why(row)
        answer = row.candidate_answer[:_ANSWER_KEPT]
        bisect.insort(self._kept, (row.score, row.key, row.verdict, evaluator, reason, answer))
        del self._kept[self._most :]

    def __iter__(self) -> Iterator[tuple[float, RowKey, Verdict, str, str, str]]:
        return iter(self._kept)


class ErrorMessages:
    """Counts of distinct error messages, at most `MESSAGES_KEPT` of them.

    Beyond that limit, the messages that sort first are kept. A kept message has been counted since its first
    occurrence, so the counts do not depend on the order of the rows.
    """

    __slots__ = ("_kept", "_sorted")

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], tuple[int, RowKey]] = {}
        self._sorted: list[tuple[str, str]] = []

    def add(self, error: CaseError, key: RowKey) -> None:
        message = (error.stage, error_text(error)[:MESSAGE_LENGTH])
        if message in self._kept:
            count, example = self._kept[message]
            self._kept[message] = (count + 1, min(example, key))
            return
        if len(self._sorted) == MESSAGES_KEPT:
            if message > self._sorted[-1]:
                return
            del self._kept[self._sorted.pop()]
        bisect.insort(self._sorted, message)
        self._kept[message] = (1, key)

    def most_frequent(self, most: int) -> list[tuple[str, str, int, RowKey]]:
        groups = [(stage, text, count, key) for (stage, text), (count, key) in self._kept.items()]
        return sorted(groups, key=lambda group: (-group[2], *group))[:most]


def error_text(error: CaseError) -> str:
    """The message of an error without the output of the program that failed. Its cause is in the message."""
    return without_output(error.message)


def without_output(message: str) -> str:
    return _OUTPUT.sub("", message)


class Judged(Protocol):
    """What a row and the result of an evaluator have in common: why points were lost."""

    @property
    def misses(self) -> Sequence[str]: ...
    @property
    def reasoning(self) -> str: ...
    @property
    def evaluator_results(self) -> Sequence[JudgedBy]: ...


class JudgedBy(Judged, Protocol):
    """The result of an evaluator, as far as `why` needs it."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def score(self) -> float: ...
    @property
    def weight(self) -> float: ...
    @property
    def error(self) -> str | None: ...
    @property
    def failed_required(self) -> bool: ...


def why(row: Judged) -> tuple[str, str]:
    """The evaluator that cost the case the most score, and its first misses or its reasoning.

    A required evaluator that failed comes first: it alone makes the score 0.
    """
    judged = [result for result in row.evaluator_results if result.error is None]
    if not judged:
        return "", _own_reason(row, are_criteria=True)
    costliest = max(judged, key=_cost)
    return costliest.name, _reason(costliest) or _own_reason(row, are_criteria=True)


def _cost(result: JudgedBy) -> tuple[bool, float, float]:
    lost = 1.0 - result.score
    return result.failed_required, lost * result.weight, lost


def _reason(result: JudgedBy) -> str:
    members = [member for member in result.evaluator_results if member.error is None]
    if members and all(miss.startswith("[") for miss in result.misses):
        costliest = max(members, key=_cost)
        if reason := _reason(costliest):
            return f"[{costliest.name}] {reason}"
    return _own_reason(result, are_criteria=result.type in MISSES_ARE_CRITERIA)


def _own_reason(judged: Judged, *, are_criteria: bool) -> str:
    if judged.misses:
        misses = "; ".join(miss[:_REASON_KEPT] for miss in judged.misses[:3])
        return (f"{MISSED}{misses}" if are_criteria else misses)[:_REASON_KEPT]
    return judged.reasoning[:_REASON_KEPT]
