"""Results of an evaluation: scores, verdicts, evaluator results and rows."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, NamedTuple, TypedDict

from agentv.amounts import bounded, bounded_ledger
from agentv.codec import OMIT_DEFAULT, Between, decode, encode
from agentv.errors import ScoreError
from agentv.messages import Message, TokenUsage
from agentv.text import LONGEST_QUOTE, kind_of, without_controls

DEFAULT_THRESHOLD = 0.8
BORDERLINE = 0.6
CUT_OFF = ("length", "max_tokens")
"""Finish reasons of replies that ended at the token limit."""
ROUNDING_NOISE = 1e-6
"""How far outside 0 to 1 a score may be: the rounding error of a calculation, never another scale."""

Unit = Annotated[float, Between(0, 1)]
Counted = Annotated[int, Between(1, 2**63 - 1)]


class Verdict(StrEnum):
    """The meaning of a score relative to its threshold."""

    PASS = "pass"  # noqa: S105 - a verdict, not a password
    BORDERLINE = "borderline"
    FAIL = "fail"


def verdict_for(score: float, threshold: float = DEFAULT_THRESHOLD) -> Verdict:
    """`pass` from the threshold up, `borderline` from 0.6 up, otherwise `fail`."""
    if score >= threshold:
        return Verdict.PASS
    return Verdict.BORDERLINE if score >= BORDERLINE else Verdict.FAIL


def valid_score(value: object) -> float:
    """`value` as a score from 0 to 1, without rounding noise. Raises ScoreError for anything else.

    A score on another scale, such as 8 of 10, is never clamped: it would turn into a pass.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        is_short = isinstance(value, str) and len(value) <= LONGEST_QUOTE
        quoted = json.dumps(value, ensure_ascii=False) if is_short else kind_of(value)
        raise ScoreError(f"score must be a number from 0 to 1, got {quoted}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ScoreError(f"score must be a finite number from 0 to 1, got {number}")
    if not -ROUNDING_NOISE <= number <= 1 + ROUNDING_NOISE:
        advice = "divide by the maximum of your scale" if number > 1 else "map your scale to 0 (worst) to 1 (best)"
        raise ScoreError(f"score must be between 0 and 1, got {number:.12g}; {advice}")
    return min(1.0, max(0.0, number)) + 0.0  # never -0.0


@dataclass(frozen=True, slots=True)
class Score:
    """What an evaluator returns. Raises ScoreError unless the score is a number from 0 to 1."""

    score: float
    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    reasoning: str = ""
    details: Mapping[str, Any] | None = None
    warnings: tuple[str, ...] = ()
    evaluator_results: tuple[EvaluatorResult, ...] = ()
    judge_proxy: Mapping[str, Any] | None = None
    judge: Mapping[str, Any] | None = None
    """Judge usage of the evaluator itself: target, calls, tokens, cost."""
    execution: Mapping[str, Any] | None = None
    """The node that ran its script, and how often it was tried."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "score", valid_score(self.score))
        for name in ("hits", "misses", "warnings"):
            items = getattr(self, name)
            if isinstance(items, str) or not all(isinstance(item, str) for item in items):
                raise TypeError(f"`{name}` of a score must be strings, got {kind_of(items)}")


class JudgeSpend(TypedDict, total=False):
    """Judge usage as recorded in a row. Rows of older versions lack some of these keys."""

    target: str | None
    call_count: int
    max_calls: int
    batch_used: bool
    refused_calls: int
    failed_calls: int
    retries: int
    cache_hits: int
    from_record: int
    targets: Mapping[str, int]
    token_usage: TokenUsage | None
    cost_usd: float | None
    duration_ms: float


class ExecutionRecord(TypedDict, total=False):
    """Where a script or a command ran, in a run with nodes."""

    node: str
    tries: int
    """How often it was started: again after each lost node."""
    lost_on: tuple[str, ...]
    """The nodes that were lost while it ran."""
    lost_calls: int
    """Judge calls of lost attempts. They count in the budget, but not in the ledger of the last attempt."""
    lost_cost_usd: float | None


def _outcome(verdict: Verdict, score: float, error: str | None) -> str:
    """The outcome in a few words. Scores are rounded down: 0.799 must not look as if it reached 0.80."""
    if error is None:
        return f"{verdict.value}, score {math.floor(score * 100 + 1e-9) / 100:.2f}"
    return f"error, {' '.join(error.split())[:LONGEST_QUOTE]}"


@dataclass(frozen=True, slots=True)
class EvaluatorResult:
    """The result of one evaluator for one answer. With `error` set, the score is 0 and the verdict is `fail`."""

    name: str
    type: str
    score: Unit
    weight: float
    verdict: Verdict
    required: bool = False
    error: str | None = None
    warnings: tuple[str, ...] = ()
    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    reasoning: str = ""
    details: Mapping[str, Any] | None = None
    duration_ms: float = 0.0
    judge_proxy: Annotated[Mapping[str, Any] | None, OMIT_DEFAULT, JudgeSpend] = None
    judge: Annotated[Mapping[str, Any] | None, OMIT_DEFAULT, JudgeSpend] = None
    """Judge usage of the evaluator itself; `judge_proxy` is the judge usage of a script."""
    evaluator_results: Annotated[tuple[EvaluatorResult, ...], OMIT_DEFAULT] = ()
    execution: Annotated[Mapping[str, Any] | None, OMIT_DEFAULT, ExecutionRecord] = None
    """In a run with nodes: the node that ran the script, and how often it was tried."""

    def __repr__(self) -> str:
        return f"<EvaluatorResult {self.name!r}: {_outcome(self.verdict, self.score, self.error)}>"

    @property
    def failed_required(self) -> bool:
        return self.required and self.verdict is not Verdict.PASS

    def to_dict(self) -> dict[str, Any]:
        return encode(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> EvaluatorResult:
        return decode(cls, data)


@dataclass(frozen=True, slots=True)
class CaseError:
    """Why no score could be computed: the stage that failed (`target`, `evaluator`, `run`) and a message."""

    stage: str
    message: str
    not_called: Annotated[bool, OMIT_DEFAULT] = False
    """Whether the target was not called, because it was declared down."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", without_controls(self.message))


