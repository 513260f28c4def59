"""`agentv eval`: run suites and record the results."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from agentv.cli.numbers import FiniteRange
from agentv.errors import UsageError
from agentv.plan.build import build_plan
from agentv.plan.options import RunOptions, refuse_empty
from agentv.record.run_dir import RUNS, find_run, new_run_id
from agentv.recorded import RecordedRun, RunHooks, RunOutcome, resume_run, resumed_options, start_run
from agentv.report.console import render_summary
from agentv.report.live import choose_progress
from agentv.report.progress import Progress, QuietProgress
from agentv.report.terminal import can_print_unicode, wants_color
from agentv.run.services import protection_gaps
from agentv.text import plural

_RAISED = ("max_cost", "max_judge_calls")
"""Limits that may be set anew when a run goes on."""
_EXIT = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


@click.command(name="eval")
@click.argument("paths", nargs=-1)
@click.option("--target", "targets", multiple=True, metavar="NAME", help="The target to run; several give a matrix.")
@click.option("--judge-target", metavar="NAME", help="Who judges, before every other setting; `none` for nobody.")
@click.option("--config", metavar="FILE", help="The target configuration, instead of the one found near each suite.")
@click.option("--case", "cases", multiple=True, metavar="GLOB", help="Only cases whose id matches; repeatable.")
@click.option("--workers", type=click.IntRange(1), metavar="N", help="Cases in flight per target.")
@click.option("--repeat", type=click.IntRange(1), default=1, metavar="N", help="Attempts per case.  [1]")
@click.option("--timeout", type=FiniteRange(0, min_open=True), metavar="S", help="Deadline of one target call.")
@click.option("--threshold", type=FiniteRange(0, 1), metavar="S", help="The pass line of cases.  [0.8]")
@click.option("--outputs", metavar="FILE", help="Grade answers that exist already (JSON Lines) instead of calling.")
@click.option("--out", metavar="FILE", help="Write rows to this file too, as they finish.")
@click.option("--record-judge-io", is_flag=True, help="Keep prompts and replies of judge calls in judge_calls.jsonl.")
@click.option("--cache", is_flag=True, help="Keep the replies of judges in .agentv/cache, and use those kept earlier.")
@click.option("--max-cost", type=FiniteRange(0, min_open=True), metavar="USD", help="Stop before spending more.")
@click.option("--max-judge-calls", type=click.IntRange(0), metavar="N", help="Judge calls of the whole run.")
@click.option("--run-dir", metavar="DIR", help="The directory of this run.  [.agentv/runs/<run-id>]")
@click.option("--resume", metavar="RUN", help="Go on with a run: its id, or its directory.")
@click.option("--allow-changed", is_flag=True, help="With --resume: go on although suites have changed.")
@click.option("--quiet", "-q", is_flag=True, help="No progress, no summary.")
@click.option("--verbose", "-v", is_flag=True, help="Say what was found and loaded.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object on stdout.")
def command(**given: Any) -> int:
    """Run eval suites: files, directories or globs.

    \b
    Exit code: 0 every case passed    1 some case is borderline or failed
               2 nothing was run      3 some case could not be judged,
               130 interrupted          or the budget is gone
               143 terminated
    """
    quiet, as_json, verbose = given.pop("quiet"), given.pop("as_json"), given.pop("verbose")
    refuse_empty(given)
    run = _resumed(given) if given["resume"] else _new(given)
    say = _speaker(quiet)
    gaps = protection_gaps(run.plan.needs)
    for note in (*run.plan.notes, *run.notes, *gaps, *(_details(run) if verbose else ())):
        say(note)
    progress = QuietProgress() if quiet else choose_progress(sys.stderr, quiet, os.environ)
    with _target_log(progress):
        outcome, received = asyncio.run(_run(run, progress))
    code = _EXIT[received] if received is not None else outcome.summary.exit_code
    if outcome.out_error is not None:
        click.echo(str(outcome.out_error), err=True)
        code = code or 3
    if outcome.interrupted and (quiet or as_json):
        click.echo(f"interrupted; go on with: {_resume_hint(outcome)}", err=True)
    if as_json:
        click.echo(json.dumps(_report(outcome, code), indent=2))
    elif not quiet:
        click.echo(_summary(outcome))
    return code


def _new(given: dict[str, Any]) -> RecordedRun:
    if given["allow_changed"]:
        raise UsageError("--allow-changed goes with --resume.")
    cwd = Path.cwd()
    options = RunOptions.from_dict({name: _listed(value) for name, value in given.items()})
    plan = build_plan(options, cwd)
    run_id = new_run_id()
    directory = Path(given["run_dir"]) if given["run_dir"] else RUNS / run_id
    return start_run(plan, run_id, cwd / directory, cwd)


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _resumed(given: dict[str, Any]) -> RecordedRun:
    context = click.get_current_context()
    own = {"resume", "allow_changed", "quiet", "verbose", "as_json", *_RAISED}
    extra = [
        name
        for name in (*given, "paths")
        if name not in own
        and context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT
        and given[name]
    ]
    if extra:
        word = extra[0].replace("_", "-")
        raise UsageError(
            f"--resume takes suites, targets and options from the run itself; leave out {word}.",
            next_step=f"agentv eval --resume {given['resume']}",
        )
    directory = find_run(given["resume"], Path.cwd())
    manifest = directory.read_manifest()
    options, cwd = resumed_options(manifest, directory)
    options = replace(options, **{name: given[name] for name in _RAISED if given[name] is not None})
    return resume_run(build_plan(options, cwd), directory, manifest, allow_changed=given["allow_changed"])


async def _run(run: RecordedRun, progress: Progress) -> tuple[RunOutcome, signal.Signals | None]:
    """Run until done or told to stop. The first signal ends the work in order; a second one ends the process."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(run.run(RunHooks(progress, own_process=True)))
    received: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        if received:
            os._exit(_EXIT[number])
        received.append(number)
        task.cancel()

    for number in _EXIT:
        # Ignored by whoever wants the run to outlive the terminal (nohup).
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, stop, number)
    outcome = await task
    return outcome, received[0] if received and outcome.interrupted else None


