"""The Python API: `evaluate(...)` runs suites, or cases defined in Python, and returns typed results.

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
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from agentv.errors import SuiteError, UsageError
from agentv.evaluators.base import Evaluator
from agentv.evaluators.function import FunctionEvaluator
from agentv.plan.build import build_plan
from agentv.plan.options import RunOptions
from agentv.record import inline
from agentv.record.labels import RunLabels
from agentv.record.run_dir import RUNS, RunDirectory, new_run_id
from agentv.recorded import RunHooks, outputs_file, replayed_run, start_run
from agentv.report.format import format_score
from agentv.report.summary import Summary
from agentv.results import CaseResult
from agentv.targets.gate import TargetGate
from agentv.targets.provider import TargetSettings
from agentv.targets.providers.function import Answerer, FunctionProvider
from agentv.text import did_you_mean, short_path

if TYPE_CHECKING:
    import pandas as pd

FilePath = str | PathLike[str]
AnyEvaluator = Mapping[str, Any] | Evaluator | Callable[..., Any]


@dataclass(frozen=True, slots=True, repr=False)
class EvaluationRun:
    """The outcome of `evaluate`: a result for every case, target and attempt, and the summary."""

    run_id: str
    run_dir: Path
    results: tuple[CaseResult, ...]
    summary: Summary

    @property
    def passed(self) -> bool:
        """Whether every case passed."""
        return self.summary.exit_code == 0

    @property
    def exit_code(self) -> int:
        """The exit code that `agentv eval` would return."""
        return self.summary.exit_code

    def __repr__(self) -> str:
        summary = self.summary
        counts = [(summary.passed, "passed"), (summary.borderline, "borderline"), (summary.failed, "failed")]
        counts += [(summary.errors, "errored"), (summary.not_run, "not run")]
        shown = ", ".join(f"{count:,} {word}" for count, word in counts if count) or "no results"
        mean = "" if summary.mean_score is None else f", mean score {format_score(summary.mean_score)}"
        return f"<EvaluationRun: {shown}{mean}; {short_path(self.run_dir, Path.cwd())}>"

    def to_dicts(self) -> list[dict[str, Any]]:
        """The results as mappings, with the names and values of `results.jsonl`."""
        return [row.to_dict() for row in self.results]

    def to_pandas(self) -> pd.DataFrame:
        """The results as a data frame with the columns of `agentv convert --to csv`. Needs pandas."""
        try:
            import pandas as pd  # noqa: PLC0415 - optional, and slow to import
        except ImportError:
            raise UsageError("to_pandas() needs pandas.", next_step="Install it: pip install pandas") from None
        from agentv.report.export import table  # noqa: PLC0415 - only needed here
        from agentv.report.joined import JoinedRun  # noqa: PLC0415
        from agentv.report.row_source import RowSource  # noqa: PLC0415

        run = RunDirectory(self.run_dir)
        source = RowSource(self.run_id, run.results, run.read_manifest())
        columns, rows = table(JoinedRun.of(source), lambda: self.results)
        return pd.DataFrame(list(rows), columns=columns)

    def __iter__(self) -> Iterator[CaseResult]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)


class Options(TypedDict, total=False):
    """Keyword arguments of `evaluate`. From `prompt` on, they are the options of `agentv eval` (`RunOptions`)."""

    cases: Sequence[Mapping[str, Any]]
    """Cases, written as in a suite, to run instead of suites."""
    evaluators: Sequence[AnyEvaluator]
    """Evaluators that apply to every case: functions, `Evaluator` objects or, with `cases`, mappings as in YAML."""
    target: str | Answerer | Sequence[str] | Sequence[Answerer]
    """One or more functions that take a question and return an answer, or names of configured targets."""
    name: str
    """Suite name in the results when `cases` is used."""
    trials: Mapping[str, Any]
    """Attempts of `cases` and when they pass, as `execution.trials` of a suite: `{"count": 5, "pass_if": "all"}`."""
    run_name: str | None
    """Name of the run, to find it later."""
    experiment: str | None
    """Experiment that the run belongs to."""
    note: str | None
    """Note about the run."""
    run_dir: FilePath
    """Directory for the run, instead of `.agentv/runs/<run-id>`."""
    on_result: Callable[[CaseResult], None]
    """Called with each result as soon as it is recorded."""
    prompt: str | Sequence[str]
    judge_target: str | None
    config: FilePath | None
    case: str | Sequence[str]
    tag: str | Sequence[str]
    exclude_tag: str | Sequence[str]
    where: str | Sequence[str]
    sample: int | None
    seed: int | None
    shard: str | None
    """One of several shards of the run, such as `"2/4"`. `agentv merge` joins them."""
    workers: int | None
    repeat: int | None
    on: str | None
    timeout: float | None
    threshold: float | None
    outputs: FilePath | None
    replay: FilePath | None
    """A run (id, name or directory) whose record answers for all targets and judges. Nothing is called."""
    out: FilePath | None
    judge_io: Literal["all", "failures", "none"]
    cache: bool
    max_cost: float | None
    max_judge_calls: int | None
    max_consecutive_errors: int | None
    record_judge_io: bool
    """Older name: true is `judge_io="all"`, and false is `judge_io="none"`."""


def evaluate(suites: FilePath | Sequence[FilePath] | None = None, **options: Unpack[Options]) -> EvaluationRun:
    """Run suites or `cases` and return the results. Inside a running event loop, use `evaluate_async`."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(evaluate_async(suites, **options))
    raise UsageError(
        "evaluate() cannot be called from a running event loop.",
        next_step="Use `await agentv.evaluate_async(...)`, which takes the same arguments.",
    )


