"""The Python door: `evaluate(...)` runs suites, or cases given in Python, and returns typed results.

import agentv

run = agentv.evaluate(
    cases=[{"id": "capital", "input": "What is the capital of France?"}],
    evaluators=[{"type": "contains", "value": "Paris"}],
    target=my_function,
)
assert run.passed, run.summary
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from agentv.errors import UsageError
from agentv.evaluators.base import Evaluator
from agentv.evaluators.function import FunctionEvaluator
from agentv.plan.build import build_plan
from agentv.plan.options import RunOptions
from agentv.record.run_dir import HOME, RUNS, make_private, new_run_id
from agentv.recorded import RunHooks, start_run
from agentv.report.summary import Summary
from agentv.results import CaseResult
from agentv.targets.gate import TargetGate
from agentv.targets.provider import TargetSettings
from agentv.targets.providers.function import Answerer, FunctionProvider

FilePath = str | PathLike[str]
AnyEvaluator = Mapping[str, Any] | Evaluator | Callable[..., Any]
INLINE = Path(HOME) / "inline"


@dataclass(frozen=True, slots=True)
class EvaluationRun:
    """What happened: a result for every case, target and attempt, and the summary."""

    run_id: str
    run_dir: Path
    results: tuple[CaseResult, ...]
    summary: Summary

    @property
    def passed(self) -> bool:
        """Whether every case has verdict pass."""
        return self.summary.exit_code == 0

    @property
    def exit_code(self) -> int:
        """What `agentv eval` would have exited with."""
        return self.summary.exit_code

    def __iter__(self) -> Iterator[CaseResult]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)


def evaluate(
    suites: FilePath | Sequence[FilePath] | None = None,
    *,
    cases: Sequence[Mapping[str, Any]] | None = None,
    evaluators: Sequence[AnyEvaluator] = (),
    target: str | Answerer | Sequence[str] | None = None,
    name: str = "evaluate",
    judge_target: str | None = None,
    config: FilePath | None = None,
    case: str | Sequence[str] = (),
    workers: int | None = None,
    repeat: int = 1,
    timeout: float | None = None,
    threshold: float | None = None,
    outputs: FilePath | None = None,
    run_dir: FilePath | None = None,
    on_result: Callable[[CaseResult], None] | None = None,
) -> EvaluationRun:
    """Run suites, or `cases` given here, and wait for the results. In a running event loop, await `evaluate_async`."""
    arguments = dict(locals())
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(evaluate_async(**arguments))
    raise UsageError(
        "evaluate() was called where an event loop is running already.",
        next_step="Use `await agentv.evaluate_async(...)` there: it takes the same arguments.",
    )


async def evaluate_async(
    suites: FilePath | Sequence[FilePath] | None = None,
    *,
    cases: Sequence[Mapping[str, Any]] | None = None,
    evaluators: Sequence[AnyEvaluator] = (),
    target: str | Answerer | Sequence[str] | None = None,
    name: str = "evaluate",
    judge_target: str | None = None,
    config: FilePath | None = None,
    case: str | Sequence[str] = (),
    workers: int | None = None,
    repeat: int = 1,
    timeout: float | None = None,
    threshold: float | None = None,
    outputs: FilePath | None = None,
    run_dir: FilePath | None = None,
    on_result: Callable[[CaseResult], None] | None = None,
) -> EvaluationRun:
    """Run suites, or `cases` given here.

    `target` is a function (question in, answer out), or the name of a configured target, or several names.
    `evaluators` join those of the suites: mappings as in YAML, `Evaluator` objects, or functions of the answer.
    The run is recorded like one of `agentv eval`.
    """
    cwd, run_id = Path.cwd(), new_run_id()
    written = [dict(item) for item in evaluators if isinstance(item, Mapping)]
    added = [_evaluator(item) for item in evaluators if not isinstance(item, Mapping)]
    paths = _paths(suites, cases, written, name, cwd / INLINE / run_id)
    if suites is not None and written:
        raise UsageError(
            "evaluators given as mappings go with `cases`.",
            next_step="Write them into the suite, or pass functions or Evaluator objects.",
        )
    function = target if callable(target) else None
    options = RunOptions(
        paths=paths,
        targets=() if function or target is None else ((target,) if isinstance(target, str) else tuple(target)),  # type: ignore[arg-type]
        judge_target=judge_target,
        config=str(config) if config is not None else None,
        cases=(case,) if isinstance(case, str) else tuple(case),
        workers=workers,
        repeat=repeat,
        timeout=timeout,
        threshold=threshold,
        outputs=str(outputs) if outputs is not None else None,
    )
    label = getattr(function, "__name__", type(function).__name__) if function else None
    home = cwd if cases is not None else None
    plan = build_plan(options, cwd, function_target=label, added_evaluators=added, home=home)
    run = start_run(plan, run_id, cwd / (run_dir if run_dir is not None else RUNS / run_id), cwd)
    results: list[CaseResult] = []

    def keep(row: CaseResult) -> None:
        results.append(row)
        if on_result is not None:
            on_result(row)

    ask = _gate(function, label, workers, timeout).invoke if function and label else None
    outcome = await run.run(RunHooks(function=ask, on_row=keep))
    if outcome.interrupted:
        raise asyncio.CancelledError
    order = {case_id: place for place, case_id in enumerate(i for p in plan.suites for i in p.suite.ids)}
    results.sort(key=lambda row: (order[row.eval_id], row.target, row.attempt))
    return EvaluationRun(run_id, outcome.directory.path, tuple(results), outcome.summary)


def _gate(function: Answerer, label: str, workers: int | None, timeout: float | None) -> TargetGate:
    settings = TargetSettings(provider="function", max_concurrency=workers, timeout_seconds=timeout, max_retries=0)
    return TargetGate(FunctionProvider(function), settings, name=label)


def _evaluator(item: Evaluator | Callable[..., Any]) -> Evaluator:
    if isinstance(item, Evaluator):
        return item
    if not callable(item):
        raise UsageError(f"{item!r} is no evaluator: give a mapping, an Evaluator, or a function of the answer.")
    return FunctionEvaluator.of(item)


def _paths(
    suites: FilePath | Sequence[FilePath] | None,
    cases: Sequence[Mapping[str, Any]] | None,
    evaluators: list[dict[str, Any]],
    name: str,
    folder: Path,
) -> tuple[str, ...]:
    if (suites is None) == (cases is None):
        raise UsageError(
            "evaluate() takes either suites or cases.",
            next_step="evaluate('suite.yaml') or evaluate(cases=[...])",
        )
    if cases is not None:
        return (str(_write_inline(cases, evaluators, name, folder)),)
    many = [suites] if isinstance(suites, str | PathLike) else list(suites or ())
    return tuple(str(path) for path in many)


def _write_inline(
    cases: Sequence[Mapping[str, Any]], evaluators: list[dict[str, Any]], name: str, folder: Path
) -> Path:
    """Cases given in Python become files too: what was run stays on record, and mistakes have a place."""
    try:
        lines = [json.dumps(dict(case), allow_nan=False) for case in cases]
        cases_file = str(folder / "cases.jsonl")
        head = json.dumps({"dataset": name, "execution": {"evaluators": evaluators}, "evalcases": cases_file})
    except (TypeError, ValueError) as error:
        raise UsageError(f"cases and evaluators must be JSON values: {error}") from None
    make_private(folder)
    (folder / "cases.jsonl").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    path = folder / "suite.yaml"
    path.write_text(head + "\n", encoding="utf-8")
    return path
