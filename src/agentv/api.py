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
from typing import Any, TypedDict, Unpack

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
from agentv.text import did_you_mean

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


class Options(TypedDict, total=False):
    """The keywords of `evaluate`. From `judge_target` on, they are the options of `agentv eval` (`RunOptions`)."""

    cases: Sequence[Mapping[str, Any]]
    """Cases as in a suite, instead of suites."""
    evaluators: Sequence[AnyEvaluator]
    """They join those of the suites: mappings as in YAML (with `cases`), `Evaluator` objects, or functions."""
    target: str | Answerer | Sequence[str]
    """A function (question in, answer out), or the name of a configured target, or several names."""
    name: str
    """What rows call a suite made of `cases`."""
    run_dir: FilePath
    """The directory of the run, instead of `.agentv/runs/<run-id>`."""
    on_result: Callable[[CaseResult], None]
    """Called with every result as soon as it is recorded."""
    judge_target: str | None
    config: FilePath | None
    case: str | Sequence[str]
    workers: int | None
    repeat: int
    timeout: float | None
    threshold: float | None
    outputs: FilePath | None
    out: FilePath | None
    record_judge_io: bool
    cache: bool
    max_cost: float | None
    max_judge_calls: int | None


def evaluate(suites: FilePath | Sequence[FilePath] | None = None, **options: Unpack[Options]) -> EvaluationRun:
    """Run suites, or `cases` given here, and wait for the results. In a running event loop, await `evaluate_async`."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(evaluate_async(suites, **options))
    raise UsageError(
        "evaluate() was called where an event loop is running already.",
        next_step="Use `await agentv.evaluate_async(...)` there: it takes the same arguments.",
    )


async def evaluate_async(
    suites: FilePath | Sequence[FilePath] | None = None, **options: Unpack[Options]
) -> EvaluationRun:
    """Run suites, or `cases` given here. The run is recorded like one of `agentv eval`."""
    cwd, run_id = Path.cwd(), new_run_id()
    asked = _Asked.of(suites, options, cwd / INLINE / run_id)
    label = asked.function_name
    plan = build_plan(
        asked.run_options, cwd, function_target=label, added_evaluators=asked.added, home=cwd if asked.inline else None
    )
    run = start_run(plan, run_id, cwd / options.get("run_dir", RUNS / run_id), cwd)
    results: list[CaseResult] = []
    on_result = options.get("on_result")

    def keep(row: CaseResult) -> None:
        results.append(row)
        if on_result is not None:
            on_result(row)

    ask = _gate(asked.function, label, asked.run_options).invoke if asked.function and label else None
    outcome = await run.run(RunHooks(function=ask, on_row=keep))
    if outcome.interrupted:
        raise asyncio.CancelledError
    places = enumerate((p.suite.name, case_id) for p in plan.suites for case_id in p.suite.ids)
    order = {named: place for place, named in places}
    # A name that holds a secret is masked in its row, and has no place.
    results.sort(key=lambda row: (order.get((row.suite, row.eval_id), -1), row.target, row.attempt))
    return EvaluationRun(run_id, outcome.directory.path, tuple(results), outcome.summary)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The arguments, sorted out."""

    run_options: RunOptions
    function: Answerer | None
    added: list[Evaluator]
    inline: bool

    @property
    def function_name(self) -> str | None:
        return getattr(self.function, "__name__", type(self.function).__name__) if self.function else None

    @classmethod
    def of(cls, suites: FilePath | Sequence[FilePath] | None, options: Options, folder: Path) -> _Asked:
        if unknown := set(options) - set(Options.__annotations__):
            raise UsageError(
                f"evaluate() takes no {min(unknown)!r}{did_you_mean(min(unknown), Options.__annotations__)}."
            )
        cases, evaluators = options.get("cases"), options.get("evaluators", ())
        written = [dict(item) for item in evaluators if isinstance(item, Mapping)]
        if suites is not None and written:
            raise UsageError(
                "evaluators given as mappings go with `cases`.",
                next_step="Write them into the suite, or pass functions or Evaluator objects.",
            )
        target = options.get("target")
        function = target if callable(target) else None
        if function is not None and options.get("outputs") is not None:
            raise UsageError(
                "`outputs` are answers that exist already: `target` cannot be a function beside them.",
                next_step="Leave one of the two out.",
            )
        paths = _paths(suites, cases, written, options.get("name", "evaluate"), folder)
        keywords = {**options, "target": None} if function else options
        run_options = RunOptions.from_keywords(paths, keywords)
        added = [_evaluator(item) for item in evaluators if not isinstance(item, Mapping)]
        return cls(run_options, function, added, inline=cases is not None)


def _gate(function: Answerer, label: str, options: RunOptions) -> TargetGate:
    settings = TargetSettings(
        provider="function", max_concurrency=options.workers, timeout_seconds=options.timeout, max_retries=0
    )
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
    if isinstance(cases, Mapping) or not all(isinstance(case, Mapping) for case in cases):
        raise UsageError("`cases` is a list of mappings, each a case as in a suite.")
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