async def evaluate_async(
    suites: FilePath | Sequence[FilePath] | None = None, **options: Unpack[Options]
) -> EvaluationRun:
    """Run suites or `cases`. The run is recorded as `agentv eval` does."""
    cwd, run_id = Path.cwd(), new_run_id()
    folder = cwd / inline.FOLDER / run_id
    arguments = _Arguments.of(suites, options, folder)
    labels = RunLabels(options.get("run_name"), options.get("experiment"), options.get("note"))
    try:
        plan = build_plan(
            arguments.run_options,
            cwd,
            function_targets=list(arguments.functions),
            added_evaluators=arguments.added,
            home=cwd if arguments.inline else None,
            record_cases=True,
        )
    except SuiteError as error:
        raise (inline.in_arguments(error, folder) if arguments.inline else error) from None
    if plan.interpreters:
        from agentv.run.interpreters import with_interpreters  # noqa: PLC0415 - most runs use the Python of agentv

        plan = await asyncio.to_thread(with_interpreters, plan)  # packages may be installed
    run = start_run(plan, run_id, cwd / options.get("run_dir", RUNS / run_id), cwd, labels)
    results: list[CaseResult] = []
    on_result = options.get("on_result")

    def collect(row: CaseResult) -> None:
        results.append(row)
        if on_result is not None:
            on_result(row)

    gates = {name: _gate(each, name, arguments.run_options) for name, each in arguments.functions.items()}
    functions = {name: gate.invoke for name, gate in gates.items()}
    outcome = await run.run(RunHooks(functions=functions, on_row=collect))
    if outcome.interrupted:
        raise asyncio.CancelledError
    keys = enumerate((p.suite.name, case_id) for p in plan.suites for case_id in p.suite.ids)
    order = {key: position for position, key in keys}
    # A name that contains a secret is masked in its row, so it is not in `order`.
    results.sort(key=lambda row: (order.get((row.suite, row.eval_id), -1), row.target, row.attempt))
    return EvaluationRun(run_id, outcome.directory.path, tuple(results), outcome.summary)