@contextmanager
def _target_log(progress: Progress) -> Iterator[None]:
    """What targets log because their settings ask for it (`verbose`, `keep_temp_files`) is told with the progress."""
    log, handler = logging.getLogger("agentv"), logging.Handler(logging.INFO)
    handler.emit = lambda record: progress.note(record.getMessage())  # type: ignore[method-assign]
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)


def _speaker(quiet: bool) -> Callable[[str], None]:
    def say(note: str) -> None:
        if not quiet:
            click.echo(f"note: {note}", err=True)

    return say


def _details(run: RecordedRun) -> list[str]:
    plan = run.plan
    lines = [f"suite {item.suite.path}: {len(item.selected)} of {len(item.suite.ids)} cases" for item in plan.suites]
    lines += [f"configuration {path}" for path in plan.configs()]
    lines += [f"target {lane.target}: {plural(lane.total, 'row')}, {lane.workers} at a time" for lane in plan.lanes]
    return [*lines, f"run {run.directory.path}"]


def _shown_directory(outcome: RunOutcome) -> str:
    path = outcome.directory.path
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _report(outcome: RunOutcome, code: int) -> dict[str, Any]:
    return {
        **outcome.summary.to_dict(),
        "run_id": outcome.run_id,
        "run_dir": str(outcome.directory.path),
        "exit_code": code,
        "interrupted": outcome.interrupted,
    }


def _resume_hint(outcome: RunOutcome) -> str | None:
    command = outcome.directory.resume_command
    if outcome.summary.not_run:
        raised = [f"--{name.replace('_', '-')} MORE" for name in _RAISED if outcome.budget[name] is not None]
        return " ".join([command, *raised])
    return command if outcome.interrupted else None


def _summary(outcome: RunOutcome) -> str:
    return render_summary(
        outcome.summary,
        run_dir=_shown_directory(outcome),
        resume_hint=_resume_hint(outcome),
        interrupted=outcome.interrupted,
        color=wants_color(sys.stdout, os.environ),
        width=shutil.get_terminal_size((100, 24)).columns,
        unicode=can_print_unicode(sys.stdout),
    )
