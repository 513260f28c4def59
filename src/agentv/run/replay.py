"""Answers of targets from the record of a run (`--replay`). Nothing is called."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from agentv.codec import decode, encode
from agentv.errors import NotRecordedError
from agentv.evidence import CaseRecord, ReplaySource
from agentv.jsonio import dump_line
from agentv.judge.replay import RECORD_AGAIN, JudgeReplay
from agentv.messages import Message, whole_text
from agentv.plan.plan import WorkItem
from agentv.redact import Redactor
from agentv.results import CaseError, CaseResult, RowKey
from agentv.run.case import Answered, answered_before, now
from agentv.suite.case_records import file_digests
from agentv.text import all_of, first_difference


@dataclass(frozen=True, slots=True)
class Replay:
    """A recorded run that answers for all targets and judges of a new run."""

    source: ReplaySource
    redactor: Redactor
    judges: JudgeReplay

    @classmethod
    def of(cls, source: ReplaySource, redactor: Redactor) -> Replay:
        return cls(source, redactor, JudgeReplay(source, redactor))

    @property
    def run_id(self) -> str:
        return self.source.run_id

    async def answer(self, item: WorkItem) -> Answered:
        """The recorded answer to the case, or the recorded error. If there is none, an error that says what differs."""
        return await asyncio.to_thread(self._answer, item)

    def _answer(self, item: WorkItem) -> Answered:
        try:
            row = self._find(item)
        except NotRecordedError as error:
            return Answered(now(), None, CaseError("target", str(error)), recorded=True)
        if row.error is not None and row.error.stage != "evaluator":
            return Answered(now(), None, row.error, row.token_usage, recorded=True)
        if row.replayed is not None and row.trace_summary is not None:  # its own cost is 0: that of a replayed call
            row = replace(row, cost_usd=row.trace_summary.get("cost_usd"))
        return replace(answered_before(row), started_at=now())

    def _find(self, item: WorkItem) -> CaseResult:
        text, key = self.redactor.text, item.key
        key = RowKey(text(key.suite), text(key.eval_id), text(key.target), key.attempt)
        row = self.source.row(key)
        if row is None:
            raise self._missing(key)
        case = self.source.case(key)
        change = None if case is None else self._change(item, case)
        if change is not None:
            raise NotRecordedError(
                f"case '{key.eval_id}' has changed since run {self.run_id}: {change}", next_step=RECORD_AGAIN
            )
        return row

    def _change(self, item: WorkItem, recorded: CaseRecord) -> str | None:
        """How the input of a case differs from the recorded one; None if it is the same."""
        asked = self.redactor.value(_as_data(item.case.input_messages))
        if asked != _as_data(recorded.input_messages):
            now_asked = self.redactor.text(_as_text(item.case.input_messages))
            return f"its input {first_difference(_as_text(recorded.input_messages), now_asked)}"
        user = item.case.user
        for part, recorded_text, text in (
            (
                "its list of turns",
                _turns_as_text(recorded.turns),
                _turns_as_text([encode(turn) for turn in item.case.turns]),
            ),
            ("its `user`", _user_as_text(recorded.user), _user_as_text(None if user is None else encode(user))),
        ):
            if recorded_text != (masked := self.redactor.text(text)):
                return f"{part} {first_difference(recorded_text, masked)}"
        now_files, then_files = file_digests(item.case, item.planned.suite.files), recorded.files or {}
        changed = sorted(path for path in {*now_files, *then_files} if now_files.get(path) != then_files.get(path))
        return f"the file {changed[0]} is not the same" if changed else None

    def _missing(self, key: RowKey) -> NotRecordedError:
        others = self.source.keys_of(key.eval_id)
        missing = f"the record of run {self.run_id} has no row of case '{key.eval_id}'"
        if not others:
            return NotRecordedError(missing, next_step="Record the run again, or select other cases with --case.")
        suites = sorted({other.suite for other in others})
        if key.suite not in suites:
            return NotRecordedError(
                f"{missing} in suite '{key.suite}', only in {all_of(suites)}",
                next_step="The name of a suite is its `dataset`, otherwise the name of its file.",
            )
        targets = sorted({other.target for other in others if other.suite == key.suite})
        if key.target not in targets:
            return NotRecordedError(
                f"{missing} with target '{key.target}', only with {all_of(targets)}",
                next_step="Select a recorded target with --target.",
            )
        return NotRecordedError(
            f"{missing} with target '{key.target}', attempt {key.attempt}",
            next_step="Record the run with more attempts.",
        )


def _as_data(messages: Iterable[Message]) -> list[dict[str, Any]]:
    return [message.to_dict() for message in messages]


def _turns_as_text(turns: Iterable[Mapping[str, Any]]) -> str:
    """What the user writes in each turn, with a line between turns: moving a message to another turn is a change."""
    said = [[decode(Message, message) for message in turn["messages"]] for turn in turns]
    return "\n".join(
        "\n".join([f"turn {number}:", *(_as_text([message]) for message in messages)])
        for number, messages in enumerate(said, 1)
    )


def _user_as_text(user: Mapping[str, Any] | None) -> str:
    """The settings of the model that plays the user, one per line."""
    return "\n".join(f"{name}: {value}" for name, value in (user or {}).items() if value is not None)


def _as_text(messages: Iterable[Message]) -> str:
    return "\n\n".join(whole_text(message) or dump_line(message.to_dict()) for message in messages)
