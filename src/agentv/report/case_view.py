"""One row of a run with everything that was recorded about it, and how its score was made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from agentv.codec import encode
from agentv.evidence import CaseRecord, EvaluatorRecord, JudgeCallRecord
from agentv.messages import Message
from agentv.record.reading import RowHead, RunReader
from agentv.report.format import format_score
from agentv.results import CaseResult, EvaluatorResult, judge_ledgers, weighted_mean
from agentv.text import plural

_SHOWN_TURNS = 8


@dataclass(frozen=True, slots=True)
class CaseView:
    """A row, its case and its judge calls."""

    reader: RunReader
    row: CaseResult
    case: CaseRecord | None
    """What was asked and expected; None in runs of older versions."""
    calls: tuple[JudgeCallRecord, ...]
    """The judge calls of this row, in the order of its evaluators."""
    earlier_calls: tuple[JudgeCallRecord, ...] = ()
    """The judge calls of superseded rows of the same case, target and attempt."""
    sent: tuple[Message, ...] | None = None
    """What was sent, if the target added something to the messages of the case."""

    @classmethod
    def read(cls, reader: RunReader, head: RowHead) -> CaseView:
        row = reader.row_of(head)
        assert row is not None  # noqa: S101 - the head was read from the same file
        execution = reader.execution(head.key)
        calls = reader.judge_calls(head.key, near=head if execution == 1 else None, expected=calls_made(row))
        return cls.of(reader, row, reader.case(row.key, row.case_sha256), calls, execution)

    @classmethod
    def of(
        cls,
        reader: RunReader,
        row: CaseResult,
        case: CaseRecord | None,
        calls: Iterable[JudgeCallRecord],
        execution: int,
    ) -> CaseView:
        """A row that was judged `execution` times, with all its judge calls in any order."""
        order = {name: place for place, name in enumerate(_names(row.evaluator_results))}
        ordered = sorted(
            calls, key=lambda call: (call.execution or 1, order.get(call.evaluator, len(order)), call.index)
        )
        return cls(
            reader,
            row,
            case,
            tuple(call for call in ordered if (call.execution or 1) == execution),
            tuple(call for call in ordered if (call.execution or 1) != execution),
        )

    @property
    def run_id(self) -> str:
        return str(self.reader.manifest.get("run_id") or self.reader.directory.path.name)

    @property
    def threshold(self) -> float | None:
        """The score from which the case passes; None if it was not recorded."""
        if self.row.threshold is not None or self.case is None:
            return self.row.threshold
        return self.case.threshold

    def evaluator(self, name: str) -> EvaluatorRecord | None:
        """The evaluator with this name, as it was set up for the case."""
        return next(
            (found for found in _records(self.case.evaluators if self.case else ()) if found.name == name), None
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything that was recorded, as one JSON object."""
        calls = [*self.earlier_calls, *self.calls]
        return {
            "run_id": self.run_id,
            "run_dir": str(self.reader.directory.path),
            "row": self.row.to_dict(),
            "case": None if self.case is None else encode(self.case),
            "judge_calls": [encode(call) for call in calls],
        }


def calls_made(row: CaseResult) -> int:
    """The number of judge calls that the evaluators of a row report."""
    return sum(ledger.get("call_count") or 0 for ledger in judge_ledgers(row.evaluator_results))


def _names(results: Sequence[EvaluatorResult]) -> Iterator[str]:
    for result in results:
        yield result.name
        yield from _names(result.evaluator_results)


def _records(evaluators: Sequence[EvaluatorRecord]) -> Iterator[EvaluatorRecord]:
    for evaluator in evaluators:
        yield evaluator
        yield from _records(evaluator.members)


def score_sentences(row: CaseResult, threshold: float | None) -> list[str]:
    """How the score of a row was made, such as `0.5 x 0.80 + 0.5 x 0.20 = 0.50, needs 0.80`."""
    needs = "" if threshold is None else f", needs {format_threshold(threshold)}"
    errored = [result.name for result in row.evaluator_results if result.error is not None]
    if row.error is not None and not row.evaluator_results:
        return [f"no score: {row.error.stage} error"]
    weighed = [result for result in row.evaluator_results if result.weight > 0]
    total = sum(result.weight for result in weighed)
    sum_of = " + ".join(f"{_share(result.weight / total)} x {format_score(result.score)}" for result in weighed)
    mean = format_score(weighted_mean(row.evaluator_results))
    if not weighed:
        sentences = [f"{format_score(row.score)}{needs}"]
    elif failed := [result.name for result in row.evaluator_results if result.failed_required]:
        verb = "is required and did not pass" if len(failed) == 1 else "are required and did not pass"
        sentences = [f"{', '.join(failed)} {verb}: the score is 0", f"without `required`: {sum_of} = {mean}{needs}"]
    elif len(weighed) == 1:
        sentences = [f"{format_score(row.score)}{needs}"]
    else:
        sentences = [f"{sum_of} = {format_score(row.score)}{needs}"]
    if errored:
        sentences.append(f"{', '.join(errored)} errored: the case is counted as an error, not as a failure")
    elif row.error is not None:
        sentences.append(f"{row.error.stage} error: the case is counted as an error, not as a failure")
    sentences += filter(None, map(_turns_sentence, row.evaluator_results))
    unweighed = [result.name for result in row.evaluator_results if result.weight <= 0]
    if unweighed and weighed:
        sentences.append(f"{', '.join(unweighed)}: weight 0, not part of the score")
    return sentences


def _turns_sentence(result: EvaluatorResult) -> str | None:
    """How the scores of the turns of a conversation became one, such as `turns: (1.00 + 0.50) / 2 = 0.75, ...`."""
    turns, how = result.evaluator_results, (result.details or {}).get("aggregation")
    if result.type != "turns" or result.error is not None or not turns:
        return None
    scores, score = [format_score(turn.score) for turn in turns], format_score(result.score)
    if how == "mean":
        total = f"({' + '.join(scores)}) / {len(turns)} = " if 1 < len(turns) <= _SHOWN_TURNS else ""
        return f"{result.name}: {total}{score}, the mean of {plural(len(turns), 'turn')}"
    if how == "min":
        lowest = min(turns, key=lambda turn: turn.score)
        return f"{result.name}: {score}, the lowest score of {plural(len(turns), 'turn')} ({lowest.name})"
    return f"{result.name}: {score}, the score of the last turn with evaluators ({turns[-1].name})"


def format_threshold(threshold: float) -> str:
    return f"{threshold:.2f}" if round(threshold, 2) == threshold else f"{threshold:g}"


def _share(share: float) -> str:
    return f"{share:.2g}"