class PassIf(StrEnum):
    """When a case with several attempts passes."""

    ANY = "any"
    ALL = "all"
    MAJORITY = "majority"
    MEAN = "mean"


@dataclass(frozen=True, slots=True)
class Trials:
    """How often a case is attempted with each target, and how its attempts become one verdict (`agentv.trials`)."""

    count: Counted = 1
    pass_if: PassIf = PassIf.MAJORITY
    stop_early: bool = False
    """Whether attempts that cannot change the verdict are not run."""


def variant_of(target: str, prompt: str | None) -> str:
    """The name of a variant: the target, and the prompt if the suite has several. Rows are identified by it.

    Ids of prompts contain no brackets, and a run with prompts has no target whose name ends like this.
    """
    return target if prompt is None else f"{target} [{prompt}]"


def has_prompt(variant: str, prompt: str | None) -> bool:
    """Whether a variant is one of this prompt."""
    return prompt is None or variant.endswith(f" [{prompt}]")


def is_of(variant: str, target: str) -> bool:
    """Whether a variant is this one, or one of this target."""
    return variant == target or (variant.startswith(f"{target} [") and variant.endswith("]"))


class CaseKey(NamedTuple):
    """Identifies a case with one variant. In a comparison, the variant is empty if it is not part of the pairing."""

    suite: str
    eval_id: str
    target: str
    """The variant: the target or, in a run with prompts, `target [prompt]` (`variant_of`)."""

    def to_dict(self) -> dict[str, str]:
        return {"suite": self.suite, "eval_id": self.eval_id, "target": self.target}


