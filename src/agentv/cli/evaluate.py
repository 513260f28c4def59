"""`agentv eval`: run suites and record the results."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentv.cli.new_run import Ended, NewRun
from agentv.cli.otel_option import Telemetry, take_telemetry
from agentv.cli.parameters import run_options
from agentv.cli.signals import EXIT_CODES, TO_STOP, until_stopped
from agentv.errors import UsageError
from agentv.plan.build import build_plan
from agentv.plan.options import OPTIONS, RECORD_JUDGE_IO, refuse_empty
from agentv.record.run_dir import find_run
from agentv.recorded import RecordedRun, RunHooks, RunOutcome, resume_run
from agentv.report.console import render_summary
from agentv.report.live import choose_progress
from agentv.report.progress import Progress
from agentv.report.terminal import can_print_unicode, terminal_width, wants_color
from agentv.run.services import protection_gaps
from agentv.run_manifest import recorded_choice, refuse_merged, resumed_options
from agentv.text import plural, short_path

if TYPE_CHECKING:
    from agentv.cli.beside import ViewerBeside

_SIGNALS = (*TO_STOP, signal.SIGHUP)


@click.command(name="eval")
@run_options
@click.option("--name", metavar="NAME", help="Name of this run; accepted wherever a run is.")
@click.option("--experiment", metavar="NAME", help="Experiment that this run belongs to.")
@click.option("--note", metavar="TEXT", help="Note about this run.")
@click.option("--run-dir", metavar="DIR", help="Directory for this run.  [.agentv/runs/<run-id>]")
@click.option("--resume", metavar="RUN", help="Resume a run (id, name, `latest` or directory).")
@click.option("--retry-errors", metavar="RUN", help="Run the errored cases of a run again, and resume it.")
@click.option(
    "--last-failed",
    metavar="[RUN]",
    is_flag=False,
    flag_value="",
    help="Start a new run of the cases that did not pass in RUN.  [latest]",
)
@click.option("--watch", is_flag=True, help="Run again what a saved file affects, until Ctrl-C.")
@click.option("--view", is_flag=True, help="Follow the run in a browser (see `agentv view`).")
@click.option("--allow-changed", is_flag=True, help="With --resume or --retry-errors: accept changed suites.")
@click.option("--otel", metavar="[URL]", is_flag=False, flag_value="", help="Send spans to a collector during the run.")
@click.option("--otel-content", is_flag=True, help="With --otel: include prompts and answers in the spans.")
@click.option("--quiet", "-q", is_flag=True, help="Do not print progress or the summary.")
@click.option("--verbose", "-v", is_flag=True, help="Print which files and targets were loaded.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as a JSON object on stdout.")
def command(**arguments: Any) -> int:
    """Run eval suites and record the results.

    PATHS are suite files, directories or globs; without PATHS, evals/ is run, or the
    suites of RUN with --last-failed.

    \b
    Exit codes: 0 all cases passed    1 some cases failed or are borderline
                2 invalid options or files, nothing was run
                3 some cases errored, or the budget was used up
                130 interrupted       143 terminated
    """
    console = _Console(arguments["quiet"], arguments["as_json"], arguments["verbose"], take_telemetry(arguments))
    console.view = arguments.pop("view")
    try:
        return _evaluate(arguments, console)
    finally:
        console.close()


def _evaluate(arguments: dict[str, Any], console: _Console) -> int:
    watch = arguments.pop("watch")
    refuse_empty({name: value for name, value in arguments.items() if name != "last_failed"})
    _refuse_contradictions(arguments, watch=watch)
    if arguments["resume"] or arguments["retry_errors"]:
        return console.look(console.execute(_resumed(arguments, console.say)))
    if arguments["last_failed"] is not None:
        from agentv.cli.last_failed import last_failed  # noqa: PLC0415 - most runs do not need it

        intent = last_failed(arguments, _is_given)
        if intent is None:
            return 0
    else:
        intent = NewRun.of(arguments)
    plan = intent.plan(watched=watch)
    run = intent.start(plan, console.say)
    if not watch:
        return console.look(console.execute(run))
    from agentv.cli.watch import Watch, Watched  # noqa: PLC0415 - most runs do not need it

    return Watch(intent, console.execute, console.say, Watched.of(plan, intent.cwd)).run(run)


def _refuse_contradictions(arguments: dict[str, Any], *, watch: bool) -> None:
    resumed = "--resume" if arguments["resume"] else "--retry-errors" if arguments["retry_errors"] else None
    if arguments["last_failed"] is not None and resumed:
        raise UsageError(
            f"--last-failed and {resumed} cannot be used together.",
            next_step="--last-failed starts a new run; --resume and --retry-errors complete an existing one.",
        )
    if watch and (resumed or arguments["run_dir"]):
        raise UsageError(
            f"--watch and {resumed or '--run-dir'} cannot be used together: each round is a new run.",
            next_step="Remove one of them.",
        )
    if arguments["allow_changed"] and not resumed:
        raise UsageError("--allow-changed can only be used with --resume or --retry-errors.")


def _is_given(name: str) -> bool:
    source = click.get_current_context().get_parameter_source(name)
    return source is not None and source is not click.core.ParameterSource.DEFAULT


@dataclass(slots=True)
class _Console:
    """Executes runs and prints their notes, progress and summary."""

    quiet: bool
    as_json: bool
    verbose: bool
    telemetry: Telemetry | None
    gaps_printed: bool = False
    """Whether the gaps in the protection of this machine were printed. They are the same for every run."""
    view: bool = False
    """Whether a viewer is started with the first run."""
    viewer: ViewerBeside | None = None

    def say(self, text: str) -> None:
        if not self.quiet:
            click.echo(text, err=True)

    def execute(self, run: RecordedRun) -> Ended:
        gaps = () if self.gaps_printed or run.plan.nodes is not None else protection_gaps(run.plan.needs)
        self.gaps_printed = True
        for note in (*run.plan.notes, *run.notes, *gaps, *(_details(run) if self.verbose else ())):
            self.say(f"note: {note}")
        if self.view and self.viewer is None:
            self._start_viewer(run)
        progress = choose_progress(sys.stderr, self.quiet, os.environ)
        live = self.telemetry.of(run) if self.telemetry is not None else None
        with _target_log(progress):
            work = run.run(RunHooks(progress, on_start=live.start if live is not None else None, own_process=True))
            outcome, received = asyncio.run(until_stopped(work, _SIGNALS, even_if_ignored=TO_STOP))
        if self.telemetry is not None and live is not None:
            self.telemetry.finish(live, quiet=self.quiet)
        stopped = EXIT_CODES[received] if received is not None else None
        if outcome is None:  # stopped before the run started
            click.echo("Stopped.", err=True)
            return Ended(stopped or 0, stopped=True)
        code = stopped if stopped is not None and outcome.interrupted else outcome.summary.exit_code
        if outcome.out_error is not None:
            click.echo(str(outcome.out_error), err=True)
            code = code or 3
        if outcome.interrupted and (self.quiet or self.as_json):
            click.echo(f"interrupted; resume with: {_resume_hint(outcome)}", err=True)
        if self.as_json or not self.quiet:
            click.echo(_shown(outcome, code, as_json=self.as_json))
        return Ended(code, stopped=received is not None)

    def _start_viewer(self, run: RecordedRun) -> None:
        from agentv.cli.beside import ViewerBeside  # noqa: PLC0415 - most runs do not need it

        self.view = False  # with --watch, one viewer shows all rounds
        try:
            self.viewer = ViewerBeside.start(run.directory.path, run.plan.secrets.scrub(os.environ))
        except OSError as error:
            click.echo(f"note: the viewer could not be started: {error.strerror}", err=True)
        else:
            click.echo(f"view this run at {self.viewer.link}", err=True)

    def look(self, ended: Ended) -> int:
        """The exit code of the run, after the user has looked at it in the viewer."""
        if self.viewer is not None and not ended.stopped:
            self.viewer.serve_on()
        return ended.code

    def close(self) -> None:
        if self.viewer is not None:
            self.viewer.end()


def _shown(outcome: RunOutcome, code: int, *, as_json: bool) -> str:
    """The summary, or the counts if a bug prevents it: the exit code is that of the rows in either case."""
    try:
        return json.dumps(_report(outcome, code), indent=2, allow_nan=False) if as_json else _summary(outcome)
    except Exception as error:
        click.echo(f"The summary could not be shown: {type(error).__name__}. This is a bug in agentv.", err=True)
        names = ("total", "passed", "borderline", "failed", "errors", "not_run")
        counts = {name: getattr(outcome.summary, name) for name in names}
        where = {"run_id": outcome.run_id, "run_dir": str(outcome.directory.path), "exit_code": code}
        return json.dumps({**counts, **where}, indent=2)


def _resumed(arguments: dict[str, Any], say: Callable[[str], None]) -> RecordedRun:
    if arguments["resume"] and arguments["retry_errors"]:
        raise UsageError(
            "--resume and --retry-errors cannot be used together.",
            next_step="--retry-errors also runs the cases that have no row yet.",
        )
    retry_errors = bool(arguments["retry_errors"])
    flag, name = ("--retry-errors", arguments["retry_errors"]) if retry_errors else ("--resume", arguments["resume"])
    fixed = [
        "name",
        "experiment",
        "note",
        "run_dir",
        RECORD_JUDGE_IO,
        *(name for name, option in OPTIONS.items() if not option.may_change),
    ]
    extra = [name for name in fixed if arguments[name] and _is_given(name)]
    if extra:
        word = (OPTIONS[extra[0]].keyword if extra[0] in OPTIONS else extra[0]).replace("_", "-") or extra[0]
        raise UsageError(
            f"{flag} takes suites, targets and options from the recorded run; remove {word}.",
            next_step=f"agentv eval {flag} {name}",
        )
    directory = find_run(name, Path.cwd())
    manifest = directory.read_manifest()
    refuse_merged(manifest, flag, directory)
    options, cwd = resumed_options(manifest, directory)
    changed = {
        name: arguments[name] for name, option in OPTIONS.items() if option.may_change and arguments[name] is not None
    }
    if (out := changed.get("out")) not in (None, "-"):
        changed["out"] = str(Path.cwd() / out)  # the paths in run.json are relative to the directory of the first run
    options = replace(options, **changed)
    return resume_run(
        build_plan(options, cwd, record_cases=True, chosen=recorded_choice(manifest, directory)),
        directory,
        manifest,
        allow_changed=arguments["allow_changed"],
        retry_errors=retry_errors,
        new_out="out" in changed,
        say=say,
    )


@contextmanager
def _target_log(progress: Progress) -> Iterator[None]:
    """Print what targets log (`verbose`, `keep_temp_files`) together with the progress."""
    log, handler = logging.getLogger("agentv"), logging.Handler(logging.INFO)
    handler.emit = lambda record: progress.note(record.getMessage())  # type: ignore[method-assign]
    previous_level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(previous_level)


def _details(run: RecordedRun) -> list[str]:
    plan = run.plan
    lines = [f"suite {item.suite.path}: {len(item.selected)} of {len(item.suite.ids)} cases" for item in plan.suites]
    lines += [f"configuration {path}" for path in plan.configs()]
    lines += [f"target {lane.target}: {plural(lane.total, 'row')}, {lane.calls} at a time" for lane in plan.lanes]
    return [*lines, f"run {run.directory.path}"]


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
        limits = [name for name, option in OPTIONS.items() if option.may_change]
        raised = [f"{OPTIONS[name].flag} MORE" for name in limits if outcome.budget.get(name) is not None]
        return " ".join([command, *raised])
    return command if outcome.interrupted else None


def _show_hint(outcome: RunOutcome) -> str | None:
    if not outcome.summary.worst and not outcome.summary.error_groups:
        return None
    from agentv.report.questions import show_hint  # noqa: PLC0415 - only for cases that did not pass

    return show_hint(outcome.summary, outcome.directory)


def _summary(outcome: RunOutcome) -> str:
    return render_summary(
        outcome.summary,
        run_dir=str(short_path(outcome.directory.path, Path.cwd())),
        resume_hint=_resume_hint(outcome),
        retry_hint=outcome.directory.retry_command,
        show_hint=_show_hint(outcome),
        interrupted=outcome.interrupted,
        color=wants_color(sys.stdout, os.environ),
        width=terminal_width(),
        unicode=can_print_unicode(sys.stdout),
    )
