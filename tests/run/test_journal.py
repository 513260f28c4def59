"""Which answers are recorded before their rows, and how recorded answers are judged."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agentv.evaluators.base import EvaluationContext
from agentv.results import CaseResult, RowKey
from agentv.run import execute
from agentv.run.execute import Execution
from agentv.targets.provider import Reply, Request
from tests.run.test_execute import Asks, Probe, plan_of


@dataclass
class Kept:
    """A journal in memory."""

    rows: dict[RowKey, CaseResult] = field(default_factory=dict)
    before: dict[RowKey, CaseResult] = field(default_factory=dict)

    @property
    def answers(self) -> int:
        return len(self.before)

    def has(self, key: RowKey, case_sha256: str | None) -> bool:
        del case_sha256
        return key in self.before

    async def find(self, key: RowKey) -> CaseResult:
        return self.before[key]

    async def unfinished(self, key: RowKey, case_sha256: str | None) -> CaseResult | None:
        del key, case_sha256
        return None

    async def keep(self, row: CaseResult) -> None:
        await asyncio.sleep(0)
        self.rows[row.key] = row


async def run(tmp_path: Path, evaluator: Probe, journal: Kept, cases: int = 2) -> tuple[list[str], list[CaseResult]]:
    """The eval ids of the target calls, and the rows."""
    called: list[str] = []
    rows: list[CaseResult] = []

    async def ask(request: Request) -> Reply:
        called.append(request.eval_id)
        if request.eval_id == "c1":
            raise RuntimeError("no answer")
        return Reply.of_text("x")

    async def deliver(row: CaseResult) -> None:
        rows.append(row)

    plan = plan_of(tmp_path, cases, evaluator, workers=1)
    await asyncio.wait_for(Execution(plan, "run", deliver, functions={"f": ask}, journal=journal).run(), 20)
    return called, rows


async def test_answer_is_recorded_before_a_judge_is_called(tmp_path: Path) -> None:
    journal = Kept()

    async def judge(_: EvaluationContext) -> float:
        assert [(key.eval_id, row.candidate_answer) for key, row in journal.rows.items()] == [("c0", "x")]
        return 1.0

    _, rows = await run(tmp_path, Asks(name="asks", type="probe", function=judge), journal)
    assert [row.error and row.error.stage for row in rows] == [None, "target"]
    assert [key.eval_id for key in journal.rows] == ["c0"]  # a failed call has a row immediately


async def test_answer_is_recorded_only_if_a_local_evaluator_is_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execute, "SOON", 0.001)
    journal = Kept()

    async def quick(_: EvaluationContext) -> float:
        return 1.0

    async def slow(context: EvaluationContext) -> float:
        async with asyncio.timeout(20):
            # The second answer waits for the judging slot that this evaluator occupies.
            while len(journal.rows) < 2 and context.case.id == "c0":
                await asyncio.sleep(0.001)
        return 1.0

    await run(tmp_path, Probe(name="quick", type="probe", function=quick), journal, cases=4)
    assert not journal.rows
    await run(tmp_path, Probe(name="slow", type="probe", function=slow), journal, cases=4)
    assert {key.eval_id for key in journal.rows} >= {"c0", "c2"}


async def test_recorded_answer_is_judged_like_a_new_one(tmp_path: Path) -> None:
    journal = Kept()

    async def judge(context: EvaluationContext) -> float:
        assert context.candidate.answer == "x"
        return 0.5

    asks = Asks(name="asks", type="probe", function=judge)
    _, first = await run(tmp_path, asks, journal, cases=1)
    again = Kept(before=journal.rows)
    called, second = await run(tmp_path, asks, again, cases=1)
    assert called == []
    assert not again.rows
    (one,), (two,) = first, second
    assert (one.candidate_answer, one.trace_summary, one.started_at, one.score, one.duration_ms) == (
        two.candidate_answer,
        two.trace_summary,
        two.started_at,
        two.score,
        two.duration_ms,
    )