class RowKey(NamedTuple):
    """Identifies a row within a run."""

    suite: str
    eval_id: str
    target: str
    """The variant, as in `CaseKey`."""
    attempt: int

    @property
    def case(self) -> CaseKey:
        return CaseKey(self.suite, self.eval_id, self.target)


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """One turn of a conversation: what the user wrote, and what the target answered."""

    input_messages: tuple[Message, ...] = ()
    answer: str = ""
    output_messages: tuple[Message, ...] = ()
    token_usage: Annotated[TokenUsage | None, OMIT_DEFAULT] = None
    cost_usd: Annotated[float | None, OMIT_DEFAULT] = None
    duration_ms: Annotated[float | None, OMIT_DEFAULT] = None
    finish_reason: Annotated[str | None, OMIT_DEFAULT] = None
    model: Annotated[str | None, OMIT_DEFAULT] = None
    user_token_usage: Annotated[TokenUsage | None, OMIT_DEFAULT] = None
    """Usage of the model that played the user. The last turn includes the reply that ended the conversation."""
    user_cost_usd: Annotated[float | None, OMIT_DEFAULT] = None
    warnings: Annotated[tuple[str, ...], OMIT_DEFAULT] = ()
    cache_hit: Annotated[bool, OMIT_DEFAULT] = False
    unanswered: Annotated[bool, OMIT_DEFAULT] = False
    """True for the last turn of an errored row, if its target did not answer it."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One row of the results: one attempt of one eval case with one target."""

    run_id: str
    eval_id: str
    suite: str
    target: str
    attempt: Counted
    score: Unit
    verdict: Verdict
    error: CaseError | None = None
    candidate_answer: str = ""
    output_messages: tuple[Message, ...] = ()
    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    reasoning: str = ""
    evaluator_results: tuple[EvaluatorResult, ...] = ()
    trace_summary: Mapping[str, Any] | None = None
    token_usage: TokenUsage | None = None
    cost_usd: float | None = None
    duration_ms: float | None = None
    started_at: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    conversation_id: Annotated[str | None, OMIT_DEFAULT] = None
    finish_reason: str | None = None
    """Why the model stopped, as reported by the vendor; None if it did not say."""
    warnings: Annotated[tuple[str, ...], OMIT_DEFAULT] = ()
    """Values of the answer that could not be used, such as a cost that is out of range."""
    threshold: Unit | None = None
    """The score from which the case passes; None in rows of older versions."""
    case_sha256: str | None = None
    """Hash of the case, as in `cases.jsonl`."""
    model: str | None = None
    """The model that answered, as reported by the vendor; None if it did not say."""
    cache_hit: Annotated[bool, OMIT_DEFAULT] = False
    """Whether the answer was read from the cache, because the target has `cache: true`."""
    trials: Annotated[Trials | None, OMIT_DEFAULT] = None
    """If the case has several attempts: their number, and how they become one verdict."""
    prompt: Annotated[str | None, OMIT_DEFAULT] = None
    """The id of the prompt, if the suite has prompts."""
    turns: Annotated[tuple[TurnRecord, ...], OMIT_DEFAULT] = ()
    """The turns of a conversation. `candidate_answer` is the answer of the last one."""
    turn: Annotated[Counted | None, OMIT_DEFAULT] = None
    """Only in `answers.jsonl`: the number of the turn in this line, whose conversation was not finished."""
    execution: Annotated[Mapping[str, Any] | None, OMIT_DEFAULT, ExecutionRecord] = None
    """In a run with nodes: the node that ran the command of a `cli` target, and how often it was tried."""
    replayed: Annotated[str | None, OMIT_DEFAULT] = None
    """The id of the run whose answer and judge replies were used again (`--replay`). Nothing was called or paid."""

    def __post_init__(self) -> None:
        amounts = bounded(self.token_usage, self.cost_usd, self.duration_ms)
        if amounts.warnings:  # a row of an older version, or of another tool
            for name in ("token_usage", "cost_usd", "duration_ms"):
                object.__setattr__(self, name, getattr(amounts, name))
            object.__setattr__(self, "warnings", (*self.warnings, *amounts.warnings))

    def __repr__(self) -> str:
        error = self.error.message if self.error else None
        return f"<CaseResult {self.eval_id!r} ({self.variant}): {_outcome(self.verdict, self.score, error)}>"

    @property
    def variant(self) -> str:
        """The target, with the prompt if there is one."""
        return variant_of(self.target, self.prompt)

    @property
    def key(self) -> RowKey:
        return RowKey(self.suite, self.eval_id, self.variant, self.attempt)

    def to_dict(self) -> dict[str, Any]:
        data = encode(self)
        if self.prompt is None:
            return data
        # Next to the target: readers identify a row by the beginning of its line.
        head = {name: data.pop(name) for name in ("run_id", "eval_id", "suite", "target", "prompt")}
        return {**head, **data}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CaseResult:
        return decode(cls, data)


def judge_ledgers(results: Iterable[EvaluatorResult]) -> Iterator[Mapping[str, Any]]:
    """The judge usage of each evaluator, including composite members and lost attempts: calls, tokens and cost."""
    for result in results:
        for ledger in (result.judge_proxy, result.judge):
            if ledger is not None:
                yield bounded_ledger(ledger)
                if isinstance(embeddings := ledger.get("embeddings"), Mapping):
                    yield bounded_ledger(embeddings)
        if result.execution is not None and (lost := result.execution.get("lost_calls")):
            yield bounded_ledger({"call_count": lost, "cost_usd": result.execution.get("lost_cost_usd")})
        if result.evaluator_results:
            yield from judge_ledgers(result.evaluator_results)


def spend_of(row: CaseResult, *, answer_paid: bool = True) -> tuple[float, int]:
    """The known cost of a row in USD, and its number of judge calls.

    `answer_paid` is False for a recorded answer, whose cost belongs to an earlier run.
    """
    usd, calls = (row.cost_usd or 0.0) if answer_paid else 0.0, 0
    if answer_paid:
        usd += sum(turn.user_cost_usd or 0.0 for turn in row.turns)
    for ledger in judge_ledgers(row.evaluator_results):
        usd += ledger.get("cost_usd") or 0.0
        calls += ledger.get("call_count") or 0
    return usd, calls


def resumable_usd(row: CaseResult) -> float:
    """The known cost of what need not be called again for a row: its answer, or the turns of its conversation."""
    if not row.turns:
        return row.cost_usd or 0.0
    return sum((turn.cost_usd or 0.0) + (turn.user_cost_usd or 0.0) for turn in row.turns)


def weighted_mean(results: Iterable[EvaluatorResult]) -> float:
    """The mean of the scores by weight; 0 when all weights are 0."""
    pairs = [(result.score, result.weight) for result in results if result.weight > 0]
    if not pairs:
        return 0.0
    heaviest = max(weight for _, weight in pairs)
    shares = [(score, weight / heaviest) for score, weight in pairs]
    mean = math.fsum(score * share for score, share in shares) / math.fsum(share for _, share in shares)
    # Rounded, so that scores of 0.8 have the mean 0.8 whatever their weights.
    return min(1.0, max(0.0, round(mean, 12)))