@dataclass(frozen=True, slots=True)
class _Arguments:
    """The validated arguments of `evaluate`."""

    run_options: RunOptions
    functions: dict[str, Answerer]
    """The functions that answer, by the name of the target."""
    added: list[Evaluator]
    inline: bool

    @classmethod
    def of(cls, suites: FilePath | Sequence[FilePath] | None, options: Options, folder: Path) -> _Arguments:
        if unknown := set(options) - set(Options.__annotations__):
            raise UsageError(
                f"evaluate() has no argument {min(unknown)!r}{did_you_mean(min(unknown), Options.__annotations__)}."
            )
        cases, evaluators = options.get("cases"), options.get("evaluators", ())
        mappings = [dict(item) for item in evaluators if isinstance(item, Mapping)]
        if suites is not None and mappings:
            raise UsageError(
                "Evaluators can only be mappings when `cases` is used.",
                next_step="Add them to the suite, or pass functions or Evaluator objects.",
            )
        functions = _functions(options.get("target"))
        if functions and options.get("outputs") is not None:
            raise UsageError(
                "`outputs` and a function as `target` cannot be used together: both provide the answers.",
                next_step="Remove one of them.",
            )
        if suites is not None and "trials" in options:
            raise UsageError(
                "`trials` can only be used with `cases`.",
                next_step="Set `execution.trials` in the suite; `repeat` overrides its `count`.",
            )
        paths = _paths(suites, cases, mappings, options, folder)
        keywords = {**options, "target": None} if functions else options
        run_options = RunOptions.from_keywords(paths, keywords)
        if run_options.outputs is not None:
            run_options = replace(run_options, outputs=outputs_file(run_options.outputs, Path.cwd()))
        if run_options.replay is not None:
            run_options = replace(run_options, replay=replayed_run(run_options.replay, Path.cwd()))
        added = [_evaluator(item) for item in evaluators if not isinstance(item, Mapping)]
        _refuse_shared_names([*mappings, *added])
        return cls(run_options, functions, added, inline=cases is not None)


def _functions(target: object) -> dict[str, Answerer]:
    """The functions among the targets by name; empty if the targets are names."""
    listed = list(target) if isinstance(target, list | tuple) else [target]
    functions = [each for each in listed if callable(each)]
    if not functions:
        return {}
    if len(functions) < len(listed):
        raise UsageError(
            "`target` must be functions or names of targets, got a list of both.",
            next_step="Call evaluate() twice, then compare the runs with `agentv compare`.",
        )
    named = {getattr(each, "__name__", type(each).__name__): each for each in functions}
    if len(named) < len(functions):
        names = [getattr(each, "__name__", type(each).__name__) for each in functions]
        shared = next(name for name in names if names.count(name) > 1)
        raise UsageError(
            f"`target` has {names.count(shared)} functions named '{shared}'.",
            next_step="Results are listed by the name of the function: give each function its own name.",
        )
    return named


def _gate(function: Answerer, label: str, options: RunOptions) -> TargetGate:
    settings = TargetSettings(
        provider="function", max_concurrency=options.workers, timeout_seconds=options.timeout, max_retries=0
    )
    if options.max_consecutive_errors is not None:
        settings = settings.model_copy(update={"max_consecutive_errors": options.max_consecutive_errors})
    return TargetGate(FunctionProvider(function), settings, name=label)


def _evaluator(item: Evaluator | Callable[..., Any]) -> Evaluator:
    if isinstance(item, Evaluator):
        return item
    if not callable(item):
        raise UsageError(f"Evaluators must be mappings, Evaluator objects or functions, got {item!r}.")
    return FunctionEvaluator.of(item)


def _paths(
    suites: FilePath | Sequence[FilePath] | None,
    cases: Sequence[Mapping[str, Any]] | None,
    evaluators: list[dict[str, Any]],
    options: Options,
    folder: Path,
) -> tuple[str, ...]:
    if (suites is None) == (cases is None):
        raise UsageError(
            "evaluate() needs either suites or `cases`.",
            next_step="evaluate('suite.yaml') or evaluate(cases=[...])",
        )
    if cases is not None:
        name = options.get("name", "evaluate")
        return (str(inline.write(cases, evaluators, name, folder, options.get("trials"))),)
    paths = [suites] if isinstance(suites, str | PathLike) else list(suites or ())
    if isinstance(suites, Mapping) or any(isinstance(path, Mapping) for path in paths):
        raise UsageError(
            "The first argument of evaluate() must be paths of suites, got a mapping.",
            next_step="Pass cases by name: evaluate(cases=[...])",
        )
    return tuple(str(path) for path in paths)


def _refuse_shared_names(evaluators: Sequence[Mapping[str, Any] | Evaluator]) -> None:
    """UsageError if two evaluators passed to `evaluate` have the same name, for example two lambda functions."""
    names = [item.name if isinstance(item, Evaluator) else item.get("name", item.get("type")) for item in evaluators]
    for name, count in Counter(name for name in names if isinstance(name, str)).items():
        if count > 1:
            raise UsageError(
                f"`evaluators` has {count} evaluators named '{name}'.",
                next_step="Give each its own name: name the functions, or set `name` in the mappings.",
            )
