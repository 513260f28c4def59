"""The scheduler: separate slots for target calls and evaluators, limits, and errors that affect only their case."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from agentv.evaluators.base import EvaluationContext, Evaluator, Need
from agentv.plan.build import build_plan
from agentv.plan.options import RunOptions
from agentv.plan.plan import OPEN_SUITES, RunPlan
from agentv.results import CaseResult, Score
from agentv.run import execute
from agentv.run.execute import UNWRITTEN, Execution
from agentv.targets.provider import Reply, Request


class Probe(Evaluator):
    """An evaluator that calls the function of the test."""

    function: Callable[[EvaluationContext], Any] = Field(exclude=True)

    async def evaluate(self, context: EvaluationContext) -> Score:
        return Score(await self.function(context))


def probe(function: Callable[[EvaluationContext], Any]) -> Probe:
    return Probe(name="probe", type="probe", function=function)


def plan_of(tmp_path: Path, cases: int, evaluator: Evaluator, **options: Any) -> RunPlan:
    suite = tmp_path / "suite.yaml"
    suite.write_text("evalcases:\n" + "".join(f"  - {{id: c{n}, input: question {n}}}\n" for n in range(cases)))
    return build_plan(
        RunOptions(paths=("suite.yaml",), **options),
        tmp_path,
        function_targets=["f"],
        added_evaluators=[evaluator],
    )


async def one(_: EvaluationContext) -> float:
    return 1.0


async def test_slow_evaluators_slow_down_target_calls(tmp_path: Path) -> None:
    """With N workers: N cases being judged, N more answered meanwhile, and no further call until one has a verdict."""
    called: list[str] = []
    judged: list[str] = []
    verdicts = asyncio.Semaphore(0)
    most_judged = being_judged = 0

    async def ask(request: Request) -> Reply:
        called.append(request.eval_id)
        return Reply.of_text("x")

    async def waits(context: EvaluationContext) -> float:
        nonlocal being_judged, most_judged
        judged.append(context.case.id)
        being_judged += 1
        most_judged = max(most_judged, being_judged)
        await verdicts.acquire()
        being_judged -= 1
        return 1.0

    rows: list[CaseResult] = []

    async def deliver(row: CaseResult) -> None:
        rows.append(row)

    async def settled() -> tuple[int, int, int]:
        for _ in range(50):
            await asyncio.sleep(0)
        return len(called), len(judged), len(rows)

    plan = plan_of(tmp_path, 30, probe(waits), workers=3)
    running = asyncio.create_task(Execution(plan, "run", deliver, functions={"f": ask}).run())
    while len(judged) < 3:
        await asyncio.sleep(0)
    assert await settled() == (6, 3, 0)
    verdicts.release()
    assert await settled() == (7, 4, 1)
    for _ in range(29):
        verdicts.release()
    await asyncio.wait_for(running, 20)
    assert (len(rows), most_judged) == (30, 3)


class NoJournal:
    """A journal without answers: those of `Probe`, which calls nothing, are recorded with their rows."""

    answers = 0

    def has(self, *_: object) -> bool:
        return False

    async def find(self, _: object) -> CaseResult:
        raise NotImplementedError

    async def unfinished(self, *_: object) -> CaseResult | None:
        return None

    async def keep(self, _: CaseResult) -> None:
        raise NotImplementedError


@pytest.mark.parametrize(("quick", "calls"), [(0.0, 3), (60.0, 20)], ids=["slow target", "quick target"])
async def test_slot_of_a_target_call_is_held_until_its_row_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: float, calls: int
) -> None:
    monkeypatch.setattr(execute, "QUICK", quick)
    monkeypatch.setattr(execute, "SOON", 60.0)
    disk, called = asyncio.Event(), 0

    async def ask(_: Request) -> Reply:
        nonlocal called
        called += 1
        return Reply.of_text("x")

    async def deliver(_: CaseResult) -> None:
        await disk.wait()

    plan = plan_of(tmp_path, 20, probe(one), workers=3)
    run = Execution(plan, "run", deliver, functions={"f": ask}, journal=NoJournal())
    running = asyncio.create_task(run.run())
    while called < calls:
        await asyncio.sleep(0)
    for _ in range(100):
        await asyncio.sleep(0)
    assert called == calls
    disk.set()
    await asyncio.wait_for(running, 20)
    assert called == 20


async def test_rows_that_wait_for_the_disk_hold_no_place(tmp_path: Path) -> None:
    """With one worker, cases are answered and judged while no row can be written, up to a limit."""
    disk = asyncio.Event()
    judged = written = 0

    async def ask(_: Request) -> Reply:
        return Reply.of_text("x")

    async def judge(_: EvaluationContext) -> float:
        nonlocal judged
        judged += 1
        return 1.0

    async def deliver(_: CaseResult) -> None:
        nonlocal written
        await disk.wait()
        written += 1

    cases = UNWRITTEN + 50
    plan = plan_of(tmp_path, cases, probe(judge), workers=1)
    running = asyncio.create_task(Execution(plan, "run", deliver, functions={"f": ask}).run())
    while judged < UNWRITTEN:
        await asyncio.sleep(0)
    for _ in range(50):
        await asyncio.sleep(0)
    assert judged <= UNWRITTEN + 2
    disk.set()
    await asyncio.wait_for(running, 20)
    assert (judged, written) == (cases, cases)


async def test_target_calls_in_flight_never_exceed_the_number_of_workers(tmp_path: Path) -> None:
    in_flight = most = 0

    async def ask(_: Request) -> Reply:
        nonlocal in_flight, most
        in_flight += 1
        most = max(most, in_flight)
        await asyncio.sleep(0)
        in_flight -= 1
        return Reply.of_text("x")

    async def deliver(_: CaseResult) -> None: ...

    await Execution(plan_of(tmp_path, 50, probe(one), workers=7), "run", deliver, functions={"f": ask}).run()
    assert most == 7


async def test_recorded_cases_are_skipped(tmp_path: Path) -> None:
    called: list[str] = []

    async def ask(request: Request) -> Reply:
        called.append(request.eval_id)
        return Reply.of_text("x")

    async def deliver(_: CaseResult) -> None: ...

    plan = plan_of(tmp_path, 300, probe(one))
    done = {item.key for lane in plan.lanes for item in lane.items() if item.case.id != "c250"}
    await Execution(plan, "run", deliver, done.__contains__, functions={"f": ask}).run()
    assert called == ["c250"]


async def test_crash_affects_only_the_row_of_its_case(tmp_path: Path) -> None:
    async def ask(request: Request) -> Reply:
        if request.eval_id == "c1":
            raise RuntimeError("boom")
        return Reply.of_text("x")

    async def crashes(context: EvaluationContext) -> float:
        if context.case.id == "c2":
            raise KeyError("lost")
        return 1.0

    rows: dict[str, CaseResult] = {}

    async def deliver(row: CaseResult) -> None:
        rows[row.eval_id] = row

    await Execution(plan_of(tmp_path, 4, probe(crashes)), "run", deliver, functions={"f": ask}).run()
    assert {i: row.error.stage if row.error else None for i, row in rows.items()} == {
        "c0": None,
        "c1": "target",
        "c2": "evaluator",
        "c3": None,
    }
    assert rows["c1"].error is not None
    assert "boom" in rows["c1"].error.message


async def test_run_ends_with_the_error_when_a_row_cannot_be_written(tmp_path: Path) -> None:
    async def ask(_: Request) -> Reply:
        return Reply.of_text("x")

    async def deliver(_: CaseResult) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        await Execution(plan_of(tmp_path, 50, probe(one)), "run", deliver, functions={"f": ask}).run()


async def test_slow_target_does_not_block_the_others(tmp_path: Path) -> None:
    (tmp_path / "agentv.config.yaml").write_text(
        "targets:\n  slow: {provider: mock, response: x, delay_ms: 600000}\n  fast: {provider: mock, response: x}\n"
    )
    (tmp_path / "suite.yaml").write_text(
        "evalcases:\n"
        + "".join(f"  - {{id: c{n}, input: q, evaluators: [{{type: equals, value: x}}]}}\n" for n in range(60))
    )
    plan = build_plan(RunOptions(paths=("suite.yaml",), targets=("slow", "fast")), tmp_path)
    rows: list[CaseResult] = []
    all_fast = asyncio.Event()

    async def deliver(row: CaseResult) -> None:
        rows.append(row)
        if len(rows) == 60:
            all_fast.set()

    running = asyncio.create_task(Execution(plan, "run", deliver).run())
    await asyncio.wait_for(all_fast.wait(), 20)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert {row.target for row in rows} == {"fast"}


def suites_of(tmp_path: Path, **sizes: int) -> RunPlan:
    for name, cases in sizes.items():
        lines = "".join(f"  - {{id: c{n}, input: q, evaluators: [{{type: equals, value: x}}]}}\n" for n in range(cases))
        (tmp_path / f"{name}.yaml").write_text(f"evalcases:\n{lines}")
    return build_plan(RunOptions(paths=tuple(f"{name}.yaml" for name in sizes)), tmp_path, function_targets=["f"])


def test_suites_are_interleaved_and_keep_their_order(tmp_path: Path) -> None:
    (lane,) = suites_of(tmp_path, a=4, b=1, c=2).lanes
    order = [f"{item.planned.suite.name}{item.case.id[1:]}" for item in lane.items()]
    assert order == ["a0", "b0", "c0", "a1", "c1", "a2", "a3"]
    assert [item.case.id for item in lane.items_of(lane.work[0][0])] == ["c0", "c1", "c2", "c3"]


def test_number_of_open_suites_is_bounded(tmp_path: Path) -> None:
    (lane,) = suites_of(tmp_path, **{f"s{n:02}": 2 for n in range(OPEN_SUITES + 3)}).lanes
    order = [item.planned.suite.name for item in lane.items()]
    assert len(order) == 2 * (OPEN_SUITES + 3)
    first_round = [f"s{n:02}" for n in range(OPEN_SUITES)]
    assert order[: 2 * OPEN_SUITES] == 2 * first_round
    assert sorted(order) == sorted(2 * [f"s{n:02}" for n in range(OPEN_SUITES + 3)])


async def test_long_suite_does_not_delay_a_short_one(tmp_path: Path) -> None:
    """A short suite after a long one is finished while the long one still hangs."""
    plan = suites_of(tmp_path, long=300, short=3)
    rows: list[CaseResult] = []
    short_is_done = asyncio.Event()

    async def ask(request: Request) -> Reply:
        if request.eval_id == "c5":
            await asyncio.Event().wait()
        return Reply.of_text("x")

    async def deliver(row: CaseResult) -> None:
        rows.append(row)
        if sum(row.suite == "short" for row in rows) == 3:
            short_is_done.set()

    running = asyncio.create_task(Execution(plan, "run", deliver, functions={"f": ask}).run())
    await asyncio.wait_for(short_is_done.wait(), 20)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


class Script(Probe):
    """Holds a script slot, like an evaluator that starts a script."""

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({Need.SCRIPTS})

    async def evaluate(self, context: EvaluationContext) -> Score:
        assert context.runtime is not None
        async with context.runtime.script_slots or nullcontext():
            return Score(await self.function(context))


class Asks(Probe):
    """Needs only a judge."""

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({Need.JUDGE})


async def test_judge_evaluators_do_not_wait_for_script_slots(tmp_path: Path) -> None:
    """All cases in progress ask their judge although every script slot is taken by a script that hangs."""
    cases, running_scripts, most = 40, 0, 0
    judged, all_judged, release = 0, asyncio.Event(), asyncio.Event()

    async def hangs(_: EvaluationContext) -> float:
        nonlocal running_scripts, most
        running_scripts += 1
        most = max(most, running_scripts)
        await release.wait()
        running_scripts -= 1
        return 1.0

    async def asks(_: EvaluationContext) -> float:
        nonlocal judged
        judged += 1
        if judged == cases:
            all_judged.set()
        return 1.0

    async def ask(_: Request) -> Reply:
        return Reply.of_text("x")

    rows: list[CaseResult] = []

    async def deliver(row: CaseResult) -> None:
        rows.append(row)

    suite = tmp_path / "suite.yaml"
    suite.write_text("evalcases:\n" + "".join(f"  - {{id: c{n}, input: question {n}}}\n" for n in range(cases)))
    plan = build_plan(
        RunOptions(paths=("suite.yaml",), workers=40),
        tmp_path,
        function_targets=["f"],
        added_evaluators=[
            Script(name="script", type="probe", function=hangs),
            Script(name="second", type="probe", function=hangs),
            Script(name="third", type="probe", function=hangs),
            Asks(name="asks", type="probe", function=asks),
        ],
    )
    running = asyncio.create_task(Execution(plan, "run", deliver, functions={"f": ask}).run())
    await asyncio.wait_for(all_judged.wait(), 20)
    assert rows == []
    slots = min(3 * cases, max(32, 4 * (os.cpu_count() or 1), 40))
    assert running_scripts == most == slots
    release.set()
    await asyncio.wait_for(running, 20)
    assert len(rows) == cases
    assert most == slots
