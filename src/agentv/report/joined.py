"""Rows joined with what was asked and expected, and with their judge calls."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from agentv.evidence import CaseRecord, JudgeCallRecord
from agentv.messages import Conversation, Message
from agentv.record.line_index import CaseIndex, JudgeCallIndex
from agentv.record.reading import heads_of
from agentv.record.run_dir import RESULTS, RunDirectory
from agentv.report.row_source import RowSource
from agentv.results import CaseResult, EvaluatorResult, RowKey


@dataclass(frozen=True, slots=True)
class Asked(Conversation):
    """The messages of a case as a conversation."""

    messages: tuple[Message, ...]


@dataclass(slots=True)
class JoinedRun:
    """The rows of a results file and, if it is in a run directory, the cases and judge calls of the run."""

    source: RowSource
    _cases: CaseIndex | None = None
    _calls: JudgeCallIndex | None = None
    _executions: Counter[RowKey] = field(default_factory=Counter)

    @classmethod
    def of(cls, source: RowSource, *, with_calls: bool = False) -> JoinedRun:
        if source.path.name != RESULTS or not source.manifest:
            return cls(source)
        directory = RunDirectory.open(source.path.parent)
        joined = cls(source, CaseIndex(directory), JudgeCallIndex(directory) if with_calls else None)
        for index in (joined._cases, joined._calls):
            if index is not None:
                index.refresh()
        if with_calls:
            superseded = (head for _, head in heads_of(directory.superseded))
            joined._executions.update(head.key for head in superseded if head is not None)
        return joined

    def case(self, row: CaseResult) -> CaseRecord | None:
        return None if self._cases is None else self._cases.case(row.key)

    def calls(self, row: CaseResult) -> list[JudgeCallRecord]:
        """The judge calls of this row, without those of superseded rows."""
        if self._calls is None:
            return []
        execution = 1 + self._executions[row.key]
        return [call for call in self._calls.calls(row.key) if (call.execution or 1) == execution]


def question_of(case: CaseRecord | None, row: CaseResult) -> str | None:
    """The question of a case as text, including its system prompt. If a model played the user, the row has it."""
    if case is None:
        return None
    is_played = case.user is not None and row.turns
    asked = Asked(
        tuple(said for turn in row.turns for said in turn.input_messages) if is_played else case.input_messages
    )
    system = asked.system_prompt
    return asked.question if system is None else f"{system}\n\n{asked.question}"


def scores_of(row: CaseResult) -> dict[str, float]:
    """The score of each evaluator by name, without those that errored."""
    return {result.name: result.score for result in row.evaluator_results if result.error is None}


def flattened(results: tuple[EvaluatorResult, ...], path: tuple[str, ...] = ()) -> list[tuple[str, EvaluatorResult]]:
    """All evaluator results with their names; a member of a composite is `composite/member`."""
    flat: list[tuple[str, EvaluatorResult]] = []
    for result in results:
        name = (*path, result.name)
        flat += [("/".join(name), result), *flattened(result.evaluator_results, name)]
    return flat
